//! `addbmm`: `beta * input + alpha * sum(batch1 @ batch2)` over the batch.

use super::*;
use crate::named::addbmm;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("addbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    doc: "`beta * input + alpha * sum(batch1 @ batch2)` over the batch.

Example::

    >>> oneflow.addbmm(oneflow.zeros(1), oneflow.ones(3, 1, 2), oneflow.ones(3, 2, 1))
    tensor([[6.]])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        let (a, b) = (c.t(addbmm::BATCH1)?, c.t(addbmm::BATCH2)?);
        if a.ndim() != 3 || b.ndim() != 3 || a.sizes()[0] != b.sizes()[0] || a.sizes()[2] != b.sizes()[1] {
            return Err(super::addmv::mismatch(
                c,
                "batch1 and batch2 must be 3-D tensors with the same number of matrices, which can be multiplied",
            ));
        }
        outs.give(
            super::addmv::affine(c, |a, b| {
                // The batch is a part of the contraction: one product instead of a batch that is summed.
                let (n, m, k, p) = (a.sizes()[0], a.sizes()[1], a.sizes()[2], b.sizes()[2]);
                a.transpose(0, 1)?.reshape(&[m, n * k])?.matmul(&b.reshape(&[n * k, p])?)
            })?
            .contiguous()?,
        );
        Ok(())
    }),
    samples: || {
        vec![Sample::new(vec![SampleArg::f32(&[4, 8]), SampleArg::f32(&[2, 4, 6]), SampleArg::f32(&[2, 6, 8])])]
    },
    amp: Amp::LOWER,
    traits: Traits::EXACT_OUT,
    ..super::addmv::COMPOSED
};
