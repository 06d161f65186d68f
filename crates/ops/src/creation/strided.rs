//! Uninitialised memory in a layout of one's choice, and a number as a tensor.

use super::new::allocate;
use super::{WHERE_IT_LIES, give};
use crate::named::{empty_permuted, empty_strided, new_empty_strided, scalar_tensor};
use crate::prelude::*;

/// A fresh tensor of these sizes and strides.
fn push(c: &Call<'_>, size: &[i64], stride: &[i64], dtype: DType, device: Device, outs: &mut Outs) -> Result<()> {
    if size.len() != stride.len() {
        return Err(Error::runtime(format!(
            "{}(): mismatch in length of strides and shape: size {size:?}, stride {stride:?}",
            c.name()
        )));
    }
    if stride.iter().any(|s| *s < 0) {
        return Err(Error::runtime(format!("{}(): negative strides are not supported: {stride:?}", c.name())));
    }
    outs.push_strided(dtype, device, Dims::from_slice(size), Dims::from_slice(stride))
}

const EMPTY: OpDef = OpDef { faces: Faces::FN, kernel: Kernel::Host(allocate), sbp: WHERE_IT_LIES, ..OpDef::BASE };

pub static EMPTY_STRIDED: OpDef = OpDef {
    sig: Sig::parse(
        "empty_strided(int[] size, int[] stride, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Uninitialised memory seen with the given size and strides (in elements).

Example::

    >>> oneflow.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)",
    infer: |c, outs| {
        let device = c.arg(empty_strided::DEVICE).device().unwrap_or(Device::CPU);
        push(
            c,
            c.ints(empty_strided::SIZE)?,
            c.ints(empty_strided::STRIDE)?,
            c.dtype_or(empty_strided::DTYPE, default_dtype()),
            device,
            outs,
        )
    },
    ..EMPTY
};

pub static EMPTY_PERMUTED: OpDef = OpDef {
    sig: Sig::parse(
        "empty_permuted(int[] size, int[] physical_layout, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Uninitialised dense memory whose dimensions lie in the order of `physical_layout`, the outermost first.

Example::

    >>> oneflow.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)",
    infer: |c, outs| {
        let (size, order) = (c.ints(empty_permuted::SIZE)?, c.ints(empty_permuted::PHYSICAL_LAYOUT)?);
        let n = size.len();
        if order.len() != n {
            return Err(Error::runtime(format!(
                "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {n} is not equal to len(physical_layout) = {}",
                order.len()
            )));
        }
        let mut stride: Dims = SmallVec::from_elem(0, n);
        let (mut step, mut seen) = (1i64, 0u64);
        for &d in order.iter().rev() {
            if d < 0 || d >= n as i64 {
                return Err(Error::runtime(format!(
                    "Dimension out of range (expected to be between 0 and {}, but got {d}). NB: negative dims not currently supported",
                    n as i64 - 1
                )));
            }
            if seen >> d & 1 == 1 {
                return Err(Error::runtime("Duplicate dim not allowed"));
            }
            seen |= 1 << d;
            stride[d as usize] = step;
            step = step.saturating_mul(size[d as usize].max(1));
        }
        let device = c.arg(empty_permuted::DEVICE).device().unwrap_or(Device::CPU);
        push(c, size, &stride, c.dtype_or(empty_permuted::DTYPE, default_dtype()), device, outs)
    },
    ..EMPTY
};

pub static NEW_EMPTY_STRIDED: OpDef = OpDef {
    sig: Sig::parse(
        "new_empty_strided(Tensor input, int[] size, int[] stride, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "Uninitialised memory with the given size and strides, and the input's dtype and device.

Example::

    >>> oneflow.zeros(1).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)",
    faces: Faces::METHOD,
    infer: |c, outs| {
        let x = c.t(new_empty_strided::INPUT)?;
        let device = c.arg(new_empty_strided::DEVICE).device().unwrap_or(x.device());
        push(
            c,
            c.ints(new_empty_strided::SIZE)?,
            c.ints(new_empty_strided::STRIDE)?,
            c.dtype_or(new_empty_strided::DTYPE, x.dtype()),
            device,
            outs,
        )
    },
    sbp: SbpRule::of(Rows::Custom(super::resized_rows)),
    ..EMPTY
};

pub static SCALAR_TENSOR: OpDef = OpDef {
    sig: Sig::parse(
        "scalar_tensor(Scalar s, *, DType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
    ),
    doc: "A number as a 0-dim tensor of the default dtype.

Example::

    >>> oneflow.scalar_tensor(2)
    tensor(2.)",
    kernel: Kernel::None,
    compose: Some(|c, outs| {
        let dtype = Some(c.dtype_or(scalar_tensor::DTYPE, default_dtype()));
        give(
            outs,
            f::full_with(
                &[],
                c.arg(scalar_tensor::S).scalar().unwrap_or(Scalar::Int(0)),
                dtype,
                c.arg(scalar_tensor::DEVICE).device(),
                false,
            )?,
        )
    }),
    samples: || vec![Sample::new(vec![SampleArg::Float(1.5)])],
    ..EMPTY
};
