//! `nll_loss`: Negative log likelihood of int64 classes (N, *) under log probabilities (N, C, *).

use super::*;
use crate::named::{cross_entropy, nll_loss};

/// The class dimension, after the checks both losses share.
pub(super) fn class_dim(c: &Call<'_>, x: &Tensor, target: &Tensor) -> Result<usize> {
    if x.ndim() == 0 {
        return Err(Error::value("Expected 1 or more dimensions (got 0)"));
    }
    let dim = usize::from(x.ndim() > 1);
    if dim == 1 {
        let Some(&batch) = target.sizes().first() else {
            return Err(Error::index(
                "Dimension specified as 0 but tensor has no dimensions: the target of a batch of logits needs one",
            ));
        };
        if batch != x.sizes()[0] {
            return Err(Error::value(format!(
                "Expected input batch_size ({}) to match target batch_size ({batch}).",
                x.sizes()[0]
            )));
        }
    }
    let wanted: Dims = x.sizes().iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, n)| *n).collect();
    if target.sizes() != wanted.as_slice() {
        return Err(Error::runtime(format!(
            "{}(): Expected target size {:?}, got {:?} (input {:?})",
            c.name(),
            wanted.as_slice(),
            target.sizes(),
            x.sizes()
        )));
    }
    // OneFlow takes classes of every integer dtype.
    if !target.dtype().is_int() {
        return Err(Error::runtime(format!(
            "{}(): expected scalar type Long but found {} (argument target)",
            c.name(),
            target.dtype().scalar_type_name()
        )));
    }
    if let Some(w) = c.opt(cross_entropy::WEIGHT) {
        let n = x.sizes()[dim];
        if w.sizes() != [n] {
            return Err(Error::runtime(format!(
                "{}(): weight tensor should be defined either for all {n} classes or no classes but got weight tensor of shape: {:?}",
                c.name(),
                w.sizes()
            )));
        }
        if w.dtype() != x.dtype() {
            return Err(Error::runtime(format!(
                "{}(): expected scalar type {} but found {} (argument weight)",
                c.name(),
                x.dtype().scalar_type_name(),
                w.dtype().scalar_type_name()
            )));
        }
    }
    Ok(dim)
}

/// Gathering refuses an index that is no class with another kind of error than losses do.
#[cold]
fn no_class(e: Error, n: i64) -> Error {
    match e.kind() {
        ErrorKind::Runtime if e.text().contains("out of bounds") => {
            Error::index(format!("nll_loss(): a target is out of bounds of the {n} classes: {}", e.text()))
        }
        _ => e,
    }
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "nll_loss(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction=\"mean\") -> Tensor",
    ),
    doc: "Negative log likelihood of int64 classes (N, *) under log probabilities (N, C, *).

Example::

    >>> oneflow.nn.functional.nll_loss(oneflow.tensor([[-1., -2.]]), oneflow.tensor([1]))
    tensor(2.)",
    compose: Some(|c, outs| {
        let (x, target, ignore, reduction) = (
            c.t(nll_loss::INPUT)?,
            c.t(nll_loss::TARGET)?,
            c.int(nll_loss::IGNORE_INDEX)?,
            c.str(nll_loss::REDUCTION)?,
        );
        check_reduction(reduction)?;
        let dim = class_dim(c, x, target)?;
        let target =
            if target.dtype() == DType::I64 { target } else { &target.to_copy_with(Some(DType::I64), None)? };
        let ignored = target.eq(ignore)?;
        let class = target.masked_fill(&ignored, 0i64)?;
        let picked =
            x.straight()?.gather(dim as i64, &class.unsqueeze(dim as i64)?).map_err(|e| no_class(e, x.sizes()[dim]))?;
        let picked = picked.squeeze_dim(&[dim as i64])?.neg()?;
        let weights = match c.opt(nll_loss::WEIGHT) {
            Some(w) => {
                Some(w.index_select(0, &class.reshape(&[-1])?)?.reshape(class.sizes())?.masked_fill(&ignored, 0.0)?)
            }
            None => None,
        };
        let losses = weighted(picked, weights.as_ref())?.masked_fill(&ignored, 0.0)?;
        outs.give(if reduction == "mean" {
            let total = match weights {
                Some(w) => w.sum(None, false)?,
                None => ignored.logical_not()?.sum(None, false)?,
            };
            losses.sum(None, false)?.div(&total)?
        } else {
            reduce(losses, reduction)?
        });
        Ok(())
    }),
    samples: || {
        let t = |s: &[i64], classes, target: &[i64], r| {
            Sample::new(vec![SampleArg::f32(s), SampleArg::i64(target, 0, classes)]).kw("reduction", SampleArg::Str(r))
        };
        vec![t(&[4, 5], 5, &[4], "mean"), t(&[2, 5, 3], 5, &[2, 3], "sum"), t(&[5], 5, &[], "none")]
    },
    ..LOSS
};
