//! Product of elements, and running sums.

use super::*;
use crate::named::{cumprod, cumsum, logsumexp, prod, vector_norm};

fn out_dtype(c: &Call<'_>, dtype: At<DType>) -> Result<DType> {
    let d = c.t(prod::INPUT)?.dtype();
    Ok(c.dtype_or(dtype, if d.is_differentiable() { d } else { DType::I64 }))
}

pub static PROD: OpDef = OpDef {
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
    amp: Amp::Float32,
    limited: Limited::UNSIGNED,
    ..super::REDUCE
};

pub fn lower_scan(c: &Call<'_>, outs: &Outs, l: &mut Lowered, kind: ReduceKind) -> Result<()> {
    no_cast_first(c, outs)?;
    let dim = wrap_dim(c.int(cumsum::DIM)?, c.t(cumsum::INPUT)?.ndim())?;
    l.input(cumsum::INPUT).output(cumsum::RESULT).param(kind as u64).param(dim as i64);
    Ok(())
}

pub fn not_axes(c: &Call<'_>) -> u32 {
    let n = c.t(cumsum::INPUT).map_or(0, Tensor::ndim);
    c.int(cumsum::DIM).and_then(|d| wrap_dim(d, n)).map_or(u32::MAX, |d| 1 << d)
}

