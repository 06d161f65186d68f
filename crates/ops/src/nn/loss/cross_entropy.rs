//! `cross_entropy`: Cross entropy between logits (N, C, *) and int64 classes (N, *), or probabilities of the
//! logits' shape.

use super::*;
use crate::named::cross_entropy;

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction=\"mean\", float label_smoothing=0.0) -> Tensor",
    ),
    doc: "Cross entropy between logits (N, C, *) and int64 classes (N, *), or probabilities of the logits' shape.

Example::

    >>> oneflow.nn.functional.cross_entropy(oneflow.zeros(2, 4), oneflow.tensor([1, 3]))
    tensor(1.3863)",
    compose: Some(|c, outs| {
        let (x, target) = (c.t(cross_entropy::INPUT)?, c.t(cross_entropy::TARGET)?);
        let (ignore, reduction, smoothing) = (
            c.int(cross_entropy::IGNORE_INDEX)?,
            c.str(cross_entropy::REDUCTION)?,
            c.float(cross_entropy::LABEL_SMOOTHING)?,
        );
        check_reduction(reduction)?;
        if !(0.0..=1.0).contains(&smoothing) {
            return Err(Error::runtime(format!("label_smoothing must be between 0.0 and 1.0. Got: {smoothing}")));
        }
        if x.sizes() == target.sizes() {
            outs.give(of_probabilities(c, x, target, reduction, smoothing)?);
            return Ok(());
        }
        let dim = super::nll_loss::class_dim(c, x, target)?;
        let classes = x.sizes()[dim];
        // Rows of logits. Positions of size one need no transposition.
        let one_each = x.ndim() > 2 && x.sizes()[0] * classes == x.numel() && x.numel() > 0;
        let moved = match x.ndim() == 2 || one_each {
            true => x.clone(),
            false => x.movedim(&[dim as i64], &[-1])?,
        };
        let rows = if x.ndim() == 2 { moved } else { moved.reshape(&[target.numel(), classes])? };
        let flat = if target.ndim() == 1 { target.clone() } else { target.reshape(&[-1])? };
        let flat = if flat.dtype() == DType::I64 { flat } else { flat.to_copy_with(Some(DType::I64), None)? };
        outs.give(if reduction == "none" {
            let [losses, _] = rows.native_cross_entropy(&flat, c.opt(cross_entropy::WEIGHT), ignore, smoothing)?;
            if target.ndim() == 1 { losses } else { losses.reshape(target.sizes())? }
        } else {
            let [loss, _, _] = rows.native_cross_entropy_reduced(
                &flat,
                c.opt(cross_entropy::WEIGHT),
                ignore,
                smoothing,
                reduction == "mean",
            )?;
            loss
        });
        Ok(())
    }),
    samples: || {
        let t = |s: &[i64], classes, target: &[i64], r| {
            Sample::new(vec![SampleArg::f32(s), SampleArg::i64(target, 0, classes)]).kw("reduction", SampleArg::Str(r))
        };
        vec![
            t(&[4, 5], 5, &[4], "mean"),
            t(&[2, 5, 3], 5, &[2, 3], "sum"),
            t(&[4, 5], 5, &[4], "none").kw("label_smoothing", SampleArg::Float(0.1)),
            t(&[5], 5, &[], "mean"),
        ]
    },
    ..LOSS
};

fn of_probabilities(c: &Call<'_>, x: &Tensor, target: &Tensor, reduction: &str, smoothing: f64) -> Result<Tensor> {
    if !target.dtype().is_float() {
        return Err(Error::runtime(format!(
            "Expected floating point type for target with class probabilities, got {}",
            target.dtype().scalar_type_name()
        )));
    }
    if c.int(cross_entropy::IGNORE_INDEX)? >= 0 {
        return Err(Error::runtime("ignore_index is not supported for floating point target"));
    }
    let dim = usize::from(x.ndim() > 1);
    let classes = *x.sizes().get(dim).ok_or_else(|| Error::value("Expected 1 or more dimensions (got 0)"))?;
    let target = match smoothing > 0.0 {
        true => &target.mul(1.0 - smoothing)?.add(smoothing / classes as f64)?,
        false => target,
    };
    let mut product = x.log_softmax(dim as i64, None)?.mul(target)?;
    if let Some(w) = c.opt(cross_entropy::WEIGHT) {
        if w.sizes() != [classes] {
            return Err(Error::runtime(format!(
                "cross_entropy(): weight tensor should be defined either for all {classes} classes or no classes but got weight tensor of shape: {:?}",
                w.sizes()
            )));
        }
        let mut shape: Dims = SmallVec::from_elem(1, x.ndim());
        shape[dim] = classes;
        product = product.mul(&w.reshape(&shape)?)?;
    }
    let losses = product.sum(&[dim as i64], false)?.neg()?;
    match reduction {
        "mean" => losses.sum(None, false)?.div((x.numel() / classes.max(1)) as f64),
        r => reduce(losses, r),
    }
}
