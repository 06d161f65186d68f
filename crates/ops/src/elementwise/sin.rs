//! Sine.

use super::{dual, unary};
use crate::named::sin as at;
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
        save: &[Save::of(at::INPUT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || c.g()?.mul(&dual(&c.x(at::INPUT)?.cos()?)?)),
    },
    sparse: Sparse::Values,
    ..unary::FLOAT
};
