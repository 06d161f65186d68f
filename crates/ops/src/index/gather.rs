//! `gather`: `out[i][j] = input[index[i][j]][j]` for `dim=0`, and so on.

use super::{cast_index, check_index, only_wide};
use crate::named::gather;
use crate::prelude::*;

/// Sizes of `index` may not exceed those of `x`, except along `dim`.
pub(super) fn check(c: &Call<'_>, x: &Tensor, index: &Tensor, dim: usize) -> Result<()> {
    check_index(c.name(), index, true)?;
    if index.numel() == 0 {
        return Ok(());
    }
    if index.ndim().max(1) != x.ndim().max(1) {
        return Err(Error::runtime(format!(
            "{}(): Index tensor must have the same number of dimensions as input tensor (index {:?}, input {:?})",
            c.name(),
            index.sizes(),
            x.sizes()
        )));
    }
    if index.ndim() == x.ndim() && (0..x.ndim()).any(|i| i != dim && index.sizes()[i] > x.sizes()[i]) {
        return Err(Error::runtime(format!(
            "{}(): Size does not match: expected index {:?} to be no larger than self {:?} apart from dimension {dim}",
            c.name(),
            index.sizes(),
            x.sizes()
        )));
    }
    Ok(())
}

/// Sizes (and strides) of an index without elements, whose own shape does not count.
pub(super) fn nothing(x: &Tensor, index: &Tensor) -> Option<Dims> {
    (index.numel() == 0).then(|| SmallVec::from_elem(0, x.ndim().max(1)))
}

/// A 0-dim tensor seen with one dimension.
pub(super) fn push_input(l: &mut Lowered, at: In, t: &Tensor) {
    if t.ndim() == 0 {
        l.input_as(at, Dims::from_slice(&[1]), Dims::from_slice(&[1]), t.offset());
    } else {
        l.input(at);
    }
}

pub(super) fn push_output(l: &mut Lowered, t: &Tensor) {
    if t.ndim() == 0 {
        l.output_as(gather::RESULT, Dims::from_slice(&[1]), Dims::from_slice(&[1]), t.offset());
    } else {
        l.output(gather::RESULT);
    }
}

pub fn rows(c: &Call<'_>, n_ins: usize, rows: &mut Vec<Row>) -> Result<()> {
    let x = c.t(gather::INPUT)?;
    let (dim, index) = (wrap_dim(c.int(gather::DIM)?, x.ndim())?, c.t(gather::INDEX)?);
    for i in 0..x.ndim().min(index.ndim()) {
        if i != dim && x.sizes()[i] == index.sizes()[i] {
            let s = Sbp::S(i as u8);
            rows.push(Row { ins: SmallVec::from_elem(s, n_ins), outs: SmallVec::from_slice(&[s]) });
        }
    }
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("gather(Tensor input, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"),
    doc: "`out[i][j] = input[index[i][j]][j]` for `dim=0`, and so on.

Example::

    >>> oneflow.gather(oneflow.tensor([[1., 2.], [3., 4.]]), 1, oneflow.tensor([[0], [1]]))
    tensor([[1.],
            [4.]])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let (x, i) = (c.t(gather::INPUT)?, c.t(gather::INDEX)?);
        check(c, x, i, wrap_dim(c.int(gather::DIM)?, x.ndim())?)?;
        outs.push(x.dtype(), x.device(), i.sizes())
    },
    kernel: Kernel::Prim {
        prim: &GATHER,
        lower: |c, outs, l| {
            only_wide(c, gather::INDEX)?;
            push_input(l, gather::INPUT, c.t(gather::INPUT)?);
            match nothing(c.t(gather::INPUT)?, c.t(gather::INDEX)?) {
                Some(none) => {
                    l.input_as(gather::INDEX, none.clone(), none.clone(), 0).output_as(
                        gather::RESULT,
                        none.clone(),
                        none,
                        0,
                    );
                }
                None => {
                    push_input(l, gather::INDEX, c.t(gather::INDEX)?);
                    push_output(l, &outs[gather::RESULT]);
                }
            }
            l.with(DimParams { dim: wrap_dim(c.int(gather::DIM)?, c.t(gather::INPUT)?.ndim())? });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        outs.give(c.t(gather::INPUT)?.gather(c.int(gather::DIM)?, &cast_index(c, gather::INDEX)?)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(gather::INDEX, &[gather::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            let d = c.arg(gather::DIM).int().unwrap_or(0);
            out.set(gather::INPUT, || {
                c.g()?.new_zeros(&c.in_meta(gather::INPUT)?.sizes)?.scatter_add(d, c.x(gather::INDEX)?, c.g()?)
            })
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, r| rows(c, 2, r))),
    samples: || {
        let t =
            |s: &[i64], d, i: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::i64(i, 0, 3)]);
        vec![t(&[3, 4], 0, &[2, 4]), t(&[4, 3], 1, &[4, 5]), t(&[3], -1, &[4]), t(&[3, 2], 0, &[0, 2])]
    },
    traits: Traits::EXACT_OUT,
    ..OpDef::BASE
};
