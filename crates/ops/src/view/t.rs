//! `t`: The transpose of a matrix; vectors and numbers stay as they are.

use super::COMPOSED;
use crate::named::t;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("t(Tensor(a) input) -> Tensor(a)"),
    doc: "The transpose of a matrix; vectors and numbers stay as they are.

Example::

    >>> oneflow.t(oneflow.zeros(2, 3)).shape
    oneflow.Size([3, 2])",
    compose: Some(|c, outs| {
        let x = c.t(t::INPUT)?;
        if x.ndim() > 2 {
            return Err(Error::runtime(format!(
                "t() expects a tensor with <= 2 dimensions, but self is {}D",
                x.ndim()
            )));
        }
        outs.give(if x.ndim() == 2 { x.transpose(0, 1)? } else { x.view(x.sizes())? });
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])]), Sample::new(vec![SampleArg::f32(&[3])])],
    sparse: Sparse::Transpose,
    ..COMPOSED
};
