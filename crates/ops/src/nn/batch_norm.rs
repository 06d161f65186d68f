//! Batch normalisation with the statistics its backward needs, and its backward.
//!
//! New running statistics are results; who holds the old ones writes them back, so that a trace sees an ordinary write.

use super::{formatted, narrow, wide};
use crate::named::{batch_norm_backward, batch_norm_inference, batch_norm_training};
use crate::prelude::*;

/// All dims but the channels'.
fn others(x: &Tensor) -> Vec<i64> {
    (0..x.ndim() as i64).filter(|d| *d != 1).collect()
}

/// One number a channel, broadcastable to `x`.
fn channels(t: &Tensor, x: &Tensor) -> Result<Tensor> {
    let mut shape: Dims = SmallVec::from_elem(1, x.ndim());
    shape[1] = x.sizes()[1];
    t.reshape(&shape)
}

/// The checks of every normalisation by channels: a float input with channels, parameters of their number.
pub(super) fn check(c: &Call<'_>, x: &Tensor, of: &[(In, &str)]) -> Result<()> {
    if x.ndim() < 2 {
        return Err(Error::runtime(format!(
            "{}(): expected an input with channels in dimension 1, got {:?}",
            c.name(),
            x.sizes()
        )));
    }
    if !x.dtype().is_float() {
        return Err(Error::not_implemented(format!(
            "\"{}\" not implemented for '{}'",
            c.name(),
            x.dtype().scalar_type_name()
        )));
    }
    let n = x.sizes()[1];
    for (i, name) in of {
        if let Some(t) = c.opt(*i)
            && t.sizes() != [n]
        {
            return Err(Error::runtime(format!("{name} should contain {n} elements not {}", t.numel())));
        }
    }
    Ok(())
}

const PARAMETERS: [(In, &str); 4] = [
    (batch_norm_training::WEIGHT, "weight"),
    (batch_norm_training::BIAS, "bias"),
    (batch_norm_training::RUNNING_MEAN, "running_mean"),
    (batch_norm_training::RUNNING_VAR, "running_var"),
];

/// `(x - mean) rstd`, scaled and shifted, in the dtype of `x`.
fn normalised(
    x: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let mut y = wide(x)?.sub(&channels(mean, x)?)?.mul(&channels(rstd, x)?)?;
    if let Some(w) = weight {
        y = y.mul(&channels(w, x)?)?;
    }
    if let Some(b) = bias {
        y = y.add(&channels(b, x)?)?;
    }
    formatted(narrow(y, x.dtype())?, x)
}

/// The running statistics where there are both.
fn running<'a>(c: &Call<'a>) -> Option<(&'a Tensor, &'a Tensor)> {
    c.opt(batch_norm_training::RUNNING_MEAN).zip(c.opt(batch_norm_training::RUNNING_VAR))
}

fn parameter(c: &[i64], wanted: bool, low: f64) -> SampleArg {
    if wanted { SampleArg::range(c, low, 2.0) } else { SampleArg::None }
}

