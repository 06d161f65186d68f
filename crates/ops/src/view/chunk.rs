//! `unsafe_chunk`, `chunk`: At most `chunks` views of equal size along a dimension.

use super::{COMPOSED, VIEW, give_all};
use crate::named::{chunk, unsafe_chunk};
use crate::prelude::*;

pub static UNSAFE_CHUNK: OpDef = OpDef {
    sig: Sig::parse("unsafe_chunk(Tensor input, int chunks, int dim=0) -> Tensor[]"),
    doc: "At most `chunks` parts that autograd does not take for views.

Example::

    >>> len(oneflow.unsafe_chunk(oneflow.arange(5), 2))
    2",
    compose: Some(|c, outs| {
        give_all(
            outs,
            super::tensor_split::unlinked(
                c.t(unsafe_chunk::INPUT)?.chunk(c.int(unsafe_chunk::CHUNKS)?, c.int(unsafe_chunk::DIM)?)?,
            ),
        )
    }),
    samples: || super::tensor_split::int_samples(&[5, 2], 2),
    ..COMPOSED
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("chunk(Tensor(a) input, int chunks, int dim=0) -> Tensor(a)[]"),
    doc: "At most `chunks` views of equal size along a dimension.

Example::

    >>> [t.shape[0] for t in oneflow.chunk(oneflow.arange(5), 2)]
    [3, 2]",
    kernel: Kernel::None,
    compose: Some(|c, outs| {
        let (x, chunks) = (c.t(chunk::INPUT)?, c.int(chunk::CHUNKS)?);
        if x.ndim() == 0 {
            return Err(Error::runtime("chunk expects at least a 1-dimensional tensor"));
        }
        if chunks <= 0 {
            return Err(Error::runtime(format!("chunk expects `chunks` to be greater than 0, got: {chunks}")));
        }
        let n = x.sizes()[wrap_dim(c.int(chunk::DIM)?, x.ndim())?];
        let parts = match n {
            0 => x.split_sizes(&vec![0; super::split::part_count("chunk", chunks)?], c.int(chunk::DIM)?)?,
            n => x.split((n - 1) / chunks + 1, c.int(chunk::DIM)?)?,
        };
        parts.into_iter().for_each(|t| outs.give(t));
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[5, 4]), i(2)]), Sample::new(vec![SampleArg::f32(&[3, 4]), i(3), i(1)])]
    },
    ..VIEW
};
