//! Shapes made to agree: broadcast_to, broadcast_tensors, meshgrid, atleast_1d and the like.

use super::stacks::{least_1d, least_2d, least_3d};
use super::{COMPOSED, give, give_all};
use crate::named::{atleast_1d, atleast_2d, atleast_3d, broadcast_to, meshgrid, sum_to_size};
use crate::prelude::*;

pub static TO: OpDef = OpDef {
    sig: Sig::parse("broadcast_to(Tensor(a) input, int[] size) -> Tensor(a)"),
    doc: "A view in which dimensions of size one repeat.

Example::

    >>> oneflow.broadcast_to(oneflow.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])",
    compose: Some(|c, outs| give(outs, c.t(broadcast_to::INPUT)?.expand(c.ints(broadcast_to::SIZE)?)?)),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 1]), SampleArg::Ints(vec![2, 3, 4])])],
    ..COMPOSED
};

fn pair(a: &[i64], b: &[i64]) -> Vec<Sample> {
    vec![Sample::new(vec![SampleArg::List(vec![SampleArg::f32(a), SampleArg::f32(b)])])]
}

pub static TENSORS: OpDef = OpDef {
    sig: Sig::parse("broadcast_tensors(Tensor[] tensors) -> Tensor[]"),
    doc: "The tensors expanded to their common size.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let mut sizes = Dims::new();
        for t in c.ins.iter().flatten() {
            sizes = broadcast_shapes(&sizes, t.sizes())?;
        }
        give_all(outs, c.ins.iter().flatten().map(|t| t.expand(&sizes)).collect::<Result<Vec<_>>>()?)
    }),
    samples: || pair(&[3, 1], &[4]),
    ..COMPOSED
};

pub static MESHGRID: OpDef = OpDef {
    sig: Sig::parse("meshgrid(Tensor[] tensors, *, str? indexing=None) -> Tensor[]"),
    doc: "Coordinates of a grid: each vector along its own dimension, repeated along the others. With `indexing` \"xy\" the
first two dimensions are exchanged.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let n = c.ins.len();
        let Some(first) = c.opt(meshgrid::TENSORS.first()) else {
            return Err(Error::runtime("meshgrid expects a non-empty TensorList"));
        };
        for t in c.ins.iter().flatten() {
            if t.ndim() > 1 {
                return Err(Error::runtime(format!(
                    "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {:?}",
                    t.sizes()
                )));
            }
            if t.dtype() != first.dtype() {
                return Err(Error::runtime("torch.meshgrid expects all tensors to have the same dtype"));
            }
        }
        let swap = match c.arg(meshgrid::INDEXING).str().unwrap_or("ij") {
            "ij" => false,
            "xy" => n >= 2,
            other => {
                return Err(Error::runtime(format!(
                    "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {other}"
                )));
            }
        };
        let mut list: Vec<&Tensor> = c.ins.iter().flatten().copied().collect();
        if swap {
            list.swap(0, 1);
        }
        let sizes: Dims = list.iter().map(|t| t.numel()).collect();
        let mut grids = Vec::with_capacity(n);
        for (i, t) in list.iter().enumerate() {
            let mut own: Dims = SmallVec::from_elem(1, n);
            own[i] = -1;
            grids.push(t.reshape(&own)?.expand(&sizes)?);
        }
        if swap {
            grids.swap(0, 1);
        }
        give_all(outs, grids)
    }),
    samples: || pair(&[3], &[2]),
    ..COMPOSED
};

fn of_each_rank() -> Vec<Sample> {
    [&[][..], &[3], &[2, 3]].iter().map(|s| Sample::new(vec![SampleArg::f32(s)])).collect()
}

pub static LEAST_1D: OpDef = OpDef {
    sig: Sig::parse("atleast_1d(Tensor(a) input) -> Tensor(a)"),
    doc: "The tensor with one dimension at least.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| give(outs, least_1d(c.t(atleast_1d::INPUT)?)?)),
    samples: of_each_rank,
    ..COMPOSED
};

pub static LEAST_2D: OpDef = OpDef {
    sig: Sig::parse("atleast_2d(Tensor(a) input) -> Tensor(a)"),
    doc: "The tensor with two dimensions at least.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| give(outs, least_2d(c.t(atleast_2d::INPUT)?)?)),
    samples: of_each_rank,
    ..COMPOSED
};

pub static LEAST_3D: OpDef = OpDef {
    sig: Sig::parse("atleast_3d(Tensor(a) input) -> Tensor(a)"),
    doc: "The tensor with three dimensions at least.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| give(outs, least_3d(c.t(atleast_3d::INPUT)?)?)),
    samples: of_each_rank,
    ..COMPOSED
};

pub static SUM_TO_SIZE: OpDef = OpDef {
    sig: Sig::parse("sum_to_size(Tensor input, int[] size) -> Tensor"),
    doc: "Sums over the dimensions along which `size` broadcasts to the tensor's size.

Example::

    >>> oneflow.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])",
    faces: Faces::METHOD,
    compose: Some(|c, outs| {
        let (x, size) = (c.t(sum_to_size::INPUT)?, c.ints(sum_to_size::SIZE)?);
        if !broadcast_shapes(size, x.sizes()).is_ok_and(|s| s.as_slice() == x.sizes()) {
            return Err(Error::runtime(format!("size {{{size:?}}} is not expandable to size {{{:?}}}.", x.sizes())));
        }
        let lead = x.ndim() - size.len();
        let dims: Dims = (0..x.ndim())
            .filter(|i| *i < lead || size[i - lead] == 1 && x.sizes()[*i] != 1)
            .map(|i| i as i64)
            .collect();
        let y = if dims.is_empty() { x.clone() } else { x.sum(&dims, true)? };
        give(outs, if lead > 0 { y.view(size)? } else { y })
    }),
    samples: || {
        let t = |s: &[i64], n: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(n.to_vec())]);
        vec![t(&[2, 3], &[1, 3]), t(&[2, 3], &[3]), t(&[2, 3], &[]), t(&[2, 3], &[2, 3])]
    },
    ..COMPOSED
};
