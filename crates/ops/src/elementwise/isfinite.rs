//! Finiteness test.

use super::unary;
use crate::named::isfinite as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "isfinite", |x| L::from_mask(x.is_finite()))
    .complex(complex!(|x| Cx::from_mask(x.re.is_finite() & x.im.is_finite())));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("isfinite(Tensor input) -> Tensor"),
    doc: "True where an element is neither infinite nor NaN.

Example::

    >>> oneflow.isfinite(oneflow.tensor([1.]))
    tensor([True])",
    infer: |c, outs| {
        let x = c.t(at::INPUT)?;
        // Of integers: ones in the input's layout, as torch makes them.
        if x.dtype().is_differentiable() {
            return unary::boolean(c, outs);
        }
        super::push_like(x, DType::Bool, x.device(), None, outs)
    },
    kernel: Kernel::Elementwise(|c, _, p| unary::by_float(c, p, &EXPR)),
    limited: Limited::ALL,
    ..unary::BOOL
};
