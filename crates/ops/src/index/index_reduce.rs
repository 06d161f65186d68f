//! `index_reduce`: A copy of `input` in which the entries of `source` are combined at the given entries of a
//! dimension: `reduce` is "prod", "mean", "amax" or "amin".

use super::{COMPOSED, give};
use crate::named::index_reduce;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
    ),
    doc: "A copy of `input` in which the entries of `source` are combined at the given entries of a dimension: `reduce` is
\"prod\", \"mean\", \"amax\" or \"amin\".

Example::

    >>> oneflow.index_reduce(oneflow.ones(2), 0, oneflow.tensor([0, 0]), oneflow.tensor([2., 3.]), 'prod')
    tensor([6., 1.])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        let (x, s, how) = (c.t(index_reduce::INPUT)?, c.t(index_reduce::SOURCE)?, c.str(index_reduce::REDUCE)?);
        let d = wrap_dim(c.int(index_reduce::DIM)?, x.ndim())?;
        if !["prod", "mean", "amax", "amin"].contains(&how) {
            return Err(Error::runtime(format!(
                "reduce argument must be either prod, mean, amax or amin, got {how}."
            )));
        }
        let index = super::index_fill::vector(c, index_reduce::INDEX)?;
        if s.dtype() != x.dtype() {
            return Err(Error::runtime(format!(
                "index_reduce_(): self ({}) and source ({}) must have the same scalar type",
                x.dtype(),
                s.dtype()
            )));
        }
        // The index repeated over the other dims of the source.
        let mut own: Dims = SmallVec::from_elem(1, s.ndim().max(1));
        own[d] = -1;
        let (line, x1, s1) = if x.ndim() == 0 {
            (index, x.reshape(&[1])?, s.reshape(&[1])?)
        } else {
            (index.reshape(&own)?.expand(s.sizes())?, x.clone(), s.clone())
        };
        give(outs, x1.scatter_reduce_two_with(d as i64, &line, &s1, how, c.bool(index_reduce::INCLUDE_SELF))?.reshape(x.sizes())?)
    }),
    samples: || {
        let t = |how| {
            Sample::new(vec![
                SampleArg::range(&[3, 4], 0.5, 2.0),
                SampleArg::Int(0),
                SampleArg::i64(&[5], 0, 3),
                SampleArg::range(&[5, 4], 0.5, 2.0),
                SampleArg::Str(how),
            ])
        };
        vec![t("amax"), t("mean"), t("prod")]
    },
    traits: Traits::EXACT_OUT.or(Traits::READS_DISJOINT),
    ..COMPOSED
};
