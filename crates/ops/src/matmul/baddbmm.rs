//! `baddbmm`: `beta * input + alpha * (batch1 @ batch2)`, batch by batch.

use super::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    doc: "`beta * input + alpha * (batch1 @ batch2)`, batch by batch.

Example::

    >>> oneflow.baddbmm(oneflow.zeros(1), oneflow.ones(3, 1, 2), oneflow.ones(3, 2, 1)).shape
    oneflow.Size([3, 1, 1])",
    infer: |c, outs| super::addmm::infer(c, 3, outs),
    kernel: Kernel::Prim { prim: &MATMUL, lower: |c, outs, l| super::addmm::lower(c, 3, outs, l) },
    compose: Some(|c, outs| {
        outs.give(super::addmm::compose(c, 3)?);
        Ok(())
    }),
    samples: || {
        vec![Sample::new(vec![SampleArg::f32(&[2, 4, 8]), SampleArg::f32(&[2, 4, 6]), SampleArg::f32(&[2, 6, 8])])]
    },
    traits: Traits::EXACT_OUT,
    ..super::addmm::AFFINE
};
