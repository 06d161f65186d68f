//! Order: sort, argsort, topk.

use crate::elementwise::push_like;
use crate::prelude::*;

fn not_axes(c: &Call<'_>, arg: usize) -> u32 {
    let n = c.t(0).map_or(0, Tensor::ndim);
    c.int(arg).and_then(|d| wrap_dim(d, n)).map_or(u32::MAX, |d| 1 << d)
}

fn back(c: &GradCall<'_>, dim: i64) -> Result<Tensor> {
    let m = c.in_meta(0)?;
    if m.sizes.is_empty() {
        return Ok(c.g()?.clone());
    }
    c.g()?.new_zeros(&m.sizes)?.scatter_add(dim, c.y(1)?, c.g()?)
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
        let x = c.t(0)?;
        wrap_dim(c.int(0)?, x.ndim())?;
        push_like(x, x.dtype(), x.device(), None, outs)?;
        push_like(x, DType::I64, x.device(), None, outs)
    },
    kernel: Kernel::Prim {
        prim: &SORT,
        lower: |c, _, l| {
            let d = wrap_dim(c.int(0)?, c.t(0)?.ndim())?;
            l.input(0).output(0).output(1).param(d as i64).param(c.bool(1));
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::Out(1, 1)],
        fix: Fix::None,
        f: |c, out| out.set(0, || back(c, c.arg(0).int().unwrap_or(-1))),
    },
    sbp: SbpRule::of(Rows::Batch { not_axes: |c| not_axes(c, 0) }),
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
        let [_, indices] = c.t(0)?.sort(c.int(0)?, c.bool(1))?;
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
        let (x, k) = (c.t(0)?, c.int(0)?);
        if x.dtype() == DType::Bool {
            return Err(Error::not_implemented("topk(): does not support bool dtypes"));
        }
        let d = wrap_dim(c.int(1)?, x.ndim())?;
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
            let d = wrap_dim(c.int(1)?, c.t(0)?.ndim())?;
            l.input(0).output(0).output(1).param(c.int(0)?).param(d as i64).param(c.bool(2)).param(c.bool(3));
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::Out(1, 1)],
        fix: Fix::None,
        f: |c, out| out.set(0, || back(c, c.arg(1).int().unwrap_or(-1))),
    },
    sbp: SbpRule::of(Rows::Batch { not_axes: |c| not_axes(c, 1) }),
    samples: || {
        let t = |s: &[i64], k, d| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(k), SampleArg::Int(d)]);
        vec![t(&[3, 4], 2, -1), t(&[5, 3], 3, 0), t(&[6], 1, 0)]
    },
    ..OpDef::BASE
};
