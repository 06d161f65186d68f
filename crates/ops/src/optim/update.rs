//! The ops of optimizers: one step of a rule over all parameters of a group.

use super::{BASE, check_lists, rules};
use crate::named::{_fused_adam_, _fused_adamw_, _fused_sgd_, _fused_update_};
use crate::prelude::*;

/// What a call of any of the ops gives to the launch. The lists are parameters, gradients and states; `live` holds the options
/// that a program reads anew each step.
struct Operands<'a> {
    lists: &'a [Ins],
    numbers: &'a [LastIn],
    live: Option<LastIn>,
    grad_scale: LastIn,
    found_inf: LastIn,
}

fn lower(
    c: &Call<'_>,
    l: &mut Lowered,
    rule: &Rule,
    operands: &Operands<'_>,
    maximize: bool,
    hyper: &[f64],
) -> Result<()> {
    let [params, grads, states @ ..] = operands.lists else { return Err(Error::type_("params must be a list")) };
    let n = params.len(c.args);
    if states.iter().filter(|list| list.len(c.args) > 0).count() != rule.n_states && n > 0 {
        return Err(Error::runtime(format!("{}(): rule {:?} has {} states", c.name(), rule.name, rule.n_states)));
    }
    if hyper.len() != rule.n_hyper {
        return Err(Error::runtime(format!("{}(): rule {:?} has {} options", c.name(), rule.name, rule.n_hyper)));
    }
    // Gradients are read only.
    for list in std::iter::once(params).chain(states) {
        for at in list.all(c.args) {
            l.written_input(at);
        }
    }
    for at in grads.all(c.args).take(n) {
        l.input(at);
    }
    let Some(numbers) = operands.numbers.get(..rule.n_numbers) else {
        return Err(Error::runtime(format!("{}(): rule {:?} reads more numbers", c.name(), rule.name)));
    };
    for number in numbers {
        c.t(c.place(*number))?;
        l.input(c.place(*number));
    }
    for at in [operands.grad_scale, operands.found_inf].map(|at| c.place(at)) {
        l.opt_input(at, c.opt(at).is_some());
    }
    if let Some(live) = operands.live.map(|at| c.place(at)).filter(|at| c.opt(*at).is_some()) {
        l.input(live);
    }
    l.with(UpdateParams { rule: rule.id(), n, maximize, hyper: hyper.iter().copied().collect() });
    Ok(())
}

const UPDATE_OPERANDS: Operands<'_> = Operands {
    lists: &[
        _fused_update_::PARAMS,
        _fused_update_::GRADS,
        _fused_update_::STATES0,
        _fused_update_::STATES1,
        _fused_update_::STATES2,
    ],
    numbers: &[_fused_update_::LR, _fused_update_::STEP, _fused_update_::X2, _fused_update_::X3],
    live: Some(_fused_update_::LIVE),
    grad_scale: _fused_update_::GRAD_SCALE,
    found_inf: _fused_update_::FOUND_INF,
};

pub static UPDATE_OP: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_update_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] states0, Tensor(c!)[] states1, Tensor(d!)[] states2, Tensor? lr, Tensor? step, Tensor? x2, Tensor? x3, Tensor? live=None, *, str rule, float[] hyper, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "One step of a named rule over a list of parameters, in place. Lists of states that a rule does not have are empty.

A program reads `live`, a vector of float64, in place of `hyper`, which it would hold as constants.",
    infer: |c, _| check_lists(c, UPDATE_OPERANDS.lists).map(drop),
    kernel: Kernel::Prim {
        prim: &UPDATE,
        lower: |c, _, l| {
            let Arg::Floats(hyper) = c.arg(_fused_update_::HYPER) else { return Err(Error::type_("hyper must be a list of floats")) };
            lower(c, l, Rule::by_name(c.str(_fused_update_::RULE)?)?, &UPDATE_OPERANDS, c.bool(_fused_update_::MAXIMIZE), hyper)
        },
    },
    ..BASE
};

