//! `pad`: dimensions made wider by a constant or by the input's own elements, and the sums that are its gradient.

use super::cat::joined_strides;
use super::give;
use crate::conv::{memory_format_of, strides_in};
use crate::creation::{fill_params, full::fill_fits};
use crate::elementwise::{is_dense_as, order_of};
use crate::named::{pad_nd as pad, pad_nd_backward as pad_backward};
use crate::prelude::*;
use oneflow_kernels_prim::pad::pieces;

fn mode_of(name: &str) -> Result<PadMode> {
    Ok(match name {
        "constant" => PadMode::Constant,
        "reflect" => PadMode::Reflect,
        "replicate" => PadMode::Replicate,
        "circular" => PadMode::Circular,
        "roll" => PadMode::Roll,
        other => return Err(Error::not_implemented(format!("Unrecognised padding mode {other}"))),
    })
}

/// The dimensions that widths are given for, the last one first: each with what comes before and after it.
fn each(rank: usize, widths: &[i64]) -> Result<impl Iterator<Item = (usize, i64, i64)> + '_> {
    if !widths.len().is_multiple_of(2) || widths.len() / 2 > rank {
        return Err(Error::runtime(format!("pad: {widths:?} are no pairs of widths of at most {rank} dimensions")));
    }
    Ok(widths.chunks_exact(2).enumerate().map(move |(i, w)| (rank - 1 - i, w[0], w[1])))
}

/// Before and after every dimension, the first one first.
fn all_widths(rank: usize, widths: &[i64]) -> Result<SmallVec<[i64; 8]>> {
    let mut all = SmallVec::from_elem(0, 2 * rank);
    each(rank, widths)?.for_each(|(d, before, after)| (all[2 * d], all[2 * d + 1]) = (before, after));
    Ok(all)
}

fn check(mode: PadMode, sizes: &[i64], d: usize, before: i64, after: i64) -> Result<i64> {
    let n = sizes[d];
    let padded = before.checked_add(after).and_then(|w| w.checked_add(n)).ok_or_else(|| {
        Error::runtime(format!("pad: widths ({before}, {after}) of dimension {d} of size {n} are too large"))
    })?;
    match mode {
        PadMode::Constant if padded < 0 => {
            return Err(Error::runtime(format!(
                "The input size {n}, plus negative padding {before} and {after} resulted in a negative output size, which is invalid. Check dimension {d} of your input."
            )));
        }
        PadMode::Constant => return Ok(padded),
        PadMode::Roll if (0..=n).contains(&before) && padded == n => return Ok(n),
        PadMode::Roll => {
            return Err(Error::runtime(format!("pad: a roll by {before} of dimension {d} of size {n}")));
        }
        PadMode::Reflect if before >= n || after >= n => {
            return Err(Error::runtime(format!(
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) at dimension {d} of input {sizes:?}"
            )));
        }
        PadMode::Circular if before > n + after.min(0) || after > n + before.min(0) => {
            return Err(Error::runtime("Padding value causes wrapping around more than once."));
        }
        _ => {}
    }
    if padded < 1 {
        return Err(Error::runtime(format!(
            "pad: dimension {d} of the input {sizes:?} padded by {before} and {after} would be too small"
        )));
    }
    if n == 0 {
        return Err(Error::runtime(format!(
            "Expected {}D input with possibly 0 batch size and other non-zero dimensions, but got: {sizes:?}",
            sizes.len()
        )));
    }
    Ok(padded)
}

/// The elements that a dimension holds afterwards, as their numbers.
fn numbers(like: &Tensor, mode: PadMode, n: i64, before: i64, padded: i64) -> Result<Tensor> {
    let mut parts = pieces(mode, n, before, padded);
    parts.sort_by_key(|p| p.at);
    let parts: Vec<Tensor> = parts
        .iter()
        .map(|p| {
            let (first, step) = p.source.unwrap_or_default();
            let places = like.new_ones_with(&[p.len], Some(DType::I64), None, false)?.cumsum(0)?;
            places.sub(1i64)?.mul(step)?.add(first)
        })
        .collect::<Result<_>>()?;
    f::cat(parts.iter(), 0)
}

