//! `take`: The elements at places of the flattened tensor.

use super::{COMPOSED, give};
use crate::named::take;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("take(Tensor input, Tensor index) -> Tensor"),
    doc: "The elements at places of the flattened tensor.

Example::

    >>> oneflow.take(oneflow.tensor([[1, 2], [3, 4]]), oneflow.tensor([0, 3]))
    tensor([1, 4])",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let (x, i) = (c.t(take::INPUT)?, c.t(take::INDEX)?);
        if i.dtype() != DType::I64 {
            return Err(Error::runtime(format!("take(): Expected a long tensor for index, but got {}", i.dtype())));
        }
        if x.numel() == 0 && i.numel() > 0 {
            return Err(Error::index("take(): tried to take from an empty tensor"));
        }
        // Where the places lie in another order, the result does not: a new tensor.
        give(outs, x.reshape(&[-1])?.index([Some(&i.contiguous()?)])?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::i64(&[2, 3], -12, 12)])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
