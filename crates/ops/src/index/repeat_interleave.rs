//! `repeat_interleave`: each element, or each index of a dimension, repeated next to itself.

use super::{COMPOSED, give, on_host, wide};
use crate::named::{repeat_interleave_self_int, repeat_interleave_self_tensor, repeat_interleave_tensor};
use crate::prelude::*;

/// Indices of the entries in the result: entry i as often as `repeats[i]` says.
fn places(repeats: &Tensor, size: Option<i64>) -> Result<Tensor> {
    if repeats.ndim() > 1 {
        return Err(Error::runtime("repeat_interleave only accept 1D vector as repeat"));
    }
    if !matches!(repeats.dtype(), DType::I64 | DType::I32) {
        return Err(Error::runtime("repeats has to be Long or Int tensor"));
    }
    let r = wide(&repeats.reshape(&[-1])?)?;
    if r.numel() == 0 {
        return Ok(r);
    }
    let ends = r.cumsum(0)?;
    let read = on_host(&f::stack([&ends.select(0, -1)?, &r.amin(&[], false)?], 0)?)?;
    if read[1] < 0 {
        return Err(Error::runtime("repeats can not be negative"));
    }
    if size.is_some_and(|s| s != read[0]) {
        return Err(Error::runtime(format!(
            "allocated size {} does not match required size {}",
            size.unwrap_or(0),
            read[0]
        )));
    }
    let counted = r.new_ones(&[read[0]])?.cumsum(0)?.sub(1i64)?;
    ends.searchsorted_with(&counted, false, true, None, None)
}

pub static REPEATS: OpDef = OpDef {
    sig: Sig::parse("repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor"),
    faces: Faces::FN,
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let i = places(c.t(repeat_interleave_tensor::REPEATS)?, c.arg(repeat_interleave_tensor::OUTPUT_SIZE).int())?;
        give(
            outs,
            if c.t(repeat_interleave_tensor::REPEATS)?.dtype() == DType::I32 {
                i.to_copy_with(Some(DType::I32), None)?
            } else {
                i
            },
        )
    }),
    samples: || vec![Sample::new(vec![SampleArg::i64(&[4], 0, 3)])],
    ..super::bincount::COUNTED
};

pub static INTERLEAVE: OpDef = OpDef {
    sig: Sig::parse(
        "repeat_interleave.self_Tensor(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor",
    ),
    doc: "Each entry repeated (by one number or one an entry) along a dimension, of the flattened tensor without `dim`.

Example::

    >>> oneflow.repeat_interleave(oneflow.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])",
    compose: Some(|c, outs| {
        let (x, r) = (c.t(repeat_interleave_self_tensor::INPUT)?, c.t(repeat_interleave_self_tensor::REPEATS)?);
        let (x, d) = match c.arg(repeat_interleave_self_tensor::DIM).int() {
            Some(d) => (x.clone(), d),
            None => (x.reshape(&[-1])?, 0),
        };
        if r.ndim() > 1 {
            return Err(Error::runtime(format!("repeats must be 0-dim or 1-dim tensor, got shape {:?}", r.sizes())));
        }
        let n = x.sizes().get(wrap_dim(d, x.ndim())?).copied().unwrap_or(1);
        let r = match r.numel() {
            // One number, of any integer dtype.
            1 if r.dtype().is_int() => r.to_copy_with(Some(DType::I64), None)?.reshape(&[1])?.expand(&[n])?,
            1 => r.reshape(&[1])?.expand(&[n])?,
            k if k == n => r.clone(),
            k => {
                return Err(Error::runtime(format!(
                    "repeats must have the same size as input along dim, but got repeats.size(0) = {k} and input.size({d}) = {n}"
                )));
            }
        };
        give(outs, x.index_select(d, &places(&r, c.arg(repeat_interleave_self_tensor::OUTPUT_SIZE).int())?)?)
    }),
    samples: || {
        let t = |s: &[i64], n, d| Sample::new(vec![SampleArg::f32(s), SampleArg::i64(&[n], 0, 3), d]);
        vec![t(&[3, 4], 3, SampleArg::Int(0)), t(&[4], 4, SampleArg::None)]
    },
    ..super::bincount::COUNTED
};

pub static INTERLEAVE_BY: OpDef = OpDef {
    sig: Sig::parse(
        "repeat_interleave.self_int(Tensor input, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
    ),
    compose: Some(|c, outs| {
        let (x, n) = (c.t(repeat_interleave_self_int::INPUT)?, c.int(repeat_interleave_self_int::REPEATS)?);
        if n < 0 {
            return Err(Error::runtime(format!("Repeats must be non-negative, got {n}")));
        }
        let (x, d) = match c.arg(repeat_interleave_self_int::DIM).int() {
            Some(d) if x.ndim() > 0 => (x.clone(), wrap_dim(d, x.ndim())?),
            _ => (x.reshape(&[-1])?, 0),
        };
        let mut wide: Dims = Dims::from_slice(x.sizes());
        wide.insert(d + 1, n);
        let mut sizes = Dims::from_slice(x.sizes());
        sizes[d] = sizes[d].checked_mul(n).ok_or_else(|| {
            Error::runtime(format!("repeat_interleave: {n} repeats of size {} are too many", sizes[d]))
        })?;
        if c.arg(repeat_interleave_self_int::OUTPUT_SIZE).int().is_some_and(|s| s != sizes[d]) {
            return Err(Error::runtime(format!(
                "repeat_interleave: Invalid output_size, expected {} but got {:?}",
                sizes[d],
                c.arg(repeat_interleave_self_int::OUTPUT_SIZE)
            )));
        }
        give(outs, x.unsqueeze(d as i64 + 1)?.expand(&wide)?.clone_contiguous()?.view(&sizes)?)
    }),
    samples: || {
        let i = SampleArg::Int;
        let t = |s: &[i64], n, d| Sample::new(vec![SampleArg::f32(s), i(n), d]);
        vec![t(&[3, 4], 2, i(1)), t(&[2, 2], 3, SampleArg::None)]
    },
    ..COMPOSED
};
