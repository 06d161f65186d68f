//! Losses: the reduction they share. Rarely used ones are composed in the Python package.

pub mod binary_cross_entropy;
pub mod cross_entropy;
pub mod ctc_loss;
pub mod l1_loss;
pub mod mse_loss;
pub mod nll_loss;
pub mod smooth_l1_loss;

use crate::prelude::*;

/// A public loss, made of ops.
pub(super) const LOSS: OpDef =
    OpDef { faces: Faces::NN, grad: Grad::Compose, sbp: SbpRule::of(Rows::Compose), amp: Amp::FLOAT32, ..OpDef::BASE };

/// "mean", "sum" or "none".
pub(super) fn check_reduction(reduction: &str) -> Result<()> {
    match reduction {
        "mean" | "sum" | "none" => Ok(()),
        other => Err(Error::value(format!("{other} is not a valid value for reduction"))),
    }
}

pub(super) fn reduce(losses: Tensor, reduction: &str) -> Result<Tensor> {
    match reduction {
        "mean" => losses.mean(None, false),
        "sum" => losses.sum(None, false),
        _ => Ok(losses),
    }
}

/// Losses times their weights; with weights, what "mean" divides by is up to the caller.
pub(super) fn weighted(losses: Tensor, weight: Option<&Tensor>) -> Result<Tensor> {
    match weight {
        Some(w) => losses.mul(w),
        None => Ok(losses),
    }
}

/// An elementwise loss before its reduction, and the backward of one.
pub(super) const POINTWISE: OpDef = OpDef {
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let dtype = result_type(c.ins.iter().flatten().copied(), None)?;
        if !dtype.is_float() {
            return Err(Error::not_implemented(format!(
                "\"{}\" not implemented for '{}'",
                c.name(),
                dtype.scalar_type_name()
            )));
        }
        crate::elementwise::push_broadcast(c, dtype, outs)
    },
    sbp: SbpRule::of(Rows::Elementwise { linear: &[] }),
    ..OpDef::BASE
};
