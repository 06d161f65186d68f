//! `vstack`, `row_stack`: On top of each other: vectors as rows.

use super::give;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("vstack(Tensor[] tensors) -> Tensor"),
    doc: "On top of each other: vectors as rows.

Example::

    >>> oneflow.vstack([oneflow.tensor([1, 2]), oneflow.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])",
    compose: Some(|c, outs| give(outs, f::cat(&super::hstack::raised(c, super::hstack::least_2d)?, 0)?)),
    ..super::hstack::LIST
};

pub static ROW_STACK: OpDef = OpDef {
    sig: Sig::parse("row_stack(Tensor[] tensors) -> Tensor"),
    doc: "Another name of `vstack`.

Example::

    >>> oneflow.row_stack([oneflow.tensor([1, 2]), oneflow.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])",
    compose: OP.compose,
    ..super::hstack::LIST
};
