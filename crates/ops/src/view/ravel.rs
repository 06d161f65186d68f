//! `ravel`: All elements as one dimension: a view where that is possible.

use super::{COMPOSED, give};
use crate::named::ravel;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("ravel(Tensor(a) input) -> Tensor(a)"),
    doc: "All elements as one dimension: a view where that is possible.

Example::

    >>> oneflow.ravel(oneflow.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])",
    compose: Some(|c, outs| give(outs, c.t(ravel::INPUT)?.contiguous()?.view(&[-1])?)),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])]), Sample::new(vec![SampleArg::f32(&[])])],
    ..COMPOSED
};
