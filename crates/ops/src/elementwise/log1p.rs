//! Logarithm of one plus x.

use super::{dual, unary};
use crate::prelude::*;

static EXPR: Expr = expr!(float "log1p", |x| x.log1p()).complex(complex!(|x| x.log1p()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("log1p(Tensor input) -> Tensor"),
    doc: "`log(1 + x)`, exact for small x.

Example::

    >>> oneflow.log1p(oneflow.tensor([0.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::In(0, 1)],
        fix: Fix::None,
        f: |c, out| out.set(0, || c.g()?.div(&dual(&c.x(0)?.add(1.0)?)?)),
    },
    samples: unary::samples_positive,
    sparse: Sparse::Values,
    ..unary::FLOAT
};
