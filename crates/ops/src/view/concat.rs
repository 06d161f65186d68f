//! `concat`, `concatenate`: Another name of `cat`.

use super::give;
use crate::named::concat as at;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("concat(Tensor[] tensors, int dim=0) -> Tensor"),
    doc: "Another name of `cat`.

Example::

    >>> oneflow.concat([oneflow.tensor([1]), oneflow.tensor([2, 3])])
    tensor([1, 2, 3])",
    compose: Some(|c, outs| give(outs, f::cat(c.ins.iter().flatten().copied(), c.int(at::DIM)?)?)),
    ..super::hstack::LIST
};

pub static CONCATENATE: OpDef = OpDef {
    sig: Sig::parse("concatenate(Tensor[] tensors, int dim=0) -> Tensor"),
    doc: "Another name of `cat`.

Example::

    >>> oneflow.concatenate([oneflow.tensor([1]), oneflow.tensor([2, 3])])
    tensor([1, 2, 3])",
    compose: OP.compose,
    ..super::hstack::LIST
};
