//! `nonzero_static`: Indices of the first `size` non-zero elements, one row each; rows without one hold
//! `fill_value`.

use super::{COMPOSED, give};
use crate::named::nonzero_static;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
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
