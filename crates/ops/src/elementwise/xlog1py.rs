//! `special_xlog1py`, `xlog1py_pair`: `input * log1p(other)`, zero where `input` is zero.

use super::{binary, unary};
use crate::named::{special_xlog1py, special_xlog1py_self_scalar, xlog1py_pair};
use crate::prelude::*;

static XLOG1PY_EXPR: Expr = expr!(float "xlog1py", |x, y| {
    let zero = L::splat(0.0);
    L::select(y.is_nan(), y, L::select(x.eq(zero), zero, x * y.log1p()))
});

pub static OP: OpDef = OpDef {
    sig: Sig::parse("special_xlog1py(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "`input * log1p(other)`, zero where `input` is zero.

Example::

    >>> oneflow.special.xlog1py(oneflow.tensor([0., 2.]), oneflow.tensor([-1., 0.]))
    tensor([0., 0.])",
    faces: Faces::PRIVATE.or(Faces::OUT),
    infer: super::binary_rules::to_real_float,
    compose: Some(|c, outs| {
        let other = super::binary_rules::number_as_tensor(
            c,
            c.t(special_xlog1py::INPUT)?,
            special_xlog1py::OTHER_SCALAR,
            binary::common(c)?,
        )?;
        outs.give(c.t(special_xlog1py::INPUT)?.xlog1py_pair(&other)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: super::binary_rules::positive_second,
    ..binary::ARITH
};

pub static XLOG1PY_SELF: OpDef = OpDef {
    sig: Sig::parse("special_xlog1py.self_scalar(Scalar input, Tensor other) -> Tensor"),
    doc: "",
    faces: Faces::PRIVATE.or(Faces::OUT),
    infer: super::binary_rules::to_real_float_first,
    compose: Some(|c, outs| {
        outs.give(super::binary_rules::first_number(c)?.xlog1py_pair(c.t(special_xlog1py_self_scalar::OTHER)?)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Compose),
    samples: || vec![Sample::new(vec![SampleArg::Float(1.5), SampleArg::range(&[3], 0.5, 2.0)])],
    ..binary::ARITH
};

pub static XLOG1PY_PAIR: OpDef = OpDef {
    sig: Sig::parse("xlog1py_pair(Tensor input, Tensor other) -> Tensor"),
    doc: "xlog1py of two tensors.",
    faces: Faces::PRIVATE,
    infer: super::binary_rules::to_real_float,
    kernel: Kernel::Elementwise(|c, o, p| {
        super::binary_rules::refuse_half(c, o)?;
        unary::by_output(o, p, &XLOG1PY_EXPR)
    }),
    compose: Some(|c, outs| super::binary_rules::times_logarithm(c, outs, |y| y.log1p())),
    grad: Grad::Rule {
        save: &[
            Save::of(xlog1py_pair::INPUT, &[xlog1py_pair::INPUT, xlog1py_pair::OTHER]),
            Save::of(xlog1py_pair::OTHER, &[xlog1py_pair::INPUT, xlog1py_pair::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (x, y) = (c.x(xlog1py_pair::INPUT)?, c.x(xlog1py_pair::OTHER)?);
            out.set(xlog1py_pair::INPUT, || {
                let flat = x.eq(0.0)?.logical_and(&y.le(-1.0)?)?;
                c.g()?.mul(&flat.r#where(0.0, &y.log1p()?)?)
            })?;
            out.set(xlog1py_pair::OTHER, || c.g()?.mul(x)?.div(&y.add(1.0)?))
        },
    },
    samples: super::binary_rules::positive_second,
    ..binary::ARITH
};
