//! Logarithm to base two.

use super::{dual, unary};
use crate::prelude::*;

static EXPR: Expr =
    expr!(float "log2", |x| x.log2()).complex(complex!(|x| x.log().scale(L::splat(std::f64::consts::LOG2_E))));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("log2(Tensor input) -> Tensor"),
    doc: "Logarithm to base two, elementwise.

Example::

    >>> oneflow.log2(oneflow.tensor([8.]))
    tensor([3.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::In(0, 1)],
        fix: Fix::None,
        f: |c, out| out.set(0, || c.g()?.div(&dual(c.x(0)?)?.mul(std::f64::consts::LN_2)?)),
    },
    samples: unary::samples_positive,
    ..unary::FLOAT
};
