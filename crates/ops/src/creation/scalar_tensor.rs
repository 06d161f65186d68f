//! `scalar_tensor`: A number as a 0-dim tensor of the default dtype.

use super::give;
use crate::named::scalar_tensor;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
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
    ..super::empty_strided::EMPTY
};
