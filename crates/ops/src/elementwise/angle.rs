//! `angle`: The angle of complex numbers in radians; of reals, pi where they are negative and zero elsewhere.

use super::unary;
use crate::named::angle;
use crate::prelude::*;

static ANGLE_EXPR: Expr = expr!(float "angle", |x| {
    let (zero, pi) = (L::splat(0.0), L::splat(std::f64::consts::PI));
    L::select(x.is_nan(), x, L::select(x.lt(zero), pi, zero))
})
.complex(complex!(|x| Cx::real(x.arg())));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("angle(Tensor input) -> Tensor"),
    doc: "The angle of complex numbers in radians; of reals, pi where they are negative and zero elsewhere.

Example::

    >>> oneflow.angle(oneflow.tensor([1j]))
    tensor([1.5708])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| super::push_broadcast(c, promote::to_float(c.t(angle::INPUT)?.dtype()).to_real(), outs),
    kernel: Kernel::Elementwise(|c, _, p| unary::by_float(c, p, &ANGLE_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(angle::INPUT, &[angle::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let x = c.x(angle::INPUT)?;
            out.set(angle::INPUT, || {
                if !x.dtype().is_complex() {
                    return c.g()?.zeros_like();
                }
                let m = x.abs()?;
                let turn = x.mul(super::complex::I)?.div(&m.mul(&m)?)?.mul(c.g()?)?;
                m.eq(0.0)?.r#where(0.0, &turn)
            })
        },
    },
    ..unary::FLOAT
};
