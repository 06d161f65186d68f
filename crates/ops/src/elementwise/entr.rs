//! `special_entr`: `-x * log(x)`; zero at zero, negative infinity below.

use super::unary;
use crate::named::special_entr;
use crate::prelude::*;

static ENTR_EXPR: Expr = expr!(float "entr", |x| {
    let zero = L::splat(0.0);
    let y = L::select(x.eq(zero), zero, -(x * x.log()));
    L::select(x.lt(zero), L::splat(f64::NEG_INFINITY), y)
});

pub static OP: OpDef = OpDef {
    sig: Sig::parse("special_entr(Tensor input) -> Tensor"),
    doc: "`-x * log(x)`; zero at zero, negative infinity below.

Example::

    >>> oneflow.special.entr(oneflow.tensor([1.]))
    tensor([-0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ENTR_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(special_entr::INPUT, &[special_entr::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(special_entr::INPUT, || c.g()?.mul(&c.x(special_entr::INPUT)?.log()?.neg()?.sub(1.0)?)),
    },
    samples: unary::samples_positive,
    ..super::special_rules::SPECIAL
};
