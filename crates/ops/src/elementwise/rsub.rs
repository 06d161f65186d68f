//! Subtraction with the operands exchanged.

use super::binary;
use crate::named::rsub as at;
use crate::prelude::*;

static SCALAR: Expr =
    expr!(num "rsub_scalar", |x; p| (-p[0]).mul_add(x, p[1])).complex(complex!(|x; p| p[1] - p[0] * x));
static TENSOR: Expr = expr!(num "rsub", |x, y; p| (-p[0]).mul_add(x, y)).complex(complex!(|x, y; p| y - p[0] * x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("rsub(Tensor input, Tensor|Scalar other, Scalar alpha=1) -> Tensor"),
    doc: "`other - alpha * input`, with broadcasting.

Example::

    >>> oneflow.rsub(oneflow.tensor([1., 2.]), 10)
    tensor([9., 8.])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        super::sub::refuse_masks(c)?;
        binary::infer_alpha(c, outs)
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        let compute = outs[at::RESULT].dtype().compute();
        let alpha = c.arg(at::ALPHA).scalar().unwrap_or(Scalar::Int(1));
        super::add::with_alpha(c, compute, p, alpha, &TENSOR, &SCALAR)
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(at::INPUT, || super::add::scaled(c.g()?, c.arg(at::ALPHA).scalar())?.neg())?;
            out.set(at::OTHER, || Ok(c.g()?.clone()))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[at::INPUT, at::OTHER])] }),
    limited: Limited::COMPLEX,
    ..binary::ARITH
};
