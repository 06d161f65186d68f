//! Entries along a dimension written by index: index_fill, index_copy, index_reduce.

use super::{COMPOSED, give, wide};
use crate::named::{index_copy, index_fill, index_reduce};
use crate::prelude::*;

/// A vector index of int64; `what` names the op as torch does.
fn vector(c: &Call<'_>, index: In) -> Result<Tensor> {
    let t = c.t(index)?;
    if t.ndim() > 1 {
        return Err(Error::index(format!(
            "{}(): Index is supposed to be a vector, got shape {:?}",
            c.name(),
            t.sizes()
        )));
    }
    if t.dtype() != DType::I64 && !(t.dtype() == DType::I32 && c.name() != "index_copy") {
        return Err(Error::runtime(format!("{}_(): Expected dtype int64 for index, but got {}", c.name(), t.dtype())));
    }
    wide(&if t.ndim() == 0 { t.reshape(&[1])? } else { t.clone() })
}

/// `values` at `index` along a dimension. Indices count from the front alone.
fn put(x: &Tensor, d: usize, index: &Tensor, values: &Tensor) -> Result<Tensor> {
    let mut own: Dims = SmallVec::from_elem(1, values.ndim());
    own[d] = -1;
    x.scatter_src(d as i64, &index.reshape(&own)?.expand(values.sizes())?, values).map_err(|e| match e.kind() {
        ErrorKind::Runtime => Error::index(e.text().to_owned()),
        _ => e,
    })
}

fn samples(value: fn() -> SampleArg) -> Vec<Sample> {
    let t = |d| Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Int(d), SampleArg::i64(&[2], 0, 3), value()]);
    vec![t(0), t(1)]
}

pub static FILL: OpDef = OpDef {
    sig: Sig::parse("index_fill(Tensor input, int dim, Tensor index, Tensor|Scalar value) -> Tensor"),
    doc: "A copy of `input` with one value at the given entries of a dimension.

Example::

    >>> oneflow.index_fill(oneflow.zeros(3), 0, oneflow.tensor([0, 2]), 1.)
    tensor([1., 0., 1.])",
    faces: Faces::FN_METHOD.or(Faces::INPLACE),
    compose: Some(|c, outs| {
        let x = c.t(index_fill::INPUT)?;
        let d = wrap_dim(c.int(index_fill::DIM)?, x.ndim())?;
        let index = vector(c, index_fill::INDEX)?;
        let value = match (c.opt(index_fill::VALUE), c.arg(index_fill::VALUE_SCALAR).scalar()) {
            (Some(v), _) if v.ndim() > 0 => {
                return Err(Error::runtime(format!(
                    "index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                    v.ndim()
                )));
            }
            (Some(v), _) if v.dtype() == x.dtype() => v.clone(),
            (Some(v), _) => v.to_copy_with(Some(x.dtype()), None)?,
            (None, Some(s)) if s.category() == Category::Complex && !x.dtype().is_complex() => {
                return Err(Error::runtime(format!(
                    "index_fill_(): Converting complex Scalar to non-complex type is not supported (got {})",
                    x.dtype().scalar_type_name()
                )));
            }
            (None, s) => {
                let s = s.unwrap_or(Scalar::Int(0));
                scalar_range::check(c, x.dtype(), s)?;
                x.new_full(&[], s)?
            }
        };
        // By a mask of the entries, so that an index that occurs twice counts once for the value's gradient.
        let n = x.sizes().get(d).copied().unwrap_or(1);
        let yes = x.new_ones_with(&[], Some(DType::Bool), None, false)?;
        let none = x.new_zeros_with(&[n], Some(DType::Bool), None, false)?;
        let mut own: Dims = SmallVec::from_elem(1, x.ndim());
        if x.ndim() > 0 {
            own[d] = n;
        }
        give(outs, none.index_put([Some(&index)], &yes, false)?.reshape(&own)?.r#where(&value, x)?)
    }),
    samples: || samples(|| SampleArg::Float(1.5)),
    traits: Traits::READS_APART,
    ..COMPOSED
};

pub static COPY: OpDef = OpDef {
    sig: Sig::parse("index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor"),
    doc: "A copy of `input` with the entries of `source` at the given entries of a dimension.

Example::

    >>> oneflow.index_copy(oneflow.zeros(3), 0, oneflow.tensor([2]), oneflow.ones(1))
    tensor([0., 0., 1.])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        let (x, s) = (c.t(index_copy::INPUT)?, c.t(index_copy::SOURCE)?);
        let d = wrap_dim(c.int(index_copy::DIM)?, x.ndim())?;
        let index = vector(c, index_copy::INDEX)?;
        if s.dtype() != x.dtype() {
            return Err(Error::runtime(format!(
                "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}",
                x.dtype().scalar_type_name(),
                s.dtype().scalar_type_name()
            )));
        }
        let n = if s.ndim() == 0 { 1 } else { s.sizes().get(d).copied().unwrap_or(1) };
        if n != index.numel() {
            return Err(Error::index(format!(
                "index_copy_(): Number of indices ({}) should be equal to source.size(dim) ({n})",
                index.numel()
            )));
        }
        if x.ndim() == 0 {
            return give(outs, put(&x.reshape(&[1])?, 0, &index, &s.reshape(&[1])?)?.reshape(&[])?);
        }
        let same = s.ndim() == 0 && x.ndim() == 1
            || s.ndim() == x.ndim() && (0..x.ndim()).all(|i| i == d || s.sizes()[i] == x.sizes()[i]);
        if !same {
            return Err(Error::runtime(format!(
                "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {:?} at dimension {d} and source slice shape: {:?} at dimension 0.",
                x.sizes(),
                s.sizes()
            )));
        }
        let s = if s.ndim() == 0 { s.reshape(&[1])? } else { s.clone() };
        give(outs, put(&x.contiguous()?, d, &index, &s)?)
    }),
    samples: || {
        vec![Sample::new(vec![
            SampleArg::f32(&[3, 4]),
            SampleArg::Int(1),
            SampleArg::i64(&[1], 0, 3),
            SampleArg::f32(&[3, 1]),
        ])]
    },
    traits: Traits::EXACT_OUT.or(Traits::READS_APART),
    ..COMPOSED
};

