//! `fmax`, `fmin`: The greater of both operands; where one is NaN the other.

use super::{binary, two_tensors, unary};
use crate::named::{fmax, fmin};
use crate::prelude::*;

static FMAX_EXPR: Expr = expr!(num "fmax", |x, y| L::select(y.is_nan(), x, L::select(x.is_nan(), y, x.maximum(y))));

static FMIN_EXPR: Expr = expr!(num "fmin", |x, y| L::select(y.is_nan(), x, L::select(x.is_nan(), y, x.minimum(y))));

/// The gradient goes to the operand that was taken; a tie is shared.
fn taken(c: &GradCall<'_>, out: &mut Grads, first: Result<Tensor>) -> Result<()> {
    let (x, y) = (c.x(fmax::INPUT)?, c.x(fmax::OTHER)?);
    let first = first?.logical_or(&y.isnan()?)?;
    let half = x.eq(y)?.r#where(&c.g()?.mul(0.5)?, c.g()?)?;
    let tie = x.eq(y)?;
    out.set(fmax::INPUT, || first.logical_or(&tie)?.r#where(&half, 0.0))?;
    out.set(fmax::OTHER, || first.logical_not()?.logical_or(&tie)?.r#where(&half, 0.0))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("fmax(Tensor input, Tensor other) -> Tensor"),
    doc: "The greater of both operands; where one is NaN the other.

Example::

    >>> oneflow.fmax(oneflow.tensor([1., -1.]).sqrt(), oneflow.tensor([3., 2.]))
    tensor([3., 2.])",
    faces: Faces::FN_METHOD_OUT,
    infer: binary::infer_real,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &FMAX_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(fmax::INPUT, &[fmax::INPUT, fmax::OTHER]), Save::of(fmax::OTHER, &[fmax::INPUT, fmax::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| taken(c, out, c.x(fmax::INPUT)?.gt(c.x(fmax::OTHER)?)),
    },
    samples: two_tensors,
    limited: Limited::ORDER,
    ..binary::ARITH
};

pub static FMIN: OpDef = OpDef {
    sig: Sig::parse("fmin(Tensor input, Tensor other) -> Tensor"),
    doc: "The smaller of both operands; where one is NaN the other.

Example::

    >>> oneflow.fmin(oneflow.tensor([1., oneflow.nan]), oneflow.tensor([3., 2.]))
    tensor([1., 2.])",
    faces: Faces::FN_METHOD_OUT,
    infer: binary::infer_real,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &FMIN_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(fmin::INPUT, &[fmin::INPUT, fmin::OTHER]), Save::of(fmin::OTHER, &[fmin::INPUT, fmin::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| taken(c, out, c.x(fmin::INPUT)?.lt(c.x(fmin::OTHER)?)),
    },
    samples: two_tensors,
    limited: Limited::ORDER,
    ..binary::ARITH
};
