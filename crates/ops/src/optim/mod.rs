//! Optimizer updates: one call for all parameters of a group.
//!
//! Numbers that change per step (lr, step, loss scale, found_inf) are 0-dim tensors, so that a traced step stays right.

use crate::prelude::*;

/// Equal SBP for everything of one parameter is the global layer's rule for written inputs.
const UPDATE: OpDef = OpDef {
    faces: Faces::PRIVATE,
    infer: |_, _| Ok(()),
    traits: Traits::MUTATES,
    sbp: SbpRule::of(Rows::Custom(crate::optim::equal_rows)),
    ..OpDef::BASE
};

/// Every list element elementwise: rows where all tensors of all lists have the same split, numbers broadcast.
fn equal_rows(c: &Call<'_>, rows: &mut Vec<Row>) -> Result<()> {
    let lists: usize = c.args.iter().map(|a| if let Arg::Len(n) = a { *n as usize } else { 0 }).sum();
    let max = c.ins.iter().take(lists).flatten().map(|t| t.ndim()).min().unwrap_or(0);
    for d in 0..max {
        let ins = c
            .ins
            .iter()
            .enumerate()
            .filter(|(_, t)| t.is_some())
            .map(|(i, _)| if i < lists { Sbp::S(d as u8) } else { Sbp::B });
        rows.push(Row { ins: ins.collect(), outs: SmallVec::new() });
    }
    Ok(())
}

fn lower_adam(c: &Call<'_>, l: &mut Lowered, decoupled: bool) -> Result<()> {
    let Arg::Len(n) = c.arg(0) else { return Err(Error::type_("params must be a list")) };
    let n = n as usize;
    for list in [0, 2, 3] {
        for i in 0..n {
            l.written_input(list * n + i);
        }
    }
    for i in 0..n {
        l.input(n + i);
    }
    let scalars = 4 * n;
    l.input(scalars).input(scalars + 1);
    l.opt_input(scalars + 2, c.opt(scalars + 2).is_some()).opt_input(scalars + 3, c.opt(scalars + 3).is_some());
    l.param(n as i64);
    for i in 4..8 {
        l.param(c.float(i)?);
    }
    l.param(c.bool(8)).param(decoupled);
    Ok(())
}

/// Lists of equal length and equal shapes.
fn check_lists(c: &Call<'_>, lists: usize) -> Result<()> {
    let Arg::Len(n) = c.arg(0) else { return Err(Error::type_("params must be a list")) };
    for i in 1..lists {
        match c.arg(i) {
            Arg::Len(m) if m == n || m == 0 => {}
            _ => return Err(Error::runtime(format!("{}(): its lists have different lengths", c.name()))),
        }
    }
    let n = n as usize;
    for i in 0..n {
        let p = c.t(i)?;
        let g = c.t(n + i)?;
        if p.sizes() != g.sizes() {
            return Err(Error::runtime(format!(
                "{}(): parameter {i} has shape {:?} but its gradient {:?}",
                c.name(),
                p.sizes(),
                g.sizes()
            )));
        }
    }
    Ok(())
}

pub static ADAMW: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor lr, Tensor step, *, float beta1, float beta2, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "AdamW over a list of parameters, in place.

Source: Loshchilov and Hutter, \"Decoupled Weight Decay Regularization\", 2019.",
    infer: |c, _| check_lists(c, 4),
    kernel: Kernel::Prim { prim: &ADAM, lower: |c, _, l| lower_adam(c, l, true) },
    ..UPDATE
};

pub static ADAM_OP: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_adam_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor lr, Tensor step, *, float beta1, float beta2, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "Adam over a list of parameters, in place.

Source: Kingma and Ba, \"Adam: A Method for Stochastic Optimization\", 2015.",
    infer: |c, _| check_lists(c, 4),
    kernel: Kernel::Prim { prim: &ADAM, lower: |c, _, l| lower_adam(c, l, false) },
    ..UPDATE
};

pub static SGD_OP: OpDef = OpDef {
    sig: Sig::parse(
        "_fused_sgd_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] momentum_buffers, Tensor lr, *, float momentum, float dampening, float weight_decay, bool nesterov, bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()",
    ),
    doc: "Stochastic gradient descent over a list of parameters, in place. The list of momentum buffers may be empty.",
    infer: |c, _| check_lists(c, 3),
    kernel: Kernel::Prim {
        prim: &SGD,
        lower: |c, _, l| {
            let (Arg::Len(n), Arg::Len(m)) = (c.arg(0), c.arg(2)) else {
                return Err(Error::type_("params must be a list"));
            };
            let (n, m) = (n as usize, m as usize);
            for i in 0..n {
                l.written_input(i);
            }
            for i in 0..n {
                if m > 0 {
                    l.written_input(2 * n + i)
                } else {
                    l.no_output()
                };
            }
            for i in 0..n {
                l.input(n + i);
            }
            let at = 2 * n + m;
            l.input(at).opt_input(at + 1, c.opt(at + 1).is_some()).opt_input(at + 2, c.opt(at + 2).is_some());
            l.param(n as i64).param(c.float(3)?).param(c.float(4)?).param(c.float(5)?);
            l.param(c.bool(6)).param(c.bool(7)).param(c.bool(8));
            Ok(())
        },
    },
    ..UPDATE
};
