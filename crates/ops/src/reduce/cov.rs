//! `cov`: The covariance matrix of variables (rows) over observations (columns).

use super::*;
use crate::named::cov;

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

pub static OP: OpDef = OpDef {
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
