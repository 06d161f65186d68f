//! `log10`: Logarithm to base ten, elementwise.

use super::{dual, unary};
use crate::named::log10;
use crate::prelude::*;
use std::f64::consts::LN_10;

static LOG10_EXPR: Expr =
    expr!(float "log10", |x| x.log10()).complex(complex!(|x| x.log().scale(L::splat(std::f64::consts::LOG10_E))));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("log10(Tensor input) -> Tensor"),
    doc: "Logarithm to base ten, elementwise.

Example::

    >>> oneflow.log10(oneflow.tensor([100.]))
    tensor([2.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LOG10_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(log10::INPUT, &[log10::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(log10::INPUT, || c.g()?.div(&dual(c.x(log10::INPUT)?)?.mul(LN_10)?)),
    },
    samples: unary::samples_positive,
    ..unary::FLOAT
};