pub static TRAINING: OpDef = OpDef {
    sig: Sig::parse(
        "batch_norm_training(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps) -> (Tensor output, Tensor mean, Tensor rstd, Tensor running)",
    ),
    doc: "Batch norm by the batch's statistics, those of each channel, and the new running mean and variance [2, c].",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(batch_norm_training::INPUT)?;
        check(c, x, &PARAMETERS)?;
        super::push_format(x, x.sizes(), outs)?;
        let n = x.sizes()[1];
        outs.push(x.dtype().compute(), x.device(), &[n])?;
        outs.push(x.dtype().compute(), x.device(), &[n])?;
        match running(c) {
            Some((mean, _)) => outs.push(mean.dtype(), x.device(), &[2, n]),
            None => outs.push(x.dtype().compute(), x.device(), &[0]),
        }
    },
    kernel: Kernel::Prim {
        prim: &BATCH_NORM,
        lower: |c, outs, l| {
            l.input(batch_norm_training::INPUT);
            for (at, _) in PARAMETERS {
                l.opt_input(at, c.opt(at).is_some());
            }
            l.output(batch_norm_training::OUTPUT).output(batch_norm_training::MEAN).output(batch_norm_training::RSTD);
            for i in 0..2 {
                let n = c.t(batch_norm_training::INPUT)?.sizes()[1];
                let (sizes, strides) = (Dims::from_slice(&[n]), Dims::from_slice(&[1]));
                match running(c) {
                    Some(_) => l.output_as(
                        batch_norm_training::RUNNING,
                        sizes,
                        strides,
                        outs[batch_norm_training::RUNNING].offset() + i * n,
                    ),
                    None => l.no_output(),
                };
            }
            l.with(BatchNormParams {
                training: true,
                momentum: c.float(batch_norm_training::MOMENTUM)?,
                eps: c.float(batch_norm_training::EPS)?,
            });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (x, momentum, eps) = (
            c.t(batch_norm_training::INPUT)?,
            c.float(batch_norm_training::MOMENTUM)?,
            c.float(batch_norm_training::EPS)?,
        );
        check(c, x, &PARAMETERS)?;
        let (xw, dims) = (wide(x)?, others(x));
        let mean = xw.mean(&dims, false)?;
        let d = xw.sub(&channels(&mean, x)?)?;
        let var = d.mul(&d)?.mean(&dims, false)?;
        let rstd = var.add(eps)?.rsqrt()?;
        outs.give(normalised(x, &mean, &rstd, c.opt(batch_norm_training::WEIGHT), c.opt(batch_norm_training::BIAS))?);
        let n = (x.numel() / x.sizes()[1].max(1)) as f64;
        let unbiased = var.mul(n / (n - 1.0))?;
        let mixed = |old: &Tensor, new: &Tensor| {
            let was = wide(old)?;
            was.add(&new.sub(&was)?.mul(momentum)?)
        };
        let new = match running(c) {
            Some((m, v)) => narrow(f::stack([&mixed(m, &mean)?, &mixed(v, &unbiased)?], 0)?, m.dtype())?,
            None => mean.new_empty(&[0])?,
        };
        outs.give(mean);
        outs.give(rstd);
        outs.give(new);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(
                batch_norm_training::INPUT,
                &[batch_norm_training::INPUT, batch_norm_training::WEIGHT, batch_norm_training::BIAS],
            ),
            Save::of(batch_norm_training::WEIGHT, &[batch_norm_training::INPUT]),
            Save::out(
                batch_norm_training::MEAN,
                &[batch_norm_training::INPUT, batch_norm_training::WEIGHT, batch_norm_training::BIAS],
            ),
            Save::out(
                batch_norm_training::RSTD,
                &[batch_norm_training::INPUT, batch_norm_training::WEIGHT, batch_norm_training::BIAS],
            ),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (affine, eps) = (
                out.needs(batch_norm_training::WEIGHT) || out.needs(batch_norm_training::BIAS),
                c.arg(batch_norm_training::EPS).float().unwrap_or(1e-5),
            );
            let [gx, gw, gb] = c.g()?.batch_norm_backward(
                c.x(batch_norm_training::INPUT)?,
                c.y(batch_norm_training::MEAN)?,
                c.y(batch_norm_training::RSTD)?,
                c.opt_x(batch_norm_training::WEIGHT),
                true,
                affine,
                eps,
            )?;
            out.set(batch_norm_training::INPUT, || Ok(gx))?;
            out.set(batch_norm_training::WEIGHT, || Ok(gw))?;
            out.set(batch_norm_training::BIAS, || Ok(gb))
        },
    },
    differentiable: OutMask::of(&[batch_norm_training::OUTPUT]),
    // By the composition the statistics of a split batch are those of the whole one.
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let t = |s: &[i64], affine: bool, running: bool| {
            let c = [s[1]];
            Sample::new(vec![
                SampleArg::f32(s),
                parameter(&c, affine, -1.0),
                parameter(&c, affine, -1.0),
                parameter(&c, running, -1.0),
                parameter(&c, running, 0.5),
                SampleArg::Float(0.1),
                SampleArg::Float(1e-5),
            ])
        };
        vec![t(&[4, 3, 5], true, true), t(&[6, 3], false, true), t(&[2, 3, 4, 5], true, false)]
    },
    ..OpDef::BASE
};

