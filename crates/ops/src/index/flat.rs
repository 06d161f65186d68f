//! Elements by their place in the flattened tensor, or by a mask: take, put, take_along_dim, masked_scatter, argwhere.

use super::{COMPOSED, give, give_all};
use crate::elementwise::where_::check_mask;
use crate::named::{argwhere, masked_scatter, nonzero_static, put, take, take_along_dim, where_places};
use crate::prelude::*;

pub static TAKE: OpDef = OpDef {
    sig: Sig::parse("take(Tensor input, Tensor index) -> Tensor"),
    doc: "The elements at places of the flattened tensor.

Example::

    >>> oneflow.take(oneflow.tensor([[1, 2], [3, 4]]), oneflow.tensor([0, 3]))
    tensor([1, 4])",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let (x, i) = (c.t(take::INPUT)?, c.t(take::INDEX)?);
        if i.dtype() != DType::I64 {
            return Err(Error::runtime(format!("take(): Expected a long tensor for index, but got {}", i.dtype())));
        }
        if x.numel() == 0 && i.numel() > 0 {
            return Err(Error::index("take(): tried to take from an empty tensor"));
        }
        give(outs, x.reshape(&[-1])?.index([Some(i)])?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::i64(&[2, 3], -12, 12)])],
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static PUT: OpDef = OpDef {
    sig: Sig::parse("put(Tensor input, Tensor index, Tensor source, bool accumulate=False) -> Tensor"),
    doc: "A copy of `input` with `source` written, or added, at places of the flattened tensor.

Example::

    >>> oneflow.put(oneflow.zeros(2, 2), oneflow.tensor([3]), oneflow.ones(1))
    tensor([[0., 0.],
            [0., 1.]])",
    faces: Faces::FN_METHOD.or(Faces::INPLACE),
    compose: Some(|c, outs| {
        let (x, i, s) = (c.t(put::INPUT)?, c.t(put::INDEX)?, c.t(put::SOURCE)?);
        if i.dtype() != DType::I64 {
            return Err(Error::runtime(format!("put_(): Expected a long tensor for index, but got {}", i.dtype())));
        }
        if x.dtype() != s.dtype() {
            return Err(Error::runtime(format!(
                "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}",
                x.dtype(),
                s.dtype()
            )));
        }
        if i.numel() != s.numel() {
            return Err(Error::runtime(format!(
                "put_(): Expected source and index to have the same number of elements, but got source.numel() = {}, index.numel() = {}",
                s.numel(),
                i.numel()
            )));
        }
        if x.numel() == 0 && i.numel() > 0 {
            return Err(Error::index("put_(): Tried to put elements into an empty tensor"));
        }
        if i.numel() == 0 {
            return give(outs, x.cloned()?);
        }
        let flat = x.reshape(&[-1])?;
        let put = flat
            .index_put([Some(&i.reshape(&[-1])?)], &s.reshape(&[-1])?, c.bool(put::ACCUMULATE))?
            .reshape(x.sizes())?;
        // In the input's memory order.
        give(outs, if x.is_contiguous() { put } else { x.copy(&put, false)? })
    }),
    samples: || {
        let t = |add| {
            let i = SampleArg::i64(&[1], -12, 12);
            Sample::new(vec![SampleArg::f32(&[3, 4]), i, SampleArg::f32(&[1]), SampleArg::Bool(add)])
        };
        vec![t(true), t(false)]
    },
    traits: Traits::READS_APART,
    ..COMPOSED
};

