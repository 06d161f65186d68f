//! Natural logarithm.

use super::{dual, unary};
use crate::named::log as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "log", |x| x.log()).complex(complex!(|x| x.log()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("log(Tensor input) -> Tensor"),
    doc: "Natural logarithm, elementwise.

Example::

    >>> oneflow.log(oneflow.tensor([1.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || c.g()?.div(&dual(c.x(at::INPUT)?)?)),
    },
    samples: unary::samples_positive,
    ..unary::FLOAT
};
