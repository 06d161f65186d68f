//! `index_put`: A copy of `input` with `values` (broadcast) written, or added, at the indices.

use super::overlapped::write_changed_of;
use crate::named::index_put;
use crate::prelude::*;

/// One index, or none, a dimension.
type Indices = SmallVec<[Option<Tensor>; 4]>;

/// The masks of a single truth, and `x` with a dimension of one for each of them, along which it is a mask of one place.
fn spread_truths(x: &Tensor, indices: &[Option<&Tensor>]) -> Result<(Tensor, Indices, Dims)> {
    let (mut spread, mut list, mut added): (_, Indices, _) = (x.clone(), SmallVec::new(), Dims::new());
    let mut at = 0;
    for index in indices {
        match index {
            Some(m) if is_mask(m) && m.ndim() == 0 => {
                spread = spread.unsqueeze(at)?;
                added.push(at);
                list.push(Some(m.reshape(&[1])?));
                at += 1;
            }
            Some(m) if is_mask(m) => {
                list.push(Some((*m).clone()));
                at += m.ndim() as i64;
            }
            other => {
                list.push(other.cloned());
                at += 1;
            }
        }
    }
    Ok((spread, list, added))
}

fn is_mask(t: &Tensor) -> bool {
    matches!(t.dtype(), DType::Bool | DType::U8)
}

/// Indices as the kernels want them: int64, a mask as the places where it is set.
fn widened<'a>(x: &Tensor, indices: impl Iterator<Item = Option<&'a Tensor>>) -> Result<Indices> {
    let mut list: Indices = SmallVec::new();
    for index in indices {
        match index {
            Some(m) if is_mask(m) => {
                let at = list.len();
                let under = x.sizes().get(at..at + m.ndim());
                if under != Some(m.sizes()) {
                    return Err(Error::index(format!(
                        "index_put(): The shape of the mask {:?} at index {at} does not match the shape of the indexed tensor {:?}",
                        m.sizes(),
                        x.sizes()
                    )));
                }
                let set = m.nonzero()?;
                for k in 0..m.ndim() as i64 {
                    list.push(Some(set.select(1, k)?));
                }
            }
            Some(t) if t.dtype().is_int() => list.push(Some(super::wide(t)?)),
            other => list.push(other.cloned()),
        }
    }
    Ok(list)
}

