//! Special functions of one tensor. Their formulas stand in the lanes' vocabulary; derivatives are ops of the table.

use super::{dual, unary};
use crate::named::{
    digamma, erfc, erfinv, exp2, i0, lgamma, log10, logit, logit_backward, mvlgamma, polygamma, sinc, special_entr,
    special_erfcx, special_i0e, special_i1, special_i1e, special_log_ndtr, special_ndtr, special_ndtri,
};
use crate::prelude::*;
use oneflow_kernels_prim::special as s;
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10, PI};

static EXP2_EXPR: Expr =
    expr!(float "exp2", |x| x.exp2()).complex(complex!(|x| x.scale(L::splat(std::f64::consts::LN_2)).exp()));
static LOG10_EXPR: Expr =
    expr!(float "log10", |x| x.log10()).complex(complex!(|x| x.log().scale(L::splat(std::f64::consts::LOG10_E))));
static ERFC_EXPR: Expr = expr!(float "erfc", |x| x.erfc());
static ERFINV_EXPR: Expr = expr!(float "erfinv", |x| x.erfinv());
static ERFCX_EXPR: Expr = expr!(float "erfcx", |x| s::erfcx(x));
static LGAMMA_EXPR: Expr = expr!(float "lgamma", |x| x.lgamma());
static DIGAMMA_EXPR: Expr = expr!(float "digamma", |x| s::digamma(x));
static TRIGAMMA_EXPR: Expr = expr!(float "trigamma", |x| s::trigamma(x));
// p: n + 1, (-1)^(n + 1) n!
static POLYGAMMA_EXPR: Expr = expr!(float "polygamma", |x; p| s::zeta(p[0], x) * p[1]);
static I0_EXPR: Expr = expr!(float "i0", |x| s::i0(x));
static I0E_EXPR: Expr = expr!(float "i0e", |x| s::i0e(x));
static I1_EXPR: Expr = expr!(float "i1", |x| s::i1(x));
static I1E_EXPR: Expr = expr!(float "i1e", |x| s::i1e(x));
static NDTR_EXPR: Expr = expr!(float "ndtr", |x| s::ndtr(x));
static NDTRI_EXPR: Expr = expr!(float "ndtri", |x| s::ndtri(x));
static LOG_NDTR_EXPR: Expr = expr!(float "log_ndtr", |x| s::log_ndtr(x));
static SINC_EXPR: Expr = expr!(float "sinc", |x| s::sinc(x)).complex(complex!(|x| {
    let t = x.scale(L::splat(PI));
    Cx::select(x.eq(Cx::splat(0.0)), Cx::splat(1.0), t.sin() / t)
}));
static ENTR_EXPR: Expr = expr!(float "entr", |x| {
    let zero = L::splat(0.0);
    let y = L::select(x.eq(zero), zero, -(x * x.log()));
    L::select(x.lt(zero), L::splat(f64::NEG_INFINITY), y)
});
static LOGIT_EXPR: Expr = expr!(float "logit", |x| (x / (L::splat(1.0) - x)).log());
static LOGIT_EPS: Expr = expr!(float "logit_eps", |x; p| {
    let one = L::splat(1.0);
    let z = L::select(x.lt(p[0]), p[0], L::select((one - p[0]).lt(x), one - p[0], x));
    (z / (one - z)).log()
});

/// Inputs inside (0, 1).
fn unit() -> Vec<Sample> {
    let t = |s: &[i64]| Sample::new(vec![SampleArg::range(s, 0.05, 0.95)]);
    vec![t(&[5]), t(&[3, 4]), t(&[]), t(&[0, 3])]
}

/// Inputs inside (-1, 1).
fn within_one() -> Vec<Sample> {
    let t = |s: &[i64]| Sample::new(vec![SampleArg::range(s, -0.9, 0.9)]);
    vec![t(&[5]), t(&[3, 4]), t(&[]), t(&[0, 3])]
}

/// `g * scale * exp(exponent)`.
fn bell(g: &Tensor, exponent: &Tensor, scale: f64) -> Result<Tensor> {
    g.mul(&exponent.exp()?.mul(scale)?)
}

const REAL: OpDef = OpDef { infer: unary::real_float, ..unary::FLOAT };
const SPECIAL: OpDef = OpDef { faces: Faces::PRIVATE.or(Faces::OUT), ..REAL };

