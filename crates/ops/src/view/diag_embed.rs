//! `diag_embed`: Matrices in two new dimensions, with the last dimension of `input` on their diagonals and zeros
//! elsewhere.

use super::{COMPOSED, give};
use crate::named::diag_embed;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"),
    doc: "Matrices in two new dimensions, with the last dimension of `input` on their diagonals and zeros elsewhere.

Example::

    >>> oneflow.diag_embed(oneflow.tensor([[1, 2]]))
    tensor([[[1, 0],
             [0, 2]]])",
    compose: Some(|c, outs| {
        let (x, at) = (c.t(diag_embed::INPUT)?, c.int(diag_embed::OFFSET)?);
        let n = x.ndim() + 1;
        let (d1, d2) = super::diagonal::dims(c.name(), n, c.int(diag_embed::DIM1)?, c.int(diag_embed::DIM2)?)?;
        let last = *x.sizes().last().ok_or_else(|| Error::runtime("diag_embed(): input must have a dimension"))?;
        let side = at.checked_abs().and_then(|at| at.checked_add(last));
        let side = side.ok_or_else(|| Error::runtime(format!("diag_embed(): offset {at} is too large")))?;
        let mut sizes = Dims::from_slice(&x.sizes()[..n - 2]);
        sizes.insert(d1.min(d2), side);
        sizes.insert(d1.max(d2), side);
        give(outs, x.new_zeros(&sizes)?.diagonal_scatter(x, at, d1 as i64, d2 as i64)?)
    }),
    samples: || super::diagonal::int_samples(&[(&[3], &[]), (&[2, 3], &[1]), (&[2, 3], &[-1, 0, 2])]),
    ..COMPOSED
};
