//! Order: sort, argsort, topk.

use crate::elementwise::push_like;
use crate::named::{argsort, sort, topk};
use crate::prelude::*;

fn not_axes(c: &Call<'_>, dim: At<i64>) -> u32 {
    let n = c.t(sort::INPUT).map_or(0, Tensor::ndim);
    c.int(dim).and_then(|d| wrap_dim(d, n)).map_or(u32::MAX, |d| 1 << d)
}

fn back(c: &GradCall<'_>, dim: i64) -> Result<Tensor> {
    let m = c.in_meta(sort::INPUT)?;
    if m.sizes.is_empty() {
        return Ok(c.g()?.clone());
    }
    c.g()?.new_zeros(&m.sizes)?.scatter_add(dim, c.y(sort::INDICES)?, c.g()?)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "sort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> (Tensor values, Tensor indices)",
    ),
    doc: "The elements in order along a dimension (stable), and where they came from. NaN counts as the greatest.

Example::

    >>> oneflow.sort(oneflow.tensor([3., 1., 2.])).indices
    tensor([1, 2, 0])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let x = c.t(sort::INPUT)?;
        wrap_dim(c.int(sort::DIM)?, x.ndim())?;
        push_like(x, x.dtype(), x.device(), None, outs)?;
        push_like(x, DType::I64, x.device(), None, outs)
    },
    kernel: Kernel::Prim {
        prim: &SORT,
        lower: |c, _, l| {
            let d = wrap_dim(c.int(sort::DIM)?, c.t(sort::INPUT)?.ndim())?;
            l.input(sort::INPUT)
                .output(sort::VALUES)
                .output(sort::INDICES)
                .param(d as i64)
                .param(c.bool(sort::DESCENDING));
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::out(sort::INDICES, &[sort::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(sort::INPUT, || back(c, c.arg(sort::DIM).int().unwrap_or(-1))),
    },
    sbp: SbpRule::of(Rows::Batch { not_axes: |c| not_axes(c, sort::DIM) }),
    samples: || {
        let t = |s: &[i64], d| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::Bool(d == 0)]);
        vec![t(&[3, 4], -1), t(&[5, 3], 0), t(&[], 0), t(&[0, 3], 1)]
    },
    limited: Limited::ORDER,
    ..OpDef::BASE
};

pub static ARGSORT: OpDef = OpDef {
    sig: Sig::parse("argsort(Tensor input, int dim=-1, bool descending=False, *, bool stable=False) -> Tensor"),
    doc: "Where the elements in order come from.

Example::

    >>> oneflow.argsort(oneflow.tensor([3., 1., 2.]))
    tensor([1, 2, 0])",
    compose: Some(|c, outs| {
        let [_, indices] = c.t(argsort::INPUT)?.sort(c.int(argsort::DIM)?, c.bool(argsort::DESCENDING))?;
        outs.give(indices);
        Ok(())
    }),
    faces: Faces::FN_METHOD,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])])],
    ..OpDef::BASE
};

pub static TOPK_OP: OpDef = OpDef {
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
            l.input(topk::INPUT)
                .output(topk::VALUES)
                .output(topk::INDICES)
                .param(c.int(topk::K)?)
                .param(d as i64)
                .param(c.bool(topk::LARGEST))
                .param(c.bool(topk::SORTED));
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::out(topk::INDICES, &[topk::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(topk::INPUT, || back(c, c.arg(topk::DIM).int().unwrap_or(-1))),
    },
    sbp: SbpRule::of(Rows::Batch { not_axes: |c| not_axes(c, topk::DIM) }),
    samples: || {
        let t = |s: &[i64], k, d| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(k), SampleArg::Int(d)]);
        vec![t(&[3, 4], 2, -1), t(&[5, 3], 3, 0), t(&[6], 1, 0)]
    },
    ..OpDef::BASE
};
