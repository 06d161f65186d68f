//! `trapezoid`, `trapz`, `cumulative_trapezoid`: The area under points `dx` apart along a dimension, by the
//! trapezoidal rule.

use super::*;
use crate::named::{cumulative_trapezoid, trapezoid, trapezoid_x};

/// Sums of neighbours along the dim.
fn neighbours(y: &Tensor, d: i64) -> Result<Tensor> {
    let n = y.sizes()[d as usize];
    y.slice(d, Some(1), None, 1)?.add(&y.slice(d, Some(0), Some(n - 1), 1)?)
}

/// Distances of sample points, laid along the dim of `y`.
fn steps(y: &Tensor, x: &Tensor, d: i64) -> Result<Tensor> {
    let name = "trapezoid";
    let x = match x.ndim() {
        1 => {
            let n = y.sizes()[d as usize];
            if x.numel() != n {
                return Err(Error::runtime(format!(
                    "{name}: There must be one `x` value for each sample point ({} for {n})",
                    x.numel()
                )));
            }
            let mut sizes: Dims = SmallVec::from_elem(1, y.ndim());
            sizes[d as usize] = n;
            x.reshape(&sizes)?
        }
        k if k < y.ndim() => {
            let mut sizes: Dims = SmallVec::from_elem(1, y.ndim() - k);
            sizes.extend_from_slice(x.sizes());
            x.reshape(&sizes)?
        }
        _ => x.clone(),
    };
    let n = x.sizes()[d as usize];
    x.slice(d, Some(1), None, 1)?.sub(&x.slice(d, Some(0), Some(n - 1), 1)?)
}

/// The areas between neighbours, twice; none without elements.
fn areas(c: &Call<'_>) -> Result<(Option<Tensor>, i64)> {
    let y = c.t(trapezoid::Y)?;
    if y.dtype() == DType::Bool || c.opt(trapezoid_x::X).is_some_and(|x| x.dtype() == DType::Bool) {
        return Err(Error::not_implemented(format!(
            "{}: received a bool input for `x` or `y`, but bool is not supported",
            c.name()
        )));
    }
    let (step, d) = match c.opt(trapezoid_x::X) {
        Some(x) => (Some(x), c.int(trapezoid_x::DIM)?),
        None => (None, c.int(trapezoid::DIM)?),
    };
    let d = wrap_dim(d, y.ndim())? as i64;
    if y.sizes().get(d as usize).copied().unwrap_or(0) == 0 {
        return Ok((None, d));
    }
    let sums = neighbours(y, d)?;
    let area = match step {
        Some(x) => steps(y, x, d)?.mul(&sums)?,
        None => sums.mul(c.arg(trapezoid::DX).scalar().unwrap_or(Scalar::Int(1)))?,
    };
    Ok((Some(area), d))
}

fn whole(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (area, d) = areas(c)?;
    let y = c.t(trapezoid::Y)?;
    match area {
        Some(a) => give(outs, a.div(2.0)?.sum(&[d], false)?),
        None => give(outs, y.sum(&[d], false)?),
    }
}

fn running(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (area, d) = areas(c)?;
    match area {
        Some(a) => give(outs, a.div(2.0)?.cumsum(d)?),
        None => give(outs, c.t(cumulative_trapezoid::Y)?.cloned()?),
    }
}

const AREA: OpDef = OpDef { faces: Faces::FN, samples: spaced, ..COMPOSED };

fn spaced() -> Vec<Sample> {
    let t = |dx| Sample::new(vec![SampleArg::f32(&[3, 4])]).kw("dx", SampleArg::Float(dx));
    vec![t(1.0), t(0.5)]
}

fn at_points() -> Vec<Sample> {
    let t = |x: &[i64]| Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(x)]);
    vec![t(&[4]), t(&[3, 4])]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("trapezoid(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor"),
    doc: "The area under points `dx` apart along a dimension, by the trapezoidal rule.

Example::

    >>> oneflow.trapezoid(oneflow.tensor([1., 2., 3.]))
    tensor(4.)",
    compose: Some(whole),
    ..AREA
};

pub static TRAPEZOID_X: OpDef = OpDef {
    sig: Sig::parse("trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor"),
    compose: Some(whole),
    samples: at_points,
    ..AREA
};

pub static TRAPZ: OpDef = OpDef {
    sig: Sig::parse("trapz(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor"),
    doc: "Another name of `trapezoid`.

Example::

    >>> oneflow.trapz(oneflow.tensor([1., 2., 3.]))
    tensor(4.)",
    compose: Some(whole),
    ..AREA
};

pub static TRAPZ_X: OpDef = OpDef {
    sig: Sig::parse("trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor"),
    compose: Some(whole),
    samples: at_points,
    ..AREA
};

pub static CUMULATIVE: OpDef = OpDef {
    sig: Sig::parse("cumulative_trapezoid(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor"),
    doc: "The running area under points `dx` apart along a dimension, by the trapezoidal rule.

Example::

    >>> oneflow.cumulative_trapezoid(oneflow.tensor([1., 2., 3.]))
    tensor([1.5000, 4.0000])",
    compose: Some(running),
    ..AREA
};

pub static CUMULATIVE_X: OpDef = OpDef {
    sig: Sig::parse("cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor"),
    compose: Some(running),
    samples: at_points,
    ..AREA
};
