//! `select_scatter`: A copy of `input` with `src` at one index of a dimension.

use crate::named::select_scatter;
use crate::prelude::*;

fn selected(c: &Call<'_>, sizes: &[i64], strides: &[i64], start: i64) -> Result<(Dims, Dims, i64)> {
    let (d, i) = (wrap_dim(c.int(select_scatter::DIM)?, sizes.len())?, c.int(select_scatter::INDEX)?);
    let Some(&n) = sizes.get(d) else {
        return Err(Error::index("select_scatter() cannot be applied to a 0-dim tensor."));
    };
    if i < -n || i >= n {
        return Err(Error::index(format!(
            "select_scatter(): index {i} out of range for tensor of size {sizes:?} at dimension {d}"
        )));
    }
    let start = start + (if i < 0 { i + n } else { i }) * strides[d];
    let (mut sizes, mut strides) = (Dims::from_slice(sizes), Dims::from_slice(strides));
    sizes.remove(d);
    strides.remove(d);
    Ok((sizes, strides, start))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("select_scatter(Tensor input, Tensor src, int dim, int index) -> Tensor"),
    doc: "A copy of `input` with `src` at one index of a dimension.

Example::

    >>> oneflow.select_scatter(oneflow.zeros(2, 2), oneflow.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| super::slice_scatter::infer(c, selected, outs),
    kernel: Kernel::Prim { prim: &COPY, lower: |c, outs, l| super::slice_scatter::into_part(c, selected, outs, l) },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let (d, i) =
                (c.arg(select_scatter::DIM).int().unwrap_or(0), c.arg(select_scatter::INDEX).int().unwrap_or(0));
            out.set(select_scatter::INPUT, || {
                c.g()?.select_scatter(&c.g()?.new_zeros(&c.in_meta(select_scatter::SRC)?.sizes)?, d, i)
            })?;
            out.set(select_scatter::SRC, || c.g()?.select(d, i))
        },
    },
    sbp: SbpRule::of(Rows::Custom(|c, rows| super::slice_scatter::other_dims(c, true, rows))),
    samples: || {
        let i = SampleArg::Int;
        let t = |a: &[i64], b: &[i64], d, k| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b), i(d), i(k)]);
        vec![t(&[3, 4], &[4], 0, 1), t(&[3, 4], &[3], -1, -2)]
    },
    ..OpDef::BASE
};
