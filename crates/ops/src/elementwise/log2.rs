//! Logarithm to base two.

use super::{dual, unary};
use crate::named::log2 as at;
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
        save: &[Save::of(at::INPUT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || c.g()?.div(&dual(c.x(at::INPUT)?)?.mul(std::f64::consts::LN_2)?)),
    },
    samples: unary::samples_positive,
    ..unary::FLOAT
};
