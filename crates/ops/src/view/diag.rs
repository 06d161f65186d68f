//! `diag`: A matrix with the vector on its diagonal, or the diagonal of a matrix (a copy).

use super::{COMPOSED, give};
use crate::named::diag;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("diag(Tensor input, int diagonal=0) -> Tensor"),
    doc: "A matrix with the vector on its diagonal, or the diagonal of a matrix (a copy).

Example::

    >>> oneflow.diag(oneflow.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let x = c.t(diag::INPUT)?;
        match x.ndim() {
            1 => give(outs, x.diag_embed(c.int(diag::DIAGONAL)?, 0, 1)?),
            2 => give(outs, x.diagonal(c.int(diag::DIAGONAL)?, 0, 1)?.clone_contiguous()?),
            n => Err(Error::runtime(format!("diag(): Supports 1D or 2D tensors. Got {n}D"))),
        }
    }),
    samples: || super::diagonal::int_samples(&[(&[3], &[]), (&[3], &[-1]), (&[3, 4], &[1])]),
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
