//! Cross entropy of rows of logits with class indices, without holding the probabilities.

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
    match c.opt(2) {
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
        let (x, t) = (c.t(0)?, c.t(1)?);
        check(c, x, t)?;
        outs.push(x.dtype(), x.device(), &x.sizes()[..1])?;
        outs.push(x.dtype().compute(), x.device(), &x.sizes()[..1])
    },
    kernel: Kernel::Prim {
        prim: &CROSS_ENTROPY,
        lower: |c, _, l| {
            l.input(0).input(1).opt_input(2, c.opt(2).is_some()).output(0).output(1);
            l.param(c.int(0)?).param(c.float(1)?);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::In(0, 1), Save::In(1, 1), Save::In(2, 1), Save::Out(1, 1)],
        fix: Fix::None,
        f: |c, out| {
            let (ignore, smoothing) = (c.arg(0).int().unwrap_or(-100), c.arg(1).float().unwrap_or(0.0));
            out.set(0, || c.g()?.cross_entropy_backward(c.x(0)?, c.x(1)?, c.opt_x(2), c.y(1)?, ignore, smoothing))
        },
    },
    differentiable: 0b1,
    sbp: SbpRule::of(Rows::Custom(|c, rows| split_rows(c, &[true, true, false], 2, rows))),
    amp: Amp::Float32,
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
        let (x, t) = (c.t(0)?, c.t(1)?);
        check(c, x, t)?;
        outs.push(x.dtype(), x.device(), &[])?;
        outs.push(x.dtype().compute(), x.device(), &x.sizes()[..1])?;
        outs.push(x.dtype().compute(), x.device(), &[])
    },
    kernel: Kernel::Prim {
        prim: &CROSS_ENTROPY_REDUCED,
        lower: |c, _, l| {
            l.input(0).input(1).opt_input(2, c.opt(2).is_some()).output(0).output(1).output(2);
            l.param(c.int(0)?).param(c.float(1)?).param(c.bool(2));
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (x, t, ignore) = (c.t(0)?, c.t(1)?, c.int(0)?);
        let [losses, lse] = x.native_cross_entropy(t, c.opt(2), ignore, c.float(1)?)?;
        let (kept, compute) = (t.ne(ignore)?, x.dtype().compute());
        let total =
            match c.opt(2) {
                Some(w) => kept
                    .r#where(&w.index_select(0, &t.masked_fill(&kept.logical_not()?, 0i64)?)?, 0.0)?
                    .sum_with(&[0], false, Some(compute))?,
                None => kept.sum_with(&[0], false, Some(compute))?,
            };
        let sum = losses.sum_with(&[0], false, Some(compute))?;
        let loss = if c.bool(2) { sum.div(&total)? } else { sum };
        outs.give(if loss.dtype() == x.dtype() { loss } else { loss.to_copy_with(Some(x.dtype()), None)? });
        outs.give(lse);
        outs.give(total);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[Save::In(0, 1), Save::In(1, 1), Save::In(2, 1), Save::Out(1, 1), Save::Out(2, 1)],
        fix: Fix::None,
        f: |c, out| {
            let (ignore, smoothing) = (c.arg(0).int().unwrap_or(-100), c.arg(1).float().unwrap_or(0.0));
            out.set(0, || {
                let (g, x) = (c.g()?, c.x(0)?);
                let g = if c.arg(2).bool() { &g.div(c.y(2)?)? } else { g };
                let g = if g.dtype() == x.dtype() { g } else { &g.to_copy_with(Some(x.dtype()), None)? };
                g.cross_entropy_backward(x, c.x(1)?, c.opt_x(2), c.y(1)?, ignore, smoothing)
            })
        },
    },
    differentiable: 0b1,
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
    amp: Amp::Float32,
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "cross_entropy_backward(Tensor grad_loss, Tensor input, Tensor target, Tensor? weight, Tensor logsumexp, int ignore_index, float label_smoothing) -> Tensor",
    ),
    doc: "Gradient of the logits; one gradient of all losses may be given as a 0-dim tensor.",
    faces: Faces::PRIVATE,
    infer: |c, outs| outs.push(c.t(1)?.dtype(), c.t(1)?.device(), c.t(1)?.sizes()),
    kernel: Kernel::Prim {
        prim: &CROSS_ENTROPY_BACKWARD,
        lower: |c, _, l| {
            l.input_expanded(0, c.t(0)?, &c.t(1)?.sizes()[..1]);
            l.input(1).input(2).opt_input(3, c.opt(3).is_some()).input(4).output(0);
            l.param(c.int(0)?).param(c.float(1)?);
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (g, x, t) = (c.t(0)?, c.t(1)?, c.t(2)?);
        let (ignore, smoothing) = (c.int(0)?, c.float(1)?);
        let classes = x.sizes()[1];
        let kept = t.ne(ignore)?;
        let safe = t.masked_fill(&t.eq(ignore)?, 0i64)?.unsqueeze(1)?;
        let hot = x.new_zeros(x.sizes())?.scatter_value(1, &safe, 1.0)?;
        // Every class's share of the target, weighted.
        let share = hot.mul(1.0 - smoothing)?.add(smoothing / classes as f64)?;
        let share = match c.opt(3) {
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
        let each = c.t(0)?.ndim() == 1;
        split_rows(c, &[each, true, true, false, true], 1, rows)
    })),
    // Row by row: each is read before it is written.
    traits: Traits::ALIAS_OK,
    ..OpDef::BASE
};
