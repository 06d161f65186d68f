//! Division by the root mean square over trailing dimensions, and its backward. The public function, which also takes complex
//! numbers and mixed dtypes, is a composition in Python that comes here where it can.

use super::layer_norm::{
    check_affine, check_gradient, check_narrow, check_residual, check_sum, not_axes, outer, readable, residual,
};
use crate::named::{fused_add_rms_norm, native_rms_norm, rms_norm_backward};
use crate::prelude::*;

const NAME: &str = "rms_norm";

/// Splits of the outer dims: the weight, this input, stays whole; of the results those named are sums over rows.
fn rows(c: &Call<'_>, weight: In, outs: &[Option<Sbp>], rows: &mut Vec<Row>) -> Result<()> {
    let not = not_axes(c);
    for i in (0..c.t(native_rms_norm::INPUT)?.ndim()).filter(|i| not >> i & 1 == 0) {
        let s = Sbp::S(i as u8);
        let present = c.ins.iter().enumerate().filter(|(_, t)| t.is_some());
        let ins = present.map(|(k, _)| if k == weight.index() { Sbp::B } else { s }).collect();
        rows.push(Row { ins, outs: outs.iter().map(|o| o.unwrap_or(s)).collect() });
    }
    Ok(())
}

fn n_rows(x: &Tensor, shape: &[i64]) -> Result<i64> {
    Ok(x.sizes()[..outer(x.sizes(), shape, NAME)?].iter().product())
}

pub static NATIVE: OpDef = OpDef {
    sig: Sig::parse(
        "native_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor output, Tensor rstd)",
    ),
    doc: "`input * rstd * weight`, where `rstd` is one over the root mean square of each row.

Source: Zhang and Sennrich, \"Root Mean Square Layer Normalization\", 2019.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, shape) = (c.t(native_rms_norm::INPUT)?, c.ints(native_rms_norm::NORMALIZED_SHAPE)?);
        let n = outer(x.sizes(), shape, NAME)?;
        if !x.dtype().is_float() {
            return Err(Error::not_implemented(format!(
                "\"RMSNormKernelImpl\" not implemented for '{}'",
                x.dtype().scalar_type_name()
            )));
        }
        check_affine(c.opt(native_rms_norm::WEIGHT), shape, NAME, "weight")?;
        outs.push(x.dtype(), x.device(), x.sizes())?;
        let mut stat = Dims::from_slice(&x.sizes()[..n]);
        stat.resize(x.ndim(), 1);
        outs.push(x.dtype().compute(), x.device(), &stat)
    },
    kernel: Kernel::Prim {
        prim: &LAYER_NORM,
        lower: |c, outs, l| {
            let (x, shape) = (c.t(native_rms_norm::INPUT)?, c.ints(native_rms_norm::NORMALIZED_SHAPE)?);
            let rows = Dims::from_slice(&[n_rows(x, shape)?]);
            l.input(native_rms_norm::INPUT)
                .opt_input(native_rms_norm::WEIGHT, c.opt(native_rms_norm::WEIGHT).is_some())
                .no_input()
                .output(native_rms_norm::OUTPUT)
                .no_output();
            l.output_as(native_rms_norm::RSTD, rows, Dims::from_slice(&[1]), outs[native_rms_norm::RSTD].offset());
            l.with(LayerNormParams { normalized_dims: shape.len(), eps: c.float(native_rms_norm::EPS)?, rms: true });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[
            Save::of(native_rms_norm::INPUT, &[native_rms_norm::INPUT, native_rms_norm::WEIGHT]),
            Save::of(native_rms_norm::WEIGHT, &[native_rms_norm::INPUT]),
            Save::out(native_rms_norm::RSTD, &[native_rms_norm::INPUT, native_rms_norm::WEIGHT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let shape = c.arg(native_rms_norm::NORMALIZED_SHAPE).ints().unwrap_or(&[]);
            let eps = c.arg(native_rms_norm::EPS).float().unwrap_or(1e-6);
            let x = c.x(native_rms_norm::INPUT)?;
            let residual = residual(c, native_rms_norm::INPUT, x);
            let [gx, gw] = readable(c.g()?, x)?.rms_norm_backward(
                x,
                c.y(native_rms_norm::RSTD)?,
                c.opt_x(native_rms_norm::WEIGHT),
                residual.as_ref(),
                shape,
                out.needs(native_rms_norm::WEIGHT),
                eps,
            )?;
            out.set(native_rms_norm::INPUT, || Ok(gx))?;
            out.set(native_rms_norm::WEIGHT, || Ok(gw))
        },
    },
    differentiable: OutMask::of(&[native_rms_norm::OUTPUT]),
    sbp: SbpRule::of(Rows::Custom(|c, r| rows(c, native_rms_norm::WEIGHT, &[None, None], r))),
    traits: Traits::NEEDS_CONTIGUOUS.or(Traits::NARROW_GRADIENTS),
    samples: || {
        let t = |s: &[i64], n: &[i64], affine: bool| {
            let w = if affine { SampleArg::f32(n) } else { SampleArg::None };
            Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(n.to_vec()), w, SampleArg::Float(1e-5)])
        };
        vec![t(&[4, 6], &[6], true), t(&[2, 3, 4], &[3, 4], true), t(&[2, 3, 4], &[4], false)]
    },
    batch: Batching::Leading,
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "rms_norm_backward(Tensor grad_output, Tensor input, Tensor rstd, Tensor? weight, Tensor? residual, int[] normalized_shape, bool affine, float eps) -> (Tensor grad_input, Tensor grad_weight)",
    ),
    doc: "Gradients of the division by the root mean square; that of the weight is empty unless `affine`. The compiler
