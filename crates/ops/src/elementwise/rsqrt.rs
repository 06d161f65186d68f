//! Reciprocal of the square root.

use super::{dual, unary};
use crate::named::rsqrt as at;
use crate::prelude::*;

static EXPR: Expr = expr!(half "rsqrt", |x| x.rsqrt()).complex(complex!(|x| x.sqrt().recip()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("rsqrt(Tensor input) -> Tensor"),
    doc: "`1 / sqrt(x)`, elementwise.

Example::

    >>> oneflow.rsqrt(oneflow.tensor([4.]))
    tensor([0.5000])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(at::RESULT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(at::INPUT, || {
                let y = c.y(at::RESULT)?;
                c.g()?.mul(&dual(&y.mul(y)?.mul(y)?)?)?.mul(-0.5)
            })
        },
    },
    samples: unary::samples_positive,
    ..unary::FLOAT
};
