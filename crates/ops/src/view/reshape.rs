//! The same elements under other sizes: a view where possible, a copy otherwise.

use super::VIEW;
use crate::named::reshape as at;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("reshape(Tensor(a) input, int[] shape) -> Tensor(a)"),
    doc: "The input's elements in another shape; one size may be -1. A view where strides allow it, a copy otherwise.

Example::

    >>> oneflow.reshape(oneflow.arange(6), (2, -1)).shape
    oneflow.Size([2, 3])",
    infer: |c, outs| {
        let x = c.t(at::INPUT)?;
        let sizes = super::infer_sizes("reshape", c.ints(at::SHAPE)?, x.numel(), x.sizes())?;
        outs.push(x.dtype(), x.device(), &sizes)
    },
    kernel: Kernel::None,
    compose: Some(|c, outs| {
        let x = c.t(at::INPUT)?;
        let sizes = super::infer_sizes("reshape", c.ints(at::SHAPE)?, x.numel(), x.sizes())?;
        let out = match super::view_strides(x.sizes(), x.strides(), &sizes) {
            Some(_) => x.view(&sizes)?,
            None => x.contiguous()?.view(&sizes)?,
        };
        outs.give(out);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let t = |s: &[i64], n: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(n.to_vec())]);
        vec![t(&[2, 6], &[3, 4]), t(&[2, 3, 4], &[6, -1]), t(&[4], &[2, 1, 2]), t(&[], &[1]), t(&[0, 3], &[3, 0])]
    },
    ..VIEW
};
