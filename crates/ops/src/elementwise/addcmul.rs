//! `addcmul`, `addcdiv`: `input + value * tensor1 * tensor2`, with broadcasting.

use super::{binary, dual};
use crate::named::{addcdiv, addcmul};
use crate::prelude::*;

static ADDCMUL_EXPR: Expr =
    expr!(num "addcmul", |x, a, b; p| (p[0] * a).mul_add(b, x)).complex(complex!(|x, a, b; p| x + p[0] * a * b));

static ADDCDIV_EXPR: Expr =
    expr!(float "addcdiv", |x, a, b; p| x + p[0] * a / b).complex(complex!(|x, a, b; p| x + p[0] * a / b));

const ADDC: OpDef = OpDef {
    infer: |c, outs| {
        let dtype = result_type(c.ins.iter().flatten().copied(), None)?;
        scalar_range::check_factor(c, dtype, c.arg(addcmul::VALUE).scalar())?;
        super::push_broadcast(c, dtype, outs)
    },
    samples: super::lerp::three,
    ..binary::ARITH
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"),
    doc: "`input + value * tensor1 * tensor2`, with broadcasting.

Example::

    >>> oneflow.addcmul(oneflow.tensor([1.]), oneflow.tensor([2.]), oneflow.tensor([3.]), value=0.5)
    tensor([4.])",
    kernel: Kernel::Elementwise(|c, o, p| super::lerp::lower(c, o, p, &ADDCMUL_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(addcmul::TENSOR1, &[addcmul::TENSOR2]), Save::of(addcmul::TENSOR2, &[addcmul::TENSOR1])],
        fix: Fix::Broadcast,
        f: |c, out| {
            let value = c.arg(addcmul::VALUE).scalar();
            out.set(addcmul::INPUT, || Ok(c.g()?.clone()))?;
            out.set(addcmul::TENSOR1, || c.g()?.mul(&dual(&super::add::times(c.x(addcmul::TENSOR2)?, value)?)?))?;
            out.set(addcmul::TENSOR2, || c.g()?.mul(&dual(&super::add::times(c.x(addcmul::TENSOR1)?, value)?)?))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise {
        linear: &[InMask::of(&[addcmul::INPUT, addcmul::TENSOR1]), InMask::of(&[addcmul::INPUT, addcmul::TENSOR2])],
    }),
    limited: Limited::COMPLEX,
    ..ADDC
};

pub static ADDCDIV: OpDef = OpDef {
    sig: Sig::parse("addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"),
    doc: "`input + value * tensor1 / tensor2`, with broadcasting.

Example::

    >>> oneflow.addcdiv(oneflow.tensor([1.]), oneflow.tensor([6.]), oneflow.tensor([3.]), value=0.5)
    tensor([2.])",
    infer: |c, outs| {
        let dtype = result_type(c.ins.iter().flatten().copied(), None)?;
        if c.opt(addcdiv::TENSOR1)
            .zip(c.opt(addcdiv::TENSOR2))
            .is_some_and(|(a, b)| !a.dtype().is_differentiable() && !b.dtype().is_differentiable())
        {
            return Err(Error::runtime(format!(
                "Integer division with addcdiv is no longer supported (dtype {dtype}): divide by `div` with a rounding_mode, or cast to a floating-point dtype"
            )));
        }
        scalar_range::check_factor(c, dtype, c.arg(addcdiv::VALUE).scalar())?;
        super::push_broadcast(c, dtype, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| super::lerp::lower(c, o, p, &ADDCDIV_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(addcdiv::TENSOR1, &[addcdiv::TENSOR2]),
            Save::of(addcdiv::TENSOR2, &[addcdiv::TENSOR1, addcdiv::TENSOR2]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let value = c.arg(addcdiv::VALUE).scalar();
            out.set(addcdiv::INPUT, || Ok(c.g()?.clone()))?;
            out.set(addcdiv::TENSOR1, || {
                let b = c.x(addcdiv::TENSOR2)?;
                c.g()?.mul(&dual(&match value {
                    Some(v) if !v.is_one() => b.new_full(&[], v)?.div(b)?,
                    _ => b.reciprocal()?,
                })?)
            })?;
            out.set(addcdiv::TENSOR2, || {
                let b = c.x(addcdiv::TENSOR2)?;
                c.g()?.neg()?.mul(&dual(&super::add::times(c.x(addcdiv::TENSOR1)?, value)?.div(&b.mul(b)?)?)?)
            })
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[addcdiv::INPUT, addcdiv::TENSOR1])] }),
    ..ADDC
};
