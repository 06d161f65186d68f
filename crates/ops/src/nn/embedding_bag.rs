//! Bags of rows of a table, summed, averaged or compared without the rows in between. Gradients are made of other ops.

use super::embedding::{by_frequency, sparse_gradient, window};
use super::{narrow, wide};
use crate::named::native_embedding_bag as at;
use crate::prelude::*;

fn mode_of(c: &Call<'_>) -> Result<BagMode> {
    match c.str(at::MODE)? {
        "sum" => Ok(BagMode::Sum),
        "mean" => Ok(BagMode::Mean),
        "max" => Ok(BagMode::Max),
        _ => Err(Error::value("mode has to be one of sum, mean or max")),
    }
}

fn check(c: &Call<'_>) -> Result<()> {
    let (weight, index, mode) = (c.t(at::WEIGHT)?, c.t(at::INDICES)?, mode_of(c)?);
    if weight.ndim() != 2 {
        return Err(Error::value(format!(
            "weight has to be a 2D Tensor, but got Tensor of dimension {}",
            weight.ndim()
        )));
    }
    for (what, t) in [("indices", Some(index)), ("offsets", c.opt(at::OFFSETS))] {
        if let Some(t) = t.filter(|t| t.dtype() != DType::I64 && t.dtype() != DType::I32) {
            return Err(Error::runtime(format!(
                "embedding_bag(): Expected tensor for argument '{what}' to have one of the following scalar types: Long, Int; but got {} instead",
                t.dtype().scalar_type_name()
            )));
        }
    }
    match (index.ndim(), c.opt(at::OFFSETS)) {
        (2, None) => {}
        (2, Some(_)) => {
            return Err(Error::value(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, found offsets of type Tensor",
            ));
        }
        (1, None) => return Err(Error::value("offsets has to be a 1D Tensor but got None")),
        (1, Some(o)) if o.ndim() == 1 => {}
        (1, Some(_)) => return Err(Error::value("offsets has to be a 1D Tensor")),
        (n, _) => {
            return Err(Error::value(format!("input has to be 1D or 2D Tensor, but got Tensor of dimension {n}")));
        }
    }
    if c.opt(at::OFFSETS).is_some_and(|o| c.bool(at::INCLUDE_LAST_OFFSET) && o.numel() == 0) {
        return Err(Error::runtime("include_last_offset: number of offsets should be at least 1"));
    }
    if let Some(w) = c.opt(at::PER_SAMPLE_WEIGHTS) {
        if mode != BagMode::Sum {
            return Err(Error::not_implemented(format!(
                "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got mode='{}'). Please open a feature request on GitHub.",
                c.str(at::MODE)?
            )));
        }
        if w.sizes() != index.sizes() {
            return Err(Error::value(format!(
                "embedding_bag: If per_sample_weights ({:?}) is not None, then it must have the same shape as the input ({:?})",
                w.sizes(),
                index.sizes()
            )));
        }
        if w.dtype() != weight.dtype() {
            return Err(Error::runtime(format!(
                "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #2 'per_sample_weights'; but type {} does not equal {} (while checking arguments for embedding_bag)",
                weight.dtype(),
                w.dtype()
            )));
        }
    }
    if mode == BagMode::Max && (c.bool(at::SCALE_GRAD_BY_FREQ) || c.bool(at::SPARSE)) {
        let what = if c.bool(at::SPARSE) { "sparse weights" } else { "scaling the gradient by the frequency" };
        return Err(Error::value(format!("max mode does not support {what}")));
    }
    let rows = weight.sizes()[0];
    match c.int(at::PADDING_IDX)? {
        p if p >= rows.max(c.int(at::TOTAL)?) || p < -1 => Err(Error::runtime(format!(
            "padding_idx must be within the number of embeddings, -{rows} through {}, but got {p}",
            rows - 1
        ))),
        _ => Ok(()),
    }
}

/// How many bags there are.
fn n_bags(index: &[i64], offsets: Option<i64>, last_is_end: bool) -> i64 {
    offsets.map_or(index[0], |n| n - last_is_end as i64)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "native_embedding_bag(Tensor weight, Tensor indices, Tensor? offsets, Tensor? per_sample_weights, str mode=\"mean\", bool scale_grad_by_freq=False, bool sparse=False, bool include_last_offset=False, int padding_idx=-1, int start=0, int total=-1) -> (Tensor output, Tensor chosen)",
    ),
    doc: "Sums, means or maxima of bags of rows of a table [v, d]; of maxima also the indices they came from (-1: an empty bag).