fn lower_adam(c: &Call<'_>, l: &mut Lowered, operands: &Operands<'_>, decoupled: bool) -> Result<()> {
    use _fused_adamw_ as at;
    let options = [c.float(at::BETA1)?, c.float(at::BETA2)?, c.float(at::EPS)?, c.float(at::WEIGHT_DECAY)?];
    let [beta1, beta2, eps, decay] = options;
    let hyper = [beta1, beta2, eps, decay, decoupled as u8 as f64, 1.0];
    lower(c, l, &rules::ADAM, operands, c.bool(at::MAXIMIZE), &hyper)
}

const ADAMW_OPERANDS: Operands<'_> = Operands {
    lists: &[_fused_adamw_::PARAMS, _fused_adamw_::GRADS, _fused_adamw_::EXP_AVGS, _fused_adamw_::EXP_AVG_SQS],
    numbers: &[_fused_adamw_::LR, _fused_adamw_::STEP],
    live: None,
    grad_scale: _fused_adamw_::GRAD_SCALE,
    found_inf: _fused_adamw_::FOUND_INF,
};

const ADAM_OPERANDS: Operands<'_> = Operands {
    lists: &[_fused_adam_::PARAMS, _fused_adam_::GRADS, _fused_adam_::EXP_AVGS, _fused_adam_::EXP_AVG_SQS],
    numbers: &[_fused_adam_::LR, _fused_adam_::STEP],
    live: None,
    grad_scale: _fused_adam_::GRAD_SCALE,
    found_inf: _fused_adam_::FOUND_INF,
};

pub static ADAMW: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor lr, Tensor step, *, float beta1, float beta2, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "AdamW over a list of parameters, in place.

Source: Loshchilov and Hutter, \"Decoupled Weight Decay Regularization\", 2019.",
    infer: |c, _| check_lists(c, ADAMW_OPERANDS.lists).map(drop),
    kernel: Kernel::Prim { prim: &UPDATE, lower: |c, _, l| lower_adam(c, l, &ADAMW_OPERANDS, true) },
    ..BASE
};

pub static ADAM_OP: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_adam_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor lr, Tensor step, *, float beta1, float beta2, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "Adam over a list of parameters, in place.

Source: Kingma and Ba, \"Adam: A Method for Stochastic Optimization\", 2015.",
    infer: |c, _| check_lists(c, ADAM_OPERANDS.lists).map(drop),
    kernel: Kernel::Prim { prim: &UPDATE, lower: |c, _, l| lower_adam(c, l, &ADAM_OPERANDS, false) },
    ..BASE
};

const SGD_OPERANDS: Operands<'_> = Operands {
    lists: &[_fused_sgd_::PARAMS, _fused_sgd_::GRADS, _fused_sgd_::MOMENTUM_BUFFERS],
    numbers: &[_fused_sgd_::LR],
    live: None,
    grad_scale: _fused_sgd_::GRAD_SCALE,
    found_inf: _fused_sgd_::FOUND_INF,
};

pub static SGD_OP: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_sgd_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentum_buffers, Tensor lr, *, float momentum, float dampening, float weight_decay, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "Stochastic gradient descent over a list of parameters, in place. The list of momentum buffers may be empty.",
    infer: |c, _| check_lists(c, SGD_OPERANDS.lists).map(drop),
    kernel: Kernel::Prim {
        prim: &UPDATE,
        lower: |c, _, l| {
            use _fused_sgd_ as at;
            let (momentum, decay, maximize) =
                (c.float(at::MOMENTUM)?, c.float(at::WEIGHT_DECAY)?, c.bool(at::MAXIMIZE));
            let flag = |at| c.bool(at) as u8 as f64;
            if at::MOMENTUM_BUFFERS.len(c.args) == 0 {
                return lower(c, l, &rules::SGD, &SGD_OPERANDS, maximize, &[decay]);
            }
            let hyper = [decay, momentum, c.float(at::DAMPENING)?, flag(at::NESTEROV), flag(at::IS_FIRST_STEP)];
            lower(c, l, &rules::SGD_MOMENTUM, &SGD_OPERANDS, maximize, &hyper)
        },
    },
    ..BASE
};
