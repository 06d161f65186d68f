//! Sign.

use super::unary;
use crate::named::sign as at;
use crate::prelude::*;

static EXPR: Expr = expr!(num "sign", |x| {
    let (zero, one) = (L::splat(0.0), L::splat(1.0));
    let s = L::select(x.gt(zero), one, L::select(x.lt(zero), -one, zero));
    L::select(x.is_nan(), zero, s)
});

pub static OP: OpDef = OpDef {
    sig: Sig::parse("sign(Tensor input) -> Tensor"),
    doc: "-1, 0 or 1 by the sign of each element (0 for NaN).

Example::

    >>> oneflow.sign(oneflow.tensor([-3., 0., 2.]))
    tensor([-1.,  0.,  1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(at::INPUT, || c.g()?.zeros_like()) },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    sparse: Sparse::Values,
    ..unary::SAME
};
