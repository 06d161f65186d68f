//! A product that is added to something becomes one product with that in its epilogue, where nobody else reads the product.

use super::ops;
use super::pattern::{Edits, Uses, arg, is};
use crate::Config;
use crate::ir::{Graph, Kind, Node, ValueId};
use oneflow_base::{Arg, Attrs, Result};
use oneflow_ops::matmul::{linear, matmul};
use oneflow_ops::named::add;

/// Whether the node adds two tensors of the same meta as its result, which a product's epilogue can do.
pub fn is_plain_add(g: &Graph, n: &Node) -> bool {
    let one = match arg(n, add::ALPHA) {
        Arg::Int(a) => a == 1,
        Arg::Float(a) => a == 1.0,
        Arg::None => true,
        _ => false,
    };
    let out = n.outs.first().map(|v| g.meta(*v));
    is(n, &ops::ADD)
        && one
        && n.ins.len() == 2
        && n.ins.iter().all(|v| v.map(|v| g.meta(v)) == out)
        && out.is_some_and(|m| m.is_contiguous() && m.dtype.is_float())
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse || !config.fuse_add {
        return Ok(false);
    }
    let uses = Uses::of(g);
    let mut edits = Edits::default();
    for (at, n) in g.nodes.iter().enumerate() {
        if !is_plain_add(g, n) {
            continue;
        }
        // The later product first: the other summand is there by then.
        let mut found: Option<(usize, ValueId)> = None;
        for (mine, other) in [(n.ins[0], n.ins[1]), (n.ins[1], n.ins[0])] {
            let p = [&ops::LINEAR, &ops::MATMUL, &ops::LINEAR_BACKWARD_WEIGHT]
                .into_iter()
                .find_map(|op| uses.maker(g, mine, op))
                .filter(|p| !is(&g.nodes[*p], &ops::LINEAR_BACKWARD_WEIGHT) || g.nodes[*p].ins[2].is_none());
            let (Some(p), Some(v), Some(other)) = (p, mine, other) else { continue };
            // It runs where the sum did: no update of what it reads may lie between.
            let moved = g.nodes[p].again == n.again && g.nodes[p..at].iter().all(|n| n.updates.is_empty());
            if moved && uses.once(v) && g.is_root(v) && !edits.touched(p) && found.is_none_or(|f| f.0 < p) {
                found = Some((p, other));
            }
        }
        let Some((p, residual)) = found else { continue };
        let product = &g.nodes[p];
        let mut ins = product.ins.clone();
        let op = if is(product, &ops::LINEAR_BACKWARD_WEIGHT) {
            ins[2] = Some(residual);
            &ops::LINEAR_BACKWARD_WEIGHT
        } else {
            ins.push(Some(residual));
            if is(product, &ops::LINEAR) { &linear::FUSED_ADD } else { &matmul::FUSED_ADD }
        };
        let fused = Node { kind: Kind::Op { op, attrs: Attrs::new(&[]) }, ins, ..n.clone() };
        edits.replace(p, Vec::new());
        edits.replace(at, vec![fused]);
    }
    Ok(edits.apply(g))
}
