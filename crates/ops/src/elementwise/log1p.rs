//! Logarithm of one plus x.

use super::{dual, unary};
use crate::named::log1p as at;
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
        save: &[Save::of(at::INPUT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || c.g()?.div(&dual(&c.x(at::INPUT)?.add(1.0)?)?)),
    },
    samples: unary::samples_positive,
    sparse: Sparse::Values,
    ..unary::FLOAT
};
