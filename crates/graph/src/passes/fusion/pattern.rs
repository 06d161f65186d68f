//! What patterns are found and replaced with: who makes and who reads a value, new nodes, and edits of the list.

use crate::ir::{Graph, Kind, Node, Value, ValueId};
use oneflow_base::{Arg, Attrs, Result};
use oneflow_core::{AnyArg, Call, OpDef, Outs, Tensor};
use oneflow_runtime::{can_lower, shell};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Makers and readers of every value.
pub struct Uses {
    made: HashMap<ValueId, usize>,
    readers: HashMap<ValueId, Vec<usize>>,
    /// Values that outlive the run count as read once more.
    kept: HashMap<ValueId, usize>,
}

impl Uses {
    pub fn of(g: &Graph) -> Uses {
        let mut u = Uses { made: HashMap::new(), readers: HashMap::new(), kept: HashMap::new() };
        for (i, n) in g.nodes.iter().enumerate() {
            n.ins.iter().flatten().for_each(|v| u.readers.entry(*v).or_default().push(i));
            n.outs.iter().for_each(|v| {
                u.made.insert(*v, i);
            });
        }
        for v in g.outputs.iter().chain(g.writes.iter().map(|w| &w.value)) {
            *u.kept.entry(*v).or_default() += 1;
        }
        u
    }
    /// The node that makes a value, by this op.
    pub fn maker(&self, g: &Graph, v: Option<ValueId>, op: &OpDef) -> Option<usize> {
        let i = *self.made.get(&v?)?;
        is(&g.nodes[i], op).then_some(i)
    }
    pub fn made_at(&self, v: ValueId) -> Option<usize> {
        self.made.get(&v).copied()
    }
    /// Nodes that read a value, where nothing else does.
    pub fn readers(&self, v: ValueId) -> Option<&[usize]> {
        (!self.kept.contains_key(&v)).then(|| self.readers.get(&v).map_or(&[] as &[usize], Vec::as_slice))
    }
    /// Nodes that read a value, whoever else does.
    pub fn all_readers(&self, v: ValueId) -> &[usize] {
        self.readers.get(&v).map_or(&[], Vec::as_slice)
    }
    pub fn once(&self, v: ValueId) -> bool {
        self.readers(v).is_some_and(|r| r.len() == 1)
    }
}

/// Whether a node is of an op.
pub fn is(n: &Node, op: &OpDef) -> bool {
    n.op().is_some_and(|of| std::ptr::eq(of, op))
}

/// An argument, by its name in the op's signature.
pub fn arg<'a>(n: &'a Node, at: impl Into<AnyArg>) -> Arg<'a> {
    match &n.kind {
        Kind::Op { attrs, .. } => attrs.args().get(at.into().index()).copied().unwrap_or(Arg::None),
        Kind::Chain(_) => Arg::None,
    }
}

/// A node of an op with fresh results, in the place and the part of `like`.
pub fn node(g: &mut Graph, op: &'static OpDef, ins: &[Option<ValueId>], args: &[Arg<'_>], like: &Node) -> Result<Node> {
    let shells = shells(g, ins)?;
    let refs: Vec<Option<&Tensor>> = shells.iter().map(Option::as_ref).collect();
    let mut outs = Outs::new();
    (op.infer)(&Call::new(op, &refs, args), &mut outs)?;
    let root = outs.alias_of().and_then(|i| ins.get(i).copied().flatten()).map(|v| g.root(v));
    let mut ids: SmallVec<[ValueId; 2]> = SmallVec::new();
    for t in outs.tensors() {
        let id = g.values.len() as ValueId;
        g.values.push(Value { meta: t.meta(), offset: t.offset(), root: root.unwrap_or(id) });
        ids.push(id);
    }
    Ok(Node {
        kind: Kind::Op { op, attrs: Attrs::new(args) },
        ins: SmallVec::from_slice(ins),
        outs: ids,
        updates: SmallVec::new(),
        stack: like.stack.clone(),
        again: like.again,
        reads_stored: false,
    })
}

/// Whether a node has a kernel for the layouts it is given.
pub fn runs(g: &Graph, n: &Node) -> Result<bool> {
    let Kind::Op { op, attrs } = &n.kind else { return Ok(false) };
    let shells = shells(g, &n.ins)?;
    let refs: Vec<Option<&Tensor>> = shells.iter().map(Option::as_ref).collect();
    let args = attrs.args();
    let (c, mut outs) = (Call::new(op, &refs, &args), Outs::new());
    (op.infer)(&c, &mut outs)?;
    can_lower(&c, &outs)
}

/// Inputs as an op's shape rule wants them.
fn shells(g: &Graph, ins: &[Option<ValueId>]) -> Result<Vec<Option<Tensor>>> {
    ins.iter().map(|v| v.map(|v| shell(g.meta(v), g.values[v as usize].offset)).transpose()).collect()
}

/// Edits of the list of nodes, applied at once.
#[derive(Default)]
pub struct Edits(HashMap<usize, Vec<Node>>);

impl Edits {
    /// These stand where node `at` stood.
    pub fn replace(&mut self, at: usize, with: Vec<Node>) {
        self.0.insert(at, with);
    }
    pub fn touched(&self, at: usize) -> bool {
        self.0.contains_key(&at)
    }
    pub fn apply(mut self, g: &mut Graph) -> bool {
        let changed = !self.0.is_empty();
        if changed {
            let old = std::mem::take(&mut g.nodes);
            for (i, n) in old.into_iter().enumerate() {
                match self.0.remove(&i) {
                    Some(with) => g.nodes.extend(with),
                    None => g.nodes.push(n),
                }
            }
        }
        changed
    }
}
