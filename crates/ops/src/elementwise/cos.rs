//! Cosine.

use super::{dual, unary};
use crate::named::cos as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "cos", |x| x.cos()).complex(complex!(|x| x.cos()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("cos(Tensor input) -> Tensor"),
    doc: "Cosine, elementwise (radians).

Example::

    >>> oneflow.cos(oneflow.tensor([0.]))
    tensor([1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || c.g()?.mul(&dual(&c.x(at::INPUT)?.sin()?.neg()?)?)),
    },
    ..unary::FLOAT
};
