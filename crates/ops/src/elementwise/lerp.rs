//! Linear interpolation, and products added to a tensor: three-operand arithmetic.

use super::{binary, dual};
use crate::prelude::*;

static TENSOR: Expr = expr!(float "lerp", |x, y, w| x + w * (y - x)).complex(complex!(|x, y, w| x + w * (y - x)));
static SCALAR: Expr =
    expr!(float "lerp_scalar", |x, y; p| x + p[0] * (y - x)).complex(complex!(|x, y; p| x + p[0] * (y - x)));
static ADDCMUL_EXPR: Expr =
    expr!(num "addcmul", |x, a, b; p| x + p[0] * a * b).complex(complex!(|x, a, b; p| x + p[0] * a * b));
static ADDCDIV_EXPR: Expr =
    expr!(float "addcdiv", |x, a, b; p| x + p[0] * a / b).complex(complex!(|x, a, b; p| x + p[0] * a / b));

fn three() -> Vec<Sample> {
    let t =
        |s: &[i64], u: &[i64]| Sample::new(vec![SampleArg::f32(s), SampleArg::f32(s), SampleArg::range(u, 0.5, 2.0)]);
    vec![t(&[3, 4], &[3, 4]), t(&[3, 4], &[4]), t(&[], &[])]
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("lerp(Tensor input, Tensor end, Tensor|Scalar weight) -> Tensor"),
    doc: "`input + weight * (end - input)`, with broadcasting.

Example::

    >>> oneflow.lerp(oneflow.tensor([0.]), oneflow.tensor([10.]), 0.3)
    tensor([3.])",
    infer: |c, outs| {
        let (x, y) = (c.t(0)?, c.t(1)?);
        if x.dtype() != y.dtype() {
            return Err(Error::runtime(format!(
                "lerp(): expected dtype {} for `end` but got dtype {}",
                x.dtype(),
                y.dtype()
            )));
        }
        super::push_broadcast(c, x.dtype(), outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| binary::lower(c, o[0].dtype().compute(), p, &TENSOR, &SCALAR)),
    grad: Grad::Rule {
        save: &[Save::In(2, 0b011), Save::In(0, 0b100), Save::In(1, 0b100)],
        fix: Fix::Broadcast,
        f: |c, out| {
            let by = |g: &Tensor| match c.arg(0).scalar() {
                Some(w) => g.mul(w.conj()),
                None => g.mul(&dual(c.x(2)?)?),
            };
            out.set(0, || c.g()?.sub(&by(c.g()?)?))?;
            out.set(1, || by(c.g()?))?;
            out.set(2, || c.g()?.mul(&dual(&c.x(1)?.sub(c.x(0)?)?)?))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[0b011] }),
    samples: three,
    ..binary::ARITH
};

const ADDC: OpDef = OpDef {
    infer: |c, outs| {
        let dtype = result_type(c.ins.iter().flatten().copied(), None)?;
        super::push_broadcast(c, dtype, outs)
    },
    samples: three,
    ..binary::ARITH
};

fn lower(c: &Call<'_>, outs: &Outs, p: &mut Params, expr: &'static Expr) -> Result<&'static Expr> {
    let compute = outs[0].dtype().compute();
    p.push(compute.into());
    super::push_scalar(p, compute, c.arg(0).scalar().unwrap_or(Scalar::Int(1)));
    Ok(expr)
}

pub static ADDCMUL: OpDef = OpDef {
    sig: Sig::parse("addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor"),
    doc: "`input + value * tensor1 * tensor2`, with broadcasting.

Example::

    >>> oneflow.addcmul(oneflow.tensor([1.]), oneflow.tensor([2.]), oneflow.tensor([3.]), value=0.5)
    tensor([4.])",
    kernel: Kernel::Elementwise(|c, o, p| lower(c, o, p, &ADDCMUL_EXPR)),
    grad: Grad::Rule {
        save: &[Save::In(1, 0b100), Save::In(2, 0b010)],
        fix: Fix::Broadcast,
        f: |c, out| {
            let value = c.arg(0).scalar();
            out.set(0, || Ok(c.g()?.clone()))?;
            out.set(1, || c.g()?.mul(&dual(&super::add::times(c.x(2)?, value)?)?))?;
            out.set(2, || c.g()?.mul(&dual(&super::add::times(c.x(1)?, value)?)?))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[0b011, 0b101] }),
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
        if c.opt(1).zip(c.opt(2)).is_some_and(|(a, b)| !a.dtype().is_differentiable() && !b.dtype().is_differentiable())
        {
            return Err(Error::runtime(format!(
                "Integer division with addcdiv is no longer supported (dtype {dtype}): divide by `div` with a rounding_mode, or cast to a floating-point dtype"
            )));
        }
        super::push_broadcast(c, dtype, outs)
    },
    kernel: Kernel::Elementwise(|c, o, p| lower(c, o, p, &ADDCDIV_EXPR)),
    grad: Grad::Rule {
        save: &[Save::In(1, 0b100), Save::In(2, 0b110)],
        fix: Fix::Broadcast,
        f: |c, out| {
            let value = c.arg(0).scalar();
            out.set(0, || Ok(c.g()?.clone()))?;
            out.set(1, || {
                let b = c.x(2)?;
                c.g()?.mul(&dual(&match value {
                    Some(v) if !v.is_one() => b.new_full(&[], v)?.div(b)?,
                    _ => b.reciprocal()?,
                })?)
            })?;
            out.set(2, || {
                let b = c.x(2)?;
                c.g()?.neg()?.mul(&dual(&super::add::times(c.x(1)?, value)?.div(&b.mul(b)?)?)?)
            })
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[0b011] }),
    ..ADDC
};
