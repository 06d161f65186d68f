//! `linear` or a convolution followed by an activation becomes one op with the activation in its epilogue. Where somebody else
//! reads the value in between (in training the backward does), a product gives that too.

use super::ops;
use super::pattern::{Edits, Uses, arg, is, node, runs};
use crate::Config;
use crate::ir::{Graph, Kind, Node};
use oneflow_base::{Arg, Result, intern};
use oneflow_ops::named::{gelu, hardtanh, native_conv_prepared};

/// The epilogue that computes this node, if there is one.
fn activation(n: &Node) -> Option<&'static str> {
    match () {
        () if is(n, &ops::RELU) => Some("relu"),
        () if is(n, &ops::SILU) => Some("silu"),
        () if is(n, &ops::HARDSWISH) => Some("hardswish"),
        () if is(n, &ops::HARDTANH) => is_relu6(n).then_some("relu6"),
        () if !is(n, &ops::GELU) => None,
        () if arg(n, gelu::APPROXIMATE).str() == Some("tanh") => Some("gelu_tanh"),
        () => Some("gelu"),
    }
}

fn is_relu6(n: &Node) -> bool {
    let number = |at| match arg(n, at) {
        Arg::Int(a) => Some(a as f64),
        Arg::Float(a) => Some(a),
        _ => None,
    };
    number(hardtanh::MIN_VAL) == Some(0.0) && number(hardtanh::MAX_VAL) == Some(6.0)
}

/// Whether a second result costs a product less than the activation by itself: where a launch weighs more than the stores, which
/// keep the tiles of larger products waiting.
fn is_small(g: &Graph, product: &Node) -> bool {
    g.bytes(product.outs[0]) <= 32 << 10 && !g.varying.contains(&product.outs[0])
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse {
        return Ok(false);
    }
    let uses = Uses::of(g);
    let mut edits = Edits::default();
    for at in 0..g.nodes.len() {
        let n = g.nodes[at].clone();
        let Some(epilogue) = activation(&n) else { continue };
        let Some(x) = n.ins[0] else { continue };
        let linear = uses.maker(g, Some(x), &ops::LINEAR);
        let prepared = uses.maker(g, Some(x), &ops::CONV_PREPARED);
        let Some(p) = linear.or(prepared).or_else(|| uses.maker(g, Some(x), &ops::NATIVE_CONV)) else { continue };
        let product = g.nodes[p].clone();
        let same_layout = g.meta(n.outs[0]) == g.meta(x) && (linear.is_none() || g.meta(x).is_contiguous());
        if edits.touched(p) || product.again != n.again || !g.is_root(x) || !same_layout || !g.meta(x).dtype.is_float()
        {
            continue;
        }
        let mut ins = product.ins.clone();
        ins.resize(3, None);
        let Kind::Op { attrs, .. } = &product.kind else { continue };
        let mut args = attrs.args();
        match prepared {
            Some(_) => args[native_conv_prepared::ACTIVATION.index()] = Arg::Sym(intern(epilogue)),
            None => args.push(Arg::Sym(intern(epilogue))),
        }
        if uses.once(x) {
            // Its readers come after the activation, so the product may wait until there, unless an update lies between.
            if g.nodes[p..at].iter().all(|n| n.updates.is_empty()) {
                let op = match (linear, prepared) {
                    (Some(_), _) => &ops::FUSED_LINEAR,
                    (_, Some(_)) => &ops::CONV_PREPARED,
                    _ => &ops::CONV_ACTIVATION,
                };
                let mut fused = node(g, op, &ins, &args, &n)?;
                fused.outs = n.outs.clone();
                // Not every device's convolution has an epilogue.
                if runs(g, &fused)? {
                    edits.replace(p, Vec::new());
                    edits.replace(at, vec![fused]);
                }
            }
        } else if linear.is_some() && is_small(g, &product) {
            // The activation reads nothing else, so it may come as early as the product.
            let mut fused = node(g, &ops::FUSED_LINEAR_KEEP, &ins, &args, &product)?;
            fused.outs = [n.outs[0], x].into_iter().collect();
            // Not every device's product gives what its activation was given.
            if runs(g, &fused)? {
                edits.replace(p, vec![fused]);
                edits.replace(at, Vec::new());
            }
        }
    }
    Ok(edits.apply(g))
}
