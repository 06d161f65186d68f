//! Error function.

use super::unary;
use crate::named::erf as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "erf", |x| x.erf());

pub static OP: OpDef = OpDef {
    sig: Sig::parse("erf(Tensor input) -> Tensor"),
    doc: "Error function, elementwise.

Example::

    >>> oneflow.erf(oneflow.tensor([0., 1.]))
    tensor([0.0000, 0.8427])",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &EXPR)),
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(at::INPUT, || {
                let x = c.x(at::INPUT)?;
                c.g()?.mul(&x.mul(x)?.mul(-1.0)?.exp()?.mul(std::f64::consts::FRAC_2_SQRT_PI)?)
            })
        },
    },
    sparse: Sparse::Values,
    ..unary::FLOAT
};
