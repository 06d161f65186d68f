//! `tile`: The tensor copied along each dimension; missing counts are ones in front.

use super::{COMPOSED, give};
use crate::named::tile;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("tile(Tensor input, int[] dims) -> Tensor"),
    doc: "The tensor copied along each dimension; missing counts are ones in front.

Example::

    >>> oneflow.tile(oneflow.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])",
    compose: Some(|c, outs| {
        let (x, dims) = (c.t(tile::INPUT)?, c.ints(tile::DIMS)?);
        let mut times: Dims = SmallVec::from_elem(1, x.ndim().saturating_sub(dims.len()));
        times.extend_from_slice(dims);
        give(outs, x.repeat(&times)?)
    }),
    samples: || super::repeat::ints_samples(&[(&[2, 3], &[2]), (&[3], &[2, 2])]),
    ..COMPOSED
};
