//! `special_ndtr`, `special_ndtri`, `special_log_ndtr`: The standard normal distribution below each element.

use super::unary;
use crate::named::{special_log_ndtr, special_ndtr, special_ndtri};
use crate::prelude::*;
use oneflow_kernels_prim::special as s;
use std::f64::consts::PI;

static NDTR_EXPR: Expr = expr!(float "ndtr", |x| s::ndtr(x));

static NDTRI_EXPR: Expr = expr!(float "ndtri", |x| s::ndtri(x));

static LOG_NDTR_EXPR: Expr = expr!(float "log_ndtr", |x| s::log_ndtr(x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("special_ndtr(Tensor input) -> Tensor"),
    doc: "The standard normal distribution below each element.

Example::

    >>> oneflow.special.ndtr(oneflow.tensor([0.]))
    tensor([0.5000])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &NDTR_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(special_ndtr::INPUT, &[special_ndtr::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(special_ndtr::INPUT, || {
                super::erfc::bell(c.g()?, &c.x(special_ndtr::INPUT)?.square()?.mul(-0.5)?, 1.0 / (2.0 * PI).sqrt())
            })
        },
    },
    ..super::special_rules::SPECIAL
};

pub static NDTRI: OpDef = OpDef {
    sig: Sig::parse("special_ndtri(Tensor input) -> Tensor"),
    doc: "The inverse of the standard normal distribution.

Example::

    >>> oneflow.special.ndtri(oneflow.tensor([0.975]))
    tensor([1.9600])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &NDTRI_EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(special_ndtri::RESULT, &[special_ndtri::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(special_ndtri::INPUT, || {
                super::erfc::bell(c.g()?, &c.y(special_ndtri::RESULT)?.square()?.mul(0.5)?, (2.0 * PI).sqrt())
            })
        },
    },
    samples: super::logit::unit,
    ..super::special_rules::SPECIAL
};

pub static LOG_NDTR: OpDef = OpDef {
    sig: Sig::parse("special_log_ndtr(Tensor input) -> Tensor"),
    doc: "The logarithm of `ndtr`, exact far below zero.

Example::

    >>> oneflow.special.log_ndtr(oneflow.tensor([0.]))
    tensor([-0.6931])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LOG_NDTR_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(special_log_ndtr::INPUT, &[special_log_ndtr::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            // The density over the distribution is sqrt(2 / pi) / erfcx(-x / sqrt(2)).
            let scaled = || c.x(special_log_ndtr::INPUT)?.mul(-std::f64::consts::FRAC_1_SQRT_2)?.special_erfcx();
            out.set(special_log_ndtr::INPUT, || c.g()?.div(&scaled()?)?.mul((2.0 / PI).sqrt()))
        },
    },
    ..super::special_rules::SPECIAL
};
