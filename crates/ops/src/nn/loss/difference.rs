//! Losses of the difference between input and target: l1, mse, smooth l1 and Huber.
//!
//! Each is an elementwise op with a fused gradient, and a public op that reduces it.

use super::*;
use crate::elementwise::unary;
use crate::named::{
    huber_loss, l1_loss, mse_loss, smooth_absolute_difference, smooth_absolute_difference_backward, smooth_l1_loss,
    squared_difference, squared_difference_backward,
};

/// Input and target, then the reduction.
fn samples() -> Vec<Sample> {
    let t = |s: &[i64], r| Sample::new(vec![SampleArg::f32(s), SampleArg::f32(s)]).kw("reduction", SampleArg::Str(r));
    vec![t(&[3, 4], "mean"), t(&[2, 3, 4], "sum"), t(&[5], "none"), t(&[], "mean")]
}

pub static L1: OpDef = OpDef {
    sig: Sig::parse("l1_loss(Tensor input, Tensor target, str reduction=\"mean\", Tensor? weight=None) -> Tensor"),
    doc: "`|input - target|`, reduced.

Example::

    >>> oneflow.nn.functional.l1_loss(oneflow.tensor([1., 2.]), oneflow.tensor([0., 4.]))
    tensor(1.5000)",
    compose: Some(|c, outs| finish(c, outs, c.t(l1_loss::INPUT)?.sub(c.t(l1_loss::TARGET)?)?.abs()?)),
    samples,
    ..LOSS
};

/// Weighs and reduces; a weighted mean divides by the weights.
fn finish(c: &Call<'_>, outs: &mut Outs, losses: Tensor) -> Result<()> {
    let reduction = c.str(l1_loss::REDUCTION)?;
    check_reduction(reduction)?;
    outs.give(match c.opt(l1_loss::WEIGHT) {
        Some(w) if reduction == "mean" => {
            let all = w.expand(losses.sizes())?.sum(None, false)?;
            losses.mul(w)?.sum(None, false)?.div(&all)?
        }
        w => reduce(weighted(losses, w)?, reduction)?,
    });
    Ok(())
}

/// A gradient of the input from one of the losses; the target's is its negative.
fn grad(c: &GradCall<'_>, out: &mut Grads, f: fn(&GradCall<'_>) -> Result<Tensor>) -> Result<()> {
    let gx = f(c)?;
    out.set(squared_difference::TARGET, || gx.neg())?;
    out.set(squared_difference::INPUT, || Ok(gx))
}

const SAVED: &[Save] = &[
    Save::of(squared_difference::INPUT, &[squared_difference::INPUT, squared_difference::TARGET]),
    Save::of(squared_difference::TARGET, &[squared_difference::INPUT, squared_difference::TARGET]),
];

fn pair() -> Vec<Sample> {
    let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
    vec![t(&[3, 4], &[3, 4]), t(&[3, 4], &[4]), t(&[], &[])]
}

fn pair_with_width() -> Vec<Sample> {
    pair()
        .into_iter()
        .map(|mut s| {
            s.args.push(SampleArg::Float(0.7));
            s
        })
        .collect()
}

fn with_grad(pairs: Vec<Sample>) -> Vec<Sample> {
    pairs
        .into_iter()
        .map(|mut s| {
            s.args.insert(0, s.args[0].clone());
            s
        })
        .collect()
}

static MSE_EXPR: Expr = expr!(float "squared_difference", |x, t| (x - t) * (x - t));
static MSE_BACKWARD_EXPR: Expr = expr!(float "squared_difference_backward", |g, x, t| (x - t) * (g + g));

pub static SQUARED: OpDef = OpDef {
    sig: Sig::parse("squared_difference(Tensor input, Tensor target) -> Tensor"),
    doc: "`(input - target) ** 2`, elementwise.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &MSE_EXPR)),
    grad: Grad::Rule {
        save: SAVED,
        fix: Fix::Broadcast,
        f: |c, out| {
            grad(c, out, |c| {
                c.g()?.squared_difference_backward(c.x(squared_difference::INPUT)?, c.x(squared_difference::TARGET)?)
            })
        },
    },
    samples: pair,
    ..POINTWISE
};

pub static SQUARED_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("squared_difference_backward(Tensor grad_output, Tensor input, Tensor target) -> Tensor"),
    doc: "Gradient of the input.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &MSE_BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        outs.give(
            c.t(squared_difference_backward::INPUT)?
                .sub(c.t(squared_difference_backward::TARGET)?)?
                .mul(c.t(squared_difference_backward::GRAD_OUTPUT)?)?
                .mul(2.0)?,
        );
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[squared_difference_backward::GRAD_OUTPUT])] }),
    samples: || with_grad(pair()),
    ..POINTWISE
};

pub static MSE: OpDef = OpDef {
    sig: Sig::parse("mse_loss(Tensor input, Tensor target, str reduction=\"mean\", Tensor? weight=None) -> Tensor"),
    doc: "`(input - target) ** 2`, reduced.

Example::

    >>> oneflow.nn.functional.mse_loss(oneflow.tensor([1., 2.]), oneflow.tensor([0., 4.]))
    tensor(2.5000)",
    compose: Some(|c, outs| finish(c, outs, c.t(mse_loss::INPUT)?.squared_difference(c.t(mse_loss::TARGET)?)?)),
    samples,
    ..LOSS
};

