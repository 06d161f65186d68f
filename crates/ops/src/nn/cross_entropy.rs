//! Cross entropy of rows of logits with class indices, without holding the probabilities.

use crate::named::{cross_entropy_backward, native_cross_entropy, native_cross_entropy_reduced};
use crate::prelude::*;

fn check(c: &Call<'_>, logits: &Tensor, target: &Tensor) -> Result<()> {
    if logits.ndim() != 2 || target.ndim() != 1 || logits.sizes()[0] != target.sizes()[0] {
        return Err(Error::value(format!(
            "{}(): Expected input batch_size to match target batch_size: logits {:?} (rows, classes), target {:?} (rows)",
            c.name(),
            logits.sizes(),
            target.sizes()
        )));
    }
    if target.dtype() != DType::I64 {
        return Err(Error::runtime(format!(
            "{}(): expected scalar type Long for target but found {}",
            c.name(),
            target.dtype().scalar_type_name()
        )));
    }
    if !logits.dtype().is_float() {
        return Err(Error::not_implemented(format!(
            "\"cross_entropy\" not implemented for '{}'",
            logits.dtype().scalar_type_name()
        )));
    }
    match c.opt(native_cross_entropy::WEIGHT) {
        Some(w) if w.sizes() != &logits.sizes()[1..] => Err(Error::runtime(format!(
            "cross_entropy(): weight tensor should be defined either for all {} classes or no classes but got weight tensor of shape: {:?}",
            logits.sizes()[1],
            w.sizes()
        ))),
        _ => Ok(()),
    }
}

