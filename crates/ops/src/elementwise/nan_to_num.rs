//! `nan_to_num`: NaN becomes `nan` (zero), infinities the greatest finite numbers or what is given.

use super::unary;
use crate::named::nan_to_num;
use crate::prelude::*;

// p: what NaN, infinity and negative infinity become.
static NAN_TO_NUM_EXPR: Expr = expr!(float "nan_to_num", |x; p| {
    let inf = L::splat(f64::INFINITY);
    let y = L::select(x.eq(inf), p[1], L::select(x.eq(-inf), p[2], x));
    L::select(x.is_nan(), p[0], y)
})
.complex(complex!(|x; p| {
    let inf = L::splat(f64::INFINITY);
    let fix = |v: L| {
        let y = L::select(v.eq(inf), p[1].re, L::select(v.eq(-inf), p[2].re, v));
        L::select(v.is_nan(), p[0].re, y)
    };
    Cx::new(fix(x.re), fix(x.im))
}));

/// The greatest finite number of a dtype.
fn greatest(d: DType) -> f64 {
    match d.to_real() {
        DType::F16 => 65504.0,
        DType::BF16 => bf16::MAX.to_f64(),
        DType::F32 => f32::MAX as f64,
        _ => f64::MAX,
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"),
    doc: "NaN becomes `nan` (zero), infinities the greatest finite numbers or what is given.

Example::

    >>> oneflow.nan_to_num(oneflow.tensor([oneflow.nan, 1.]))
    tensor([0., 1.])",
    infer: unary::like,
    kernel: Kernel::Elementwise(|c, o, p| {
        static SAME: Expr = expr!(num "nan_to_num_integers", |x| x);
        let d = o[nan_to_num::RESULT].dtype();
        if !d.is_differentiable() {
            return unary::by_output(o, p, &SAME);
        }
        let expr = unary::by_output(o, p, &NAN_TO_NUM_EXPR)?;
        let limits = [(nan_to_num::NAN, 0.0), (nan_to_num::POSINF, greatest(d)), (nan_to_num::NEGINF, -greatest(d))];
        for (at, limit) in limits {
            super::push_scalar(p, d.compute(), Scalar::Float(c.arg(at).scalar().map_or(limit, Scalar::to_f64)));
        }
        Ok(expr)
    }),
    grad: Grad::Rule {
        save: &[Save::of(nan_to_num::INPUT, &[nan_to_num::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(nan_to_num::INPUT, || {
                let x = c.x(nan_to_num::INPUT)?;
                if !x.dtype().is_complex() {
                    return x.isfinite()?.r#where(c.g()?, 0.0);
                }
                let parts = x.view_as_real()?.isfinite()?;
                parts.r#where(&c.g()?.contiguous()?.view_as_real()?, 0.0)?.contiguous()?.view_as_complex()
            })
        },
    },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    sparse: Sparse::Values,
    ..unary::SAME
};
