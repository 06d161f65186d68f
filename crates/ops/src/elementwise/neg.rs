//! Negation.

use super::unary;
use crate::named::neg as at;
use crate::prelude::*;

static EXPR: Expr = expr!(num "neg", |x| -x).complex(complex!(|x| -x)).bits(bits!(|x| x.bit_xor(L::splat(32768.0))));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("neg(Tensor input) -> Tensor"),
    doc: "Negation, elementwise. Booleans are refused.

Example::

    >>> oneflow.neg(oneflow.tensor([1., -2.]))
    tensor([-1.,  2.])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(at::INPUT, || c.g()?.neg()) },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[at::INPUT])] }),
    infer: |c, outs| {
        if c.t(at::INPUT)?.dtype() == DType::Bool {
            return Err(Error::not_implemented(
                "neg(): Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
            ));
        }
        unary::same(c, outs)
    },
    traits: Traits::ALIAS_OK.or(Traits::EXACT_OUT),
    limited: Limited::COMPLEX,
    sparse: Sparse::LinearValues,
    ..unary::SAME
};