pub static EXP2: OpDef = OpDef {
    sig: Sig::parse("exp2(Tensor input) -> Tensor"),
    doc: "Two to the power of each element.

Example::

    >>> oneflow.exp2(oneflow.tensor([3.]))
    tensor([8.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXP2_EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(exp2::RESULT, &[exp2::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(exp2::INPUT, || c.g()?.mul(&dual(c.y(exp2::RESULT)?)?.mul(LN_2)?)),
    },
    ..unary::FLOAT
};

pub static LOG10: OpDef = OpDef {
    sig: Sig::parse("log10(Tensor input) -> Tensor"),
    doc: "Logarithm to base ten, elementwise.

Example::

    >>> oneflow.log10(oneflow.tensor([100.]))
    tensor([2.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LOG10_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(log10::INPUT, &[log10::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(log10::INPUT, || c.g()?.div(&dual(c.x(log10::INPUT)?)?.mul(LN_10)?)),
    },
    samples: unary::samples_positive,
    ..unary::FLOAT
};

pub static ERFC: OpDef = OpDef {
    sig: Sig::parse("erfc(Tensor input) -> Tensor"),
    doc: "`1 - erf(x)`, exact where that is small.

Example::

    >>> oneflow.erfc(oneflow.tensor([0.]))
    tensor([1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ERFC_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(erfc::INPUT, &[erfc::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(erfc::INPUT, || bell(c.g()?, &c.x(erfc::INPUT)?.square()?.neg()?, -FRAC_2_SQRT_PI)),
    },
    ..REAL
};

pub static ERFINV: OpDef = OpDef {
    sig: Sig::parse("erfinv(Tensor input) -> Tensor"),
    doc: "The inverse of the error function on (-1, 1).

Example::

    >>> oneflow.erfinv(oneflow.tensor([0.5]))
    tensor([0.4769])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ERFINV_EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(erfinv::RESULT, &[erfinv::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(erfinv::INPUT, || bell(c.g()?, &c.y(erfinv::RESULT)?.square()?, 1.0 / FRAC_2_SQRT_PI)),
    },
    samples: within_one,
    ..REAL
};

pub static ERFCX: OpDef = OpDef {
    sig: Sig::parse("special_erfcx(Tensor input) -> Tensor"),
    doc: "`exp(x ** 2) * erfc(x)`.

Example::

    >>> oneflow.special.erfcx(oneflow.tensor([0.]))
    tensor([1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ERFCX_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(special_erfcx::INPUT, &[special_erfcx::INPUT]),
            Save::out(special_erfcx::RESULT, &[special_erfcx::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            out.set(special_erfcx::INPUT, || {
                c.g()?.mul(&c.x(special_erfcx::INPUT)?.mul(c.y(special_erfcx::RESULT)?)?.mul(2.0)?.sub(FRAC_2_SQRT_PI)?)
            })
        },
    },
    ..SPECIAL
};

pub static LGAMMA: OpDef = OpDef {
    sig: Sig::parse("lgamma(Tensor input) -> Tensor"),
    doc: "Logarithm of the absolute value of the gamma function.

Example::

    >>> oneflow.lgamma(oneflow.tensor([3.]))
    tensor([0.6931])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LGAMMA_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(lgamma::INPUT, &[lgamma::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(lgamma::INPUT, || c.g()?.mul(&c.x(lgamma::INPUT)?.digamma()?)),
    },
    samples: unary::samples_positive,
    ..REAL
};

pub static DIGAMMA: OpDef = OpDef {
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
    ..REAL
};

fn order(c: &Call<'_>) -> Result<i64> {
    let n = c.int(polygamma::N)?;
    if n < 0 {
        return Err(Error::runtime("polygamma(n, x) does not support negative n."));
    }
    Ok(n)
}

pub static POLYGAMMA: OpDef = OpDef {
    sig: Sig::parse("polygamma(int n, Tensor input) -> Tensor"),
    doc: "The n-th derivative of digamma.

Example::

    >>> oneflow.polygamma(1, oneflow.tensor([1.]))
    tensor([1.6449])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        order(c)?;
        unary::real_float(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        let n = order(c)?;
        let expr = match n {
            0 => return unary::by_output(o, p, &DIGAMMA_EXPR),
            1 => return unary::by_output(o, p, &TRIGAMMA_EXPR),
            _ => unary::by_output(o, p, &POLYGAMMA_EXPR)?,
        };
        // Infinite from 171 on.
        let factorial: f64 = (1..=n.min(171)).map(|k| k as f64).product();
        p.push((n as f64 + 1.0).into());
        p.push((if n % 2 == 0 { -factorial } else { factorial }).into());
        Ok(expr)
    }),
    grad: Grad::Rule {
        save: &[Save::of(polygamma::INPUT, &[polygamma::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(polygamma::INPUT, || {
                c.g()?.mul(&f::polygamma(
                    c.arg(polygamma::N).int().unwrap_or(0).saturating_add(1),
                    c.x(polygamma::INPUT)?,
                )?)
            })
        },
    },
    samples: || {
        let t = |n| Sample::new(vec![SampleArg::Int(n), SampleArg::range(&[3, 4], 0.3, 3.0)]);
        vec![t(0), t(1), t(2)]
    },
    ..REAL
};

fn mvlgamma_takes(c: &Call<'_>) -> Result<()> {
    if c.int(mvlgamma::P)? < 1 {
        return Err(Error::runtime("p has to be greater than or equal to 1"));
    }
    if c.t(mvlgamma::INPUT)?.dtype() == DType::Bool {
        return Err(Error::runtime("The input tensor may not be a boolean tensor."));
    }
    Ok(())
}

pub static MVLGAMMA: OpDef = OpDef {
    sig: Sig::parse("mvlgamma(Tensor input, int p) -> Tensor"),
    doc: "Logarithm of the multivariate gamma function of dimension `p`.

Example::

    >>> oneflow.mvlgamma(oneflow.tensor([3.]), 2)
    tensor([1.5502])",
    infer: |c, outs| {
        mvlgamma_takes(c)?;
        unary::real_float(c, outs)
    },
    compose: Some(|c, outs| {
        mvlgamma_takes(c)?;
        let (x, p) = (c.t(mvlgamma::INPUT)?, c.int(mvlgamma::P)?);
        let d = promote::to_float(x.dtype());
        let x = if d == x.dtype() { x.clone() } else { x.to_copy_with(Some(d), None)? };
        // A constant in p, and lgamma at x, x - 1/2, ... The steps lie where x does, on every rank.
        let wide: Dims = x.sizes().iter().copied().chain([p]).collect();
        let ones = x.unsqueeze(-1)?.expand(&wide)?.ones_like()?;
        let halves = ones.cumsum(-1)?.sub(1.0)?.div(2.0)?;
        let sum = x.unsqueeze(-1)?.sub(&halves)?.lgamma()?.sum(&[-1], false)?;
        outs.give(sum.add(p as f64 * (p - 1) as f64 / 4.0 * PI.ln())?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::range(&[3], 2.0, 4.0), SampleArg::Int(2)])],
    ..REAL
};

pub static I0: OpDef = OpDef {
    sig: Sig::parse("i0(Tensor input) -> Tensor"),
    doc: "The modified Bessel function of the first kind of order zero.

Example::

    >>> oneflow.i0(oneflow.tensor([0.]))
    tensor([1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &I0_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(i0::INPUT, &[i0::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(i0::INPUT, || c.g()?.mul(&c.x(i0::INPUT)?.special_i1()?)),
    },
    ..REAL
};

pub static I0E: OpDef = OpDef {
    sig: Sig::parse("special_i0e(Tensor input) -> Tensor"),
    doc: "`exp(-abs(x)) * i0(x)`.

Example::

    >>> oneflow.special.i0e(oneflow.tensor([0.]))
    tensor([1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &I0E_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(special_i0e::INPUT, &[special_i0e::INPUT]),
            Save::out(special_i0e::RESULT, &[special_i0e::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let x = c.x(special_i0e::INPUT)?;
            out.set(special_i0e::INPUT, || {
                c.g()?.mul(&x.special_i1e()?.sub(&x.sgn()?.mul(c.y(special_i0e::RESULT)?)?)?)
            })
        },
    },
    ..SPECIAL
};

pub static I1: OpDef = OpDef {
    sig: Sig::parse("special_i1(Tensor input) -> Tensor"),
    doc: "The modified Bessel function of the first kind of order one.

Example::

    >>> oneflow.special.i1(oneflow.tensor([0.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &I1_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(special_i1::INPUT, &[special_i1::INPUT]), Save::out(special_i1::RESULT, &[special_i1::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let x = c.x(special_i1::INPUT)?;
            // I1(x) / x is one half at zero.
            out.set(special_i1::INPUT, || {
                let ratio = x.eq(0.0)?.r#where(0.5, &c.y(special_i1::RESULT)?.div(x)?)?;
                c.g()?.mul(&x.i0()?.sub(&ratio)?)
            })
        },
    },
    ..SPECIAL
};

pub static I1E: OpDef = OpDef {
    sig: Sig::parse("special_i1e(Tensor input) -> Tensor"),
    doc: "`exp(-abs(x)) * i1(x)`.

Example::

    >>> oneflow.special.i1e(oneflow.tensor([0.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &I1E_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(special_i1e::INPUT, &[special_i1e::INPUT]),
            Save::out(special_i1e::RESULT, &[special_i1e::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (x, y) = (c.x(special_i1e::INPUT)?, c.y(special_i1e::RESULT)?);
            out.set(special_i1e::INPUT, || {
                let slope = x.special_i0e()?.sub(&y.mul(&x.sgn()?.add(&x.reciprocal()?)?)?)?;
                c.g()?.mul(&x.eq(0.0)?.r#where(0.5, &slope)?)
            })
        },
    },
    ..SPECIAL
};

pub static NDTR: OpDef = OpDef {
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
                bell(c.g()?, &c.x(special_ndtr::INPUT)?.square()?.mul(-0.5)?, 1.0 / (2.0 * PI).sqrt())
            })
        },
    },
    ..SPECIAL
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
                bell(c.g()?, &c.y(special_ndtri::RESULT)?.square()?.mul(0.5)?, (2.0 * PI).sqrt())
            })
        },
    },
    samples: unit,
    ..SPECIAL
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
    ..SPECIAL
};

pub static ENTR: OpDef = OpDef {
    sig: Sig::parse("special_entr(Tensor input) -> Tensor"),
    doc: "`-x * log(x)`; zero at zero, negative infinity below.

Example::

    >>> oneflow.special.entr(oneflow.tensor([1.]))
    tensor([-0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ENTR_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(special_entr::INPUT, &[special_entr::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(special_entr::INPUT, || c.g()?.mul(&c.x(special_entr::INPUT)?.log()?.neg()?.sub(1.0)?)),
    },
    samples: unary::samples_positive,
    ..SPECIAL
};

pub static SINC: OpDef = OpDef {
    sig: Sig::parse("sinc(Tensor input) -> Tensor"),
    doc: "`sin(pi x) / (pi x)`, one at zero.

Example::

    >>> oneflow.sinc(oneflow.tensor([0.5]))
    tensor([0.6366])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SINC_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(sinc::INPUT, &[sinc::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(sinc::INPUT, || {
                let x = c.x(sinc::INPUT)?;
                let t = x.mul(PI)?;
                let slope = t.cos()?.mul(&t)?.sub(&t.sin()?)?.div(&t.mul(x)?)?;
                x.eq(0.0)?.r#where(0.0, &c.g()?.mul(&dual(&slope)?)?)
            })
        },
    },
    ..unary::FLOAT
};

pub static LOGIT: OpDef = OpDef {
    sig: Sig::parse("logit(Tensor input, float? eps=None) -> Tensor"),
    doc: "`log(x / (1 - x))`; with `eps`, of x limited to [eps, 1 - eps].

Example::

    >>> oneflow.logit(oneflow.tensor([0.5]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|c, o, p| match c.arg(logit::EPS).scalar() {
        Some(_) => unary::with_scalars(c, o, p, &LOGIT_EPS, &[logit::EPS.any()]),
        None => unary::by_output(o, p, &LOGIT_EXPR),
    }),
    grad: Grad::Rule {
        save: &[Save::of(logit::INPUT, &[logit::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let eps = c.arg(logit::EPS).scalar().map(Scalar::to_f64);
            out.set(logit::INPUT, || c.g()?.logit_backward(c.x(logit::INPUT)?, eps))
        },
    },
    samples: || {
        let mut all = unit();
        all.push(Sample::new(vec![SampleArg::range(&[5], 0.0, 1.0), SampleArg::Float(0.2)]));
        all
    },
    ..REAL
};

// p: the limit from below, what lies outside of it gives.
static LOGIT_BACKWARD_EXPR: Expr = expr!(float "logit_backward", |g, x; p| {
    let one = L::splat(1.0);
    L::select(x.lt(p[0]) | (one - p[0]).lt(x), p[1], g / (x * (one - x)))
});

pub static LOGIT_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("logit_backward(Tensor grad_output, Tensor input, float? eps=None) -> Tensor"),
    doc: "Gradient of logit.",
    kernel: Kernel::Elementwise(|c, o, p| {
        let eps = c.arg(logit_backward::EPS).scalar().map(Scalar::to_f64);
        let expr = unary::by_output(o, p, &LOGIT_BACKWARD_EXPR)?;
        p.push(eps.unwrap_or(0.0).into());
        p.push(if eps.is_some() { 0.0 } else { f64::NAN }.into());
        Ok(expr)
    }),
    compose: Some(|c, outs| {
        let (g, x) = (c.t(logit_backward::GRAD_OUTPUT)?, c.t(logit_backward::INPUT)?);
        let slope = g.div(&x.mul(&x.neg()?.add(1.0)?)?)?;
        let (eps, outside) = c.arg(logit_backward::EPS).scalar().map_or((0.0, f64::NAN), |s| (s.to_f64(), 0.0));
        outs.give(x.lt(eps)?.logical_or(&x.gt(1.0 - eps)?)?.r#where(outside, &slope)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::range(&[3, 4], 0.1, 0.9)])],
    ..unary::BACKWARD
};
