//! `signbit`: Whether the sign is negative, also of -0.

use super::unary;
use crate::named::signbit;
use crate::prelude::*;

static SIGNBIT_EXPR: Expr = expr!(float "signbit", |x| {
    L::from_mask(L::splat(1.0).copysign(x).lt(L::splat(0.0)))
});

static NEGATIVE_EXPR: Expr = expr!(num "is_negative", |x| L::from_mask(x.lt(L::splat(0.0))));

pub(super) const PREDICATE: OpDef = OpDef {
    infer: |c, outs| {
        let x = c.t(signbit::INPUT)?;
        if x.dtype().is_complex() {
            return Err(Error::runtime(format!("{} is not implemented for complex tensors.", c.name())));
        }
        unary::boolean(c, outs)
    },
    faces: Faces::FN_METHOD_OUT,
    ..unary::FLOAT
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("signbit(Tensor input) -> Tensor"),
    doc: "Whether the sign is negative, also of -0.

Example::

    >>> oneflow.signbit(oneflow.tensor([-0., 1.]))
    tensor([ True, False])",
    kernel: Kernel::Elementwise(|c, _, p| {
        unary::by_input(c, p, if c.t(signbit::INPUT)?.dtype().is_float() { &SIGNBIT_EXPR } else { &NEGATIVE_EXPR })
    }),
    limited: Limited::UNSIGNED,
    sparse: Sparse::Values,
    ..PREDICATE
};
