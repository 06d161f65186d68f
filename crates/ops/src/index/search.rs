//! Places in sorted sequences and membership: searchsorted, bucketize, isin.

use super::{COMPOSED, give};
use crate::named::{
    bucketize, bucketize_scalar, is_member, isin, isin_element, isin_number, searchsorted, searchsorted_scalar,
};
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

pub static SORTED: OpDef = OpDef {
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
            l.input(searchsorted::SORTED_SEQUENCE).input(searchsorted::INPUT).opt_input(searchsorted::SORTER, c.opt(searchsorted::SORTER).is_some()).output(searchsorted::RESULT).param(is_right(c)?);
            Ok(())
        },
    },
    // By counting the smaller elements.
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
        let below = if is_right(c)? { s.le(&v)? } else { s.lt(&v)? };
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
fn with_number(sequence: &Tensor, number: Arg<'_>) -> Result<(Tensor, Tensor)> {
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

pub static BUCKETIZE: OpDef = OpDef {
    sig: Sig::parse("bucketize(Tensor input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"),
    doc: "The bucket of each element: the number of boundaries (sorted) before it.

Example::

    >>> oneflow.bucketize(oneflow.tensor([3, 6]), oneflow.tensor([1, 3, 5]))
    tensor([1, 3])",
    faces: Faces::FN.or(Faces::OUT),
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (x, b) = (c.t(bucketize::INPUT)?, c.t(bucketize::BOUNDARIES)?);
        if b.ndim() != 1 {
            return Err(Error::runtime(format!(
                "bucketize(): boundaries tensor must be 1 dimension, but got dim({})",
                b.ndim()
            )));
        }
        give(outs, b.searchsorted_with(x, c.bool(bucketize::OUT_INT32), c.bool(bucketize::RIGHT), None, None)?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3]), SampleArg::range(&[4], 0.5, 0.5)])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static BUCKETIZE_NUMBER: OpDef = OpDef {
    sig: Sig::parse(
        "bucketize.scalar(Scalar input, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    ),
    faces: Faces::FN,
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (s, v) = with_number(c.t(bucketize_scalar::BOUNDARIES)?, c.arg(bucketize_scalar::INPUT))?;
        give(
            outs,
            s.searchsorted_with(&v, c.bool(bucketize_scalar::OUT_INT32), c.bool(bucketize_scalar::RIGHT), None, None)?,
        )
    }),
    samples: || vec![Sample::new(vec![SampleArg::Float(1.0), SampleArg::range(&[4], 0.5, 0.5)])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

/// From this many elements on, sorting and searching is less work than comparing all pairs.
const SEARCH_FROM: i64 = 16;

fn member(elements: &Tensor, tests: &Tensor, invert: bool) -> Result<Tensor> {
    let dtype = oneflow_base::promote(elements.dtype(), tests.dtype())?;
    let cast = |t: &Tensor| if t.dtype() == dtype { Ok(t.clone()) } else { t.to_copy_with(Some(dtype), None) };
    cast(elements)?.is_member(&cast(tests)?, invert)
}

/// Private: `isin` of two tensors of one dtype.
pub static IS_MEMBER: OpDef = OpDef {
    sig: Sig::parse("is_member(Tensor input, Tensor others, bool invert) -> Tensor"),
    doc: "Whether each element is among others of its dtype; with `invert` whether it is not.",
    faces: Faces::PRIVATE,
    infer: |c, outs| outs.push(DType::Bool, c.t(is_member::INPUT)?.device(), c.t(is_member::INPUT)?.sizes()),
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::IS_MEMBER,
        lower: |c, _, l| {
            l.input(is_member::INPUT)
                .input(is_member::OTHERS)
                .output(is_member::RESULT)
                .param(c.bool(is_member::INVERT));
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (e, t) = (c.t(is_member::INPUT)?, c.t(is_member::OTHERS)?.reshape(&[-1])?);
        let n = t.numel();
        let found = if n < SEARCH_FROM {
            e.unsqueeze(-1)?.eq(&t)?.any(&[-1], false)?
        } else {
            let [sorted, _] = t.sort(0, false)?;
            let at = sorted.searchsorted(e)?.clamp(None, Some(Scalar::Int(n - 1)))?;
            sorted.index([Some(&at)])?.eq(e)?
        };
        give(outs, if c.bool(is_member::INVERT) { found.logical_not()? } else { found })
    }),
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        for d in (0..c.t(is_member::INPUT)?.ndim()).map(|d| Sbp::S(d as u8)) {
            rows.push(Row { ins: SmallVec::from_slice(&[d, Sbp::B]), outs: SmallVec::from_slice(&[d]) });
        }
        Ok(())
    })),
    samples: || {
        let t =
            |n, not| Sample::new(vec![SampleArg::i64(&[3, 4], 0, 9), SampleArg::i64(&[n], 0, 9), SampleArg::Bool(not)]);
        vec![t(3, false), t(20, true), t(0, false)]
    },
    ..OpDef::BASE
};

pub static ISIN: OpDef = OpDef {
    sig: Sig::parse(
        "isin(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
    ),
    doc: "Whether each element is among `test_elements`; with `invert` whether it is not.

Example::

    >>> oneflow.isin(oneflow.tensor([1, 2]), oneflow.tensor([2, 3]))
    tensor([False,  True])",
    faces: Faces::FN.or(Faces::OUT),
    grad: Grad::Never,
    compose: Some(|c, outs| {
        for t in [c.t(isin::ELEMENTS)?, c.t(isin::TEST_ELEMENTS)?] {
            if t.dtype() == DType::Bool || t.dtype().is_complex() {
                return Err(Error::not_implemented(format!(
                    "Unsupported input type encountered for isin(): {}",
                    t.dtype().scalar_type_name()
                )));
            }
        }
        give(outs, member(c.t(isin::ELEMENTS)?, c.t(isin::TEST_ELEMENTS)?, c.bool(isin::INVERT))?)
    }),
    samples: || {
        let t = |n| Sample::new(vec![SampleArg::i64(&[3, 4], 0, 9), SampleArg::i64(&[n], 0, 9)]);
        vec![t(3), t(20)]
    },
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static ISIN_NUMBER: OpDef = OpDef {
    sig: Sig::parse(
        "isin.number(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor",
    ),
    faces: Faces::FN.or(Faces::OUT),
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (e, t) = with_number(c.t(isin_number::ELEMENTS)?, c.arg(isin_number::TEST_ELEMENT))?;
        give(outs, member(&e, &t, c.bool(isin_number::INVERT))?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::i64(&[3, 4], 0, 9), SampleArg::Int(3)])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static NUMBER_ISIN: OpDef = OpDef {
    sig: Sig::parse(
        "isin.element(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
    ),
    faces: Faces::FN.or(Faces::OUT),
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (t, e) = with_number(c.t(isin_element::TEST_ELEMENTS)?, c.arg(isin_element::ELEMENT))?;
        give(outs, member(&e, &t, c.bool(isin_element::INVERT))?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::Int(3), SampleArg::i64(&[3, 4], 0, 9)])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
