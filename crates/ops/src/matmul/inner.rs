//! `inner`: Sums of products over the last dimensions of two tensors.

use super::*;
use crate::named::inner;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("inner(Tensor input, Tensor other) -> Tensor"),
    doc: "Sums of products over the last dimensions of two tensors.

Example::

    >>> oneflow.inner(oneflow.tensor([1., 2.]), oneflow.tensor([3., 4.]))
    tensor(11.)",
    compose: Some(|c, outs| {
        let (a, b) = (c.t(inner::INPUT)?, c.t(inner::OTHER)?);
        let (Some(&k), Some(&k2)) = (a.sizes().last(), b.sizes().last()) else {
            outs.give(a.mul(b)?);
            return Ok(());
        };
        if k != k2 {
            return Err(Error::runtime(format!(
                "inner() the last dimension must match on both input tensors but got shapes {:?} and {:?}",
                a.sizes(),
                b.sizes()
            )));
        }
        let shape: Dims = a.sizes()[..a.ndim() - 1].iter().chain(&b.sizes()[..b.ndim() - 1]).copied().collect();
        outs.give(as_rows(a)?.matmul(&as_rows(b)?.transpose(0, 1)?)?.reshape(&shape)?);
        Ok(())
    }),
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![t(&[6], &[6]), t(&[2, 3], &[4, 3]), t(&[2, 2, 3], &[3])]
    },
    traits: Traits::EXACT_OUT,
    amp: Amp::FOLLOW,
    ..super::addmv::COMPOSED
};
