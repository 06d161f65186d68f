//! Power.

use super::{binary, dual};
use crate::named::{pow, pow_scalar};
use crate::prelude::*;
use crate::scalar_range;
use oneflow_core::narrow_operands;

static TENSOR: Expr = expr!(num "pow", |x, y| x.pow(y)).complex(complex!(|x, y| x.pow(y)));
static SCALAR: Expr = expr!(num "pow_scalar", |x; p| x.pow(p[0])).complex(complex!(|x; p| x.pow(p[0])));
static SQUARE: Expr = expr!(num "pow_2", |x| x * x).complex(complex!(|x| x * x));
static CUBE: Expr = expr!(num "pow_3", |x| x * x * x).complex(complex!(|x| x * x * x));
static SAME: Expr = expr!(num "pow_1", |x| x).complex(complex!(|x| x));
static SQRT: Expr = expr!(float "pow_half", |x| x.sqrt()).complex(complex!(|x| x.sqrt()));
static INVERSE: Expr = expr!(float "pow_minus_1", |x| x.recip()).complex(complex!(|x| x.recip()));
static INVERSE_SQRT: Expr = expr!(float "pow_minus_half", |x| x.rsqrt()).complex(complex!(|x| x.sqrt().recip()));
static BASE_SCALAR: Expr = expr!(num "pow_base", |x; p| p[0].pow(x)).complex(complex!(|x; p| p[0].pow(x)));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("pow(Tensor input, Tensor|Scalar exponent) -> Tensor"),
    doc: "`input` to the power `exponent`, elementwise, with broadcasting.

Example::

    >>> oneflow.pow(oneflow.tensor([2., 3.]), 2)
    tensor([4., 9.])",
    infer: |c, outs| {
        let dtype = binary::common(c)?;
        if dtype.is_int() && super::scalar_arg(c, pow::EXPONENT_SCALAR).is_some_and(|s| s.to_i64() < 0) {
            return Err(Error::runtime("pow(): Integers to negative integer powers are not allowed."));
        }
        if let Some(s) = super::scalar_arg(c, pow::EXPONENT_SCALAR).filter(|_| dtype.is_int()) {
            scalar_range::check(c, dtype, s)?;
        }
        // A number as the exponent is no operand.
        super::push_broadcast(c, dtype, outs)
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        let compute = outs[pow::RESULT].dtype().compute();
        let special =
            match super::scalar_arg(c, pow::EXPONENT_SCALAR).filter(|s| s.parts().1 == 0.0).map(Scalar::to_f64) {
                Some(1.0) => Some(&SAME),
                Some(2.0) => Some(&SQUARE),
                Some(3.0) => Some(&CUBE),
                Some(0.5) if compute != DType::I64 => Some(&SQRT),
                Some(-1.0) if compute != DType::I64 => Some(&INVERSE),
                Some(-0.5) if compute != DType::I64 => Some(&INVERSE_SQRT),
                _ => None,
            };
        match special {
            Some(e) => {
                p.push(compute.into());
                Ok(e)
            }
            None => binary::lower(c, compute, p, &TENSOR, &SCALAR),
        }
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(pow::INPUT, &[pow::INPUT, pow::EXPONENT]),
            Save::of(pow::EXPONENT, &[pow::INPUT, pow::EXPONENT]),
            Save::out(pow::RESULT, &[pow::EXPONENT]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(pow::INPUT, || match c.arg(pow::EXPONENT_SCALAR).scalar() {
                Some(s) if s.parts() == (0.0, 0.0) => c.g()?.zeros_like(),
                Some(s) => c.g()?.mul(&dual(&c.x(pow::INPUT)?.pow(s.minus_one())?.mul(s)?)?),
                None => {
                    let e = c.x(pow::EXPONENT)?;
                    let slope = e.mul(&c.x(pow::INPUT)?.pow(&e.sub(1.0)?)?)?;
                    e.eq(0.0)?.r#where(0.0, &c.g()?.mul(&dual(&slope)?)?)
                }
            })?;
            out.set(pow::EXPONENT, || {
                let (x, y) = (c.x(pow::INPUT)?, c.y(pow::RESULT)?);
                // 0 ** e is constant in e (for e >= 0), while log 0 is not a number to multiply with.
                let e = c.x(pow::EXPONENT)?;
                let e = if e.dtype().is_complex() { e.real()? } else { e.clone() };
                let constant = x.eq(0.0)?.logical_and(&e.ge(0.0)?)?;
                // The logarithm of a negative base is complex where the power is.
                let base = if y.dtype().is_complex() { x.to_copy_with(Some(y.dtype()), None)? } else { x.clone() };
                let slope = constant.r#where(0.0, &y.mul(&base.log()?)?)?;
                c.g()?.mul(&dual(&slope)?)
            })
        },
    },
    samples: || {
        vec![
            Sample::new(vec![SampleArg::range(&[3, 4], 0.2, 2.0), SampleArg::f32(&[4])]),
            Sample::new(vec![SampleArg::range(&[3, 4], 0.2, 2.0), SampleArg::Float(2.0)]),
            Sample::new(vec![SampleArg::range(&[5], 0.2, 2.0), SampleArg::Float(0.5)]),
            Sample::new(vec![SampleArg::f32(&[5]), SampleArg::Int(3)]),
            Sample::new(vec![SampleArg::i64(&[5], -3, 4), SampleArg::Int(3)]),
        ]
    },
    sparse: Sparse::Power,
    ..binary::ARITH
};

pub static BASE: OpDef = OpDef {
    sig: Sig::parse("pow.scalar(Scalar input, Tensor exponent) -> Tensor"),
    doc: "The number `input` to the power of each element.

Example::

    >>> oneflow.pow(2, oneflow.tensor([1., 3.]))
    tensor([2., 8.])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let dtype = result_type(c.ins.iter().flatten().copied(), c.arg(pow_scalar::INPUT).scalar())?;
        outs.push(dtype, c.t(pow_scalar::EXPONENT)?.device(), c.t(pow_scalar::EXPONENT)?.sizes())
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        let compute = outs[pow_scalar::RESULT].dtype().compute();
        p.push(compute.into());
        let base = c.arg(pow_scalar::INPUT).scalar().unwrap_or(Scalar::Int(1));
        super::push_scalar(p, compute, narrow_operands::number(c.t(pow_scalar::EXPONENT)?, compute, base));
        Ok(&BASE_SCALAR)
    }),
    grad: Grad::Rule {
        save: &[Save::out(pow_scalar::RESULT, &[pow_scalar::EXPONENT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            let base = c.arg(pow_scalar::INPUT).scalar().unwrap_or(Scalar::Int(1));
            out.set(pow_scalar::EXPONENT, || match base.parts() {
                // 0 ** e is infinite for e < 0, and constant elsewhere.
                (0.0, 0.0) => c
                    .y(pow_scalar::RESULT)?
                    .isfinite()?
                    .r#where(0.0, &c.g()?.mul(&c.y(pow_scalar::RESULT)?.mul(f64::NEG_INFINITY)?)?),
                (re, im) if im != 0.0 || re < 0.0 && c.y(pow_scalar::RESULT)?.dtype().is_complex() => {
                    let log = Scalar::Complex(re.hypot(im).ln(), im.atan2(re));
                    c.g()?.mul(&dual(&c.y(pow_scalar::RESULT)?.mul(log)?)?)
                }
                (re, _) => c.g()?.mul(&dual(&c.y(pow_scalar::RESULT)?.mul(re.ln())?)?),
            })
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::Float(2.0), SampleArg::f32(&[3, 4])])],
    ..binary::ARITH
};
