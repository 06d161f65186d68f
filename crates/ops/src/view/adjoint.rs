//! `adjoint`: The last two dimensions exchanged, and complex numbers conjugated.

use super::{COMPOSED, give};
use crate::named::adjoint;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("adjoint(Tensor(a) input) -> Tensor(a)"),
    doc: "The last two dimensions exchanged, and complex numbers conjugated.

Example::

    >>> oneflow.adjoint(oneflow.zeros(2, 3)).shape
    oneflow.Size([3, 2])",
    compose: Some(|c, outs| {
        let x = c.t(adjoint::INPUT)?;
        if x.ndim() == 0 {
            return give(outs, x.conj()?);
        }
        if x.ndim() < 2 {
            return Err(Error::runtime(format!(
                "tensor.adjoint() is only supported on matrices or batches of matrices. Got {}-D tensor.",
                x.ndim()
            )));
        }
        give(outs, x.transpose(-2, -1)?.conj()?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])])],
    ..COMPOSED
};
