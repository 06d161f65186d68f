//! `reshape_as`, `reshape`: The input's elements in another shape; one size may be -1. A view where strides allow
//! it, a copy otherwise.

use super::{COMPOSED, VIEW};
use crate::named::{reshape as at, reshape_as};
use crate::prelude::*;

pub static RESHAPE_AS: OpDef = OpDef {
    sig: Sig::parse("reshape_as(Tensor(a) input, Tensor other) -> Tensor(a)"),
    doc: "The tensor reshaped to the other's size.

Example::

    >>> oneflow.ones(4).reshape_as(oneflow.zeros(2, 2)).shape
    oneflow.Size([2, 2])",
    faces: Faces::METHOD,
    compose: Some(|c, outs| {
        outs.give(c.t(reshape_as::INPUT)?.reshape(c.t(reshape_as::OTHER)?.sizes())?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[6]), SampleArg::f32(&[2, 3])])],
    ..COMPOSED
};

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
