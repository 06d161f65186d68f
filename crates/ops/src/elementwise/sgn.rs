//! `sgn`: The sign of reals; complex numbers divided by their absolute value.

use super::unary;
use crate::named::sgn;
use crate::prelude::*;

static SGN_EXPR: Expr = expr!(num "sgn", |x| {
    let (zero, one) = (L::splat(0.0), L::splat(1.0));
    let s = L::select(x.gt(zero), one, L::select(x.lt(zero), -one, zero));
    L::select(x.is_nan(), zero, s)
})
.complex(complex!(|x| {
    let m = x.abs();
    let zero = L::splat(0.0);
    let y = Cx::new(x.re / m, x.im / m);
    Cx::select(m.eq(zero), Cx::splat(0.0), y)
}));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("sgn(Tensor input) -> Tensor"),
    doc: "The sign of reals; complex numbers divided by their absolute value.

Example::

    >>> oneflow.sgn(oneflow.tensor([3 + 4j]))
    tensor([0.6000+0.8000j])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SGN_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(sgn::INPUT, &[sgn::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let x = c.x(sgn::INPUT)?;
            out.set(sgn::INPUT, || {
                if !x.dtype().is_complex() {
                    return c.g()?.zeros_like();
                }
                let (m, s, g) = (x.abs()?, x.sgn()?, c.g()?);
                let along = s.mul(&g.mul(&s.conj()?)?.real()?)?;
                m.eq(0.0)?.r#where(0.0, &g.sub(&along)?.div(&m)?)
            })
        },
    },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::COMPLEX,
    sparse: Sparse::Values,
    ..unary::SAME
};