lets `residual` be added to that of the input.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, shape) = (c.t(rms_norm_backward::INPUT)?, c.ints(rms_norm_backward::NORMALIZED_SHAPE)?);
        let w = c.opt(rms_norm_backward::WEIGHT).map_or(x.dtype(), Tensor::dtype);
        check_gradient("rms_norm_backward", c.t(rms_norm_backward::GRAD_OUTPUT)?, x)?;
        outs.push(x.dtype(), x.device(), x.sizes())?;
        outs.push(w, x.device(), if c.bool(rms_norm_backward::AFFINE) { shape } else { &[0] })
    },
    kernel: Kernel::Prim {
        prim: &LAYER_NORM_BACKWARD,
        lower: |c, _, l| {
            let (x, shape) = (c.t(rms_norm_backward::INPUT)?, c.ints(rms_norm_backward::NORMALIZED_SHAPE)?);
            let rows = Dims::from_slice(&[n_rows(x, shape)?]);
            l.input(rms_norm_backward::GRAD_OUTPUT).input(rms_norm_backward::INPUT).no_input().input_as(
                rms_norm_backward::RSTD,
                rows,
                Dims::from_slice(&[1]),
                c.t(rms_norm_backward::RSTD)?.offset(),
            );
            check_sum(c, rms_norm_backward::INPUT, rms_norm_backward::RESIDUAL)?;
            check_narrow("rms_norm_backward", c.t(rms_norm_backward::GRAD_OUTPUT)?, x)?;
            l.opt_input(rms_norm_backward::WEIGHT, c.opt(rms_norm_backward::WEIGHT).is_some())
                .opt_input(rms_norm_backward::RESIDUAL, c.opt(rms_norm_backward::RESIDUAL).is_some())
                .output(rms_norm_backward::GRAD_INPUT);
            if c.bool(rms_norm_backward::AFFINE) { l.output(rms_norm_backward::GRAD_WEIGHT) } else { l.no_output() }
                .no_output();
            l.with(LayerNormParams { normalized_dims: shape.len(), eps: 0.0, rms: true });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, x, shape) = (
            c.t(rms_norm_backward::GRAD_OUTPUT)?,
            c.t(rms_norm_backward::INPUT)?,
            c.ints(rms_norm_backward::NORMALIZED_SHAPE)?,
        );
        let n = outer(x.sizes(), shape, NAME)?;
        let inner: Vec<i64> = (n as i64..x.ndim() as i64).collect();
        let lead: Vec<i64> = (0..n as i64).collect();
        // The statistic again, by ops of x: its gradient is part of a second derivative.
        let inv = x.mul(x)?.mean(&inner, true)?.add(c.float(rms_norm_backward::EPS)?)?.rsqrt()?;
        let normed = x.mul(&inv)?;
        let gy = match c.opt(rms_norm_backward::WEIGHT) {
            Some(w) => g.mul(w)?,
            None => g.clone(),
        };
        let gx = gy.sub(&normed.mul(&gy.mul(&normed)?.mean(&inner, true)?)?)?.mul(&inv)?;
        outs.give(match c.opt(rms_norm_backward::RESIDUAL) {
            Some(r) => gx.add(r)?,
            None => gx,
        });
        if c.bool(rms_norm_backward::AFFINE) {
            let gw = g.mul(&normed)?;
            outs.give(if lead.is_empty() { gw } else { gw.sum(&lead, false)? });
        } else {
            outs.give(x.new_empty(&[0])?);
        }
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, r| rows(c, rms_norm_backward::WEIGHT, &[None, Some(Sbp::P_SUM)], r))),
    // Row by row: each is read before it is written.
    traits: Traits::NEEDS_CONTIGUOUS.or(Traits::ALIAS_OK),
    ..OpDef::BASE
};