pub static INFERENCE: OpDef = OpDef {
    sig: Sig::parse(
        "batch_norm_inference(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps) -> Tensor",
    ),
    doc: "Batch norm by given statistics.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(batch_norm_inference::INPUT)?;
        check(c, x, &PARAMETERS)?;
        super::push_format(x, x.sizes(), outs)
    },
    kernel: Kernel::Prim {
        prim: &BATCH_NORM,
        lower: |c, _, l| {
            l.input(batch_norm_inference::INPUT)
                .opt_input(batch_norm_inference::WEIGHT, c.opt(batch_norm_inference::WEIGHT).is_some())
                .opt_input(batch_norm_inference::BIAS, c.opt(batch_norm_inference::BIAS).is_some())
                .input(batch_norm_inference::MEAN)
                .input(batch_norm_inference::VAR);
            l.output(batch_norm_inference::RESULT).no_output().no_output().no_output().no_output();
            l.with(BatchNormParams { training: false, momentum: 0.0, eps: c.float(batch_norm_inference::EPS)? });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let x = c.t(batch_norm_inference::INPUT)?;
        check(c, x, &PARAMETERS)?;
        let rstd = wide(c.t(batch_norm_inference::VAR)?)?.add(c.float(batch_norm_inference::EPS)?)?.rsqrt()?;
        outs.give(normalised(
            x,
            &wide(c.t(batch_norm_inference::MEAN)?)?,
            &rstd,
            c.opt(batch_norm_inference::WEIGHT),
            c.opt(batch_norm_inference::BIAS),
        )?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(
                batch_norm_inference::INPUT,
                &[
                    batch_norm_inference::INPUT,
                    batch_norm_inference::WEIGHT,
                    batch_norm_inference::MEAN,
                    batch_norm_inference::VAR,
                ],
            ),
            Save::of(
                batch_norm_inference::WEIGHT,
                &[batch_norm_inference::INPUT, batch_norm_inference::MEAN, batch_norm_inference::VAR],
            ),
            Save::of(
                batch_norm_inference::MEAN,
                &[
                    batch_norm_inference::INPUT,
                    batch_norm_inference::WEIGHT,
                    batch_norm_inference::MEAN,
                    batch_norm_inference::VAR,
                ],
            ),
            Save::of(
                batch_norm_inference::VAR,
                &[
                    batch_norm_inference::INPUT,
                    batch_norm_inference::WEIGHT,
                    batch_norm_inference::MEAN,
                    batch_norm_inference::VAR,
                ],
            ),
        ],
        fix: Fix::None,
        f: |c, out| {
            let eps = c.arg(batch_norm_inference::EPS).float().unwrap_or(1e-5);
            use batch_norm_inference as at;
            if ![at::INPUT, at::WEIGHT, at::MEAN, at::VAR].into_iter().any(|input| out.needs(input)) {
                let g = wide(c.g()?)?;
                return out.set(batch_norm_inference::BIAS, || {
                    narrow(g.sum(&others(&g), false)?, c.in_meta(batch_norm_inference::BIAS)?.dtype)
                });
            }
            let statistics = out.needs(batch_norm_inference::MEAN) || out.needs(batch_norm_inference::VAR);
            let (mean, rstd) =
                (wide(c.x(batch_norm_inference::MEAN)?)?, wide(c.x(batch_norm_inference::VAR)?)?.add(eps)?.rsqrt()?);
            let affine = out.needs(batch_norm_inference::WEIGHT) || out.needs(batch_norm_inference::BIAS) || statistics;
            let [gx, gw, gb] = c.g()?.batch_norm_backward(
                c.x(batch_norm_inference::INPUT)?,
                &mean,
                &rstd,
                c.opt_x(batch_norm_inference::WEIGHT),
                false,
                affine,
                eps,
            )?;
            if statistics {
                let scale = match c.opt_x(batch_norm_inference::WEIGHT) {
                    Some(w) => rstd.mul(w)?,
                    None => rstd.clone(),
                };
                out.set(batch_norm_inference::MEAN, || gb.mul(&scale)?.neg())?;
                out.set(batch_norm_inference::VAR, || gw.mul(&scale)?.mul(&rstd)?.mul(-0.5))?;
            }
            out.set(batch_norm_inference::INPUT, || Ok(gx))?;
            out.set(batch_norm_inference::WEIGHT, || Ok(gw))?;
            out.set(batch_norm_inference::BIAS, || Ok(gb))
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let t = |s: &[i64], affine: bool| {
            let c = [s[1]];
            Sample::new(vec![
                SampleArg::f32(s),
                parameter(&c, affine, -1.0),
                parameter(&c, affine, -1.0),
                parameter(&c, true, -1.0),
                parameter(&c, true, 0.5),
                SampleArg::Float(1e-5),
            ])
        };
        vec![t(&[4, 3, 5], true), t(&[6, 3], false), t(&[2, 3, 4, 5], true)]
    },
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "batch_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, bool training, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    ),
    doc: "Gradients of batch norm; those of weight and bias are empty unless `affine`.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(batch_norm_backward::INPUT)?;
        check(
            c,
            x,
            &[
                (batch_norm_backward::MEAN, "mean"),
                (batch_norm_backward::RSTD, "rstd"),
                (batch_norm_backward::WEIGHT, "weight"),
            ],
        )?;
        fits::alike(c, &[batch_norm_backward::GRAD_OUTPUT], batch_norm_backward::INPUT)?;
        let w = c.opt(batch_norm_backward::WEIGHT).map_or(x.dtype(), Tensor::dtype);
        super::push_format(x, x.sizes(), outs)?;
        let n = if c.bool(batch_norm_backward::AFFINE) { x.sizes()[1] } else { 0 };
        outs.push(w, x.device(), &[n])?;
        outs.push(w, x.device(), &[n])
    },
    kernel: Kernel::Prim {
        prim: &BATCH_NORM_BACKWARD,
        lower: |c, _, l| {
            l.input(batch_norm_backward::GRAD_OUTPUT)
                .input(batch_norm_backward::INPUT)
                .input(batch_norm_backward::MEAN)
                .input(batch_norm_backward::RSTD)
                .opt_input(batch_norm_backward::WEIGHT, c.opt(batch_norm_backward::WEIGHT).is_some())
                .output(batch_norm_backward::GRAD_INPUT);
            if c.bool(batch_norm_backward::AFFINE) {
                l.output(batch_norm_backward::GRAD_WEIGHT).output(batch_norm_backward::GRAD_BIAS)
            } else {
                l.no_output().no_output()
            };
            l.with(BatchNormBackwardParams { training: c.bool(batch_norm_backward::TRAINING) });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, x, training) = (
            c.t(batch_norm_backward::GRAD_OUTPUT)?,
            c.t(batch_norm_backward::INPUT)?,
            c.bool(batch_norm_backward::TRAINING),
        );
        let (gw, xw, dims) = (wide(g)?, wide(x)?, others(x));
        // In training the statistics again, by ops of x: their gradients are part of a second derivative.
        let (d, rstd) = if training {
            let d = xw.sub(&xw.mean(&dims, true)?)?;
            let rstd = d.mul(&d)?.mean(&dims, true)?.add(c.float(batch_norm_backward::EPS)?)?.rsqrt()?;
            (d, rstd)
        } else {
            (xw.sub(&channels(c.t(batch_norm_backward::MEAN)?, x)?)?, channels(c.t(batch_norm_backward::RSTD)?, x)?)
        };
        let normed = d.mul(&rstd)?;
        let gy = match c.opt(batch_norm_backward::WEIGHT) {
            Some(w) => gw.mul(&channels(w, x)?)?,
            None => gw.clone(),
        };
        let inner = match training {
            true => gy.sub(&gy.mean(&dims, true)?)?.sub(&normed.mul(&gy.mul(&normed)?.mean(&dims, true)?)?)?,
            false => gy,
        };
        outs.give(formatted(narrow(inner.mul(&rstd)?, x.dtype())?, x)?);
        let dtype = c.opt(batch_norm_backward::WEIGHT).map_or(x.dtype(), Tensor::dtype);
        for t in [gw.mul(&normed)?, gw] {
            outs.give(if c.bool(batch_norm_backward::AFFINE) {
                narrow(t.sum(&dims, false)?, dtype)?
            } else {
                x.new_empty(&[0])?
            });
        }
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let t = |s: &[i64], training: bool| {
            let c = [s[1]];
            Sample::new(vec![
                SampleArg::f32(s),
                SampleArg::f32(s),
                SampleArg::f32(&c),
                SampleArg::range(&c, 0.5, 2.0),
                SampleArg::f32(&c),
                SampleArg::Bool(training),
                SampleArg::Bool(true),
                SampleArg::Float(1e-5),
            ])
        };
        // In training the statistics would have to be those of the input.
        vec![t(&[4, 3, 5], false), t(&[6, 3], false)]
    },
    ..OpDef::BASE
};
