//! Connectionist temporal classification.

use super::*;

pub static NATIVE: OpDef = OpDef {
    sig: Sig::parse(
        "native_ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int max_target_length, int blank, bool zero_infinity) -> (Tensor loss, Tensor log_alpha)",
    ),
    doc: "Negative log likelihood of each sample's labels, and the forward variables its backward needs.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let (x, n, most) = (c.t(0)?, c.t(0)?.sizes(), c.int(0)?);
        if x.ndim() != 3 || !x.dtype().is_float() {
            return Err(Error::runtime(format!(
                "ctc_loss(): log_probs must be floating point of shape (T, N, C), got {} {:?}",
                x.dtype(),
                x.sizes()
            )));
        }
        if !(0..n[2]).contains(&c.int(1)?) {
            return Err(Error::runtime(format!("blank must be in label range, got {} of {} classes", c.int(1)?, n[2])));
        }
        if c.t(1)?.ndim() == 2 && c.t(1)?.sizes()[0] != n[1] {
            return Err(Error::runtime(format!(
                "ctc_loss(): Expected targets of {} samples, got {:?}",
                n[1],
                c.t(1)?.sizes()
            )));
        }
        for (i, name) in [(2, "input_lengths"), (3, "target_lengths")] {
            if c.t(i)?.sizes() != [n[1]] {
                return Err(Error::runtime(format!("{name} must be of size batch_size")));
            }
        }
        for i in 1..4 {
            if c.t(i)?.dtype() != DType::I64 {
                return Err(Error::runtime("ctc_loss(): targets and lengths must be int64"));
            }
        }
        outs.push(x.dtype(), x.device(), &[n[1]])?;
        outs.push(x.dtype(), x.device(), &[n[1], n[0], 2 * most + 1])
    },
    kernel: Kernel::Prim {
        prim: &CTC_LOSS,
        lower: |c, _, l| {
            l.input(0).input(1).input(2).input(3).output(0).output(1).param(c.int(1)?);
            Ok(())
        },
    },
    grad: Grad::Rule {
        save: &[Save::In(0, 1), Save::In(1, 1), Save::In(2, 1), Save::In(3, 1), Save::Out(0, 1), Save::Out(1, 1)],
        fix: Fix::None,
        f: |c, out| {
            let (blank, zero_infinity) = (c.arg(1).int().unwrap_or(0), c.arg(2).bool());
            out.set(0, || {
                c.g()?.ctc_loss_backward(c.x(0)?, c.x(1)?, c.x(2)?, c.x(3)?, c.y(0)?, c.y(1)?, blank, zero_infinity)
            })
        },
    },
    differentiable: 0b1,
    sbp: SbpRule::of(Rows::OnlyB { why: "concatenated targets have no batch dimension" }),
    ..OpDef::BASE
};

pub static BACKWARD: OpDef = OpDef {
    sig: Sig::parse(
        "ctc_loss_backward(Tensor grad_loss, Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, Tensor loss, Tensor log_alpha, int blank, bool zero_infinity) -> Tensor",
    ),
    doc: "Gradient of the input of the log softmax that gave the log probabilities. It has no second derivative.",
    faces: Faces::PRIVATE,
    infer: |c, outs| outs.push(c.t(1)?.dtype(), c.t(1)?.device(), c.t(1)?.sizes()),
    kernel: Kernel::Prim {
        prim: &CTC_LOSS_BACKWARD,
        lower: |c, _, l| {
            for i in 0..7 {
                l.input(i);
            }
            l.output(0).param(c.int(0)?).param(c.bool(1));
            Ok(())
        },
    },
    sbp: SbpRule::of(Rows::OnlyB { why: "concatenated targets have no batch dimension" }),
    ..OpDef::BASE
};
