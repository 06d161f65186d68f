//! Activations made of straight lines: hardtanh (and relu6), hardsigmoid, hardswish.

use super::unary;
use crate::named::{hardsigmoid, hardsigmoid_backward, hardswish, hardswish_backward, hardtanh, hardtanh_backward};
use crate::prelude::*;
use oneflow_kernels_prim::activations;

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
static SWISH_EXPR: Expr = expr!(float "hardswish", |x| activations::hardswish(x));
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
    let d = c.t(hardtanh::INPUT)?.dtype();
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
        let (_, hi) = limits(c.arg(hardtanh::MIN_VAL), c.arg(hardtanh::MAX_VAL));
        if c.t(hardtanh::INPUT)?.dtype() == DType::U8 && hi.to_f64() < 0.0 {
            return Err(Error::runtime(format!("hardtanh(): max_val {} is outside of what uint8 holds", hi.to_f64())));
        }
        numeric(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(c, o, p, &TANH_EXPR, &[hardtanh::MIN_VAL.any(), hardtanh::MAX_VAL.any()])
    }),
    grad: Grad::Rule {
        save: &[Save::of(hardtanh::INPUT, &[hardtanh::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let (lo, hi) = limits(c.arg(hardtanh::MIN_VAL), c.arg(hardtanh::MAX_VAL));
            out.set(hardtanh::INPUT, || c.g()?.hardtanh_backward(c.x(hardtanh::INPUT)?, lo, hi))
        },
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static HARDTANH_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("hardtanh_backward(Tensor grad_output, Tensor input, Scalar min_val, Scalar max_val) -> Tensor"),
    doc: "Gradient of hardtanh.",
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::with_scalars(
            c,
            o,
            p,
            &TANH_BACKWARD_EXPR,
            &[hardtanh_backward::MIN_VAL.any(), hardtanh_backward::MAX_VAL.any()],
        )
    }),
    compose: Some(|c, outs| {
        let ((lo, hi), x) = (
            limits(c.arg(hardtanh_backward::MIN_VAL), c.arg(hardtanh_backward::MAX_VAL)),
            c.t(hardtanh_backward::INPUT)?,
        );
        outs.give(x.le(lo)?.logical_or(&x.ge(hi)?)?.r#where(0.0, c.t(hardtanh_backward::GRAD_OUTPUT)?)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(hardtanh_backward::INPUT, &[hardtanh_backward::GRAD_OUTPUT])],
        fix: Fix::None,
        f: |c, out| {
            let (lo, hi) = limits(c.arg(hardtanh_backward::MIN_VAL), c.arg(hardtanh_backward::MAX_VAL));
            out.set(hardtanh_backward::GRAD_OUTPUT, || {
                c.g()?.hardtanh_backward(c.x(hardtanh_backward::INPUT)?, lo, hi)
            })?;
            out.set(hardtanh_backward::INPUT, || c.g()?.zeros_like())
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
        save: &[Save::of(hardsigmoid::INPUT, &[hardsigmoid::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(hardsigmoid::INPUT, || c.g()?.hardsigmoid_backward(c.x(hardsigmoid::INPUT)?)),
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static HARDSIGMOID_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("hardsigmoid_backward(Tensor grad_output, Tensor input) -> Tensor"),
    doc: "Gradient of hardsigmoid.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SIGMOID_BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        let x = c.t(hardsigmoid_backward::INPUT)?;
        outs.give(
            x.gt(-3.0)?.logical_and(&x.lt(3.0)?)?.r#where(&c.t(hardsigmoid_backward::GRAD_OUTPUT)?.div(6.0)?, 0.0)?,
        );
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
        save: &[Save::of(hardswish::INPUT, &[hardswish::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(hardswish::INPUT, || c.g()?.hardswish_backward(c.x(hardswish::INPUT)?)),
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static HARDSWISH_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("hardswish_backward(Tensor grad_output, Tensor input) -> Tensor"),
    doc: "Gradient of hardswish.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &SWISH_BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        let (g, x) = (c.t(hardswish_backward::GRAD_OUTPUT)?, c.t(hardswish_backward::INPUT)?);
        let middle = g.mul(&x.div(3.0)?.add(0.5)?)?;
        outs.give(x.le(-3.0)?.r#where(0.0, &x.lt(3.0)?.r#where(&middle, g)?)?);
        Ok(())
    }),
    ..unary::BACKWARD
};