/// Whether the kernel reads these indices as they are.
fn is_wide(indices: &[Option<&Tensor>]) -> bool {
    indices.iter().flatten().all(|t| t.dtype() == DType::I64)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("index_put(Tensor input, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"),
    doc: "A copy of `input` with `values` (broadcast) written, or added, at the indices.

Example::

    >>> oneflow.index_put(oneflow.zeros(3), (oneflow.tensor([0, 2]),), oneflow.ones(2))
    tensor([1., 0., 1.])",
    faces: Faces::FN_METHOD.or(Faces::INPLACE),
    infer: |c, outs| {
        let x = c.t(index_put::INPUT)?;
        let indices = c.list(index_put::INDICES);
        let v = c.t(c.place(index_put::VALUES))?;
        if v.dtype() != x.dtype() {
            return Err(Error::runtime(format!(
                "Index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
                x.dtype().scalar_type_name(),
                v.dtype().scalar_type_name()
            )));
        }
        if !is_wide(indices) && indices.iter().flatten().all(|t| t.dtype().is_int() || t.dtype() == DType::Bool) {
            return crate::elementwise::push_like(x, x.dtype(), x.device(), None, outs);
        }
        let plan = super::index::plan(c, indices)?;
        let fits = broadcast_shapes(&plan.sizes, v.sizes()).is_ok_and(|s| s.len() >= plan.sizes.len())
            && v.sizes().iter().rev().zip(plan.sizes.iter().rev()).all(|(a, b)| *a == *b || *a == 1)
            && v.sizes().iter().rev().skip(plan.sizes.len()).all(|s| *s == 1);
        if !fits {
            return Err(Error::runtime(format!(
                "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {:?}",
                v.sizes(),
                plan.sizes.as_slice()
            )));
        }
        crate::elementwise::push_like(x, x.dtype(), x.device(), None, outs)
    },
    kernel: Kernel::Prim {
        prim: &INDEX_PUT,
        lower: |c, _, l| {
            let indices = c.list(index_put::INDICES);
            if !is_wide(indices) {
                return Err(Error::not_implemented("index_put: masks become indices in the composition"));
            }
            let plan = super::index::plan(c, indices)?;
            let v = c.t(c.place(index_put::VALUES))?;
            super::moves_only(
                v.dtype(),
                if c.bool(index_put::ACCUMULATE) { ScatterKind::Add } else { ScatterKind::Set },
            )?;
            l.starts_as(index_put::INPUT);
            if v.ndim() > plan.sizes.len() {
                let lead = v.ndim() - plan.sizes.len();
                l.input_as(
                    c.place(index_put::VALUES),
                    plan.sizes.clone(),
                    Dims::from_slice(&v.strides()[lead..]),
                    v.offset(),
                );
            } else {
                l.input_expanded(c.place(index_put::VALUES), v, &plan.sizes);
            }
            super::index::push_indices(l, index_put::INDICES, c, indices, c.t(index_put::INPUT)?.ndim(), &plan.shape);
            l.output(index_put::RESULT).with(IndexPutParams {
                index: IndexParams { position: plan.position, n_dims: plan.shape.len() },
                accumulate: c.bool(index_put::ACCUMULATE),
            });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let indices = c.list(index_put::INDICES);
        if is_wide(indices) {
            return Err(Error::not_implemented(format!("{}(): is not implemented for {}", c.name(), c.describe())));
        }
        let (x, indices, added) = spread_truths(c.t(index_put::INPUT)?, indices)?;
        let list = widened(&x, indices.iter().map(Option::as_ref))?;
        let values = c.t(c.place(index_put::VALUES))?;
        let put = x.index_put(list.iter().map(Option::as_ref), values, c.bool(index_put::ACCUMULATE))?;
        outs.give(if added.is_empty() { put } else { put.squeeze_dim(&added)? });
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::from_list(index_put::INDICES, InMask::ALL)],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(index_put::INPUT, || {
                if c.arg(index_put::ACCUMULATE).bool() {
                    return Ok(c.g()?.clone());
                }
                let zero = c.g()?.new_zeros(&[])?;
                c.g()?.index_put(c.xs(index_put::INDICES), &zero, false)
            })?;
            out.set(c.place(index_put::VALUES), || {
                let list = widened(c.g()?, c.xs(index_put::INDICES))?;
                c.g()?.index(list.iter().map(Option::as_ref))
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        if !c.bool(index_put::ACCUMULATE) {
            return Ok(());
        }
        let n = c.ins.len();
        let mut ins: SmallVec<[Sbp; 4]> = SmallVec::from_elem(Sbp::B, n);
        ins[0] = Sbp::P_SUM;
        ins[n - 1] = Sbp::P_SUM;
        rows.push(Row { ins, outs: SmallVec::from_slice(&[Sbp::P_SUM]) });
        Ok(())
    })),
    samples: || {
        let list = vec![SampleArg::i64(&[2], 0, 3)];
        vec![Sample::new(vec![
            SampleArg::f32(&[3, 4]),
            SampleArg::List(list),
            SampleArg::f32(&[4]),
            SampleArg::Bool(true),
        ])]
    },
    traits: Traits::STARTS_AS_FIRST.or(Traits::READS_DISJOINT),
    into_overlapped: Some(write_changed_of!("index_put", "tensor[indices] = tensor")),
    limited: Limited::FLOAT8.or(Limited::COMPLEX),
    ..OpDef::BASE
};
