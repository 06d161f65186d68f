//! `dist`: The p-norm of the difference of two tensors.

use super::*;
use crate::named::dist;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("dist(Tensor input, Tensor other, Scalar p=2) -> Tensor"),
    doc: "The p-norm of the difference of two tensors.

Example::

    >>> oneflow.dist(oneflow.tensor([3., 0.]), oneflow.tensor([0., 4.]))
    tensor(5.)",
    faces: Faces::FN_METHOD,
    compose: Some(|c, outs| {
        let p = c.arg(dist::P).scalar().unwrap_or(Scalar::Int(2));
        let apart = c.t(dist::INPUT)?.sub(c.t(dist::OTHER)?)?;
        if !apart.dtype().is_differentiable() {
            return Err(Error::not_implemented(format!(
                "norm(): input dtype should be either floating point or complex. Got {} instead.",
                apart.dtype().scalar_type_name()
            )));
        }
        give(outs, apart.linalg_vector_norm(p, None::<&[i64]>, false)?)
    }),
    samples: || {
        let t = |p| Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[4]), SampleArg::Float(p)]);
        vec![t(2.0), t(1.0)]
    },
    ..COMPOSED
};
