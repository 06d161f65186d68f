//! `special_erfcx`: `exp(x ** 2) * erfc(x)`.

use super::unary;
use crate::named::special_erfcx;
use crate::prelude::*;
use oneflow_kernels_prim::special as s;
use std::f64::consts::FRAC_2_SQRT_PI;

static ERFCX_EXPR: Expr = expr!(float "erfcx", |x| s::erfcx(x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("special_erfcx(Tensor input) -> Tensor"),
    doc: "`exp(x ** 2) * erfc(x)`.

Example::

    >>> oneflow.special.erfcx(oneflow.tensor([0.]))
    tensor([1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ERFCX_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(special_erfcx::INPUT, &[special_erfcx::INPUT]),
            Save::out(special_erfcx::RESULT, &[special_erfcx::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            out.set(special_erfcx::INPUT, || {
                c.g()?.mul(&c.x(special_erfcx::INPUT)?.mul(c.y(special_erfcx::RESULT)?)?.mul(2.0)?.sub(FRAC_2_SQRT_PI)?)
            })
        },
    },
    ..super::special_rules::SPECIAL
};
