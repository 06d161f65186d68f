//! Diagonals: the view, and the tensors made of or with them.

use super::scatter::into_part;
use super::{COMPOSED, VIEW, give};
use crate::named::{diag, diag_embed, diagflat, diagonal, diagonal_scatter};
use crate::prelude::*;

/// The two dims (different, wrapped) of arguments `at + 1` and `at + 2`.
fn dims(name: &str, n: usize, a: i64, b: i64) -> Result<(usize, usize)> {
    let (d1, d2) = (wrap_dim(a, n)?, wrap_dim(b, n)?);
    if d1 == d2 {
        return Err(Error::runtime(format!("{name}(): diagonal dimensions cannot be identical {a}, {b}")));
    }
    Ok((d1, d2))
}

/// Sizes, strides and offset of the diagonal of a layout; the diagonal becomes the last dim.
fn part(c: &Call<'_>, sizes: &[i64], strides: &[i64], start: i64) -> Result<(Dims, Dims, i64)> {
    let (d1, d2) = dims(c.name(), sizes.len(), c.int(diagonal::DIM1)?, c.int(diagonal::DIM2)?)?;
    let at = c.int(diagonal::OFFSET)?;
    let n =
        if at >= 0 { sizes[d1].min(sizes[d2].saturating_sub(at)) } else { sizes[d2].min(sizes[d1].saturating_add(at)) };
    let n = n.max(0);
    let step = match n {
        0 => 0,
        _ if at >= 0 => at * strides[d2],
        _ => -at * strides[d1],
    };
    let keep =
        |v: &[i64]| v.iter().enumerate().filter(|(i, _)| *i != d1 && *i != d2).map(|(_, s)| *s).collect::<Dims>();
    let (mut out_sizes, mut out_strides) = (keep(sizes), keep(strides));
    out_sizes.push(n);
    out_strides.push(strides[d1] + strides[d2]);
    Ok((out_sizes, out_strides, start + step))
}

fn int_samples(sizes: &[(&[i64], &[i64])]) -> Vec<Sample> {
    let args = |(s, ints): &(&[i64], &[i64])| {
        let mut args = vec![SampleArg::f32(s)];
        args.extend(ints.iter().map(|i| SampleArg::Int(*i)));
        Sample::new(args)
    };
    sizes.iter().map(args).collect()
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("diagonal(Tensor(a) input, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)"),
    doc: "A view of the diagonal of two dimensions, as the last dimension. A positive `offset` lies above the main diagonal.

Example::

    >>> oneflow.diagonal(oneflow.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])",
    infer: |c, outs| {
        let x = c.t(diagonal::INPUT)?;
        let (sizes, strides, offset) = part(c, x.sizes(), x.strides(), x.offset())?;
        outs.view(diagonal::INPUT, x, sizes, strides, offset)
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let int = |at: At<i64>, d| c.arg(at).int().unwrap_or(d);
            let sizes = &c.in_meta(diagonal::INPUT)?.sizes;
            out.set(diagonal::INPUT, || c.g()?.new_zeros(sizes)?.diagonal_scatter(
                    c.g()?,
                    int(diagonal::OFFSET, 0),
                    int(diagonal::DIM1, 0),
                    int(diagonal::DIM2, 1),
                ))
        },
    },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let n = c.t(diagonal::INPUT)?.ndim();
        let (d1, d2) = dims(c.name(), n, c.int(diagonal::DIM1)?, c.int(diagonal::DIM2)?)?;
        for (to, from) in (0..n).filter(|i| *i != d1 && *i != d2).enumerate() {
            groups.push(DimGroup { ins: SmallVec::from_slice(&[from as u8]), outs: SmallVec::from_slice(&[to as u8]) });
        }
        Ok(())
    })),
    samples: || int_samples(&[(&[3, 4], &[]), (&[3, 4], &[1]), (&[2, 4, 3], &[-1, 1, -1]), (&[2, 2], &[5])]),
    ..VIEW
};

