//! `split_with_sizes`, `split_with_sizes_copy`, `unsafe_split_with_sizes`: Views of the given lengths along a
//! dimension.

use super::{COMPOSED, give_all};
use crate::named::{split_with_sizes, split_with_sizes_copy, unsafe_split_with_sizes};
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("split_with_sizes(Tensor(a) input, int[] split_sizes, int dim=0) -> Tensor(a)[]"),
    doc: "Views of the given lengths along a dimension.

Example::

    >>> [t.shape[0] for t in oneflow.split_with_sizes(oneflow.arange(5), [1, 4])]
    [1, 4]",
    compose: Some(|c, outs| {
        give_all(
            outs,
            c.t(split_with_sizes::INPUT)?
                .split_sizes(c.ints(split_with_sizes::SPLIT_SIZES)?, c.int(split_with_sizes::DIM)?)?,
        )
    }),
    samples: || super::tensor_split::list_samples(&[5, 2], vec![1, 4]),
    ..COMPOSED
};

pub static WITH_SIZES_COPY: OpDef = OpDef {
    sig: Sig::parse("split_with_sizes_copy(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]"),
    doc: "Copies of the given lengths along a dimension.

Example::

    >>> [t.shape[0] for t in oneflow.split_with_sizes_copy(oneflow.arange(5), [1, 4])]
    [1, 4]",
    faces: Faces::FN,
    compose: Some(|c, outs| {
        give_all(
            outs,
            super::tensor_split::copied(
                c.t(split_with_sizes_copy::INPUT)?
                    .split_sizes(c.ints(split_with_sizes_copy::SPLIT_SIZES)?, c.int(split_with_sizes_copy::DIM)?)?,
            )?,
        )
    }),
    samples: || super::tensor_split::list_samples(&[5, 2], vec![1, 4]),
    ..COMPOSED
};

pub static UNSAFE_SPLIT_WITH_SIZES: OpDef = OpDef {
    sig: Sig::parse("unsafe_split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]"),
    doc: "Parts of the given lengths that autograd does not take for views.

Example::

    >>> [t.shape[0] for t in oneflow.unsafe_split_with_sizes(oneflow.arange(5), [1, 4])]
    [1, 4]",
    compose: Some(|c, outs| {
        let lengths = c.ints(unsafe_split_with_sizes::SPLIT_SIZES)?;
        let dim = c.int(unsafe_split_with_sizes::DIM)?;
        give_all(outs, super::tensor_split::unlinked(c.t(unsafe_split_with_sizes::INPUT)?.split_sizes(lengths, dim)?))
    }),
    samples: || super::tensor_split::list_samples(&[5, 2], vec![1, 4]),
    ..COMPOSED
};
