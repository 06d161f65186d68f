//! Infinity test.

use super::unary;
use crate::named::isinf as at;
use crate::prelude::*;

static EXPR: Expr = expr!(float "isinf", |x| L::from_mask(x.is_inf()))
    .complex(complex!(|x| Cx::from_mask(x.re.is_inf() | x.im.is_inf())));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("isinf(Tensor input) -> Tensor"),
    doc: "True where an element is infinite.

Example::

    >>> oneflow.isinf(oneflow.tensor([1.]))
    tensor([False])",
    infer: |c, outs| {
        let x = c.t(at::INPUT)?;
        // Of integers: zeros in the input's layout, as torch makes them.
        if x.dtype().is_differentiable() {
            return unary::boolean(c, outs);
        }
        super::push_like(x, DType::Bool, x.device(), None, outs)
    },
    kernel: Kernel::Elementwise(|c, _, p| unary::by_float(c, p, &EXPR)),
    limited: Limited::ALL,
    sparse: Sparse::Values,
    ..unary::BOOL
};
