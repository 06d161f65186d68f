//! `where`: With the condition alone: the indices of its true elements, one tensor a dimension.

use super::{COMPOSED, give_all};
use crate::named::where_places;
use crate::prelude::*;

pub static WHERE: OpDef = OpDef {
    sig: Sig::parse("where.places(Tensor condition) -> Tensor[]"),
    doc: "With the condition alone: the indices of its true elements, one tensor a dimension.",
    faces: Faces::FN,
    shape: ShapeOf::Data,
    grad: Grad::Never,
    compose: Some(|c, outs| give_all(outs, c.t(where_places::CONDITION)?.nonzero_tuple()?)),
    sbp: SbpRule::of(Rows::OnlyB { why: "the shape of the result depends on all the data" }),
    traits: Traits::HOST_SYNC,
    samples: || vec![Sample::new(vec![SampleArg::bool(&[3, 4])])],
    ..COMPOSED
};
