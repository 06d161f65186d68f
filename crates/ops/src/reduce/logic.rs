//! Any and all.

use super::*;

/// uint8 stays uint8, everything else gives bool.
fn dtype(c: &Call<'_>) -> Result<DType> {
    Ok(if c.t(0)?.dtype() == DType::U8 { DType::U8 } else { DType::Bool })
}

pub static ANY: OpDef = OpDef {
    sig: Sig::parse("any(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor"),
    doc: "True where some element is true (non-zero), over all elements or the given dimension(s).

Example::

    >>> oneflow.any(oneflow.tensor([False, True]))
    tensor(True)",
    infer: |c, outs| {
        let mask = dim_mask("any", c.arg(0), c.t(0)?.ndim())?;
        push(c, dtype(c)?, mask, c.bool(1), outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| {
            let mask = dim_mask("any", c.arg(0), c.t(0)?.ndim())?;
            lower(c, outs, l, ReduceKind::Any, mask)
        },
    },
    sbp: SbpRule::of(Rows::Reduce { partial: None, dims: 0, keepdim: 1 }),
    traits: Traits::EXACT_OUT,
    limited: Limited::ALL,
    ..super::REDUCE
};

pub static ALL: OpDef = OpDef {
    sig: Sig::parse("all(Tensor input, int[1]? dim=None, bool keepdim=False) -> Tensor"),
    doc: "True where every element is true (non-zero), over all elements or the given dimension(s).

Example::

    >>> oneflow.all(oneflow.tensor([False, True]))
    tensor(False)",
    infer: |c, outs| {
        let mask = dim_mask("all", c.arg(0), c.t(0)?.ndim())?;
        push(c, dtype(c)?, mask, c.bool(1), outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| {
            let mask = dim_mask("all", c.arg(0), c.t(0)?.ndim())?;
            lower(c, outs, l, ReduceKind::All, mask)
        },
    },
    sbp: SbpRule::of(Rows::Reduce { partial: None, dims: 0, keepdim: 1 }),
    traits: Traits::EXACT_OUT,
    limited: Limited::ALL,
    ..super::REDUCE
};
