//! `i0`, `special_i0e`: The modified Bessel function of the first kind of order zero.

use super::unary;
use crate::named::{i0, special_i0e};
use crate::prelude::*;
use oneflow_kernels_prim::special as s;

static I0_EXPR: Expr = expr!(float "i0", |x| s::i0(x));

static I0E_EXPR: Expr = expr!(float "i0e", |x| s::i0e(x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("i0(Tensor input) -> Tensor"),
    doc: "The modified Bessel function of the first kind of order zero.

Example::

    >>> oneflow.i0(oneflow.tensor([0.]))
    tensor([1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &I0_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(i0::INPUT, &[i0::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(i0::INPUT, || c.g()?.mul(&c.x(i0::INPUT)?.special_i1()?)),
    },
    ..super::special_rules::REAL
};

pub static I0E: OpDef = OpDef {
    sig: Sig::parse("special_i0e(Tensor input) -> Tensor"),
    doc: "`exp(-abs(x)) * i0(x)`.

Example::

    >>> oneflow.special.i0e(oneflow.tensor([0.]))
    tensor([1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &I0E_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(special_i0e::INPUT, &[special_i0e::INPUT]),
            Save::out(special_i0e::RESULT, &[special_i0e::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let x = c.x(special_i0e::INPUT)?;
            out.set(special_i0e::INPUT, || {
                c.g()?.mul(&x.special_i1e()?.sub(&x.sgn()?.mul(c.y(special_i0e::RESULT)?)?)?)
            })
        },
    },
    ..super::special_rules::SPECIAL
};
