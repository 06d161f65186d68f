//! Convolutions of images run channels last, one after another, where their weights can be laid out before the run.
//!
//! Each of their inputs is laid out anew once; what reads the result follows, as in eager programs, until something needs
//! the traced layout: a view, a result of the graph. The numbers are the same. Where more would be copied than is gained,
//! the graph stays as it was.

use super::ops;
use super::pattern::{is, node, runs};
use crate::Config;
use crate::ir::{Graph, Kind, Node, ValueId};
use crate::passes::precompute;
use oneflow_base::{Arg, DType, Meta, Result, intern};
use oneflow_core::{Kernel, OpDef, Traits};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};

/// An image of so few channels is read as it lies: its convolution makes the result channels last as its weight says, and
/// brings the image into the cache anew in any case.
const FEW_CHANNELS: std::ops::RangeInclusive<i64> = 2..=4;

/// Copies that as many convolutions make up for.
const CONVOLUTIONS_A_COPY: usize = 3;

/// Channels of a position that are copied as one piece of a few lines.
const LONG_ROW: i64 = 32;

/// A graph that trains keeps its layouts.
static CONV_BACKWARDS: [&OpDef; 2] = [&ops::CONV_BACKWARD_INPUT, &ops::CONV_BACKWARD_WEIGHT];

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse
        || !config.precompute
        || g.nodes.iter().any(|n| n.again > 0 || CONV_BACKWARDS.iter().any(|op| is(n, op)))
    {
        return Ok(false);
    }
    let known = precompute::known(g);
    let chosen: HashSet<usize> = (0..g.nodes.len()).filter(|at| is_chosen(g, &g.nodes[*at], &known)).collect();
    if chosen.len() < CONVOLUTIONS_A_COPY {
        return Ok(false);
    }
    let nodes = std::mem::take(&mut g.nodes);
    let mut walk = Walk {
        g: Graph { nodes: Vec::new(), ..g.clone() },
        twins: HashMap::new(),
        restored: HashSet::new(),
        copies: 0,
    };
    g.nodes = nodes;
    for (at, n) in g.nodes.iter().enumerate() {
        if !walk.follow(n, chosen.contains(&at))? {
            walk.keep(n)?;
        }
    }
    let last = g.nodes.last().cloned();
    for v in g.outputs.iter().chain(g.writes.iter().map(|w| &w.value)) {
        if let Some(like) = &last {
            walk.restore(*v, like)?;
        }
    }
    if walk.copies * CONVOLUTIONS_A_COPY > chosen.len() {
        return Ok(false);
    }
    *g = walk.g;
    Ok(true)
}

/// A convolution of an image whose kernel reads channels last: of all channels, or each channel by itself.
fn is_chosen(g: &Graph, n: &Node, known: &HashMap<ValueId, usize>) -> bool {
    let [Some(x), Some(w), _] = *n.ins.as_slice() else { return false };
    let (image, weight) = (g.meta(x), g.meta(w));
    is(n, &ops::NATIVE_CONV)
        && image.sizes.len() == 4
        && image.sizes[2..] != [1, 1]
        && image.device.is_cpu()
        && image.dtype == DType::F32
        && (weight.sizes[1] == image.sizes[1] || weight.sizes[1] == 1)
        && weight.is_contiguous()
        && image.is_contiguous()
        && (known.contains_key(&w) || g.is_steady(w))
}

fn is_channels_last(m: &Meta) -> bool {
    let [_, c, h, w] = *m.sizes.as_slice() else { return false };
    m.strides.as_slice() == [h * w * c, 1, w * c, c]
}

/// The graph as it becomes.
struct Walk {
    g: Graph,
    /// Values as traced, and the same numbers channels last.
    twins: HashMap<ValueId, ValueId>,
    /// Of those, what is there as traced, too.
    restored: HashSet<ValueId>,
    /// Copies of images that only change the layout, or that cost as much.
    copies: usize,
}

