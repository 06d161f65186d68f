//! `atleast_1d`, `atleast_2d`, `atleast_3d`: The tensor with one dimension at least.

use super::dstack::least_3d;
use super::hstack::{least_1d, least_2d};
use super::{COMPOSED, give};
use crate::named::{atleast_1d, atleast_2d, atleast_3d};
use crate::prelude::*;

fn of_each_rank() -> Vec<Sample> {
    [&[][..], &[3], &[2, 3]].iter().map(|s| Sample::new(vec![SampleArg::f32(s)])).collect()
}

pub static LEAST_1D: OpDef = OpDef {
    sig: Sig::parse("atleast_1d(Tensor(a) input) -> Tensor(a)"),
    doc: "The tensor with one dimension at least.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| give(outs, least_1d(c.t(atleast_1d::INPUT)?)?)),
    samples: of_each_rank,
    ..COMPOSED
};

pub static LEAST_2D: OpDef = OpDef {
    sig: Sig::parse("atleast_2d(Tensor(a) input) -> Tensor(a)"),
    doc: "The tensor with two dimensions at least.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| give(outs, least_2d(c.t(atleast_2d::INPUT)?)?)),
    samples: of_each_rank,
    ..COMPOSED
};

pub static LEAST_3D: OpDef = OpDef {
    sig: Sig::parse("atleast_3d(Tensor(a) input) -> Tensor(a)"),
    doc: "The tensor with three dimensions at least.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| give(outs, least_3d(c.t(atleast_3d::INPUT)?)?)),
    samples: of_each_rank,
    ..COMPOSED
};