const SCAN_BASE: OpDef = OpDef {
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

pub static CUMSUM: OpDef = OpDef {
    sig: Sig::parse("cumsum(Tensor input, int dim, *, DType? dtype=None) -> Tensor"),
    doc: "Running sum along a dimension.

Example::

    >>> oneflow.cumsum(oneflow.tensor([1., 2., 3.]), 0)
    tensor([1., 3., 6.])",
    kernel: Kernel::Prim { prim: &SCAN, lower: |c, outs, l| lower_scan(c, outs, l, ReduceKind::Sum) },
    compose: Some(|c, outs| {
        let (x, d) = after_cast(c, cumsum::DTYPE)?;
        give(outs, x.cumsum_with(c.int(cumsum::DIM)?, Some(d))?)
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            let d = c.arg(cumsum::DIM).int().unwrap_or(0);
            out.set(cumsum::INPUT, || {
                let g = c.g()?;
                if g.ndim() == 0 { Ok(g.clone()) } else { g.flip(&[d])?.cumsum(d)?.flip(&[d]) }
            })
        },
    },
    limited: Limited::UNSIGNED,
    ..SCAN_BASE
};

pub static CUMPROD: OpDef = OpDef {
    sig: Sig::parse("cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor"),
    doc: "Running product along a dimension.

Example::

    >>> oneflow.cumprod(oneflow.tensor([1., 2., 3.]), 0)
    tensor([1., 2., 6.])",
    kernel: Kernel::Prim { prim: &SCAN, lower: |c, outs, l| lower_scan(c, outs, l, ReduceKind::Prod) },
    compose: Some(|c, outs| {
        let (x, d) = after_cast(c, cumprod::DTYPE)?;
        give(outs, x.cumprod_with(c.int(cumprod::DIM)?, Some(d))?)
    }),
    grad: Grad::Rule {
        save: &[Save::of(cumprod::INPUT, &[cumprod::INPUT]), Save::out(cumprod::RESULT, &[cumprod::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            let d = c.arg(cumprod::DIM).int().unwrap_or(0);
            out.set(cumprod::INPUT, || {
                let (g, x) = (c.g()?, &crate::elementwise::dual(c.x(cumprod::INPUT)?)?);
                if g.ndim() == 0 {
                    return Ok(g.clone());
                }
                if oneflow_core::tls().allowed >> oneflow_core::bit::AUTOGRAD & 1 == 1 {
                    return without_quotients(g, x, d);
                }
                let from_end = |t: &Tensor| -> Result<Tensor> { t.flip(&[d])?.cumsum(d)?.flip(&[d]) };
                // Up to the first zero the quotient is exact; at the zero, the products without it; behind it, nothing.
                let zero = x.eq(0.0)?;
                let zeros = zero.to_copy_with(Some(DType::I64), None)?.cumsum(d)?;
                let before = zeros.eq(0i64)?;
                let first = zero.logical_and(&zeros.eq(1i64)?)?;
                let quotient = from_end(&g.mul(&crate::elementwise::dual(c.y(cumprod::RESULT)?)?)?)?
                    .div(&before.r#where(x, 1.0)?)?;
                let without = from_end(&g.mul(&first.r#where(1.0, x)?.cumprod(d)?)?)?;
                before.r#where(&quotient, &first.r#where(&without, 0.0)?)
            })
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::range(&[3, 4], 0.3, 2.0), SampleArg::Int(1)])],
    limited: Limited::UNSIGNED,
    ..SCAN_BASE
};

/// The gradient of a running product, itself right to differentiate where there are zeros: the product of what stands before
/// an element, times what the gradients from it on make of the elements behind it. The latter are
/// `r[i] = g[i] + x[i + 1] * r[i + 1]`, summed by doubling the distance.
fn without_quotients(g: &Tensor, x: &Tensor, dim: i64) -> Result<Tensor> {
    let n = x.sizes()[wrap_dim(dim, x.ndim())?];
    if n == 0 {
        return Ok(g.clone());
    }
    let first = x.slice(dim, Some(0), Some(1), 1)?;
    let before = f::cat([&first.ones_like()?, &x.slice(dim, Some(0), Some(n - 1), 1)?], dim)?.cumprod(dim)?;
    // What stands `by` further on, and zeros.
    let ahead = |t: &Tensor, by: i64| -> Result<Tensor> {
        let rest = t.slice(dim, Some(by), Some(n), 1)?;
        let none = t.slice(dim, Some(0), Some(by), 1)?.zeros_like()?;
        f::cat([&rest, &none], dim)
    };
    let (mut factor, mut sum) = (ahead(x, 1)?, g.clone());
    let mut by = 1;
    while by < n {
        sum = sum.add(&factor.mul(&ahead(&sum, by)?)?)?;
        factor = factor.mul(&ahead(&factor, by)?)?;
        by *= 2;
    }
    before.mul(&sum)
}

pub static LOGSUMEXP: OpDef = OpDef {
    sig: Sig::parse("logsumexp(Tensor input, int[1] dim, bool keepdim=False) -> Tensor"),
    doc: "`log(sum(exp(x)))` over dimension(s), without overflow.

Example::

    >>> oneflow.logsumexp(oneflow.tensor([0., 0.]), 0)
    tensor(0.6931)",
    faces: Faces::FN_METHOD_OUT,
    compose: Some(|c, outs| {
        let x = c.t(logsumexp::INPUT)?;
        let x = &if x.dtype().is_differentiable() { x.clone() } else { x.to_copy_with(Some(default_dtype()), None)? };
        let dims = c.ints(logsumexp::DIM)?;
        if x.numel() == 0 {
            outs.give(x.exp()?.sum(dims, c.bool(logsumexp::KEEPDIM))?.log()?);
            return Ok(());
        }
        let top = if x.dtype().is_complex() { x.real()? } else { x.clone() }.amax(dims, true)?;
        // An infinite maximum is the answer itself: subtracting it would give NaN.
        let top = top.isfinite()?.r#where(&top, 0.0)?;
        let sum = x.sub(&top)?.exp()?.sum(dims, true)?.log()?.add(&top)?;
        let out = if c.bool(logsumexp::KEEPDIM) {
            sum
        } else {
            let mask = dim_mask("logsumexp", c.arg(logsumexp::DIM), x.ndim())?;
            let sizes: Dims =
                x.sizes().iter().enumerate().filter(|(i, _)| mask >> i & 1 == 0).map(|(_, s)| *s).collect();
            sum.reshape(&sizes)?
        };
        outs.give(out);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Ints(vec![1])])],
    ..super::REDUCE
};

pub static NORM: OpDef = OpDef {
    sig: Sig::parse(
        "vector_norm(Tensor input, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, DType? dtype=None) -> Tensor",
    ),
    doc: "Vector norm over all elements or the given dimension(s).",
    faces: Faces::PRIVATE,
    compose: Some(|c, outs| {
        let x = c.t(vector_norm::INPUT)?;
        let x = &match c.arg(vector_norm::DTYPE).dtype() {
            Some(d) if d != x.dtype() => x.to_copy_with(Some(d), None)?,
            _ => x.clone(),
        };
        // Complex numbers count by their sizes. The squares of half types are summed before they are rounded.
        let x = &if x.dtype().is_complex() { x.abs()? } else { x.clone() };
        let (given, wide) = (x.dtype(), x.dtype().compute());
        let x = &if wide == given || !given.is_float() { x.clone() } else { x.to_copy_with(Some(wide), None)? };
        let dims = c.arg(vector_norm::DIM).ints();
        let ord = c.arg(vector_norm::ORD).scalar().map_or(2.0, Scalar::to_f64);
        let keep = c.bool(vector_norm::KEEPDIM);
        let out = if ord == 2.0 {
            x.mul(x)?.sum(dims, keep)?.sqrt()?
        } else if ord == 1.0 {
            x.abs()?.sum(dims, keep)?
        } else if ord == f64::INFINITY {
            x.abs()?.amax(dims.unwrap_or(&[]), keep)?
        } else if ord == f64::NEG_INFINITY {
            x.abs()?.amin(dims.unwrap_or(&[]), keep)?
        } else if ord == 0.0 {
            x.ne(0.0)?.sum_with(dims, keep, Some(x.dtype()))?
        } else {
            x.abs()?.pow(ord)?.sum(dims, keep)?.pow(1.0 / ord)?
        };
        outs.give(if out.dtype() == given { out } else { out.to_copy_with(Some(given), None)? });
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        vec![
            Sample::new(vec![SampleArg::f32(&[3, 4])]),
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(1.0)]),
        ]
    },
    ..super::REDUCE
};
