//! `polar`: A complex tensor of the given moduli and angles (radians).

use super::unary;
use crate::named::polar;
use crate::prelude::*;

static POLAR_EXPR: Expr = Expr::complex_only("polar", complex!(|r, t| Cx::new(r.re * t.re.cos(), r.re * t.re.sin())));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("polar(Tensor abs, Tensor angle) -> Tensor"),
    doc: "A complex tensor of the given moduli and angles (radians).

Example::

    >>> oneflow.polar(oneflow.tensor([2.]), oneflow.tensor([0.]))
    tensor([2.+0.j])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &POLAR_EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(polar::RESULT, &[polar::ABS, polar::ANGLE])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(polar::ABS, || c.g()?.conj()?.mul(&c.y(polar::RESULT)?.sgn()?)?.real())?;
            out.set(polar::ANGLE, || c.g()?.conj()?.mul(&c.y(polar::RESULT)?.mul(super::complex::I)?)?.real())
        },
    },
    amp: Amp::FLOAT32_ON_HOST,
    ..super::complex::OF_REALS
};
