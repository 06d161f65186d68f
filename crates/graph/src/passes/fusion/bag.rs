//! Rows of a table that are summed bag by bag become one lookup that sums them: the rows in between never reach memory.
//!
//! Bags of two rows give the very sums of the single ops; of more, sums in another order.

use super::ops;
use super::pattern::{Edits, Uses, arg, is, node};
use crate::Config;
use crate::ir::{Graph, Node};
use oneflow_base::{Arg, Result, intern};
use oneflow_ops::named::{embedding, sum};

/// Whether the node sums a tensor of three dimensions over the middle one.
fn sums_bags(g: &Graph, n: &Node) -> bool {
    let (Some(Some(x)), [y]) = (n.ins.first().copied(), n.outs.as_slice()) else { return false };
    is(n, &ops::SUM)
        && g.meta(x).sizes.len() == 3
        && matches!(arg(n, sum::DIM).ints(), Some([1 | -2]))
        && !arg(n, sum::KEEPDIM).bool()
        && g.meta(*y).dtype == g.meta(x).dtype
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse {
        return Ok(false);
    }
    let uses = Uses::of(g);
    let mut edits = Edits::default();
    for at in 0..g.nodes.len() {
        let sum = g.nodes[at].clone();
        if !sums_bags(g, &sum) {
            continue;
        }
        let Some(e) = uses.maker(g, sum.ins[0], &ops::EMBEDDING) else { continue };
        let lookup = g.nodes[e].clone();
        let whole = arg(&lookup, embedding::START).int() == Some(0) && arg(&lookup, embedding::TOTAL).int() == Some(-1);
        // It runs where the sum did: no update of the table may lie between.
        let moved = lookup.again == sum.again && g.nodes[e..at].iter().all(|n| n.updates.is_empty());
        let rows = lookup.outs[0];
        if !whole || !moved || !uses.once(rows) || !g.meta(rows).device.is_cpu() || !g.meta(rows).dtype.is_float() {
            continue;
        }
        let no = Arg::Bool(false);
        let args = [Arg::Sym(intern("sum")), no, no, no, Arg::Int(-1), Arg::Int(0), Arg::Int(-1)];
        let mut bag = node(g, &ops::NATIVE_EMBEDDING_BAG, &[lookup.ins[0], lookup.ins[1], None, None], &args, &sum)?;
        bag.outs[0] = sum.outs[0];
        edits.replace(e, Vec::new());
        edits.replace(at, vec![bag]);
    }
    Ok(edits.apply(g))
}
