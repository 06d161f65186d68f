//! Multiplication.

use super::{binary, dual};
use crate::prelude::*;

static TENSOR: Expr = expr!(num "mul", |x, y| x * y).complex(complex!(|x, y| x * y));
static SCALAR: Expr = expr!(num "mul_scalar", |x; p| x * p[0]).complex(complex!(|x; p| x * p[0]));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("mul(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "Multiplies `input` by `other`, with broadcasting and type promotion.

Example::

    >>> oneflow.mul(oneflow.tensor([1., 2.]), oneflow.tensor([3., 4.]))
    tensor([3., 8.])",
    kernel: Kernel::Elementwise(|c, outs, p| binary::lower(c, outs[0].dtype().compute(), p, &TENSOR, &SCALAR)),
    grad: Grad::Rule {
        save: &[Save::In(1, 0b01), Save::In(0, 0b10)],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(0, || match c.arg(0).scalar() {
                Some(s) => c.g()?.mul(s.conj()),
                None => c.g()?.mul(&dual(c.x(1)?)?),
            })?;
            out.set(1, || c.g()?.mul(&dual(c.x(0)?)?))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[0b01, 0b10] }),
    traits: Traits::ALIAS_OK.or(Traits::COMMUTES).or(Traits::NUMBERS),
    limited: Limited::ALL,
    sparse: Sparse::Product,
    ..binary::ARITH
};