`start` and `total` make this part of a table split by rows.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        check(c)?;
        let (w, d) = (c.t(at::WEIGHT)?, c.t(at::WEIGHT)?.sizes()[1]);
        let n = n_bags(c.t(at::INDICES)?.sizes(), c.opt(at::OFFSETS).map(|o| o.numel()), c.bool(at::INCLUDE_LAST_OFFSET));
        outs.push(w.dtype(), w.device(), &[n, d])?;
        let chosen: &[i64] = if mode_of(c)? == BagMode::Max { &[n, d] } else { &[0] };
        outs.push(DType::I64, w.device(), chosen)
    },
    kernel: Kernel::Prim {
        prim: &EMBEDDING_BAG,
        lower: |c, _, l| {
            let (start, total) = part(c)?;
            l.input(at::WEIGHT).input(at::INDICES).opt_input(at::OFFSETS, c.opt(at::OFFSETS).is_some()).opt_input(at::PER_SAMPLE_WEIGHTS, c.opt(at::PER_SAMPLE_WEIGHTS).is_some()).output(at::OUTPUT).output(at::CHOSEN);
            l.with(EmbeddingBagParams {
                mode: mode_of(c)?,
                padding: c.int(at::PADDING_IDX)?,
                last_offset_is_end: c.bool(at::INCLUDE_LAST_OFFSET),
                start,
                total,
            });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (weight, index, mode) = (c.t(at::WEIGHT)?, c.t(at::INDICES)?, mode_of(c)?);
        let (start, total) = part(c)?;
        let bags = Bags { index, offsets: c.opt(at::OFFSETS), last_is_end: c.bool(at::INCLUDE_LAST_OFFSET), padding: c.int(at::PADDING_IDX)? };
        let rows = weight.embedding(index, -1, false, false, start, total)?;
        if mode == BagMode::Max {
            let (out, chosen) = bags.max(&rows)?;
            outs.give(out);
            outs.give(chosen);
            return Ok(());
        }
        let mut rows = wide(&rows)?;
        if let Some(w) = c.opt(at::PER_SAMPLE_WEIGHTS) {
            rows = rows.mul(&wide(w)?.unsqueeze(-1)?)?;
        }
        let mut sum = bags.sum(&bags.without_padding(rows, 0.0)?)?;
        if mode == BagMode::Mean {
            sum = sum.div(&bags.counts(&sum)?)?;
        }
        outs.give(narrow(sum, weight.dtype())?);
        outs.give(index.new_zeros_with(&[0], Some(DType::I64), None, false)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(at::WEIGHT, &[at::PER_SAMPLE_WEIGHTS]),
            Save::of(at::INDICES, &[at::WEIGHT, at::PER_SAMPLE_WEIGHTS]),
            Save::of(at::OFFSETS, &[at::WEIGHT, at::PER_SAMPLE_WEIGHTS]),
            Save::of(at::PER_SAMPLE_WEIGHTS, &[at::WEIGHT]),
            Save::out(at::CHOSEN, &[at::WEIGHT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (g, index, sizes) = (c.g()?, c.x(at::INDICES)?, &c.in_meta(at::WEIGHT)?.sizes);
            let int = |at: At<i64>, default| c.arg(at).int().unwrap_or(default);
            let (mode, padding, start) = (c.arg(at::MODE).str().unwrap_or(""), int(at::PADDING_IDX, -1), int(at::START, 0));
            let total = if int(at::TOTAL, -1) < 0 { sizes[0] } else { int(at::TOTAL, -1) };
            let bags = Bags { index, offsets: c.opt_x(at::OFFSETS), last_is_end: c.arg(at::INCLUDE_LAST_OFFSET).bool(), padding };
            out.set(at::WEIGHT, || {
                if mode == "max" {
                    // In the wider dtype: an index may be the greatest in many bags.
                    let (chosen, g) = (c.y(at::CHOSEN)?, wide(g)?);
                    let empty = chosen.lt(0)?;
                    let sums = g.new_zeros(sizes)?.scatter_add(
                        0,
                        &chosen.masked_fill(&empty, 0)?,
                        &g.masked_fill(&empty, 0.0)?,
                    )?;
                    return narrow(sums, c.g()?.dtype());
                }
                let g = if mode == "mean" { g.div(&bags.counts(g)?)? } else { g.clone() };
                let mut rows = bags.to_indices(&g)?;
                if let Some(w) = c.opt_x(at::PER_SAMPLE_WEIGHTS) {
                    rows = rows.mul(&w.unsqueeze(-1)?)?;
                }
                if c.arg(at::SCALE_GRAD_BY_FREQ).bool() {
                    rows = by_frequency(&rows, index, total)?;
                }
                if c.arg(at::SPARSE).bool() {
                    return sparse_gradient(&rows, index, sizes, padding);
                }
                rows.embedding_backward(index, sizes[0], padding, start, total)
            })?;
            out.set(at::PER_SAMPLE_WEIGHTS, || {
                let rows = c.x(at::WEIGHT)?.embedding(index, -1, false, false, start, total)?;
                let each = bags.to_indices(g)?.mul(&rows)?.sum(&[-1], false)?;
                if padding < 0 { Ok(each) } else { each.masked_fill(&index.eq(padding)?, 0.0) }
            })
        },
    },
    differentiable: OutMask::of(&[at::OUTPUT]),
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let max = mode_of(c)? == BagMode::Max;
        let mut row = |ins: [Sbp; 4], out: Sbp| {
            let present = c.ins.iter().zip(ins).filter(|(t, _)| t.is_some()).map(|(_, s)| s).collect();
            rows.push(Row { ins: present, outs: SmallVec::from_slice(&[out, if max { out } else { Sbp::B }]) })
        };
        row([Sbp::S(1), Sbp::B, Sbp::B, Sbp::B], Sbp::S(1));
        if c.opt(at::OFFSETS).is_none() {
            row([Sbp::B, Sbp::S(0), Sbp::B, Sbp::S(0)], Sbp::S(0));
        }
        if !max {
            row([Sbp::S(0), Sbp::B, Sbp::B, Sbp::B], Sbp::P_SUM);
            row([Sbp::P_SUM, Sbp::B, Sbp::B, Sbp::B], Sbp::P_SUM);
        }
        Ok(())
    }))
    .with(Localize::Custom(|c, mesh, attrs| {
        let whole = c.t(at::WEIGHT)?.sizes()[0];
        let (start, _, rows) = window(mesh, at::WEIGHT, whole);
        if rows != whole {
            *attrs = attrs.with(at::START.index(), Arg::Int(start)).with(at::TOTAL.index(), Arg::Int(whole));
        }
        Ok(())
    })),
    samples: || {
        let none = || SampleArg::None;
        let even = |mode| {
            let args = vec![SampleArg::f32(&[8, 4]), SampleArg::i64(&[2, 3], 0, 8), none(), none(), SampleArg::Str(mode)];
            Sample::new(args)
        };
        // One bag, which starts at zero.
        let ragged = |mode| {
            let (index, offsets) = (SampleArg::i64(&[4], 0, 5), SampleArg::i64(&[1], 0, 1));
            Sample::new(vec![SampleArg::f32(&[5, 2]), index, offsets, none(), SampleArg::Str(mode)])
        };
        let mut weighted = even("sum");
        weighted.args[3] = SampleArg::f32(&[2, 3]);
        let padded = |s: Sample| s.kw("padding_idx", SampleArg::Int(1));
        vec![even("sum"), padded(even("mean")), even("max"), ragged("mean"), padded(ragged("max")), padded(weighted)]
    },
    ..OpDef::BASE
};

