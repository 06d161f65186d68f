//! Convolutions whose weights are known before a run get them in the order in which they are multiplied: in panels, at the
//! points of Winograd's algorithm, or with the outputs side by side. `precompute` then makes them when the parameters change,
//! not in every run.

use super::ops;
use super::pattern::{Edits, arg, is, node, runs};
use crate::Config;
use crate::ir::{Graph, Node, ValueId};
use crate::passes::precompute;
use oneflow_base::{Arg, DType, Result, intern};
use oneflow_core::{AnyArg, OpDef};
use oneflow_ops::named::native_conv;
use smallvec::SmallVec;
use std::collections::HashMap;

/// Fewer channels than this are brought into the cache another way, and weights of few numbers are packed in no time.
const FEW_CHANNELS: i64 = 8;
const FEW_WEIGHTS: i64 = 1 << 12;
/// Channels below which Winograd's transforms cost more than they save.
const LEAST_AT_POINTS: i64 = 17;
/// Outputs of a tile along a dimension, and its points in the plane.
const TILE: i64 = 4;
const POINTS: f64 = 36.0;
/// Multiply-adds in whose time a number of a weight is read, and one of a tile is transformed.
const READ: f64 = 20.0;
const TRANSFORM: f64 = 24.0 * 16.0;
/// How much faster they must be for four times the memory.
const WORTH: f64 = 1.25;

/// How a weight is prepared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    /// Panels of outputs for `native_conv_prepared`, or the same at Winograd's points.
    Panels { at_points: bool },
    /// As it was, with the outputs side by side in memory.
    SideBySide,
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse || !config.precompute {
        return Ok(false);
    }
    let known = precompute::known(g);
    let mut edits = Edits::default();
    let mut made: HashMap<(ValueId, Form), ValueId> = HashMap::new();
    for at in 0..g.nodes.len() {
        let n = g.nodes[at].clone();
        let Some(form) = form(g, &n, &known) else { continue };
        let Some(weight) = n.ins[1] else { continue };
        let mut nodes = Vec::new();
        let prepared = match (made.get(&(weight, form)), form) {
            (Some(prepared), _) => *prepared,
            (None, Form::SideBySide) => side_by_side(g, weight, &n, &mut nodes)?,
            (None, Form::Panels { at_points }) => {
                nodes.push(node(g, &ops::CONV_PREPARE_WEIGHT, &[Some(weight)], &[Arg::Bool(at_points)], &n)?);
                nodes[0].outs[0]
            }
        };
        let mut conv = convolution(g, &n, prepared, form)?;
        if g.meta(conv.outs[0]) != g.meta(n.outs[0]) || !runs(g, &conv)? {
            continue;
        }
        conv.outs = n.outs.clone();
        made.insert((weight, form), prepared);
        nodes.push(conv);
        edits.replace(at, nodes);
    }
    Ok(edits.apply(g))
}

/// A copy of a weight whose outputs are neighbours.
fn side_by_side(g: &mut Graph, weight: ValueId, like: &Node, nodes: &mut Vec<Node>) -> Result<ValueId> {
    let mut v = weight;
    let steps: [(&'static OpDef, Arg<'_>); 3] = [
        (&ops::PERMUTE, Arg::Ints(&[1, 2, 3, 0])),
        (&ops::CLONE_CONTIGUOUS, Arg::None),
        (&ops::PERMUTE, Arg::Ints(&[3, 0, 1, 2])),
    ];
    for (op, arg) in steps {
        let n = node(g, op, &[Some(v)], &[arg], like)?;
        v = n.outs[0];
        nodes.push(n);
    }
    Ok(v)
}

/// The same convolution by the prepared weight.
fn convolution(g: &mut Graph, n: &Node, prepared: ValueId, form: Form) -> Result<Node> {
    let mut ins = n.ins.clone();
    ins[1] = Some(prepared);
    let sizes = n.ins[1].map_or(Default::default(), |w| g.meta(w).sizes.clone());
    let mut args: SmallVec<[Arg<'_>; 8]> = [
        native_conv::STRIDE.into(),
        native_conv::PADDING.into(),
        native_conv::DILATION.into(),
        native_conv::GROUPS.into(),
    ]
    .map(|at: AnyArg| arg(n, at))
    .into_iter()
    .collect();
    let Form::Panels { at_points } = form else { return node(g, &ops::NATIVE_CONV, &ins, &args, n) };
    args.extend([Arg::Sym(intern("none")), Arg::Ints(&sizes), Arg::Bool(at_points)]);
    node(g, &ops::CONV_PREPARED, &ins, &args, n)
}

/// Whether a node's result may take more memory than what it is made of.
pub fn is_prepared(n: &Node) -> bool {
    is(n, &ops::CONV_PREPARE_WEIGHT)
}

/// How a convolution's weight is prepared, if it is.
fn form(g: &Graph, n: &Node, known: &HashMap<ValueId, usize>) -> Option<Form> {
    let [Some(x), Some(w), _] = *n.ins.as_slice() else { return None };
    if !is(n, &ops::NATIVE_CONV) || g.varying.contains(&x) || !(known.contains_key(&w) || g.is_steady(w)) {
        return None;
    }
    let (image, weight) = (g.meta(x), g.meta(w));
    let [outputs, channels, height, width] = *weight.sizes.as_slice() else { return None };
    let [images, _, high, wide] = *g.meta(n.outs[0]).sizes.as_slice() else { return None };
    let last = image.strides.get(1) == Some(&1);
    let one_tap = (height, width) == (1, 1);
    if !image.device.is_cpu() || image.dtype != DType::F32 {
        return None;
    }
    // Each channel by itself, and the product of a row, are sums over taps or channels of registers of outputs.
    let by_channel = channels == 1 && image.sizes.get(1) == Some(&outputs) && outputs > 1 && last && !one_tap;
    let row = one_tap && images * high * wide == 1 && image.sizes.get(1) == Some(&channels);
    if by_channel || row {
        return Some(Form::SideBySide);
    }
    let large = channels >= FEW_CHANNELS && outputs * channels * height * width >= FEW_WEIGHTS;
    // A single tap over planes multiplies the weight as it lies.
    if image.sizes.get(1) != Some(&channels) || !large || one_tap && !last {
        return None;
    }
    let ones = |at: AnyArg| arg(n, at).ints().is_some_and(|v| v.iter().all(|n| *n == 1));
    let plain = ones(native_conv::STRIDE.into()) && ones(native_conv::DILATION.into());
    if (height, width) != (3, 3) || !plain || channels.min(outputs) < LEAST_AT_POINTS {
        return Some(Form::Panels { at_points: false });
    }
    let tiles = (images * ((high + TILE - 1) / TILE) * ((wide + TILE - 1) / TILE)) as f64;
    // For each pair of channels; taps beyond the image are not multiplied by the sum.
    let inside = |n: i64| (3 * n - 2).max(1) as f64;
    let sum = images as f64 * inside(high) * inside(wide) + 9.0 * READ;
    let transforms = tiles * TRANSFORM * (1.0 / channels as f64 + 1.0 / outputs as f64);
    Some(Form::Panels { at_points: WORTH * (tiles * POINTS + POINTS * READ + transforms) < sum })
}
