//! Hyperbolic tangent.

use super::{dual, unary};
use crate::named::tanh as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "tanh", |x| x.tanh()).complex(complex!(|x| x.tanh()));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("tanh(Tensor input) -> Tensor"),
    doc: "Hyperbolic tangent, elementwise.

Example::

    >>> oneflow.tanh(oneflow.tensor([0., 1.]))
    tensor([0.0000, 0.7616])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::out(at::RESULT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(at::INPUT, || {
                let y = c.y(at::RESULT)?;
                c.g()?.mul(&dual(&y.mul(y)?.mul(-1.0)?.add(1.0)?)?)
            })
        },
    },
    sparse: Sparse::Values,
    ..unary::FLOAT
};
