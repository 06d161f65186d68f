//! `argsort`: Where the elements in order come from.

use crate::named::argsort;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("argsort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor"),
    doc: "Where the elements in order come from.

Example::

    >>> oneflow.argsort(oneflow.tensor([3., 1., 2.]))
    tensor([1, 2, 0])",
    compose: Some(|c, outs| {
        let [_, indices] = c.t(argsort::INPUT)?.sort(c.int(argsort::DIM)?, c.bool(argsort::DESCENDING))?;
        outs.give(indices);
        Ok(())
    }),
    faces: Faces::FN_METHOD,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..OpDef::BASE
};
