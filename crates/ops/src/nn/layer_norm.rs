//! Layer normalisation over trailing dimensions, and its backward.

use crate::named::{fused_add_layer_norm, layer_norm, layer_norm_backward, native_layer_norm};
use crate::prelude::*;

/// The number of leading (outer) dims; the trailing ones match `normalized_shape`.
pub(super) fn outer(x: &[i64], shape: &[i64], name: &str) -> Result<usize> {
    if shape.is_empty() || shape.len() > x.len() || x[x.len() - shape.len()..] != *shape {
        return Err(Error::runtime(format!(
            "{name}(): Given normalized_shape={shape:?}, expected input with shape [*, {shape:?}], but got input of size {x:?}"
        )));
    }
    Ok(x.len() - shape.len())
}

pub(super) fn check_affine(t: Option<&Tensor>, shape: &[i64], name: &str, what: &str) -> Result<()> {
    match t {
        Some(t) if t.sizes() != shape => Err(Error::runtime(format!(
            "{name}(): Expected {what} to be of same shape as normalized_shape, but got {what} of shape {:?} and normalized_shape = {shape:?}",
            t.sizes()
        ))),
        _ => Ok(()),
    }
}

pub(super) fn check_residual(name: &str, x: &Tensor, r: &Tensor) -> Result<()> {
    if r.sizes() == x.sizes() && r.dtype() == x.dtype() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "{name}(): the residual {}{:?} is not like the input {}{:?}",
        r.dtype(),
        r.sizes(),
        x.dtype(),
        x.sizes()
    )))
}

/// What a gradient's kernel adds to what it gives.
pub(super) fn check_sum(c: &Call<'_>, x: In, residual: In) -> Result<()> {
    match c.opt(residual) {
        Some(r) => check_residual(c.name(), c.t(x)?, r),
        None => Ok(()),
    }
}

/// The gradient of a norm's result in a dtype that the kernel of its backward reads.
pub(super) fn readable(g: &Tensor, x: &Tensor) -> Result<Tensor> {
    if g.dtype() == x.dtype() || is_readable(g, x) && LAYER_NORM_BACKWARD.takes_narrow(g.device().kind) {
        return Ok(g.clone());
    }
    g.to_copy_with(Some(x.dtype()), None)
}

/// Whether some kernel reads a gradient of this dtype beside the input's.
fn is_readable(g: &Tensor, x: &Tensor) -> bool {
    g.dtype() == x.dtype() || x.dtype() == DType::F32 && matches!(g.dtype(), DType::BF16 | DType::F16)
}

/// Refuses gradients of a dtype that no kernel reads, and says so of those that this device's does not.
pub(super) fn check_gradient(name: &str, g: &Tensor, x: &Tensor) -> Result<()> {
    if !is_readable(g, x) || g.sizes() != x.sizes() {
        return Err(Error::runtime(format!(
            "{name}(): the gradient {}{:?} is not like the input {}{:?}",
            g.dtype(),
            g.sizes(),
            x.dtype(),
            x.sizes()
        )));
    }
    Ok(())
}

pub(super) fn check_narrow(name: &str, g: &Tensor, x: &Tensor) -> Result<()> {
    if g.dtype() == x.dtype() || LAYER_NORM_BACKWARD.takes_narrow(x.device().kind) {
        return Ok(());
    }
    Err(Error::not_implemented(format!("{name}: no kernel for {} reads a narrower gradient", x.device().kind.name())))
}

/// What waits where the gradient of `input` goes, if the kernel of the backward adds it.
pub(super) fn residual(c: &GradCall<'_>, input: In, x: &Tensor) -> Option<Tensor> {
    // Half types would be rounded once where they are rounded twice apart.
    let adds = LAYER_NORM_BACKWARD.takes_extras(x.device().kind) && x.dtype() == x.dtype().compute();
    if adds && c.needs(input) { c.take_sum(input) } else { None }
}

