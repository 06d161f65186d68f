//! `diagonal`, `diagonal_scatter`: A view of the diagonal of two dimensions, as the last dimension. A positive
//! `offset` lies above the main diagonal.

use super::VIEW;
use super::slice_scatter::into_part;
use crate::named::{diagonal, diagonal_scatter};
use crate::prelude::*;

/// The two dims (different, wrapped) of arguments `at + 1` and `at + 2`.
pub(super) fn dims(name: &str, n: usize, a: i64, b: i64) -> Result<(usize, usize)> {
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

pub(super) fn int_samples(sizes: &[(&[i64], &[i64])]) -> Vec<Sample> {
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
    infer: |c, outs| super::slice_scatter::infer(c, part, outs),
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
