//! `dsplit`: Equal parts along the third dimension.

use super::{COMPOSED, give_all};
use crate::named::{dsplit, dsplit_array};
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("dsplit(Tensor(a) input, int sections) -> Tensor(a)[]"),
    doc: "Equal parts along the third dimension.

Example::

    >>> [t.shape for t in oneflow.dsplit(oneflow.zeros(1, 1, 4), 2)]
    [oneflow.Size([1, 1, 2]), oneflow.Size([1, 1, 2])]",
    compose: Some(|c, outs| {
        super::tensor_split::has_dims("torch.dsplit", c.t(dsplit::INPUT)?, 3)?;
        give_all(outs, super::tensor_split::evenly("dsplit", c.t(dsplit::INPUT)?, c.int(dsplit::SECTIONS)?, 2)?)
    }),
    samples: || super::tensor_split::int_samples(&[2, 2, 4], 2),
    ..COMPOSED
};

pub static DSPLIT_POINTS: OpDef = OpDef {
    sig: Sig::parse("dsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]"),
    compose: Some(|c, outs| {
        super::tensor_split::has_dims("torch.dsplit", c.t(dsplit_array::INPUT)?, 3)?;
        give_all(outs, super::tensor_split::at_points(c.t(dsplit_array::INPUT)?, c.ints(dsplit_array::INDICES)?, 2)?)
    }),
    samples: || super::tensor_split::list_samples(&[2, 2, 4], vec![1]),
    ..COMPOSED
};