pub(super) fn not_axes(c: &Call<'_>) -> u32 {
    let n = c.t(native_layer_norm::INPUT).map_or(0, Tensor::ndim);
    let k = c.ints(native_layer_norm::NORMALIZED_SHAPE).map_or(n, <[i64]>::len);
    (n.saturating_sub(k)..n).fold(0, |m, d| m | 1 << d)
}

/// Splits of the outer dims: weight and bias stay whole, statistics follow.
fn rows(c: &Call<'_>, rows: &mut Vec<Row>) -> Result<()> {
    let not = not_axes(c);
    for i in (0..c.t(native_layer_norm::INPUT)?.ndim()).filter(|i| not >> i & 1 == 0) {
        let s = Sbp::S(i as u8);
        let ins = c.ins.iter().flatten().enumerate().map(|(k, _)| if k == 0 { s } else { Sbp::B }).collect();
        rows.push(Row { ins, outs: SmallVec::from_elem(s, 3) });
    }
    Ok(())
}

pub static NATIVE: OpDef = OpDef {
    sig: Sig::parse(
        "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, Tensor rstd)",
    ),
    doc: "Layer norm with the statistics its backward needs.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, shape) = (c.t(native_layer_norm::INPUT)?, c.ints(native_layer_norm::NORMALIZED_SHAPE)?);
        let n = outer(x.sizes(), shape, "layer_norm")?;
        if !x.dtype().is_float() {
            return Err(Error::not_implemented(format!(
                "\"LayerNormKernelImpl\" not implemented for '{}'",
                x.dtype().scalar_type_name()
            )));
        }
        check_affine(c.opt(native_layer_norm::WEIGHT), shape, "layer_norm", "weight")?;
        check_affine(c.opt(native_layer_norm::BIAS), shape, "layer_norm", "bias")?;
        outs.push(x.dtype(), x.device(), x.sizes())?;
        let mut stat = Dims::from_slice(&x.sizes()[..n]);
        stat.resize(x.ndim(), 1);
        outs.push(x.dtype().compute(), x.device(), &stat)?;
        outs.push(x.dtype().compute(), x.device(), &stat)
    },
    kernel: Kernel::Prim {
        prim: &LAYER_NORM,
        lower: |c, outs, l| {
            let (x, shape) = (c.t(native_layer_norm::INPUT)?, c.ints(native_layer_norm::NORMALIZED_SHAPE)?);
            let rows: i64 = x.sizes()[..outer(x.sizes(), shape, "layer_norm")?].iter().product();
            l.input(native_layer_norm::INPUT)
                .opt_input(native_layer_norm::WEIGHT, c.opt(native_layer_norm::WEIGHT).is_some())
                .opt_input(native_layer_norm::BIAS, c.opt(native_layer_norm::BIAS).is_some())
                .output(native_layer_norm::OUTPUT);
            for at in [native_layer_norm::MEAN, native_layer_norm::RSTD] {
                l.output_as(at, Dims::from_slice(&[rows]), Dims::from_slice(&[1]), outs[at].offset());
            }
            l.with(LayerNormParams { normalized_dims: shape.len(), eps: c.float(native_layer_norm::EPS)?, rms: false });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[
            Save::of(
                native_layer_norm::INPUT,
                &[native_layer_norm::INPUT, native_layer_norm::WEIGHT, native_layer_norm::BIAS],
            ),
            Save::of(native_layer_norm::WEIGHT, &[native_layer_norm::INPUT]),
            Save::out(
                native_layer_norm::MEAN,
                &[native_layer_norm::INPUT, native_layer_norm::WEIGHT, native_layer_norm::BIAS],
            ),
            Save::out(
                native_layer_norm::RSTD,
                &[native_layer_norm::INPUT, native_layer_norm::WEIGHT, native_layer_norm::BIAS],
            ),
        ],
        fix: Fix::None,
        f: |c, out| {
            let shape = c.arg(native_layer_norm::NORMALIZED_SHAPE).ints().unwrap_or(&[]);
            let eps = c.arg(native_layer_norm::EPS).float().unwrap_or(1e-5);
            let (want_w, want_b) = (out.needs(native_layer_norm::WEIGHT), out.needs(native_layer_norm::BIAS));
            let x = c.x(native_layer_norm::INPUT)?;
            let residual = residual(c, native_layer_norm::INPUT, x);
            let [gx, gw, gb] = readable(c.g()?, x)?.layer_norm_backward(
                x,
                c.y(native_layer_norm::MEAN)?,
                c.y(native_layer_norm::RSTD)?,
                c.opt_x(native_layer_norm::WEIGHT),
                residual.as_ref(),
                shape,
                want_w || want_b,
                eps,
            )?;
            out.set(native_layer_norm::INPUT, || Ok(gx))?;
            out.set(native_layer_norm::WEIGHT, || Ok(gw))?;
            out.set(native_layer_norm::BIAS, || Ok(gb))
        },
    },
    differentiable: OutMask::of(&[native_layer_norm::OUTPUT]),
    sbp: SbpRule::of(Rows::Custom(rows)),
    traits: Traits::NEEDS_CONTIGUOUS.or(Traits::NARROW_GRADIENTS),
    samples: || {
        let t = |s: &[i64], n: &[i64], affine: bool| {
            let p = || if affine { SampleArg::f32(n) } else { SampleArg::None };
            Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(n.to_vec()), p(), p(), SampleArg::Float(1e-5)])
        };
        vec![t(&[4, 6], &[6], true), t(&[2, 3, 4], &[3, 4], true), t(&[2, 3, 4], &[4], false)]
    },
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "layer_norm_backward(Tensor grad_output, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, Tensor? residual, int[] normalized_shape, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    ),
    doc: "Gradients of layer norm; those of weight and bias are empty unless `affine`. The compiler lets `residual` be added to that of
