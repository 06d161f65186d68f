//! `argwhere`: Indices of the non-zero elements, one row each: `nonzero`.

use super::{COMPOSED, give};
use crate::named::argwhere;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("argwhere(Tensor input) -> Tensor"),
    doc: "Indices of the non-zero elements, one row each: `nonzero`.

Example::

    >>> oneflow.argwhere(oneflow.tensor([0, 3]))
    tensor([[1]])",
    shape: ShapeOf::Data,
    grad: Grad::Never,
    compose: Some(|c, outs| give(outs, c.t(argwhere::INPUT)?.nonzero()?)),
    sbp: SbpRule::of(Rows::OnlyB { why: "the shape of the result depends on all the data" }),
    traits: Traits::HOST_SYNC,
    samples: || vec![Sample::new(vec![SampleArg::bool(&[3, 4])])],
    ..COMPOSED
};
