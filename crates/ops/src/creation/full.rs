//! `full`, `full_like`: A tensor filled with `fill_value`.

use crate::elementwise::push_like;
use crate::named::{full, full_like, ones, zeros_like};
use crate::prelude::*;

fn size_samples() -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::Ints(vec![2, 3])]), Sample::new(vec![SampleArg::Ints(vec![])])]
}

pub(super) const SIZED: OpDef = OpDef {
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| super::push(c, c.ints(ones::SIZE)?, c.arg(ones::DTYPE), c.arg(ones::DEVICE), outs),
    sbp: SbpRule::of(Rows::Elementwise { linear: &[] }).with(Localize::Sizes(ones::SIZE)),
    samples: size_samples,
    ..OpDef::BASE
};

/// The dtype of `full`: that of the number, with floats in the default dtype.
fn full_dtype(c: &Call<'_>, given: Arg<'_>, value: Arg<'_>) -> Result<DType> {
    let v = value.scalar().ok_or_else(|| Error::type_(format!("{}(): fill_value must be a number", c.name())))?;
    Ok(given.dtype().unwrap_or_else(|| v.natural_dtype(default_dtype())))
}

/// The number to fill with fits the dtype.
pub(crate) fn fill_fits(c: &Call<'_>, dtype: DType, value: At<Scalar>, sizes: &[i64]) -> Result<()> {
    let is_one = sizes.iter().all(|n| *n == 1);
    c.arg(value).scalar().map_or(Ok(()), |s| scalar_range::check_many(c, dtype, s, if is_one { 1 } else { 2 }))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "full(int[] size, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "A tensor filled with `fill_value`.

Example::

    >>> oneflow.full((2,), 7)
    tensor([7, 7])",
    infer: |c, outs| {
        let dtype = full_dtype(c, c.arg(full::DTYPE), c.arg(full::FILL_VALUE))?;
        fill_fits(c, dtype, full::FILL_VALUE, c.ints(full::SIZE)?)?;
        super::push(c, c.ints(full::SIZE)?, Arg::DType(dtype), c.arg(full::DEVICE), outs)
    },
    kernel: Kernel::Prim {
        prim: &FILL,
        lower: |c, o, l| {
            let value = c.arg(full::FILL_VALUE).scalar().unwrap_or(Scalar::Int(0));
            super::lower_fill(l, scalar_range::written(o[full::RESULT].dtype(), value))
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::Ints(vec![2, 3]), SampleArg::Float(1.5)])],
    ..SIZED
};

/// Meta of a `_like`: the input's, in its memory order, with dtype and device replaced.
fn like(c: &Call<'_>, dtype: At<DType>, device: At<Device>, memory_format: At<str>, outs: &mut Outs) -> Result<()> {
    let x = c.t(zeros_like::INPUT)?;
    let (d, dev) = (c.dtype_or(dtype, x.dtype()), c.arg(device).device().unwrap_or(x.device()));
    push_like(x, d, dev, c.arg(memory_format).str(), outs)
}

pub(super) const LIKE: OpDef = OpDef {
    faces: Faces::FN,
    infer: |c, outs| like(c, zeros_like::DTYPE, zeros_like::DEVICE, zeros_like::MEMORY_FORMAT, outs),
    sbp: SbpRule::of(Rows::Custom(super::unread_rows)),
    samples: crate::elementwise::unary::samples,
    ..OpDef::BASE
};

pub static FULL_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "full_like(Tensor input, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "A constant with the input's shape, dtype and device.

Example::

    >>> oneflow.full_like(oneflow.zeros(2), 3)
    tensor([3., 3.])",
    infer: |c, outs| {
        let x = c.t(full_like::INPUT)?;
        fill_fits(c, c.dtype_or(full_like::DTYPE, x.dtype()), full_like::FILL_VALUE, x.sizes())?;
        like(c, full_like::DTYPE, full_like::DEVICE, full_like::MEMORY_FORMAT, outs)
    },
    kernel: Kernel::Prim {
        prim: &FILL,
        lower: |c, o, l| {
            let value = c.arg(full_like::FILL_VALUE).scalar().unwrap_or(Scalar::Int(0));
            super::lower_fill(l, scalar_range::written(o[full_like::RESULT].dtype(), value))
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3]), SampleArg::Float(1.5)])],
    sparse: Sparse::Places,
    ..LIKE
};
