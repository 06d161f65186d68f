//! Softmax and log-softmax along a dimension, and their common backward.

use crate::named::{log_softmax, softmax, softmax_backward};
use crate::prelude::*;

fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let x = c.t(softmax::INPUT)?;
    wrap_dim(c.int(softmax::DIM)?, x.ndim()).map_err(|e| e.context(format_args!("{}(): ", c.name())))?;
    let dtype = c.dtype_or(softmax::DTYPE, x.dtype());
    if !dtype.is_float() {
        return Err(Error::not_implemented(format!(
            "\"{}\" not implemented for '{}'",
            c.name(),
            dtype.scalar_type_name()
        )));
    }
    outs.push(dtype, x.device(), x.sizes())
}

fn lower(c: &Call<'_>, l: &mut Lowered, log: bool) -> Result<()> {
    let dim = wrap_dim(c.int(softmax::DIM)?, c.t(softmax::INPUT)?.ndim())?;
    if c.dtype_or(softmax::DTYPE, c.t(softmax::INPUT)?.dtype()) != c.t(softmax::INPUT)?.dtype() {
        return Err(Error::not_implemented("softmax: another dtype is cast to by the composition"));
    }
    l.input(softmax::INPUT).output(softmax::RESULT).with(SoftmaxParams { dim, log });
    Ok(())
}

/// By other ops; in another dtype, after a cast.
fn compose(c: &Call<'_>, log: bool) -> Result<Tensor> {
    let (x, dim) = (c.t(softmax::INPUT)?, c.int(softmax::DIM)?);
    let dtype = c.dtype_or(softmax::DTYPE, x.dtype());
    if dtype != x.dtype() {
        let x = x.to_copy_with(Some(dtype), None)?;
        return if log { x.log_softmax(dim, None) } else { x.softmax(dim, None) };
    }
    if x.numel() == 0 {
        return x.clone_contiguous();
    }
    let shifted = x.sub(&x.amax(&[dim], true)?)?;
    let e = shifted.exp()?;
    let sum = e.sum(&[dim], true)?;
    if log { shifted.sub(&sum.log()?) } else { e.div(&sum) }
}

fn grad(c: &GradCall<'_>, out: &mut Grads, log: bool) -> Result<()> {
    let dim = c.arg(softmax::DIM).int().unwrap_or(0);
    out.set(softmax::INPUT, || c.g()?.softmax_backward(c.y(softmax::RESULT)?, dim, log))
}

/// Every axis but the normalised one may be split.
fn not_axes(c: &Call<'_>) -> u32 {
    let n = c.t(softmax::INPUT).map_or(0, Tensor::ndim);
    c.int(softmax::DIM).and_then(|d| wrap_dim(d, n)).map_or(u32::MAX, |d| 1 << d)
}

fn samples() -> Vec<Sample> {
    let t = |s: &[i64], d| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d)]);
    vec![t(&[3, 4], -1), t(&[2, 3, 4], 1), t(&[5], 0), t(&[], 0), t(&[0, 3], 1)]
}

const SOFTMAX_BASE: OpDef = OpDef {
    faces: Faces::FN_METHOD_OUT,
    infer,
    sbp: SbpRule::of(Rows::Batch { not_axes }),
    samples,
    traits: Traits::EXACT_OUT,
    ..OpDef::BASE
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("softmax(Tensor input, int dim, DType? dtype=None) -> Tensor"),
    doc: "`exp(x) / sum(exp(x))` along `dim`.

Example::

    >>> oneflow.softmax(oneflow.tensor([0., 0.]), dim=0)
    tensor([0.5000, 0.5000])",
    kernel: Kernel::Prim { prim: &SOFTMAX, lower: |c, _, l| lower(c, l, false) },
    compose: Some(|c, outs| {
        outs.give(compose(c, false)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::out(softmax::RESULT, &[softmax::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| grad(c, out, false),
    },
    ..SOFTMAX_BASE
};

pub static LOG: OpDef = OpDef {
    sig: Sig::parse("log_softmax(Tensor input, int dim, DType? dtype=None) -> Tensor"),
    doc: "`log(softmax(x))` along `dim`, computed without overflow.

Example::

    >>> oneflow.log_softmax(oneflow.tensor([0., 0.]), dim=0)
    tensor([-0.6931, -0.6931])",
    kernel: Kernel::Prim { prim: &SOFTMAX, lower: |c, _, l| lower(c, l, true) },
    compose: Some(|c, outs| {
        outs.give(compose(c, true)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::out(log_softmax::RESULT, &[log_softmax::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| grad(c, out, true),
    },
    ..SOFTMAX_BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse("softmax_backward(Tensor grad_output, Tensor output, int dim, bool log) -> Tensor"),
    doc: "Gradient of softmax (of log_softmax where `log`).",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        fits::alike(c, &[softmax_backward::GRAD_OUTPUT], softmax_backward::OUTPUT)?;
        outs.push(
            c.t(softmax_backward::OUTPUT)?.dtype(),
            c.t(softmax_backward::OUTPUT)?.device(),
            c.t(softmax_backward::OUTPUT)?.sizes(),
        )
    },
    kernel: Kernel::Prim {
        prim: &SOFTMAX_BACKWARD,
        lower: |c, _, l| {
            let dim = wrap_dim(c.int(softmax_backward::DIM)?, c.t(softmax_backward::OUTPUT)?.ndim())?;
            l.input(softmax_backward::GRAD_OUTPUT)
                .input(softmax_backward::OUTPUT)
                .output(softmax_backward::RESULT)
                .with(SoftmaxParams { dim, log: c.bool(softmax_backward::LOG) });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, y, dim) =
            (c.t(softmax_backward::GRAD_OUTPUT)?, c.t(softmax_backward::OUTPUT)?, c.int(softmax_backward::DIM)?);
        let out = if c.bool(softmax_backward::LOG) {
            g.sub(&y.exp()?.mul(&g.sum(&[dim], true)?)?)?
        } else {
            let gy = g.mul(y)?;
            gy.sub(&y.mul(&gy.sum(&[dim], true)?)?)?
        };
        outs.give(out);
        Ok(())
    }),
    grad: Grad::Compose,
    samples: || {
        let t = |s: &[i64], d| {
            Sample::new(vec![
                SampleArg::f32(s),
                SampleArg::range(s, 0.1, 0.9),
                SampleArg::Int(d),
                SampleArg::Bool(false),
            ])
        };
        vec![t(&[3, 4], 1), t(&[2, 3, 4], 0)]
    },
    ..SOFTMAX_BASE
};
