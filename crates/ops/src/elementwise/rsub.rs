//! Subtraction with the operands exchanged.

use super::binary;
use crate::named::rsub as at;
use crate::prelude::*;

static SCALAR: Expr = expr!(num "rsub_scalar", |x; p| p[0] - p[1] * x).complex(complex!(|x; p| p[0] - p[1] * x));
static TENSOR: Expr = expr!(num "rsub", |x, y; p| y - p[0] * x).complex(complex!(|x, y; p| y - p[0] * x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("rsub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor"),
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
        let expr = binary::lower(c, compute, p, &TENSOR, &SCALAR)?;
        super::push_scalar(p, compute, c.arg(at::ALPHA).scalar().unwrap_or(Scalar::Int(1)));
        Ok(expr)
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
    ..binary::ARITH
};
