//! `frexp`, `frexp_mantissa`, `frexp_exponent`: Each element as `mantissa * 2 ** exponent` with a mantissa in [1/2,
//! 1).

use super::unary;
use crate::named::{frexp, frexp_exponent, frexp_mantissa};
use crate::prelude::*;
use oneflow_kernels_prim::special;

static MANTISSA_EXPR: Expr = expr!(float "frexp_mantissa", |x| x.ldexp(-special::frexp_exponent(x)));

static EXPONENT_EXPR: Expr = expr!(float "frexp_exponent", |x| special::frexp_exponent(x));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("frexp(Tensor input) -> (Tensor mantissa, Tensor exponent)"),
    doc: "Each element as `mantissa * 2 ** exponent` with a mantissa in [1/2, 1).

Example::

    >>> oneflow.frexp(oneflow.tensor([8.])).exponent
    tensor([4], dtype=oneflow.int32)",
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let x = c.t(frexp::INPUT)?;
        if !x.dtype().is_float() {
            return Err(Error::runtime("torch.frexp() only supports floating-point dtypes".replace("torch.", "")));
        }
        super::push_like(x, x.dtype(), x.device(), None, outs)?;
        super::push_like(x, DType::I32, x.device(), None, outs)
    },
    compose: Some(|c, outs| {
        (c.op.infer)(c, &mut Outs::new())?;
        let x = c.t(frexp::INPUT)?;
        outs.give(x.frexp_mantissa()?);
        outs.give(x.frexp_exponent()?);
        Ok(())
    }),
    grad: Grad::Compose,
    differentiable: OutMask::of(&[frexp::MANTISSA]),
    sbp: SbpRule::of(Rows::Compose),
    samples: unary::samples,
    traits: Traits::EXACT_OUT,
    ..OpDef::BASE
};

pub static FREXP_MANTISSA: OpDef = OpDef {
    sig: Sig::parse("frexp_mantissa(Tensor input) -> Tensor"),
    doc: "The mantissa of frexp.",
    faces: Faces::PRIVATE,
    infer: unary::like,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &MANTISSA_EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(frexp_mantissa::INPUT, &[frexp_mantissa::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(frexp_mantissa::INPUT, || {
                let e = c.x(frexp_mantissa::INPUT)?.frexp_exponent()?.neg()?;
                c.g()?.mul(&f::pow_scalar(Scalar::Float(2.0), &e)?)
            })
        },
    },
    ..unary::SAME
};

pub static FREXP_EXPONENT: OpDef = OpDef {
    sig: Sig::parse("frexp_exponent(Tensor input) -> Tensor"),
    doc: "The exponent of frexp.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        super::push_like(c.t(frexp_exponent::INPUT)?, DType::I32, c.t(frexp_exponent::INPUT)?.device(), None, outs)
    },
    kernel: Kernel::Elementwise(|c, _, p| unary::by_input(c, p, &EXPONENT_EXPR)),
    ..unary::FLOAT
};
