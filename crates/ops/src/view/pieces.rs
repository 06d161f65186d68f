//! More ways to cut a tensor: tensor_split, hsplit, vsplit, dsplit, split_with_sizes, and copies instead of views.

use super::{COMPOSED, give_all};
use crate::named::{
    dsplit, dsplit_array, hsplit, hsplit_array, split_with_sizes, split_with_sizes_copy, tensor_split,
    tensor_split_indices, tensor_split_tensor, unbind_copy, unsafe_chunk, unsafe_split, unsafe_split_with_sizes,
    vsplit, vsplit_array,
};
use crate::prelude::*;

fn list_samples(sizes: &[i64], points: Vec<i64>) -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::f32(sizes), SampleArg::Ints(points)])]
}
fn int_samples(sizes: &[i64], n: i64) -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::f32(sizes), SampleArg::Int(n)])]
}

type Parts = SmallVec<[Tensor; 2]>;

/// The parts between positions, which are clamped as in Python's slices.
fn at_points(x: &Tensor, points: &[i64], dim: i64) -> Result<Parts> {
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

fn has_dims(name: &str, x: &Tensor, at_least: usize) -> Result<()> {
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
fn evenly(name: &str, x: &Tensor, sections: i64, dim: usize) -> Result<Parts> {
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

pub static TENSOR_SPLIT: OpDef = OpDef {
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

pub static HSPLIT: OpDef = OpDef {
    sig: Sig::parse("hsplit(Tensor(a) input, int sections) -> Tensor(a)[]"),
    doc: "Equal parts along the columns (of a vector: along it).

Example::

    >>> [t.shape for t in oneflow.hsplit(oneflow.zeros(2, 4), 2)]
    [oneflow.Size([2, 2]), oneflow.Size([2, 2])]",
    compose: Some(|c, outs| {
        has_dims("torch.hsplit", c.t(hsplit::INPUT)?, 1)?;
        give_all(
            outs,
            evenly("hsplit", c.t(hsplit::INPUT)?, c.int(hsplit::SECTIONS)?, (c.t(hsplit::INPUT)?.ndim() > 1) as usize)?,
        )
    }),
    samples: || int_samples(&[2, 4], 2),
    ..COMPOSED
};

pub static HSPLIT_POINTS: OpDef = OpDef {
    sig: Sig::parse("hsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]"),
    compose: Some(|c, outs| {
        has_dims("torch.hsplit", c.t(hsplit_array::INPUT)?, 1)?;
        give_all(
            outs,
            at_points(
                c.t(hsplit_array::INPUT)?,
                c.ints(hsplit_array::INDICES)?,
                (c.t(hsplit_array::INPUT)?.ndim() > 1) as i64,
            )?,
        )
    }),
    samples: || list_samples(&[2, 4], vec![1]),
    ..COMPOSED
};

pub static VSPLIT: OpDef = OpDef {
    sig: Sig::parse("vsplit(Tensor(a) input, int sections) -> Tensor(a)[]"),
    doc: "Equal parts along the rows.

Example::

    >>> [t.shape for t in oneflow.vsplit(oneflow.zeros(4, 2), 2)]
    [oneflow.Size([2, 2]), oneflow.Size([2, 2])]",
    compose: Some(|c, outs| {
        has_dims("torch.vsplit", c.t(vsplit::INPUT)?, 2)?;
        give_all(outs, evenly("vsplit", c.t(vsplit::INPUT)?, c.int(vsplit::SECTIONS)?, 0)?)
    }),
    samples: || int_samples(&[4, 2], 2),
    ..COMPOSED
};

pub static VSPLIT_POINTS: OpDef = OpDef {
    sig: Sig::parse("vsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]"),
    compose: Some(|c, outs| {
        has_dims("torch.vsplit", c.t(vsplit_array::INPUT)?, 2)?;
        give_all(outs, at_points(c.t(vsplit_array::INPUT)?, c.ints(vsplit_array::INDICES)?, 0)?)
    }),
    samples: || list_samples(&[4, 2], vec![1]),
    ..COMPOSED
};

pub static DSPLIT: OpDef = OpDef {
    sig: Sig::parse("dsplit(Tensor(a) input, int sections) -> Tensor(a)[]"),
    doc: "Equal parts along the third dimension.

Example::

    >>> [t.shape for t in oneflow.dsplit(oneflow.zeros(1, 1, 4), 2)]
    [oneflow.Size([1, 1, 2]), oneflow.Size([1, 1, 2])]",
    compose: Some(|c, outs| {
        has_dims("torch.dsplit", c.t(dsplit::INPUT)?, 3)?;
        give_all(outs, evenly("dsplit", c.t(dsplit::INPUT)?, c.int(dsplit::SECTIONS)?, 2)?)
    }),
    samples: || int_samples(&[2, 2, 4], 2),
    ..COMPOSED
};

pub static DSPLIT_POINTS: OpDef = OpDef {
    sig: Sig::parse("dsplit.array(Tensor(a) input, int[] indices) -> Tensor(a)[]"),
    compose: Some(|c, outs| {
        has_dims("torch.dsplit", c.t(dsplit_array::INPUT)?, 3)?;
        give_all(outs, at_points(c.t(dsplit_array::INPUT)?, c.ints(dsplit_array::INDICES)?, 2)?)
    }),
    samples: || list_samples(&[2, 2, 4], vec![1]),
    ..COMPOSED
};

pub static WITH_SIZES: OpDef = OpDef {
    sig: Sig::parse("split_with_sizes(Tensor(a) input, int[] split_sizes, int dim=0) -> Tensor(a)[]"),
    doc: "Views of the given lengths along a dimension.

Example::

    >>> [t.shape[0] for t in oneflow.split_with_sizes(oneflow.arange(5), [1, 4])]
    [1, 4]",
    compose: Some(|c, outs| {
        give_all(
            outs,
            c.t(split_with_sizes::INPUT)?
                .split_sizes(c.ints(split_with_sizes::SPLIT_SIZES)?, c.int(split_with_sizes::DIM)?)?,
        )
    }),
    samples: || list_samples(&[5, 2], vec![1, 4]),
    ..COMPOSED
};

/// A list of copies, so that each part may be written without touching the others.
fn copied(parts: Parts) -> Result<Vec<Tensor>> {
    parts.iter().map(|t| t.clone_contiguous()).collect()
}

pub static WITH_SIZES_COPY: OpDef = OpDef {
    sig: Sig::parse("split_with_sizes_copy(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]"),
    doc: "Copies of the given lengths along a dimension.

Example::

    >>> [t.shape[0] for t in oneflow.split_with_sizes_copy(oneflow.arange(5), [1, 4])]
    [1, 4]",
    faces: Faces::FN,
    compose: Some(|c, outs| {
        give_all(
            outs,
            copied(
                c.t(split_with_sizes_copy::INPUT)?
                    .split_sizes(c.ints(split_with_sizes_copy::SPLIT_SIZES)?, c.int(split_with_sizes_copy::DIM)?)?,
            )?,
        )
    }),
    samples: || list_samples(&[5, 2], vec![1, 4]),
    ..COMPOSED
};

pub static UNBIND_COPY: OpDef = OpDef {
    sig: Sig::parse("unbind_copy(Tensor input, int dim=0) -> Tensor[]"),
    doc: "Copies of the slices along a dimension, which disappears.

Example::

    >>> len(oneflow.unbind_copy(oneflow.zeros(2, 3)))
    2",
    faces: Faces::FN,
    compose: Some(|c, outs| give_all(outs, copied(c.t(unbind_copy::INPUT)?.unbind(c.int(unbind_copy::DIM)?)?)?)),
    samples: || int_samples(&[3, 2], 0),
    ..COMPOSED
};

/// Views that may be written one by one.
fn apart(views: SmallVec<[Tensor; 2]>) -> SmallVec<[Tensor; 2]> {
    views.iter().for_each(Tensor::clear_multi_view);
    views
}

pub static UNSAFE_SPLIT: OpDef = OpDef {
    sig: Sig::parse("unsafe_split(Tensor input, int split_size, int dim=0) -> Tensor[]"),
    doc: "Parts of `split_size` elements that autograd does not take for views.

Example::

    >>> len(oneflow.unsafe_split(oneflow.arange(5), 2))
    3",
    compose: Some(|c, outs| {
        give_all(
            outs,
            apart(c.t(unsafe_split::INPUT)?.split(c.int(unsafe_split::SPLIT_SIZE)?, c.int(unsafe_split::DIM)?)?),
        )
    }),
    samples: || int_samples(&[5, 2], 2),
    ..COMPOSED
};

pub static UNSAFE_SPLIT_WITH_SIZES: OpDef = OpDef {
    sig: Sig::parse("unsafe_split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> Tensor[]"),
    doc: "Parts of the given lengths that autograd does not take for views.

Example::

    >>> [t.shape[0] for t in oneflow.unsafe_split_with_sizes(oneflow.arange(5), [1, 4])]
    [1, 4]",
    compose: Some(|c, outs| {
        let lengths = c.ints(unsafe_split_with_sizes::SPLIT_SIZES)?;
        let dim = c.int(unsafe_split_with_sizes::DIM)?;
        give_all(outs, apart(c.t(unsafe_split_with_sizes::INPUT)?.split_sizes(lengths, dim)?))
    }),
    samples: || list_samples(&[5, 2], vec![1, 4]),
    ..COMPOSED
};

pub static UNSAFE_CHUNK: OpDef = OpDef {
    sig: Sig::parse("unsafe_chunk(Tensor input, int chunks, int dim=0) -> Tensor[]"),
    doc: "At most `chunks` parts that autograd does not take for views.

Example::

    >>> len(oneflow.unsafe_chunk(oneflow.arange(5), 2))
    2",
    compose: Some(|c, outs| {
        give_all(outs, apart(c.t(unsafe_chunk::INPUT)?.chunk(c.int(unsafe_chunk::CHUNKS)?, c.int(unsafe_chunk::DIM)?)?))
    }),
    samples: || int_samples(&[5, 2], 2),
    ..COMPOSED
};
