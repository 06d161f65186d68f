//! `sort`: The elements in order along a dimension (stable), and where they came from. NaN counts as the greatest.

use crate::elementwise::push_like;
use crate::named::sort;
use crate::prelude::*;

pub(super) fn not_axes(c: &Call<'_>, dim: At<i64>) -> u32 {
    let n = c.t(sort::INPUT).map_or(0, Tensor::ndim);
    c.int(dim).and_then(|d| wrap_dim(d, n)).map_or(u32::MAX, |d| 1 << d)
}

pub(super) fn back(c: &GradCall<'_>, dim: i64) -> Result<Tensor> {
    let m = c.in_meta(sort::INPUT)?;
    if m.sizes.is_empty() {
        return Ok(c.g()?.clone());
    }
    c.g()?.new_zeros(&m.sizes)?.scatter_add(dim, c.y(sort::INDICES)?, c.g()?)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "sort(Tensor input, int dim=-1, bool descending=False, *, bool? stable=False) -> (Tensor values, Tensor indices)",
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
                .with(SortParams { dim: d, descending: c.bool(sort::DESCENDING) });
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
    traits: Traits::EXACT_OUT,
    ..OpDef::BASE
};
