//! Two dimensions exchanged.

use super::VIEW;
use crate::named::transpose as at;
use crate::prelude::*;

fn dims(c: &Call<'_>) -> Result<(usize, usize)> {
    let n = c.t(at::INPUT)?.ndim();
    Ok((wrap_dim(c.int(at::DIM0)?, n)?, wrap_dim(c.int(at::DIM1)?, n)?))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("transpose(Tensor(a) input, int dim0, int dim1) -> Tensor(a)"),
    doc: "A view with two dimensions exchanged.

Example::

    >>> oneflow.zeros(2, 3).transpose(0, 1).shape
    oneflow.Size([3, 2])",
    infer: |c, outs| {
        let x = c.t(at::INPUT)?;
        let (a, b) = dims(c)?;
        let (mut sizes, mut strides) = (Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()));
        if x.ndim() > 0 {
            sizes.swap(a, b);
            strides.swap(a, b);
        }
        outs.view(at::INPUT, x, sizes, strides, x.offset())
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let (a, b) = (c.arg(at::DIM0).int().unwrap_or(0), c.arg(at::DIM1).int().unwrap_or(0));
            out.set(at::INPUT, || c.g()?.transpose(a, b))
        },
    },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let (a, b) = dims(c)?;
        for i in 0..c.t(at::INPUT)?.ndim() {
            let to = if i == a {
                b
            } else if i == b {
                a
            } else {
                i
            };
            groups.push(DimGroup { ins: SmallVec::from_slice(&[i as u8]), outs: SmallVec::from_slice(&[to as u8]) });
        }
        Ok(())
    })),
    samples: || {
        let t = |s: &[i64], a, b| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(a), SampleArg::Int(b)]);
        vec![t(&[2, 3, 4], 0, 2), t(&[2, 3], -1, -2), t(&[], 0, -1), t(&[0, 3], 0, 1)]
    },
    sparse: Sparse::Transpose,
    ..VIEW
};
