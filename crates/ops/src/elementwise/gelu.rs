//! Gaussian error linear unit, and its derivative as an op of its own.

use super::unary;
use crate::named::{gelu, gelu_backward};
use crate::prelude::*;
use oneflow_kernels_prim::activations::{self, GELU_CUBE, SQRT_2_PI};

static ERF: Expr = expr!(float "gelu", |x| activations::gelu(x));
static TANH: Expr = expr!(float "gelu_tanh", |x| activations::gelu_tanh(x));
static ERF_BACKWARD: Expr = expr!(float "gelu_backward", |g, x| {
    let pdf = (x * x * L::splat(-0.5)).exp() * L::splat(0.5 * SQRT_2_PI);
    g * x.fma(pdf, x.normal_cdf())
});
static TANH_BACKWARD: Expr = expr!(float "gelu_tanh_backward", |g, x| {
    let (one, x2) = (L::splat(1.0), x * x);
    let s = (L::splat(2.0 * SQRT_2_PI) * (x2 * x).fma(L::splat(GELU_CUBE), x)).sigmoid();
    let dinner = L::splat(2.0 * SQRT_2_PI) * x2.fma(L::splat(3.0 * GELU_CUBE), one);
    g * s * x.fma((one - s) * dinner, one)
});

fn is_tanh(c: &Call<'_>) -> Result<bool> {
    match c.str(gelu::APPROXIMATE)? {
        "none" => Ok(false),
        "tanh" => Ok(true),
        other => {
            Err(Error::runtime(format!("gelu(): approximate argument must be either none or tanh, got {other:?}.")))
        }
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("gelu(Tensor input, *, str approximate=\"none\") -> Tensor"),
    doc: "Gaussian error linear unit, `x * Phi(x)`, elementwise; `approximate=\"tanh\"` uses the tanh form.

Source: Hendrycks and Gimpel, \"Gaussian Error Linear Units (GELUs)\", 2016.

Example::

    >>> oneflow.nn.functional.gelu(oneflow.tensor([0., 1.]))
    tensor([0.0000, 0.8413])",
    faces: Faces::NN.or(Faces::OUT),
    infer: |c, outs| {
        is_tanh(c)?;
        unary::floating(c, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| unary::by_output(o, p, if is_tanh(c)? { &TANH } else { &ERF })),
    grad: Grad::Rule {
        save: &[Save::of(gelu::INPUT, &[gelu::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let approximate = c.arg(gelu::APPROXIMATE).str().unwrap_or("none");
            out.set(gelu::INPUT, || c.g()?.gelu_backward_with(c.x(gelu::INPUT)?, approximate))
        },
    },
    ..unary::FLOAT
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("gelu_backward(Tensor grad_output, Tensor input, *, str approximate=\"none\") -> Tensor"),
    doc: "Gradient of gelu.",
    faces: Faces::PRIVATE,
    infer: |c, outs| super::push_broadcast(c, c.t(gelu_backward::INPUT)?.dtype(), outs),
    kernel: Kernel::Elementwise(|c, o, p| {
        unary::by_output(o, p, if is_tanh(c)? { &TANH_BACKWARD } else { &ERF_BACKWARD })
    }),
    compose: Some(backward_by_parts),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[gelu_backward::GRAD_OUTPUT])] }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[3, 4])])],
    ..unary::FLOAT
};

/// The gradient by simpler ops: what a second derivative is taken of.
fn backward_by_parts(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (g, x) = (c.t(gelu_backward::GRAD_OUTPUT)?, c.t(gelu_backward::INPUT)?);
    let slope = if is_tanh(c)? {
        let x2 = x.mul(x)?;
        let t = x2.mul(x)?.mul(GELU_CUBE)?.add(x)?.mul(SQRT_2_PI)?.tanh()?;
        let dinner = x2.mul(3.0 * GELU_CUBE * SQRT_2_PI)?.add(SQRT_2_PI)?;
        let rise = t.mul(&t)?.mul(-1.0)?.add(1.0)?.mul(x)?.mul(&dinner)?;
        rise.add(&t)?.add(1.0)?.mul(0.5)?
    } else {
        let cdf = x.mul(std::f64::consts::FRAC_1_SQRT_2)?.erf()?.add(1.0)?.mul(0.5)?;
        let pdf = x.mul(x)?.mul(-0.5)?.exp()?.mul(0.5 * SQRT_2_PI)?;
        cdf.add(&pdf.mul(x)?)?
    };
    outs.give(g.mul(&slope)?);
    Ok(())
}
