//! `slice`, `slice_backward`: A view of `input[start:end:step]` along a dimension.

use super::VIEW;
use crate::named::{select, slice, slice_backward};
use crate::prelude::*;

/// A size-preserving group for every dim but `dim`, which is skipped or kept as cut.
pub(super) fn groups_without(
    c: &Call<'_>,
    dim: usize,
    removed: bool,
    groups: &mut SmallVec<[DimGroup; 6]>,
) -> Result<()> {
    let mut to = 0u8;
    for i in 0..c.t(select::INPUT)?.ndim() {
        if i != dim {
            groups.push(DimGroup { ins: SmallVec::from_slice(&[i as u8]), outs: SmallVec::from_slice(&[to]) });
        }
        to += !(removed && i == dim) as u8;
    }
    Ok(())
}

/// Elements of `start:end:step` with a positive step.
pub(super) fn slice_len(start: i64, end: i64, step: i64) -> i64 {
    if end > start { (end - start - 1) / step + 1 } else { 0 }
}

/// Start, length and dim of a slice, clamped as Python does.
fn range(c: &Call<'_>) -> Result<(usize, i64, i64, i64)> {
    let x = c.t(slice::INPUT)?;
    if x.ndim() == 0 {
        return Err(Error::runtime("slice() cannot be applied to a 0-dim tensor."));
    }
    let d = wrap_dim(c.int(slice::DIM)?, x.ndim())?;
    let n = x.sizes()[d];
    let step = c.arg(slice::STEP).int().unwrap_or(1);
    if step <= 0 {
        return Err(Error::value(format!("slice step must be positive, got {step}")));
    }
    let at = |v: Option<i64>, default: i64| {
        let v = v.unwrap_or(default);
        (if v < 0 { v.saturating_add(n) } else { v }).clamp(0, n)
    };
    let start = at(c.arg(slice::START).int(), 0);
    let end = at(c.arg(slice::END).int(), n).max(start);
    Ok((d, start, slice_len(start, end, step), step))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("slice(Tensor(a) input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor(a)"),
    doc: "A view of `input[start:end:step]` along a dimension.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(slice::INPUT)?;
        let (d, start, len, step) = range(c)?;
        let (mut sizes, mut strides) = (Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()));
        let offset = x.offset() + start * strides[d];
        sizes[d] = len;
        // A step beyond the end leaves one element, whose stride does not matter.
        strides[d] = strides[d].saturating_mul(step);
        outs.view(slice::INPUT, x, sizes, strides, offset)
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let m = c.in_meta(slice::INPUT)?;
            let d = wrap_dim(c.arg(slice::DIM).int().unwrap_or(0), m.sizes.len())?;
            let n = m.sizes[d];
            let step = c.arg(slice::STEP).int().unwrap_or(1);
            let at = |v: i64| (if v < 0 { v.saturating_add(n) } else { v }).clamp(0, n);
            let (start, end) = (at(c.arg(slice::START).int().unwrap_or(0)), at(c.arg(slice::END).int().unwrap_or(n)));
            out.set(slice::INPUT, || c.g()?.slice_backward(&m.sizes, d as i64, start, end.max(start), step))
        },
    },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let d = range(c)?.0;
        groups_without(c, d, false, groups)
    })),
    samples: || {
        let t = |s: &[i64], d, a, b, st| {
            let i = SampleArg::Int;
            Sample::new(vec![SampleArg::f32(s), i(d), i(a), i(b), i(st)])
        };
        vec![t(&[5, 4], 0, 1, 4, 1), t(&[5, 4], 1, 0, 4, 2), t(&[6], 0, -3, 100, 2), t(&[3], 0, 2, 1, 1)]
    },
    sparse: Sparse::Slice,
    ..VIEW
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "slice_backward(Tensor grad_output, int[] input_sizes, int dim, int start, int end, int step) -> Tensor",
    ),
    doc: "Zeros of the input's size with the gradient in the slice.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        outs.push(
            c.t(slice_backward::GRAD_OUTPUT)?.dtype(),
            c.t(slice_backward::GRAD_OUTPUT)?.device(),
            c.ints(slice_backward::INPUT_SIZES)?,
        )
    },
    kernel: Kernel::Host(|c, outs| {
        (c.op.infer)(c, outs)?;
        outs[slice_backward::RESULT].materialize()?;
        outs[slice_backward::RESULT].zero_()?;
        outs[slice_backward::RESULT]
            .slice(
                c.int(slice_backward::DIM)?,
                c.arg(slice_backward::START).int(),
                c.arg(slice_backward::END).int(),
                c.int(slice_backward::STEP)?,
            )?
            .copy_(c.t(slice_backward::GRAD_OUTPUT)?, false)
    }),
    compose: Some(|c, outs| {
        let g = c.t(slice_backward::GRAD_OUTPUT)?;
        let zeros = g.new_zeros(c.ints(slice_backward::INPUT_SIZES)?)?;
        let part = zeros.slice(
            c.int(slice_backward::DIM)?,
            c.arg(slice_backward::START).int(),
            c.arg(slice_backward::END).int(),
            c.int(slice_backward::STEP)?,
        )?;
        part.copy_(g, false)?;
        outs.give(zeros);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            use slice_backward as at;
            let int = |at: At<i64>| c.arg(at).int();
            out.set(slice_backward::GRAD_OUTPUT, || {
                c.g()?.slice(int(at::DIM).unwrap_or(0), int(at::START), int(at::END), int(at::STEP).unwrap_or(1))
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let d = wrap_dim(c.int(slice_backward::DIM)?, c.t(slice_backward::GRAD_OUTPUT)?.ndim())?;
        for i in (0..c.t(slice_backward::GRAD_OUTPUT)?.ndim()).filter(|i| *i != d) {
            let s = Sbp::S(i as u8);
            rows.push(Row { ins: SmallVec::from_slice(&[s]), outs: SmallVec::from_slice(&[s]) });
        }
        rows.push(Row { ins: SmallVec::from_slice(&[Sbp::P_SUM]), outs: SmallVec::from_slice(&[Sbp::P_SUM]) });
        Ok(())
    }))
    .with(Localize::Sizes(slice_backward::INPUT_SIZES)),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[2, 4]), SampleArg::Ints(vec![5, 4]), i(0), i(1), i(4), i(2)])]
    },
    ..OpDef::BASE
};
