//! Parts of a tensor along one dimension: select, slice, narrow, and their gradients.

use super::VIEW;
use crate::named::{narrow, narrow_tensor, select, slice, slice_backward};
use crate::prelude::*;

/// A size-preserving group for every dim but `dim`, which is skipped or kept as cut.
fn groups_without(c: &Call<'_>, dim: usize, removed: bool, groups: &mut SmallVec<[DimGroup; 6]>) -> Result<()> {
    let mut to = 0u8;
    for i in 0..c.t(select::INPUT)?.ndim() {
        if i != dim {
            groups.push(DimGroup { ins: SmallVec::from_slice(&[i as u8]), outs: SmallVec::from_slice(&[to]) });
        }
        to += !(removed && i == dim) as u8;
    }
    Ok(())
}

pub static SELECT: OpDef = OpDef {
    sig: Sig::parse("select(Tensor(a) input, int dim, int index) -> Tensor(a)"),
    doc: "A view of one index along a dimension, which disappears.

Example::

    >>> oneflow.select(oneflow.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])",
    infer: |c, outs| {
        let x = c.t(select::INPUT)?;
        if x.ndim() == 0 {
            return Err(Error::index("select() cannot be applied to a 0-dim tensor."));
        }
        let (d, i) = (wrap_dim(c.int(select::DIM)?, x.ndim())?, c.int(select::INDEX)?);
        let n = x.sizes()[d];
        if i < -n || i >= n {
            return Err(Error::index(format!(
                "select(): index {i} out of range for tensor of size {:?} at dimension {d}",
                x.sizes()
            )));
        }
        let i = if i < 0 { i + n } else { i };
        let (mut sizes, mut strides) = (Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()));
        let offset = x.offset() + i * strides[d];
        sizes.remove(d);
        strides.remove(d);
        outs.view(select::INPUT, x, sizes, strides, offset)
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let m = c.in_meta(select::INPUT)?;
            let (d, i) = (c.arg(select::DIM).int().unwrap_or(0), c.arg(select::INDEX).int().unwrap_or(0));
            let d = wrap_dim(d, m.sizes.len())?;
            let i = if i < 0 { i + m.sizes[d] } else { i };
            out.set(select::INPUT, || c.g()?.unsqueeze(d as i64)?.slice_backward(&m.sizes, d as i64, i, i + 1, 1))
        },
    },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let d = wrap_dim(c.int(select::DIM)?, c.t(select::INPUT)?.ndim())?;
        groups_without(c, d, true, groups)
    })),
    samples: || {
        let t = |s: &[i64], d, i| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::Int(i)]);
        vec![t(&[3, 4], 0, 1), t(&[3, 4], -1, -2), t(&[2, 3, 4], 1, 0)]
    },
    ..VIEW
};

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

pub static NARROW: OpDef = OpDef {
    sig: Sig::parse("narrow(Tensor(a) input, int dim, int start, int length) -> Tensor(a)"),
    doc: "A view of `length` elements from `start` along a dimension.

Example::

    >>> oneflow.narrow(oneflow.arange(5), 0, 1, 3)
    tensor([1, 2, 3])",
    kernel: Kernel::None,
    compose: Some(|c, outs| {
        let (x, start, length) = (c.t(narrow::INPUT)?, c.int(narrow::START)?, c.int(narrow::LENGTH)?);
        if x.ndim() == 0 {
            return Err(Error::runtime("narrow() cannot be applied to a 0-dim tensor."));
        }
        let n = x.sizes()[wrap_dim(c.int(narrow::DIM)?, x.ndim())?];
        if length < 0 {
            return Err(Error::runtime("narrow(): length must be non-negative."));
        }
        if start < -n || start > n {
            return Err(Error::index(format!(
                "narrow(): start out of range (expected to be in range of [{}, {n}], but got {start})",
                -n
            )));
        }
        let from = if start < 0 { start + n } else { start };
        if length > n - from {
            return Err(Error::runtime(format!(
                "narrow(): start ({from}) + length ({length}) exceeds dimension size ({n})."
            )));
        }
        outs.give(x.slice(c.int(narrow::DIM)?, Some(from), Some(from + length), 1)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[5, 4]), i(0), i(1), i(3)])]
    },
    ..VIEW
};

pub static NARROW_FROM: OpDef = OpDef {
    sig: Sig::parse("narrow.tensor(Tensor(a) input, int dim, Tensor start, int length) -> Tensor(a)"),
    doc: "",
    shape: ShapeOf::Data,
    kernel: Kernel::None,
    compose: Some(|c, outs| {
        let start = c.t(narrow_tensor::START)?;
        if start.ndim() != 0 || !start.dtype().is_int() || start.dtype() == DType::Bool {
            return Err(Error::runtime("narrow(): start must be an 0-dim integral Tensor."));
        }
        let host = copy_to_host(&start.to_copy_with(Some(DType::I64), None)?)?;
        // SAFETY: the host copy holds one int64.
        let start = unsafe { host.data_ptr().cast::<i64>().read() };
        outs.give(c.t(narrow_tensor::INPUT)?.narrow(
            c.int(narrow_tensor::DIM)?,
            start,
            c.int(narrow_tensor::LENGTH)?,
        )?);
        Ok(())
    }),
    grad: Grad::Compose,
    traits: Traits::HOST_SYNC,
    sbp: SbpRule::of(Rows::OnlyB { why: "the start is read on the host" }),
    samples: || {
        let i = SampleArg::Int;
        vec![Sample::new(vec![SampleArg::f32(&[5, 4]), i(0), SampleArg::i64(&[], 0, 2), i(3)])]
    },
    ..VIEW
};
