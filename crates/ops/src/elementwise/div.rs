//! `div`: Divides `input` by `other`, with broadcasting. Integers give floats unless `rounding_mode` is "floor" or
//! "trunc".

use super::{binary, dual};
use crate::named::div;
use crate::prelude::*;
use oneflow_core::narrow_operands;

static TENSOR: Expr = expr!(half "div", |x, y| x / y).complex(complex!(|x, y| x / y));

static SCALAR: Expr = expr!(half "div_scalar", |x; p| x / p[0]).complex(complex!(|x; p| x / p[0]));

pub(super) static FLOOR: Expr = expr!(num "div_floor", |x, y| x.div_floor(y)).nonzero(1);

pub(super) static FLOOR_SCALAR: Expr = expr!(num "div_floor_scalar", |x; p| x.div_floor(p[0]));

static TRUNC: Expr = expr!(num "div_trunc", |x, y| x.div_trunc(y)).nonzero(1);

static TRUNC_SCALAR: Expr = expr!(num "div_trunc_scalar", |x; p| x.div_trunc(p[0]));

#[derive(PartialEq)]
enum Rounding {
    None,
    Floor,
    Trunc,
}

fn rounding(arg: Arg<'_>) -> Result<Rounding> {
    match arg.str() {
        None => Ok(Rounding::None),
        Some("floor") => Ok(Rounding::Floor),
        Some("trunc") => Ok(Rounding::Trunc),
        Some(other) => Err(Error::runtime(format!(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{other}'"
        ))),
    }
}

/// An integer divided by the number zero has no answer.
pub(super) fn check_zero(c: &Call<'_>, dtype: DType) -> Result<()> {
    if dtype == DType::Bool {
        return Err(Error::not_implemented(format!("\"{}\" not implemented for 'Bool'", c.name())));
    }
    let zero = |s| narrow_operands::wrapped(dtype, DType::I64, s).to_i64() == 0;
    let divides = || c.ins.iter().flatten().all(|t| t.numel() > 0);
    if dtype.compute() == DType::I64 && super::scalar_arg(c, div::OTHER_SCALAR).is_some_and(zero) && divides() {
        return Err(Error::runtime(format!("{}(): ZeroDivisionError", c.name())));
    }
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("div(Tensor input, Tensor|Scalar other, *, str? rounding_mode=None) -> Tensor"),
    doc: "Divides `input` by `other`, with broadcasting. Integers give floats unless `rounding_mode` is \"floor\" or \"trunc\".

Example::

    >>> oneflow.div(oneflow.tensor([1, 2]), 2)
    tensor([0.5000, 1.0000])",
    infer: |c, outs| match rounding(c.arg(div::ROUNDING_MODE))? {
        Rounding::None => binary::infer_float(c, outs),
        _ => {
            check_zero(c, binary::common(c)?)?;
            binary::infer(c, outs)
        }
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        let compute = outs[div::RESULT].dtype().compute();
        match rounding(c.arg(div::ROUNDING_MODE))? {
            Rounding::None => binary::lower_wide(c, compute, p, &TENSOR, &SCALAR),
            Rounding::Floor => binary::lower_wide(c, compute, p, &FLOOR, &FLOOR_SCALAR),
            // The quotient is rounded to a half type before it is truncated.
            Rounding::Trunc if outs[div::RESULT].dtype() != compute && outs[div::RESULT].dtype().is_float() => {
                Err(Error::not_implemented("div: of half types, truncated by the composition"))
            }
            Rounding::Trunc => binary::lower_wide(c, compute, p, &TRUNC, &TRUNC_SCALAR),
        }
    }),
    compose: Some(|c, outs| {
        // Only what the kernel leaves to it: a device without a kernel must not come back here.
        let missing = || Error::not_implemented(format!("div(): is not implemented for {}", c.describe()));
        if rounding(c.arg(div::ROUNDING_MODE))? != Rounding::Trunc {
            return Err(missing());
        }
        let x = c.t(div::INPUT)?;
        let quotient = match c.arg(div::OTHER_SCALAR).scalar() {
            Some(s) => x.div(s)?,
            None => x.div(c.t(div::OTHER)?)?,
        };
        if quotient.dtype() != binary::common(c)? {
            return Err(missing());
        }
        outs.give(quotient.trunc()?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::of(div::OTHER, &[div::INPUT, div::OTHER]), Save::of(div::INPUT, &[div::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| {
            if rounding(c.arg(div::ROUNDING_MODE))? != Rounding::None {
                out.set(div::INPUT, || c.g()?.zeros_like())?;
                return out.set(div::OTHER, || c.g()?.zeros_like());
            }
            out.set(div::INPUT, || match c.arg(div::OTHER_SCALAR).scalar() {
                Some(s) => c.g()?.div(s.conj()),
                None => c.g()?.div(&dual(c.x(div::OTHER)?)?),
            })?;
            out.set(div::OTHER, || {
                let y = c.x(div::OTHER)?;
                c.g()?.mul(&dual(&c.x(div::INPUT)?.div(y)?.div(y)?)?)?.neg()
            })
        },
    },
    traits: Traits::ALIAS_OK.or(Traits::NUMBERS).or(Traits::WIDE_NUMBER),
    // A rounded quotient is not linear.
    sbp: SbpRule::of(Rows::By(|c| match rounding(c.arg(div::ROUNDING_MODE)) {
        Ok(Rounding::None) => Rows::Elementwise { linear: const { &[InMask::of(&[div::INPUT])] } },
        _ => Rows::Elementwise { linear: &[] },
    })),
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::range(b, 0.5, 2.0)]);
        vec![
            t(&[5], &[5]),
            t(&[3, 4], &[4]),
            t(&[3, 1], &[1, 4]),
            t(&[2, 3], &[]),
            t(&[0, 3], &[3]),
            Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::Float(1.5)]),
            Sample::new(vec![SampleArg::i64(&[3, 4], -9, 9), SampleArg::Int(2)]),
            t(&[3, 4], &[4]).kw("rounding_mode", SampleArg::Str("floor")),
            Sample::new(vec![SampleArg::i64(&[5], -9, 9), SampleArg::Int(2)]).kw("rounding_mode", SampleArg::Str("trunc")),
        ]
    },
    sparse: Sparse::Quotient,
    ..binary::ARITH
};
