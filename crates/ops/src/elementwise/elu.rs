//! Exponential linear units: ELU, SELU and CELU are one formula with other constants.

use super::unary;
use crate::named::{celu, elu, elu_backward, selu};
use crate::prelude::*;

// p: slope above zero, factor below zero, factor of the exponent.
static EXPR: Expr = expr!(float "elu", |x; p| {
    L::select(x.gt(L::splat(0.0)), x * p[0], (x * p[2]).expm1() * p[1])
});
static BACKWARD_EXPR: Expr = expr!(float "elu_backward", |g, x; p| {
    L::select(x.le(L::splat(0.0)), g * p[1] * p[2] * (x * p[2]).exp(), g * p[0])
});

/// Of SELU: the fixed point of mean zero and variance one.
const ALPHA: f64 = 1.673_263_242_354_377_2;
const SCALE: f64 = 1.050_700_987_355_480_5;

/// alpha, scale and input scale of a call.
fn constants(c: &Call<'_>) -> Result<[f64; 3]> {
    let number = |at: At<Scalar>| c.arg(at).scalar().map_or(1.0, Scalar::to_f64);
    match c.op.sig.name {
        "selu" => Ok([ALPHA, SCALE, 1.0]),
        "celu" if number(celu::ALPHA) == 0.0 => Err(Error::runtime("ZeroDivisionError: alpha cannot be 0 for CELU")),
        "celu" => Ok([number(celu::ALPHA), 1.0, 1.0 / number(celu::ALPHA)]),
        _ => Ok([number(elu::ALPHA), number(elu::SCALE), number(elu::INPUT_SCALE)]),
    }
}

fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    constants(c)?;
    unary::floating(c, outs)
}

fn lower(c: &Call<'_>, o: &Outs, p: &mut Params) -> Result<&'static Expr> {
    let [alpha, scale, input_scale] = constants(c)?;
    let expr = unary::by_output(o, p, &EXPR)?;
    p.extend([scale, alpha * scale, input_scale].map(Word::from));
    Ok(expr)
}

/// The gradient through `elu_backward` with the constants of a recorded call.
fn slope(c: &GradCall<'_>, [alpha, scale, input_scale]: [f64; 3]) -> Result<Tensor> {
    c.g()?.elu_backward(c.x(elu::INPUT)?, alpha, scale, input_scale)
}

fn recorded(c: &GradCall<'_>, at: At<Scalar>) -> f64 {
    c.arg(at).scalar().map_or(1.0, Scalar::to_f64)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("elu(Tensor input, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor"),
    doc: "`x` where it is positive, `alpha * (exp(x) - 1)` elsewhere.

Source: Clevert et al., \"Fast and Accurate Deep Network Learning by Exponential Linear Units\", 2016.

Example::

    >>> oneflow.nn.functional.elu(oneflow.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])",
    infer,
    kernel: Kernel::Elementwise(lower),
    grad: Grad::Rule {
        save: &[Save::of(elu::INPUT, &[elu::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(elu::INPUT, || {
                slope(c, [recorded(c, elu::ALPHA), recorded(c, elu::SCALE), recorded(c, elu::INPUT_SCALE)])
            })
        },
    },
    faces: Faces::NN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static SELU: OpDef = OpDef {
    sig: Sig::parse("selu(Tensor input) -> Tensor"),
    doc: "The self-normalising exponential linear unit.

Source: Klambauer et al., \"Self-Normalizing Neural Networks\", 2017.

Example::

    >>> oneflow.selu(oneflow.tensor([-1., 2.]))
    tensor([-1.1113,  2.1014])",
    infer,
    kernel: Kernel::Elementwise(lower),
    grad: Grad::Rule {
        save: &[Save::of(selu::INPUT, &[selu::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(selu::INPUT, || slope(c, [ALPHA, SCALE, 1.0])),
    },
    faces: Faces::FN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static CELU: OpDef = OpDef {
    sig: Sig::parse("celu(Tensor input, Scalar alpha=1.0) -> Tensor"),
    doc: "`max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`.

Source: Barron, \"Continuously Differentiable Exponential Linear Units\", 2017.

Example::

    >>> oneflow.celu(oneflow.tensor([-1., 2.]))
    tensor([-0.6321,  2.0000])",
    infer,
    kernel: Kernel::Elementwise(lower),
    grad: Grad::Rule {
        save: &[Save::of(celu::INPUT, &[celu::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(celu::INPUT, || slope(c, [recorded(c, celu::ALPHA), 1.0, 1.0 / recorded(c, celu::ALPHA)])),
    },
    faces: Faces::FN.or(Faces::INPLACE),
    ..unary::FLOAT
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "elu_backward(Tensor grad_output, Tensor input, Scalar alpha, Scalar scale, Scalar input_scale) -> Tensor",
    ),
    doc: "Gradient of elu, selu and celu.",
    kernel: Kernel::Elementwise(|c, o, p| {
        let [alpha, scale, input_scale] = constants(c)?;
        let expr = unary::by_output(o, p, &BACKWARD_EXPR)?;
        p.extend([scale, alpha * scale, input_scale].map(Word::from));
        Ok(expr)
    }),
    compose: Some(|c, outs| {
        let (g, x) = (c.t(elu_backward::GRAD_OUTPUT)?, c.t(elu_backward::INPUT)?);
        let [alpha, scale, input_scale] = constants(c)?;
        // Where the input is positive the exponential is not used; limited, it cannot overflow there.
        let e = x.minimum(&x.zeros_like()?)?.mul(input_scale)?.exp()?.mul(alpha * scale * input_scale)?;
        outs.give(g.mul(&x.gt(0.0)?.r#where(scale, &e)?)?);
        Ok(())
    }),
    samples: || {
        let (one, g) = (SampleArg::Float(1.0), SampleArg::f32(&[3, 4]));
        vec![Sample::new(vec![g.clone(), g, SampleArg::Float(0.7), one.clone(), one])]
    },
    ..unary::BACKWARD
};
