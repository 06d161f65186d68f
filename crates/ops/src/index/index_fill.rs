//! `index_fill`: A copy of `input` with one value at the given entries of a dimension.

use super::overlapped::write_changed_of;
use super::{COMPOSED, give, wide};
use crate::named::index_fill;
use crate::prelude::*;

/// A vector index of int64; `what` names the op as torch does.
pub(super) fn vector(c: &Call<'_>, index: In) -> Result<Tensor> {
    let t = c.t(index)?;
    if t.ndim() > 1 {
        return Err(Error::index(format!(
            "{}(): Index is supposed to be a vector, got shape {:?}",
            c.name(),
            t.sizes()
        )));
    }
    if t.dtype() != DType::I64 && !(t.dtype() == DType::I32 && c.name() != "index_copy") {
        return Err(Error::runtime(format!("{}_(): Expected dtype int64 for index, but got {}", c.name(), t.dtype())));
    }
    wide(&if t.ndim() == 0 { t.reshape(&[1])? } else { t.clone() })
}

fn samples(value: fn() -> SampleArg) -> Vec<Sample> {
    let t = |d| Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Int(d), SampleArg::i64(&[2], 0, 3), value()]);
    vec![t(0), t(1)]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("index_fill(Tensor input, int dim, Tensor index, Tensor|Scalar value) -> Tensor"),
    doc: "A copy of `input` with one value at the given entries of a dimension.

Example::

    >>> oneflow.index_fill(oneflow.zeros(3), 0, oneflow.tensor([0, 2]), 1.)
    tensor([1., 0., 1.])",
    faces: Faces::FN_METHOD.or(Faces::INPLACE),
    compose: Some(|c, outs| {
        let x = c.t(index_fill::INPUT)?;
        let d = wrap_dim(c.int(index_fill::DIM)?, x.ndim())?;
        let index = vector(c, index_fill::INDEX)?;
        let value = match (c.opt(index_fill::VALUE), c.arg(index_fill::VALUE_SCALAR).scalar()) {
            (Some(v), _) if v.ndim() > 0 => {
                return Err(Error::runtime(format!(
                    "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                    v.ndim()
                )));
            }
            (Some(v), _) if v.dtype() == x.dtype() => v.clone(),
            (Some(v), _) => v.to_copy_with(Some(x.dtype()), None)?,
            (None, Some(s)) if s.category() == Category::Complex && !x.dtype().is_complex() => {
                return Err(Error::runtime(format!(
                    "index_fill_(): Converting complex Scalar to non-complex type is not supported (got {})",
                    x.dtype().scalar_type_name()
                )));
            }
            (None, s) => {
                let s = s.unwrap_or(Scalar::Int(0));
                scalar_range::check(c, x.dtype(), s)?;
                x.new_full(&[], s)?
            }
        };
        // By a mask of the entries, so that an index that occurs twice counts once for the value's gradient.
        let n = x.sizes().get(d).copied().unwrap_or(1);
        let yes = x.new_ones_with(&[], Some(DType::Bool), None, false)?;
        let none = x.new_zeros_with(&[n], Some(DType::Bool), None, false)?;
        let mut own: Dims = SmallVec::from_elem(1, x.ndim());
        if x.ndim() > 0 {
            own[d] = n;
        }
        give(outs, none.index_put([Some(&index)], &yes, false)?.reshape(&own)?.r#where(&value, x)?)
    }),
    samples: || samples(|| SampleArg::Float(1.5)),
    traits: Traits::READS_DISJOINT,
    into_overlapped: Some(write_changed_of!("index_fill", "tensor[mask] = scalar")),
    ..COMPOSED
};
