//! The logical graph: nodes in program order over values that never change.
//!
//! Mutation is gone by the time a node is here: a write makes a new value. What has to reach memory that outlives the run
//! stands in `writes`. A view is a value whose `root` is another one.

use oneflow_base::{Arg, Attrs, DType, Meta};
use oneflow_core::{Kernel, OpDef, Storage, Traits};
use oneflow_ops::view::as_strided;
use oneflow_runtime::Ref;
use smallvec::{SmallVec, smallvec};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

pub type ValueId = u32;

#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub name: String,
    pub values: Vec<Value>,
    /// In program order.
    pub nodes: Vec<Node>,
    /// Where each micro-batch began in `nodes` as they were traced, and where the last one ended.
    pub micro_batches: Vec<usize>,
    /// Where the work of pipeline stages begins in `nodes` as they were traced.
    pub sections: Vec<Section>,
    pub inputs: Vec<ValueId>,
    pub variables: Variables,
    pub outputs: Vec<ValueId>,
    pub writes: Vec<Write>,
    /// Variables on the host, whose clones are copies on the device for those who read them next.
    pub fetched: HashSet<ValueId>,
    /// Variables that are computed from other variables, not by runs.
    pub derived: Vec<Derived>,
    /// In traces whose layouts are searched: the nodes that are calls with fresh results, each with the call's key and its number
    /// among equal ones (`oneflow_global::pinned`).
    pub calls: HashMap<usize, (String, usize)>,
    /// Of a graph in which blocks stand for equal ones: how often.
    pub folds: Folds,
    /// Random positions: the first, and how many a run takes.
    pub rng_start: u64,
    pub n_rng: u64,
    /// Of a graph for many sizes: values whose layout, or whose maker's arguments, depend on named dimensions.
    pub varying: HashSet<ValueId>,
    /// Constants of these sizes alone, with the nodes that make them: computed here so that passes can look at them.
    pub sized_constants: Vec<(ValueId, Vec<Node>)>,
}

/// From here to the next section the trace works on a stage.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    pub at: usize,
    pub micro_batch: usize,
    pub stage: u32,
    pub backward: bool,
}

#[derive(Clone, Debug)]
pub struct Value {
    pub meta: Meta,
    /// First element, in elements from the root's start.
    pub offset: i64,
    /// The value whose memory this is a layout of; itself, unless it is a view.
    pub root: ValueId,
}

/// Memory that outlives runs: its whole storage is one value.
#[derive(Clone)]
pub struct Variable {
    pub name: String,
    pub value: ValueId,
    pub storage: Storage,
    /// Computed while compiling, and never written again.
    pub constant: bool,
}

impl Variable {
    pub fn bytes(&self) -> u64 {
        self.storage.bytes() as u64
    }
}

/// The variables of a graph, in the order of a plan's list, and where each value stands in it.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    list: Vec<Variable>,
    places: HashMap<ValueId, usize>,
}

impl Variables {
    pub fn push(&mut self, v: Variable) {
        self.places.insert(v.value, self.list.len());
        self.list.push(v);
    }
    /// Drops the others.
    pub fn retain(&mut self, keep: impl FnMut(&Variable) -> bool) {
        self.list.retain(keep);
        self.places = self.list.iter().enumerate().map(|(i, v)| (v.value, i)).collect();
    }
    /// The variable that a value is the whole memory of.
    pub fn of(&self, value: ValueId) -> Option<&Variable> {
        self.places.get(&value).map(|i| &self.list[*i])
    }
}

impl std::ops::Deref for Variables {
    type Target = [Variable];
    fn deref(&self) -> &[Variable] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a Variables {
    type Item = &'a Variable;
    type IntoIter = std::slice::Iter<'a, Variable>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl std::fmt::Debug for Variable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} = %{} ({} bytes)", self.name, self.value, self.bytes())
    }
}

/// A variable that is computed from others before a run, where one of them was written since it was computed last.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The variable.
    pub value: ValueId,
    /// What the nodes make: the same memory in the layout that it is computed in.
    pub made: ValueId,
    /// The variables that the nodes read.
    pub from: Vec<ValueId>,
    /// In program order; one of them makes `made`.
    pub nodes: Vec<Node>,
}

/// At the end of a run the memory of `target` (a variable or an input) holds `value`.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub target: ValueId,
    pub value: ValueId,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub ins: SmallVec<[Option<ValueId>; 4]>,
    pub outs: SmallVec<[ValueId; 2]>,
    /// Of ops that write some of their inputs: (input, output that is the input's new value).
    pub updates: SmallVec<[(u32, u32); 2]>,
    /// Where the user's program asked for it.
    pub stack: Option<Arc<str>>,
    /// Not zero: part of a forward that runs again in backward (the number of that part). It computes what is there
    /// already, on purpose: only once what precedes it has run, and never merged with the first run.
    pub again: u32,
    /// Whether it reads nothing but tensors from outside, of which none is a view of another one. All ranks agree on it: whether a
    /// view has another layout than what it shows, and is copied before it is read, depends on the sizes of a rank's part.
    pub reads_stored: bool,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Op {
        op: &'static OpDef,
        attrs: Attrs,
    },
    /// Elementwise ops that run as one kernel.
    Chain(Vec<ChainStep>),
}

#[derive(Clone, Debug)]
pub struct ChainStep {
    pub op: &'static OpDef,
    pub attrs: Attrs,
    pub ins: SmallVec<[Option<Ref>; 3]>,
    pub out: Ref,
    pub dtype: DType,
}

