//! Values as layouts of memories: who reads a memory, which of its values are the same matrices, and copies that only
//! change a layout.

use super::ops;
use super::pattern::is;
use crate::ir::{Graph, Kind, Node, ValueId};
use oneflow_base::{Arg, Meta, Result};
use oneflow_core::{Call, OpDef, Outs, Tensor, Traits};
use oneflow_ops::view::as_strided;
use oneflow_runtime::{can_lower, shell};
use std::collections::{HashMap, HashSet};

/// Makers and readers of memories. Views only name them: they count as neither.
pub struct Memories {
    made: HashMap<ValueId, usize>,
    readers: HashMap<ValueId, Vec<usize>>,
    /// What outlives the run.
    kept: HashSet<ValueId>,
}

impl Memories {
    pub fn of(g: &Graph) -> Memories {
        let kept = g.outputs.iter().chain(g.writes.iter().map(|w| &w.value)).map(|v| g.root(*v)).collect();
        let mut m = Memories { made: HashMap::new(), readers: HashMap::new(), kept };
        for (at, n) in g.nodes.iter().enumerate().filter(|(_, n)| !n.is_view()) {
            m.made.extend(n.outs.iter().map(|v| (*v, at)));
            let mut roots: Vec<ValueId> = n.ins.iter().flatten().map(|v| g.root(*v)).collect();
            roots.sort_unstable();
            roots.dedup();
            roots.into_iter().for_each(|r| m.readers.entry(r).or_default().push(at));
        }
        m
    }
    /// The node that makes the memory of a value.
    pub fn made_at(&self, g: &Graph, v: ValueId) -> Option<usize> {
        self.made.get(&g.root(v)).copied()
    }
    /// The nodes that read the memory of a value.
    pub fn readers(&self, g: &Graph, v: ValueId) -> &[usize] {
        self.readers.get(&g.root(v)).map_or(&[], Vec::as_slice)
    }
    pub fn is_kept(&self, g: &Graph, v: ValueId) -> bool {
        self.kept.contains(&g.root(v))
    }
    /// The one node that reads the memory of a value.
    pub fn reader(&self, g: &Graph, v: ValueId) -> Option<usize> {
        match self.readers(g, v) {
            [one] if !self.is_kept(g, v) => Some(*one),
            _ => None,
        }
    }
}

/// A layout with its last two dimensions exchanged.
fn exchanged(m: &Meta) -> Option<Meta> {
    let n = m.sizes.len().checked_sub(2)?;
    let mut m = m.clone();
    m.sizes.swap(n, n + 1);
    m.strides.swap(n, n + 1);
    Some(m)
}

/// Whether a layout is the matrices of a whole dense memory, row by row; its leading dimensions may be grouped otherwise.
fn covers(g: &Graph, v: ValueId, m: &Meta) -> bool {
    let whole = g.meta(g.root(v));
    let last = |m: &Meta| m.sizes.len().checked_sub(2).map(|n| m.sizes[n..].to_vec());
    g.values[v as usize].offset == 0
        && m.is_contiguous()
        && whole.is_contiguous()
        && m.numel() == whole.numel()
        && last(m).is_some()
        && last(m) == last(whole)
}

/// Whether a value is the matrices of its whole memory.
pub fn is_rows(g: &Graph, v: ValueId) -> bool {
    covers(g, v, g.meta(v))
}

/// Whether a value is the matrices of its whole memory, transposed.
pub fn is_columns(g: &Graph, v: ValueId) -> bool {
    exchanged(g.meta(v)).is_some_and(|m| covers(g, v, &m))
}

/// Whether two values are the same layout of one memory.
pub fn same(g: &Graph, a: ValueId, b: ValueId) -> bool {
    let (x, y) = (&g.values[a as usize], &g.values[b as usize]);
    (x.root, x.offset, &x.meta) == (y.root, y.offset, &y.meta)
}

/// Whether `b` is `a` with its last two dimensions exchanged.
pub fn is_transpose(g: &Graph, a: ValueId, b: ValueId) -> bool {
    let (x, y) = (&g.values[a as usize], &g.values[b as usize]);
    (x.root, x.offset) == (y.root, y.offset) && exchanged(&x.meta).as_ref() == Some(&y.meta)
}

