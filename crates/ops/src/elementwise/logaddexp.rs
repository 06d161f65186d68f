//! `logaddexp`, `logaddexp2`: `log(exp(input) + exp(other))`, without overflow.

use super::{binary, two_tensors, unary};
use crate::named::{logaddexp, logaddexp2};
use crate::prelude::*;

static LOGADDEXP_EXPR: Expr = expr!(float "logaddexp", |x, y| special::logaddexp(x, y))
    .complex(complex!(|x, y| special::logaddexp_complex(x, y)));

static LOGADDEXP2_EXPR: Expr = expr!(float "logaddexp2", |x, y| special::logaddexp2(x, y));

/// As `float_only`, complex numbers too.
fn differentiable_only(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let d = binary::common(c)?;
    if !d.is_differentiable() {
        return Err(unary::not_implemented(c, d));
    }
    binary::infer(c, outs)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("logaddexp(Tensor input, Tensor other) -> Tensor"),
    doc: "`log(exp(input) + exp(other))`, without overflow.

Example::

    >>> oneflow.logaddexp(oneflow.tensor([0.]), oneflow.tensor([0.]))
    tensor([0.6931])",
    faces: Faces::FN_METHOD_OUT,
    infer: differentiable_only,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LOGADDEXP_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(logaddexp::INPUT, &[logaddexp::INPUT, logaddexp::OTHER]),
            Save::of(logaddexp::OTHER, &[logaddexp::INPUT, logaddexp::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let apart = super::dual(&c.x(logaddexp::OTHER)?.sub(c.x(logaddexp::INPUT)?)?)?;
            out.set(logaddexp::INPUT, || c.g()?.mul(&apart.neg()?.sigmoid()?))?;
            out.set(logaddexp::OTHER, || c.g()?.mul(&apart.sigmoid()?))
        },
    },
    samples: two_tensors,
    ..binary::ARITH
};

pub static LOGADDEXP2: OpDef = OpDef {
    sig: Sig::parse("logaddexp2(Tensor input, Tensor other) -> Tensor"),
    doc: "`log2(2 ** input + 2 ** other)`, without overflow.

Example::

    >>> oneflow.logaddexp2(oneflow.tensor([1.]), oneflow.tensor([1.]))
    tensor([2.])",
    faces: Faces::FN_METHOD_OUT,
    infer: super::binary_rules::float_only,
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &LOGADDEXP2_EXPR)),
    grad: Grad::Rule {
        save: &[
            Save::of(logaddexp2::INPUT, &[logaddexp2::INPUT, logaddexp2::OTHER]),
            Save::of(logaddexp2::OTHER, &[logaddexp2::INPUT, logaddexp2::OTHER]),
        ],
        fix: Fix::Broadcast,
        f: |c, out| {
            let apart = c.x(logaddexp2::OTHER)?.sub(c.x(logaddexp2::INPUT)?)?.mul(std::f64::consts::LN_2)?;
            out.set(logaddexp2::INPUT, || c.g()?.mul(&apart.neg()?.sigmoid()?))?;
            out.set(logaddexp2::OTHER, || c.g()?.mul(&apart.sigmoid()?))
        },
    },
    samples: two_tensors,
    ..binary::ARITH
};
