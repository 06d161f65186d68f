//! `copysign`: The magnitude of `input` with the sign of `other`.

use super::binary;
use crate::named::copysign;
use crate::prelude::*;

static COPYSIGN_EXPR: Expr = expr!(float "copysign", |x, y| x.copysign(y));

static COPYSIGN_SCALAR: Expr = expr!(float "copysign_scalar", |x; p| x.copysign(p[0]));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("copysign(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "The magnitude of `input` with the sign of `other`.

Example::

    >>> oneflow.copysign(oneflow.tensor([1., 2.]), -1)
    tensor([-1., -2.])",
    infer: super::binary_rules::to_real_float,
    kernel: Kernel::Elementwise(|c, o, p| {
        binary::lower(c, o[copysign::RESULT].dtype().compute(), p, &COPYSIGN_EXPR, &COPYSIGN_SCALAR)
    }),
    grad: Grad::Rule {
        save: &[Save::of(copysign::INPUT, &[copysign::INPUT]), Save::out(copysign::RESULT, &[copysign::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(copysign::INPUT, || {
                let ratio = c.y(copysign::RESULT)?.div(c.x(copysign::INPUT)?)?;
                c.x(copysign::INPUT)?.eq(0.0)?.r#where(0.0, &c.g()?.mul(&ratio)?)
            })?;
            out.set(copysign::OTHER, || c.g()?.zeros_like())
        },
    },
    ..binary::ARITH
};
