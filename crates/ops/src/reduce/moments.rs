//! Moments together: var_mean, std_mean, cov, corrcoef.

use super::*;
use crate::named::{
    corrcoef, cov, std_mean, std_mean_dim, std_mean_unbiased, var_mean, var_mean_dim, var_mean_unbiased,
};

const PAIR: OpDef = OpDef { faces: Faces::FN, ..COMPOSED };

/// Spread and mean over the dims.
fn both(outs: &mut Outs, x: &Tensor, dims: Option<&[i64]>, by: Option<Scalar>, keep: bool, root: bool) -> Result<()> {
    let spread = if root { x.std_with(dims, by, keep)? } else { x.var_with(dims, by, keep)? };
    give_all(outs, [spread, x.mean(dims, keep)?])
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

pub static VAR_MEAN: OpDef = OpDef {
    sig: Sig::parse(
        "var_mean(Tensor input, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)",
    ),
    doc: "Variance and mean over all elements or the given dimension(s).

Example::

    >>> oneflow.var_mean(oneflow.tensor([1., 3.]))
    (tensor(2.), tensor(2.))",
    compose: Some(|c, outs| {
        both(
            outs,
            c.t(var_mean::INPUT)?,
            c.arg(var_mean::DIM).ints(),
            c.arg(var_mean::CORRECTION).scalar(),
            c.bool(var_mean::KEEPDIM),
            false,
        )
    }),
    samples: dim_samples,
    ..PAIR
};

pub static VAR_MEAN_UNBIASED: OpDef = OpDef {
    sig: Sig::parse("var_mean.unbiased(Tensor input, bool unbiased) -> (Tensor, Tensor)"),
    compose: Some(|c, outs| {
        both(outs, c.t(var_mean_unbiased::INPUT)?, None, flag(c.bool(var_mean_unbiased::UNBIASED)), false, false)
    }),
    samples: flag_samples,
    ..PAIR
};

pub static VAR_MEAN_DIM: OpDef = OpDef {
    sig: Sig::parse(
        "var_mean.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
    ),
    compose: Some(|c, outs| {
        both(
            outs,
            c.t(var_mean_dim::INPUT)?,
            c.arg(var_mean_dim::DIM).ints(),
            flag(c.bool(var_mean_dim::UNBIASED)),
            c.bool(var_mean_dim::KEEPDIM),
            false,
        )
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
    compose: Some(|c, outs| {
        both(
            outs,
            c.t(std_mean::INPUT)?,
            c.arg(std_mean::DIM).ints(),
            c.arg(std_mean::CORRECTION).scalar(),
            c.bool(std_mean::KEEPDIM),
            true,
        )
    }),
    samples: dim_samples,
    ..PAIR
};

pub static STD_MEAN_UNBIASED: OpDef = OpDef {
    sig: Sig::parse("std_mean.unbiased(Tensor input, bool unbiased) -> (Tensor, Tensor)"),
    compose: Some(|c, outs| {
        both(outs, c.t(std_mean_unbiased::INPUT)?, None, flag(c.bool(std_mean_unbiased::UNBIASED)), false, true)
    }),
    samples: flag_samples,
    ..PAIR
};

pub static STD_MEAN_DIM: OpDef = OpDef {
    sig: Sig::parse(
        "std_mean.dim(Tensor input, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
    ),
    compose: Some(|c, outs| {
        both(
            outs,
            c.t(std_mean_dim::INPUT)?,
            c.arg(std_mean_dim::DIM).ints(),
            flag(c.bool(std_mean_dim::UNBIASED)),
            c.bool(std_mean_dim::KEEPDIM),
            true,
        )
    }),
    samples: dim_flag_samples,
    ..PAIR
};

fn checked_weights(x: &Tensor, w: Option<&Tensor>, name: &str, integral: bool) -> Result<Option<Tensor>> {
    let Some(w) = w else { return Ok(None) };
    let observations = x.sizes().last().copied().unwrap_or(1);
    if w.ndim() > 1 {
        return Err(Error::runtime(format!(
            "cov(): expected {name} to have one or fewer dimensions but got {:?}",
            w.sizes()
        )));
    }
    if integral != w.dtype().is_int() || w.dtype() == DType::Bool {
        return Err(Error::runtime(format!(
            "cov(): expected {name} to have {} dtype but got {name} with {} dtype",
            if integral { "integral" } else { "floating point" },
            w.dtype().scalar_type_name()
        )));
    }
    if w.numel() != observations {
        return Err(Error::runtime(format!(
            "cov(): expected {name} to have the same numel as there are observations in the input but got {} != {observations}",
            w.numel()
        )));
    }
    if !crate::random::distributions::all_hold(w, || w.ge(0i64))? {
        return Err(Error::runtime(format!("cov(): {name} cannot be negative")));
    }
    Ok(Some(w.reshape(&[-1])?))
}

pub static COV: OpDef = OpDef {
    sig: Sig::parse("cov(Tensor input, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor"),
    doc: "The covariance matrix of variables (rows) over observations (columns).

Example::

    >>> oneflow.cov(oneflow.tensor([[0., 2.], [2., 0.]]))
    tensor([[ 2., -2.],
            [-2.,  2.]])",
    faces: Faces::FN_METHOD,
    compose: Some(|c, outs| {
        let x = c.t(cov::INPUT)?;
        if x.ndim() > 2 {
            return Err(Error::runtime(format!(
                "cov(): expected input to have two or fewer dimensions but got an input with {} dimensions",
                x.ndim()
            )));
        }
        if x.dtype() == DType::Bool {
            return Err(Error::not_implemented("cov(): bool dtype is not supported for input"));
        }
        let counts = checked_weights(x, c.opt(cov::FWEIGHTS), "fweights", true)?;
        let weights = checked_weights(x, c.opt(cov::AWEIGHTS), "aweights", false)?;
        let rows = if x.ndim() < 2 { x.reshape(&[1, -1])? } else { x.clone() };
        let n = rows.sizes()[1];
        let w = match (&counts, &weights) {
            (Some(f), Some(a)) => Some(f.mul(a)?),
            (Some(one), None) | (None, Some(one)) => Some(one.clone()),
            (None, None) => None,
        };
        let all = None::<&[i64]>;
        let total = w.as_ref().map(|w| w.sum(all, false)).transpose()?;
        let mean = match (&w, &total) {
            (Some(w), Some(total)) => rows.mul(w)?.sum(&[1], true)?.div(total)?,
            _ => rows.sum(&[1], true)?.div(n as f64)?,
        };
        let correction = c.int(cov::CORRECTION)?;
        let norm = match (&w, &total, &weights) {
            (Some(w), Some(total), Some(a)) if correction != 0 => {
                total.sub(&w.mul(a)?.sum(all, false)?.mul(correction)?.div(total)?)?
            }
            (_, Some(total), _) => total.sub(correction)?,
            _ => rows.new_full_with(&[], (n - correction) as f64, Some(mean.dtype().to_real()), None, false)?,
        };
        let norm = norm.clamp(Some(Scalar::Int(0)), None)?;
        let centred = rows.sub(&mean)?;
        let other = w.as_ref().map_or_else(|| Ok(centred.clone()), |w| centred.mul(w))?;
        let dtype = promote::to_float(oneflow_base::promote(centred.dtype(), other.dtype())?);
        let cast = |t: &Tensor| if t.dtype() == dtype { Ok(t.clone()) } else { t.to_copy_with(Some(dtype), None) };
        let product = cast(&centred)?.mm(&crate::elementwise::dual(&cast(&other)?.t()?)?)?.div(&norm)?;
        give(outs, if product.numel() == 1 { product.reshape(&[])? } else { product })
    }),
    samples: || {
        vec![
            Sample::new(vec![SampleArg::f32(&[3, 4])]),
            Sample::new(vec![SampleArg::f32(&[2, 4])]).kw("aweights", SampleArg::range(&[4], 0.1, 1.0)),
        ]
    },
    ..COMPOSED
};

pub static CORRCOEF: OpDef = OpDef {
    sig: Sig::parse("corrcoef(Tensor input) -> Tensor"),
    doc: "Pearson's correlation of variables (rows) over observations (columns).

Example::

    >>> oneflow.corrcoef(oneflow.tensor([[0., 1.], [2., 0.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])",
    faces: Faces::FN_METHOD,
    compose: Some(|c, outs| {
        let x = c.t(corrcoef::INPUT)?;
        if x.ndim() > 2 {
            return Err(Error::runtime(format!(
                "corrcoef(): expected input to have two or fewer dimensions but got an input with {} dimensions",
                x.ndim()
            )));
        }
        let m = x.cov()?;
        if m.ndim() == 0 {
            return give(outs, m.div(&m)?);
        }
        let is_complex = m.dtype().is_complex();
        let variances = if is_complex { m.real()? } else { m.clone() };
        let s = variances.diagonal(0, 0, 1)?.sqrt()?;
        let r = m.div(&s.unsqueeze(1)?)?.div(&s.unsqueeze(0)?)?;
        let limited = |t: &Tensor| t.clamp(Some(Scalar::Float(-1.0)), Some(Scalar::Float(1.0)));
        give(outs, if is_complex { limited(&r.real()?)?.complex(&limited(&r.imag()?)?)? } else { limited(&r)? })
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 6])])],
    ..COMPOSED
};
