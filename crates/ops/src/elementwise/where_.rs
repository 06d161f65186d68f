//! `where`: Elements of `input` where `condition` is true, of `other` elsewhere, with broadcasting.

use crate::named::where_;
use crate::prelude::*;

static BOTH: Expr = expr!(num "where", |c, x, y| L::select(c.is_true(), x, y)).complex(complex!(|c, x, y| Cx::select(
    c.is_true(),
    x,
    y
)));

static SCALAR_OTHER: Expr = expr!(num "where_other", |c, x; p| L::select(c.is_true(), x, p[0]))
    .complex(complex!(|c, x; p| Cx::select(c.is_true(), x, p[0])));

static SCALAR_INPUT: Expr = expr!(num "where_input", |c, y; p| L::select(c.is_true(), p[0], y))
    .complex(complex!(|c, y; p| Cx::select(c.is_true(), p[0], y)));

static SCALARS: Expr = expr!(num "where_scalars", |c; p| L::select(c.is_true(), p[0], p[1]))
    .complex(complex!(|c; p| Cx::select(c.is_true(), p[0], p[1])));

/// What an error about a mask adds.
const HINT: &str = "(Under OneFlow's conventions integers are masks too: oneflow.conventions(\"oneflow\").)";

/// An error, which begins with `text` and the mask's dtype, unless the tensor is a mask: booleans, and under OneFlow's
/// conventions integers, true where they are not zero. These are compared as 64-bit integers or as floats, so none is cut to
/// zero; a fraction would be.
pub(crate) fn check_mask(mask: &Tensor, text: &str) -> Result<()> {
    if mask.dtype() == DType::Bool || mask.dtype().is_int() && oneflow_conventions() {
        return Ok(());
    }
    Err(Error::runtime(format!("{text} {} {HINT}", mask.dtype().scalar_type_name())))
}

fn dtype(c: &Call<'_>) -> Result<DType> {
    let tensors = [c.opt(where_::INPUT), c.opt(where_::OTHER)].into_iter().flatten();
    match (c.arg(where_::INPUT_SCALAR).scalar(), c.arg(where_::OTHER_SCALAR).scalar()) {
        (Some(a), Some(b)) => {
            let (a, b) = (a.natural_dtype(default_dtype()), b.natural_dtype(default_dtype()));
            oneflow_base::promote(a, b)
        }
        (a, b) => result_type(tensors, a.or(b)),
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("where(Tensor condition, Tensor|Scalar input, Tensor|Scalar other) -> Tensor"),
    doc: "Elements of `input` where `condition` is true, of `other` elsewhere, with broadcasting.

Example::

    >>> oneflow.where(oneflow.tensor([True, False]), 1., 0.)
    tensor([1., 0.])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let condition = c.t(where_::CONDITION)?;
        if condition.dtype() == DType::U8 && !oneflow_conventions() {
            warn(
                "where received a uint8 condition tensor. This behavior is deprecated and will be removed. Use a boolean condition instead.",
            )?;
        } else {
            check_mask(condition, "where expected condition to be a boolean tensor, but got a tensor with dtype")?;
        }
        let mixed = c.opt(where_::INPUT).is_none() || c.opt(where_::OTHER).is_none();
        super::push_mixed(c, dtype(c)?, mixed, outs)
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        let compute = outs[where_::RESULT].dtype().compute();
        p.push(compute.into());
        for s in [c.arg(where_::INPUT_SCALAR).scalar(), c.arg(where_::OTHER_SCALAR).scalar()].into_iter().flatten() {
            super::push_scalar(p, compute, s);
        }
        Ok(match (c.opt(where_::INPUT), c.opt(where_::OTHER)) {
            (Some(_), Some(_)) => &BOTH,
            (Some(_), None) => &SCALAR_OTHER,
            (None, Some(_)) => &SCALAR_INPUT,
            (None, None) => &SCALARS,
        })
    }),
    grad: Grad::Rule {
        save: &[Save::of(where_::CONDITION, &[where_::INPUT, where_::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(where_::INPUT, || c.x(where_::CONDITION)?.r#where(c.g()?, 0.0))?;
            out.set(where_::OTHER, || c.x(where_::CONDITION)?.r#where(0.0, c.g()?))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[where_::INPUT, where_::OTHER])] }),
    traits: Traits::ALIAS_OK,
    samples: || {
        let (m, x) = (|s: &[i64]| SampleArg::bool(s), |s: &[i64]| SampleArg::f32(s));
        vec![
            Sample::new(vec![m(&[3, 4]), x(&[3, 4]), x(&[3, 4])]),
            Sample::new(vec![m(&[4]), x(&[3, 4]), x(&[])]),
            Sample::new(vec![m(&[3, 1]), x(&[1, 4]), SampleArg::Float(2.0)]),
            Sample::new(vec![m(&[3]), SampleArg::Float(1.0), x(&[3])]),
        ]
    },
    limited: Limited::ALL,
    ..OpDef::BASE
};
