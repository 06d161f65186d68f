//! Views as copies: the same shapes in memory of their own.

use super::{COMPOSED, give};
use crate::named::{
    alias_copy, as_strided_copy, diagonal_copy, expand_copy, narrow_copy, permute_copy, select_copy, slice_copy,
    squeeze_copy, squeeze_copy_dim, t_copy, transpose_copy, unfold_copy, unsqueeze_copy, view_copy,
};
use crate::prelude::*;

const COPY: OpDef = OpDef { faces: Faces::FN.or(Faces::OUT), traits: Traits::EXACT_OUT, ..COMPOSED };

fn copied(outs: &mut Outs, view: Tensor) -> Result<()> {
    give(outs, view.clone_contiguous()?)
}

fn ints(sizes: &[i64], list: &[i64]) -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::f32(sizes), SampleArg::Ints(list.to_vec())])]
}
fn numbers(sizes: &[i64], list: &[i64]) -> Vec<Sample> {
    let mut args = vec![SampleArg::f32(sizes)];
    args.extend(list.iter().map(|i| SampleArg::Int(*i)));
    vec![Sample::new(args)]
}

pub static ALIAS: OpDef = OpDef {
    sig: Sig::parse("alias_copy(Tensor input) -> Tensor"),
    doc: "A contiguous copy.

Example::

    >>> oneflow.alias_copy(oneflow.tensor([1, 2]))
    tensor([1, 2])",
    compose: Some(|c, outs| copied(outs, c.t(alias_copy::INPUT)?.clone())),
    samples: || numbers(&[2, 3], &[]),
    ..COPY
};

pub static AS_STRIDED: OpDef = OpDef {
    sig: Sig::parse("as_strided_copy(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor"),
    doc: "A copy of `as_strided`.

Example::

    >>> oneflow.as_strided_copy(oneflow.tensor([1, 2, 3]), (2, 2), (1, 1))
    tensor([[1, 2],
            [2, 3]])",
    compose: Some(|c, outs| {
        copied(
            outs,
            c.t(as_strided_copy::INPUT)?.as_strided(
                c.ints(as_strided_copy::SIZE)?,
                c.ints(as_strided_copy::STRIDE)?,
                c.arg(as_strided_copy::STORAGE_OFFSET).int(),
            )?,
        )
    }),
    sbp: SbpRule::of(Rows::OnlyB { why: "strides speak of the whole storage" }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[6]), SampleArg::Ints(vec![2, 2]), SampleArg::Ints(vec![3, 1])])],
    ..COPY
};

pub static DIAGONAL: OpDef = OpDef {
    sig: Sig::parse("diagonal_copy(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor"),
    doc: "A copy of `diagonal`.

Example::

    >>> oneflow.diagonal_copy(oneflow.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])",
    compose: Some(|c, outs| {
        copied(
            outs,
            c.t(diagonal_copy::INPUT)?.diagonal(
                c.int(diagonal_copy::OFFSET)?,
                c.int(diagonal_copy::DIM1)?,
                c.int(diagonal_copy::DIM2)?,
            )?,
        )
    }),
    samples: || numbers(&[3, 4], &[1]),
    ..COPY
};

pub static EXPAND: OpDef = OpDef {
    sig: Sig::parse("expand_copy(Tensor input, int[] size, *, bool implicit=False) -> Tensor"),
    doc: "A copy of `expand`.

Example::

    >>> oneflow.expand_copy(oneflow.tensor([[1], [2]]), (2, 3))
    tensor([[1, 1, 1],
            [2, 2, 2]])",
    compose: Some(|c, outs| copied(outs, c.t(expand_copy::INPUT)?.expand(c.ints(expand_copy::SIZE)?)?)),
    samples: || ints(&[3, 1], &[3, 4]),
    ..COPY
};

pub static NARROW: OpDef = OpDef {
    sig: Sig::parse("narrow_copy(Tensor input, int dim, int start, int length) -> Tensor"),
    doc: "A copy of `narrow`.

Example::

    >>> oneflow.narrow_copy(oneflow.tensor([1, 2, 3]), 0, 1, 2)
    tensor([2, 3])",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let (x, dim) = (c.t(narrow_copy::INPUT)?, c.int(narrow_copy::DIM)?);
        if dim >= x.ndim() as i64 && x.ndim() > 0 {
            return Err(Error::runtime(format!("narrow_copy(): no dimension {dim} in {:?}", x.sizes())));
        }
        copied(outs, x.narrow(dim, c.int(narrow_copy::START)?, c.int(narrow_copy::LENGTH)?)?)
    }),
    samples: || numbers(&[5, 2], &[0, 1, 3]),
    ..COPY
};

pub static PERMUTE: OpDef = OpDef {
    sig: Sig::parse("permute_copy(Tensor input, int[] dims) -> Tensor"),
    doc: "A copy of `permute`.

Example::

    >>> oneflow.permute_copy(oneflow.zeros(2, 3), (1, 0)).shape
    oneflow.Size([3, 2])",
    compose: Some(|c, outs| copied(outs, c.t(permute_copy::INPUT)?.permute(c.ints(permute_copy::DIMS)?)?)),
    samples: || ints(&[2, 3], &[1, 0]),
    ..COPY
};

