//! `erfinv`: The inverse of the error function on (-1, 1).

use super::unary;
use crate::named::erfinv;
use crate::prelude::*;
use std::f64::consts::FRAC_2_SQRT_PI;

static ERFINV_EXPR: Expr = expr!(float "erfinv", |x| x.erfinv());

/// Inputs inside (-1, 1).
fn within_one() -> Vec<Sample> {
    let t = |s: &[i64]| Sample::new(vec![SampleArg::range(s, -0.9, 0.9)]);
    vec![t(&[5]), t(&[3, 4]), t(&[]), t(&[0, 3])]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("erfinv(Tensor input) -> Tensor"),
    doc: "The inverse of the error function on (-1, 1).

Example::

    >>> oneflow.erfinv(oneflow.tensor([0.5]))
    tensor([0.4769])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ERFINV_EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(erfinv::RESULT, &[erfinv::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(erfinv::INPUT, || super::erfc::bell(c.g()?, &c.y(erfinv::RESULT)?.square()?, 1.0 / FRAC_2_SQRT_PI))
        },
    },
    samples: within_one,
    sparse: Sparse::Values,
    ..super::special_rules::REAL
};
