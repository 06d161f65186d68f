//! A batch norm by given statistics becomes part of the convolution before it: its scale goes into the weight, its shift
//! into the bias. `precompute` then computes both when the parameters change, not in every run.

use super::ops;
use super::pattern::{Edits, Uses, arg, is, node};
use crate::Config;
use crate::ir::{Graph, Node, ValueId};
use oneflow_base::{Arg, DType, Result};
use oneflow_core::OpDef;
use oneflow_ops::named::batch_norm_inference;

/// The operands of a batch norm and of the convolution that it follows.
struct Found {
    conv: usize,
    weight: ValueId,
    bias: Option<ValueId>,
    scale: Option<ValueId>,
    shift: Option<ValueId>,
    mean: ValueId,
    var: ValueId,
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse || !config.precompute {
        return Ok(false);
    }
    let uses = Uses::of(g);
    let mut edits = Edits::default();
    for at in 0..g.nodes.len() {
        let Some(found) = find(g, &uses, at) else { continue };
        let nodes = replacement(g, &found, at)?;
        edits.replace(found.conv, Vec::new());
        edits.replace(at, nodes);
    }
    Ok(edits.apply(g))
}

fn find(g: &Graph, uses: &Uses, at: usize) -> Option<Found> {
    let n = &g.nodes[at];
    if !is(n, &ops::BATCH_NORM_INFERENCE) {
        return None;
    }
    let [Some(x), scale, shift, Some(mean), Some(var)] = *n.ins.as_slice() else { return None };
    let conv = uses.maker(g, Some(x), &ops::NATIVE_CONV)?;
    let [_, Some(weight), bias] = *g.nodes[conv].ins.as_slice() else { return None };
    let steady = |v: &ValueId| g.is_steady(*v) && g.meta(*v).is_contiguous();
    let all = [Some(weight), bias, scale, shift, Some(mean), Some(var)];
    let one_dtype = |v: &ValueId| g.meta(*v).dtype == g.meta(x).dtype;
    let exact = matches!(g.meta(x).dtype, DType::F32 | DType::F64);
    // The convolution runs where the norm did: no update of what it reads may lie between.
    let moves = g.nodes[conv].again == n.again && g.nodes[conv..at].iter().all(|n| n.updates.is_empty());
    let fits =
        exact && uses.once(x) && g.is_root(x) && moves && all.iter().flatten().all(|v| steady(v) && one_dtype(v));
    fits.then_some(Found { conv, weight, bias, scale, shift, mean, var })
}

/// `conv(x, weight * f, (bias - mean) * f + shift)` with `f = scale / sqrt(var + eps)`.
fn replacement(g: &mut Graph, found: &Found, at: usize) -> Result<Vec<Node>> {
    let like = g.nodes[at].clone();
    let Found { conv, weight, bias, scale, shift, mean, var } = *found;
    let mut nodes: Vec<Node> = Vec::new();
    let mut push = |g: &mut Graph, op: &'static OpDef, ins: &[Option<ValueId>], args: &[Arg<'_>]| -> Result<ValueId> {
        let n = node(g, op, ins, args, &like)?;
        let out = n.outs[0];
        nodes.push(n);
        Ok(out)
    };
    let eps = arg(&like, batch_norm_inference::EPS).float().unwrap_or(0.0);
    let none = [Arg::None, Arg::Int(1)];
    let sum = push(g, &ops::ADD, &[Some(var), None], &[Arg::Float(eps), Arg::Int(1)])?;
    let mut f = push(g, &ops::RSQRT, &[Some(sum)], &[])?;
    if let Some(scale) = scale {
        f = push(g, &ops::MUL, &[Some(f), Some(scale)], &[Arg::None])?;
    }
    let mut shape = vec![1; g.meta(weight).sizes.len()];
    shape[0] = g.meta(weight).sizes[0];
    let strides = vec![1; shape.len()];
    let column = push(g, &ops::AS_STRIDED, &[Some(f)], &[Arg::Ints(&shape), Arg::Ints(&strides), Arg::Int(0)])?;
    let new_weight = push(g, &ops::MUL, &[Some(weight), Some(column)], &[Arg::None])?;
    let at_zero = match bias {
        Some(bias) => push(g, &ops::SUB, &[Some(bias), Some(mean)], &none)?,
        None => push(g, &ops::NEG, &[Some(mean)], &[])?,
    };
    let mut new_bias = push(g, &ops::MUL, &[Some(at_zero), Some(f)], &[Arg::None])?;
    if let Some(shift) = shift {
        new_bias = push(g, &ops::ADD, &[Some(new_bias), Some(shift)], &none)?;
    }
    let mut whole = Node { outs: like.outs.clone(), stack: like.stack.clone(), ..g.nodes[conv].clone() };
    whole.ins[1] = Some(new_weight);
    whole.ins[2] = Some(new_bias);
    nodes.push(whole);
    Ok(nodes)
}
