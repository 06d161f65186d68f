//! `addr`: `beta * input + alpha * outer(vec1, vec2)`.

use super::*;
use crate::named::addr;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"),
    doc: "`beta * input + alpha * outer(vec1, vec2)`.

Example::

    >>> oneflow.addr(oneflow.ones(1), oneflow.tensor([1., 2.]), oneflow.tensor([3.]))
    tensor([[4.],
            [7.]])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        if c.t(addr::VEC1)?.ndim() != 1 || c.t(addr::VEC2)?.ndim() != 1 {
            return Err(super::addmv::mismatch(c, "Expected 1-D arguments vec1 and vec2"));
        }
        let inputs = [c.t(addr::INPUT)?, c.t(addr::VEC1)?, c.t(addr::VEC2)?];
        let dtype = promote::result_type(inputs.into_iter(), None)?;
        for (at, name) in [(addr::BETA, "beta"), (addr::ALPHA, "alpha")] {
            let why = match c.arg(at).scalar() {
                Some(Scalar::Float(_) | Scalar::Complex(..)) if !dtype.is_differentiable() => {
                    format!("For integral input tensors, argument {name} must not be a floating point number.")
                }
                Some(Scalar::Bool(_)) if dtype != DType::Bool => {
                    format!("Boolean {name} only supported for Boolean results.")
                }
                _ => continue,
            };
            return Err(Error::runtime(why));
        }
        outs.give(super::addmv::affine(c, |a, b| a.unsqueeze(1)?.mul(b))?);
        Ok(())
    }),
    samples: || {
        let s = || Sample::new(vec![SampleArg::f32(&[4, 3]), SampleArg::f32(&[4]), SampleArg::f32(&[3])]);
        vec![s(), s().kw("alpha", SampleArg::Float(0.5)).kw("beta", SampleArg::Float(2.0))]
    },
    ..super::addmv::COMPOSED
};
