//! Activations made of straight lines: hardtanh (and relu6), hardsigmoid, hardswish.

use super::unary;
use crate::prelude::*;

static TANH_EXPR: Expr = expr!(num "hardtanh", |x; p| x.maximum(p[0]).minimum(p[1]));
static TANH_BACKWARD_EXPR: Expr = expr!(num "hardtanh_backward", |g, x; p| {
    L::select(p[0].lt(x) & x.lt(p[1]), g, L::splat(0.0))
});
static SIGMOID_EXPR: Expr = expr!(float "hardsigmoid", |x| {
    (x + L::splat(3.0)).maximum(L::splat(0.0)).minimum(L::splat(6.0)) / L::splat(6.0)
});
static SIGMOID_BACKWARD_EXPR: Expr = expr!(float "hardsigmoid_backward", |g, x| {
    let inside = L::splat(-3.0).lt(x) & x.lt(L::splat(3.0));
    L::select(inside, g / L::splat(6.0), L::splat(0.0))
});
static SWISH_EXPR: Expr = expr!(float "hardswish", |x| {
    x * (x + L::splat(3.0)).maximum(L::splat(0.0)).minimum(L::splat(6.0)) / L::splat(6.0)
});
static SWISH_BACKWARD_EXPR: Expr = expr!(float "hardswish_backward", |g, x| {
    let three = L::splat(3.0);
    let y = L::select(x.lt(three), g * (x / three + L::splat(0.5)), g);
    L::select(x.le(-three), L::splat(0.0), y)
});

/// The limits of a hardtanh call.
fn limits(lo: Arg<'_>, hi: Arg<'_>) -> (Scalar, Scalar) {
    (lo.scalar().unwrap_or(Scalar::Int(-1)), hi.scalar().unwrap_or(Scalar::Int(1)))
}

fn numeric(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let d = c.t(0)?.dtype();
    if d == DType::Bool || d.is_complex() {
        return Err(Error::not_implemented(format!(
            "\"{}_cpu\" not implemented for '{}'",
            c.name(),
            d.scalar_type_name()
        )));
    }
    unary::like(c, outs)
}

pub static HARDTANH: OpDef = OpDef {
    sig: Sig::parse("hardtanh(Tensor input, Scalar min_val=-1, Scalar max_val=1) -> Tensor"),
    doc: "Elements limited to [min_val, max_val].

Example::

    >>> oneflow.nn.functional.hardtanh(oneflow.tensor([-3., 0.5]))
    tensor([-1.0000,  0.5000])",
    infer: |c, outs| {
        let (_, hi) = limits(c.arg(0), c.arg(1));
        if c.t(0)?.dtype() == DType::U8 && hi.to_f64() < 0.0 {
            return Err(Error::runtime(format!("hardtanh(): max_val {} is outside of what uint8 holds", hi.to_f64())));
        }
        numeric(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| unary::with_scalars(c, o, p, &TANH_EXPR, 2)),
    grad: Grad::Rule {
        save: &[Save::In(0, 1)],
        fix: Fix::None,
        f: |c, out| {
            let (lo, hi) = limits(c.arg(0), c.arg(1));
            out.set(0, || c.g()?.hardtanh_backward(c.x(0)?, lo, hi))
        },
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static HARDTANH_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("hardtanh_backward(Tensor grad_output, Tensor input, Scalar min_val, Scalar max_val) -> Tensor"),
    doc: "Gradient of hardtanh.",
    kernel: Kernel::Elementwise(|c, o, p| unary::with_scalars(c, o, p, &TANH_BACKWARD_EXPR, 2)),
    compose: Some(|c, outs| {
        let ((lo, hi), x) = (limits(c.arg(0), c.arg(1)), c.t(1)?);
        outs.give(x.le(lo)?.logical_or(&x.ge(hi)?)?.r#where(0.0, c.t(0)?)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(1, 0b1)],
        fix: Fix::None,
        f: |c, out| {
            let (lo, hi) = limits(c.arg(0), c.arg(1));
            out.set(0, || c.g()?.hardtanh_backward(c.x(1)?, lo, hi))?;
            out.set(1, || c.g()?.zeros_like())
        },
    },
    samples: || {
        let g = SampleArg::f32(&[3, 4]);
        vec![Sample::new(vec![g.clone(), g, SampleArg::Float(-0.5), SampleArg::Float(0.7)])]
    },
    ..unary::BACKWARD
};

pub static HARDSIGMOID: OpDef = OpDef {
    sig: Sig::parse("hardsigmoid(Tensor input) -> Tensor"),
    doc: "`(x + 3) / 6` limited to [0, 1].

Example::

    >>> oneflow.nn.functional.hardsigmoid(oneflow.tensor([-4., 0.]))
    tensor([0.0000, 0.5000])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SIGMOID_EXPR)),
    grad: Grad::Rule {
        save: &[Save::In(0, 1)],
        fix: Fix::None,
        f: |c, out| out.set(0, || c.g()?.hardsigmoid_backward(c.x(0)?)),
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static HARDSIGMOID_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("hardsigmoid_backward(Tensor grad_output, Tensor input) -> Tensor"),
    doc: "Gradient of hardsigmoid.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SIGMOID_BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        let x = c.t(1)?;
        outs.give(x.gt(-3.0)?.logical_and(&x.lt(3.0)?)?.r#where(&c.t(0)?.div(6.0)?, 0.0)?);
        Ok(())
    }),
    ..unary::BACKWARD
};

pub static HARDSWISH: OpDef = OpDef {
    sig: Sig::parse("hardswish(Tensor input) -> Tensor"),
    doc: "`x * hardsigmoid(x)`.

Source: Howard et al., \"Searching for MobileNetV3\", 2019.

Example::

    >>> oneflow.nn.functional.hardswish(oneflow.tensor([-4., 3.]))
    tensor([-0.,  3.])",
    infer: unary::floating,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SWISH_EXPR)),
    grad: Grad::Rule {
        save: &[Save::In(0, 1)],
        fix: Fix::None,
        f: |c, out| out.set(0, || c.g()?.hardswish_backward(c.x(0)?)),
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static HARDSWISH_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("hardswish_backward(Tensor grad_output, Tensor input) -> Tensor"),
    doc: "Gradient of hardswish.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SWISH_BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        let (g, x) = (c.t(0)?, c.t(1)?);
        let middle = g.mul(&x.div(3.0)?.add(0.5)?)?;
        outs.give(x.le(-3.0)?.r#where(0.0, &x.lt(3.0)?.r#where(&middle, g)?)?);
        Ok(())
    }),
    ..unary::BACKWARD
};
