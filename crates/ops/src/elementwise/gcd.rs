//! `gcd`, `lcm`: The greatest common divisor, elementwise.

use super::unary;
use crate::prelude::*;

static GCD_EXPR: Expr = expr!(int "gcd", |x, y| x.gcd(y));

static LCM_EXPR: Expr = expr!(int "lcm", |x, y| {
    let g = x.gcd(y);
    L::select(g.eq(L::splat(0.0)), g, (x.div_trunc(g) * y).abs())
});

pub static OP: OpDef = OpDef {
    sig: Sig::parse("gcd(Tensor input, Tensor other) -> Tensor"),
    doc: "The greatest common divisor, elementwise.

Example::

    >>> oneflow.gcd(oneflow.tensor([12]), oneflow.tensor([18]))
    tensor([6])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &GCD_EXPR)),
    ..super::binary_rules::INTEGERS
};

pub static LCM: OpDef = OpDef {
    sig: Sig::parse("lcm(Tensor input, Tensor other) -> Tensor"),
    doc: "The least common multiple, elementwise.

Example::

    >>> oneflow.lcm(oneflow.tensor([4]), oneflow.tensor([6]))
    tensor([12])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LCM_EXPR)),
    ..super::binary_rules::INTEGERS
};