pub static ALONG: OpDef = OpDef {
    sig: Sig::parse("take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor"),
    doc: "`gather` with broadcasting of both; without `dim` from the flattened tensor.

Example::

    >>> oneflow.take_along_dim(oneflow.tensor([[3, 1], [2, 4]]), oneflow.tensor([[1]]), 1)
    tensor([[1],
            [4]])",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let (x, i) = (c.t(take_along_dim::INPUT)?, c.t(take_along_dim::INDICES)?);
        if i.dtype() != DType::I64 {
            return Err(Error::runtime(format!(
                "torch.take_along_dim(): dtype of indices should be Long but got {}",
                i.dtype().scalar_type_name()
            )));
        }
        let Some(dim) = c.arg(take_along_dim::DIM).int() else {
            return give(outs, x.view(&[-1])?.gather(0, &i.view(&[-1])?)?);
        };
        if x.ndim() != i.ndim() {
            return Err(Error::runtime(format!(
                "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} dimensions for input, and {} dimensions for indices",
                x.ndim(),
                i.ndim()
            )));
        }
        let d = wrap_dim(dim, x.ndim())?;
        if x.ndim() == 0 {
            return give(outs, x.gather(0, i)?);
        }
        let i = &i.lt(0i64)?.r#where(&i.add(x.sizes()[d])?, i)?;
        let (mut a, mut b) = (Dims::from_slice(x.sizes()), Dims::from_slice(i.sizes()));
        (a[d], b[d]) = (1, 1);
        let common = broadcast_shapes(&a, &b)?;
        let (mut a, mut b) = (common.clone(), common);
        (a[d], b[d]) = (x.sizes()[d], i.sizes()[d]);
        give(outs, x.expand(&a)?.gather(d as i64, &i.expand(&b)?)?)
    }),
    samples: || {
        vec![
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::i64(&[3, 2], 0, 4), SampleArg::Int(1)]),
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::i64(&[5], 0, 12)]),
        ]
    },
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static MASKED_SCATTER: OpDef = OpDef {
    sig: Sig::parse("masked_scatter(Tensor input, Tensor mask, Tensor source) -> Tensor"),
    doc: "A copy of `input` with the elements of `source`, in order, where `mask` is true.

Example::

    >>> oneflow.masked_scatter(oneflow.zeros(3), oneflow.tensor([True, False, True]), oneflow.tensor([1., 2.]))
    tensor([1., 0., 2.])",
    faces: Faces::FN_METHOD.or(Faces::INPLACE),
    compose: Some(|c, outs| {
        let (x, m, s) = (c.t(masked_scatter::INPUT)?, c.t(masked_scatter::MASK)?, c.t(masked_scatter::SOURCE)?);
        check_mask(m, "masked_scatter_ only supports boolean masks, but got mask with dtype")?;
        if x.dtype() != s.dtype() {
            return Err(Error::runtime(format!(
                "masked_scatter: expected self and source to have same dtypes but got {} and {}",
                x.dtype().scalar_type_name(),
                s.dtype().scalar_type_name()
            )));
        }
        let sizes = broadcast_shapes(x.sizes(), m.sizes())?;
        let m = if m.dtype() == DType::Bool { m.clone() } else { m.ne(0i64)? };
        let (x, m) = (x.expand(&sizes)?, m.expand(&sizes)?);
        if s.numel() == 0 {
            return give(outs, x.clone_contiguous()?);
        }
        // The n-th true position takes the n-th element.
        let places = m.reshape(&[-1])?.cumsum(0)?.sub(1i64)?;
        let places = m.reshape(&[-1])?.r#where(&places, 0i64)?.reshape(&sizes)?;
        let taken = s.reshape(&[-1])?.index([Some(&places)]).map_err(|e| match e.kind() {
            ErrorKind::Index => Error::runtime(format!(
                "masked_scatter(): Number of elements of source < number of ones in mask (source {:?}, mask {:?})",
                s.sizes(),
                m.sizes()
            )),
            _ => e,
        })?;
        give(outs, m.r#where(&taken, &x)?.contiguous()?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::bool(&[3, 4]), SampleArg::f32(&[12])])],
    ..COMPOSED
};

pub static ARGWHERE: OpDef = OpDef {
    sig: Sig::parse("argwhere(Tensor input) -> Tensor"),
    doc: "Indices of the non-zero elements, one row each: `nonzero`.

Example::

    >>> oneflow.argwhere(oneflow.tensor([0, 3]))
    tensor([[1]])",
    shape: ShapeOf::Data,
    grad: Grad::Never,
    compose: Some(|c, outs| give(outs, c.t(argwhere::INPUT)?.nonzero()?)),
    sbp: SbpRule::of(Rows::OnlyB { why: "the shape of the result depends on all the data" }),
    traits: Traits::HOST_SYNC,
    samples: || vec![Sample::new(vec![SampleArg::bool(&[3, 4])])],
    ..COMPOSED
};

pub static WHERE: OpDef = OpDef {
    sig: Sig::parse("where.places(Tensor condition) -> Tensor[]"),
    doc: "With the condition alone: the indices of its true elements, one tensor a dimension.",
    faces: Faces::FN,
    shape: ShapeOf::Data,
    grad: Grad::Never,
    compose: Some(|c, outs| give_all(outs, c.t(where_places::CONDITION)?.nonzero_tuple()?)),
    sbp: SbpRule::of(Rows::OnlyB { why: "the shape of the result depends on all the data" }),
    traits: Traits::HOST_SYNC,
    samples: || vec![Sample::new(vec![SampleArg::bool(&[3, 4])])],
    ..COMPOSED
};

pub static NONZERO_STATIC: OpDef = OpDef {
    sig: Sig::parse("nonzero_static(Tensor input, *, int size, int fill_value=-1) -> Tensor"),
    doc: "Indices of the first `size` non-zero elements, one row each; rows without one hold `fill_value`.

Example::

    >>> oneflow.nonzero_static(oneflow.tensor([0, 3]), size=2)
    tensor([[ 1],
            [-1]])",
    faces: Faces::FN_METHOD_OUT,
    grad: Grad::Never,
    compose: Some(|c, outs| {
        let (x, n) = (c.t(nonzero_static::INPUT)?, c.int(nonzero_static::SIZE)?);
        if n < 0 {
            return Err(Error::runtime(format!("nonzero_static: 'size' must be an non-negative integer, got {n}")));
        }
        // Shapes do not depend on the data: each element's rank among the set ones says which row is its.
        let flat = x.reshape(&[-1])?;
        let set = if flat.dtype() == DType::Bool { flat } else { flat.ne(0i64)? };
        let total = set.numel();
        let rank = set.cumsum(0)?.sub(1i64)?;
        let rank = set.logical_and(&rank.lt(n)?)?.r#where(&rank, n)?;
        let place = set.new_ones_with(&[total], Some(DType::I64), None, false)?.cumsum(0)?.sub(1i64)?;
        let mut columns = Vec::with_capacity(x.ndim());
        let mut below = 1;
        let fill = place.new_full(&[n.saturating_add(1)], c.int(nonzero_static::FILL_VALUE)?)?;
        for &s in x.sizes().iter().rev() {
            let at = place.div_with(below, Some("floor"))?.remainder(s.max(1))?;
            columns.push(fill.scatter_src(0, &rank, &at)?.slice(0, Some(0), Some(n), 1)?);
            below *= s.max(1);
        }
        columns.reverse();
        give(outs, if columns.is_empty() { place.new_full(&[n, 0], 0i64)? } else { f::stack(&columns, 1)? })
    }),
    samples: || {
        let t = |s: &[i64], n| Sample::new(vec![SampleArg::bool(s)]).kw("size", SampleArg::Int(n));
        vec![t(&[3, 4], 5), t(&[4], 9)]
    },
    ..COMPOSED
};
