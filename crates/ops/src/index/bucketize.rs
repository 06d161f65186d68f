//! `bucketize`: The bucket of each element: the number of boundaries (sorted) before it.

use super::{COMPOSED, give};
use crate::named::{bucketize, bucketize_scalar};
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("bucketize(Tensor input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"),
    doc: "The bucket of each element: the number of boundaries (sorted) before it.

Example::

    >>> oneflow.bucketize(oneflow.tensor([3, 6]), oneflow.tensor([1, 3, 5]))
    tensor([1, 3])",
    faces: Faces::FN.or(Faces::OUT),
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (x, b) = (c.t(bucketize::INPUT)?, c.t(bucketize::BOUNDARIES)?);
        if b.ndim() != 1 {
            return Err(Error::runtime(format!(
                "bucketize(): boundaries tensor must be 1 dimension, but got dim({})",
                b.ndim()
            )));
        }
        give(outs, b.searchsorted_with(x, c.bool(bucketize::OUT_INT32), c.bool(bucketize::RIGHT), None, None)?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3]), SampleArg::range(&[4], 0.5, 0.5)])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static BUCKETIZE_NUMBER: OpDef = OpDef {
    sig: Sig::parse(
        "bucketize.scalar(Scalar input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    ),
    faces: Faces::FN,
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (s, v) =
            super::searchsorted::with_number(c.t(bucketize_scalar::BOUNDARIES)?, c.arg(bucketize_scalar::INPUT))?;
        give(
            outs,
            s.searchsorted_with(&v, c.bool(bucketize_scalar::OUT_INT32), c.bool(bucketize_scalar::RIGHT), None, None)?,
        )
    }),
    samples: || vec![Sample::new(vec![SampleArg::Float(1.0), SampleArg::range(&[4], 0.5, 0.5)])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
