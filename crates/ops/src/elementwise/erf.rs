//! Error function.

use super::unary;
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
        save: &[Save::In(0, 1)],
        fix: Fix::None,
        f: |c, out| {
            out.set(0, || {
                let x = c.x(0)?;
                c.g()?.mul(&x.mul(x)?.mul(-1.0)?.exp()?.mul(std::f64::consts::FRAC_2_SQRT_PI)?)
            })
        },
    },
    sparse: Sparse::Values,
    ..unary::FLOAT
};
