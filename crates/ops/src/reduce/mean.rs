//! `mean`: Mean of all elements, or over the given dimension(s).

use super::*;
use crate::named::mean;

fn mean_dtype(c: &Call<'_>) -> Result<DType> {
    let d = c.dtype_or(mean::DTYPE, c.t(mean::INPUT)?.dtype());
    if !d.is_differentiable() {
        return Err(Error::not_implemented(format!(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: {}",
            d.scalar_type_name()
        )));
    }
    Ok(d)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("mean(Tensor input, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"),
    doc: "Mean of all elements, or over the given dimension(s).

Example::

    >>> oneflow.mean(oneflow.tensor([1., 3.]))
    tensor(2.)",
    infer: |c, outs| {
        let mask = dim_mask("mean", c.arg(mean::DIM), c.t(mean::INPUT)?.ndim())?;
        push(c, mean_dtype(c)?, mask, c.bool(mean::KEEPDIM), outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| {
            let mask = dim_mask("mean", c.arg(mean::DIM), c.t(mean::INPUT)?.ndim())?;
            no_cast_first(c, outs)?;
            lower(c, outs, l, ReduceKind::Mean, mask)
        },
    },
    compose: Some(|c, outs| {
        let x = c.t(mean::INPUT)?;
        let mask = dim_mask("mean", c.arg(mean::DIM), x.ndim())?;
        let n: i64 = x.sizes().iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, s)| *s).product();
        let dims: SmallVec<[i64; 6]> = (0..x.ndim() as i64).filter(|i| mask >> i & 1 == 1).collect();
        let sum = x.sum_with(dims.as_slice(), c.bool(mean::KEEPDIM), Some(mean_dtype(c)?))?;
        outs.give(sum.div(n as f64)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(mean::INPUT, || {
                let m = c.in_meta(mean::INPUT)?;
                let mask = dim_mask("mean", c.arg(mean::DIM), m.sizes.len())?;
                let n = m.numel() as f64 / c.out_meta(mean::RESULT).numel().max(1) as f64;
                unreduce(c.g()?, mask, c.arg(mean::KEEPDIM).bool())?.div(n)?.expand(&m.sizes)
            })
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    ..super::REDUCE
};
