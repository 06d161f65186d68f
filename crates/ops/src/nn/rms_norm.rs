//! Division by the root mean square over trailing dimensions, and its backward. The public function, which also takes complex
//! numbers and mixed dtypes, is a composition in Python that comes here where it can.

use super::layer_norm::{check_affine, check_residual, check_sum, not_axes, outer};
use crate::prelude::*;

const NAME: &str = "rms_norm";

/// Splits of the outer dims: the weight, this input, stays whole; of the results those named are sums over rows.
fn rows(c: &Call<'_>, weight: usize, outs: &[Option<Sbp>], rows: &mut Vec<Row>) -> Result<()> {
    let not = not_axes(c);
    for i in (0..c.t(0)?.ndim()).filter(|i| not >> i & 1 == 0) {
        let s = Sbp::S(i as u8);
        let present = c.ins.iter().enumerate().filter(|(_, t)| t.is_some());
        let ins = present.map(|(k, _)| if k == weight { Sbp::B } else { s }).collect();
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
        let (x, shape) = (c.t(0)?, c.ints(0)?);
        let n = outer(x.sizes(), shape, NAME)?;
        if !x.dtype().is_float() {
            return Err(Error::not_implemented(format!(
                "\"RMSNormKernelImpl\" not implemented for '{}'",
                x.dtype().scalar_type_name()
            )));
        }
        check_affine(c.opt(1), shape, NAME, "weight")?;
        outs.push(x.dtype(), x.device(), x.sizes())?;
        let mut stat = Dims::from_slice(&x.sizes()[..n]);
        stat.resize(x.ndim(), 1);
        outs.push(x.dtype().compute(), x.device(), &stat)
    },
    kernel: Kernel::Prim {
        prim: &LAYER_NORM,
        lower: |c, outs, l| {
            let (x, shape) = (c.t(0)?, c.ints(0)?);
            let rows = Dims::from_slice(&[n_rows(x, shape)?]);
            l.input(0).opt_input(1, c.opt(1).is_some()).no_input().output(0).no_output();
            l.output_as(1, rows, Dims::from_slice(&[1]), outs[1].offset());
            l.param(shape.len() as i64).param(c.float(1)?).param(true);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::In(0, 0b11), Save::In(1, 0b1), Save::Out(1, 0b11)],
        fix: Fix::None,
        f: |c, out| {
            let shape = c.arg(0).ints().unwrap_or(&[]);
            let eps = c.arg(1).float().unwrap_or(1e-6);
            let [gx, gw] = c.g()?.rms_norm_backward(c.x(0)?, c.y(1)?, c.opt_x(1), None, shape, out.needs(1), eps)?;
            out.set(0, || Ok(gx))?;
            out.set(1, || Ok(gw))
        },
    },
    differentiable: 0b1,
    sbp: SbpRule::of(Rows::Custom(|c, r| rows(c, 1, &[None, None], r))),
    traits: Traits::NEEDS_CONTIGUOUS,
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
        let (x, shape) = (c.t(1)?, c.ints(0)?);
        let w = c.opt(3).map_or(x.dtype(), Tensor::dtype);
        outs.push(x.dtype(), x.device(), x.sizes())?;
        outs.push(w, x.device(), if c.bool(1) { shape } else { &[0] })
    },
    kernel: Kernel::Prim {
        prim: &LAYER_NORM_BACKWARD,
        lower: |c, _, l| {
            let (x, shape) = (c.t(1)?, c.ints(0)?);
            let rows = Dims::from_slice(&[n_rows(x, shape)?]);
            l.input(0).input(1).no_input().input_as(2, rows, Dims::from_slice(&[1]), c.t(2)?.offset());
            check_sum(c, 4)?;
            l.opt_input(3, c.opt(3).is_some()).opt_input(4, c.opt(4).is_some()).output(0);
            if c.bool(1) { l.output(1) } else { l.no_output() }.no_output();
            l.param(shape.len() as i64).param(0.0).param(true);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, x, shape) = (c.t(0)?, c.t(1)?, c.ints(0)?);
        let n = outer(x.sizes(), shape, NAME)?;
        let inner: Vec<i64> = (n as i64..x.ndim() as i64).collect();
        let lead: Vec<i64> = (0..n as i64).collect();
        // The statistic again, by ops of x: its gradient is part of a second derivative.
        let inv = x.mul(x)?.mean(&inner, true)?.add(c.float(2)?)?.rsqrt()?;
        let normed = x.mul(&inv)?;
        let gy = match c.opt(3) {
            Some(w) => g.mul(w)?,
            None => g.clone(),
        };
        let gx = gy.sub(&normed.mul(&gy.mul(&normed)?.mean(&inner, true)?)?)?.mul(&inv)?;
        outs.give(match c.opt(4) {
            Some(r) => gx.add(r)?,
            None => gx,
        });
        if c.bool(1) {
            let gw = g.mul(&normed)?;
            outs.give(if lead.is_empty() { gw } else { gw.sum(&lead, false)? });
        } else {
            outs.give(x.new_empty(&[0])?);
        }
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, r| rows(c, 3, &[None, Some(Sbp::P_SUM)], r))),
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
        let (x, r) = (c.t(0)?, c.t(1)?);
        check_residual(c.name(), x, r)?;
        (NATIVE.infer)(&Call::new(&NATIVE, &[c.ins[0], c.opt(2)], c.args), outs)?;
        outs.push(x.dtype(), x.device(), x.sizes())
    },
    kernel: Kernel::Prim {
        prim: &LAYER_NORM,
        lower: |c, outs, l| {
            let (x, shape) = (c.t(0)?, c.ints(0)?);
            if !x.device().is_cpu() {
                return Err(Error::not_implemented("fused_add_rms_norm: this device adds and normalises apart"));
            }
            let rows = Dims::from_slice(&[n_rows(x, shape)?]);
            l.input(0).opt_input(2, c.opt(2).is_some()).no_input().input(1).output(0).no_output();
            l.output_as(1, rows, Dims::from_slice(&[1]), outs[1].offset()).output(2);
            l.param(shape.len() as i64).param(c.float(1)?).param(true);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let sum = c.t(0)?.add(c.t(1)?)?;
        let [y, rstd] = sum.native_rms_norm(c.ints(0)?, c.opt(2), c.float(1)?)?;
        [y, rstd, sum.contiguous()?].into_iter().for_each(|t| outs.give(t));
        Ok(())
    }),
    grad: Grad::Compose,
    differentiable: 0b101,
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
