//! `smooth_absolute_difference`, `smooth_absolute_difference_backward`, `smooth_l1_loss`, `huber_loss`: Squared
//! below `beta`, absolute above, reduced.

use super::*;
use crate::named::{huber_loss, smooth_absolute_difference, smooth_absolute_difference_backward, smooth_l1_loss};

fn pair_with_width() -> Vec<Sample> {
    super::mse_loss::pair()
        .into_iter()
        .map(|mut s| {
            s.args.push(SampleArg::Float(0.7));
            s
        })
        .collect()
}

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
        save: super::mse_loss::SAVED,
        fix: Fix::Broadcast,
        f: |c, out| {
            super::mse_loss::grad(c, out, |c| {
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
    samples: || super::mse_loss::with_grad(pair_with_width()),
    ..POINTWISE
};

pub static OP: OpDef = OpDef {
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
        super::mse_loss::finish(
            c,
            outs,
            c.t(smooth_l1_loss::INPUT)?.smooth_absolute_difference(c.t(smooth_l1_loss::TARGET)?, beta)?,
        )
    }),
    samples: super::mse_loss::samples,
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
        super::mse_loss::finish(c, outs, if delta == 1.0 { smooth } else { smooth.mul(delta)? })
    }),
    samples: super::mse_loss::samples,
    ..LOSS
};
