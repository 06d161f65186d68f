//! `searchsorted`: Where each value would have to be put into the sequence, sorted along its last dimension, to
//! keep it sorted: before equal elements, with `right` behind them.

use super::{COMPOSED, give};
use crate::named::{searchsorted, searchsorted_scalar};
use crate::prelude::*;

/// Whether equal elements count as smaller: `right`, or `side` which must not contradict it.
fn is_right(c: &Call<'_>) -> Result<bool> {
    let right = c.bool(searchsorted::RIGHT);
    match c.arg(searchsorted::SIDE).str() {
        Some("right") => Ok(true),
        Some("left") if right => Err(Error::runtime(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True",
        )),
        Some("left") | None => Ok(right),
        Some(other) => {
            Err(Error::runtime(format!("torch.searchsorted(): side can only be 'left' or 'right' but got {other}")))
        }
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "searchsorted(Tensor sorted_sequence, Tensor input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    ),
    doc: "Where each value would have to be put into the sequence, sorted along its last dimension, to keep it sorted: before
equal elements, with `right` behind them.

Example::

    >>> oneflow.searchsorted(oneflow.tensor([1, 3, 5]), oneflow.tensor([3, 4]))
    tensor([1, 2])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let (s, v) = (c.t(searchsorted::SORTED_SEQUENCE)?, c.t(searchsorted::INPUT)?);
        is_right(c)?;
        if s.ndim() == 0 {
            return Err(Error::runtime(
                "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension",
            ));
        }
        let lead = s.ndim() - 1;
        if s.ndim() > 1 && (v.ndim() != s.ndim() || v.sizes()[..lead] != s.sizes()[..lead]) {
            return Err(Error::runtime(format!(
                "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, but we got boundaries tensor {:?} and input value tensor {:?}",
                s.sizes(),
                v.sizes()
            )));
        }
        if let Some(o) = c.opt(searchsorted::SORTER) {
            if o.sizes() != s.sizes() {
                return Err(Error::runtime(format!(
                    "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {:?} and got sorter tensor {:?}",
                    s.sizes(),
                    o.sizes()
                )));
            }
            if o.dtype() != DType::I64 {
                return Err(Error::runtime(format!(
                    "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
                    o.dtype().scalar_type_name()
                )));
            }
        }
        outs.push(if c.bool(searchsorted::OUT_INT32) { DType::I32 } else { DType::I64 }, v.device(), v.sizes())
    },
    kernel: Kernel::Prim {
        prim: &SEARCHSORTED,
        lower: |c, _, l| {
            if c.t(searchsorted::SORTED_SEQUENCE)?.dtype() != c.t(searchsorted::INPUT)?.dtype() {
                return Err(Error::not_implemented("searchsorted: values of another dtype are cast first"));
            }
            l.input(searchsorted::SORTED_SEQUENCE).input(searchsorted::INPUT).opt_input(searchsorted::SORTER, c.opt(searchsorted::SORTER).is_some()).output(searchsorted::RESULT).with(SearchsortedParams { right: is_right(c)? });
            Ok(())
        },
    },
    // By counting the elements that are not greater, so that NaN counts as smaller than every number.
    compose: Some(|c, outs| {
        let (s, v) = (c.t(searchsorted::SORTED_SEQUENCE)?, c.t(searchsorted::INPUT)?);
        let common = promote::result_type([s, v].into_iter(), None)?;
        if s.dtype() != v.dtype() {
            let cast = |t: &Tensor| if t.dtype() == common { Ok(t.clone()) } else { t.to_copy_with(Some(common), None) };
            let found = cast(s)?.searchsorted_with(&cast(v)?, c.bool(searchsorted::OUT_INT32), c.bool(searchsorted::RIGHT), c.arg(searchsorted::SIDE).str(), c.opt(searchsorted::SORTER))?;
            return give(outs, found);
        }
        let s = match c.opt(searchsorted::SORTER) {
            Some(o) => s.gather(-1, o)?,
            None => s.clone(),
        };
        let s = if s.ndim() > 1 { s.unsqueeze(-2)? } else { s };
        let v = v.unsqueeze(-1)?;
        let below = if is_right(c)? { s.gt(&v)? } else { s.ge(&v)? }.logical_not()?;
        let n = below.sum(&[-1], false)?;
        give(outs, if c.bool(searchsorted::OUT_INT32) { n.to_copy_with(Some(DType::I32), None)? } else { n })
    }),
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let (s, v) = (c.t(searchsorted::SORTED_SEQUENCE)?, c.t(searchsorted::INPUT)?);
        if c.opt(searchsorted::SORTER).is_none() {
            for d in 0..v.ndim() {
                let own = Sbp::S(d as u8);
                let sequence = if s.ndim() > 1 && d + 1 < s.ndim() { own } else { Sbp::B };
                let ins = SmallVec::from_slice(&[sequence, own, Sbp::B]);
                rows.push(Row { ins, outs: SmallVec::from_slice(&[own]) });
            }
        }
        Ok(())
    })),
    samples: || {
        let t = |s: &[i64], v: &[i64]| {
            // One value repeated is sorted.
            Sample::new(vec![SampleArg::range(s, 0.5, 0.5), SampleArg::f32(v)])
        };
        vec![t(&[5], &[2, 3]), t(&[2, 5], &[2, 3]).kw("right", SampleArg::Bool(true)), t(&[0], &[2])]
    },
    traits: Traits::EXACT_OUT,
    limited: Limited::ALL.or(Limited::ORDER),
    ..OpDef::BASE
};

/// A sequence and a number in the dtype of both.
pub(super) fn with_number(sequence: &Tensor, number: Arg<'_>) -> Result<(Tensor, Tensor)> {
    let number = number.scalar().unwrap_or(Scalar::Int(0));
    let dtype = promote::result_type([sequence].into_iter(), Some(number))?;
    let cast = if dtype == sequence.dtype() { sequence.clone() } else { sequence.to_copy_with(Some(dtype), None)? };
    let value = cast.new_full(&[], number)?;
    Ok((cast, value))
}

pub static SORTED_NUMBER: OpDef = OpDef {
    sig: Sig::parse(
        "searchsorted.scalar(Tensor sorted_sequence, Scalar input, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    ),
    faces: Faces::FN.or(Faces::OUT),
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (s, v) = with_number(c.t(searchsorted_scalar::SORTED_SEQUENCE)?, c.arg(searchsorted_scalar::INPUT))?;
        give(
            outs,
            s.searchsorted_with(
                &v,
                c.bool(searchsorted_scalar::OUT_INT32),
                c.bool(searchsorted_scalar::RIGHT),
                c.arg(searchsorted_scalar::SIDE).str(),
                c.opt(searchsorted_scalar::SORTER),
            )?,
        )
    }),
    samples: || vec![Sample::new(vec![SampleArg::range(&[5], 0.5, 0.5), SampleArg::Float(1.0)])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
