//! `new_zeros`, `new_ones`, `new_empty`, `new_full`: Zeros of the given size with the input's dtype and device.

use crate::named::{new_full, new_zeros};
use crate::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether memory that nobody has written is filled, so that a program which reads it reads the same each time.
static FILLS: AtomicBool = AtomicBool::new(false);

/// Says whether `empty` and its kind fill their memory: with NaN, or the largest number of the dtype.
pub fn fill_uninitialised(on: bool) {
    FILLS.store(on, Ordering::Relaxed);
}

/// What uninitialised memory of this dtype is filled with, if it is.
pub fn uninitialised_value(dtype: DType) -> Option<Scalar> {
    FILLS.load(Ordering::Relaxed).then(|| match dtype {
        DType::Bool => Scalar::Bool(true),
        // Of unsigned dtypes the largest, since negative numbers wrap.
        unsigned if unsigned == DType::U8 || unsigned.is_wide_unsigned() => Scalar::Int(-1),
        float if !float.is_int() => Scalar::Float(f64::NAN),
        signed => Scalar::Int(i64::MAX >> (64 - 8 * signed.size())),
    })
}

/// Memory as `infer` describes it, holding whatever it held.
pub fn allocate(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    (c.op.infer)(c, outs)?;
    outs.tensors().iter().try_for_each(|t| {
        t.materialize()?;
        uninitialised_value(t.dtype()).map_or(Ok(()), |value| t.fill_(value))
    })
}

/// Size, dtype and device from the arguments; what is not given is the input's.
fn sized(c: &Call<'_>, dtype: At<DType>, device: At<Device>, outs: &mut Outs) -> Result<()> {
    let x = c.t(new_zeros::INPUT)?;
    let (d, device) = (c.dtype_or(dtype, x.dtype()), c.arg(device).device().unwrap_or(x.device()));
    super::push(c, c.ints(new_zeros::SIZE)?, Arg::DType(d), Arg::Device(device), outs)
}

const NEW: OpDef = OpDef {
    faces: Faces::METHOD,
    infer: |c, outs| sized(c, new_zeros::DTYPE, new_zeros::DEVICE, outs),
    sbp: SbpRule::of(Rows::Custom(super::resized_rows)),
    batch: Batching::Sizes,
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2]), SampleArg::Ints(vec![3])])],
    ..OpDef::BASE
};

pub static NEW_ZEROS: OpDef = OpDef {
    sig: Sig::parse(
        "new_zeros(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Zeros of the given size with the input's dtype and device.

Example::

    >>> oneflow.zeros(1, dtype=oneflow.int64).new_zeros((2,)).dtype
    oneflow.int64",
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(0)) },
    sparse: Sparse::New,
    ..NEW
};

pub static NEW_ONES: OpDef = OpDef {
    sig: Sig::parse(
        "new_ones(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Ones of the given size with the input's dtype and device.

Example::

    >>> oneflow.zeros(1, dtype=oneflow.int64).new_ones((2,)).dtype
    oneflow.int64",
    kernel: Kernel::Prim { prim: &FILL, lower: |_, _, l| super::lower_fill(l, Scalar::Int(1)) },
    ..NEW
};

pub static NEW_EMPTY: OpDef = OpDef {
    sig: Sig::parse(
        "new_empty(Tensor input, int[] size, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Uninitialised memory of the given size with the input's dtype and device.

Example::

    >>> oneflow.zeros(1, dtype=oneflow.int64).new_empty((2,)).dtype
    oneflow.int64",
    kernel: Kernel::Host(allocate),
    sparse: Sparse::New,
    samples: Vec::new,
    ..NEW
};

pub static NEW_FULL: OpDef = OpDef {
    sig: Sig::parse(
        "new_full(Tensor input, int[] size, Scalar fill_value, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "A constant of the given size with the input's dtype and device.

Example::

    >>> oneflow.zeros(1, dtype=oneflow.int64).new_full((2,), 7).dtype
    oneflow.int64",
    infer: |c, outs| {
        let dtype = c.dtype_or(new_full::DTYPE, c.t(new_full::INPUT)?.dtype());
        super::full::fill_fits(c, dtype, new_full::FILL_VALUE, c.ints(new_full::SIZE)?)?;
        sized(c, new_full::DTYPE, new_full::DEVICE, outs)
    },
    kernel: Kernel::Prim {
        prim: &FILL,
        lower: |c, o, l| {
            let value = c.arg(new_full::FILL_VALUE).scalar().unwrap_or(Scalar::Int(0));
            super::lower_fill(l, scalar_range::written(o[new_full::RESULT].dtype(), value))
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2]), SampleArg::Ints(vec![3]), SampleArg::Int(7)])],
    ..NEW
};
