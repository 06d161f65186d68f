//! `new_empty_strided`: Uninitialised memory with the given size and strides, and the input's dtype and device.

use crate::named::new_empty_strided;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
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
        super::empty_strided::push(
            c,
            c.ints(new_empty_strided::SIZE)?,
            c.ints(new_empty_strided::STRIDE)?,
            c.dtype_or(new_empty_strided::DTYPE, x.dtype()),
            device,
            outs,
        )
    },
    sbp: SbpRule::of(Rows::Custom(super::resized_rows)),
    ..super::empty_strided::EMPTY
};
