//! `sinc`: `sin(pi x) / (pi x)`, one at zero.

use super::{dual, unary};
use crate::named::sinc;
use crate::prelude::*;
use oneflow_kernels_prim::special as s;
use std::f64::consts::PI;

static SINC_EXPR: Expr = expr!(float "sinc", |x| s::sinc(x)).complex(complex!(|x| {
    let t = x.scale(L::splat(PI));
    Cx::select(x.eq(Cx::splat(0.0)), Cx::splat(1.0), t.sin() / t)
}));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("sinc(Tensor input) -> Tensor"),
    doc: "`sin(pi x) / (pi x)`, one at zero.

Example::

    >>> oneflow.sinc(oneflow.tensor([0.5]))
    tensor([0.6366])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SINC_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(sinc::INPUT, &[sinc::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(sinc::INPUT, || {
                let x = c.x(sinc::INPUT)?;
                let t = x.mul(PI)?;
                let slope = t.cos()?.mul(&t)?.sub(&t.sin()?)?.div(&t.mul(x)?)?;
                x.eq(0.0)?.r#where(0.0, &c.g()?.mul(&dual(&slope)?)?)
            })
        },
    },
    ..unary::FLOAT
};
