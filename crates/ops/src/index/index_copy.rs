//! `index_copy`: A copy of `input` with the entries of `source` at the given entries of a dimension.

use super::{COMPOSED, give};
use crate::named::index_copy;
use crate::prelude::*;

/// `values` at `index` along a dimension. Indices count from the front alone.
fn put(x: &Tensor, d: usize, index: &Tensor, values: &Tensor) -> Result<Tensor> {
    let mut own: Dims = SmallVec::from_elem(1, values.ndim());
    own[d] = -1;
    x.scatter_src(d as i64, &index.reshape(&own)?.expand(values.sizes())?, values).map_err(|e| match e.kind() {
        ErrorKind::Runtime => Error::index(e.text().to_owned()),
        _ => e,
    })
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("index_copy(Tensor input, int dim, Tensor index, Tensor source) -> Tensor"),
    doc: "A copy of `input` with the entries of `source` at the given entries of a dimension.

Example::

    >>> oneflow.index_copy(oneflow.zeros(3), 0, oneflow.tensor([2]), oneflow.ones(1))
    tensor([0., 0., 1.])",
    faces: Faces::ALL,
    compose: Some(|c, outs| {
        let (x, s) = (c.t(index_copy::INPUT)?, c.t(index_copy::SOURCE)?);
        let d = wrap_dim(c.int(index_copy::DIM)?, x.ndim())?;
        let index = super::index_fill::vector(c, index_copy::INDEX)?;
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
    traits: Traits::EXACT_OUT.or(Traits::READS_DISJOINT),
    amp: Amp { host: AmpCast::Widest, accelerator: AmpCast::Follow },
    ..COMPOSED
};
