//! `sum_to_size`: Sums over the dimensions along which `size` broadcasts to the tensor's size.

use super::{COMPOSED, give};
use crate::named::sum_to_size;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("sum_to_size(Tensor input, int[] size) -> Tensor"),
    doc: "Sums over the dimensions along which `size` broadcasts to the tensor's size.

Example::

    >>> oneflow.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])",
    faces: Faces::METHOD,
    compose: Some(|c, outs| {
        let (x, size) = (c.t(sum_to_size::INPUT)?, c.ints(sum_to_size::SIZE)?);
        if !broadcast_shapes(size, x.sizes()).is_ok_and(|s| s.as_slice() == x.sizes()) {
            return Err(Error::runtime(format!("size {{{size:?}}} is not expandable to size {{{:?}}}.", x.sizes())));
        }
        let lead = x.ndim() - size.len();
        let dims: Dims = (0..x.ndim())
            .filter(|i| *i < lead || size[i - lead] == 1 && x.sizes()[*i] != 1)
            .map(|i| i as i64)
            .collect();
        let y = if dims.is_empty() { x.clone() } else { x.sum(&dims, true)? };
        give(outs, if lead > 0 { y.view(size)? } else { y })
    }),
    samples: || {
        let t = |s: &[i64], n: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(n.to_vec())]);
        vec![t(&[2, 3], &[1, 3]), t(&[2, 3], &[3]), t(&[2, 3], &[]), t(&[2, 3], &[2, 3])]
    },
    ..COMPOSED
};
