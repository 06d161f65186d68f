//! Constant tensors: ones, full, empty, and their `_like` forms.

use super::new::allocate;
use crate::elementwise::{channels_last, push_like};
use crate::prelude::*;

fn size_samples() -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::Ints(vec![2, 3])]), Sample::new(vec![SampleArg::Ints(vec![])])]
}

const SIZED: OpDef = OpDef {
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| super::push(c, c.ints(0)?, c.arg(1), c.arg(2), outs),
    sbp: SbpRule::of(Rows::Elementwise { linear: &[] }).with(Localize::Sizes(0)),
    samples: size_samples,
    ..OpDef::BASE
};

pub static ONES: OpDef = OpDef {
    sig: Sig::parse("ones(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor"),
    doc: "A tensor filled with ones.

Example::

    >>> oneflow.ones(2)
    tensor([1., 1.])",
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(1)) },
    ..SIZED
};

pub static EMPTY: OpDef = OpDef {
    sig: Sig::parse(
        "empty(int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "A tensor whose values are whatever the memory held.

Example::

    >>> oneflow.empty(2, 3).shape
    oneflow.Size([2, 3])",
    infer: |c, outs| {
        let sizes = c.ints(0)?;
        match channels_last(c.arg(4).str().unwrap_or(""), sizes)? {
            Some(strides) => {
                let device = c.arg(2).device().unwrap_or(Device::CPU);
                outs.push_strided(c.dtype_or(1, default_dtype()), device, Dims::from_slice(sizes), strides)
            }
            None => super::push(c, sizes, c.arg(1), c.arg(2), outs),
        }
    },
    kernel: Kernel::Host(allocate),
    samples: Vec::new,
    ..SIZED
};

/// The dtype of `full`: that of the number, with floats in the default dtype.
fn full_dtype(c: &Call<'_>, given: Arg<'_>, value: Arg<'_>) -> Result<DType> {
    let v = value.scalar().ok_or_else(|| Error::type_(format!("{}(): fill_value must be a number", c.name())))?;
    Ok(given.dtype().unwrap_or_else(|| v.natural_dtype(default_dtype())))
}

/// The number of argument `arg` fits the dtype.
pub(super) fn fill_fits(c: &Call<'_>, dtype: DType, arg: usize) -> Result<()> {
    c.arg(arg).scalar().map_or(Ok(()), |s| scalar_range::check(c, dtype, s))
}

pub static FULL: OpDef = OpDef {
    sig: Sig::parse(
        "full(int[] size, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "A tensor filled with `fill_value`.

Example::

    >>> oneflow.full((2,), 7)
    tensor([7, 7])",
    infer: |c, outs| {
        let dtype = full_dtype(c, c.arg(2), c.arg(1))?;
        fill_fits(c, dtype, 1)?;
        super::push(c, c.ints(0)?, Arg::DType(dtype), c.arg(3), outs)
    },
    kernel: Kernel::Prim {
        prim: &FILL,
        lower: |c, o, l| {
            let value = c.arg(1).scalar().unwrap_or(Scalar::Int(0));
            super::lower_fill(l, scalar_range::written(o[0].dtype(), value))
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::Ints(vec![2, 3]), SampleArg::Float(1.5)])],
    ..SIZED
};

/// Meta of a `_like`: the input's, in its memory order, with dtype and device replaced.
fn like(c: &Call<'_>, dtype: usize, outs: &mut Outs) -> Result<()> {
    let x = c.t(0)?;
    let (d, dev) = (c.dtype_or(dtype, x.dtype()), c.arg(dtype + 1).device().unwrap_or(x.device()));
    push_like(x, d, dev, c.arg(dtype + 3).str(), outs)
}

const LIKE: OpDef = OpDef {
    faces: Faces::FN,
    infer: |c, outs| like(c, 0, outs),
    sbp: SbpRule::of(Rows::Custom(super::unread_rows)),
    samples: crate::elementwise::unary::samples,
    ..OpDef::BASE
};

pub static ZEROS_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "zeros_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Zeros with the input's shape, dtype and device.

Example::

    >>> oneflow.zeros_like(oneflow.ones(2))
    tensor([0., 0.])",
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(0)) },
    sparse: Sparse::Zeros,
    ..LIKE
};

pub static ONES_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "ones_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Ones with the input's shape, dtype and device.

Example::

    >>> oneflow.ones_like(oneflow.zeros(2))
    tensor([1., 1.])",
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(1)) },
    ..LIKE
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
        fill_fits(c, c.dtype_or(1, c.t(0)?.dtype()), 0)?;
        like(c, 1, outs)
    },
    kernel: Kernel::Prim {
        prim: &FILL,
        lower: |c, o, l| {
            let value = c.arg(0).scalar().unwrap_or(Scalar::Int(0));
            super::lower_fill(l, scalar_range::written(o[0].dtype(), value))
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3]), SampleArg::Float(1.5)])],
    ..LIKE
};

pub static EMPTY_LIKE: OpDef = OpDef {
    sig: Sig::parse(
        "empty_like(Tensor input, *, DType? dtype=None, Device? device=None, bool requires_grad=False, MemoryFormat? memory_format=None) -> Tensor",
    ),
    doc: "Uninitialised memory with the input's shape, dtype and device.

Example::

    >>> oneflow.empty_like(oneflow.zeros(2, 3)).shape
    oneflow.Size([2, 3])",
    kernel: Kernel::Host(allocate),
    samples: Vec::new,
    ..LIKE
};
