//! `stack`: Tensors of one shape along a new dimension.

use crate::named::stack;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("stack(Tensor[] tensors, int dim=0) -> Tensor"),
    doc: "Tensors of one shape along a new dimension.

Example::

    >>> oneflow.stack([oneflow.tensor([1, 2]), oneflow.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])",
    faces: Faces::FN.or(Faces::OUT),
    compose: Some(|c, outs| {
        if c.ins.is_empty() {
            return Err(Error::runtime("stack expects a non-empty TensorList"));
        }
        let first = c.t(stack::TENSORS.first())?;
        let dim = wrap_dim(c.int(stack::DIM)?, first.ndim() + 1)? as i64;
        let mut parts = Vec::with_capacity(c.ins.len());
        for (i, t) in c.ins.iter().flatten().enumerate() {
            if t.sizes() != first.sizes() {
                return Err(Error::runtime(format!(
                    "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at entry {i}",
                    first.sizes(),
                    t.sizes()
                )));
            }
            parts.push(t.unsqueeze(dim)?);
        }
        outs.give(f::cat(&parts, dim)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    amp: Amp::Widest,
    samples: || {
        let t = |a: &[i64], d| {
            Sample::new(vec![SampleArg::List(vec![SampleArg::f32(a), SampleArg::f32(a)]), SampleArg::Int(d)])
        };
        vec![t(&[2, 3], 0), t(&[2, 3], -1), t(&[], 0)]
    },
    ..OpDef::BASE
};