fn push(x: &Tensor, sizes: &[i64], outs: &mut Outs) -> Result<()> {
    let strides = strides_in(memory_format_of(x), sizes)?;
    outs.push_strided(x.dtype(), x.device(), Dims::from_slice(sizes), strides)
}

/// What a composition made, where it lies as the result does; a tensor of its own.
fn laid_out(y: Tensor, x: &Tensor) -> Result<Tensor> {
    let format = memory_format_of(x);
    let strides = strides_in(format, y.sizes())?;
    if y.same(x) || y.strides() != strides.as_slice() { y.clone_contiguous_with(Some(format)) } else { Ok(y) }
}

/// Nothing is added: the result is a copy of a part, in its order.
fn is_cut(widths: &[i64]) -> bool {
    widths.iter().all(|w| *w <= 0)
}

/// By concatenations, or picked by the numbers of elements.
fn compose(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    (OP.infer)(c, &mut Outs::new())?;
    let (x, mode) = (c.t(pad::INPUT)?, mode_of(c.str(pad::MODE)?)?);
    let value = c.arg(pad::VALUE).scalar().unwrap_or(Scalar::Int(0));
    let mut y = x.clone();
    for (d, before, after) in each(x.ndim(), c.ints(pad::WIDTHS)?)?.filter(|w| (w.1, w.2) != (0, 0)) {
        let (n, dim) = (x.sizes()[d], d as i64);
        if mode != PadMode::Constant {
            y = y.index_select(dim, &numbers(x, mode, n, before, n + before + after)?)?;
            continue;
        }
        let border = |width: i64| {
            let mut sizes = Dims::from_slice(y.sizes());
            sizes[d] = width.max(0);
            y.new_full_with(&sizes, value, Some(y.dtype()), None, false)
        };
        let (left, right) = (border(before)?, border(after)?);
        let kept =
            pieces(mode, n, before, n + before + after).first().and_then(|p| p.source.map(|s| (s.0, s.0 + p.len)));
        let (start, end) = kept.unwrap_or((0, 0));
        y = f::cat([&left, &y.slice(dim, Some(start), Some(end), 1)?, &right], dim)?;
        // Where nothing is kept, a border may be wider than what is left.
        y = y.slice(dim, Some(0), Some(n + before + after), 1)?;
    }
    let y = match mode {
        PadMode::Constant if is_cut(c.ints(pad::WIDTHS)?) => y.cloned()?,
        PadMode::Circular => y.contiguous()?,
        _ => laid_out(y, x)?,
    };
    give(outs, if y.same(x) { x.cloned()? } else { y })
}

/// Whether the dimension's elements stay in order.
fn is_padded(rank: usize, widths: &[i64]) -> Result<u64> {
    Ok(each(rank, widths)?.filter(|w| (w.1, w.2) != (0, 0)).fold(0, |mask, w| mask | 1 << w.0))
}

