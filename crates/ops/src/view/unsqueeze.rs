//! A dimension of size one more.

use super::VIEW;
use crate::named::unsqueeze as at;
use crate::prelude::*;

fn position(c: &Call<'_>) -> Result<usize> {
    wrap_dim(c.int(at::DIM)?, c.t(at::INPUT)?.ndim() + 1)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("unsqueeze(Tensor(a) input, int dim) -> Tensor(a)"),
    doc: "A view with a dimension of size one inserted at `dim`.

Example::

    >>> oneflow.zeros(3).unsqueeze(0).shape
    oneflow.Size([1, 3])",
    infer: |c, outs| {
        let (x, d) = (c.t(at::INPUT)?, position(c)?);
        let (mut sizes, mut strides) = (Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()));
        let stride = if d < x.ndim() { sizes[d] * strides[d] } else { 1 };
        sizes.insert(d, 1);
        strides.insert(d, stride);
        outs.view(at::INPUT, x, sizes, strides, x.offset())
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let d = c.arg(at::DIM).int().unwrap_or(0);
            out.set(at::INPUT, || c.g()?.squeeze_dim(&[d]))
        },
    },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let d = position(c)?;
        for i in 0..c.t(at::INPUT)?.ndim() {
            groups.push(DimGroup {
                ins: SmallVec::from_slice(&[i as u8]),
                outs: SmallVec::from_slice(&[(i + (i >= d) as usize) as u8]),
            });
        }
        Ok(())
    })),
    samples: || {
        let t = |s: &[i64], d| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d)]);
        vec![t(&[2, 3], 0), t(&[2, 3], -1), t(&[], 0), t(&[0, 2], 1)]
    },
    sparse: Sparse::Unsqueeze,
    ..VIEW
};
