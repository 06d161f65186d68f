//! `take_along_dim`: `gather` with broadcasting of both; without `dim` from the flattened tensor.

use super::{COMPOSED, give};
use crate::named::take_along_dim;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor"),
    doc: "`gather` with broadcasting of both; without `dim` from the flattened tensor.

Example::

    >>> oneflow.take_along_dim(oneflow.tensor([[3, 1], [2, 4]]), oneflow.tensor([[1]]), 1)
    tensor([[1],
            [4]])",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let (x, i) = (c.t(take_along_dim::INPUT)?, c.t(take_along_dim::INDICES)?);
        // As in PyTorch, positions of the flattened tensor may have 32 bits too.
        let is_flat = c.arg(take_along_dim::DIM).int().is_none();
        if i.dtype() != DType::I64 && !(is_flat && i.dtype() == DType::I32) {
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
