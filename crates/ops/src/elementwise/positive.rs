//! `positive`: The tensor itself.

use super::unary;
use crate::named::positive;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("positive(Tensor(a) input) -> Tensor(a)"),
    doc: "The tensor itself.

Example::

    >>> oneflow.positive(oneflow.tensor([1.]))
    tensor([1.])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let x = c.t(positive::INPUT)?;
        if x.dtype() == DType::Bool {
            return Err(Error::not_implemented("The `+` operator, on a bool tensor is not supported."));
        }
        outs.view(positive::INPUT, x, Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()), x.offset())
    },
    kernel: Kernel::View,
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(positive::INPUT, || Ok(c.g()?.clone())) },
    sbp: SbpRule::of(Rows::View(super::complex::same_dims)),
    samples: unary::samples,
    sparse: Sparse::LinearValues,
    ..OpDef::BASE
};
