//! `flatten`: The dimensions from `start_dim` to `end_dim` as one.

use super::COMPOSED;
use crate::named::flatten;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("flatten(Tensor(a) input, int start_dim=0, int end_dim=-1) -> Tensor(a)"),
    doc: "The dimensions from `start_dim` to `end_dim` as one.

Example::

    >>> oneflow.flatten(oneflow.zeros(2, 3, 4), 1).shape
    oneflow.Size([2, 12])",
    compose: Some(|c, outs| {
        let x = c.t(flatten::INPUT)?;
        let (a, b) = (wrap_dim(c.int(flatten::START_DIM)?, x.ndim())?, wrap_dim(c.int(flatten::END_DIM)?, x.ndim())?);
        if a > b {
            return Err(Error::runtime("flatten() has invalid args: start_dim cannot come after end_dim"));
        }
        if x.ndim() == 0 {
            outs.give(x.reshape(&[1])?);
            return Ok(());
        }
        if a == b {
            outs.give(x.clone());
            return Ok(());
        }
        let mut sizes = Dims::from_slice(&x.sizes()[..a]);
        sizes.push(x.sizes()[a..=b].iter().product());
        sizes.extend_from_slice(&x.sizes()[b + 1..]);
        outs.give(x.reshape(&sizes)?);
        Ok(())
    }),
    samples: || {
        let t = |s: &[i64], a, b| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(a), SampleArg::Int(b)]);
        vec![t(&[2, 3, 4], 0, -1), t(&[2, 3, 4], 1, 2), t(&[], 0, -1), t(&[0, 3], 0, 1)]
    },
    ..COMPOSED
};
