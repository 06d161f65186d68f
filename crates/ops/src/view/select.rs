//! `select`: A view of one index along a dimension, which disappears.

use super::VIEW;
use crate::named::select;
use crate::prelude::*;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("select(Tensor(a) input, int dim, int index) -> Tensor(a)"),
    doc: "A view of one index along a dimension, which disappears.

Example::

    >>> oneflow.select(oneflow.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])",
    infer: |c, outs| {
        let x = c.t(select::INPUT)?;
        if x.ndim() == 0 {
            return Err(Error::index("select() cannot be applied to a 0-dim tensor."));
        }
        let (d, i) = (wrap_dim(c.int(select::DIM)?, x.ndim())?, c.int(select::INDEX)?);
        let n = x.sizes()[d];
        if i < -n || i >= n {
            return Err(Error::index(format!(
                "select(): index {i} out of range for tensor of size {:?} at dimension {d}",
                x.sizes()
            )));
        }
        let i = if i < 0 { i + n } else { i };
        let (mut sizes, mut strides) = (Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()));
        let offset = x.offset() + i * strides[d];
        sizes.remove(d);
        strides.remove(d);
        outs.view(select::INPUT, x, sizes, strides, offset)
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let m = c.in_meta(select::INPUT)?;
            let (d, i) = (c.arg(select::DIM).int().unwrap_or(0), c.arg(select::INDEX).int().unwrap_or(0));
            let d = wrap_dim(d, m.sizes.len())?;
            let i = if i < 0 { i + m.sizes[d] } else { i };
            out.set(select::INPUT, || c.g()?.unsqueeze(d as i64)?.slice_backward(&m.sizes, d as i64, i, i + 1, 1))
        },
    },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let d = wrap_dim(c.int(select::DIM)?, c.t(select::INPUT)?.ndim())?;
        super::slice::groups_without(c, d, true, groups)
    })),
    samples: || {
        let t = |s: &[i64], d, i| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::Int(i)]);
        vec![t(&[3, 4], 0, 1), t(&[3, 4], -1, -2), t(&[2, 3, 4], 1, 0)]
    },
    sparse: Sparse::Select,
    ..VIEW
};
