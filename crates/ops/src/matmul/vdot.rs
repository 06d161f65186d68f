//! `vdot`: Inner product of two vectors, conjugating the first.

use super::*;
use crate::named::vdot;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("vdot(Tensor input, Tensor other) -> Tensor"),
    doc: "Inner product of two vectors, conjugating the first.

Example::

    >>> oneflow.vdot(oneflow.tensor([1., 2.]), oneflow.tensor([3., 4.]))
    tensor(11.)",
    compose: Some(|c, outs| {
        let (a, b) = (c.t(vdot::INPUT)?, c.t(vdot::OTHER)?);
        if a.ndim() != 1 || b.ndim() != 1 {
            return Err(Error::runtime(format!(
                "vdot(): 1D tensors expected, but got {}D and {}D tensors",
                a.ndim(),
                b.ndim()
            )));
        }
        if a.dtype() != b.dtype() {
            return Err(Error::runtime(format!(
                "dot : expected both vectors to have same dtype, but found {} and {}",
                a.dtype().scalar_type_name(),
                b.dtype().scalar_type_name()
            )));
        }
        if a.numel() != b.numel() {
            return Err(Error::runtime(format!(
                "inconsistent tensor size, expected tensor {:?} and src {:?} to have the same number of elements, but got {} and {} elements respectively",
                a.sizes(),
                b.sizes(),
                a.numel(),
                b.numel()
            )));
        }
        outs.give(a.conj()?.matmul(b)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[6]), SampleArg::f32(&[6])])],
    traits: Traits::EXACT_OUT,
    ..super::addmv::COMPOSED
};
