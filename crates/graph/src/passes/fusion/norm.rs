//! An addition whose sum is normalised becomes part of the layer norm, which gives both: the sum is read while it is at hand.

use super::pattern::{Edits, Uses, node};
use super::residual::is_plain_add;
use crate::Config;
use crate::ir::{Graph, Kind, Node};
use oneflow_base::Result;
use oneflow_core::Kernel;

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse || !config.fuse_add {
        return Ok(false);
    }
    let uses = Uses::of(g);
    let mut edits = Edits::default();
    for at in 0..g.nodes.len() {
        let n = g.nodes[at].clone();
        let Some(a) = uses.maker(g, n.ins.first().copied().flatten(), "add") else { continue };
        let Kind::Op { op, attrs } = &n.kind else { continue };
        let add = g.nodes[a].clone();
        // A summand that an elementwise op makes for this sum alone joins it in a chain, which saves as much.
        let in_chain = add.ins.iter().flatten().any(|v| {
            let made = uses.made_at(*v).and_then(|i| g.nodes[i].op());
            uses.once(*v) && made.is_some_and(|o| matches!(o.kernel, Kernel::Elementwise(_)))
        });
        // The sum is made later than before: whoever reads it comes after the norm, and no update lies between.
        let readers = uses.all_readers(add.outs[0]);
        let fits = op.name() == "native_layer_norm"
            && is_plain_add(g, &add)
            && g.meta(add.outs[0]).device.is_cpu()
            && g.meta(add.outs[0]).is_contiguous()
            && g.is_root(add.outs[0])
            && add.again == n.again
            && !in_chain
            && !edits.touched(a)
            && readers.iter().all(|r| *r >= at)
            && g.nodes[a..at].iter().all(|n| n.updates.is_empty());
        if !fits {
            continue;
        }
        let ins = [add.ins[0], add.ins[1], n.ins[1], n.ins[2]];
        let fused = node(g, "fused_add_layer_norm", &ins, &attrs.args(), &n)?;
        let outs = n.outs.iter().chain(&add.outs).copied().collect();
        edits.replace(a, Vec::new());
        edits.replace(at, vec![Node { outs, ..fused }]);
    }
    Ok(edits.apply(g))
}
