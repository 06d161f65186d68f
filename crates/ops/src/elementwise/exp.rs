//! Exponential.

use super::{dual, unary};
use crate::named::exp as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "exp", |x| x.exp()).complex(complex!(|x| x.exp()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("exp(Tensor input) -> Tensor"),
    doc: "e to the power of each element.

Example::

    >>> oneflow.exp(oneflow.tensor([0., 1.]))
    tensor([1.0000, 2.7183])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(at::RESULT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || c.g()?.mul(&dual(c.y(at::RESULT)?)?)),
    },
    ..unary::FLOAT
};
