//! Sine.

use super::{dual, unary};
use crate::prelude::*;

static EXPR: Expr = expr!(float "sin", |x| x.sin()).complex(complex!(|x| x.sin()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("sin(Tensor input) -> Tensor"),
    doc: "Sine, elementwise (radians).

Example::

    >>> oneflow.sin(oneflow.tensor([0.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::In(0, 1)],
        fix: Fix::None,
        f: |c, out| out.set(0, || c.g()?.mul(&dual(&c.x(0)?.cos()?)?)),
    },
    sparse: Sparse::Values,
    ..unary::FLOAT
};
