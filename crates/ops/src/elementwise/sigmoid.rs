//! Logistic function.

use super::{dual, unary};
use crate::prelude::*;

static EXPR: Expr = expr!(float "sigmoid", |x| x.sigmoid()).complex(complex!(|x| x.sigmoid()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("sigmoid(Tensor input) -> Tensor"),
    doc: "`1 / (1 + exp(-x))`, elementwise.

Example::

    >>> oneflow.sigmoid(oneflow.tensor([0.]))
    tensor([0.5000])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::Out(0, 1)],
        fix: Fix::None,
        f: |c, out| {
            out.set(0, || {
                let y = c.y(0)?;
                c.g()?.mul(&dual(&y.sub(&y.mul(y)?)?)?)
            })
        },
    },
    ..unary::FLOAT
};
