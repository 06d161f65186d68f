//! Small functions of one tensor: degrees, fractions, signs, infinities, and the parts of a float.

use super::unary;
use crate::named::{
    deg2rad, frac, frexp, frexp_exponent, frexp_mantissa, isreal, nan_to_num, positive, rad2deg, signbit,
};
use crate::prelude::*;
use oneflow_kernels_prim::special;

static DEG2RAD_EXPR: Expr = expr!(float "deg2rad", |x| x * L::splat(std::f64::consts::PI / 180.0));
static RAD2DEG_EXPR: Expr = expr!(float "rad2deg", |x| x * L::splat(180.0 / std::f64::consts::PI));
static FRAC_EXPR: Expr = expr!(float "frac", |x| x - x.trunc());
static SIGNBIT_EXPR: Expr = expr!(float "signbit", |x| {
    L::from_mask(L::splat(1.0).copysign(x).lt(L::splat(0.0)))
});
static NEGATIVE_EXPR: Expr = expr!(num "is_negative", |x| L::from_mask(x.lt(L::splat(0.0))));
static POSINF_EXPR: Expr = expr!(float "isposinf", |x| L::from_mask(x.eq(L::splat(f64::INFINITY))));
static NEGINF_EXPR: Expr = expr!(float "isneginf", |x| L::from_mask(x.eq(L::splat(f64::NEG_INFINITY))));
static ISREAL_EXPR: Expr = expr!(num "isreal", |x| L::from_mask(x.eq(x) | x.is_nan()))
    .complex(complex!(|x| Cx::from_mask(x.im.eq(L::splat(0.0)))));
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
static MANTISSA_EXPR: Expr = expr!(float "frexp_mantissa", |x| x.ldexp(-special::frexp_exponent(x)));
static EXPONENT_EXPR: Expr = expr!(float "frexp_exponent", |x| special::frexp_exponent(x));

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

pub static DEG2RAD: OpDef = OpDef {
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
    ..REAL
};

pub static FRAC: OpDef = OpDef {
    sig: Sig::parse("frac(Tensor input) -> Tensor"),
    doc: "What is left after the integer part.

Example::

    >>> oneflow.frac(oneflow.tensor([1.5, -2.25]))
    tensor([ 0.5000, -0.2500])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &FRAC_EXPR)),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(frac::INPUT, || Ok(c.g()?.clone())) },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    ..unary::FLOAT
};

const PREDICATE: OpDef = OpDef {
    infer: |c, outs| {
        let x = c.t(signbit::INPUT)?;
        if x.dtype().is_complex() {
            return Err(Error::runtime(format!("{} is not implemented for complex tensors.", c.name())));
        }
        unary::boolean(c, outs)
    },
    faces: Faces::FN_METHOD_OUT,
    ..unary::FLOAT
};

pub static SIGNBIT: OpDef = OpDef {
    sig: Sig::parse("signbit(Tensor input) -> Tensor"),
    doc: "Whether the sign is negative, also of -0.

Example::

    >>> oneflow.signbit(oneflow.tensor([-0., 1.]))
    tensor([ True, False])",
    kernel: Kernel::Elementwise(|c, _, p| {
        unary::by_input(c, p, if c.t(signbit::INPUT)?.dtype().is_float() { &SIGNBIT_EXPR } else { &NEGATIVE_EXPR })
    }),
    limited: Limited::UNSIGNED,
    ..PREDICATE
};

pub static ISPOSINF: OpDef = OpDef {
    sig: Sig::parse("isposinf(Tensor input) -> Tensor"),
    doc: "True where an element is positive infinity.

Example::

    >>> oneflow.isposinf(oneflow.tensor([oneflow.inf, 1.]))
    tensor([ True, False])",
    kernel: Kernel::Elementwise(|c, _, p| unary::by_float(c, p, &POSINF_EXPR)),
    limited: Limited::UNSIGNED,
    ..PREDICATE
};

pub static ISNEGINF: OpDef = OpDef {
    sig: Sig::parse("isneginf(Tensor input) -> Tensor"),
    doc: "True where an element is negative infinity.

Example::

    >>> oneflow.isneginf(oneflow.tensor([-oneflow.inf, 1.]))
    tensor([ True, False])",
    kernel: Kernel::Elementwise(|c, _, p| unary::by_float(c, p, &NEGINF_EXPR)),
    limited: Limited::UNSIGNED,
    ..PREDICATE
};

