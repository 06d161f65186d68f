//! `nansum`: Sum of the elements that are not NaN.

use super::*;
use crate::named::nansum;

/// The tensor with zeros in place of NaN.
pub(super) fn zeroed(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_float() { x.isnan()?.r#where(0.0, x) } else { Ok(x.clone()) }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("nansum(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"),
    doc: "Sum of the elements that are not NaN.

Example::

    >>> oneflow.nansum(oneflow.tensor([1., oneflow.nan]))
    tensor(1.)",
    infer: |c, outs| {
        let x = c.t(nansum::INPUT)?;
        if x.dtype().is_complex() {
            return Err(Error::not_implemented("nansum on CPU does not support complex inputs"));
        }
        let d = if x.dtype().is_float() { x.dtype() } else { DType::I64 };
        push(
            c,
            c.dtype_or(nansum::DTYPE, d),
            dim_mask("nansum", c.arg(nansum::DIM), x.ndim())?,
            c.bool(nansum::KEEPDIM),
            outs,
        )
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| {
            let mask = dim_mask("nansum", c.arg(nansum::DIM), c.t(nansum::INPUT)?.ndim())?;
            no_cast_first(c, outs)?;
            lower(c, outs, l, ReduceKind::NanSum, mask)
        },
    },
    compose: Some(|c, outs| {
        give(
            outs,
            zeroed(c.t(nansum::INPUT)?)?.sum_with(
                c.arg(nansum::DIM).ints(),
                c.bool(nansum::KEEPDIM),
                c.arg(nansum::DTYPE).dtype(),
            )?,
        )
    }),
    grad: Grad::Rule {
        save: &[Save::of(nansum::INPUT, &[nansum::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(nansum::INPUT, || {
                let x = c.x(nansum::INPUT)?;
                let mask = dim_mask("nansum", c.arg(nansum::DIM), x.ndim())?;
                x.isnan()?.r#where(0.0, &unreduce(c.g()?, mask, c.arg(nansum::KEEPDIM).bool())?.expand(x.sizes())?)
            })
        },
    },
    sbp: SbpRule::of(Rows::Reduce { partial: None, dims: nansum::DIM.any(), keepdim: nansum::KEEPDIM }),
    ..REDUCE
};
