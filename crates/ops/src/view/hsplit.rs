//! `hsplit`: Equal parts along the columns (of a vector: along it).

use super::{COMPOSED, give_all};
use crate::named::{hsplit, hsplit_array};
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("hsplit(Tensor(a) input, int sections) -> Tensor(a)[]"),
    doc: "Equal parts along the columns (of a vector: along it).

Example::

    >>> [t.shape for t in oneflow.hsplit(oneflow.zeros(2, 4), 2)]
    [oneflow.Size([2, 2]), oneflow.Size([2, 2])]",
    compose: Some(|c, outs| {
        super::tensor_split::has_dims("torch.hsplit", c.t(hsplit::INPUT)?, 1)?;
        give_all(
            outs,
            super::tensor_split::evenly(
                "hsplit",
                c.t(hsplit::INPUT)?,
                c.int(hsplit::SECTIONS)?,
                (c.t(hsplit::INPUT)?.ndim() > 1) as usize,
            )?,
        )
    }),
    samples: || super::tensor_split::int_samples(&[2, 4], 2),
    ..COMPOSED
};

pub static HSPLIT_POINTS: OpDef = OpDef {
    sig: Sig::parse("hsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]"),
    compose: Some(|c, outs| {
        super::tensor_split::has_dims("torch.hsplit", c.t(hsplit_array::INPUT)?, 1)?;
        give_all(
            outs,
            super::tensor_split::at_points(
                c.t(hsplit_array::INPUT)?,
                c.ints(hsplit_array::INDICES)?,
                (c.t(hsplit_array::INPUT)?.ndim() > 1) as i64,
            )?,
        )
    }),
    samples: || super::tensor_split::list_samples(&[2, 4], vec![1]),
    ..COMPOSED
};
