//! Group normalisation, and its backward. Instance norm is group norm with a group for each channel.

use super::batch_norm::check;
use super::{formatted, narrow, wide};
use crate::named::{group_norm, group_norm_backward, group_norm_with_statistics};
use crate::prelude::*;

fn groups(c: &Call<'_>, x: &Tensor) -> Result<i64> {
    let (groups, n) = (c.int(group_norm_with_statistics::NUM_GROUPS)?, x.sizes().get(1).copied().unwrap_or(0));
    if groups <= 0 {
        return Err(Error::runtime(format!("Expected num groups to be greater than 0, got {groups}")));
    }
    if n % groups != 0 {
        return Err(Error::runtime(format!(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape {:?} and num_groups={groups}",
            x.sizes()
        )));
    }
    Ok(groups)
}

fn check_all(c: &Call<'_>, x: &Tensor) -> Result<i64> {
    if x.ndim() < 2 {
        return Err(Error::runtime(format!(
            "Expected at least 2 dimensions for input tensor but received {}",
            x.ndim()
        )));
    }
    let groups = groups(c, x)?;
    for (at, name) in [(group_norm::WEIGHT, "weight"), (group_norm::BIAS, "bias")] {
        if let Some(t) = c.opt(at)
            && (t.ndim() != 1 || t.numel() != x.sizes()[1])
        {
            return Err(Error::runtime(format!(
                "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape {:?} and input of shape {:?}",
                t.sizes(),
                x.sizes()
            )));
        }
    }
    check(c, x, &[])?;
    Ok(groups)
}

/// [n, groups, all the rest].
fn grouped(x: &Tensor, groups: i64) -> Result<Tensor> {
    let n = x.sizes()[0];
    x.reshape(&[n, groups, if n * groups == 0 { 0 } else { x.numel() / (n * groups) }])
}

/// One number a channel, broadcastable to `x`.
fn channels(t: &Tensor, x: &Tensor) -> Result<Tensor> {
    let mut shape: Dims = SmallVec::from_elem(1, x.ndim());
    shape[1] = x.sizes()[1];
    t.reshape(&shape)
}

fn samples(tail: fn(&mut Vec<SampleArg>)) -> Vec<Sample> {
    let t = |s: &[i64], groups, affine: bool| {
        let p = || if affine { SampleArg::f32(&s[1..2]) } else { SampleArg::None };
        let mut args = vec![SampleArg::f32(s), SampleArg::Int(groups), p(), p()];
        tail(&mut args);
        Sample::new(args)
    };
    vec![t(&[2, 6, 5], 3, true), t(&[3, 4], 2, true), t(&[2, 4, 3, 2], 4, false)]
}

