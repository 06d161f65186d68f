//! Tensors joined in the ways NumPy names: hstack, vstack, dstack, column_stack, block_diag, products of vectors.

use super::{COMPOSED, give};
use crate::named::concat as at;
use crate::prelude::*;

const LIST: OpDef = OpDef { faces: Faces::FN.or(Faces::OUT), amp: Amp::Widest, samples: pairs, ..COMPOSED };

fn pairs() -> Vec<Sample> {
    let t = |s: &[i64]| Sample::new(vec![SampleArg::List(vec![SampleArg::f32(s), SampleArg::f32(s)])]);
    vec![t(&[3]), t(&[2, 3])]
}

/// The tensors of the list, each with at least `n` dims as `raise` makes them.
fn raised(c: &Call<'_>, raise: fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    if c.ins.is_empty() {
        return Err(Error::runtime(format!("{}() expects a non-empty TensorList", c.name())));
    }
    c.ins.iter().flatten().map(|t| raise(t)).collect()
}

/// A number becomes a vector, otherwise the tensor itself.
pub fn least_1d(x: &Tensor) -> Result<Tensor> {
    if x.ndim() == 0 { x.reshape(&[1]) } else { Ok(x.clone()) }
}

/// A vector becomes a row.
pub fn least_2d(x: &Tensor) -> Result<Tensor> {
    match x.ndim() {
        0 => x.reshape(&[1, 1]),
        1 => x.unsqueeze(0),
        _ => Ok(x.clone()),
    }
}

/// A matrix gets a last dimension of one, a vector stands in the middle.
pub fn least_3d(x: &Tensor) -> Result<Tensor> {
    match x.ndim() {
        0 => x.reshape(&[1, 1, 1]),
        1 => x.unsqueeze(0)?.unsqueeze(-1),
        2 => x.unsqueeze(-1),
        _ => Ok(x.clone()),
    }
}

pub static HSTACK: OpDef = OpDef {
    sig: Sig::parse("hstack(Tensor[] tensors) -> Tensor"),
    doc: "Side by side: vectors along their dimension, other tensors along the second.

Example::

    >>> oneflow.hstack([oneflow.tensor([1]), oneflow.tensor([2, 3])])
    tensor([1, 2, 3])",
    compose: Some(|c, outs| {
        let parts = raised(c, least_1d)?;
        give(outs, f::cat(&parts, (parts[0].ndim() > 1) as i64)?)
    }),
    ..LIST
};

pub static VSTACK: OpDef = OpDef {
    sig: Sig::parse("vstack(Tensor[] tensors) -> Tensor"),
    doc: "On top of each other: vectors as rows.

Example::

    >>> oneflow.vstack([oneflow.tensor([1, 2]), oneflow.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])",
    compose: Some(|c, outs| give(outs, f::cat(&raised(c, least_2d)?, 0)?)),
    ..LIST
};

pub static ROW_STACK: OpDef = OpDef {
    sig: Sig::parse("row_stack(Tensor[] tensors) -> Tensor"),
    doc: "Another name of `vstack`.

Example::

    >>> oneflow.row_stack([oneflow.tensor([1, 2]), oneflow.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])",
    compose: VSTACK.compose,
    ..LIST
};

pub static DSTACK: OpDef = OpDef {
    sig: Sig::parse("dstack(Tensor[] tensors) -> Tensor"),
    doc: "Behind each other: along the third dimension.

Example::

    >>> oneflow.dstack([oneflow.tensor([1, 2]), oneflow.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])",
    compose: Some(|c, outs| give(outs, f::cat(&raised(c, least_3d)?, 2)?)),
    ..LIST
};

pub static COLUMN_STACK: OpDef = OpDef {
    sig: Sig::parse("column_stack(Tensor[] tensors) -> Tensor"),
    doc: "Side by side, vectors as columns.

Example::

    >>> oneflow.column_stack([oneflow.tensor([1, 2]), oneflow.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])",
    compose: Some(|c, outs| {
        let column = |t: &Tensor| if t.ndim() <= 1 { t.reshape(&[t.numel(), 1]) } else { Ok(t.clone()) };
        give(outs, f::cat(&raised(c, column)?, 1)?)
    }),
    ..LIST
};

pub static CONCAT: OpDef = OpDef {
    sig: Sig::parse("concat(Tensor[] tensors, int dim=0) -> Tensor"),
    doc: "Another name of `cat`.

Example::

    >>> oneflow.concat([oneflow.tensor([1]), oneflow.tensor([2, 3])])
    tensor([1, 2, 3])",
    compose: Some(|c, outs| give(outs, f::cat(c.ins.iter().flatten().copied(), c.int(at::DIM)?)?)),
    ..LIST
};

pub static CONCATENATE: OpDef = OpDef {
    sig: Sig::parse("concatenate(Tensor[] tensors, int dim=0) -> Tensor"),
    doc: "Another name of `cat`.

Example::

    >>> oneflow.concatenate([oneflow.tensor([1]), oneflow.tensor([2, 3])])
    tensor([1, 2, 3])",
    compose: CONCAT.compose,
    ..LIST
};

pub static BLOCK_DIAG: OpDef = OpDef {
    sig: Sig::parse("block_diag(Tensor[] tensors) -> Tensor"),
    doc: "A matrix with the tensors (numbers, rows, matrices) as blocks on its diagonal.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let blocks: Vec<Tensor> = c
            .ins
            .iter()
            .flatten()
            .map(|t| {
                if t.ndim() > 2 {
                    let text = "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input";
                    return Err(Error::runtime(format!("{text} has {} dimensions", t.ndim())));
                }
                least_2d(t)
            })
            .collect::<Result<_>>()?;
        let Some(first) = blocks.first() else {
            return give(outs, f::empty(&[1, 0])?);
        };
        let dtype = blocks.iter().try_fold(first.dtype(), |d, b| oneflow_base::promote(d, b.dtype()))?;
        let width: i64 = blocks.iter().map(|b| b.sizes()[1]).sum();
        let mut at = 0;
        let mut rows = Vec::with_capacity(blocks.len());
        for b in &blocks {
            let (n, k) = (b.sizes()[0], b.sizes()[1]);
            let zeros = |w: i64| b.new_zeros_with(&[n, w], Some(dtype), None, false);
            rows.push(f::cat([&zeros(at)?, b, &zeros(width - at - k)?], 1)?);
            at += k;
        }
        give(outs, f::cat(&rows, 0)?)
    }),
    ..LIST
};

pub static CARTESIAN_PROD: OpDef = OpDef {
    sig: Sig::parse("cartesian_prod(Tensor[] tensors) -> Tensor"),
    doc: "Every combination of one element of each vector, a row each.",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        if let Some(t) = c.ins.iter().flatten().find(|t| t.ndim() != 1) {
            return Err(Error::runtime(format!("Expect a 1D vector, but got shape {:?}", t.sizes())));
        }
        if let [Some(one)] = c.ins {
            return give(outs, (*one).clone());
        }
        let grids = f::meshgrid(c.ins.iter().flatten().copied())?;
        let flat = grids.iter().map(|g| g.reshape(&[-1])).collect::<Result<Vec<_>>>()?;
        give(outs, f::stack(&flat, 1)?)
    }),
    samples: || vec![Sample::new(vec![SampleArg::List(vec![SampleArg::f32(&[3]), SampleArg::f32(&[2])])])],
    ..LIST
};
