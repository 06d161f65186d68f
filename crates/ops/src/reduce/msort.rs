//! `msort`: The elements in order along the first dimension.

use super::*;
use crate::named::msort;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("msort(Tensor input) -> Tensor"),
    doc: "The elements in order along the first dimension.

Example::

    >>> oneflow.msort(oneflow.tensor([3., 1., 2.]))
    tensor([1., 2., 3.])",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let [values, _] = c.t(msort::INPUT)?.sort(0, false)?;
        give(outs, values)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
