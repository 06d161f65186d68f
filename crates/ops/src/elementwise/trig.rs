//! Trigonometric and hyperbolic functions beside sine, cosine and tanh, and their inverses.

use super::{dual, unary};
use crate::named::{acos, acosh, asin, asinh, atan, atan2, atanh, cosh, sinh, tan};
use crate::prelude::*;

static TAN_EXPR: Expr = expr!(float "tan", |x| x.tan()).complex(complex!(|x| x.tan()));
static ASIN_EXPR: Expr = expr!(float "asin", |x| x.asin()).complex(complex!(|x| x.asin()));
static ACOS_EXPR: Expr = expr!(float "acos", |x| x.acos()).complex(complex!(|x| x.acos()));
static ATAN_EXPR: Expr = expr!(float "atan", |x| x.atan()).complex(complex!(|x| x.atan()));
static SINH_EXPR: Expr = expr!(float "sinh", |x| x.sinh()).complex(complex!(|x| x.sinh()));
static COSH_EXPR: Expr = expr!(float "cosh", |x| x.cosh()).complex(complex!(|x| x.cosh()));
static ASINH_EXPR: Expr = expr!(float "asinh", |x| x.asinh()).complex(complex!(|x| x.asinh()));
static ACOSH_EXPR: Expr = expr!(float "acosh", |x| x.acosh()).complex(complex!(|x| x.acosh()));
static ATANH_EXPR: Expr = expr!(float "atanh", |x| x.atanh()).complex(complex!(|x| x.atanh()));
static ATAN2_EXPR: Expr = expr!(float "atan2", |y, x| y.atan2(x));

/// Inputs within [-0.9, 0.9].
fn within_one() -> Vec<Sample> {
    let t = |s: &[i64]| Sample::new(vec![SampleArg::range(s, -0.9, 0.9)]);
    vec![t(&[5]), t(&[3, 4]), t(&[]), t(&[0, 3])]
}

/// `1 - x * x`.
fn one_minus_square(x: &Tensor) -> Result<Tensor> {
    x.mul(x)?.neg()?.add(1.0)
}

