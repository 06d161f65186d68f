//! Rounding to the nearest integer.

use super::unary;
use crate::named::round as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "round", |x| x.round());

static DECIMALS: Expr = expr!(float "round_decimals", |x; p| (x * p[0]).round() / p[0]);

pub static OP: OpDef = OpDef {
    sig: Sig::parse("round(Tensor input, *, int decimals=0) -> Tensor"),
    doc: "Each element rounded to the nearest integer, ties to even; `decimals` digits after the point.

Example::

    >>> oneflow.round(oneflow.tensor([0.5, 1.5]))
    tensor([0., 2.])",
    infer: |c, outs| match c.t(at::INPUT)?.dtype() {
        d if d.is_int() && c.int(at::DECIMALS)? != 0 => Err(unary::not_implemented(c, d)),
        _ => unary::number(c, outs),
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        let decimals = c.int(at::DECIMALS)?;
        if decimals == 0 {
            return unary::rounding(o, p, &EXPR);
        }
        let expr = unary::by_output(o, p, &DECIMALS)?;
        p.push(10f64.powi(decimals as i32).into());
        Ok(expr)
    }),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(at::INPUT, || c.g()?.zeros_like()) },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::UNSIGNED,
    sparse: Sparse::Values,
    ..unary::SAME
};