pub static ISREAL: OpDef = OpDef {
    sig: Sig::parse("isreal(Tensor input) -> Tensor"),
    doc: "True where the imaginary part is zero.

Example::

    >>> oneflow.isreal(oneflow.tensor([1j, 1 + 0j]))
    tensor([False,  True])",
    infer: |c, outs| super::push_like(c.t(isreal::INPUT)?, DType::Bool, c.t(isreal::INPUT)?.device(), None, outs),
    kernel: Kernel::Elementwise(|c, _, p| unary::by_input(c, p, &ISREAL_EXPR)),
    limited: Limited::ALL,
    ..unary::BOOL
};

/// The greatest finite number of a dtype.
fn greatest(d: DType) -> f64 {
    match d.to_real() {
        DType::F16 => 65504.0,
        DType::BF16 => bf16::MAX.to_f64(),
        DType::F32 => f32::MAX as f64,
        _ => f64::MAX,
    }
}

pub static NAN_TO_NUM: OpDef = OpDef {
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

pub static POSITIVE: OpDef = OpDef {
    sig: Sig::parse("positive(Tensor(a) input) -> Tensor(a)"),
    doc: "The tensor itself.

Example::

    >>> oneflow.positive(oneflow.tensor([1.]))
    tensor([1.])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let x = c.t(positive::INPUT)?;
        if x.dtype() == DType::Bool {
            return Err(Error::not_implemented("The `+` operator, on a bool tensor is not supported."));
        }
        outs.view(positive::INPUT, x, Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()), x.offset())
    },
    kernel: Kernel::View,
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(positive::INPUT, || Ok(c.g()?.clone())) },
    sbp: SbpRule::of(Rows::View(super::complex::same_dims)),
    samples: unary::samples,
    ..OpDef::BASE
};

pub static FREXP: OpDef = OpDef {
    sig: Sig::parse("frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)"),
    doc: "Each element as `mantissa * 2 ** exponent` with a mantissa in [1/2, 1).

Example::

    >>> oneflow.frexp(oneflow.tensor([8.])).exponent
    tensor([4], dtype=oneflow.int32)",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let x = c.t(frexp::INPUT)?;
        if !x.dtype().is_float() {
            return Err(Error::runtime("torch.frexp() only supports floating-point dtypes".replace("torch.", "")));
        }
        super::push_like(x, x.dtype(), x.device(), None, outs)?;
        super::push_like(x, DType::I32, x.device(), None, outs)
    },
    compose: Some(|c, outs| {
        (c.op.infer)(c, &mut Outs::new())?;
        let x = c.t(frexp::INPUT)?;
        outs.give(x.frexp_mantissa()?);
        outs.give(x.frexp_exponent()?);
        Ok(())
    }),
    grad: Grad::Compose,
    differentiable: OutMask::of(&[frexp::MANTISSA]),
    sbp: SbpRule::of(Rows::Compose),
    samples: unary::samples,
    ..OpDef::BASE
};

pub static FREXP_MANTISSA: OpDef = OpDef {
    sig: Sig::parse("frexp_mantissa(Tensor input) -> Tensor"),
    doc: "The mantissa of frexp.",
    faces: Faces::PRIVATE,
    infer: unary::like,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &MANTISSA_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(frexp_mantissa::INPUT, &[frexp_mantissa::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(frexp_mantissa::INPUT, || {
                let e = c.x(frexp_mantissa::INPUT)?.frexp_exponent()?.neg()?;
                c.g()?.mul(&f::pow_scalar(Scalar::Float(2.0), &e)?)
            })
        },
    },
    ..unary::SAME
};

pub static FREXP_EXPONENT: OpDef = OpDef {
    sig: Sig::parse("frexp_exponent(Tensor input) -> Tensor"),
    doc: "The exponent of frexp.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        super::push_like(c.t(frexp_exponent::INPUT)?, DType::I32, c.t(frexp_exponent::INPUT)?.device(), None, outs)
    },
    kernel: Kernel::Elementwise(|c, _, p| unary::by_input(c, p, &EXPONENT_EXPR)),
    ..unary::FLOAT
};
