//! `slice_scatter`: A copy of `input` with `src` in `start:end:step` of a dimension.

use crate::elementwise::push_like;
use crate::named::{select_scatter, slice_scatter};
use crate::prelude::*;

/// The layout of the part that is written, from sizes, strides and offset of the whole.
pub type Part = fn(&Call<'_>, &[i64], &[i64], i64) -> Result<(Dims, Dims, i64)>;

/// The result has the input's meta; the source has the part's sizes.
pub fn infer(c: &Call<'_>, part: Part, outs: &mut Outs) -> Result<()> {
    let (x, src) = (c.t(select_scatter::INPUT)?, c.t(select_scatter::SRC)?);
    let (sizes, ..) = part(c, x.sizes(), x.strides(), 0)?;
    if src.sizes() != sizes.as_slice() {
        return Err(Error::runtime(format!(
            "{}(): expected src to have a size equal to the slice of self. src size = {:?}, slice size = {:?}",
            c.name(),
            src.sizes(),
            sizes.as_slice()
        )));
    }
    // The copy keeps gaps between elements, as torch's does; only repeated elements get room of their own.
    if x.sizes().iter().zip(x.strides()).any(|(n, s)| *n > 1 && *s == 0) {
        return push_like(x, x.dtype(), x.device(), None, outs);
    }
    outs.push_strided(x.dtype(), x.device(), Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()))
}

/// Copies input 1 into the part of the output, which starts as input 0.
pub fn into_part(c: &Call<'_>, part: Part, outs: &Outs, l: &mut Lowered) -> Result<()> {
    let (sizes, strides, offset) = part(
        c,
        outs[select_scatter::RESULT].sizes(),
        outs[select_scatter::RESULT].strides(),
        outs[select_scatter::RESULT].offset(),
    )?;
    l.starts_as(select_scatter::INPUT);
    l.input(select_scatter::SRC).output_as(select_scatter::RESULT, sizes, strides, offset);
    Ok(())
}

fn sliced(c: &Call<'_>, sizes: &[i64], strides: &[i64], start: i64) -> Result<(Dims, Dims, i64)> {
    let d = wrap_dim(c.int(slice_scatter::DIM)?, sizes.len())?;
    let Some(&n) = sizes.get(d) else {
        return Err(Error::runtime("slice_scatter() cannot be applied to a 0-dim tensor."));
    };
    let step = c.int(slice_scatter::STEP)?;
    if step <= 0 {
        return Err(Error::runtime("slice step must be positive"));
    }
    let at = |v: i64| (if v < 0 { v.saturating_add(n) } else { v }).clamp(0, n);
    let from = at(c.arg(slice_scatter::START).int().unwrap_or(0));
    let to = at(c.arg(slice_scatter::END).int().unwrap_or(n)).max(from);
    let start = start + from * strides[d];
    let (mut sizes, mut strides) = (Dims::from_slice(sizes), Dims::from_slice(strides));
    sizes[d] = super::slice::slice_len(from, to, step);
    // A step beyond the end leaves one element, whose stride does not matter.
    strides[d] = strides[d].saturating_mul(step);
    Ok((sizes, strides, start))
}

/// Every dim but the written one may be split alike in both.
pub(super) fn other_dims(c: &Call<'_>, removed: bool, rows: &mut Vec<Row>) -> Result<()> {
    let n = c.t(select_scatter::INPUT)?.ndim();
    let d = wrap_dim(c.int(select_scatter::DIM)?, n)?;
    for i in (0..n).filter(|i| *i != d) {
        let (x, src) = (Sbp::S(i as u8), Sbp::S((i - (removed && i > d) as usize) as u8));
        rows.push(Row { ins: SmallVec::from_slice(&[x, src]), outs: SmallVec::from_slice(&[x]) });
    }
    let p = Sbp::P_SUM;
    rows.push(Row { ins: SmallVec::from_slice(&[p, p]), outs: SmallVec::from_slice(&[p]) });
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
    ),
    doc: "A copy of `input` with `src` in `start:end:step` of a dimension.

Example::

    >>> oneflow.slice_scatter(oneflow.zeros(4), oneflow.ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| infer(c, sliced, outs),
    kernel: Kernel::Prim { prim: &COPY, lower: |c, outs, l| into_part(c, sliced, outs, l) },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let (d, from, to) = (
                c.arg(slice_scatter::DIM).int().unwrap_or(0),
                c.arg(slice_scatter::START).int(),
                c.arg(slice_scatter::END).int(),
            );
            let step = c.arg(slice_scatter::STEP).int().unwrap_or(1);
            out.set(slice_scatter::INPUT, || {
                c.g()?.slice_scatter(&c.g()?.new_zeros(&c.in_meta(slice_scatter::SRC)?.sizes)?, d, from, to, step)
            })?;
            out.set(slice_scatter::SRC, || c.g()?.slice(d, from, to, step))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| other_dims(c, false, rows))),
    samples: || {
        let i = SampleArg::Int;
        let t = |a: &[i64], b: &[i64], d, from, to, step| {
            Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b), i(d), i(from), i(to), i(step)])
        };
        vec![t(&[5, 4], &[2, 4], 0, 1, 3, 1), t(&[3, 4], &[3, 2], 1, 0, 100, 2)]
    },
    traits: Traits::EXACT_OUT,
    ..OpDef::BASE
};
