//! `column_stack`: Side by side, vectors as columns.

use super::give;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("column_stack(Tensor[] tensors) -> Tensor"),
    doc: "Side by side, vectors as columns.

Example::

    >>> oneflow.column_stack([oneflow.tensor([1, 2]), oneflow.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])",
    compose: Some(|c, outs| {
        let column = |t: &Tensor| if t.ndim() <= 1 { t.reshape(&[t.numel(), 1]) } else { Ok(t.clone()) };
        give(outs, f::cat(&super::hstack::raised(c, column)?, 1)?)
    }),
    ..super::hstack::LIST
};
