//! Any and all.

use super::*;
use crate::named::{all, any};

/// uint8 stays uint8, everything else gives bool.
fn dtype(c: &Call<'_>) -> Result<DType> {
    Ok(if c.t(any::INPUT)?.dtype() == DType::U8 { DType::U8 } else { DType::Bool })
}

/// The dimensions to reduce. As in PyTorch an empty list is none of them, where other reductions take it for all.
fn mask(c: &Call<'_>) -> Result<u64> {
    match c.arg(any::DIM) {
        Arg::Ints([]) => Ok(0),
        dim => dim_mask(c.name(), dim, c.t(any::INPUT)?.ndim()),
    }
}

pub static ANY: OpDef = OpDef {
    sig: Sig::parse("any(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor"),
    doc: "True where some element is true (non-zero), over all elements or the given dimension(s).

Example::

    >>> oneflow.any(oneflow.tensor([False, True]))
    tensor(True)",
    infer: |c, outs| {
        let mask = mask(c)?;
        push(c, dtype(c)?, mask, c.bool(any::KEEPDIM), outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| {
            let mask = mask(c)?;
            lower(c, outs, l, ReduceKind::Any, mask)
        },
    },
    sbp: SbpRule::of(Rows::Reduce { partial: None, dims: any::DIM.any(), keepdim: any::KEEPDIM }),
    traits: Traits::EXACT_OUT,
    limited: Limited::ALL,
    sparse: Sparse::AllValues,
    ..super::REDUCE
};

pub static ALL: OpDef = OpDef {
    sig: Sig::parse("all(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor"),
    doc: "True where every element is true (non-zero), over all elements or the given dimension(s).

Example::

    >>> oneflow.all(oneflow.tensor([False, True]))
    tensor(False)",
    infer: |c, outs| {
        let mask = mask(c)?;
        push(c, dtype(c)?, mask, c.bool(all::KEEPDIM), outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| {
            let mask = mask(c)?;
            lower(c, outs, l, ReduceKind::All, mask)
        },
    },
    sbp: SbpRule::of(Rows::Reduce { partial: None, dims: all::DIM.any(), keepdim: all::KEEPDIM }),
    traits: Traits::EXACT_OUT,
    limited: Limited::ALL,
    ..super::REDUCE
};
