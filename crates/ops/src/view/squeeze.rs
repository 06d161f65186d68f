//! Dimensions of size one removed.

use super::VIEW;
use crate::named::{squeeze, squeeze_dim};
use crate::prelude::*;

/// The dims that go, as a mask: those named (or all, where none is) that have size one.
fn mask(c: &Call<'_>) -> Result<u64> {
    gone(c.t(squeeze::INPUT)?.sizes(), c.arg(squeeze_dim::DIM))
}

fn gone(sizes: &[i64], dims: Arg<'_>) -> Result<u64> {
    let named = crate::reduce::dim_mask("squeeze", dims, sizes.len())?;
    let named = if matches!(dims, Arg::Ints([])) { 0 } else { named };
    Ok(sizes.iter().enumerate().filter(|(i, s)| **s == 1 && named >> i & 1 == 1).fold(0, |m, (i, _)| m | 1 << i))
}

fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let (x, gone) = (c.t(squeeze::INPUT)?, mask(c)?);
    let keep = |v: &[i64]| v.iter().enumerate().filter(|(i, _)| gone >> i & 1 == 0).map(|(_, s)| *s).collect::<Dims>();
    outs.view(squeeze::INPUT, x, keep(x.sizes()), keep(x.strides()), x.offset())
}

const SQUEEZE: OpDef = OpDef {
    infer,
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            out.set(squeeze::INPUT, || {
                let dims = c.args.first().copied().unwrap_or(Arg::None);
                crate::reduce::unsqueeze_all(c.g()?, gone(&c.in_meta(squeeze::INPUT)?.sizes, dims)?)
            })
        },
    },
    sbp: SbpRule::of(Rows::View(|c, groups| {
        let gone = mask(c)?;
        let mut to = 0u8;
        for i in 0..c.t(squeeze::INPUT)?.ndim() {
            if gone >> i & 1 == 0 {
                groups.push(DimGroup { ins: SmallVec::from_slice(&[i as u8]), outs: SmallVec::from_slice(&[to]) });
                to += 1;
            }
        }
        Ok(())
    })),
    ..VIEW
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("squeeze(Tensor(a) input) -> Tensor(a)"),
    doc: "A view without the dimensions of size one.

Example::

    >>> oneflow.zeros(1, 3, 1).squeeze().shape
    oneflow.Size([3])",
    samples: || {
        let t = |s: &[i64]| Sample::new(vec![SampleArg::f32(s)]);
        vec![t(&[1, 3, 1]), t(&[]), t(&[1, 0])]
    },
    ..SQUEEZE
};

pub static DIM: OpDef = OpDef {
    sig: Sig::parse("squeeze.dim(Tensor(a) input, int[1] dim) -> Tensor(a)"),
    doc: "A view without the given dimensions, where they have size one.

Example::

    >>> oneflow.zeros(1, 3, 1).squeeze(0).shape
    oneflow.Size([3, 1])",
    samples: || {
        let t = |s: &[i64], d: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(d.to_vec())]);
        vec![t(&[1, 3, 1], &[0]), t(&[1, 3, 1], &[0, -1]), t(&[2, 3], &[1]), t(&[], &[0])]
    },
    ..SQUEEZE
};
