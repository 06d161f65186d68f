//! `logcumsumexp`: `log(cumsum(exp(x)))` along a dimension, without overflow.

use super::prod::not_axes;
use super::*;
use crate::named::logcumsumexp;

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
                .param(wrap_dim(c.int(logcumsumexp::DIM)?, c.t(logcumsumexp::INPUT)?.ndim())? as i64);
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
                if g.dtype().is_complex() {
                    let logs = g.conj()?.log()?.sub(y)?;
                    return logs.flip(&[d])?.logcumsumexp(d)?.flip(&[d])?.add(x)?.exp()?.conj_physical();
                }
                // sum over the later places of g * exp(x - y), by the logarithms of both signs of g.
                let size = g.abs()?.log()?;
                let part = |of: Tensor| -> Result<Tensor> {
                    let logs = of.r#where(&size, f64::NEG_INFINITY)?.sub(y)?;
                    logs.flip(&[d])?.logcumsumexp(d)?.flip(&[d])?.add(x)?.exp()
                };
                part(g.gt(0.0)?)?.sub(&part(g.lt(0.0)?)?)
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
