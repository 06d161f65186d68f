//! Batch normalisation with the statistics its backward needs, and its backward.
//!
//! New running statistics are results; who holds the old ones writes them back, so that a trace sees an ordinary write.

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

/// In the compute dtype.
pub(super) fn wide(t: &Tensor) -> Result<Tensor> {
    let compute = t.dtype().compute();
    if t.dtype() == compute { Ok(t.clone()) } else { t.to_copy_with(Some(compute), None) }
}

pub(super) fn narrow(t: Tensor, dtype: DType) -> Result<Tensor> {
    if t.dtype() == dtype { Ok(t) } else { t.to_copy_with(Some(dtype), None) }
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

/// The running statistics where training changes them.
fn running<'a>(c: &Call<'a>) -> Option<(&'a Tensor, &'a Tensor)> {
    c.opt(3).zip(c.opt(4)).filter(|_| c.bool(0))
}

pub static NATIVE: OpDef = OpDef {
    sig: Sig::parse(
        "batch_norm_with_statistics(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor output, Tensor mean, Tensor rstd, Tensor running)",
    ),
    doc: "Batch norm, the mean and 1 / standard deviation of each channel, and in training the new running mean and variance [2, c].",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(0)?;
        check(c, x, &PARAMETERS)?;
        if !c.bool(0) && (c.opt(3).is_none() || c.opt(4).is_none()) {
            return Err(Error::runtime(
                "batch_norm(): running_mean and running_var must be defined in evaluation mode",
            ));
        }
        super::push_format(x, x.sizes(), outs)?;
        let n = [x.sizes()[1]];
        outs.push(x.dtype().compute(), x.device(), &n)?;
        outs.push(x.dtype().compute(), x.device(), &n)?;
        match running(c) {
            Some((mean, _)) => outs.push(mean.dtype(), x.device(), &[2, n[0]]),
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
            l.param(c.bool(0)).param(c.float(1)?).param(c.float(2)?);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let x = c.t(0)?;
        let (training, momentum, eps) = (c.bool(0), c.float(1)?, c.float(2)?);
        check(c, x, &PARAMETERS)?;
        let (xw, dims) = (wide(x)?, others(x));
        let (mean, var) = if training {
            let mean = xw.mean(&dims, false)?;
            let d = xw.sub(&channels(&mean, x)?)?;
            (mean, d.mul(&d)?.mean(&dims, false)?)
        } else {
            (wide(c.t(3)?)?, wide(c.t(4)?)?)
        };
        let rstd = var.add(eps)?.rsqrt()?;
        let mut y = xw.sub(&channels(&mean, x)?)?.mul(&channels(&rstd, x)?)?;
        if let Some(w) = c.opt(1) {
            y = y.mul(&channels(w, x)?)?;
        }
        if let Some(b) = c.opt(2) {
            y = y.add(&channels(b, x)?)?;
        }
        outs.give(narrow(y, x.dtype())?);
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
            let (training, eps) = (c.arg(0).bool(), c.arg(2).float().unwrap_or(1e-5));
            let wants = [out.needs(0), out.needs(1), out.needs(2)];
            let [gx, gw, gb] = c.g()?.batch_norm_backward(
                c.x(0)?,
                c.y(1)?,
                c.y(2)?,
                c.opt_x(1),
                training,
                wants[1] || wants[2],
                eps,
            )?;
            out.set(0, || Ok(gx))?;
            out.set(1, || Ok(gw))?;
            out.set(2, || Ok(gb))
        },
    },
    differentiable: 0b1,
    sbp: SbpRule::of(Rows::Compose),
    amp: Amp::Follow,
    samples: || {
        let t = |s: &[i64], affine: bool, training: bool| {
            let c = [s[1]];
            let p = |wanted: bool, low| if wanted { SampleArg::range(&c, low, 2.0) } else { SampleArg::None };
            Sample::new(vec![
                SampleArg::f32(s),
                p(affine, -1.0),
                p(affine, -1.0),
                p(!training || affine, -1.0),
                p(!training || affine, 0.5),
                SampleArg::Bool(training),
                SampleArg::Float(0.1),
                SampleArg::Float(1e-5),
            ])
        };
        vec![t(&[4, 3, 5], true, true), t(&[6, 3], false, true), t(&[2, 3, 4, 5], true, false)]
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
        outs.give(narrow(inner.mul(&rstd)?, x.dtype())?);
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
