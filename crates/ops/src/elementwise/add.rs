//! Addition.

use super::binary;
use crate::named::add as at;
use crate::prelude::*;
use oneflow_core::narrow_operands;

static TENSOR: Expr = expr!(num "add", |x, y| x + y).complex(complex!(|x, y| x + y));
static SCALAR: Expr = expr!(num "add_scalar", |x; p| x + p[0]).complex(complex!(|x; p| x + p[0]));
static TENSOR_ALPHA: Expr =
    expr!(num "add_alpha", |x, y; p| p[0].mul_add(y, x)).complex(complex!(|x, y; p| x + p[0] * y));
static SCALAR_ALPHA: Expr =
    expr!(num "add_scalar_alpha", |x; p| p[0].mul_add(p[1], x)).complex(complex!(|x; p| x + p[0] * p[1]));

pub static OP: OpDef = OpDef {
    sig: Sig::parse("add(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor"),
    doc: "Adds `other`, multiplied by `alpha`, to `input`, with broadcasting and type promotion.

Example::

    >>> oneflow.add(oneflow.tensor([1., 2.]), 10)
    tensor([11., 12.])",
    infer: binary::infer_alpha,
    kernel: Kernel::Elementwise(|c, outs, p| {
        let compute = outs[at::RESULT].dtype().compute();
        let alpha = c.arg(at::ALPHA).scalar().unwrap_or(Scalar::Int(1));
        if alpha.is_one() {
            return binary::lower(c, compute, p, &TENSOR, &SCALAR);
        }
        with_alpha(c, compute, p, alpha, &TENSOR_ALPHA, &SCALAR_ALPHA)
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(at::INPUT, || Ok(c.g()?.clone()))?;
            out.set(at::OTHER, || scaled(c.g()?, c.arg(at::ALPHA).scalar()))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[at::INPUT, at::OTHER])] }),
    traits: Traits::ALIAS_OK.or(Traits::COMMUTES).or(Traits::NUMBERS),
    limited: Limited::COMPLEX,
    sparse: Sparse::Add(1),
    ..binary::ARITH
};

/// Chooses between the expression of two tensors and that with a number, which comes after `alpha`.
pub(super) fn with_alpha(
    c: &Call<'_>,
    compute: DType,
    p: &mut Params,
    alpha: Scalar,
    tensor: &'static Expr,
    scalar: &'static Expr,
) -> Result<&'static Expr> {
    p.push(compute.into());
    super::push_scalar(p, compute, narrow_operands::number(c.t(at::INPUT)?, compute, alpha));
    match binary::number(c, compute)? {
        None => Ok(tensor),
        Some(s) => {
            super::push_scalar(p, compute, s);
            Ok(scalar)
        }
    }
}

/// `g * conj(alpha)`, or `g` itself where alpha is one.
pub(super) fn scaled(g: &Tensor, alpha: Option<Scalar>) -> Result<Tensor> {
    match alpha {
        Some(a) if !a.is_one() => g.mul(a.conj()),
        _ => Ok(g.clone()),
    }
}

/// `x * value`, or `x` itself where the value is one.
pub(super) fn times(x: &Tensor, value: Option<Scalar>) -> Result<Tensor> {
    match value {
        Some(v) if !v.is_one() => x.mul(v),
        _ => Ok(x.clone()),
    }
}
