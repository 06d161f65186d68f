//! `vsplit`: Equal parts along the rows.

use super::{COMPOSED, give_all};
use crate::named::{vsplit, vsplit_array};
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("vsplit(Tensor(a) input, int sections) -> Tensor(a)[]"),
    doc: "Equal parts along the rows.

Example::

    >>> [t.shape for t in oneflow.vsplit(oneflow.zeros(4, 2), 2)]
    [oneflow.Size([2, 2]), oneflow.Size([2, 2])]",
    compose: Some(|c, outs| {
        super::tensor_split::has_dims("torch.vsplit", c.t(vsplit::INPUT)?, 2)?;
        give_all(outs, super::tensor_split::evenly("vsplit", c.t(vsplit::INPUT)?, c.int(vsplit::SECTIONS)?, 0)?)
    }),
    samples: || super::tensor_split::int_samples(&[4, 2], 2),
    ..COMPOSED
};

pub static VSPLIT_POINTS: OpDef = OpDef {
    sig: Sig::parse("vsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]"),
    compose: Some(|c, outs| {
        super::tensor_split::has_dims("torch.vsplit", c.t(vsplit_array::INPUT)?, 2)?;
        give_all(outs, super::tensor_split::at_points(c.t(vsplit_array::INPUT)?, c.ints(vsplit_array::INDICES)?, 0)?)
    }),
    samples: || super::tensor_split::list_samples(&[4, 2], vec![1]),
    ..COMPOSED
};
