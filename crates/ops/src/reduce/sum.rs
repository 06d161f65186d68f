//! Sum of elements.

use super::*;

/// Integers and booleans sum in int64.
fn out_dtype(c: &Call<'_>) -> Result<DType> {
    let d = c.t(0)?.dtype();
    Ok(c.dtype_or(2, if d.is_differentiable() { d } else { DType::I64 }))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("sum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"),
    doc: "Sum of all elements, or over the given dimension(s). Integers sum in int64.

Example::

    >>> oneflow.sum(oneflow.tensor([[1., 2.], [3., 4.]]), dim=0)
    tensor([4., 6.])",
    infer: |c, outs| {
        let mask = dim_mask("sum", c.arg(0), c.t(0)?.ndim())?;
        push(c, out_dtype(c)?, mask, c.bool(1), outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| {
            let mask = dim_mask("sum", c.arg(0), c.t(0)?.ndim())?;
            no_cast_first(c, outs)?;
            lower(c, outs, l, ReduceKind::Sum, mask)
        },
    },
    compose: Some(|c, outs| {
        let (x, d) = after_cast(c, 2)?;
        give(outs, x.sum_with(c.arg(0).ints(), c.bool(1), Some(d))?)
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(0, || {
                let m = c.in_meta(0)?;
                let mask = dim_mask("sum", c.arg(0), m.sizes.len())?;
                unreduce(c.g()?, mask, c.arg(1).bool())?.expand(&m.sizes)
            })
        },
    },
    sbp: SbpRule::of(Rows::Reduce { partial: Some(PKind::Sum), dims: 0, keepdim: 1 }),
    limited: Limited::UNSIGNED,
    sparse: Sparse::Sum,
    ..super::REDUCE
};