pub static NATIVE: OpDef = OpDef {
    sig: Sig::parse(
        "group_norm_with_statistics(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, Tensor rstd)",
    ),
    doc: "Group norm with the statistics its backward needs.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(group_norm_with_statistics::INPUT)?;
        let groups = check_all(c, x)?;
        super::push_format(x, x.sizes(), outs)?;
        outs.push(x.dtype().compute(), x.device(), &[x.sizes()[0], groups])?;
        outs.push(x.dtype().compute(), x.device(), &[x.sizes()[0], groups])
    },
    kernel: Kernel::Prim {
        prim: &GROUP_NORM,
        lower: |c, _, l| {
            l.input(group_norm_with_statistics::INPUT)
                .opt_input(group_norm_with_statistics::WEIGHT, c.opt(group_norm_with_statistics::WEIGHT).is_some())
                .opt_input(group_norm_with_statistics::BIAS, c.opt(group_norm_with_statistics::BIAS).is_some());
            l.output(group_norm_with_statistics::OUTPUT)
                .output(group_norm_with_statistics::MEAN)
                .output(group_norm_with_statistics::RSTD)
                .with(GroupNormParams {
                    groups: c.int(group_norm_with_statistics::NUM_GROUPS)? as usize,
                    eps: c.float(group_norm_with_statistics::EPS)?,
                });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let x = c.t(group_norm_with_statistics::INPUT)?;
        let xg = grouped(&wide(x)?, check_all(c, x)?)?;
        let mean = xg.mean(&[2], true)?;
        let d = xg.sub(&mean)?;
        let rstd = d.mul(&d)?.mean(&[2], true)?.add(c.float(group_norm_with_statistics::EPS)?)?.rsqrt()?;
        let mut y = d.mul(&rstd)?.reshape(x.sizes())?;
        if let Some(w) = c.opt(group_norm_with_statistics::WEIGHT) {
            y = y.mul(&channels(w, x)?)?;
        }
        if let Some(b) = c.opt(group_norm_with_statistics::BIAS) {
            y = y.add(&channels(b, x)?)?;
        }
        outs.give(formatted(narrow(y, x.dtype())?, x)?);
        outs.give(mean.squeeze_dim(&[2])?);
        outs.give(rstd.squeeze_dim(&[2])?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(
                group_norm_with_statistics::INPUT,
                &[
                    group_norm_with_statistics::INPUT,
                    group_norm_with_statistics::WEIGHT,
                    group_norm_with_statistics::BIAS,
                ],
            ),
            Save::of(group_norm_with_statistics::WEIGHT, &[group_norm_with_statistics::INPUT]),
            Save::out(
                group_norm_with_statistics::MEAN,
                &[
                    group_norm_with_statistics::INPUT,
                    group_norm_with_statistics::WEIGHT,
                    group_norm_with_statistics::BIAS,
                ],
            ),
            Save::out(
                group_norm_with_statistics::RSTD,
                &[
                    group_norm_with_statistics::INPUT,
                    group_norm_with_statistics::WEIGHT,
                    group_norm_with_statistics::BIAS,
                ],
            ),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (groups, eps) = (
                c.arg(group_norm_with_statistics::NUM_GROUPS).int().unwrap_or(1),
                c.arg(group_norm_with_statistics::EPS).float().unwrap_or(1e-5),
            );
            let affine = out.needs(group_norm_with_statistics::WEIGHT) || out.needs(group_norm_with_statistics::BIAS);
            let [gx, gw, gb] = c.g()?.group_norm_backward(
                c.x(group_norm_with_statistics::INPUT)?,
                c.y(group_norm_with_statistics::MEAN)?,
                c.y(group_norm_with_statistics::RSTD)?,
                c.opt_x(group_norm_with_statistics::WEIGHT),
                groups,
                affine,
                eps,
            )?;
            out.set(group_norm_with_statistics::INPUT, || Ok(gx))?;
            out.set(group_norm_with_statistics::WEIGHT, || Ok(gw))?;
            out.set(group_norm_with_statistics::BIAS, || Ok(gb))
        },
    },
    differentiable: OutMask::of(&[group_norm_with_statistics::OUTPUT]),
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let s = Sbp::S(0);
        let ins = c.ins.iter().flatten().enumerate().map(|(k, _)| if k == 0 { s } else { Sbp::B }).collect();
        rows.push(Row { ins, outs: SmallVec::from_elem(s, 3) });
        Ok(())
    })),
    samples: || samples(|a| a.push(SampleArg::Float(1e-5))),
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "group_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, int num_groups, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    ),
    doc: "Gradients of group norm; those of weight and bias are empty unless `affine`.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(group_norm_backward::INPUT)?;
        let w = c.opt(group_norm_backward::WEIGHT).map_or(x.dtype(), Tensor::dtype);
        super::push_format(x, x.sizes(), outs)?;
        let n = if c.bool(group_norm_backward::AFFINE) { x.sizes()[1] } else { 0 };
        outs.push(w, x.device(), &[n])?;
        outs.push(w, x.device(), &[n])
    },
    kernel: Kernel::Prim {
        prim: &GROUP_NORM_BACKWARD,
        lower: |c, _, l| {
            l.input(group_norm_backward::GRAD_OUTPUT)
                .input(group_norm_backward::INPUT)
                .input(group_norm_backward::MEAN)
                .input(group_norm_backward::RSTD)
                .opt_input(group_norm_backward::WEIGHT, c.opt(group_norm_backward::WEIGHT).is_some())
                .output(group_norm_backward::GRAD_INPUT);
            if c.bool(group_norm_backward::AFFINE) {
                l.output(group_norm_backward::GRAD_WEIGHT).output(group_norm_backward::GRAD_BIAS)
            } else {
                l.no_output().no_output()
            };
            l.with(GroupNormBackwardParams { groups: c.int(group_norm_backward::NUM_GROUPS)? as usize });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, x, groups) = (
            wide(c.t(group_norm_backward::GRAD_OUTPUT)?)?,
            c.t(group_norm_backward::INPUT)?,
            c.int(group_norm_backward::NUM_GROUPS)?,
        );
        // The statistics again, by ops of x: their gradients are part of a second derivative.
        let xg = grouped(&wide(x)?, groups)?;
        let d = xg.sub(&xg.mean(&[2], true)?)?;
        let rstd = d.mul(&d)?.mean(&[2], true)?.add(c.float(group_norm_backward::EPS)?)?.rsqrt()?;
        let normed = d.mul(&rstd)?;
        let gy = match c.opt(group_norm_backward::WEIGHT) {
            Some(w) => g.mul(&channels(w, x)?)?,
            None => g.clone(),
        };
        let gy = grouped(&gy, groups)?;
        let gx = gy.sub(&gy.mean(&[2], true)?)?.sub(&normed.mul(&gy.mul(&normed)?.mean(&[2], true)?)?)?.mul(&rstd)?;
        outs.give(formatted(narrow(gx.reshape(x.sizes())?, x.dtype())?, x)?);
        let dtype = c.opt(group_norm_backward::WEIGHT).map_or(x.dtype(), Tensor::dtype);
        let dims: Vec<i64> = (0..x.ndim() as i64).filter(|d| *d != 1).collect();
        for t in [g.mul(&normed.reshape(x.sizes())?)?, g] {
            outs.give(if c.bool(group_norm_backward::AFFINE) {
                narrow(t.sum(&dims, false)?, dtype)?
            } else {
                x.new_empty(&[0])?
            });
        }
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let s = Sbp::S(0);
        let ins = c.ins.iter().flatten().enumerate().map(|(k, _)| if k < 4 { s } else { Sbp::B }).collect();
        rows.push(Row { ins, outs: SmallVec::from_slice(&[s, Sbp::P_SUM, Sbp::P_SUM]) });
        Ok(())
    })),
    ..OpDef::BASE
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor",
    ),
    doc: "Normalises groups of channels, then scales and shifts each channel.

Source: Wu and He, \"Group Normalization\", 2018.

Example::

    >>> oneflow.group_norm(oneflow.tensor([[1., 3.]]), 1)
    tensor([[-1.0000,  1.0000]])",
    faces: Faces::FN,
    compose: Some(|c, outs| {
        let [y, _, _] = c.t(group_norm::INPUT)?.group_norm_with_statistics(
            c.int(group_norm::NUM_GROUPS)?,
            c.opt(group_norm::WEIGHT),
            c.opt(group_norm::BIAS),
            c.float(group_norm::EPS)?,
        )?;
        outs.give(y);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || samples(|_| ()),
    ..OpDef::BASE
};
