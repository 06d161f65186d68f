//! Triangles of matrices.

use crate::named::{tril, triu};
use crate::prelude::*;

fn infer(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let x = c.t(tril::INPUT)?;
    if x.ndim() < 2 {
        return Err(Error::runtime(format!(
            "{}(): input tensor must have at least 2 dimensions, got {:?}",
            c.name(),
            x.sizes()
        )));
    }
    outs.push(x.dtype(), x.device(), x.sizes())
}

fn lower(c: &Call<'_>, l: &mut Lowered, upper: bool) -> Result<()> {
    l.input(tril::INPUT).output(tril::RESULT).with(TriangleParams { diagonal: c.int(tril::DIAGONAL)?, upper });
    Ok(())
}

const TRI: OpDef = OpDef {
    faces: Faces::ALL,
    infer,
    sbp: SbpRule::of(Rows::Batch {
        not_axes: |c| c.t(tril::INPUT).map_or(u32::MAX, |t| 3 << t.ndim().saturating_sub(2)),
    }),
    batch: Batching::Leading,
    into_overlapped: Some(super::overlapped::write_changed),
    samples: || {
        let t = |s: &[i64], d| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d)]);
        vec![t(&[3, 4], 0), t(&[4, 3], 1), t(&[2, 3, 3], -1), t(&[0, 3], 0)]
    },
    ..OpDef::BASE
};

pub static TRIL: OpDef = OpDef {
    sig: Sig::parse("tril(Tensor input, int diagonal=0) -> Tensor"),
    doc: "The lower triangle of the last two dimensions, zero elsewhere.

Example::

    >>> oneflow.tril(oneflow.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])",
    kernel: Kernel::Prim { prim: &TRIANGLE, lower: |c, _, l| lower(c, l, false) },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| out.set(tril::INPUT, || c.g()?.tril(c.arg(tril::DIAGONAL).int().unwrap_or(0))),
    },
    traits: Traits::EXACT_OUT,
    ..TRI
};

pub static TRIU: OpDef = OpDef {
    sig: Sig::parse("triu(Tensor input, int diagonal=0) -> Tensor"),
    doc: "The upper triangle of the last two dimensions, zero elsewhere.

Example::

    >>> oneflow.triu(oneflow.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])",
    kernel: Kernel::Prim { prim: &TRIANGLE, lower: |c, _, l| lower(c, l, true) },
    grad: Grad::Rule {
        save: &[],
        fix: Fix::None,
        f: |c, out| out.set(triu::INPUT, || c.g()?.triu(c.arg(triu::DIAGONAL).int().unwrap_or(0))),
    },
    traits: Traits::EXACT_OUT,
    ..TRI
};
