//! `repeat`: The tensor copied `repeats[i]` times along each dimension; further counts lead as new dimensions.

use super::{COMPOSED, give};
use crate::named::repeat;
use crate::prelude::*;

pub(super) fn ints_samples(all: &[(&[i64], &[i64])]) -> Vec<Sample> {
    all.iter().map(|(s, i)| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(i.to_vec())])).collect()
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("repeat(Tensor input, int[] repeats) -> Tensor"),
    doc: "The tensor copied `repeats[i]` times along each dimension; further counts lead as new dimensions.

Example::

    >>> oneflow.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])",
    faces: Faces::METHOD,
    compose: Some(|c, outs| {
        let (x, times) = (c.t(repeat::INPUT)?, c.ints(repeat::REPEATS)?);
        if times.len() < x.ndim() {
            return Err(Error::runtime(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
            ));
        }
        if let Some(t) = times.iter().find(|t| **t < 0) {
            return Err(Error::runtime(format!(
                "repeat(): Trying to create tensor with negative dimension {t}: {times:?}"
            )));
        }
        let lead = times.len() - x.ndim();
        let (mut split, mut wide, mut all) = (Dims::new(), Dims::new(), Dims::new());
        for (i, &t) in times.iter().enumerate() {
            let n = i.checked_sub(lead).map_or(1, |k| x.sizes()[k]);
            split.extend_from_slice(&[1, n]);
            wide.extend_from_slice(&[t, n]);
            all.push(t.checked_mul(n).ok_or_else(|| Error::runtime("repeat(): sizes overflow"))?);
        }
        give(outs, x.reshape(&split)?.expand(&wide)?.clone_contiguous()?.view(&all)?)
    }),
    samples: || ints_samples(&[(&[2, 3], &[2, 1]), (&[3], &[2, 2]), (&[], &[3]), (&[2], &[0]), (&[2, 3], &[1, 1])]),
    ..COMPOSED
};
