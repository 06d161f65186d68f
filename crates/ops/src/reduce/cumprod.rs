//! `cumprod`: Running product along a dimension.

use super::*;
use crate::named::cumprod;

pub static OP: OpDef = OpDef {
    sig: Sig::parse("cumprod(Tensor input, int dim, *, DType? dtype=None) -> Tensor"),
    doc: "Running product along a dimension.

Example::

    >>> oneflow.cumprod(oneflow.tensor([1., 2., 3.]), 0)
    tensor([1., 2., 6.])",
    kernel: Kernel::Prim { prim: &SCAN, lower: |c, outs, l| super::prod::lower_scan(c, outs, l, ReduceKind::Prod) },
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
    ..super::prod::SCAN_BASE
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
