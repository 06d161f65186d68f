//! `squared_difference`, `squared_difference_backward`, `mse_loss`: `(input - target) ** 2`, reduced.

use super::*;
use crate::elementwise::unary;
use crate::named::{l1_loss, mse_loss, squared_difference, squared_difference_backward};

/// Input and target, then the reduction.
pub(super) fn samples() -> Vec<Sample> {
    let t = |s: &[i64], r| Sample::new(vec![SampleArg::f32(s), SampleArg::f32(s)]).kw("reduction", SampleArg::Str(r));
    vec![t(&[3, 4], "mean"), t(&[2, 3, 4], "sum"), t(&[5], "none"), t(&[], "mean")]
}

/// Weighs and reduces; a weighted mean divides by the weights.
pub(super) fn finish(c: &Call<'_>, outs: &mut Outs, losses: Tensor) -> Result<()> {
    let reduction = c.str(l1_loss::REDUCTION)?;
    check_reduction(reduction)?;
    outs.give(match c.opt(l1_loss::WEIGHT) {
        Some(w) if reduction == "mean" => {
            let all = w.expand(losses.sizes())?.sum(None, false)?;
            losses.mul(w)?.sum(None, false)?.div(&all)?
        }
        w => reduce(weighted(losses, w)?, reduction)?,
    });
    Ok(())
}

/// A gradient of the input from one of the losses; the target's is its negative.
pub(super) fn grad(c: &GradCall<'_>, out: &mut Grads, f: fn(&GradCall<'_>) -> Result<Tensor>) -> Result<()> {
    let gx = f(c)?;
    out.set(squared_difference::TARGET, || gx.neg())?;
    out.set(squared_difference::INPUT, || Ok(gx))
}

pub(super) const SAVED: &[Save] = &[
    Save::of(squared_difference::INPUT, &[squared_difference::INPUT, squared_difference::TARGET]),
    Save::of(squared_difference::TARGET, &[squared_difference::INPUT, squared_difference::TARGET]),
];

pub(super) fn pair() -> Vec<Sample> {
    let t = |a: &[i64], b: &[i64]| Sample::new(vec![SampleArg::f32(a), SampleArg::f32(b)]);
    vec![t(&[3, 4], &[3, 4]), t(&[3, 4], &[4]), t(&[], &[])]
}

pub(super) fn with_grad(pairs: Vec<Sample>) -> Vec<Sample> {
    pairs
        .into_iter()
        .map(|mut s| {
            s.args.insert(0, s.args[0].clone());
            s
        })
        .collect()
}

static MSE_EXPR: Expr = expr!(float "squared_difference", |x, t| (x - t) * (x - t));

static MSE_BACKWARD_EXPR: Expr = expr!(float "squared_difference_backward", |g, x, t| (x - t) * (g + g));

pub static SQUARED: OpDef = OpDef {
    sig: Sig::parse("squared_difference(Tensor input, Tensor target) -> Tensor"),
    doc: "`(input - target) ** 2`, elementwise.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &MSE_EXPR)),
    grad: Grad::Rule {
        save: SAVED,
        fix: Fix::Broadcast,
        f: |c, out| {
            grad(c, out, |c| {
                c.g()?.squared_difference_backward(c.x(squared_difference::INPUT)?, c.x(squared_difference::TARGET)?)
            })
        },
    },
    samples: pair,
    ..POINTWISE
};

pub static SQUARED_BACKWARD: OpDef = OpDef {
    sig: Sig::parse("squared_difference_backward(Tensor grad_output, Tensor input, Tensor target) -> Tensor"),
    doc: "Gradient of the input.",
    kernel: Kernel::Elementwise(|_, o, p| unary::by_output(o, p, &MSE_BACKWARD_EXPR)),
    compose: Some(|c, outs| {
        outs.give(
            c.t(squared_difference_backward::INPUT)?
                .sub(c.t(squared_difference_backward::TARGET)?)?
                .mul(c.t(squared_difference_backward::GRAD_OUTPUT)?)?
                .mul(2.0)?,
        );
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Elementwise { linear: &[InMask::of(&[squared_difference_backward::GRAD_OUTPUT])] }),
    samples: || with_grad(pair()),
    ..POINTWISE
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("mse_loss(Tensor input, Tensor target, str reduction=\"mean\", Tensor? weight=None) -> Tensor"),
    doc: "`(input - target) ** 2`, reduced.

Example::

    >>> oneflow.nn.functional.mse_loss(oneflow.tensor([1., 2.]), oneflow.tensor([0., 4.]))
    tensor(2.5000)",
    compose: Some(|c, outs| finish(c, outs, c.t(mse_loss::INPUT)?.squared_difference(c.t(mse_loss::TARGET)?)?)),
    samples,
    ..LOSS
};
