//! Subtraction.

use super::binary;
use crate::named::sub as at;
use crate::prelude::*;

static TENSOR: Expr = expr!(num "sub", |x, y| x - y).complex(complex!(|x, y| x - y));
static SCALAR: Expr = expr!(num "sub_scalar", |x; p| x - p[0]).complex(complex!(|x; p| x - p[0]));
static TENSOR_ALPHA: Expr =
    expr!(num "sub_alpha", |x, y; p| (-p[0]).mul_add(y, x)).complex(complex!(|x, y; p| x - p[0] * y));
static SCALAR_ALPHA: Expr =
    expr!(num "sub_scalar_alpha", |x; p| (-p[0]).mul_add(p[1], x)).complex(complex!(|x; p| x - p[0] * p[1]));

/// Masks are no numbers here.
pub(super) fn refuse_masks(c: &Call<'_>) -> Result<()> {
    let is_mask = |t: &&Tensor| t.dtype() == DType::Bool;
    let truth = matches!(super::scalar_arg(c, at::OTHER_SCALAR), Some(Scalar::Bool(_)));
    let n_masks = c.ins.iter().flatten().copied().filter(is_mask).count() + usize::from(truth);
    match n_masks {
        0 => Ok(()),
        2 => Err(Error::not_implemented(format!(
            "{}(): Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.",
            c.name()
        ))),
        _ => Err(Error::not_implemented(format!(
            "{}(): Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
            c.name()
        ))),
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("sub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor"),
    doc: "Subtracts `other`, multiplied by `alpha`, from `input`, with broadcasting and type promotion.

Example::

    >>> oneflow.sub(oneflow.tensor([1., 2.]), 1)
    tensor([0., 1.])",
    infer: |c, outs| {
        refuse_masks(c)?;
        binary::infer_alpha(c, outs)
    },
    kernel: Kernel::Elementwise(|c, outs, p| {
        let compute = outs[at::RESULT].dtype().compute();
        let alpha = c.arg(at::ALPHA).scalar().unwrap_or(Scalar::Int(1));
        if alpha.is_one() {
            return binary::lower(c, compute, p, &TENSOR, &SCALAR);
        }
        super::add::with_alpha(c, compute, p, alpha, &TENSOR_ALPHA, &SCALAR_ALPHA)
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(at::INPUT, || Ok(c.g()?.clone()))?;
            out.set(at::OTHER, || super::add::scaled(c.g()?, c.arg(at::ALPHA).scalar())?.mul(-1.0))
        },
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[at::INPUT, at::OTHER])] }),
    traits: Traits::ALIAS_OK.or(Traits::NUMBERS),
    limited: Limited::COMPLEX,
    sparse: Sparse::Add(-1),
    ..binary::ARITH
};
