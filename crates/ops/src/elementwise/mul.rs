//! Multiplication.

use super::{binary, dual};
use crate::named::mul as at;
use crate::prelude::*;

static TENSOR: Expr = expr!(num "mul", |x, y| x * y).complex(complex!(|x, y| x * y));
static SCALAR: Expr = expr!(num "mul_scalar", |x; p| x * p[0]).complex(complex!(|x; p| x * p[0]));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("mul(Tensor input, Tensor|Scalar other) -> Tensor"),
    doc: "Multiplies `input` by `other`, with broadcasting and type promotion.

Example::

    >>> oneflow.mul(oneflow.tensor([1., 2.]), oneflow.tensor([3., 4.]))
    tensor([3., 8.])",
    kernel: Kernel::Elementwise(|c, outs, p| {
        binary::lower_wide(c, outs[at::RESULT].dtype().compute(), p, &TENSOR, &SCALAR)
    }),
    grad: Grad::Rule {
        save: &[Save::of(at::OTHER, &[at::INPUT]), Save::of(at::INPUT, &[at::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(at::INPUT, || match c.arg(at::OTHER_SCALAR).scalar() {
                Some(s) => c.g()?.mul(s.conj()),
                None => c.g()?.mul(&dual(c.x(at::OTHER)?)?),
            })?;
            out.set(at::OTHER, || c.g()?.mul(&dual(c.x(at::INPUT)?)?))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[at::INPUT]), InMask::of(&[at::OTHER])] }),
    traits: Traits::ALIAS_OK.or(Traits::COMMUTES).or(Traits::NUMBERS).or(Traits::WIDE_NUMBER),
    limited: Limited::ALL,
    sparse: Sparse::Product,
    ..binary::ARITH
};
