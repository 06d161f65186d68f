//! Reciprocal.

use super::{dual, unary};
use crate::named::reciprocal as at;
use crate::prelude::*;

static EXPR: Expr = expr!(half "reciprocal", |x| x.recip()).complex(complex!(|x| x.recip()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("reciprocal(Tensor input) -> Tensor"),
    doc: "`1 / x`, elementwise.

Example::

    >>> oneflow.reciprocal(oneflow.tensor([4.]))
    tensor([0.2500])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(at::RESULT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(at::INPUT, || {
                let y = c.y(at::RESULT)?;
                c.g()?.mul(&dual(&y.mul(y)?)?)?.neg()
            })
        },
    },
    samples: unary::samples_positive,
    ..unary::FLOAT
};
