//! `prod`: Product of all elements, or along a dimension. Integers multiply in int64.

use super::*;
use crate::named::{cumsum, prod};

fn out_dtype(c: &Call<'_>, dtype: At<DType>) -> Result<DType> {
    let d = c.t(prod::INPUT)?.dtype();
    Ok(c.dtype_or(dtype, if d.is_differentiable() { d } else { DType::I64 }))
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("prod(Tensor input, int? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor"),
    doc: "Product of all elements, or along a dimension. Integers multiply in int64.

Example::

    >>> oneflow.prod(oneflow.tensor([2., 3.]))
    tensor(6.)",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let mask = dim_mask("prod", c.arg(prod::DIM), c.t(prod::INPUT)?.ndim())?;
        push(c, out_dtype(c, prod::DTYPE)?, mask, c.bool(prod::KEEPDIM), outs)
    },
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| {
            let mask = dim_mask("prod", c.arg(prod::DIM), c.t(prod::INPUT)?.ndim())?;
            no_cast_first(c, outs)?;
            lower(c, outs, l, ReduceKind::Prod, mask)
        },
    },
    compose: Some(|c, outs| {
        let (x, d) = after_cast(c, prod::DTYPE)?;
        give(outs, x.prod_with(c.arg(prod::DIM).int(), c.bool(prod::KEEPDIM), Some(d))?)
    }),
    grad: Grad::Rule {
        save: &[Save::of(prod::INPUT, &[prod::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(prod::INPUT, || {
                let x = c.x(prod::INPUT)?;
                let mask = dim_mask("prod", c.arg(prod::DIM), x.ndim())?;
                let g = unreduce(c.g()?, mask, c.arg(prod::KEEPDIM).bool())?;
                // The product of the others: what stands before times what stands behind, right for zeros too.
                let (flat, dim) = match c.arg(prod::DIM).int() {
                    Some(d) if x.ndim() > 0 => (x.clone(), wrap_dim(d, x.ndim())? as i64),
                    _ => (x.reshape(&[-1])?, 0),
                };
                let n = flat.sizes()[dim as usize];
                if n == 0 {
                    return g.expand(x.sizes());
                }
                let one = flat.slice(dim, Some(0), Some(1), 1)?.ones_like()?;
                let before = f::cat([&one, &flat.slice(dim, Some(0), Some(n - 1), 1)?], dim)?.cumprod(dim)?;
                let turned = flat.flip(&[dim])?;
                let behind =
                    f::cat([&one, &turned.slice(dim, Some(0), Some(n - 1), 1)?], dim)?.cumprod(dim)?.flip(&[dim])?;
                crate::elementwise::dual(&before.mul(&behind)?)?.reshape(x.sizes())?.mul(&g)
            })
        },
    },
    sbp: SbpRule::of(Rows::Reduce { partial: None, dims: prod::DIM.any(), keepdim: prod::KEEPDIM }),
    samples: || {
        let t = |s: &[i64]| SampleArg::f32(s);
        vec![Sample::new(vec![t(&[3, 4])]), Sample::new(vec![t(&[3, 4]), SampleArg::Int(1)]), Sample::new(vec![t(&[])])]
    },
    amp: Amp::FLOAT32,
    limited: Limited::UNSIGNED,
    ..super::REDUCE
};

pub fn lower_scan(c: &Call<'_>, outs: &Outs, l: &mut Lowered, kind: ReduceKind) -> Result<()> {
    no_cast_first(c, outs)?;
    let dim = wrap_dim(c.int(cumsum::DIM)?, c.t(cumsum::INPUT)?.ndim())?;
    l.input(cumsum::INPUT).output(cumsum::RESULT).with(ScanParams { kind, dim });
    Ok(())
}

pub fn not_axes(c: &Call<'_>) -> u32 {
    let n = c.t(cumsum::INPUT).map_or(0, Tensor::ndim);
    c.int(cumsum::DIM).and_then(|d| wrap_dim(d, n)).map_or(u32::MAX, |d| 1 << d)
}

pub(super) const SCAN_BASE: OpDef = OpDef {
    faces: Faces::ALL,
    infer: |c, outs| {
        let x = c.t(cumsum::INPUT)?;
        wrap_dim(c.int(cumsum::DIM)?, x.ndim())?;
        outs.push(out_dtype(c, cumsum::DTYPE)?, x.device(), x.sizes())
    },
    sbp: SbpRule::of(Rows::Batch { not_axes }),
    samples: || {
        let t = |s: &[i64], d| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d)]);
        vec![t(&[3, 4], 0), t(&[3, 4], -1), t(&[5], 0), t(&[0, 3], 1)]
    },
    ..OpDef::BASE
};
