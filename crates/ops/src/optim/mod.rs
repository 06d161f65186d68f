//! Optimizer updates: one call for all parameters of a group.
//!
//! Numbers that change per step (lr, step, loss scale, found_inf) are 0-dim tensors, so that a traced step stays right.

pub mod amp;
pub mod rules;
pub mod stacked_norms;
pub mod update;

use crate::prelude::*;

/// Equal SBP for everything of one parameter is the global layer's rule for written inputs.
pub(crate) const BASE: OpDef = OpDef {
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

/// Lists of equal length (or empty) and equal shapes.
pub(crate) fn check_lists(c: &Call<'_>, lists: &[Ins]) -> Result<usize> {
    let [params, grads, ..] = lists else { return Err(Error::type_("params must be a list")) };
    let n = params.len(c.args);
    if grads.len(c.args) != n || lists.iter().any(|list| ![0, n].contains(&list.len(c.args))) {
        return Err(Error::runtime(format!("{}(): its lists have different lengths", c.name())));
    }
    for i in 0..n {
        let p = c.t(params.nth(c.args, i))?;
        let g = c.t(grads.nth(c.args, i))?;
        if p.sizes() != g.sizes() {
            return Err(Error::runtime(format!(
                "{}(): parameter {i} has shape {:?} but its gradient {:?}",
                c.name(),
                p.sizes(),
                g.sizes()
            )));
        }
    }
    Ok(n)
}
