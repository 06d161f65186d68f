//! Differences, areas and distances: aminmax, count_nonzero, trace, dist, diff, trapezoid.

use super::*;
use crate::named::{aminmax, count_nonzero, cumulative_trapezoid, diff, dist, trace, trapezoid, trapezoid_x};

pub static AMINMAX: OpDef = OpDef {
    sig: Sig::parse("aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"),
    doc: "The smallest and the greatest element, of all or along a dimension.

Example::

    >>> oneflow.aminmax(oneflow.tensor([1., 3.])).max
    tensor(3.)",
    compose: Some(|c, outs| {
        let (x, keep) = (c.t(aminmax::INPUT)?, c.bool(aminmax::KEEPDIM));
        if x.numel() == 0 && c.arg(aminmax::DIM).is_none() {
            return Err(Error::runtime(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.",
            ));
        }
        let one = c.arg(aminmax::DIM).int().map(|d| [d]);
        let dims = one.as_ref().map_or(&[][..], |d| &d[..]);
        if let Some(&[d]) = one.as_ref()
            && x.sizes().get(wrap_dim(d, x.ndim())?) == Some(&0)
        {
            return Err(Error::index(format!("aminmax: Expected reduction dim {d} to have non-zero size.")));
        }
        give_all(outs, [x.amin(dims, keep)?, x.amax(dims, keep)?])
    }),
    samples: || {
        let x = || vec![SampleArg::f32(&[3, 4])];
        vec![Sample::new(x()), Sample::new(x()).kw("dim", SampleArg::Int(1))]
    },
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static COUNT_NONZERO: OpDef = OpDef {
    sig: Sig::parse("count_nonzero(Tensor input, int[1]? dim=None) -> Tensor"),
    doc: "The number of elements that are not zero, of all or over the given dimension(s).

Example::

    >>> oneflow.count_nonzero(oneflow.tensor([1, 0, 2]))
    tensor(2)",
    faces: Faces::FN_METHOD,
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let x = c.t(count_nonzero::INPUT)?;
        let set = if x.dtype() == DType::Bool { x.clone() } else { x.ne(0i64)? };
        give(outs, set.sum(c.arg(count_nonzero::DIM).ints(), false)?)
    }),
    samples: || {
        let x = || SampleArg::i64(&[3, 4], 0, 3);
        vec![Sample::new(vec![x()]), Sample::new(vec![x(), SampleArg::Ints(vec![1])])]
    },
    ..COMPOSED
};

pub static TRACE: OpDef = OpDef {
    sig: Sig::parse("trace(Tensor input) -> Tensor"),
    doc: "The sum of a matrix's diagonal.

Example::

    >>> oneflow.trace(oneflow.tensor([[1., 2.], [3., 4.]]))
    tensor(5.)",
    faces: Faces::FN_METHOD,
    compose: Some(|c, outs| {
        let x = c.t(trace::INPUT)?;
        if x.ndim() != 2 {
            return Err(Error::runtime(format!("trace: expected a matrix, but got tensor with dim {}", x.ndim())));
        }
        give(outs, x.diagonal(0, 0, 1)?.sum(None::<&[i64]>, false)?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    amp: Amp::Float32,
    ..COMPOSED
};

pub static DIST: OpDef = OpDef {
    sig: Sig::parse("dist(Tensor input, Tensor other, Scalar p=2) -> Tensor"),
    doc: "The p-norm of the difference of two tensors.

Example::

    >>> oneflow.dist(oneflow.tensor([3., 0.]), oneflow.tensor([0., 4.]))
    tensor(5.)",
    faces: Faces::FN_METHOD,
    compose: Some(|c, outs| {
        let p = c.arg(dist::P).scalar().unwrap_or(Scalar::Int(2));
        let apart = c.t(dist::INPUT)?.sub(c.t(dist::OTHER)?)?;
        if !apart.dtype().is_differentiable() {
            return Err(Error::not_implemented(format!(
                "norm(): input dtype should be either floating point or complex. Got {} instead.",
                apart.dtype().scalar_type_name()
            )));
        }
        give(outs, apart.linalg_vector_norm(p, None::<&[i64]>, false)?)
    }),
    samples: || {
        let t = |p| Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[4]), SampleArg::Float(p)]);
        vec![t(2.0), t(1.0)]
    },
    ..COMPOSED
};

pub static DIFF: OpDef = OpDef {
    sig: Sig::parse("diff(Tensor input, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor"),
    doc: "Differences of neighbours along a dimension, taken `n` times.

Example::

    >>> oneflow.diff(oneflow.tensor([1, 3, 2]))
    tensor([ 2, -1])",
    compose: Some(|c, outs| {
        let (x, n) = (c.t(diff::INPUT)?, c.int(diff::N)?);
        if x.ndim() == 0 {
            return Err(Error::runtime("diff expects input to be at least one-dimensional"));
        }
        if n < 0 {
            return Err(Error::runtime(format!("order must be non-negative but got {n}")));
        }
        let d = wrap_dim(c.int(diff::DIM)?, x.ndim())?;
        let parts: SmallVec<[&Tensor; 3]> =
            [c.opt(diff::PREPEND), Some(x), c.opt(diff::APPEND)].into_iter().flatten().collect();
        for t in &parts {
            if t.ndim() != x.ndim() {
                return Err(Error::runtime(format!(
                    "diff expects prepend or append to be the same dimension as input; input.size() = {:?} but got {:?}",
                    x.sizes(),
                    t.sizes()
                )));
            }
            let fits = (0..x.ndim()).all(|i| i == d || t.sizes()[i] == x.sizes()[i]);
            if !fits {
                return Err(Error::runtime(format!(
                    "diff expects the shape of tensor to prepend or append to match that of input except along the differencing dimension; input.size() = {:?} but got {:?}",
                    x.sizes(),
                    t.sizes()
                )));
            }
        }
        let d = d as i64;
        if n == 0 {
            return give(outs, x.cloned()?);
        }
        let mut y = if parts.len() > 1 { f::cat(parts.iter().copied(), d)? } else { x.clone() };
        let size = y.sizes()[d as usize];
        if n >= size {
            return give(outs, y.slice(d, Some(0), Some(0), 1)?.clone_contiguous()?);
        }
        for i in 0..n {
            let (after, before) = (y.slice(d, Some(1), None, 1)?, y.slice(d, Some(0), Some(size - i - 1), 1)?);
            y = if y.dtype() == DType::Bool { after.logical_xor(&before)? } else { after.sub(&before)? };
        }
        give(outs, y)
    }),
    samples: || {
        let i = SampleArg::Int;
        let t = |s: &[i64], n, d| Sample::new(vec![SampleArg::f32(s), i(n), i(d)]);
        vec![t(&[5], 1, -1), t(&[3, 4], 2, 0), t(&[3, 4], 9, 1)]
    },
    ..COMPOSED
};

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

pub static TRAPEZOID: OpDef = OpDef {
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