fn split_rows(c: &Call<'_>, ins: &[bool], n_outs: usize, rows: &mut Vec<Row>) -> Result<()> {
    let s = Sbp::S(0);
    let ins =
        c.ins.iter().zip(ins).filter(|(t, _)| t.is_some()).map(|(_, split)| if *split { s } else { Sbp::B }).collect();
    rows.push(Row { ins, outs: SmallVec::from_elem(s, n_outs) });
    Ok(())
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse(
        "native_cross_entropy(Tensor input, Tensor target, Tensor? weight, int ignore_index, float label_smoothing) -> (Tensor loss, Tensor logsumexp)",
    ),
    doc: "Cross entropy of every row of logits [n, c] with its class; also the logsumexp its backward needs.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, t) = (c.t(native_cross_entropy::INPUT)?, c.t(native_cross_entropy::TARGET)?);
        check(c, x, t)?;
        outs.push(x.dtype(), x.device(), &x.sizes()[..1])?;
        outs.push(x.dtype().compute(), x.device(), &x.sizes()[..1])
    },
    kernel: Kernel::Prim {
        prim: &CROSS_ENTROPY,
        lower: |c, _, l| {
            l.input(native_cross_entropy::INPUT)
                .input(native_cross_entropy::TARGET)
                .opt_input(native_cross_entropy::WEIGHT, c.opt(native_cross_entropy::WEIGHT).is_some())
                .output(native_cross_entropy::LOSS)
                .output(native_cross_entropy::LOGSUMEXP);
            l.with(CrossEntropyParams {
                ignore_index: c.int(native_cross_entropy::IGNORE_INDEX)?,
                label_smoothing: c.float(native_cross_entropy::LABEL_SMOOTHING)?,
            });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[
            Save::of(native_cross_entropy::INPUT, &[native_cross_entropy::INPUT]),
            Save::of(native_cross_entropy::TARGET, &[native_cross_entropy::INPUT]),
            Save::of(native_cross_entropy::WEIGHT, &[native_cross_entropy::INPUT]),
            Save::out(native_cross_entropy::LOGSUMEXP, &[native_cross_entropy::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (ignore, smoothing) = (
                c.arg(native_cross_entropy::IGNORE_INDEX).int().unwrap_or(-100),
                c.arg(native_cross_entropy::LABEL_SMOOTHING).float().unwrap_or(0.0),
            );
            out.set(native_cross_entropy::INPUT, || {
                c.g()?.cross_entropy_backward(
                    c.x(native_cross_entropy::INPUT)?,
                    c.x(native_cross_entropy::TARGET)?,
                    c.opt_x(native_cross_entropy::WEIGHT),
                    c.y(native_cross_entropy::LOGSUMEXP)?,
                    ignore,
                    smoothing,
                )
            })
        },
    },
    differentiable: OutMask::of(&[native_cross_entropy::LOSS]),
    sbp: SbpRule::of(Rows::Custom(|c, rows| split_rows(c, &[true, true, false], 2, rows))),
    amp: Amp::FLOAT32,
    samples: || {
        let i = SampleArg::Int;
        vec![
            Sample::new(vec![
                SampleArg::f32(&[4, 5]),
                SampleArg::i64(&[4], 0, 5),
                SampleArg::None,
                i(-100),
                SampleArg::Float(0.0),
            ]),
            Sample::new(vec![
                SampleArg::f32(&[4, 5]),
                SampleArg::i64(&[4], 0, 5),
                SampleArg::None,
                i(1),
                SampleArg::Float(0.1),
            ]),
        ]
    },
    ..OpDef::BASE
};

pub static REDUCED: OpDef = OpDef {
    sig: Sig::parse(
        "native_cross_entropy_reduced(Tensor input, Tensor target, Tensor? weight, int ignore_index, float label_smoothing, bool mean) -> (Tensor loss, Tensor logsumexp, Tensor total_weight)",
    ),
    doc: "Sum (or weighted mean) of the rows' cross entropy; also what its backward needs.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, t) = (c.t(native_cross_entropy_reduced::INPUT)?, c.t(native_cross_entropy_reduced::TARGET)?);
        check(c, x, t)?;
        outs.push(x.dtype(), x.device(), &[])?;
        outs.push(x.dtype().compute(), x.device(), &x.sizes()[..1])?;
        outs.push(x.dtype().compute(), x.device(), &[])
    },
    kernel: Kernel::Prim {
        prim: &CROSS_ENTROPY_REDUCED,
        lower: |c, _, l| {
            l.input(native_cross_entropy_reduced::INPUT)
                .input(native_cross_entropy_reduced::TARGET)
                .opt_input(native_cross_entropy_reduced::WEIGHT, c.opt(native_cross_entropy_reduced::WEIGHT).is_some())
                .output(native_cross_entropy_reduced::LOSS)
                .output(native_cross_entropy_reduced::LOGSUMEXP)
                .output(native_cross_entropy_reduced::TOTAL_WEIGHT);
            l.with(CrossEntropyReducedParams {
                rows: CrossEntropyParams {
                    ignore_index: c.int(native_cross_entropy_reduced::IGNORE_INDEX)?,
                    label_smoothing: c.float(native_cross_entropy_reduced::LABEL_SMOOTHING)?,
                },
                mean: c.bool(native_cross_entropy_reduced::MEAN),
            });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (x, t, ignore) = (
            c.t(native_cross_entropy_reduced::INPUT)?,
            c.t(native_cross_entropy_reduced::TARGET)?,
            c.int(native_cross_entropy_reduced::IGNORE_INDEX)?,
        );
        let [losses, lse] = x.native_cross_entropy(
            t,
            c.opt(native_cross_entropy_reduced::WEIGHT),
            ignore,
            c.float(native_cross_entropy_reduced::LABEL_SMOOTHING)?,
        )?;
        let (kept, compute) = (t.ne(ignore)?, x.dtype().compute());
        let total =
            match c.opt(native_cross_entropy_reduced::WEIGHT) {
                Some(w) => kept
                    .r#where(&w.index_select(0, &t.masked_fill(&kept.logical_not()?, 0i64)?)?, 0.0)?
                    .sum_with(&[0], false, Some(compute))?,
                None => kept.sum_with(&[0], false, Some(compute))?,
            };
        let sum = losses.sum_with(&[0], false, Some(compute))?;
        let loss = if c.bool(native_cross_entropy_reduced::MEAN) { sum.div(&total)? } else { sum };
        outs.give(if loss.dtype() == x.dtype() { loss } else { loss.to_copy_with(Some(x.dtype()), None)? });
        outs.give(lse);
        outs.give(total);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[
            Save::of(native_cross_entropy_reduced::INPUT, &[native_cross_entropy_reduced::INPUT]),
            Save::of(native_cross_entropy_reduced::TARGET, &[native_cross_entropy_reduced::INPUT]),
            Save::of(native_cross_entropy_reduced::WEIGHT, &[native_cross_entropy_reduced::INPUT]),
            Save::out(native_cross_entropy_reduced::LOGSUMEXP, &[native_cross_entropy_reduced::INPUT]),
            Save::out(native_cross_entropy_reduced::TOTAL_WEIGHT, &[native_cross_entropy_reduced::INPUT]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (ignore, smoothing) = (
                c.arg(native_cross_entropy_reduced::IGNORE_INDEX).int().unwrap_or(-100),
                c.arg(native_cross_entropy_reduced::LABEL_SMOOTHING).float().unwrap_or(0.0),
            );
            out.set(native_cross_entropy_reduced::INPUT, || {
                let (g, x) = (c.g()?, c.x(native_cross_entropy_reduced::INPUT)?);
                let g = if c.arg(native_cross_entropy_reduced::MEAN).bool() {
                    &g.div(c.y(native_cross_entropy_reduced::TOTAL_WEIGHT)?)?
                } else {
                    g
                };
                let g = if g.dtype() == x.dtype() { g } else { &g.to_copy_with(Some(x.dtype()), None)? };
                g.cross_entropy_backward(
                    x,
                    c.x(native_cross_entropy_reduced::TARGET)?,
                    c.opt_x(native_cross_entropy_reduced::WEIGHT),
                    c.y(native_cross_entropy_reduced::LOGSUMEXP)?,
                    ignore,
                    smoothing,
                )
            })
        },
    },
    differentiable: OutMask::of(&[native_cross_entropy_reduced::LOSS]),
    sbp: SbpRule::of(Rows::Compose),
    samples: || {
        let s = |ignore, smoothing, mean| {
            Sample::new(vec![
                SampleArg::f32(&[4, 5]),
                SampleArg::i64(&[4], 0, 5),
                SampleArg::None,
                SampleArg::Int(ignore),
                SampleArg::Float(smoothing),
                SampleArg::Bool(mean),
            ])
        };
        vec![s(-100, 0.0, true), s(1, 0.1, true), s(1, 0.0, false)]
    },
    amp: Amp::FLOAT32,
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "cross_entropy_backward(Tensor grad_loss, Tensor input, Tensor target, Tensor? weight, Tensor logsumexp, int ignore_index, float label_smoothing) -> Tensor",
    ),
    doc: "Gradient of the logits; one gradient of all losses may be given as a 0-dim tensor.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        outs.push(
            c.t(cross_entropy_backward::INPUT)?.dtype(),
            c.t(cross_entropy_backward::INPUT)?.device(),
            c.t(cross_entropy_backward::INPUT)?.sizes(),
        )
    },
    kernel: Kernel::Prim {
        prim: &CROSS_ENTROPY_BACKWARD,
        lower: |c, _, l| {
            l.input_expanded(
                cross_entropy_backward::GRAD_LOSS,
                c.t(cross_entropy_backward::GRAD_LOSS)?,
                &c.t(cross_entropy_backward::INPUT)?.sizes()[..1],
            );
            l.input(cross_entropy_backward::INPUT)
                .input(cross_entropy_backward::TARGET)
                .opt_input(cross_entropy_backward::WEIGHT, c.opt(cross_entropy_backward::WEIGHT).is_some())
                .input(cross_entropy_backward::LOGSUMEXP)
                .output(cross_entropy_backward::RESULT);
            l.with(CrossEntropyParams {
                ignore_index: c.int(cross_entropy_backward::IGNORE_INDEX)?,
                label_smoothing: c.float(cross_entropy_backward::LABEL_SMOOTHING)?,
            });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, x, t) = (
            c.t(cross_entropy_backward::GRAD_LOSS)?,
            c.t(cross_entropy_backward::INPUT)?,
            c.t(cross_entropy_backward::TARGET)?,
        );
        let (ignore, smoothing) =
            (c.int(cross_entropy_backward::IGNORE_INDEX)?, c.float(cross_entropy_backward::LABEL_SMOOTHING)?);
        let classes = x.sizes()[1];
        let kept = t.ne(ignore)?;
        let safe = t.masked_fill(&t.eq(ignore)?, 0i64)?.unsqueeze(1)?;
        let hot = x.new_zeros(x.sizes())?.scatter_value(1, &safe, 1.0)?;
        // Every class's share of the target, weighted.
        let share = hot.mul(1.0 - smoothing)?.add(smoothing / classes as f64)?;
        let share = match c.opt(cross_entropy_backward::WEIGHT) {
            Some(w) => share.mul(w)?,
            None => share,
        };
        let total = share.sum(&[1], true)?;
        let row = kept.r#where(g, 0.0)?.unsqueeze(1)?;
        outs.give(x.softmax(1, None)?.mul(&total)?.sub(&share)?.mul(&row)?);
        Ok(())
    }),
    grad: Grad::Compose,
    sbp: SbpRule::of(Rows::Custom(|c, rows| {
        let each = c.t(cross_entropy_backward::GRAD_LOSS)?.ndim() == 1;
        split_rows(c, &[each, true, true, false, true], 1, rows)
    })),
    // Row by row: each is read before it is written.
    traits: Traits::ALIAS_OK,
    ..OpDef::BASE
};
