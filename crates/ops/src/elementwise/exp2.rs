//! `exp2`: Two to the power of each element.

use super::{dual, unary};
use crate::named::exp2;
use crate::prelude::*;
use std::f64::consts::LN_2;

static EXP2_EXPR: Expr =
    expr!(float "exp2", |x| x.exp2()).complex(complex!(|x| x.scale(L::splat(std::f64::consts::LN_2)).exp()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("exp2(Tensor input) -> Tensor"),
    doc: "Two to the power of each element.

Example::

    >>> oneflow.exp2(oneflow.tensor([3.]))
    tensor([8.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXP2_EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(exp2::RESULT, &[exp2::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(exp2::INPUT, || c.g()?.mul(&dual(c.y(exp2::RESULT)?)?.mul(LN_2)?)),
    },
    ..unary::FLOAT
};
