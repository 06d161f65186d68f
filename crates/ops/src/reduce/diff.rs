//! `diff`: Differences of neighbours along a dimension, taken `n` times.

use super::*;
use crate::named::diff;

pub static OP: OpDef = OpDef {
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
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};
