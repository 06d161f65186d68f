//! `special_i1`, `special_i1e`: The modified Bessel function of the first kind of order one.

use super::unary;
use crate::named::{special_i1, special_i1e};
use crate::prelude::*;
use oneflow_kernels_prim::special as s;

static I1_EXPR: Expr = expr!(float "i1", |x| s::i1(x));

static I1E_EXPR: Expr = expr!(float "i1e", |x| s::i1e(x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("special_i1(Tensor input) -> Tensor"),
    doc: "The modified Bessel function of the first kind of order one.

Example::

    >>> oneflow.special.i1(oneflow.tensor([0.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &I1_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(special_i1::INPUT, &[special_i1::INPUT]), Save::out(special_i1::RESULT, &[special_i1::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let x = c.x(special_i1::INPUT)?;
            // I1(x) / x is one half at zero.
            out.set(special_i1::INPUT, || {
                let ratio = x.eq(0.0)?.r#where(0.5, &c.y(special_i1::RESULT)?.div(x)?)?;
                c.g()?.mul(&x.i0()?.sub(&ratio)?)
            })
        },
    },
    ..super::special_rules::SPECIAL
};

pub static I1E: OpDef = OpDef {
    sig: Sig::parse("special_i1e(Tensor input) -> Tensor"),
    doc: "`exp(-abs(x)) * i1(x)`.

Example::

    >>> oneflow.special.i1e(oneflow.tensor([0.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &I1E_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(special_i1e::INPUT, &[special_i1e::INPUT]),
            Save::out(special_i1e::RESULT, &[special_i1e::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (x, y) = (c.x(special_i1e::INPUT)?, c.y(special_i1e::RESULT)?);
            out.set(special_i1e::INPUT, || {
                let slope = x.special_i0e()?.sub(&y.mul(&x.sgn()?.add(&x.reciprocal()?)?)?)?;
                c.g()?.mul(&x.eq(0.0)?.r#where(0.5, &slope)?)
            })
        },
    },
    ..super::special_rules::SPECIAL
};
