//! Batch norm by given statistics behind a convolution becomes that convolution with other weights: its results are written
//! once. The weights are scaled in every run, since they and the statistics may change between runs.

use super::pattern::{Edits, Uses, arg, name, node, runs};
use crate::Config;
use crate::ir::{Graph, Node, ValueId};
use oneflow_base::{Arg, Result};

/// How many results a weight must serve: scaling weights costs about what writing as many results does.
const WORTH: i64 = 4;

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse {
        return Ok(false);
    }
    let uses = Uses::of(g);
    let mut edits = Edits::default();
    for at in 0..g.nodes.len() {
        let norm = g.nodes[at].clone();
        if name(&norm) != "batch_norm_inference" {
            continue;
        }
        let Some(c) = uses.maker(g, norm.ins[0], "native_conv") else { continue };
        let conv = g.nodes[c].clone();
        let (Some(weight), result) = (conv.ins[1], conv.outs[0]) else { continue };
        // It runs where the norm did: no update of what it reads may lie between.
        let moved = conv.again == norm.again && g.nodes[c..at].iter().all(|n| n.updates.is_empty());
        let dtype = g.meta(result).dtype;
        let alike = conv.ins.iter().chain(&norm.ins).flatten().all(|v| g.meta(*v).dtype == dtype);
        let worth = g.meta(result).numel() >= WORTH * g.meta(weight).numel();
        if !moved || !alike || !worth || !uses.once(result) || dtype != dtype.compute() {
            continue;
        }
        if let Some(with) = folded(g, &conv, &norm)? {
            edits.replace(c, Vec::new());
            edits.replace(at, with);
        }
    }
    Ok(edits.apply(g))
}

/// `conv(x, w, b)` normalised, as `conv(x, w * s, (b - mean) * s + bias)` with `s = weight / sqrt(var + eps)`.
fn folded(g: &mut Graph, conv: &Node, norm: &Node) -> Result<Option<Vec<Node>>> {
    let [_, scale, shift, Some(mean), Some(var)] = norm.ins[..] else { return Ok(None) };
    let mut nodes = Vec::new();
    let mut make = |g: &mut Graph, op: &str, ins: &[Option<ValueId>], args: &[Arg<'_>]| -> Result<Option<ValueId>> {
        let n = node(g, op, ins, args, norm)?;
        let v = n.outs[0];
        nodes.push(n);
        Ok(Some(v))
    };
    let (one, none) = (Arg::Int(1), Arg::None);
    let var = make(g, "add", &[Some(var), None], &[arg(norm, 0), one])?;
    let mut factor = make(g, "rsqrt", &[var], &[])?;
    if scale.is_some() {
        factor = make(g, "mul", &[factor, scale], &[none])?;
    }
    let mut bias = match conv.ins[2] {
        Some(_) => make(g, "sub", &[conv.ins[2], Some(mean)], &[none, one])?,
        None => make(g, "neg", &[Some(mean)], &[])?,
    };
    bias = make(g, "mul", &[bias, factor], &[none])?;
    if shift.is_some() {
        bias = make(g, "add", &[bias, shift], &[none, one])?;
    }
    let Some(weight) = conv.ins[1] else { return Ok(None) };
    let mut sizes = vec![1; g.meta(weight).sizes.len()];
    sizes[0] = -1;
    let column = make(g, "view", &[factor], &[Arg::Ints(&sizes)])?;
    let weight = make(g, "mul", &[Some(weight), column], &[none])?;
    let args: Vec<Arg<'_>> = (0..4).map(|i| arg(conv, i)).collect();
    let mut with = node(g, "native_conv", &[conv.ins[0], weight, bias], &args, norm)?;
    if g.meta(with.outs[0]) != g.meta(norm.outs[0]) || !runs(g, &with)? {
        return Ok(None);
    }
    with.outs = norm.outs.clone();
    nodes.push(with);
    Ok(Some(nodes))
}
