//! `is_member`, `isin`: Whether each element is among `test_elements`; with `invert` whether it is not.

use super::{COMPOSED, give};
use crate::named::{is_member, isin, isin_element, isin_number};
use crate::prelude::*;

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
                .with(IsMemberParams { invert: c.bool(is_member::INVERT) });
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

pub static OP: OpDef = OpDef {
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
        let (e, t) = super::searchsorted::with_number(c.t(isin_number::ELEMENTS)?, c.arg(isin_number::TEST_ELEMENT))?;
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
        let (t, e) = super::searchsorted::with_number(c.t(isin_element::TEST_ELEMENTS)?, c.arg(isin_element::ELEMENT))?;
        give(outs, member(&e, &t, c.bool(isin_element::INVERT))?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::Int(3), SampleArg::i64(&[3, 4], 0, 9)])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
