//! Views as copies: the same shapes in memory of their own.

use super::{COMPOSED, give};
use crate::prelude::*;

const COPY: OpDef = OpDef { faces: Faces::FN.or(Faces::OUT), ..COMPOSED };

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
    compose: Some(|c, outs| copied(outs, c.t(0)?.clone())),
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
    compose: Some(|c, outs| copied(outs, c.t(0)?.as_strided(c.ints(0)?, c.ints(1)?, c.arg(2).int())?)),
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
    compose: Some(|c, outs| copied(outs, c.t(0)?.diagonal(c.int(0)?, c.int(1)?, c.int(2)?)?)),
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
    compose: Some(|c, outs| copied(outs, c.t(0)?.expand(c.ints(0)?)?)),
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
        let (x, dim) = (c.t(0)?, c.int(0)?);
        if dim >= x.ndim() as i64 && x.ndim() > 0 {
            return Err(Error::runtime(format!("narrow_copy(): no dimension {dim} in {:?}", x.sizes())));
        }
        copied(outs, x.narrow(dim, c.int(1)?, c.int(2)?)?)
    }),
    samples: || numbers(&[5, 2], &[0, 1, 3]),
    traits: Traits::EXACT_OUT,
    ..COPY
};

pub static PERMUTE: OpDef = OpDef {
    sig: Sig::parse("permute_copy(Tensor input, int[] dims) -> Tensor"),
    doc: "A copy of `permute`.

Example::

    >>> oneflow.permute_copy(oneflow.zeros(2, 3), (1, 0)).shape
    oneflow.Size([3, 2])",
    compose: Some(|c, outs| copied(outs, c.t(0)?.permute(c.ints(0)?)?)),
    samples: || ints(&[2, 3], &[1, 0]),
    ..COPY
};

pub static SELECT: OpDef = OpDef {
    sig: Sig::parse("select_copy(Tensor input, int dim, int index) -> Tensor"),
    doc: "A copy of `select`.

Example::

    >>> oneflow.select_copy(oneflow.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])",
    compose: Some(|c, outs| copied(outs, c.t(0)?.select(c.int(0)?, c.int(1)?)?)),
    samples: || numbers(&[3, 2], &[0, 1]),
    ..COPY
};

pub static SLICE: OpDef = OpDef {
    sig: Sig::parse("slice_copy(Tensor input, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor"),
    doc: "A copy of `input[start:end:step]` along a dimension.

Example::

    >>> oneflow.slice_copy(oneflow.tensor([1, 2, 3, 4]), 0, 1, 4, 2)
    tensor([2, 4])",
    compose: Some(|c, outs| copied(outs, c.t(0)?.slice(c.int(0)?, c.arg(1).int(), c.arg(2).int(), c.int(3)?)?)),
    samples: || numbers(&[5, 2], &[0, 1, 4, 2]),
    ..COPY
};

pub static SQUEEZE: OpDef = OpDef {
    sig: Sig::parse("squeeze_copy(Tensor input) -> Tensor"),
    doc: "A copy of `squeeze`.

Example::

    >>> oneflow.squeeze_copy(oneflow.tensor([[1, 2]]))
    tensor([1, 2])",
    compose: Some(|c, outs| copied(outs, c.t(0)?.squeeze()?)),
    samples: || numbers(&[1, 3], &[]),
    ..COPY
};

pub static SQUEEZE_DIM: OpDef = OpDef {
    sig: Sig::parse("squeeze_copy.dim(Tensor input, int[1] dim) -> Tensor"),
    compose: Some(|c, outs| copied(outs, c.t(0)?.squeeze_dim(c.ints(0)?)?)),
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
    compose: Some(|c, outs| copied(outs, c.t(0)?.t()?)),
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
    compose: Some(|c, outs| copied(outs, c.t(0)?.transpose(c.int(0)?, c.int(1)?)?)),
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
    compose: Some(|c, outs| copied(outs, c.t(0)?.unfold(c.int(0)?, c.int(1)?, c.int(2)?)?)),
    samples: || numbers(&[5], &[0, 2, 1]),
    ..COPY
};

pub static UNSQUEEZE: OpDef = OpDef {
    sig: Sig::parse("unsqueeze_copy(Tensor input, int dim) -> Tensor"),
    doc: "A copy of `unsqueeze`.

Example::

    >>> oneflow.unsqueeze_copy(oneflow.tensor([1, 2]), 0)
    tensor([[1, 2]])",
    compose: Some(|c, outs| copied(outs, c.t(0)?.unsqueeze(c.int(0)?)?)),
    samples: || numbers(&[3], &[0]),
    ..COPY
};

pub static VIEW: OpDef = OpDef {
    sig: Sig::parse("view_copy(Tensor input, int[] size) -> Tensor"),
    doc: "A copy of `view`.

Example::

    >>> oneflow.view_copy(oneflow.tensor([[1, 2], [3, 4]]), (4,))
    tensor([1, 2, 3, 4])",
    compose: Some(|c, outs| copied(outs, c.t(0)?.reshape(c.ints(0)?)?)),
    samples: || ints(&[2, 3], &[6]),
    ..COPY
};
