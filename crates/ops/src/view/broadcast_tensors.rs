//! `broadcast_tensors`: The tensors expanded to their common size.

use super::{COMPOSED, give_all};
use crate::prelude::*;

pub(super) fn pair(a: &[i64], b: &[i64]) -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::List(vec![SampleArg::f32(a), SampleArg::f32(b)])])]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("broadcast_tensors(Tensor[] tensors) -> Tensor[]"),
    doc: "The tensors expanded to their common size.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let mut sizes = Dims::new();
        for t in c.ins.iter().flatten() {
            sizes = broadcast_shapes(&sizes, t.sizes())?;
        }
        give_all(outs, c.ins.iter().flatten().map(|t| t.expand(&sizes)).collect::<Result<Vec<_>>>()?)
    }),
    samples: || pair(&[3, 1], &[4]),
    ..COMPOSED
};
