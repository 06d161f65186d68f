//! `amax`, `amin`: The greatest element over the given dimension(s); NaN where one is NaN. Equal elements share the
//! gradient.

use super::*;
use crate::named::{amax, amin};

/// The gradient of an extreme, shared by the elements equal to it.
fn shared(g: &Tensor, x: &Tensor, y: &Tensor, mask: u64, keepdim: bool) -> Result<Tensor> {
    let dims: SmallVec<[i64; 6]> = (0..x.ndim() as i64).filter(|i| mask >> i & 1 == 1).collect();
    let (g, y) = (unreduce(g, mask, keepdim)?, unreduce(y, mask, keepdim)?);
    let hit = x.eq(&y)?.to_copy_with(Some(x.dtype()), None)?;
    let n = if dims.is_empty() { hit.clone() } else { hit.sum(dims.as_slice(), true)? };
    hit.mul(&g.div(&n)?)
}

/// amax and amin.
const AMONG: OpDef = OpDef {
    infer: |c, outs| {
        let mask = dim_mask(c.name(), c.arg(amax::DIM), c.t(amax::INPUT)?.ndim())?;
        super::extrema::not_empty(c, mask)?;
        push(c, c.t(amax::INPUT)?.dtype(), mask, c.bool(amax::KEEPDIM), outs)
    },
    grad: Grad::Rule {
        save: &[Save::of(amax::INPUT, &[amax::INPUT]), Save::out(amax::RESULT, &[amax::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(amax::INPUT, || {
                let x = c.x(amax::INPUT)?;
                let mask = dim_mask("amax", c.arg(amax::DIM), x.ndim())?;
                shared(c.g()?, x, c.y(amax::RESULT)?, mask, c.arg(amax::KEEPDIM).bool())
            })
        },
    },
    ..super::REDUCE
};

fn lower_among(c: &Call<'_>, outs: &Outs, l: &mut Lowered, kind: ReduceKind) -> Result<()> {
    let mask = dim_mask(c.name(), c.arg(amax::DIM), c.t(amax::INPUT)?.ndim())?;
    lower(c, outs, l, kind, mask)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("amax(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor"),
    doc: "The greatest element over the given dimension(s); NaN where one is NaN. Equal elements share the gradient.

Example::

    >>> oneflow.amax(oneflow.tensor([[1., 4.], [3., 2.]]), 1)
    tensor([4., 3.])",
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| lower_among(c, outs, l, ReduceKind::Max),
    },
    sbp: SbpRule::of(Rows::Reduce { partial: Some(PKind::Max), dims: amax::DIM.any(), keepdim: amax::KEEPDIM }),
    traits: Traits::EXACT_OUT,
    ..AMONG
};

pub static AMIN: OpDef = OpDef {
    sig: Sig::parse("amin(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor"),
    doc: "The smallest element over the given dimension(s); NaN where one is NaN. Equal elements share the gradient.

Example::

    >>> oneflow.amin(oneflow.tensor([[1., 4.], [3., 2.]]), 1)
    tensor([1., 2.])",
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| lower_among(c, outs, l, ReduceKind::Min),
    },
    sbp: SbpRule::of(Rows::Reduce { partial: Some(PKind::Min), dims: amin::DIM.any(), keepdim: amin::KEEPDIM }),
    traits: Traits::EXACT_OUT,
    ..AMONG
};
