//! `diagflat`: A matrix with the elements of `input`, flattened, on its diagonal.

use super::{COMPOSED, give};
use crate::named::diagflat;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("diagflat(Tensor input, int offset=0) -> Tensor"),
    doc: "A matrix with the elements of `input`, flattened, on its diagonal.

Example::

    >>> oneflow.diagflat(oneflow.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])",
    compose: Some(|c, outs| {
        give(outs, c.t(diagflat::INPUT)?.reshape(&[-1])?.diag_embed(c.int(diagflat::OFFSET)?, 0, 1)?)
    }),
    samples: || super::diagonal::int_samples(&[(&[3], &[]), (&[2, 2], &[-1]), (&[], &[])]),
    ..COMPOSED
};