the input.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, shape) = (c.t(layer_norm_backward::INPUT)?, c.ints(layer_norm_backward::NORMALIZED_SHAPE)?);
        let w = c.opt(layer_norm_backward::WEIGHT).map_or(x.dtype(), Tensor::dtype);
        check_gradient("layer_norm_backward", c.t(layer_norm_backward::GRAD_OUTPUT)?, x)?;
        outs.push(x.dtype(), x.device(), x.sizes())?;
        let affine: &[i64] = if c.bool(layer_norm_backward::AFFINE) { shape } else { &[0] };
        outs.push(w, x.device(), affine)?;
        outs.push(w, x.device(), affine)
    },
    kernel: Kernel::Prim {
        prim: &LAYER_NORM_BACKWARD,
        lower: |c, _, l| {
            let (x, shape) = (c.t(layer_norm_backward::INPUT)?, c.ints(layer_norm_backward::NORMALIZED_SHAPE)?);
            check_sum(c, layer_norm_backward::INPUT, layer_norm_backward::RESIDUAL)?;
            check_narrow("layer_norm_backward", c.t(layer_norm_backward::GRAD_OUTPUT)?, x)?;
            let rows: i64 = x.sizes()[..outer(x.sizes(), shape, "layer_norm")?].iter().product();
            l.input(layer_norm_backward::GRAD_OUTPUT).input(layer_norm_backward::INPUT);
            for at in [layer_norm_backward::MEAN, layer_norm_backward::RSTD] {
                l.input_as(at, Dims::from_slice(&[rows]), Dims::from_slice(&[1]), c.t(at)?.offset());
            }
            l.opt_input(layer_norm_backward::WEIGHT, c.opt(layer_norm_backward::WEIGHT).is_some()).opt_input(layer_norm_backward::RESIDUAL, c.opt(layer_norm_backward::RESIDUAL).is_some()).output(layer_norm_backward::GRAD_INPUT);
            if c.bool(layer_norm_backward::AFFINE) {
                l.output(layer_norm_backward::GRAD_WEIGHT).output(layer_norm_backward::GRAD_BIAS)
            } else {
                l.no_output().no_output()
            };
            l.with(LayerNormParams { normalized_dims: shape.len(), eps: 0.0, rms: false });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, x, shape) = (c.t(layer_norm_backward::GRAD_OUTPUT)?, c.t(layer_norm_backward::INPUT)?, c.ints(layer_norm_backward::NORMALIZED_SHAPE)?);
        let n = outer(x.sizes(), shape, "layer_norm")?;
        let inner: Vec<i64> = (n as i64..x.ndim() as i64).collect();
        let lead: Vec<i64> = (0..n as i64).collect();
        // The statistics again, by ops of x: their gradients are part of a second derivative.
        let xc = x.sub(&x.mean(&inner, true)?)?;
        let inv = xc.mul(&xc)?.mean(&inner, true)?.add(c.float(layer_norm_backward::EPS)?)?.rsqrt()?;
        let normed = xc.mul(&inv)?;
        let gy = match c.opt(layer_norm_backward::WEIGHT) {
            Some(w) => g.mul(w)?,
            None => g.clone(),
        };
        let gx =
            gy.sub(&gy.mean(&inner, true)?)?.sub(&normed.mul(&gy.mul(&normed)?.mean(&inner, true)?)?)?.mul(&inv)?;
        outs.give(match c.opt(layer_norm_backward::RESIDUAL) {
            Some(r) => gx.add(r)?,
            None => gx,
        });
        if c.bool(layer_norm_backward::AFFINE) {
            let (gw, gb) = (g.mul(&normed)?, g.clone());
            outs.give(if lead.is_empty() { gw } else { gw.sum(&lead, false)? });
            outs.give(if lead.is_empty() { gb } else { gb.sum(&lead, false)? });
        } else {
            outs.give(x.new_empty(&[0])?);
            outs.give(x.new_empty(&[0])?);
        }
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let x = c.t(layer_norm_backward::INPUT)?;
        let n = x.ndim() - c.ints(layer_norm_backward::NORMALIZED_SHAPE)?.len();
        for i in 0..n {
            let s = Sbp::S(i as u8);
            let present = c.ins.iter().enumerate().filter(|(_, t)| t.is_some());
            let ins = present.map(|(k, _)| if k == 4 { Sbp::B } else { s }).collect();
            rows.push(Row { ins, outs: SmallVec::from_slice(&[s, Sbp::P_SUM, Sbp::P_SUM]) });
        }
        Ok(())
    })),
    // Row by row: each is read before it is written.
    traits: Traits::NEEDS_CONTIGUOUS.or(Traits::ALIAS_OK),
    ..OpDef::BASE
};

