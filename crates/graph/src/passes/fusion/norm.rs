//! An addition whose sum is normalised becomes part of the norm, which gives both: the sum is read while it is at hand. So does
//! one that adds to the gradient of what was normalised.

use super::ops;
use super::pattern::{Edits, Uses, arg, is, node, runs};
use super::residual::is_plain_add;
use crate::Config;
use crate::ir::{Graph, Kind, Node, ValueId};
use oneflow_base::Result;
use oneflow_core::{In, Kernel, OpDef};
use oneflow_ops::named::{layer_norm_backward, rms_norm_backward};

/// A norm, and the same with the addition before it.
static NORMS: [(&OpDef, &OpDef); 2] =
    [(&ops::NATIVE_LAYER_NORM, &ops::FUSED_ADD_LAYER_NORM), (&ops::NATIVE_RMS_NORM, &ops::FUSED_ADD_RMS_NORM)];
/// A norm's backward, and which of its inputs is added to the gradient.
static BACKWARDS: [(&OpDef, In); 2] = [
    (&ops::LAYER_NORM_BACKWARD, layer_norm_backward::RESIDUAL),
    (&ops::RMS_NORM_BACKWARD, rms_norm_backward::RESIDUAL),
];

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse || !config.fuse_add {
        return Ok(false);
    }
    let uses = Uses::of(g);
    let mut edits = Edits::default();
    for at in 0..g.nodes.len() {
        forward(g, &uses, &mut edits, at)?;
        backward(g, &uses, &mut edits, at)?;
    }
    Ok(edits.apply(g))
}

/// Whether an elementwise op makes a value for this sum alone: it joins the sum in a chain, which saves as much.
fn in_chain(g: &Graph, uses: &Uses, v: Option<ValueId>) -> bool {
    let made = v.and_then(|v| uses.made_at(v)).and_then(|i| g.nodes[i].op());
    v.is_some_and(|v| uses.once(v)) && made.is_some_and(|o| matches!(o.kernel, Kernel::Elementwise(_)))
}

/// Whether the node at `from` may run at `to` instead: whoever reads it comes later, and no update lies between.
fn may_wait(g: &Graph, uses: &Uses, from: usize, to: usize) -> bool {
    g.nodes[from].again == g.nodes[to].again
        && g.nodes[from].outs.iter().all(|v| uses.all_readers(*v).iter().all(|r| *r >= to))
        && g.nodes[from..to].iter().all(|n| n.updates.is_empty())
}

fn forward(g: &mut Graph, uses: &Uses, edits: &mut Edits, at: usize) -> Result<()> {
    let n = g.nodes[at].clone();
    let Some((_, fused)) = NORMS.iter().find(|x| is(&n, x.0)) else { return Ok(()) };
    let Some(a) = uses.maker(g, n.ins.first().copied().flatten(), &ops::ADD) else { return Ok(()) };
    let Kind::Op { attrs, .. } = &n.kind else { return Ok(()) };
    let add = g.nodes[a].clone();
    let sum = add.outs[0];
    let fits = is_plain_add(g, &add)
        && g.meta(sum).is_contiguous()
        && g.is_root(sum)
        && !add.ins.iter().any(|v| in_chain(g, uses, *v))
        && !edits.touched(a)
        && may_wait(g, uses, a, at);
    if fits {
        let mut ins = add.ins.to_vec();
        ins.extend(&n.ins[1..]);
        let fused = node(g, fused, &ins, &attrs.args(), &n)?;
        if !runs(g, &fused)? {
            return Ok(());
        }
        let outs = n.outs.iter().chain(&add.outs).copied().collect();
        edits.replace(a, Vec::new());
        edits.replace(at, vec![Node { outs, ..fused }]);
    }
    Ok(())
}

fn backward(g: &Graph, uses: &Uses, edits: &mut Edits, at: usize) -> Result<()> {
    let add = &g.nodes[at];
    if !is_plain_add(g, add) || edits.touched(at) {
        return Ok(());
    }
    for (mine, other) in [(add.ins[0], add.ins[1]), (add.ins[1], add.ins[0])] {
        let found = BACKWARDS.iter().find_map(|(op, k)| Some((uses.maker(g, mine, op)?, k.index())));
        let (Some((b, k)), Some(v)) = (found, mine) else { continue };
        let m = g.meta(v);
        // Half types would round twice apart and once together.
        let fits = g.nodes[b].outs[0] == v
            && uses.once(v)
            && m.dtype == m.dtype.compute()
            && arg(&g.nodes[b], layer_norm_backward::NORMALIZED_SHAPE).ints().is_some()
            && g.nodes[b].ins[k].is_none()
            && !in_chain(g, uses, other)
            && !edits.touched(b)
            && may_wait(g, uses, b, at);
        if fits {
            let mut fused = g.nodes[b].clone();
            fused.ins[k] = other;
            fused.outs[0] = add.outs[0];
            if runs(g, &fused)? {
                edits.replace(b, Vec::new());
                edits.replace(at, vec![fused]);
                return Ok(());
            }
        }
    }
    Ok(())
}
