//! `empty_strided`: Uninitialised memory seen with the given size and strides (in elements).

use super::WHERE_IT_LIES;
use super::new::allocate;
use crate::named::empty_strided;
use crate::prelude::*;

/// A fresh tensor of these sizes and strides.
pub(super) fn push(
    c: &Call<'_>,
    size: &[i64],
    stride: &[i64],
    dtype: DType,
    device: Device,
    outs: &mut Outs,
) -> Result<()> {
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

pub(super) const EMPTY: OpDef =
    OpDef { faces: Faces::FN, kernel: Kernel::Host(allocate), sbp: WHERE_IT_LIES, ..OpDef::BASE };

pub static OP: OpDef = OpDef {
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
