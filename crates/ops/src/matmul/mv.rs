//! `mv`: Product of a matrix and a vector.

use super::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("mv(Tensor input, Tensor vec) -> Tensor"),
    doc: "Product of a matrix and a vector.

Example::

    >>> oneflow.mv(oneflow.ones(1, 2), oneflow.ones(2))
    tensor([2.])",
    compose: Some(|c, outs| {
        let (a, b) = super::mm::ranks(c, 2, 1)?;
        outs.give(a.matmul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[4, 6]), SampleArg::f32(&[6])])],
    amp: Amp::WIDEST,
    traits: Traits::EXACT_OUT,
    sparse: Sparse::MatrixProduct,
    ..super::mm::COMPOSED
};
