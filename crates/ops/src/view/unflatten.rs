//! `unflatten`: One dimension as several.

use super::COMPOSED;
use crate::named::unflatten;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("unflatten(Tensor(a) input, int dim, int[] sizes) -> Tensor(a)"),
    doc: "One dimension as several.

Example::

    >>> oneflow.unflatten(oneflow.zeros(2, 6), 1, (2, 3)).shape
    oneflow.Size([2, 2, 3])",
    compose: Some(|c, outs| {
        let (x, parts) = (c.t(unflatten::INPUT)?, c.ints(unflatten::SIZES)?);
        let d = wrap_dim(c.int(unflatten::DIM)?, x.ndim())?;
        if x.ndim() == 0 || parts.is_empty() {
            return Err(Error::runtime("unflatten: sizes must be non-empty"));
        }
        let parts = super::infer_sizes("unflatten", parts, x.sizes()[d], &x.sizes()[d..=d])?;
        let mut sizes = Dims::from_slice(&x.sizes()[..d]);
        sizes.extend_from_slice(&parts);
        sizes.extend_from_slice(&x.sizes()[d + 1..]);
        outs.give(x.view(&sizes)?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 6]), SampleArg::Int(1), SampleArg::Ints(vec![2, -1])])],
    ..COMPOSED
};
