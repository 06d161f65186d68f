//! Norms of vectors, with torch's subgradients.

use super::*;
use crate::named::linalg_vector_norm as at;
use crate::reduce::{dim_mask, push, unreduce};

fn ord(arg: Arg<'_>) -> f64 {
    arg.scalar().map_or(2.0, Scalar::to_f64)
}

fn out_dtype(c: &Call<'_>) -> Result<DType> {
    const NAME: &str = "linalg.vector_norm";
    let x = c.t(at::INPUT)?;
    if !x.dtype().is_differentiable() {
        return Err(Error::not_implemented(format!(
            "{NAME}: Expected a floating point or complex tensor as input. Got {}",
            x.dtype().scalar_type_name()
        )));
    }
    let Some(d) = c.arg(at::DTYPE).dtype() else { return Ok(real_dtype(x.dtype())) };
    if !d.is_differentiable() {
        return Err(Error::runtime(format!(
            "{NAME}: dtype should be floating point or complex. Got {}",
            d.scalar_type_name()
        )));
    }
    if d.is_complex() != x.dtype().is_complex() {
        let kind = if x.dtype().is_complex() { "complex" } else { "real" };
        return Err(Error::runtime(format!(
            "{NAME}: dtype should be {kind} for {kind} inputs, but got {}",
            d.scalar_type_name()
        )));
    }
    if promote(d, x.dtype())? != d {
        return Err(Error::runtime(format!(
            "{NAME}: the dtype of the input ({}) should be convertible without narrowing to the specified dtype ({})",
            x.dtype().scalar_type_name(),
            d.scalar_type_name()
        )));
    }
    Ok(real_dtype(d))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "linalg_vector_norm(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor",
    ),
    doc: "The norm of a tensor's elements, or of those along dimension(s).",
    infer: |c, outs| {
        let (x, dtype) = (c.t(at::INPUT)?, out_dtype(c)?);
        let mask = dim_mask("linalg.vector_norm", c.arg(at::DIM), x.ndim())?;
        let p = ord(c.arg(at::ORD));
        let empty = x.sizes().iter().enumerate().any(|(i, &s)| mask >> i & 1 == 1 && s == 0);
        if empty && (p < 0.0 || p == f64::INFINITY) {
            return Err(Error::runtime(format!(
                "linalg.vector_norm cannot compute the {p} norm on an empty tensor because the operation does not have an identity"
            )));
        }
        push(c, dtype, mask, c.bool(at::KEEPDIM), outs)
    },
    compose: Some(|c, outs| {
        let (x, dtype) = (c.t(at::INPUT)?, out_dtype(c)?);
        (c.op.infer)(c, &mut Outs::new())?;
        let (p, keep) = (ord(c.arg(at::ORD)), c.bool(at::KEEPDIM));
        // Half types are summed as they are stored in a wider type.
        let wide = if dtype.compute() != dtype { dtype.compute() } else { dtype };
        let wide = if x.dtype().is_complex() { complex_dtype(wide) } else { wide };
        let x = if x.dtype() == wide { x.clone() } else { x.to_copy_with(Some(wide), None)? };
        let dims = c.arg(at::DIM).ints();
        let out = match p {
            2.0 if x.dtype().is_complex() => {
                let (re, im) = (x.real()?, x.imag()?);
                re.mul(&re)?.add(&im.mul(&im)?)?.sum(dims, keep)?.sqrt()?
            }
            2.0 => x.mul(&x)?.sum(dims, keep)?.sqrt()?,
            1.0 => x.abs()?.sum(dims, keep)?,
            0.0 => x.ne(0.0)?.sum(dims, keep)?,
            f64::INFINITY => x.abs()?.amax(dims.unwrap_or(&[]), keep)?,
            f64::NEG_INFINITY => x.abs()?.amin(dims.unwrap_or(&[]), keep)?,
            p => x.abs()?.pow(p)?.sum(dims, keep)?.pow(1.0 / p)?,
        };
        outs.give(if out.dtype() == dtype { out } else { out.to_copy_with(Some(dtype), None)? });
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::INPUT]), Save::out(at::RESULT, &[at::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| out.set(at::INPUT, || backward(c)),
    },
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let t = |p: f64, dim: Option<i64>| {
            let dim = dim.map_or(SampleArg::None, |d| SampleArg::Ints(vec![d]));
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(p), dim])
        };
        let inf = f64::INFINITY;
        vec![t(2.0, None), t(1.0, Some(0)), t(3.0, Some(1)), t(inf, Some(1)), t(-inf, None), t(0.5, Some(0))]
    },
    amp: Amp::FOLLOW,
    traits: Traits::EXACT_OUT,
    sparse: Sparse::AllValues,
    ..LINALG
};

fn backward(c: &GradCall<'_>) -> Result<Tensor> {
    let p = ord(c.arg(at::ORD));
    let (x, keep) = (c.x(at::INPUT)?, c.arg(at::KEEPDIM).bool());
    let mask = dim_mask("linalg.vector_norm", c.arg(at::DIM), x.ndim())?;
    let (g, y) = (unreduce(c.g()?, mask, keep)?, unreduce(c.y(at::RESULT)?, mask, keep)?);
    let or_zero = |t: Tensor, at: Tensor| t.masked_fill(&at, 0.0);
    match p {
        0.0 => x.zeros_like(),
        1.0 => x.sgn()?.mul(&g),
        2.0 => x.mul(&or_zero(g.div(&y)?, y.eq(0.0)?)?),
        p if p.is_infinite() => {
            let magnitude = x.abs()?;
            let extreme = magnitude.eq(&y)?.logical_or(&magnitude.isnan()?.logical_and(&y.isnan()?)?)?;
            let dims: Vec<i64> = (0..x.ndim() as i64).filter(|d| mask >> d & 1 == 1).collect();
            let extreme = extreme.to_copy_with(Some(g.dtype()), None)?;
            let n = if dims.is_empty() { extreme.clone() } else { extreme.sum(&dims, true)? };
            x.sgn()?.mul(&extreme.mul(&g.div(&n)?)?)
        }
        p if p < 1.0 => {
            let scaled = or_zero(x.sgn()?.mul(&x.abs()?.pow(p - 1.0)?)?, x.eq(0.0)?)?;
            scaled.mul(&g.mul(&y.pow(1.0 - p)?)?)
        }
        p if p < 2.0 => {
            let scaled = x.sgn()?.mul(&x.abs()?.pow(p - 1.0)?)?;
            scaled.mul(&or_zero(g.div(&y.pow(p - 1.0)?)?, y.eq(0.0)?)?)
        }
        p => {
            let scaled = x.mul(&x.abs()?.pow(p - 2.0)?)?;
            scaled.mul(&or_zero(g.div(&y.pow(p - 1.0)?)?, y.eq(0.0)?)?)
        }
    }
}
