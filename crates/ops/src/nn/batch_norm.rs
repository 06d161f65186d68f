//! Batch normalisation with the statistics its backward needs, and its backward.
//!
//! New running statistics are results; who holds the old ones writes them back, so that a trace sees an ordinary write.

use super::{formatted, narrow, wide};
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
pub(super) fn check(c: &Call<'_>, x: &Tensor, of: &[(usize, &str)]) -> Result<()> {
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

const PARAMETERS: [(usize, &str); 4] = [(1, "weight"), (2, "bias"), (3, "running_mean"), (4, "running_var")];

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
    c.opt(3).zip(c.opt(4))
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
        let x = c.t(0)?;
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
            l.input(0);
            for i in 1..5 {
                l.opt_input(i, c.opt(i).is_some());
            }
            l.output(0).output(1).output(2);
            for i in 0..2 {
                let n = c.t(0)?.sizes()[1];
                let (sizes, strides) = (Dims::from_slice(&[n]), Dims::from_slice(&[1]));
                match running(c) {
                    Some(_) => l.output_as(3, sizes, strides, outs[3].offset() + i * n),
                    None => l.no_output(),
                };
            }
            l.param(true).param(c.float(0)?).param(c.float(1)?);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (x, momentum, eps) = (c.t(0)?, c.float(0)?, c.float(1)?);
        check(c, x, &PARAMETERS)?;
        let (xw, dims) = (wide(x)?, others(x));
        let mean = xw.mean(&dims, false)?;
        let d = xw.sub(&channels(&mean, x)?)?;
        let var = d.mul(&d)?.mean(&dims, false)?;
        let rstd = var.add(eps)?.rsqrt()?;
        outs.give(normalised(x, &mean, &rstd, c.opt(1), c.opt(2))?);
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
        save: &[Save::In(0, 0b111), Save::In(1, 0b1), Save::Out(1, 0b111), Save::Out(2, 0b111)],
        fix: Fix::None,
        f: |c, out| {
            let (affine, eps) = (out.needs(1) || out.needs(2), c.arg(1).float().unwrap_or(1e-5));
            let [gx, gw, gb] = c.g()?.batch_norm_backward(c.x(0)?, c.y(1)?, c.y(2)?, c.opt_x(1), true, affine, eps)?;
            out.set(0, || Ok(gx))?;
            out.set(1, || Ok(gw))?;
            out.set(2, || Ok(gb))
        },
    },
    differentiable: 0b1,
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
        let x = c.t(0)?;
        check(c, x, &PARAMETERS)?;
        super::push_format(x, x.sizes(), outs)
    },
    kernel: Kernel::Prim {
        prim: &BATCH_NORM,
        lower: |c, _, l| {
            l.input(0).opt_input(1, c.opt(1).is_some()).opt_input(2, c.opt(2).is_some()).input(3).input(4);
            l.output(0).no_output().no_output().no_output().no_output();
            l.param(false).param(0.0).param(c.float(0)?);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let x = c.t(0)?;
        check(c, x, &PARAMETERS)?;
        let rstd = wide(c.t(4)?)?.add(c.float(0)?)?.rsqrt()?;
        outs.give(normalised(x, &wide(c.t(3)?)?, &rstd, c.opt(1), c.opt(2))?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(0, 0b11011), Save::In(1, 0b11001), Save::In(3, 0b11011), Save::In(4, 0b11011)],
        fix: Fix::None,
        f: |c, out| {
            let eps = c.arg(0).float().unwrap_or(1e-5);
            if !(0..5).any(|i| i != 2 && out.needs(i)) {
                let g = wide(c.g()?)?;
                return out.set(2, || narrow(g.sum(&others(&g), false)?, c.in_meta(2)?.dtype));
            }
            let statistics = out.needs(3) || out.needs(4);
            let (mean, rstd) = (wide(c.x(3)?)?, wide(c.x(4)?)?.add(eps)?.rsqrt()?);
            let affine = out.needs(1) || out.needs(2) || statistics;
            let [gx, gw, gb] = c.g()?.batch_norm_backward(c.x(0)?, &mean, &rstd, c.opt_x(1), false, affine, eps)?;
            if statistics {
                let scale = match c.opt_x(1) {
                    Some(w) => rstd.mul(w)?,
                    None => rstd.clone(),
                };
                out.set(3, || gb.mul(&scale)?.neg())?;
                out.set(4, || gw.mul(&scale)?.mul(&rstd)?.mul(-0.5))?;
            }
            out.set(0, || Ok(gx))?;
            out.set(1, || Ok(gw))?;
            out.set(2, || Ok(gb))
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
        let x = c.t(1)?;
        check(c, x, &[(2, "mean"), (3, "rstd"), (4, "weight")])?;
        fits::alike(c, &[0], 1)?;
        let w = c.opt(4).map_or(x.dtype(), Tensor::dtype);
        super::push_format(x, x.sizes(), outs)?;
        let n = if c.bool(1) { x.sizes()[1] } else { 0 };
        outs.push(w, x.device(), &[n])?;
        outs.push(w, x.device(), &[n])
    },
    kernel: Kernel::Prim {
        prim: &BATCH_NORM_BACKWARD,
        lower: |c, _, l| {
            l.input(0).input(1).input(2).input(3).opt_input(4, c.opt(4).is_some()).output(0);
            if c.bool(1) {
                l.output(1).output(2)
            } else {
                l.no_output().no_output()
            };
            l.param(c.bool(0));
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, x, training) = (c.t(0)?, c.t(1)?, c.bool(0));
        let (gw, xw, dims) = (wide(g)?, wide(x)?, others(x));
        // In training the statistics again, by ops of x: their gradients are part of a second derivative.
        let (d, rstd) = if training {
            let d = xw.sub(&xw.mean(&dims, true)?)?;
            let rstd = d.mul(&d)?.mean(&dims, true)?.add(c.float(2)?)?.rsqrt()?;
            (d, rstd)
        } else {
            (xw.sub(&channels(c.t(2)?, x)?)?, channels(c.t(3)?, x)?)
        };
        let normed = d.mul(&rstd)?;
        let gy = match c.opt(4) {
            Some(w) => gw.mul(&channels(w, x)?)?,
            None => gw.clone(),
        };
        let inner = match training {
            true => gy.sub(&gy.mean(&dims, true)?)?.sub(&normed.mul(&gy.mul(&normed)?.mean(&dims, true)?)?)?,
            false => gy,
        };
        outs.give(formatted(narrow(inner.mul(&rstd)?, x.dtype())?, x)?);
        let dtype = c.opt(4).map_or(x.dtype(), Tensor::dtype);
        for t in [gw.mul(&normed)?, gw] {
            outs.give(if c.bool(1) { narrow(t.sum(&dims, false)?, dtype)? } else { x.new_empty(&[0])? });
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
