//! Exponential minus one.

use super::{dual, unary};
use crate::named::expm1 as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "expm1", |x| x.expm1()).complex(complex!(|x| x.expm1()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("expm1(Tensor input) -> Tensor"),
    doc: "`exp(x) - 1`, exact for small x.

Example::

    >>> oneflow.expm1(oneflow.tensor([0.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(at::RESULT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(at::INPUT, || c.g()?.mul(&dual(c.y(at::RESULT)?)?.add(1.0)?)),
    },
    sparse: Sparse::Values,
    ..unary::FLOAT
};