pub static TAN: OpDef = OpDef {
    sig: Sig::parse("tan(Tensor input) -> Tensor"),
    doc: "Tangent, elementwise (radians).

Example::

    >>> oneflow.tan(oneflow.tensor([0.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &TAN_EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(tan::RESULT, &[tan::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(tan::INPUT, || c.g()?.mul(&dual(&c.y(tan::RESULT)?.square()?.add(1.0)?)?)),
    },
    sparse: Sparse::Values,
    ..unary::FLOAT
};

pub static ASIN: OpDef = OpDef {
    sig: Sig::parse("asin(Tensor input) -> Tensor"),
    doc: "Inverse sine, elementwise; NaN outside [-1, 1].

Example::

    >>> oneflow.asin(oneflow.tensor([1.]))
    tensor([1.5708])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ASIN_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(asin::INPUT, &[asin::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(asin::INPUT, || c.g()?.mul(&dual(&one_minus_square(c.x(asin::INPUT)?)?.rsqrt()?)?)),
    },
    samples: within_one,
    sparse: Sparse::Values,
    ..unary::FLOAT
};

pub static ACOS: OpDef = OpDef {
    sig: Sig::parse("acos(Tensor input) -> Tensor"),
    doc: "Inverse cosine, elementwise; NaN outside [-1, 1].

Example::

    >>> oneflow.acos(oneflow.tensor([1.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ACOS_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(acos::INPUT, &[acos::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(acos::INPUT, || c.g()?.mul(&dual(&one_minus_square(c.x(acos::INPUT)?)?.rsqrt()?)?)?.neg()),
    },
    samples: within_one,
    ..unary::FLOAT
};

pub static ATAN: OpDef = OpDef {
    sig: Sig::parse("atan(Tensor input) -> Tensor"),
    doc: "Inverse tangent, elementwise.

Example::

    >>> oneflow.atan(oneflow.tensor([1.]))
    tensor([0.7854])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ATAN_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(atan::INPUT, &[atan::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(atan::INPUT, || c.g()?.div(&dual(&c.x(atan::INPUT)?.square()?.add(1.0)?)?)),
    },
    sparse: Sparse::Values,
    ..unary::FLOAT
};

pub static SINH: OpDef = OpDef {
    sig: Sig::parse("sinh(Tensor input) -> Tensor"),
    doc: "Hyperbolic sine, elementwise.

Example::

    >>> oneflow.sinh(oneflow.tensor([1.]))
    tensor([1.1752])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SINH_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(sinh::INPUT, &[sinh::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(sinh::INPUT, || c.g()?.mul(&dual(&c.x(sinh::INPUT)?.cosh()?)?)),
    },
    sparse: Sparse::Values,
    ..unary::FLOAT
};

pub static COSH: OpDef = OpDef {
    sig: Sig::parse("cosh(Tensor input) -> Tensor"),
    doc: "Hyperbolic cosine, elementwise.

Example::

    >>> oneflow.cosh(oneflow.tensor([0.]))
    tensor([1.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &COSH_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(cosh::INPUT, &[cosh::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(cosh::INPUT, || c.g()?.mul(&dual(&c.x(cosh::INPUT)?.sinh()?)?)),
    },
    ..unary::FLOAT
};

pub static ASINH: OpDef = OpDef {
    sig: Sig::parse("asinh(Tensor input) -> Tensor"),
    doc: "Inverse hyperbolic sine, elementwise.

Example::

    >>> oneflow.asinh(oneflow.tensor([1.]))
    tensor([0.8814])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ASINH_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(asinh::INPUT, &[asinh::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(asinh::INPUT, || c.g()?.mul(&dual(&c.x(asinh::INPUT)?.square()?.add(1.0)?.rsqrt()?)?)),
    },
    sparse: Sparse::Values,
    ..unary::FLOAT
};

pub static ACOSH: OpDef = OpDef {
    sig: Sig::parse("acosh(Tensor input) -> Tensor"),
    doc: "Inverse hyperbolic cosine, elementwise; NaN below one.

Example::

    >>> oneflow.acosh(oneflow.tensor([1.]))
    tensor([0.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ACOSH_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(acosh::INPUT, &[acosh::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(acosh::INPUT, || {
                let x = c.x(acosh::INPUT)?;
                if !x.dtype().is_complex() {
                    return c.g()?.mul(&x.square()?.sub(1.0)?.rsqrt()?);
                }
                // Two roots: of complex numbers the product of the square roots has the right sign.
                c.g()?.mul(&dual(&x.sub(1.0)?.rsqrt()?.mul(&x.add(1.0)?.rsqrt()?)?)?)
            })
        },
    },
    samples: || {
        let t = |s: &[i64]| Sample::new(vec![SampleArg::range(s, 1.1, 4.0)]);
        vec![t(&[5]), t(&[3, 4]), t(&[]), t(&[0, 3])]
    },
    ..unary::FLOAT
};

pub static ATANH: OpDef = OpDef {
    sig: Sig::parse("atanh(Tensor input) -> Tensor"),
    doc: "Inverse hyperbolic tangent, elementwise; NaN outside [-1, 1].

Example::

    >>> oneflow.atanh(oneflow.tensor([0.5]))
    tensor([0.5493])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ATANH_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(atanh::INPUT, &[atanh::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(atanh::INPUT, || c.g()?.div(&dual(&one_minus_square(c.x(atanh::INPUT)?)?)?)),
    },
    samples: within_one,
    sparse: Sparse::Values,
    ..unary::FLOAT
};

pub static ATAN2: OpDef = OpDef {
    sig: Sig::parse("atan2(Tensor input, Tensor other) -> Tensor"),
    doc: "The angle of the point (other, input), with broadcasting.

Example::

    >>> oneflow.atan2(oneflow.tensor([1.]), oneflow.tensor([-1.]))
    tensor([2.3562])",
    infer: super::binary::infer_float,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &ATAN2_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(atan2::INPUT, &[atan2::INPUT, atan2::OTHER]),
            Save::of(atan2::OTHER, &[atan2::INPUT, atan2::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (y, x) = (c.x(atan2::INPUT)?, c.x(atan2::OTHER)?);
            // The angle of the origin is a constant.
            let square = y.square()?.add(&x.square()?)?;
            let by = c.g()?.mul(&square.eq(0.0)?.r#where(0.0, &square.reciprocal()?)?)?;
            out.set(atan2::INPUT, || by.mul(x))?;
            out.set(atan2::OTHER, || by.mul(y)?.neg())
        },
    },
    samples: super::two_tensors,
    ..super::binary::ARITH
};
