//! Sum of elements.

use super::*;
use crate::named::sum as at;

/// Integers and booleans sum in int64.
fn out_dtype(c: &Call<'_>) -> Result<DType> {
    let d = c.t(at::INPUT)?.dtype();
    Ok(c.dtype_or(at::DTYPE, if d.is_differentiable() { d } else { DType::I64 }))
}

/// The gradient of a sum of sparse tensors, which may have entries only at some places, with zeros at the others.
fn without_gaps(g: &Tensor) -> Result<Tensor> {
    if !g.has_key(oneflow_core::bit::SPARSE) {
        return Ok(g.clone());
    }
    crate::f::zeros_with(g.sizes(), Some(g.dtype()), Some(g.device()), false)?.add(g)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"),
    doc: "Sum of all elements, or over the given dimension(s). Integers sum in int64.

Example::

    >>> oneflow.sum(oneflow.tensor([[1., 2.], [3., 4.]]), dim=0)
    tensor([4., 6.])",
    infer: |c, outs| {
        let mask = dim_mask("sum", c.arg(at::DIM), c.t(at::INPUT)?.ndim())?;
        push(c, out_dtype(c)?, mask, c.bool(at::KEEPDIM), outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| {
            let mask = dim_mask("sum", c.arg(at::DIM), c.t(at::INPUT)?.ndim())?;
            no_cast_first(c, outs)?;
            lower(c, outs, l, ReduceKind::Sum, mask)
        },
    },
    compose: Some(|c, outs| {
        let (x, d) = after_cast(c, at::DTYPE)?;
        give(outs, x.sum_with(c.arg(at::DIM).ints(), c.bool(at::KEEPDIM), Some(d))?)
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(at::INPUT, || {
                let m = c.in_meta(at::INPUT)?;
                let mask = dim_mask("sum", c.arg(at::DIM), m.sizes.len())?;
                unreduce(&without_gaps(c.g()?)?, mask, c.arg(at::KEEPDIM).bool())?.expand(&m.sizes)
            })
        },
    },
    sbp: SbpRule::of(Rows::Reduce { partial: Some(PKind::Sum), dims: at::DIM.any(), keepdim: at::KEEPDIM }),
    limited: Limited::UNSIGNED,
    sparse: Sparse::Sum,
    ..super::REDUCE
};
