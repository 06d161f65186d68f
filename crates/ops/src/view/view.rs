//! `view_as`, `view`: A view of the same data with another shape; one size may be -1. Raises `RuntimeError` where
//! strides do not allow a view (use `reshape`).

use super::{COMPOSED, VIEW};
use crate::named::{view, view_as, view_dtype};
use crate::prelude::*;
use oneflow_core::check_aligned;

pub static VIEW_AS: OpDef = OpDef {
    sig: Sig::parse("view_as(Tensor(a) input, Tensor other) -> Tensor(a)"),
    doc: "The tensor seen with the other's size.

Example::

    >>> oneflow.ones(4).view_as(oneflow.zeros(2, 2)).shape
    oneflow.Size([2, 2])",
    faces: Faces::METHOD,
    compose: Some(|c, outs| {
        outs.give(c.t(view_as::INPUT)?.view(c.t(view_as::OTHER)?.sizes())?);
        Ok(())
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[6]), SampleArg::f32(&[2, 3])])],
    ..COMPOSED
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("view(Tensor(a) input, int[] size) -> Tensor(a)"),
    doc: "A view of the same data with another shape; one size may be -1. Raises `RuntimeError` where strides do not allow a
view (use `reshape`).

Example::

    >>> oneflow.zeros(2, 3).view(3, -1).shape
    oneflow.Size([3, 2])",
    faces: Faces::METHOD,
    infer: |c, outs| {
        let x = c.t(view::INPUT)?;
        let sizes = super::infer_sizes("view", c.ints(view::SIZE)?, x.numel(), x.sizes())?;
        let strides = super::view_strides(x.sizes(), x.strides(), &sizes).ok_or_else(|| {
            Error::runtime(format!(
                "view(): view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead. (shape {:?}, strides {:?}, size {:?})",
                x.sizes(), x.strides(), sizes.as_slice()
            ))
        })?;
        outs.view(view::INPUT, x, sizes, strides, x.offset())
    },
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(view::INPUT, || c.g()?.reshape(&c.in_meta(view::INPUT)?.sizes)) },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let x = c.t(view::INPUT)?;
        let sizes = super::infer_sizes("view", c.ints(view::SIZE)?, x.numel(), x.sizes())?;
        super::reshape_groups(x.sizes(), &sizes, groups);
        Ok(())
    }))
    .with(Localize::Sizes(view::SIZE)),
    samples: || {
        let t = |s: &[i64], n: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(n.to_vec())]);
        vec![t(&[2, 6], &[3, 4]), t(&[2, 3, 4], &[6, -1]), t(&[4], &[2, 1, 2]), t(&[], &[1, 1]), t(&[0, 3], &[3, 0])]
    },
    ..VIEW
};

/// Counts of another dtype's elements: `n` of the input's, in sizes, strides and offset.
struct Rescale {
    from: i64,
    to: i64,
}

impl Rescale {
    fn of(x: &Tensor, to: DType) -> Rescale {
        Rescale { from: x.dtype().size() as i64, to: to.size() as i64 }
    }
    fn keeps(&self) -> bool {
        self.from == self.to
    }
    /// `None` where it does not come out even, or too large.
    fn apply(&self, n: i64) -> Option<i64> {
        let bytes = n.checked_mul(self.from)?;
        (bytes % self.to == 0).then_some(bytes / self.to)
    }
}

pub static DTYPE: OpDef = OpDef {
    sig: Sig::parse("view.dtype(Tensor(a) input, DType dtype) -> Tensor(a)"),
    faces: Faces::METHOD,
    infer: |c, outs| {
        let x = c.t(view_dtype::INPUT)?;
        let to =
            c.arg(view_dtype::DTYPE).dtype().ok_or_else(|| Error::type_("view(): argument 'dtype' must be a dtype"))?;
        let (mut sizes, mut strides) = (Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()));
        let rescale = Rescale::of(x, to);
        let aligned = || if x.numel() > 0 { check_aligned(x.data_ptr(), to) } else { Ok(()) };
        if rescale.keeps() {
            aligned()?;
            return outs.view_as(view_dtype::INPUT, x, to, sizes, strides, x.offset());
        }
        let what = || {
            format!("to view {} as {} (different element sizes)", x.dtype().scalar_type_name(), to.scalar_type_name())
        };
        let Some(last) = x.ndim().checked_sub(1) else {
            return Err(Error::runtime(format!("self.dim() cannot be 0 {}", what())));
        };
        if x.strides()[last] != 1 {
            return Err(Error::runtime(format!("self.stride(-1) must be 1 {}, but got {}", what(), x.strides()[last])));
        }
        let ratio = rescale.to / rescale.from.max(1);
        let uneven = |name: &str, n: i64| {
            Error::runtime(format!("self.{name} must be divisible by {ratio} {}, but got {n}", what()))
        };
        sizes[last] = rescale.apply(sizes[last]).ok_or_else(|| uneven("size(-1)", x.sizes()[last]))?;
        let offset = rescale.apply(x.offset()).ok_or_else(|| uneven("storage_offset()", x.offset()))?;
        for (d, s) in strides[..last].iter_mut().enumerate() {
            *s = rescale.apply(*s).ok_or_else(|| uneven(&format!("stride({d})"), *s))?;
        }
        aligned()?;
        outs.view_as(view_dtype::INPUT, x, to, sizes, strides, offset)
    },
    grad: Grad::Never,
    // Bits of parts do not add up to bits of the whole: no row for partial values.
    sbp: SbpRule::of(Rows::Batch {
        not_axes: |c| match (c.t(view_dtype::INPUT), c.arg(view_dtype::DTYPE).dtype()) {
            (Ok(x), Some(to)) if Rescale::of(x, to).keeps() => 0,
            (Ok(x), _) => 1 << x.ndim().saturating_sub(1),
            (Err(_), _) => u32::MAX,
        },
    }),
    samples: || {
        let t = |s: &[i64], d| Sample::new(vec![SampleArg::f32(s), SampleArg::DType(d)]);
        vec![
            t(&[2, 4], DType::I32),
            t(&[2, 4], DType::I64),
            t(&[3], DType::I16),
            t(&[], DType::I32),
            t(&[0, 4], DType::I8),
        ]
    },
    ..VIEW
};
