//! `erfc`: `1 - erf(x)`, exact where that is small.

use super::unary;
use crate::named::erfc;
use crate::prelude::*;
use std::f64::consts::FRAC_2_SQRT_PI;

static ERFC_EXPR: Expr = expr!(float "erfc", |x| x.erfc());

/// `g * scale * exp(exponent)`.
pub(super) fn bell(g: &Tensor, exponent: &Tensor, scale: f64) -> Result<Tensor> {
    g.mul(&exponent.exp()?.mul(scale)?)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("erfc(Tensor input) -> Tensor"),
    doc: "`1 - erf(x)`, exact where that is small.

Example::

    >>> oneflow.erfc(oneflow.tensor([0.]))
    tensor([1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ERFC_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(erfc::INPUT, &[erfc::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(erfc::INPUT, || bell(c.g()?, &c.x(erfc::INPUT)?.square()?.neg()?, -FRAC_2_SQRT_PI)),
    },
    ..super::special_rules::REAL
};
