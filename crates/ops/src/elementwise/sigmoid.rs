//! Logistic function.

use super::{dual, unary};
use crate::named::sigmoid as at;
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
        save: &[Save::out(at::RESULT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(at::INPUT, || {
                let y = c.y(at::RESULT)?;
                c.g()?.mul(&dual(&y.sub(&y.mul(y)?)?)?)
            })
        },
    },
    ..unary::FLOAT
};
