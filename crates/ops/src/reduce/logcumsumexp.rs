//! `logcumsumexp`: `log(cumsum(exp(x)))` along a dimension, without overflow.

use super::prod::not_axes;
use super::*;
use crate::named::logcumsumexp;

/// The factor of a gradient under `exp(t)`.
fn conj_exp(t: &Tensor) -> Result<Tensor> {
    let e = t.exp()?;
    if e.dtype().is_complex() { e.conj_physical() } else { Ok(e) }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("logcumsumexp(Tensor input, int dim) -> Tensor"),
    doc: "`log(cumsum(exp(x)))` along a dimension, without overflow.

Example::

    >>> oneflow.logcumsumexp(oneflow.tensor([0., 0.]), 0)
    tensor([0.0000, 0.6931])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let x = c.t(logcumsumexp::INPUT)?;
        wrap_dim(c.int(logcumsumexp::DIM)?, x.ndim())?;
        if !x.dtype().is_differentiable() {
            return Err(Error::not_implemented(format!(
                "\"logcumsumexp_out_cpu\" not implemented for '{}'",
                x.dtype().scalar_type_name()
            )));
        }
        outs.push(x.dtype(), x.device(), x.sizes())
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::LOGCUMSUMEXP,
        lower: |c, _, l| {
            l.input(logcumsumexp::INPUT)
                .output(logcumsumexp::RESULT)
                .with(DimParams { dim: wrap_dim(c.int(logcumsumexp::DIM)?, c.t(logcumsumexp::INPUT)?.ndim())? });
            Ok(())
        },
    },
    // Doubling steps: every element takes in what stands 1, 2, 4, ... places before.
    compose: Some(|c, outs| {
        let mut x = c.t(logcumsumexp::INPUT)?.clone_contiguous()?;
        let d = wrap_dim(c.int(logcumsumexp::DIM)?, x.ndim())?;
        let n = x.sizes().get(d).copied().unwrap_or(1);
        let (d, mut step) = (d as i64, 1);
        while step < n {
            let (a, b) = (x.slice(d, Some(step), None, 1)?, x.slice(d, Some(0), Some(n - step), 1)?);
            let sum = b.logaddexp(&a)?;
            x = f::cat([&x.slice(d, Some(0), Some(step), 1)?, &sum], d)?;
            step *= 2;
        }
        give(outs, x)
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(logcumsumexp::INPUT, &[logcumsumexp::INPUT]),
            Save::out(logcumsumexp::RESULT, &[logcumsumexp::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            out.set(logcumsumexp::INPUT, || {
                let (g, x, y, d) = (
                    c.g()?,
                    c.x(logcumsumexp::INPUT)?,
                    c.y(logcumsumexp::RESULT)?,
                    c.arg(logcumsumexp::DIM).int().unwrap_or(0),
                );
                if g.ndim() == 0 {
                    return Ok(g.clone());
                }
                // sum over the later places of g * exp(x - y): no exponent is above zero, so nothing overflows, and it has
                // derivatives of every order. Doubling steps, as those of the composition.
                let d = wrap_dim(d, g.ndim())?;
                let n = g.sizes()[d];
                let (d, mut step, mut sum) = (d as i64, 1, g.clone());
                while step < n {
                    let early = |t: &Tensor| t.slice(d, Some(0), Some(n - step), 1);
                    let late = |t: &Tensor| t.slice(d, Some(step), None, 1);
                    let part = conj_exp(&early(y)?.sub(&late(y)?)?)?.mul(&late(&sum)?)?;
                    let rest = sum.slice(d, Some(n - step), None, 1)?;
                    sum = f::cat([&early(&sum)?.add(&part)?, &rest], d)?;
                    step *= 2;
                }
                sum.mul(&conj_exp(&x.sub(y)?)?)
            })
        },
    },
    sbp: SbpRule::of(Rows::Batch { not_axes }),
    samples: || {
        let t = |s: &[i64], d| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d)]);
        vec![t(&[3, 4], 1), t(&[5], 0), t(&[], 0), t(&[0, 3], 0)]
    },
    traits: Traits::EXACT_OUT,
    ..OpDef::BASE
};
