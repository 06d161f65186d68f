//! `kron`: Kronecker product: every element of the first times the whole second.

use super::*;
use crate::named::kron;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("kron(Tensor input, Tensor other) -> Tensor"),
    doc: "Kronecker product: every element of the first times the whole second.

Example::

    >>> oneflow.kron(oneflow.tensor([1., 2.]), oneflow.tensor([1., 1.]))
    tensor([1., 1., 2., 2.])",
    compose: Some(|c, outs| {
        let (a, b) = (c.t(kron::INPUT)?, c.t(kron::OTHER)?);
        let n = a.ndim().max(b.ndim());
        let size = |t: &Tensor, d: usize| if d + t.ndim() < n { 1 } else { t.sizes()[d + t.ndim() - n] };
        let (mut left, mut right, mut shape) = (Dims::new(), Dims::new(), Dims::new());
        for d in 0..n {
            left.extend([size(a, d), 1]);
            right.extend([1, size(b, d)]);
            shape.push(size(a, d) * size(b, d));
        }
        outs.give(a.reshape(&left)?.mul(&b.reshape(&right)?)?.reshape(&shape)?);
        Ok(())
    }),
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![t(&[2, 3], &[4, 2]), t(&[2], &[3, 2])]
    },
    amp: Amp::FOLLOW,
    ..super::addmv::COMPOSED
};