/// What the compiler puts in place of an addition whose sum is normalised.
pub static FUSED_ADD: OpDef = OpDef {
    sig: Sig::parse(
        "fused_add_rms_norm(Tensor input, Tensor residual, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor output, Tensor rstd, Tensor sum)",
    ),
    doc: "`input + residual` over its root mean square, with that statistic and the sum itself, in one pass over both.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, r) = (c.t(fused_add_rms_norm::INPUT)?, c.t(fused_add_rms_norm::RESIDUAL)?);
        check_residual(c.name(), x, r)?;
        (NATIVE.infer)(
            &Call::new(&NATIVE, &[c.opt(fused_add_rms_norm::INPUT), c.opt(fused_add_rms_norm::WEIGHT)], c.args),
            outs,
        )?;
        outs.push(x.dtype(), x.device(), x.sizes())
    },
    kernel: Kernel::Prim {
        prim: &LAYER_NORM,
        lower: |c, outs, l| {
            let (x, shape) = (c.t(fused_add_rms_norm::INPUT)?, c.ints(fused_add_rms_norm::NORMALIZED_SHAPE)?);
            let rows = Dims::from_slice(&[n_rows(x, shape)?]);
            l.input(fused_add_rms_norm::INPUT)
                .opt_input(fused_add_rms_norm::WEIGHT, c.opt(fused_add_rms_norm::WEIGHT).is_some())
                .no_input()
                .input(fused_add_rms_norm::RESIDUAL)
                .output(fused_add_rms_norm::OUTPUT)
                .no_output();
            l.output_as(
                fused_add_rms_norm::RSTD,
                rows,
                Dims::from_slice(&[1]),
                outs[fused_add_rms_norm::RSTD].offset(),
            )
            .output(fused_add_rms_norm::SUM);
            l.with(LayerNormParams { normalized_dims: shape.len(), eps: c.float(fused_add_rms_norm::EPS)?, rms: true });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let sum = c.t(fused_add_rms_norm::INPUT)?.add(c.t(fused_add_rms_norm::RESIDUAL)?)?;
        let [y, rstd] = sum.native_rms_norm(
            c.ints(fused_add_rms_norm::NORMALIZED_SHAPE)?,
            c.opt(fused_add_rms_norm::WEIGHT),
            c.float(fused_add_rms_norm::EPS)?,
        )?;
        [y, rstd, sum.contiguous()?].into_iter().for_each(|t| outs.give(t));
        Ok(())
    }),
    grad: Grad::Compose,
    differentiable: OutMask::of(&[fused_add_rms_norm::OUTPUT, fused_add_rms_norm::SUM]),
    sbp: SbpRule::of(Rows::Compose),
    traits: Traits::NEEDS_CONTIGUOUS,
    samples: || {
        let t = |s: &[i64], n: &[i64], affine: bool| {
            let w = if affine { SampleArg::f32(n) } else { SampleArg::None };
            let (x, r) = (SampleArg::f32(s), SampleArg::f32(s));
            Sample::new(vec![x, r, SampleArg::Ints(n.to_vec()), w, SampleArg::Float(1e-5)])
        };
        vec![t(&[4, 6], &[6], true), t(&[2, 3, 4], &[3, 4], true), t(&[2, 3, 4], &[4], false)]
    },
    ..OpDef::BASE
};
