//! `put`: A copy of `input` with `source` written, or added, at places of the flattened tensor.

use super::{COMPOSED, give};
use crate::named::put;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor"),
    doc: "A copy of `input` with `source` written, or added, at places of the flattened tensor.

Example::

    >>> oneflow.put(oneflow.zeros(2, 2), oneflow.tensor([3]), oneflow.ones(1))
    tensor([[0., 0.],
            [0., 1.]])",
    faces: Faces::FN_METHOD.or(Faces::INPLACE),
    compose: Some(|c, outs| {
        let (x, i, s) = (c.t(put::INPUT)?, c.t(put::INDEX)?, c.t(put::SOURCE)?);
        if i.dtype() != DType::I64 {
            return Err(Error::runtime(format!("put_(): Expected a long tensor for index, but got {}", i.dtype())));
        }
        if x.dtype() != s.dtype() {
            return Err(Error::runtime(format!(
                "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
                x.dtype(),
                s.dtype()
            )));
        }
        if i.numel() != s.numel() {
            return Err(Error::runtime(format!(
                "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {}",
                s.numel(),
                i.numel()
            )));
        }
        if x.numel() == 0 && i.numel() > 0 {
            return Err(Error::index("put_(): Tried to put elements into an empty tensor"));
        }
        if i.numel() == 0 {
            return give(outs, x.cloned()?);
        }
        let flat = x.reshape(&[-1])?;
        let put = flat
            .index_put([Some(&i.reshape(&[-1])?)], &s.reshape(&[-1])?, c.bool(put::ACCUMULATE))?
            .reshape(x.sizes())?;
        // In the input's memory order.
        give(outs, if x.is_contiguous() { put } else { x.copy(&put, false)? })
    }),
    samples: || {
        let t = |add| {
            let i = SampleArg::i64(&[1], -12, 12);
            Sample::new(vec![SampleArg::f32(&[3, 4]), i, SampleArg::f32(&[1]), SampleArg::Bool(add)])
        };
        vec![t(true), t(false)]
    },
    traits: Traits::READS_DISJOINT,
    ..COMPOSED
};
