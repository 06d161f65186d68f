//! The ops of optimizers: one step of a rule over all parameters of a group.

use super::{BASE, check_lists, rules};
use crate::prelude::*;

fn len(c: &Call<'_>, arg: usize) -> usize {
    if let Arg::Len(n) = c.arg(arg) { n as usize } else { 0 }
}

/// Lists lie first among the inputs: parameters, gradients, states. `numbers` are the inputs after them, without the two
/// that loss scaling adds; where `live` is one, the last of them holds the options that a program reads anew each step.
fn lower(
    c: &Call<'_>,
    l: &mut Lowered,
    rule: &Rule,
    n_lists: usize,
    maximize: bool,
    hyper: &[f64],
    live: usize,
) -> Result<()> {
    let n = len(c, 0);
    let lens: SmallVec<[usize; 5]> = (0..n_lists).map(|i| len(c, i)).collect();
    if lens[2..].iter().filter(|m| **m > 0).count() != rule.n_states && n > 0 {
        return Err(Error::runtime(format!("{}(): rule {:?} has {} states", c.name(), rule.name, rule.n_states)));
    }
    if hyper.len() != rule.n_hyper {
        return Err(Error::runtime(format!("{}(): rule {:?} has {} options", c.name(), rule.name, rule.n_hyper)));
    }
    let mut start = 0;
    for (i, m) in lens.iter().enumerate() {
        // Gradients are read only.
        for k in (start..start + m).filter(|_| i != 1) {
            l.written_input(k);
        }
        start += m;
    }
    for k in n..2 * n {
        l.input(k);
    }
    let scaling = c.ins.len() - 2;
    if scaling - live - start < rule.n_numbers {
        return Err(Error::runtime(format!("{}(): rule {:?} reads more numbers", c.name(), rule.name)));
    }
    for k in start..start + rule.n_numbers {
        c.t(k)?;
        l.input(k);
    }
    l.opt_input(scaling, c.opt(scaling).is_some()).opt_input(scaling + 1, c.opt(scaling + 1).is_some());
    if live > 0 && c.opt(scaling - 1).is_some() {
        l.input(scaling - 1);
    }
    l.param(rule.id()).param(n as i64).param(maximize);
    hyper.iter().for_each(|h| {
        l.param(*h);
    });
    Ok(())
}

pub static UPDATE_OP: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_update_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] states0, Tensor(c!)[] states1, Tensor(d!)[] states2, Tensor? lr, Tensor? step, Tensor? x2, Tensor? x3, Tensor? live=None, *, str rule, float[] hyper, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "One step of a named rule over a list of parameters, in place. Lists of states that a rule does not have are empty.

A program reads `live`, a vector of float64, in place of `hyper`, which it would hold as constants.",
    infer: |c, _| check_lists(c, 5).map(drop),
    kernel: Kernel::Prim {
        prim: &UPDATE,
        lower: |c, _, l| {
            let Arg::Floats(hyper) = c.arg(6) else { return Err(Error::type_("hyper must be a list of floats")) };
            lower(c, l, Rule::by_name(c.str(5)?)?, 5, c.bool(7), hyper, 1)
        },
    },
    ..BASE
};

fn lower_adam(c: &Call<'_>, l: &mut Lowered, decoupled: bool) -> Result<()> {
    let hyper = [c.float(4)?, c.float(5)?, c.float(7)?, c.float(6)?, decoupled as u8 as f64, 1.0];
    lower(c, l, &rules::ADAM, 4, c.bool(8), &hyper, 0)
}

pub static ADAMW: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor lr, Tensor step, *, float beta1, float beta2, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "AdamW over a list of parameters, in place.

Source: Loshchilov and Hutter, \"Decoupled Weight Decay Regularization\", 2019.",
    infer: |c, _| check_lists(c, 4).map(drop),
    kernel: Kernel::Prim { prim: &UPDATE, lower: |c, _, l| lower_adam(c, l, true) },
    ..BASE
};

pub static ADAM_OP: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_adam_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor lr, Tensor step, *, float beta1, float beta2, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "Adam over a list of parameters, in place.

Source: Kingma and Ba, \"Adam: A Method for Stochastic Optimization\", 2015.",
    infer: |c, _| check_lists(c, 4).map(drop),
    kernel: Kernel::Prim { prim: &UPDATE, lower: |c, _, l| lower_adam(c, l, false) },
    ..BASE
};

pub static SGD_OP: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_sgd_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentum_buffers, Tensor lr, *, float momentum, float dampening, float weight_decay, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "Stochastic gradient descent over a list of parameters, in place. The list of momentum buffers may be empty.",
    infer: |c, _| check_lists(c, 3).map(drop),
    kernel: Kernel::Prim {
        prim: &UPDATE,
        lower: |c, _, l| {
            let (momentum, decay) = (c.float(3)?, c.float(5)?);
            let flag = |i| c.bool(i) as u8 as f64;
            if len(c, 2) == 0 {
                return lower(c, l, &rules::SGD, 3, c.bool(7), &[decay], 0);
            }
            lower(c, l, &rules::SGD_MOMENTUM, 3, c.bool(7), &[decay, momentum, c.float(4)?, flag(6), flag(8)], 0)
        },
    },
    ..BASE
};
