//! `deg2rad`, `rad2deg`: Degrees as radians.

use super::unary;
use crate::named::{deg2rad, rad2deg};
use crate::prelude::*;

static DEG2RAD_EXPR: Expr = expr!(float "deg2rad", |x| x * L::splat(std::f64::consts::PI / 180.0));

static RAD2DEG_EXPR: Expr = expr!(float "rad2deg", |x| x * L::splat(180.0 / std::f64::consts::PI));

const REAL: OpDef = OpDef {
    infer: |c, outs| {
        let x = c.t(deg2rad::INPUT)?;
        if x.dtype().is_complex() {
            return Err(unary::not_implemented(c, x.dtype()));
        }
        super::push_like(x, promote::to_float(x.dtype()), x.device(), None, outs)
    },
    ..unary::FLOAT
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("deg2rad(Tensor input) -> Tensor"),
    doc: "Degrees as radians.

Example::

    >>> oneflow.deg2rad(oneflow.tensor([180.]))
    tensor([3.1416])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &DEG2RAD_EXPR)),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| out.set(deg2rad::INPUT, || c.g()?.mul(std::f64::consts::PI / 180.0)),
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[deg2rad::INPUT])] }),
    sparse: Sparse::LinearValues,
    ..REAL
};

pub static RAD2DEG: OpDef = OpDef {
    sig: Sig::parse("rad2deg(Tensor input) -> Tensor"),
    doc: "Radians as degrees.

Example::

    >>> oneflow.rad2deg(oneflow.tensor([0.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &RAD2DEG_EXPR)),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| out.set(rad2deg::INPUT, || c.g()?.mul(180.0 / std::f64::consts::PI)),
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[rad2deg::INPUT])] }),
    sparse: Sparse::LinearValues,
    ..REAL
};