impl Node {
    /// The node that sees a whole memory in another layout.
    pub fn view_of(from: ValueId, to: ValueId, layout: &Meta) -> Node {
        let attrs = Attrs::new(&[Arg::Ints(&layout.sizes), Arg::Ints(&layout.strides), Arg::Int(0)]);
        Node {
            kind: Kind::Op { op: &as_strided::OP, attrs },
            ins: smallvec![Some(from)],
            outs: smallvec![to],
            updates: smallvec![],
            stack: None,
            again: 0,
            reads_stored: false,
        }
    }
    pub fn op(&self) -> Option<&'static OpDef> {
        match &self.kind {
            Kind::Op { op, .. } => Some(op),
            Kind::Chain(_) => None,
        }
    }
    /// "linear", or "add+gelu+mul" of a chain.
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Op { op, .. } => op.name().to_owned(),
            Kind::Chain(steps) => steps.iter().map(|s| s.op.name()).collect::<Vec<_>>().join("+"),
        }
    }
    /// Whether the node only names another layout of its input.
    pub fn is_view(&self) -> bool {
        self.op().is_some_and(|o| matches!(o.kernel, Kernel::View))
    }
}

impl Graph {
    pub fn root(&self, v: ValueId) -> ValueId {
        self.values[v as usize].root
    }
    pub fn meta(&self, v: ValueId) -> &Meta {
        &self.values[v as usize].meta
    }
    pub fn is_root(&self, v: ValueId) -> bool {
        self.root(v) == v
    }

    /// Whether micro-batches travel between ranks of several placements.
    pub fn is_pipelined(&self) -> bool {
        let travels = |t: Traits| t.has(Traits::SENDS) || t.has(Traits::RECEIVES);
        self.micro_batches.len() > 2 && self.nodes.iter().any(|n| n.op().is_some_and(|o| travels(o.traits)))
    }

    /// Whether a value is the whole memory of a variable that this program reads and never writes, and that no other
    /// library can write unseen: what is computed from such variables alone need not be computed in every run.
    pub fn is_steady(&self, v: ValueId) -> bool {
        let own = self.variables.of(v).is_some_and(|x| !x.storage.is_written_elsewhere());
        own && !self.writes.iter().any(|w| w.target == v) && !self.is_updated(v)
    }

    /// Whether a node writes the memory of a root.
    pub fn is_updated(&self, root: ValueId) -> bool {
        self.nodes
            .iter()
            .any(|n| n.updates.iter().filter_map(|(i, _)| n.ins[*i as usize]).any(|v| self.root(v) == root))
    }

    /// Bytes of a root's memory.
    pub fn bytes(&self, root: ValueId) -> u64 {
        if let Some(v) = self.variables.of(root) {
            return v.bytes();
        }
        let m = self.meta(root);
        if m.sizes.contains(&0) {
            return 0;
        }
        let last: i64 = m.sizes.iter().zip(&m.strides).map(|(n, s)| (n - 1) * s).sum();
        (last + 1) as u64 * m.dtype.size() as u64
    }

    /// Roots whose memory is used from outside: variables and inputs.
    pub fn is_external(&self, root: ValueId) -> bool {
        self.variables.of(root).is_some() || self.inputs.contains(&root)
    }
}

/// Of a graph in which blocks stand for others: how often, by node, variable and unit. Empty in other graphs.
#[derive(Clone, Debug, Default)]
pub struct Folds {
    pub(crate) runs: Vec<Run>,
    /// Variables that stand for others.
    pub(crate) values: HashMap<ValueId, f64>,
    /// By node and input.
    pub(crate) seams: HashMap<(usize, usize), Seam>,
    /// By the number of a node of the whole graph, the node that stands for it.
    pub(crate) stands: Vec<usize>,
}

/// Equal blocks that follow each other: numbers of the folded graph.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub first_unit: usize,
    pub n_units: usize,
    pub times: usize,
    pub forward: Range<usize>,
    pub backward: Range<usize>,
}

/// Between blocks of a run: the block's own value that a node reads in place of the one outside of the run, how often, and whether
/// it is the last block that reads the one outside (else the first).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seam {
    pub own: ValueId,
    pub times: f64,
    pub at_last: bool,
}

impl Folds {
    /// How many nodes of the whole graph a node stands for.
    pub(crate) fn times(&self, node: usize) -> f64 {
        let run = self.runs.iter().find(|r| r.forward.contains(&node) || r.backward.contains(&node));
        run.map_or(1.0, |r| r.times as f64)
    }
    /// How many variables a variable stands for.
    pub(crate) fn variables(&self, v: ValueId) -> f64 {
        self.values.get(&v).copied().unwrap_or(1.0)
    }
    pub(crate) fn seam(&self, node: usize, slot: usize) -> Option<Seam> {
        self.seams.get(&(node, slot)).copied()
    }
    pub(crate) fn all_seams(&self) -> impl Iterator<Item = (usize, usize, Seam)> + '_ {
        self.seams.iter().map(|((node, slot), seam)| (*node, *slot, *seam))
    }
    /// The nodes that begin here and are there so many times.
    pub(crate) fn span(&self, node: usize) -> Option<(Range<usize>, usize)> {
        let all = self.runs.iter().flat_map(|r| [(&r.forward, r.times), (&r.backward, r.times)]);
        all.filter(|(range, _)| range.start == node && !range.is_empty()).map(|(r, n)| (r.clone(), n)).next()
    }
    /// The node that stands for a node of the whole graph.
    pub fn stands_for(&self, node: usize) -> Option<usize> {
        self.stands.get(node).copied()
    }
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}
