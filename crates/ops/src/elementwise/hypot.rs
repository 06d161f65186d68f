//! `hypot`: `sqrt(input ** 2 + other ** 2)`, without overflow.

use super::{binary, two_tensors, unary};
use crate::named::hypot;
use crate::prelude::*;

static HYPOT_EXPR: Expr = expr!(float "hypot", |x, y| Cx::new(x, y).abs());

pub static OP: OpDef = OpDef {
    sig: Sig::parse("hypot(Tensor input, Tensor other) -> Tensor"),
    doc: "`sqrt(input ** 2 + other ** 2)`, without overflow.

Example::

    >>> oneflow.hypot(oneflow.tensor([3.]), oneflow.tensor([4.]))
    tensor([5.])",
    infer: super::binary_rules::float_only,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &HYPOT_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(hypot::INPUT, &[hypot::INPUT]),
            Save::of(hypot::OTHER, &[hypot::OTHER]),
            Save::out(hypot::RESULT, &[hypot::INPUT, hypot::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(hypot::INPUT, || c.g()?.mul(&c.x(hypot::INPUT)?.div(c.y(hypot::RESULT)?)?))?;
            out.set(hypot::OTHER, || c.g()?.mul(&c.x(hypot::OTHER)?.div(c.y(hypot::RESULT)?)?))
        },
    },
    samples: two_tensors,
    ..binary::ARITH
};
