//! Connectionist temporal classification.

use super::*;
use crate::named::{ctc_loss_backward, native_ctc_loss};

pub static NATIVE: OpDef = OpDef {
    sig: Sig::parse(
        "native_ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int max_target_length, int blank, bool zero_infinity) -> (Tensor loss, Tensor log_alpha)",
    ),
    doc: "Negative log likelihood of each sample's labels, and the forward variables its backward needs.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, n, most) = (
            c.t(native_ctc_loss::LOG_PROBS)?,
            c.t(native_ctc_loss::LOG_PROBS)?.sizes(),
            c.int(native_ctc_loss::MAX_TARGET_LENGTH)?,
        );
        if x.ndim() != 3 || !x.dtype().is_float() {
            return Err(Error::runtime(format!(
                "ctc_loss(): log_probs must be floating point of shape (T, N, C), got {} {:?}",
                x.dtype(),
                x.sizes()
            )));
        }
        if !(0..n[2]).contains(&c.int(native_ctc_loss::BLANK)?) {
            return Err(Error::runtime(format!(
                "blank must be in label range, got {} of {} classes",
                c.int(native_ctc_loss::BLANK)?,
                n[2]
            )));
        }
        if c.t(native_ctc_loss::TARGETS)?.ndim() == 2 && c.t(native_ctc_loss::TARGETS)?.sizes()[0] != n[1] {
            return Err(Error::runtime(format!(
                "ctc_loss(): Expected targets of {} samples, got {:?}",
                n[1],
                c.t(native_ctc_loss::TARGETS)?.sizes()
            )));
        }
        for (at, name) in
            [(native_ctc_loss::INPUT_LENGTHS, "input_lengths"), (native_ctc_loss::TARGET_LENGTHS, "target_lengths")]
        {
            if c.t(at)?.sizes() != [n[1]] {
                return Err(Error::runtime(format!("{name} must be of size batch_size")));
            }
        }
        for at in [native_ctc_loss::TARGETS, native_ctc_loss::INPUT_LENGTHS, native_ctc_loss::TARGET_LENGTHS] {
            if c.t(at)?.dtype() != DType::I64 {
                return Err(Error::runtime("ctc_loss(): targets and lengths must be int64"));
            }
        }
        outs.push(x.dtype(), x.device(), &[n[1]])?;
        outs.push(x.dtype(), x.device(), &[n[1], n[0], 2 * most + 1])
    },
    kernel: Kernel::Prim {
        prim: &CTC_LOSS,
        lower: |c, _, l| {
            l.input(native_ctc_loss::LOG_PROBS)
                .input(native_ctc_loss::TARGETS)
                .input(native_ctc_loss::INPUT_LENGTHS)
                .input(native_ctc_loss::TARGET_LENGTHS)
                .output(native_ctc_loss::LOSS)
                .output(native_ctc_loss::LOG_ALPHA)
                .with(CtcLossParams { blank: c.int(native_ctc_loss::BLANK)? });
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[
            Save::of(native_ctc_loss::LOG_PROBS, &[native_ctc_loss::LOG_PROBS]),
            Save::of(native_ctc_loss::TARGETS, &[native_ctc_loss::LOG_PROBS]),
            Save::of(native_ctc_loss::INPUT_LENGTHS, &[native_ctc_loss::LOG_PROBS]),
            Save::of(native_ctc_loss::TARGET_LENGTHS, &[native_ctc_loss::LOG_PROBS]),
            Save::out(native_ctc_loss::LOSS, &[native_ctc_loss::LOG_PROBS]),
            Save::out(native_ctc_loss::LOG_ALPHA, &[native_ctc_loss::LOG_PROBS]),
        ],
        fix: Fix::None,
        f: |c, out| {
            let (blank, zero_infinity) =
                (c.arg(native_ctc_loss::BLANK).int().unwrap_or(0), c.arg(native_ctc_loss::ZERO_INFINITY).bool());
            out.set(native_ctc_loss::LOG_PROBS, || {
                c.g()?.ctc_loss_backward(
                    c.x(native_ctc_loss::LOG_PROBS)?,
                    c.x(native_ctc_loss::TARGETS)?,
                    c.x(native_ctc_loss::INPUT_LENGTHS)?,
                    c.x(native_ctc_loss::TARGET_LENGTHS)?,
                    c.y(native_ctc_loss::LOSS)?,
                    c.y(native_ctc_loss::LOG_ALPHA)?,
                    blank,
                    zero_infinity,
                )
            })
        },
    },
    differentiable: OutMask::of(&[native_ctc_loss::LOSS]),
    sbp: SbpRule::of(Rows::OnlyB { why: "concatenated targets have no batch dimension" }),
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "ctc_loss_backward(Tensor grad_loss, Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, Tensor loss, Tensor log_alpha, int blank, bool zero_infinity) -> Tensor",
    ),
    doc: "Gradient of the input of the log softmax that gave the log probabilities. It has no second derivative.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        outs.push(
            c.t(ctc_loss_backward::LOG_PROBS)?.dtype(),
            c.t(ctc_loss_backward::LOG_PROBS)?.device(),
            c.t(ctc_loss_backward::LOG_PROBS)?.sizes(),
        )
    },
    kernel: Kernel::Prim {
        prim: &CTC_LOSS_BACKWARD,
        lower: |c, _, l| {
            l.input(ctc_loss_backward::GRAD_LOSS)
                .input(ctc_loss_backward::LOG_PROBS)
                .input(ctc_loss_backward::TARGETS)
                .input(ctc_loss_backward::INPUT_LENGTHS)
                .input(ctc_loss_backward::TARGET_LENGTHS)
                .input(ctc_loss_backward::LOSS)
                .input(ctc_loss_backward::LOG_ALPHA)
                .output(ctc_loss_backward::RESULT)
                .with(CtcLossBackwardParams {
                    blank: c.int(ctc_loss_backward::BLANK)?,
                    zero_infinity: c.bool(ctc_loss_backward::ZERO_INFINITY),
                });
            Ok(())
        },
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "concatenated targets have no batch dimension" }),
    ..OpDef::BASE
};
