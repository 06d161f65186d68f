//! `var_mean`, `std_mean`: Variance and mean over all elements or the given dimension(s).

use super::*;
use crate::named::{std_mean, std_mean_dim, std_mean_unbiased, var_mean, var_mean_dim, var_mean_unbiased};

const PAIR: OpDef = OpDef { faces: Faces::FN, ..COMPOSED };

/// Spread and mean over the dims.
fn both(c: &Call<'_>, outs: &mut Outs, root: bool) -> Result<()> {
    let x = c.t(var_mean::INPUT)?;
    let (dims, by) = (c.arg(var_mean::DIM).ints(), c.arg(var_mean::CORRECTION).scalar());
    let keep = c.bool(var_mean::KEEPDIM);
    let spread = if root { x.std_with(dims, by, keep)? } else { x.var_with(dims, by, keep)? };
    give_all(outs, [spread, x.mean(dims, keep)?])
}

/// The gradient of `both`: the two results come from one node.
fn both_backward(c: &GradCall<'_>, out: &mut Grads, root: bool) -> Result<()> {
    out.set(var_mean::INPUT, || {
        let x = c.x(var_mean::INPUT)?;
        let mask = dim_mask("var_mean", c.arg(var_mean::DIM), x.ndim())?;
        let keep = c.arg(var_mean::KEEPDIM).bool();
        let n = kept_sizes(x.sizes(), !mask).iter().product::<i64>() as f64;
        // Half types are too coarse for the deviations.
        let dtype = x.dtype().compute();
        let wide = |t: &Tensor| -> Result<Tensor> {
            let to = if t.dtype().is_complex() { dtype } else { dtype.to_real() };
            if t.dtype() == to { Ok(t.clone()) } else { t.to_copy_with(Some(to), None) }
        };
        let of_mean = c
            .g_of(var_mean::RESULT_1)
            .map(|g| unreduce(&wide(g)?, mask, keep)?.div(n)?.expand(x.sizes()))
            .transpose()?;
        let Some(g) = c.g_of(var_mean::RESULT_0) else { return of_mean.map_or_else(|| x.zeros_like(), Ok) };
        let divisor = (n - c.arg(var_mean::CORRECTION).scalar().map_or(1.0, Scalar::to_f64)).max(0.0);
        let g = wide(g)?;
        let g = if root {
            // The root has no slope at zero, where all elements are equal.
            let y = wide(c.y(var_mean::RESULT_0)?)?;
            y.eq(0.0)?.r#where(0.0, &g.div(&y.mul(divisor)?)?)?
        } else {
            g.mul(2.0 / divisor)?
        };
        let of_spread = super::var::deviations(&wide(x)?, mask)?.mul(&unreduce(&g, mask, keep)?)?;
        match of_mean {
            Some(m) => of_spread.add(&m),
            None => Ok(of_spread),
        }
    })
}

fn flag(unbiased: bool) -> Option<Scalar> {
    Some(Scalar::Int(unbiased as i64))
}

fn dim_samples() -> Vec<Sample> {
    let t = |d: &[i64]| Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Ints(d.to_vec())]);
    vec![t(&[1]), t(&[0, 1])]
}

fn flag_samples() -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Bool(false)])]
}

fn dim_flag_samples() -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Ints(vec![1]), SampleArg::Bool(false)])]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "var_mean(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
    ),
    doc: "Variance and mean over all elements or the given dimension(s).

Example::

    >>> oneflow.var_mean(oneflow.tensor([1., 3.]))
    (tensor(2.), tensor(2.))",
    compose: Some(|c, outs| both(c, outs, false)),
    grad: Grad::Rule {
        save: &[Save::of(var_mean::INPUT, &[var_mean::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| both_backward(c, out, false),
    },
    samples: dim_samples,
    ..PAIR
};

pub static VAR_MEAN_UNBIASED: OpDef = OpDef {
    sig: Sig::parse("var_mean.unbiased(Tensor input, bool unbiased) -> (Tensor, Tensor)"),
    compose: Some(|c, outs| {
        let by = flag(c.bool(var_mean_unbiased::UNBIASED));
        give_all(outs, c.t(var_mean_unbiased::INPUT)?.var_mean_with(None::<&[i64]>, by, false)?)
    }),
    samples: flag_samples,
    ..PAIR
};

pub static VAR_MEAN_DIM: OpDef = OpDef {
    sig: Sig::parse(
        "var_mean.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
    ),
    compose: Some(|c, outs| {
        let by = flag(c.bool(var_mean_dim::UNBIASED));
        let (dims, keep) = (c.arg(var_mean_dim::DIM).ints(), c.bool(var_mean_dim::KEEPDIM));
        give_all(outs, c.t(var_mean_dim::INPUT)?.var_mean_with(dims, by, keep)?)
    }),
    samples: dim_flag_samples,
    ..PAIR
};

pub static STD_MEAN: OpDef = OpDef {
    sig: Sig::parse(
        "std_mean(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
    ),
    doc: "Standard deviation and mean over all elements or the given dimension(s).

Example::

    >>> oneflow.std_mean(oneflow.tensor([1., 3.]), correction=0)
    (tensor(1.), tensor(2.))",
    compose: Some(|c, outs| both(c, outs, true)),
    grad: Grad::Rule {
        save: &[Save::of(std_mean::INPUT, &[std_mean::INPUT]), Save::out(std_mean::RESULT_0, &[std_mean::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| both_backward(c, out, true),
    },
    samples: dim_samples,
    ..PAIR
};

pub static STD_MEAN_UNBIASED: OpDef = OpDef {
    sig: Sig::parse("std_mean.unbiased(Tensor input, bool unbiased) -> (Tensor, Tensor)"),
    compose: Some(|c, outs| {
        let by = flag(c.bool(std_mean_unbiased::UNBIASED));
        give_all(outs, c.t(std_mean_unbiased::INPUT)?.std_mean_with(None::<&[i64]>, by, false)?)
    }),
    samples: flag_samples,
    ..PAIR
};

pub static STD_MEAN_DIM: OpDef = OpDef {
    sig: Sig::parse(
        "std_mean.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
    ),
    compose: Some(|c, outs| {
        let by = flag(c.bool(std_mean_dim::UNBIASED));
        let (dims, keep) = (c.arg(std_mean_dim::DIM).ints(), c.bool(std_mean_dim::KEEPDIM));
        give_all(outs, c.t(std_mean_dim::INPUT)?.std_mean_with(dims, by, keep)?)
    }),
    samples: dim_flag_samples,
    ..PAIR
};