pub static SELECT: OpDef = OpDef {
    sig: Sig::parse("select_copy(Tensor input, int dim, int index) -> Tensor"),
    doc: "A copy of `select`.

Example::

    >>> oneflow.select_copy(oneflow.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])",
    compose: Some(|c, outs| {
        copied(outs, c.t(select_copy::INPUT)?.select(c.int(select_copy::DIM)?, c.int(select_copy::INDEX)?)?)
    }),
    samples: || numbers(&[3, 2], &[0, 1]),
    ..COPY
};

pub static SLICE: OpDef = OpDef {
    sig: Sig::parse("slice_copy(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor"),
    doc: "A copy of `input[start:end:step]` along a dimension.

Example::

    >>> oneflow.slice_copy(oneflow.tensor([1, 2, 3, 4]), 0, 1, 4, 2)
    tensor([2, 4])",
    compose: Some(|c, outs| {
        copied(
            outs,
            c.t(slice_copy::INPUT)?.slice(
                c.int(slice_copy::DIM)?,
                c.arg(slice_copy::START).int(),
                c.arg(slice_copy::END).int(),
                c.int(slice_copy::STEP)?,
            )?,
        )
    }),
    samples: || numbers(&[5, 2], &[0, 1, 4, 2]),
    ..COPY
};

pub static SQUEEZE: OpDef = OpDef {
    sig: Sig::parse("squeeze_copy(Tensor input) -> Tensor"),
    doc: "A copy of `squeeze`.

Example::

    >>> oneflow.squeeze_copy(oneflow.tensor([[1, 2]]))
    tensor([1, 2])",
    compose: Some(|c, outs| copied(outs, c.t(squeeze_copy::INPUT)?.squeeze()?)),
    samples: || numbers(&[1, 3], &[]),
    ..COPY
};

pub static SQUEEZE_DIM: OpDef = OpDef {
    sig: Sig::parse("squeeze_copy.dim(Tensor input, int[1] dim) -> Tensor"),
    compose: Some(|c, outs| copied(outs, c.t(squeeze_copy_dim::INPUT)?.squeeze_dim(c.ints(squeeze_copy_dim::DIM)?)?)),
    samples: || ints(&[1, 3], &[0]),
    ..COPY
};

pub static T: OpDef = OpDef {
    sig: Sig::parse("t_copy(Tensor input) -> Tensor"),
    doc: "A copy of `t`.

Example::

    >>> oneflow.t_copy(oneflow.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])",
    compose: Some(|c, outs| copied(outs, c.t(t_copy::INPUT)?.t()?)),
    samples: || numbers(&[2, 3], &[]),
    ..COPY
};

pub static TRANSPOSE: OpDef = OpDef {
    sig: Sig::parse("transpose_copy(Tensor input, int dim0, int dim1) -> Tensor"),
    doc: "A copy of `transpose`.

Example::

    >>> oneflow.transpose_copy(oneflow.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([[1, 3],
            [2, 4]])",
    compose: Some(|c, outs| {
        copied(outs, c.t(transpose_copy::INPUT)?.transpose(c.int(transpose_copy::DIM0)?, c.int(transpose_copy::DIM1)?)?)
    }),
    samples: || numbers(&[2, 3], &[0, 1]),
    ..COPY
};

pub static UNFOLD: OpDef = OpDef {
    sig: Sig::parse("unfold_copy(Tensor input, int dimension, int size, int step) -> Tensor"),
    doc: "A copy of `Tensor.unfold`.

Example::

    >>> oneflow.unfold_copy(oneflow.tensor([1, 2, 3]), 0, 2, 1)
    tensor([[1, 2],
            [2, 3]])",
    compose: Some(|c, outs| {
        copied(
            outs,
            c.t(unfold_copy::INPUT)?.unfold(
                c.int(unfold_copy::DIMENSION)?,
                c.int(unfold_copy::SIZE)?,
                c.int(unfold_copy::STEP)?,
            )?,
        )
    }),
    samples: || numbers(&[5], &[0, 2, 1]),
    ..COPY
};

pub static UNSQUEEZE: OpDef = OpDef {
    sig: Sig::parse("unsqueeze_copy(Tensor input, int dim) -> Tensor"),
    doc: "A copy of `unsqueeze`.

Example::

    >>> oneflow.unsqueeze_copy(oneflow.tensor([1, 2]), 0)
    tensor([[1, 2]])",
    compose: Some(|c, outs| copied(outs, c.t(unsqueeze_copy::INPUT)?.unsqueeze(c.int(unsqueeze_copy::DIM)?)?)),
    samples: || numbers(&[3], &[0]),
    ..COPY
};

pub static VIEW: OpDef = OpDef {
    sig: Sig::parse("view_copy(Tensor input, int[] size) -> Tensor"),
    doc: "A copy of `view`.

Example::

    >>> oneflow.view_copy(oneflow.tensor([[1, 2], [3, 4]]), (4,))
    tensor([1, 2, 3, 4])",
    compose: Some(|c, outs| copied(outs, c.t(view_copy::INPUT)?.reshape(c.ints(view_copy::SIZE)?)?)),
    samples: || ints(&[2, 3], &[6]),
    ..COPY
};