static SMOOTH_EXPR: Expr = expr!(float "smooth_l1", |x, t; p| {
    let d = (x - t).abs();
    L::select(d.lt(p[0]), d * d * L::splat(0.5) / p[0], d - L::splat(0.5) * p[0])
});
static SMOOTH_BACKWARD_EXPR: Expr = expr!(float "smooth_l1_backward", |g, x, t; p| {
    let d = x - t;
    let sign = L::select(d.eq(L::splat(0.0)), d, L::splat(1.0).copysign(d));
    g * L::select(d.abs().lt(p[0]), d / p[0], L::select(d.is_nan(), d, sign))
});

/// The compute dtype and the width of the parabola.
fn with_width(c: &Call<'_>, o: &Outs, p: &mut Params, expr: &'static Expr) -> Result<&'static Expr> {
    let compute = o[smooth_absolute_difference::RESULT].dtype().compute();
    p.push(compute.into());
    crate::elementwise::push_scalar(p, compute, Scalar::Float(c.float(smooth_absolute_difference::BETA)?));
    Ok(expr)
}

pub static SMOOTH: OpDef = OpDef {
    sig: Sig::parse("smooth_absolute_difference(Tensor input, Tensor target, float beta) -> Tensor"),
    doc: "`d^2 / (2 beta)` of `d = |input - target|` below beta, `d - beta / 2` above, elementwise.",
    kernel: Kernel::Elementwise(|c, o, p| with_width(c, o, p, &SMOOTH_EXPR)),
    grad: Grad::Rule {
        save: SAVED,
        fix: Fix::Broadcast,
        f: |c, out| {
            grad(c, out, |c| {
                c.g()?.smooth_absolute_difference_backward(
                    c.x(smooth_absolute_difference::INPUT)?,
                    c.x(smooth_absolute_difference::TARGET)?,
                    c.arg(smooth_absolute_difference::BETA).float().unwrap_or(1.0),
                )
            })
        },
    },
    samples: pair_with_width,
    ..POINTWISE
};

pub static SMOOTH_BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "smooth_absolute_difference_backward(Tensor grad_output, Tensor input, Tensor target, float beta) -> Tensor",
    ),
    doc: "Gradient of the input.",
    kernel: Kernel::Elementwise(|c, o, p| with_width(c, o, p, &SMOOTH_BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        let (d, beta) = (
            c.t(smooth_absolute_difference_backward::INPUT)?.sub(c.t(smooth_absolute_difference_backward::TARGET)?)?,
            c.float(smooth_absolute_difference_backward::BETA)?,
        );
        let one = Some(Scalar::Float(1.0));
        let slope = if beta == 0.0 { d.sign()? } else { d.div(beta)?.clamp(Some(Scalar::Float(-1.0)), one)? };
        outs.give(c.t(smooth_absolute_difference_backward::GRAD_OUTPUT)?.mul(&slope)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[smooth_absolute_difference_backward::GRAD_OUTPUT])] }),
    samples: || with_grad(pair_with_width()),
    ..POINTWISE
};

pub static SMOOTH_L1: OpDef = OpDef {
    sig: Sig::parse("smooth_l1_loss(Tensor input, Tensor target, str reduction=\"mean\", float beta=1.0) -> Tensor"),
    doc: "Squared below `beta`, absolute above, reduced.

Source: Girshick, \"Fast R-CNN\", 2015.

Example::

    >>> oneflow.nn.functional.smooth_l1_loss(oneflow.tensor([0.5, 2.]), oneflow.tensor([0., 0.]))
    tensor(0.8125)",
    compose: Some(|c, outs| {
        let beta = c.float(smooth_l1_loss::BETA)?;
        if beta < 0.0 {
            return Err(Error::runtime("smooth_l1_loss does not support negative values for beta."));
        }
        finish(c, outs, c.t(smooth_l1_loss::INPUT)?.smooth_absolute_difference(c.t(smooth_l1_loss::TARGET)?, beta)?)
    }),
    samples,
    ..LOSS
};

pub static HUBER: OpDef = OpDef {
    sig: Sig::parse(
        "huber_loss(Tensor input, Tensor target, str reduction=\"mean\", float delta=1.0, Tensor? weight=None) -> Tensor",
    ),
    doc: "`d^2 / 2` of `d = |input - target|` below `delta`, `delta (d - delta / 2)` above, reduced.

Source: Huber, \"Robust Estimation of a Location Parameter\", 1964.

Example::

    >>> oneflow.nn.functional.huber_loss(oneflow.tensor([0.5, 2.]), oneflow.tensor([0., 0.]))
    tensor(0.8125)",
    compose: Some(|c, outs| {
        let delta = c.float(huber_loss::DELTA)?;
        if delta <= 0.0 {
            return Err(Error::runtime("huber_loss does not support non-positive values for delta."));
        }
        let smooth = c.t(huber_loss::INPUT)?.smooth_absolute_difference(c.t(huber_loss::TARGET)?, delta)?;
        finish(c, outs, if delta == 1.0 { smooth } else { smooth.mul(delta)? })
    }),
    samples,
    ..LOSS
};