impl Walk {
    /// Lets a node work channels last; false: it has to stay as it is.
    fn follow(&mut self, n: &Node, chosen: bool) -> Result<bool> {
        let Kind::Op { op, attrs } = &n.kind else { return Ok(false) };
        let bound = [Traits::RANDOM, Traits::MUTATES, Traits::COLLECTIVE].iter().any(|t| op.traits.has(*t));
        let plain = matches!(op.kernel, Kernel::Elementwise(_) | Kernel::Prim { .. });
        let reads = chosen || n.ins.iter().flatten().any(|v| self.twins.contains_key(v));
        if !reads || bound || !plain || !n.updates.is_empty() {
            return Ok(false);
        }
        let (from, copies) = (self.g.nodes.len(), self.copies);
        let new: SmallVec<[ValueId; 4]> =
            n.ins.iter().flatten().filter(|v| !self.twins.contains_key(v)).copied().collect();
        let mut ins = n.ins.clone();
        for (i, v) in ins.iter_mut().enumerate() {
            let Some(old) = *v else { continue };
            *v = match self.twins.get(&old) {
                Some(twin) => Some(*twin),
                None if chosen && i == 0 && FEW_CHANNELS.contains(&self.g.meta(old).sizes[1]) => Some(old),
                None if chosen && i < 2 => Some(self.convert(old, n, i == 0)?),
                None => Some(old),
            };
        }
        let args = attrs.args();
        let made = match node(&mut self.g, op, &ins, &args, n) {
            Ok(made) if runs(&self.g, &made)? => self.settle(n, made),
            _ => None,
        };
        let followed = made.is_some();
        match made {
            Some(made) => {
                // Rows of channels are joined piece by piece, where whole planes were.
                self.copies += (std::ptr::eq(*op, &ops::CAT) && !self.joins_long_rows(&made)) as usize;
                self.g.nodes.push(made);
            }
            None => {
                self.g.nodes.truncate(from);
                self.copies = copies;
                self.twins.retain(|v, _| !new.contains(v));
            }
        }
        Ok(followed)
    }

    /// Whether what is joined has rows of channels that are copied as fast as planes.
    fn joins_long_rows(&self, n: &Node) -> bool {
        n.ins.iter().flatten().all(|v| self.g.meta(*v).sizes.get(1).is_some_and(|c| *c >= LONG_ROW))
    }

    /// The node, if all its results have the layout that was traced or are channels last.
    fn settle(&mut self, old: &Node, mut made: Node) -> Option<Node> {
        let fits = old.outs.iter().zip(&made.outs).all(|(old, new)| {
            let (was, is) = (self.g.meta(*old), self.g.meta(*new));
            was == is || was.is_contiguous() && is_channels_last(is) && was.sizes == is.sizes && was.dtype == is.dtype
        });
        if !fits || old.outs.len() != made.outs.len() {
            return None;
        }
        for (old, new) in old.outs.iter().zip(&mut made.outs) {
            if self.g.meta(*old) == self.g.meta(*new) {
                *new = *old;
            } else {
                self.twins.insert(*old, *new);
            }
        }
        Some(made)
    }

    fn convert(&mut self, v: ValueId, like: &Node, is_image: bool) -> Result<ValueId> {
        // Of one pixel both layouts are one.
        if self.g.meta(v).sizes[2..] == [1, 1] {
            return Ok(v);
        }
        let format = Arg::Sym(intern("channels_last"));
        let copy = node(&mut self.g, &ops::CLONE_CONTIGUOUS, &[Some(v)], &[format], like)?;
        let twin = copy.outs[0];
        self.g.nodes.push(copy);
        self.copies += is_image as usize;
        if is_image {
            self.twins.insert(v, twin);
            self.restored.insert(v);
        }
        Ok(twin)
    }

    /// Lets a node work as traced.
    fn keep(&mut self, n: &Node) -> Result<()> {
        for v in n.ins.iter().flatten() {
            self.restore(*v, n)?;
        }
        self.g.nodes.push(n.clone());
        Ok(())
    }

    /// Makes a value in the layout that was traced.
    fn restore(&mut self, v: ValueId, like: &Node) -> Result<()> {
        let Some(twin) = self.twins.get(&v).copied() else { return Ok(()) };
        if self.restored.insert(v) {
            let mut copy = node(&mut self.g, &ops::CLONE_CONTIGUOUS, &[Some(twin)], &[Arg::None], like)?;
            copy.outs[0] = v;
            self.g.nodes.push(copy);
            self.copies += 1;
        }
        Ok(())
    }
}