/// What the compiler puts in place of an addition whose sum is normalised.
pub static FUSED_ADD: OpDef = OpDef {
    sig: Sig::parse(
        "fused_add_layer_norm(Tensor input, Tensor residual, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor output, Tensor mean, Tensor rstd, Tensor sum)",
    ),
    doc: "Layer norm of `input + residual`, with its statistics and the sum itself, in one pass over both.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, r) = (c.t(fused_add_layer_norm::INPUT)?, c.t(fused_add_layer_norm::RESIDUAL)?);
        check_residual(c.name(), x, r)?;
        let ins = [
            c.opt(fused_add_layer_norm::INPUT),
            c.opt(fused_add_layer_norm::WEIGHT),
            c.opt(fused_add_layer_norm::BIAS),
        ];
        (NATIVE.infer)(&Call::new(&NATIVE, &ins, c.args), outs)?;
        outs.push(x.dtype(), x.device(), x.sizes())
    },
    kernel: Kernel::Prim {
        prim: &LAYER_NORM,
        lower: |c, outs, l| {
            let (x, shape) = (c.t(fused_add_layer_norm::INPUT)?, c.ints(fused_add_layer_norm::NORMALIZED_SHAPE)?);
            let rows: i64 = x.sizes()[..outer(x.sizes(), shape, "fused_add_layer_norm")?].iter().product();
            l.input(fused_add_layer_norm::INPUT)
                .opt_input(fused_add_layer_norm::WEIGHT, c.opt(fused_add_layer_norm::WEIGHT).is_some())
                .opt_input(fused_add_layer_norm::BIAS, c.opt(fused_add_layer_norm::BIAS).is_some())
                .input(fused_add_layer_norm::RESIDUAL)
                .output(fused_add_layer_norm::OUTPUT);
            for at in [fused_add_layer_norm::MEAN, fused_add_layer_norm::RSTD] {
                l.output_as(at, Dims::from_slice(&[rows]), Dims::from_slice(&[1]), outs[at].offset());
            }
            l.output(fused_add_layer_norm::SUM).with(LayerNormParams {
                normalized_dims: shape.len(),
                eps: c.float(fused_add_layer_norm::EPS)?,
                rms: false,
            });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let sum = c.t(fused_add_layer_norm::INPUT)?.add(c.t(fused_add_layer_norm::RESIDUAL)?)?;
        let [y, mean, rstd] = sum.native_layer_norm(
            c.ints(fused_add_layer_norm::NORMALIZED_SHAPE)?,
            c.opt(fused_add_layer_norm::WEIGHT),
            c.opt(fused_add_layer_norm::BIAS),
            c.float(fused_add_layer_norm::EPS)?,
        )?;
        [y, mean, rstd, sum.contiguous()?].into_iter().for_each(|t| outs.give(t));
        Ok(())
    }),
    grad: Grad::Compose,
    differentiable: OutMask::of(&[fused_add_layer_norm::OUTPUT, fused_add_layer_norm::SUM]),
    sbp: SbpRule::of(Rows::Compose),
    traits: Traits::NEEDS_CONTIGUOUS,
    samples: || {
        let t = |s: &[i64], n: &[i64], affine: bool| {
            let p = || if affine { SampleArg::f32(n) } else { SampleArg::None };
            let (x, r) = (SampleArg::f32(s), SampleArg::f32(s));
            Sample::new(vec![x, r, SampleArg::Ints(n.to_vec()), p(), p(), SampleArg::Float(1e-5)])
        };
        vec![t(&[4, 6], &[6], true), t(&[2, 3, 4], &[3, 4], true), t(&[2, 3, 4], &[4], false)]
    },
    ..OpDef::BASE
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor",
    ),
    doc: "Normalises over the trailing dimensions `normalized_shape`, then scales and shifts.

Source: Ba, Kiros and Hinton, \"Layer Normalization\", 2016.

Example::

    >>> oneflow.layer_norm(oneflow.tensor([[1., 3.]]), (2,))
    tensor([[-1.0000,  1.0000]])",
    faces: Faces::FN,
    compose: Some(|c, outs| {
        let [y, _, _] = c.t(layer_norm::INPUT)?.native_layer_norm(
            c.ints(layer_norm::NORMALIZED_SHAPE)?,
            c.opt(layer_norm::WEIGHT),
            c.opt(layer_norm::BIAS),
            c.float(layer_norm::EPS)?,
        )?;
        outs.give(y);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let t = |s: &[i64], n: &[i64], affine: bool| {
            let p = || if affine { SampleArg::f32(n) } else { SampleArg::None };
            Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(n.to_vec()), p(), p(), SampleArg::Float(1e-5)])
        };
        vec![t(&[4, 6], &[6], true), t(&[2, 3, 4], &[3, 4], true), t(&[2, 3, 4], &[4], false)]
    },
    batch: Batching::Leading,
    ..OpDef::BASE
};
