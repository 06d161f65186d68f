//! The greater of two elements.

use super::binary;
use crate::named::maximum as at;
use crate::prelude::*;

static TENSOR: Expr = expr!(num "maximum", |x, y| x.maximum(y));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("maximum(Tensor input, Tensor other) -> Tensor"),
    doc: "The greater of both operands, elementwise; NaN where one is NaN.

Example::

    >>> oneflow.maximum(oneflow.tensor([1., 4.]), oneflow.tensor([3., 2.]))
    tensor([3., 4.])",
    faces: Faces::FN_METHOD_OUT,
    infer: binary::infer_real,
    kernel: Kernel::Elementwise(|_, o, p| super::unary::by_output(o, p, &TENSOR)),
    grad: Grad::Rule {
        save: &[Save::of(at::INPUT, &[at::INPUT, at::OTHER]), Save::of(at::OTHER, &[at::INPUT, at::OTHER])],
        fix: Fix::Broadcast,
        f: |c, out| {
            let (x, y) = (c.x(at::INPUT)?, c.x(at::OTHER)?);
            // Equal operands share the gradient.
            let half = x.eq(y)?.r#where(&c.g()?.mul(0.5)?, c.g()?)?;
            // NaN is no less than anything: both get the gradient.
            out.set(at::INPUT, || x.lt(y)?.r#where(0.0, &half))?;
            out.set(at::OTHER, || y.lt(x)?.r#where(0.0, &half))
        },
    },
    traits: Traits::ALIAS_OK.or(Traits::COMMUTES),
    samples: || {
        let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
        vec![t(&[5], &[5]), t(&[3, 4], &[4]), t(&[3, 1], &[1, 4]), t(&[], &[2])]
    },
    limited: Limited::ORDER,
    ..binary::ARITH
};
