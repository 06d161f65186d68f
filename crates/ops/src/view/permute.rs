//! Dimensions in another order.

use super::VIEW;
use crate::named::permute as at;
use crate::prelude::*;

/// The dims as indices, checked to be a permutation.
fn order(c: &Call<'_>) -> Result<SmallVec<[usize; 6]>> {
    let (x, dims) = (c.t(at::INPUT)?, c.ints(at::DIMS)?);
    if dims.len() != x.ndim() {
        return Err(Error::runtime(format!(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
            x.ndim(),
            dims.len()
        )));
    }
    let mut seen = 0u64;
    let mut out = SmallVec::new();
    for &d in dims {
        let d = wrap_dim(d, x.ndim())?;
        if seen >> d & 1 == 1 {
            return Err(Error::runtime(format!("permute(): duplicate dims are not allowed, got {dims:?}")));
        }
        seen |= 1 << d;
        out.push(d);
    }
    Ok(out)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("permute(Tensor(a) input, int[] dims) -> Tensor(a)"),
    doc: "A view with the dimensions in the given order.

Example::

    >>> oneflow.zeros(2, 3, 4).permute(2, 0, 1).shape
    oneflow.Size([4, 2, 3])",
    infer: |c, outs| {
        let x = c.t(at::INPUT)?;
        let order = order(c)?;
        let pick = |v: &[i64]| order.iter().map(|&d| v[d]).collect::<Dims>();
        outs.view(at::INPUT, x, pick(x.sizes()), pick(x.strides()), x.offset())
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let dims = c.arg(at::DIMS).ints().unwrap_or(&[]);
            let mut back: Dims = SmallVec::from_elem(0, dims.len());
            for (i, &d) in dims.iter().enumerate() {
                back[wrap_dim(d, dims.len())?] = i as i64;
            }
            out.set(at::INPUT, || c.g()?.permute(&back))
        },
    },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        for (to, from) in order(c)?.into_iter().enumerate() {
            groups.push(DimGroup { ins: SmallVec::from_slice(&[from as u8]), outs: SmallVec::from_slice(&[to as u8]) });
        }
        Ok(())
    })),
    samples: || {
        let t = |s: &[i64], d: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(d.to_vec())]);
        vec![t(&[2, 3, 4], &[2, 0, 1]), t(&[2, 3], &[-1, 0]), t(&[], &[]), t(&[0, 3], &[1, 0])]
    },
    sparse: Sparse::Permute,
    ..VIEW
};
