//! `fliplr`, `flipud`, `flip`: A copy with the given dimensions reversed.

use super::{COMPOSED, give};
use crate::elementwise::push_like;
use crate::named::{flip as at, fliplr, flipud};
use crate::prelude::*;

pub static FLIPLR: OpDef = OpDef {
    sig: Sig::parse("fliplr(Tensor input) -> Tensor"),
    doc: "A copy with the columns in reverse order.

Example::

    >>> oneflow.fliplr(oneflow.tensor([[1, 2]]))
    tensor([[2, 1]])",
    compose: Some(|c, outs| match c.t(fliplr::INPUT)?.ndim() {
        0 | 1 => Err(Error::runtime("Input must be >= 2-d.")),
        _ => give(outs, c.t(fliplr::INPUT)?.flip(&[1])?),
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])])],
    ..COMPOSED
};

pub static FLIPUD: OpDef = OpDef {
    sig: Sig::parse("flipud(Tensor input) -> Tensor"),
    doc: "A copy with the rows in reverse order.

Example::

    >>> oneflow.flipud(oneflow.tensor([[1], [2]]))
    tensor([[2],
            [1]])",
    compose: Some(|c, outs| match c.t(flipud::INPUT)?.ndim() {
        0 => Err(Error::runtime("Input must be >= 1-d.")),
        _ => give(outs, c.t(flipud::INPUT)?.flip(&[0])?),
    }),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[2, 3])])],
    ..COMPOSED
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("flip(Tensor input, int[1] dims) -> Tensor"),
    doc: "A copy with the given dimensions reversed.

Example::

    >>> oneflow.flip(oneflow.tensor([1, 2, 3]), 0)
    tensor([3, 2, 1])",
    faces: Faces::FN_METHOD,
    infer: |c, outs| {
        let x = c.t(at::INPUT)?;
        let mut seen = 0u64;
        for d in c.ints(at::DIMS)? {
            let bit = 1 << wrap_dim(*d, x.ndim())?;
            if seen & bit != 0 {
                return Err(Error::runtime(format!("flip(): dim {d} appears multiple times in the list of dims")));
            }
            seen |= bit;
        }
        push_like(x, x.dtype(), x.device(), None, outs)
    },
    kernel: Kernel::Prim {
        prim: &COPY,
        lower: |c, _, l| {
            let x = c.t(at::INPUT)?;
            let mut strides = Dims::from_slice(x.strides());
            let mut offset = x.offset();
            for d in c.ints(at::DIMS)? {
                let d = wrap_dim(*d, x.ndim())?;
                if x.ndim() > 0 && x.numel() > 0 {
                    offset += (x.sizes()[d] - 1) * strides[d];
                    strides[d] = -strides[d];
                }
            }
            l.input_as(at::INPUT, Dims::from_slice(x.sizes()), strides, offset).output(at::RESULT);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| {
            let dims = c.arg(at::DIMS).ints().unwrap_or(&[]);
            out.set(at::INPUT, || c.g()?.flip(dims))
        },
    },
    sbp: SbpRule::of(Rows::Batch {
        not_axes: |c| {
            let n = c.t(at::INPUT).map_or(0, Tensor::ndim);
            c.ints(at::DIMS)
                .map_or(u32::MAX, |d| d.iter().filter_map(|d| wrap_dim(*d, n).ok()).fold(0, |m, d| m | 1 << d))
        },
    }),
    samples: || {
        let t = |s: &[i64], d: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::Ints(d.to_vec())]);
        vec![t(&[3, 4], &[0]), t(&[3, 4], &[0, -1]), t(&[0, 3], &[1])]
    },
    ..OpDef::BASE
};
