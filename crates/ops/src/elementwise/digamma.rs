//! `digamma`: The logarithmic derivative of the gamma function.

use super::unary;
use crate::named::digamma;
use crate::prelude::*;
use oneflow_kernels_prim::special as s;

pub(super) static DIGAMMA_EXPR: Expr = expr!(float "digamma", |x| s::digamma(x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("digamma(Tensor input) -> Tensor"),
    doc: "The logarithmic derivative of the gamma function.

Example::

    >>> oneflow.digamma(oneflow.tensor([1.]))
    tensor([-0.5772])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &DIGAMMA_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(digamma::INPUT, &[digamma::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(digamma::INPUT, || c.g()?.mul(&f::polygamma(1, c.x(digamma::INPUT)?)?)),
    },
    samples: unary::samples_positive,
    ..super::special_rules::REAL
};
