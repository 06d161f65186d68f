//! `tensor_split`: Views of `sections` parts whose sizes differ by one at most.

use super::{COMPOSED, give_all};
use crate::named::{tensor_split, tensor_split_indices, tensor_split_tensor};
use crate::prelude::*;

pub(super) fn list_samples(sizes: &[i64], points: Vec<i64>) -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::f32(sizes), SampleArg::Ints(points)])]
}

pub(super) fn int_samples(sizes: &[i64], n: i64) -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::f32(sizes), SampleArg::Int(n)])]
}

type Parts = SmallVec<[Tensor; 2]>;

/// The parts between positions, which are clamped as in Python's slices.
pub(super) fn at_points(x: &Tensor, points: &[i64], dim: i64) -> Result<Parts> {
    let mut from = 0;
    let ends = points.iter().map(|p| Some(*p)).chain([None]);
    ends.map(|to| {
        let part = x.slice(dim, Some(from), to, 1);
        from = to.unwrap_or(0);
        part
    })
    .collect()
}

/// `sections` parts whose lengths differ by one at most.
fn in_sections(x: &Tensor, sections: i64, dim: i64) -> Result<Parts> {
    if sections <= 0 {
        return Err(Error::runtime(format!("number of sections must be larger than 0, got {sections}")));
    }
    let n = x.sizes()[wrap_dim(dim, x.ndim())?];
    let sections = super::split::part_count("tensor_split", sections)? as i64;
    let lengths: Vec<i64> = (0..sections).map(|i| n / sections + (i < n % sections) as i64).collect();
    x.split_sizes(&lengths, dim)
}

pub(super) fn has_dims(name: &str, x: &Tensor, at_least: usize) -> Result<()> {
    if x.ndim() >= at_least {
        return Ok(());
    }
    if name == "tensor_split" {
        return Err(Error::runtime(format!(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with {} dims",
            x.ndim()
        )));
    }
    Err(Error::runtime(format!(
        "{name} requires a tensor with at least {at_least} dimension, but got a tensor with {} dimensions!",
        x.ndim()
    )))
}

/// hsplit, vsplit and dsplit by number of parts: it must divide the size.
pub(super) fn evenly(name: &str, x: &Tensor, sections: i64, dim: usize) -> Result<Parts> {
    let n = x.sizes()[dim];
    if sections == 0 || n % sections != 0 {
        return Err(Error::runtime(format!(
            "torch.{name} attempted to split along dimension {dim}, but the size of the dimension {n} is not divisible by the split_size {sections}!"
        )));
    }
    in_sections(x, sections, dim as i64)
}

pub static TENSOR_SPLIT_POINTS: OpDef = OpDef {
    sig: Sig::parse("tensor_split.indices(Tensor(a) input, int[] indices, int dim=0) -> Tensor(a)[]"),
    doc: "Views of the parts between the given positions.

Example::

    >>> [t.shape[0] for t in oneflow.tensor_split(oneflow.arange(5), (1, 3))]
    [1, 2, 2]",
    compose: Some(|c, outs| {
        has_dims("tensor_split", c.t(tensor_split_indices::INPUT)?, 1)?;
        give_all(
            outs,
            at_points(
                c.t(tensor_split_indices::INPUT)?,
                c.ints(tensor_split_indices::INDICES)?,
                c.int(tensor_split_indices::DIM)?,
            )?,
        )
    }),
    samples: || list_samples(&[5, 2], vec![1, 3]),
    ..COMPOSED
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("tensor_split(Tensor(a) input, int sections, int dim=0) -> Tensor(a)[]"),
    doc: "Views of `sections` parts whose sizes differ by one at most.

Example::

    >>> [t.shape[0] for t in oneflow.tensor_split(oneflow.arange(5), 3)]
    [2, 2, 1]",
    compose: Some(|c, outs| {
        has_dims("tensor_split", c.t(tensor_split::INPUT)?, 1)?;
        give_all(
            outs,
            in_sections(c.t(tensor_split::INPUT)?, c.int(tensor_split::SECTIONS)?, c.int(tensor_split::DIM)?)?,
        )
    }),
    samples: || int_samples(&[5, 2], 3),
    ..COMPOSED
};

pub static TENSOR_SPLIT_TENSOR: OpDef = OpDef {
    sig: Sig::parse(
        "tensor_split.tensor(Tensor(a) input, Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]",
    ),
    shape: ShapeOf::Data,
    compose: Some(|c, outs| {
        let (x, at, dim) = (
            c.t(tensor_split_tensor::INPUT)?,
            c.t(tensor_split_tensor::TENSOR_INDICES_OR_SECTIONS)?,
            c.int(tensor_split_tensor::DIM)?,
        );
        has_dims("tensor_split", x, 1)?;
        if at.dtype() != DType::I64 {
            return Err(Error::runtime(format!(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got {}",
                at.dtype().scalar_type_name()
            )));
        }
        if at.ndim() > 1 {
            return Err(Error::runtime(format!(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got one of shape {:?}",
                at.sizes()
            )));
        }
        let host = copy_to_host(&at.contiguous()?)?;
        // SAFETY: a contiguous host copy of so many int64 elements.
        let values = unsafe { std::slice::from_raw_parts(host.data_ptr().cast::<i64>(), at.numel() as usize) };
        give_all(outs, if at.ndim() == 0 { in_sections(x, values[0], dim)? } else { at_points(x, values, dim)? })
    }),
    traits: Traits::HOST_SYNC,
    sbp: SbpRule::of(Rows::OnlyB { why: "the positions are read on the host" }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[5, 2]), SampleArg::i64(&[2], 1, 4)])],
    ..COMPOSED
};

/// A list of copies, so that each part may be written without touching the others.
pub(super) fn copied(parts: Parts) -> Result<Vec<Tensor>> {
    parts.iter().map(|t| t.clone_contiguous()).collect()
}

/// Views that may be written one by one.
pub(super) fn unlinked(views: SmallVec<[Tensor; 2]>) -> SmallVec<[Tensor; 2]> {
    views.iter().for_each(Tensor::clear_multi_view);
    views
}
