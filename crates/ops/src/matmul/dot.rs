//! `dot`: Inner product of two vectors.

use super::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("dot(Tensor input, Tensor tensor) -> Tensor"),
    doc: "Inner product of two vectors.

Example::

    >>> oneflow.dot(oneflow.tensor([1., 2.]), oneflow.tensor([3., 4.]))
    tensor(11.)",
    compose: Some(|c, outs| {
        let (a, b) = super::mm::ranks(c, 1, 1)?;
        if a.dtype() != b.dtype() {
            return Err(Error::runtime(format!(
                "dot(): expected both vectors to have same dtype, but found {} and {}",
                a.dtype().scalar_type_name(),
                b.dtype().scalar_type_name()
            )));
        }
        outs.give(a.matmul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[6]), SampleArg::f32(&[6])])],
    amp: Amp::WIDEST,
    traits: Traits::EXACT_OUT,
    ..super::mm::COMPOSED
};
