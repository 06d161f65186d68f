//! `outer`: Outer product of two vectors.

use super::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("outer(Tensor input, Tensor vec2) -> Tensor"),
    doc: "Outer product of two vectors.

Example::

    >>> oneflow.outer(oneflow.tensor([1., 2.]), oneflow.tensor([3.]))
    tensor([[3.],
            [6.]])",
    compose: Some(|c, outs| {
        let (a, b) = super::mm::ranks(c, 1, 1)?;
        outs.give(a.unsqueeze(1)?.mul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[4]), SampleArg::f32(&[3])])],
    amp: Amp::FOLLOW,
    ..super::mm::COMPOSED
};