/// Other dimensions may be split; a map of sums is linear.
fn rows(rank: usize, widths: &[i64], is_linear: bool, rows: &mut Vec<Row>) -> Result<()> {
    let padded = is_padded(rank, widths)?;
    let dims = (0..rank as u8).filter(|d| padded >> d & 1 == 0).map(Sbp::S);
    for s in dims.chain(is_linear.then_some(Sbp::P_SUM)) {
        rows.push(Row { ins: SmallVec::from_slice(&[s]), outs: SmallVec::from_slice(&[s]) });
    }
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("pad_nd(Tensor input, int[] widths, str mode, Scalar value=0) -> Tensor"),
    doc: "Dimensions made wider, the last one first: `widths` hold what comes before and after each, a negative number is cut off. Mode constant, reflect, replicate, circular, or roll: what leaves at the end comes first.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, mode) = (c.t(pad::INPUT)?, mode_of(c.str(pad::MODE)?)?);
        let mut sizes = Dims::from_slice(x.sizes());
        for (d, before, after) in each(x.ndim(), c.ints(pad::WIDTHS)?)? {
            sizes[d] = check(mode, x.sizes(), d, before, after)?;
        }
        match mode {
            PadMode::Constant if is_cut(c.ints(pad::WIDTHS)?) => {
                let strides = if is_dense_as(&sizes, x.strides()) {
                    Dims::from_slice(x.strides())
                } else {
                    order_of(&[x], &sizes)
                };
                return outs.push_strided(x.dtype(), x.device(), sizes, strides);
            }
            PadMode::Constant => fill_fits(c, x.dtype(), pad::VALUE, &sizes)?,
            PadMode::Circular => return outs.push(x.dtype(), x.device(), &sizes),
            PadMode::Roll => {
                let part = [(Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()))];
                let strides = joined_strides(part.into_iter(), &sizes)?;
                return outs.push_strided(x.dtype(), x.device(), sizes, strides);
            }
            PadMode::Reflect | PadMode::Replicate => {}
        }
        push(x, &sizes, outs)
    },
    kernel: Kernel::Prim {
        prim: &PAD,
        lower: |c, outs, l| {
            let (x, mode) = (c.t(pad::INPUT)?, mode_of(c.str(pad::MODE)?)?);
            let value = c.arg(pad::VALUE).scalar().unwrap_or(Scalar::Int(0));
            l.input(pad::INPUT).output(pad::RESULT).with(PadParams {
                mode,
                widths: all_widths(x.ndim(), c.ints(pad::WIDTHS)?)?,
                value: fill_params(scalar_range::written(outs[pad::RESULT].dtype(), value)),
            });
            Ok(())
        },
    },
    compose: Some(compose),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let (widths, mode) = (c.arg(pad::WIDTHS).ints().unwrap_or(&[]), c.arg(pad::MODE).str().unwrap_or(""));
            out.set(pad::INPUT, || {
                let (g, sizes) = (c.g()?, &c.in_meta(pad::INPUT)?.sizes);
                let back: Dims = widths.iter().map(|w| -w).collect();
                match mode_of(mode)? {
                    PadMode::Constant if widths.iter().all(|w| *w >= 0) => {
                        let mut g = g.clone();
                        for (d, before, _) in each(sizes.len(), widths)? {
                            g = g.slice(d as i64, Some(before), Some(before + sizes[d]), 1)?;
                        }
                        Ok(g)
                    }
                    PadMode::Constant => g.pad_nd(&back, "constant", 0),
                    PadMode::Roll => {
                        let mut back = back;
                        for (d, before, _) in each(sizes.len(), widths)? {
                            let at = 2 * (sizes.len() - 1 - d);
                            (back[at], back[at + 1]) = (sizes[d] - before, before - sizes[d]);
                        }
                        g.pad_nd(&back, "roll", 0)
                    }
                    _ => g.pad_nd_backward(sizes, widths, mode),
                }
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, to| {
        let is_linear = c.str(pad::MODE)? != "constant" || c.arg(pad::VALUE).scalar().is_none_or(|v| v.to_f64() == 0.0);
        rows(c.t(pad::INPUT)?.ndim(), c.ints(pad::WIDTHS)?, is_linear, to)
    })),
    samples: || {
        let t = |s: &[i64], widths: &[i64], mode, value| {
            Sample::new(vec![
                SampleArg::f32(s),
                SampleArg::Ints(widths.to_vec()),
                SampleArg::Str(mode),
                SampleArg::Float(value),
            ])
        };
        vec![
            t(&[2, 3, 4], &[1, 2, 0, 3], "constant", 0.0),
            t(&[2, 3, 4], &[-1, 2, 1, -2], "constant", 1.5),
            t(&[3], &[-1, 0], "constant", 0.0),
            t(&[2, 3, 4], &[1, 3], "reflect", 0.0),
            t(&[2, 3, 4, 5], &[2, 1, 1, -1], "replicate", 0.0),
            t(&[2, 3, 4, 5], &[2, 3, 1, 0], "circular", 0.0),
            t(&[2, 3, 4], &[1, -1, 2, -2], "roll", 0.0),
        ]
    },
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("pad_nd_backward(Tensor grad_output, int[] sizes, int[] widths, str mode) -> Tensor"),
    doc: "Gradient of an input of `sizes` that `pad` made wider by its own elements.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (g, sizes) = (c.t(pad_backward::GRAD_OUTPUT)?, c.ints(pad_backward::SIZES)?);
        let mode = mode_of(c.str(pad_backward::MODE)?)?;
        if g.ndim() != sizes.len() || matches!(mode, PadMode::Constant | PadMode::Roll) {
            return Err(Error::runtime(format!(
                "pad_nd_backward: a gradient {:?} of an input {sizes:?} in mode {mode:?}",
                g.sizes()
            )));
        }
        let mut padded = Dims::from_slice(sizes);
        for (d, before, after) in each(sizes.len(), c.ints(pad_backward::WIDTHS)?)? {
            padded[d] = check(mode, sizes, d, before, after)?;
        }
        if padded.as_slice() != g.sizes() {
            return Err(Error::runtime(format!(
                "pad_nd_backward: the gradient has sizes {:?}, the padded input {padded:?}",
                g.sizes()
            )));
        }
        push(g, sizes, outs)
    },
    kernel: Kernel::Prim {
        prim: &PAD_BACKWARD,
        lower: |c, outs, l| {
            let widths = all_widths(outs[pad_backward::RESULT].ndim(), c.ints(pad_backward::WIDTHS)?)?;
            let mode = mode_of(c.str(pad_backward::MODE)?)?;
            l.input(pad_backward::GRAD_OUTPUT).output(pad_backward::RESULT).with(PadBackwardParams { mode, widths });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        (BACKWARD.infer)(c, &mut Outs::new())?;
        let (g, sizes) = (c.t(pad_backward::GRAD_OUTPUT)?, c.ints(pad_backward::SIZES)?);
        let mode = mode_of(c.str(pad_backward::MODE)?)?;
        let mut y = g.clone();
        for (d, before, after) in each(sizes.len(), c.ints(pad_backward::WIDTHS)?)? {
            let mut wanted = Dims::from_slice(y.sizes());
            wanted[d] = sizes[d];
            let from = numbers(g, mode, sizes[d], before, sizes[d] + before + after)?;
            y = y.new_zeros(&wanted)?.index_add(d as i64, &from, &y)?;
        }
        give(outs, laid_out(y, g)?)
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let widths = c.arg(pad_backward::WIDTHS).ints().unwrap_or(&[]);
            out.set(pad_backward::GRAD_OUTPUT, || {
                c.g()?.pad_nd(widths, c.arg(pad_backward::MODE).str().unwrap_or(""), 0)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, to| {
        rows(c.t(pad_backward::GRAD_OUTPUT)?.ndim(), c.ints(pad_backward::WIDTHS)?, true, to)
    }))
    .with(Localize::Sizes(pad_backward::SIZES)),
    samples: || {
        let t = |g: &[i64], sizes: &[i64], widths: &[i64], mode| {
            let ints = |v: &[i64]| SampleArg::Ints(v.to_vec());
            Sample::new(vec![SampleArg::f32(g), ints(sizes), ints(widths), SampleArg::Str(mode)])
        };
        vec![
            t(&[2, 3, 8], &[2, 3, 4], &[1, 3], "reflect"),
            t(&[2, 3, 4, 8], &[2, 3, 4, 5], &[2, 1, 1, -1], "replicate"),
            t(&[2, 3, 5, 10], &[2, 3, 4, 5], &[2, 3, 1, 0], "circular"),
        ]
    },
    ..OpDef::BASE
};
