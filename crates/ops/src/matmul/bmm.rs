//! `bmm`: Products of two batches of matrices of equal length.

use super::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("bmm(Tensor input, Tensor mat2) -> Tensor"),
    doc: "Products of two batches of matrices of equal length.

Example::

    >>> oneflow.bmm(oneflow.ones(3, 1, 2), oneflow.ones(3, 2, 1)).shape
    oneflow.Size([3, 1, 1])",
    compose: Some(|c, outs| {
        let (a, b) = super::mm::ranks(c, 3, 3)?;
        if a.sizes()[0] != b.sizes()[0] {
            return Err(Error::runtime(format!(
                "bmm(): Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].",
                a.sizes()[0],
                a.sizes()[2],
                b.sizes()[0],
                b.sizes()[1]
            )));
        }
        outs.give(a.matmul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 4, 6]), SampleArg::f32(&[2, 6, 8])])],
    traits: Traits::EXACT_OUT,
    ..super::mm::COMPOSED
};
