//! Square root.

use super::{dual, unary};
use crate::named::sqrt as at;
use crate::prelude::*;

static EXPR: Expr = expr!(half "sqrt", |x| x.sqrt()).complex(complex!(|x| x.sqrt()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("sqrt(Tensor input) -> Tensor"),
    doc: "Square root, elementwise.

Example::

    >>> oneflow.sqrt(oneflow.tensor([4.]))
    tensor([2.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(at::RESULT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || c.g()?.div(&dual(c.y(at::RESULT)?)?.mul(2.0)?)),
    },
    samples: unary::samples_positive,
    sparse: Sparse::Values,
    ..unary::FLOAT
};
