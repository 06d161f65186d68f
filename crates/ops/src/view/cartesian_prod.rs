//! `cartesian_prod`: Every combination of one element of each vector, a row each.

use super::give;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("cartesian_prod(Tensor[] tensors) -> Tensor"),
    doc: "Every combination of one element of each vector, a row each.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        if let Some(t) = c.ins.iter().flatten().find(|t| t.ndim() != 1) {
            return Err(Error::runtime(format!("Expect a 1D vector, but got shape {:?}", t.sizes())));
        }
        if let [Some(one)] = c.ins {
            return give(outs, (*one).clone());
        }
        let grids = f::meshgrid(c.ins.iter().flatten().copied())?;
        let flat = grids.iter().map(|g| g.reshape(&[-1])).collect::<Result<Vec<_>>>()?;
        give(outs, f::stack(&flat, 1)?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::List(vec![SampleArg::f32(&[3]), SampleArg::f32(&[2])])])],
    ..super::hstack::LIST
};
