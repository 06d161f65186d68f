//! `dstack`: Behind each other: along the third dimension.

use super::give;
use crate::prelude::*;

/// A matrix gets a last dimension of one, a vector stands in the middle.
pub fn least_3d(x: &Tensor) -> Result<Tensor> {
    match x.ndim() {
        0 => x.reshape(&[1, 1, 1]),
        1 => x.unsqueeze(0)?.unsqueeze(-1),
        2 => x.unsqueeze(-1),
        _ => Ok(x.clone()),
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("dstack(Tensor[] tensors) -> Tensor"),
    doc: "Behind each other: along the third dimension.

Example::

    >>> oneflow.dstack([oneflow.tensor([1, 2]), oneflow.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])",
    compose: Some(|c, outs| give(outs, f::cat(&super::hstack::raised(c, least_3d)?, 2)?)),
    ..super::hstack::LIST
};
