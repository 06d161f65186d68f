//! `hstack`: Side by side: vectors along their dimension, other tensors along the second.

use super::{COMPOSED, give};
use crate::prelude::*;

pub(super) const LIST: OpDef = OpDef { faces: Faces::FN.or(Faces::OUT), amp: Amp::WIDEST, samples: pairs, ..COMPOSED };

fn pairs() -> Vec<Sample> {
    let t = |s: &[i64]| Sample::new(vec![SampleArg::List(vec![SampleArg::f32(s), SampleArg::f32(s)])]);
    vec![t(&[3]), t(&[2, 3])]
}

/// The tensors of the list, each with at least `n` dims as `raise` makes them.
pub(super) fn raised(c: &Call<'_>, raise: fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    if c.ins.is_empty() {
        return Err(Error::runtime(format!("{}() expects a non-empty TensorList", c.name())));
    }
    c.ins.iter().flatten().map(|t| raise(t)).collect()
}

/// A number becomes a vector, otherwise the tensor itself.
pub fn least_1d(x: &Tensor) -> Result<Tensor> {
    if x.ndim() == 0 { x.reshape(&[1]) } else { Ok(x.clone()) }
}

/// A vector becomes a row.
pub fn least_2d(x: &Tensor) -> Result<Tensor> {
    match x.ndim() {
        0 => x.reshape(&[1, 1]),
        1 => x.unsqueeze(0),
        _ => Ok(x.clone()),
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("hstack(Tensor[] tensors) -> Tensor"),
    doc: "Side by side: vectors along their dimension, other tensors along the second.

Example::

    >>> oneflow.hstack([oneflow.tensor([1]), oneflow.tensor([2, 3])])
    tensor([1, 2, 3])",
    compose: Some(|c, outs| {
        let parts = raised(c, least_1d)?;
        give(outs, f::cat(&parts, (parts[0].ndim() > 1) as i64)?)
    }),
    ..LIST
};
