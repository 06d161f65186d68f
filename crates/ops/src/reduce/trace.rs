//! `trace`: The sum of a matrix's diagonal.

use super::*;
use crate::named::trace;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("trace(Tensor input) -> Tensor"),
    doc: "The sum of a matrix's diagonal.

Example::

    >>> oneflow.trace(oneflow.tensor([[1., 2.], [3., 4.]]))
    tensor(5.)",
    faces: Faces::FN_METHOD,
    compose: Some(|c, outs| {
        let x = c.t(trace::INPUT)?;
        if x.ndim() != 2 {
            return Err(Error::runtime(format!("trace: expected a matrix, but got tensor with dim {}", x.ndim())));
        }
        give(outs, x.diagonal(0, 0, 1)?.sum(None::<&[i64]>, false)?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    amp: Amp::FLOAT32,
    ..COMPOSED
};
