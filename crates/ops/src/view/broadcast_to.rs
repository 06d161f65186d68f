//! `broadcast_to`: A view in which dimensions of size one repeat.

use super::{COMPOSED, give};
use crate::named::broadcast_to;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("broadcast_to(Tensor(a) input, int[] size) -> Tensor(a)"),
    doc: "A view in which dimensions of size one repeat.

Example::

    >>> oneflow.broadcast_to(oneflow.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])",
    compose: Some(|c, outs| give(outs, c.t(broadcast_to::INPUT)?.expand(c.ints(broadcast_to::SIZE)?)?)),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 1]), SampleArg::Ints(vec![2, 3, 4])])],
    ..COMPOSED
};
