//! An addition whose sum is normalised becomes part of the norm, which gives both: the sum is read while it is at hand. So does
//! one that adds to the gradient of what was normalised.

use super::pattern::{Edits, Uses, arg, name, node};
use super::residual::is_plain_add;
use crate::Config;
use crate::ir::{Graph, Kind, Node, ValueId};
use oneflow_base::Result;
use oneflow_core::Kernel;

/// A norm, and the same with the addition before it.
const NORMS: [(&str, &str); 2] =
    [("native_layer_norm", "fused_add_layer_norm"), ("native_rms_norm", "fused_add_rms_norm")];
/// A norm's backward, and which of its inputs is added to the gradient.
const BACKWARDS: [(&str, usize); 2] = [("layer_norm_backward", 5), ("rms_norm_backward", 4)];

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse || !config.fuse_add {
        return Ok(false);
    }
    let uses = Uses::of(g);
    let mut edits = Edits::default();
    for at in 0..g.nodes.len() {
        forward(g, &uses, &mut edits, at)?;
        backward(g, &uses, &mut edits, at);
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
    let Some((_, fused)) = NORMS.iter().find(|x| x.0 == name(&n)) else { return Ok(()) };
    let Some(a) = uses.maker(g, n.ins.first().copied().flatten(), "add") else { return Ok(()) };
    let Kind::Op { attrs, .. } = &n.kind else { return Ok(()) };
    let add = g.nodes[a].clone();
    let sum = add.outs[0];
    let fits = is_plain_add(g, &add)
        && g.meta(sum).device.is_cpu()
        && g.meta(sum).is_contiguous()
        && g.is_root(sum)
        && !add.ins.iter().any(|v| in_chain(g, uses, *v))
        && !edits.touched(a)
        && may_wait(g, uses, a, at);
    if fits {
        let mut ins = add.ins.to_vec();
        ins.extend(&n.ins[1..]);
        let fused = node(g, fused, &ins, &attrs.args(), &n)?;
        let outs = n.outs.iter().chain(&add.outs).copied().collect();
        edits.replace(a, Vec::new());
        edits.replace(at, vec![Node { outs, ..fused }]);
    }
    Ok(())
}

fn backward(g: &Graph, uses: &Uses, edits: &mut Edits, at: usize) {
    let add = &g.nodes[at];
    if !is_plain_add(g, add) || edits.touched(at) {
        return;
    }
    for (mine, other) in [(add.ins[0], add.ins[1]), (add.ins[1], add.ins[0])] {
        let found = BACKWARDS.iter().find_map(|(op, k)| Some((uses.maker(g, mine, op)?, *k)));
        let (Some((b, k)), Some(v)) = (found, mine) else { continue };
        let m = g.meta(v);
        // Half types would round twice apart and once together.
        let fits = g.nodes[b].outs[0] == v
            && uses.once(v)
            && m.device.is_cpu()
            && m.dtype == m.dtype.compute()
            && arg(&g.nodes[b], 0).ints().is_some()
            && g.nodes[b].ins[k].is_none()
            && !in_chain(g, uses, other)
            && !edits.touched(b)
            && may_wait(g, uses, b, at);
        if fits {
            let mut fused = g.nodes[b].clone();
            fused.ins[k] = other;
            fused.outs[0] = add.outs[0];
            edits.replace(b, Vec::new());
            edits.replace(at, vec![fused]);
            return;
        }
    }
}