/// Lets a copy be a view of what it copies, where all who read it take that layout.
pub fn forgo_copy(g: &mut Graph, at: usize) -> Result<bool> {
    let (Some(from), copy) = (g.nodes[at].ins[0], g.nodes[at].outs[0]) else { return Ok(false) };
    let (old, new) = (g.root(copy), g.root(from));
    let kept = g.outputs.iter().chain(g.writes.iter().map(|w| &w.value)).any(|v| g.root(*v) == old);
    let updated = g
        .nodes
        .iter()
        .any(|n| n.updates.iter().filter_map(|(i, _)| n.ins[*i as usize]).any(|v| [old, new].contains(&g.root(v))));
    if kept || updated || old != copy || g.is_external(new) || g.meta(from).dtype != g.meta(copy).dtype {
        return Ok(false);
    }
    let mut layouts = HashMap::from([(copy, (g.meta(from).clone(), g.values[from as usize].offset))]);
    for n in &g.nodes[at + 1..] {
        if !n.ins.iter().flatten().any(|v| layouts.contains_key(v)) {
            continue;
        }
        let same = |v: &ValueId| {
            let x = &g.values[*v as usize];
            layouts.get(v).is_none_or(|(m, offset)| (m, *offset) == (&x.meta, x.offset))
        };
        if !n.is_view() && n.ins.iter().flatten().all(same) {
            continue;
        }
        let Some(made) = results(g, n, &layouts)? else { return Ok(false) };
        let now = |v: ValueId| g.meta(v);
        if n.is_view() && made.iter().zip(&n.outs).all(|((m, _), v)| m.sizes == now(*v).sizes) {
            layouts.extend(n.outs.iter().copied().zip(made));
        } else if n.is_view() || made.iter().zip(&n.outs).any(|((m, _), v)| m != now(*v)) {
            return Ok(false);
        }
    }
    let (meta, offset) = &layouts[&copy];
    let args = [Arg::Ints(&meta.sizes), Arg::Ints(&meta.strides), Arg::Int(*offset)];
    g.nodes[at].kind = Kind::Op { op: &ops::AS_STRIDED, attrs: oneflow_base::Attrs::new(&args) };
    for (v, (meta, offset)) in layouts {
        (g.values[v as usize].meta, g.values[v as usize].offset) = (meta, offset);
    }
    g.values.iter_mut().filter(|v| v.root == old).for_each(|v| v.root = new);
    Ok(true)
}

/// Ops whose arguments speak of the memory of their input, not of its value.
static LAID_OUT: [&OpDef; 4] =
    [&ops::AS_STRIDED, &as_strided::SCATTER, &as_strided::FROM_FIRST, &as_strided::SCATTER_FROM_FIRST];

/// What a node makes of inputs in these layouts, if it takes them.
fn results(g: &Graph, n: &Node, layouts: &HashMap<ValueId, (Meta, i64)>) -> Result<Option<Vec<(Meta, i64)>>> {
    let Kind::Op { op, attrs } = &n.kind else { return Ok(None) };
    // Its arguments speak of the memory, not of the value.
    if LAID_OUT.iter().any(|op| is(n, op)) {
        return Ok(None);
    }
    let layout = |v: ValueId| match layouts.get(&v) {
        Some((m, offset)) => shell(m, *offset),
        None => shell(g.meta(v), g.values[v as usize].offset),
    };
    let ins: Vec<Option<Tensor>> = n.ins.iter().map(|v| v.map(layout).transpose()).collect::<Result<_>>()?;
    let refs: Vec<Option<&Tensor>> = ins.iter().map(Option::as_ref).collect();
    let args = attrs.args();
    let call = Call::new(op, &refs, &args);
    let mut outs = Outs::new();
    let dense = op.traits.has(Traits::NEEDS_CONTIGUOUS) && ins.iter().flatten().any(|t| !t.is_contiguous());
    if dense || (op.infer)(&call, &mut outs).is_err() || outs.len() != n.outs.len() {
        return Ok(None);
    }
    if !n.is_view() && !can_lower(&call, &outs)? {
        return Ok(None);
    }
    Ok(Some(outs.tensors().iter().map(|t| (t.meta(), t.offset())).collect()))
}
