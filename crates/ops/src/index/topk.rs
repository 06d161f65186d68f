//! `topk`: The `k` greatest (smallest) elements along a dimension, and where they are.

use crate::named::topk;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
    ),
    doc: "The `k` greatest (smallest) elements along a dimension, and where they are.

Example::

    >>> oneflow.topk(oneflow.tensor([1., 3., 2.]), 2).values
    tensor([3., 2.])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let (x, k) = (c.t(topk::INPUT)?, c.int(topk::K)?);
        if x.dtype() == DType::Bool {
            return Err(Error::not_implemented("topk(): does not support bool dtypes"));
        }
        let d = wrap_dim(c.int(topk::DIM)?, x.ndim())?;
        let n = x.sizes().get(d).copied().unwrap_or(1);
        if k < 0 || k > n {
            return Err(Error::runtime(format!(
                "topk(): selected index k out of range (k {k}, size {n} of dimension {d})"
            )));
        }
        let mut sizes = Dims::from_slice(x.sizes());
        if x.ndim() > 0 {
            sizes[d] = k;
        }
        outs.push(x.dtype(), x.device(), &sizes)?;
        outs.push(DType::I64, x.device(), &sizes)
    },
    kernel: Kernel::Prim {
        prim: &TOPK,
        lower: |c, _, l| {
            let d = wrap_dim(c.int(topk::DIM)?, c.t(topk::INPUT)?.ndim())?;
            l.input(topk::INPUT).output(topk::VALUES).output(topk::INDICES).with(TopkParams {
                k: c.int(topk::K)? as usize,
                dim: d,
                largest: c.bool(topk::LARGEST),
                sorted: c.bool(topk::SORTED),
            });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::out(topk::INDICES, &[topk::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(topk::INPUT, || super::sort::back(c, c.arg(topk::DIM).int().unwrap_or(-1))),
    },
    sbp: SbpRule::of(Rows::Batch { not_axes: |c| super::sort::not_axes(c, topk::DIM) }),
    samples: || {
        let t = |s: &[i64], k, d| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(k), SampleArg::Int(d)]);
        vec![t(&[3, 4], 2, -1), t(&[5, 3], 3, 0), t(&[6], 1, 0)]
    },
    traits: Traits::EXACT_OUT,
    ..OpDef::BASE
};
