//! Ops that write lists of tensors in place (optimizer updates): everything of one parameter takes that parameter's layout.
//! Local parameters may stand among global ones.

use crate::boxing::boxed;
use crate::boxing::bytes::local_only;
use crate::boxing::traced::below;
use crate::layer::mixed;
use crate::tensor::{Spread, expect_global, global_of};
use oneflow_base::{Arg, Error, Result, Sbp};
use oneflow_core::{Call, Dest, In, Outs, Tensor, Ty, redispatch};

pub fn update(c: &Call<'_>) -> Result<()> {
    (c.op.infer)(c, &mut Outs::new())?;
    // Where each list starts and how long it is; other inputs are numbers.
    let mut lists: Vec<(usize, usize, bool, usize)> = Vec::new();
    let mut numbers: Vec<usize> = Vec::new();
    let (mut at, mut arg) = (0, 0);
    for p in c.op.sig.params() {
        match p.ty {
            Ty::TensorList => {
                let n = c.n_inputs_of(p, arg);
                lists.push((at, n, p.written, arg));
                at += n;
            }
            _ if p.is_input() => {
                numbers.push(at);
                at += 1;
            }
            _ => {}
        }
        arg += p.is_arg() as usize;
    }
    let Some(&(first, n, ..)) = lists.iter().find(|l| l.2) else {
        return Err(Error::not_implemented(format!("{}(): not implemented for global tensors", c.name())));
    };
    let mut shards: Vec<Vec<Tensor>> = vec![Vec::new(); lists.len()];
    for k in 0..n {
        let Some(home) = global_of(c.t(In::nth(first + k))?) else {
            // A local parameter beside global ones: each rank has its own, and everything of it is local too.
            for (l, (start, ..)) in lists.iter().enumerate().filter(|(_, list)| k < list.1) {
                let t = c.t(In::nth(start + k))?;
                if global_of(t).is_some() {
                    return Err(mixed(c, first + k, c.t(In::nth(first + k))?));
                }
                shards[l].push(t.clone());
            }
            continue;
        };
        if home.spread.sbp.iter().any(|s| s.is_partial()) {
            return Err(Error::runtime(format!(
                "{}(): parameter {k} of shape {:?} is a partial sum ({:?}), which no elementwise update can write",
                c.name(),
                c.t(In::nth(first + k))?.sizes(),
                home.spread.sbp
            )));
        }
        for (l, (start, len, written, _)) in lists.iter().enumerate() {
            if k >= *len {
                continue;
            }
            let t = c.t(In::nth(start + k))?;
            let Some(g) = global_of(t) else { return Err(mixed(c, start + k, t)) };
            if *written && is_alone(g.spread, home.spread) {
                // On one rank all layouts are the same memory.
                shards[l].extend(g.local.clone());
                continue;
            }
            if *written && g.spread != home.spread {
                return Err(Error::runtime(format!(
                    "{}(): its lists hold parameter {k} with {:?} and a state with {:?}; what is written needs one layout",
                    c.name(),
                    home.spread.sbp,
                    g.spread.sbp
                )));
            }
            // All ranks box, also those without a shard.
            let here = boxed(t, home.spread)?;
            shards[l].extend(global_of(&here).and_then(|g| g.local.clone()));
        }
    }
    let mut values: Vec<Option<Tensor>> = Vec::new();
    for i in &numbers {
        values.push(c.opt(In::nth(*i)).map(|t| number(c, *i, t)).transpose()?);
    }
    if shards.iter().all(Vec::is_empty) {
        return Ok(());
    }
    let mut ins: Vec<Option<&Tensor>> = Vec::new();
    let mut args: Vec<Arg<'_>> = c.args.to_vec();
    for (l, (.., arg)) in lists.iter().enumerate() {
        ins.extend(shards[l].iter().map(Some));
        args[*arg] = Arg::Len(shards[l].len() as u32);
    }
    ins.extend(values.iter().map(Option::as_ref));
    let _guard = local_only();
    redispatch(&Call { op: c.op, ins: &ins, args: &args, dest: Dest::Fresh }, below(), &mut Outs::new())
}

/// Returns true if both are on one and the same rank alone.
fn is_alone(a: Spread, b: Spread) -> bool {
    a.placement_id == b.placement_id && a.placement.ranks.len() == 1
}

/// A number that changes per step, or a vector of options. The optimizer's own are local and equal on all ranks.
fn number(c: &Call<'_>, i: usize, t: &Tensor) -> Result<Tensor> {
    match global_of(t) {
        None if t.ndim() <= 1 => Ok(t.clone()),
        None => Err(mixed(c, i, t)),
        Some(g) if g.spread.sbp.iter().all(|s| *s == Sbp::B) => local(t, c),
        Some(g) => local(&boxed(t, Spread::broadcast(g.spread.placement_id)?)?, c),
    }
}

fn local(t: &Tensor, c: &Call<'_>) -> Result<Tensor> {
    expect_global(t, c.name())?
        .local
        .clone()
        .ok_or_else(|| Error::runtime(format!("{}(): a number is on a placement without this rank", c.name())))
}