pub static SCATTER: OpDef = OpDef {
    sig: Sig::parse("diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"),
    doc: "A copy of `input` with `src` on the diagonal of two dimensions.

Example::

    >>> oneflow.diagonal_scatter(oneflow.zeros(2, 2), oneflow.ones(2))
    tensor([[1., 0.],
            [0., 1.]])",
    infer: |c, outs| super::scatter::infer(c, part, outs),
    kernel: Kernel::Prim { prim: &COPY, lower: |c, outs, l| into_part(c, part, outs, l) },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let int = |at: At<i64>, d| c.arg(at).int().unwrap_or(d);
            use diagonal_scatter as at;
            let (o, a, b) = (int(at::OFFSET, 0), int(at::DIM1, 0), int(at::DIM2, 1));
            out.set(diagonal_scatter::INPUT, || {
                c.g()?.diagonal_scatter(&c.g()?.new_zeros(&c.in_meta(diagonal_scatter::SRC)?.sizes)?, o, a, b)
            })?;
            out.set(diagonal_scatter::SRC, || c.g()?.diagonal(o, a, b))
        },
    },
    samples: || {
        let t = |a: &[i64], b: &[i64], o| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b), SampleArg::Int(o)]);
        vec![t(&[3, 4], &[3], 0), t(&[3, 4], &[2], -1)]
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "the diagonal crosses both dimensions" }),
    faces: Faces::FN_METHOD,
    ..OpDef::BASE
};

pub static DIAG: OpDef = OpDef {
    sig: Sig::parse("diag(Tensor input, int diagonal=0) -> Tensor"),
    doc: "A matrix with the vector on its diagonal, or the diagonal of a matrix (a copy).

Example::

    >>> oneflow.diag(oneflow.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let x = c.t(diag::INPUT)?;
        match x.ndim() {
            1 => give(outs, x.diag_embed(c.int(diag::DIAGONAL)?, 0, 1)?),
            2 => give(outs, x.diagonal(c.int(diag::DIAGONAL)?, 0, 1)?.clone_contiguous()?),
            n => Err(Error::runtime(format!("diag(): Supports 1D or 2D tensors. Got {n}D"))),
        }
    }),
    samples: || int_samples(&[(&[3], &[]), (&[3], &[-1]), (&[3, 4], &[1])]),
    traits: Traits::EXACT_OUT,
    ..COMPOSED
};

pub static EMBED: OpDef = OpDef {
    sig: Sig::parse("diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"),
    doc: "Matrices in two new dimensions, with the last dimension of `input` on their diagonals and zeros elsewhere.

Example::

    >>> oneflow.diag_embed(oneflow.tensor([[1, 2]]))
    tensor([[[1, 0],
             [0, 2]]])",
    compose: Some(|c, outs| {
        let (x, at) = (c.t(diag_embed::INPUT)?, c.int(diag_embed::OFFSET)?);
        let n = x.ndim() + 1;
        let (d1, d2) = dims(c.name(), n, c.int(diag_embed::DIM1)?, c.int(diag_embed::DIM2)?)?;
        let last = *x.sizes().last().ok_or_else(|| Error::runtime("diag_embed(): input must have a dimension"))?;
        let side = at.checked_abs().and_then(|at| at.checked_add(last));
        let side = side.ok_or_else(|| Error::runtime(format!("diag_embed(): offset {at} is too large")))?;
        let mut sizes = Dims::from_slice(&x.sizes()[..n - 2]);
        sizes.insert(d1.min(d2), side);
        sizes.insert(d1.max(d2), side);
        give(outs, x.new_zeros(&sizes)?.diagonal_scatter(x, at, d1 as i64, d2 as i64)?)
    }),
    samples: || int_samples(&[(&[3], &[]), (&[2, 3], &[1]), (&[2, 3], &[-1, 0, 2])]),
    ..COMPOSED
};

pub static FLAT: OpDef = OpDef {
    sig: Sig::parse("diagflat(Tensor input, int offset=0) -> Tensor"),
    doc: "A matrix with the elements of `input`, flattened, on its diagonal.

Example::

    >>> oneflow.diagflat(oneflow.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])",
    compose: Some(|c, outs| {
        give(outs, c.t(diagflat::INPUT)?.reshape(&[-1])?.diag_embed(c.int(diagflat::OFFSET)?, 0, 1)?)
    }),
    samples: || int_samples(&[(&[3], &[]), (&[2, 2], &[-1]), (&[], &[])]),
    ..COMPOSED
};