pub static REDUCE: OpDef = OpDef {
    sig: Sig::parse(
        "index_reduce(Tensor input, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
    ),
    doc: "A copy of `input` in which the entries of `source` are combined at the given entries of a dimension: `reduce` is
\"prod\", \"mean\", \"amax\" or \"amin\".

Example::

    >>> oneflow.index_reduce(oneflow.ones(2), 0, oneflow.tensor([0, 0]), oneflow.tensor([2., 3.]), 'prod')
    tensor([6., 1.])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        let (x, s, how) = (c.t(index_reduce::INPUT)?, c.t(index_reduce::SOURCE)?, c.str(index_reduce::REDUCE)?);
        let d = wrap_dim(c.int(index_reduce::DIM)?, x.ndim())?;
        if !["prod", "mean", "amax", "amin"].contains(&how) {
            return Err(Error::runtime(format!(
                "reduce argument must be either prod, mean, amax or amin, got {how}."
            )));
        }
        let index = vector(c, index_reduce::INDEX)?;
        if s.dtype() != x.dtype() {
            return Err(Error::runtime(format!(
                "index_reduce_(): self ({}) and source ({}) must have the same scalar type",
                x.dtype(),
                s.dtype()
            )));
        }
        // The index repeated over the other dims of the source.
        let mut own: Dims = SmallVec::from_elem(1, s.ndim().max(1));
        own[d] = -1;
        let (line, x1, s1) = if x.ndim() == 0 {
            (index, x.reshape(&[1])?, s.reshape(&[1])?)
        } else {
            (index.reshape(&own)?.expand(s.sizes())?, x.clone(), s.clone())
        };
        give(outs, x1.scatter_reduce_two_with(d as i64, &line, &s1, how, c.bool(index_reduce::INCLUDE_SELF))?.reshape(x.sizes())?)
    }),
    samples: || {
        let t = |how| {
            Sample::new(vec![
                SampleArg::range(&[3, 4], 0.5, 2.0),
                SampleArg::Int(0),
                SampleArg::i64(&[5], 0, 3),
                SampleArg::range(&[5, 4], 0.5, 2.0),
                SampleArg::Str(how),
            ])
        };
        vec![t("amax"), t("mean"), t("prod")]
    },
    traits: Traits::READS_APART,
    ..COMPOSED
};
