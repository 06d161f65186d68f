//! The same elements under other sizes, without copying.

use super::VIEW;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("view(Tensor(a) input, int[] size) -> Tensor(a)"),
    doc: "A view of the same data with another shape; one size may be -1. Raises `RuntimeError` where strides do not allow a
view (use `reshape`).

Example::

    >>> oneflow.zeros(2, 3).view(3, -1).shape
    oneflow.Size([3, 2])",
    faces: Faces::METHOD,
    infer: |c, outs| {
        let x = c.t(0)?;
        let sizes = super::infer_sizes("view", c.ints(0)?, x.numel(), x.sizes())?;
        let strides = super::view_strides(x.sizes(), x.strides(), &sizes).ok_or_else(|| {
            Error::runtime(format!(
                "view(): view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead. (shape {:?}, strides {:?}, size {:?})",
                x.sizes(), x.strides(), sizes.as_slice()
            ))
        })?;
        outs.view(0, x, sizes, strides, x.offset())
    },
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(0, || c.g()?.reshape(&c.in_meta(0)?.sizes)) },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let x = c.t(0)?;
        let sizes = super::infer_sizes("view", c.ints(0)?, x.numel(), x.sizes())?;
        super::reshape_groups(x.sizes(), &sizes, groups);
        Ok(())
    }))
    .with(Localize::Sizes(0)),
    samples: || {
        let t = |s: &[i64], n: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(n.to_vec())]);
        vec![t(&[2, 6], &[3, 4]), t(&[2, 3, 4], &[6, -1]), t(&[4], &[2, 1, 2]), t(&[], &[1, 1]), t(&[0, 3], &[3, 0])]
    },
    ..VIEW
};