/// Sums of the rows that each stretch of `columns` between two neighbouring `starts` names, times their weights.
pub fn weighted_sums(rows: &Tensor, starts: &Tensor, columns: &Tensor, weights: &Tensor) -> Result<Tensor> {
    let made = rows.native_embedding_bag(columns, Some(starts), Some(weights), "sum", false, false, true, -1, 0, -1)?;
    let [sums, _] = made;
    Ok(sums)
}

/// The first row of this part of the table, and how many rows the whole has.
fn part(c: &Call<'_>) -> Result<(i64, i64)> {
    Ok((c.int(at::START)?, if c.int(at::TOTAL)? < 0 { c.t(at::WEIGHT)?.sizes()[0] } else { c.int(at::TOTAL)? }))
}

/// Bags as ops see them.
struct Bags<'a> {
    index: &'a Tensor,
    offsets: Option<&'a Tensor>,
    last_is_end: bool,
    padding: i64,
}

impl Bags<'_> {
    fn len(&self) -> i64 {
        n_bags(self.index.sizes(), self.offsets.map(|o| o.numel()), self.last_is_end)
    }

    /// The bag of each index, flat. What comes after the last bag's end gets one bag more.
    fn of(&self) -> Result<Tensor> {
        // 0, 1, ... where the indices are: on all ranks of a global tensor.
        let arange = |n: i64| -> Result<Tensor> {
            self.index.new_ones_with(&[n], Some(DType::I64), None, false)?.cumsum(0)?.sub(1)
        };
        match self.offsets {
            Some(o) => {
                let o = o.to_copy_with(Some(DType::I64), None)?;
                o.searchsorted_with(&arange(self.index.numel())?, false, true, None, None)?.sub(1)
            }
            None => arange(self.len())?.unsqueeze(1)?.expand(self.index.sizes())?.reshape(&[-1]),
        }
    }

    /// `rows` [indices..., d] with `value` in those of the padding.
    fn without_padding(&self, rows: Tensor, value: f64) -> Result<Tensor> {
        if self.padding < 0 {
            return Ok(rows);
        }
        rows.masked_fill(&self.index.eq(self.padding)?.unsqueeze(-1)?, value)
    }

    /// Rows [indices..., d] summed by bag.
    fn sum(&self, rows: &Tensor) -> Result<Tensor> {
        if self.offsets.is_none() {
            return rows.sum(&[1], false);
        }
        let n = self.len();
        rows.new_zeros(&[n + 1, rows.sizes()[1]])?.index_add(0, &self.of()?, rows)?.narrow(0, 0, n)
    }

    /// Numbers of indices without padding, [bags, 1], at least one.
    fn counts(&self, like: &Tensor) -> Result<Tensor> {
        let sizes: Dims = self.index.sizes().iter().copied().chain([1]).collect();
        let ones = self.without_padding(like.new_ones(&sizes)?, 0.0)?;
        self.sum(&ones)?.clamp(Some(Scalar::Int(1)), None)
    }

    /// Each bag's row for each of its indices, [indices..., d].
    fn to_indices(&self, g: &Tensor) -> Result<Tensor> {
        let d = g.sizes()[1];
        match self.offsets {
            None => g.unsqueeze(1)?.expand(&[self.len(), self.index.sizes()[1], d]),
            // After the last bag's end there is nothing.
            Some(_) => f::cat([g, &g.new_zeros(&[1, d])?], 0)?.index_select(0, &self.of()?),
        }
    }

    /// Greatest elements of each bag, and the indices they came from.
    fn max(&self, rows: &Tensor) -> Result<(Tensor, Tensor)> {
        let (n, n_rows, d) = (self.len(), self.index.numel(), rows.sizes()[rows.ndim() - 1]);
        let low = f64::NEG_INFINITY;
        let (bag, flat) = (self.of()?, self.without_padding(rows.clone(), low)?.reshape(&[n_rows, d])?);
        let best = rows.new_full(&[n + 1, d], low)?.index_reduce(0, &bag, &flat, "amax")?;
        // The first position of each bag that holds its greatest element, or none.
        let index = self.index.reshape(&[-1])?.to_copy_with(Some(DType::I64), None)?;
        let misses = flat.lt(&best.index_select(0, &bag)?)?.logical_or(&index.eq(self.padding)?.unsqueeze(1)?)?;
        let positions = f::arange_with(n_rows, Some(DType::I64), Some(rows.device()), false)?.unsqueeze(1)?;
        let at = positions.expand(&[n_rows, d])?.masked_fill(&misses, n_rows)?;
        let first = index.new_full(&[n + 1, d], n_rows)?.index_reduce(0, &bag, &at, "amin")?;
        let named = f::cat([&index, &index.new_full(&[1], -1i64)?], 0)?;
        let chosen = named.index_select(0, &first.reshape(&[-1])?)?.reshape(&[n + 1, d])?.narrow(0, 0, n)?;
        let best = best.narrow(0, 0, n)?.masked_fill(&chosen.lt(0)?, 0.0)?;
        Ok((best, chosen))
    }
}
