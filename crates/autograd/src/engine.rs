//! The engine: runs nodes from the last recorded to the first.
//!
//! Nodes are numbered in program order, so the one with the highest number has received all its gradients: no counting of
//! dependencies, no thread, no recursion. A node issues to the queues that its forward was issued to; where they change, the new
//! ones wait for the old.

use crate::addresses::{AddressMap, AddressSet};
use crate::anomaly::{self, Inside, is_anomaly_enabled};
use crate::destinations::{Reachable, Slots};
use crate::function::custom_edges;
use crate::left::Left;
use crate::mode::{GradGuard, is_inference_mode_enabled};
use crate::node::{Edge, Kind, Node};
use crate::running::{InRun, Keys};
use crate::saved::SameHooks;
use crate::slot::{check_inference_write, grad, link, state_mut};
use crate::tensor_hooks::{arrive, leaf_post, leaf_pre};
use crate::view::edge;
use oneflow_base::{DType, Error, Meta, Result, contiguous_strides};
use oneflow_core::{
    Destinations, Fix, Grad, SpanKind, Tensor, Traits, bit, copy_into, oneflow_conventions, watch_span,
};
use oneflow_ep::queues::{self, Chosen, Switched};
use oneflow_ops::elementwise::is_dense;
use oneflow_ops::{TensorOps, f};
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What another layer does to a gradient before it is added to a leaf's (global tensors box it to the leaf's layout).
type AccumulateRule = fn(&Tensor, Tensor) -> Result<Tensor>;
static ACCUMULATE_RULE: OnceLock<AccumulateRule> = OnceLock::new();

/// Installs the rule; once, at start-up.
pub fn set_accumulate_rule(rule: AccumulateRule) {
    let _ = ACCUMULATE_RULE.set(rule);
}

/// Asks whether the run shall go on (Ctrl-C).
type Poll = fn() -> Result<()>;
static POLL: OnceLock<Poll> = OnceLock::new();

/// Installs the question; once, at start-up.
pub fn set_poll(poll: Poll) {
    let _ = POLL.set(poll);
}

/// Asks at most every few hundredths of a second, as the answer needs the interpreter.
#[derive(Default)]
struct Polling {
    nodes: u32,
    last: Option<Instant>,
}

impl Polling {
    const EVERY_NODES: u32 = 32;
    const EVERY: Duration = Duration::from_millis(30);
    /// A node with gradients of this many elements may itself run for long.
    const LONG: i64 = 1 << 16;

    #[inline]
    fn step(&mut self, grads: &[Option<Tensor>]) -> Result<()> {
        self.nodes += 1;
        let due = self.nodes.is_multiple_of(Self::EVERY_NODES);
        if !due && !grads.iter().flatten().any(|g| g.numel() > Self::LONG) {
            return Ok(());
        }
        // Short runs never look at the clock.
        if self.last.get_or_insert_with(Instant::now).elapsed() < Self::EVERY {
            return Ok(());
        }
        self.last = Some(Instant::now());
        POLL.get().map_or(Ok(()), |poll| poll())
    }
}

/// Where a backward starts, or what it is taken with respect to.
#[derive(Clone)]
pub enum Root {
    Tensor(Tensor),
    Edge(Edge),
}

impl Root {
    fn edge(&self) -> Option<Edge> {
        match self {
            Root::Tensor(t) => edge(t),
            Root::Edge(e) => Some(e.clone()),
        }
    }

    /// What it is, where that is known.
    fn meta(&self) -> Option<Meta> {
        match self {
            Root::Tensor(t) => Some(t.meta()),
            Root::Edge(e) => e.node.output_meta(e.nr),
        }
    }
}

struct Ready(Arc<Node>);

impl PartialEq for Ready {
    fn eq(&self, o: &Self) -> bool {
        self.0.seq == o.0.seq
    }
}
impl Eq for Ready {}
impl PartialOrd for Ready {
    fn partial_cmp(&self, o: &Self) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for Ready {
    fn cmp(&self, o: &Self) -> Ordering {
        self.0.seq.cmp(&o.0.seq)
    }
}

fn roots_of(tensors: &[Tensor]) -> SmallVec<[Root; 4]> {
    tensors.iter().map(|t| Root::Tensor(t.clone())).collect()
}

/// As `backward_from`, of tensors.
pub fn backward(
    roots: &[Tensor],
    grads: &[Option<Tensor>],
    retain: bool,
    create: bool,
    inputs: Option<&[Tensor]>,
) -> Result<()> {
    backward_from(&roots_of(roots), grads, retain, create, inputs.map(roots_of).as_deref())
}

/// As `grad_from`, of tensors.
pub fn grad_of(
    roots: &[Tensor],
    inputs: &[Tensor],
    grads: &[Option<Tensor>],
    retain: bool,
    create: bool,
) -> Result<Vec<Option<Tensor>>> {
    grad_from(&roots_of(roots), &roots_of(inputs), grads, retain, create)
}

/// Adds the gradients of `roots` to the `.grad` of leaves (only of `inputs`, where given).
pub fn backward_from(
    roots: &[Root],
    grads: &[Option<Tensor>],
    retain: bool,
    create: bool,
    inputs: Option<&[Root]>,
) -> Result<()> {
    match inputs {
        None => Engine::new(roots, grads, retain, create)?.run(),
        Some(inputs) => {
            let mut e = Engine::new(roots, grads, retain, create)?;
            e.target(inputs)?;
            e.accumulates = true;
            e.run()?;
            let captured = std::mem::take(&mut e.captured);
            for (t, g) in inputs.iter().zip(captured) {
                if let (Some(g), Root::Tensor(t)) = (g, t) {
                    accumulate(t, g, create, 0)?;
                }
            }
            Ok(())
        }
    }
}

/// The gradients of `roots` with respect to `inputs`, without touching `.grad`. `None` for an input that was not reached.
pub fn grad_from(
    roots: &[Root],
    inputs: &[Root],
    grads: &[Option<Tensor>],
    retain: bool,
    create: bool,
) -> Result<Vec<Option<Tensor>>> {
    let mut e = Engine::new(roots, grads, retain, create)?;
    e.target(inputs)?;
    e.run()?;
    e.captured.iter().flatten().for_each(mark_inference);
    Ok(e.captured)
}

pub(crate) struct Engine {
    retain: bool,
    create: bool,
    heap: BinaryHeap<Ready>,
    buffers: AddressMap<Slots>,
    /// Per target: its node and output. Gradients that arrive there are captured.
    targets: Vec<Edge>,
    captured: Vec<Option<Tensor>>,
    /// Nodes on a way to a target; `None`: all of them.
    needed: Option<Keys>,
    /// Targets run as well, so that their hooks see what they would see without targets: leaves accumulate.
    accumulates: bool,
    /// Of the first of two halves: what it leaves for the second.
    left: Option<Left>,
    /// Nodes whose gradients have been shown to the hooks of their tensors already.
    arrived: AddressSet,
    /// Of the second half: the nodes of the first, to which nothing is sent any more.
    first: Option<Keys>,
}

fn key(n: &Arc<Node>) -> usize {
    Arc::as_ptr(n) as usize
}

impl Engine {
    pub(crate) fn new(roots: &[Root], grads: &[Option<Tensor>], retain: bool, create: bool) -> Result<Engine> {
        let mut e = Engine {
            retain: retain || create,
            create,
            heap: BinaryHeap::new(),
            buffers: AddressMap::default(),
            targets: Vec::new(),
            captured: Vec::new(),
            needed: None,
            accumulates: false,
            left: None,
            arrived: AddressSet::default(),
            first: None,
        };
        for (i, root) in roots.iter().enumerate() {
            let Some(to) = root.edge() else {
                return Err(Error::runtime(format!(
                    "element {i} of tensors does not require grad and does not have a grad_fn"
                )));
            };
            let g = match grads.get(i).cloned().flatten() {
                Some(g) => given(i, g, root)?,
                None => implicit(root)?,
            };
            e.send(&to, Some(g))?;
        }
        Ok(e)
    }

    /// Runs what leads to these tensors; returns their gradients, what is left to do, and the nodes that ran.
    pub(crate) fn first_half(&mut self, inputs: &[Root]) -> Result<(Vec<Option<Tensor>>, Left, Keys)> {
        self.target(inputs)?;
        self.left = Some(Left::default());
        self.run()?;
        let captured = std::mem::take(&mut self.captured);
        Ok((captured, self.left.take().unwrap_or_default(), self.needed.take().unwrap_or_default()))
    }

    /// The engine of what a first half has left.
    pub(crate) fn of_rest(left: Left, first: Keys) -> Result<Engine> {
        let mut e = Engine::new(&[], &[], false, false)?;
        e.first = Some(first);
        for (node, grads) in left.nodes {
            e.buffers.insert(key(&node), grads.into_iter().collect());
            e.arrived.insert(key(&node));
            e.heap.push(Ready(node));
        }
        for (to, g) in left.grads {
            e.send(&to, g)?;
        }
        Ok(e)
    }

    /// In the first half: keeps a node for the second if it has inputs outside of `wanted`, or if nothing of it is wanted.
    fn leave(&mut self, node: &Arc<Node>, grads: &[Option<Tensor>], wanted: u64) -> bool {
        let Some(left) = &mut self.left else { return false };
        let edges = node.edges.iter().enumerate();
        let open = |(i, e): (usize, &Option<Edge>)| e.is_some() && wanted >> i.min(63) & 1 == 0;
        let leaf = matches!(node.kind, Kind::Accumulate(_));
        let has_rest = leaf || edges.into_iter().any(open);
        if has_rest && (wanted == 0 || !Left::runs_once(node)) {
            left.nodes.push((node.clone(), grads.to_vec()));
        }
        has_rest
    }

    /// Restricts the run to nodes that lead to these tensors.
    fn target(&mut self, inputs: &[Root]) -> Result<()> {
        for (i, t) in inputs.iter().enumerate() {
            let Some(e) = t.edge() else {
                return Err(Error::runtime(format!(
                    "One of the differentiated Tensors does not require grad (input {i})"
                )));
            };
            self.targets.push(e);
            self.captured.push(None);
        }
        let goals: AddressSet = self.targets.iter().map(|e| key(&e.node)).collect();
        let mut needed = goals;
        let mut seen = AddressSet::default();
        // Post-order walk: a node is needed if one of the nodes it leads to is.
        let mut stack: Vec<(Arc<Node>, bool)> = self.heap.iter().map(|r| (r.0.clone(), false)).collect();
        while let Some((n, done)) = stack.pop() {
            if done {
                if n.edges.iter().flatten().any(|e| needed.contains(&key(&e.node))) {
                    needed.insert(key(&n));
                }
            } else if seen.insert(key(&n)) {
                stack.push((n.clone(), true));
                stack.extend(n.edges.iter().flatten().map(|e| (e.node.clone(), false)));
            }
        }
        // What the roots do not lead to gets no gradient.
        needed.retain(|k| seen.contains(k));
        self.needed = Some(Arc::new(needed));
        Ok(())
    }

    /// Hands a gradient on. `None`: the node runs all the same, as its hooks and a function of the user want to know.
    fn send(&mut self, to: &Edge, g: Option<Tensor>) -> Result<()> {
        let outside = self.needed.as_ref().is_some_and(|n| !n.contains(&key(&to.node)));
        if outside || self.first.as_ref().is_some_and(|n| n.contains(&key(&to.node))) {
            return Ok(());
        }
        match self.buffers.get_mut(&key(&to.node)) {
            Some(slots) => {
                let slot = &mut slots[to.nr as usize];
                *slot = match (slot.take(), g) {
                    (Some(have), Some(g)) => Some(add(have, g, self.create)?),
                    (have, g) => have.or(g),
                };
            }
            None => {
                let mut slots: Slots = SmallVec::from_elem(None, to.node.n_outputs as usize);
                slots[to.nr as usize] = g;
                self.buffers.insert(key(&to.node), slots);
                self.heap.push(Ready(to.node.clone()));
            }
        }
        Ok(())
    }

    /// Hands a gradient on, or keeps it for the second half where it is of that.
    fn send_or_leave(&mut self, to: &Edge, g: Option<Tensor>, once: bool) -> Result<()> {
        let of_first = self.needed.as_ref().is_none_or(|n| n.contains(&key(&to.node)));
        match &mut self.left {
            Some(left) if once && !of_first => {
                left.grads.push((to.clone(), g));
                Ok(())
            }
            _ => self.send(to, g),
        }
    }

    /// Inputs of a node that lie on a way to a target, a bit each; the last bit stands for all from it on.
    fn wanted(&self, node: &Node) -> u64 {
        if self.needed.is_none() && self.first.is_none() {
            return u64::MAX;
        }
        let on_the_way = |e: &Option<Edge>| {
            e.as_ref().is_some_and(|e| {
                let k = key(&e.node);
                self.needed.as_ref().is_none_or(|n| n.contains(&k))
                    && self.first.as_ref().is_none_or(|n| !n.contains(&k))
            })
        };
        let ways = node.edges.iter().enumerate().filter(|(_, e)| on_the_way(e));
        ways.fold(0, |m, (i, _)| m | 1 << i.min(63))
    }

    pub(crate) fn run(&mut self) -> Result<()> {
        let _mode = GradGuard::new(self.create);
        let _hooks = SameHooks::new();
        let _run = InRun::new(self.heap.iter().map(|r| r.0.clone()).collect(), self.needed.clone());
        let anomaly = is_anomaly_enabled();
        let mut polling = Polling::default();
        // Afterwards the caller's queues wait for what was issued to others.
        let _caller_queues = Switched::to(&Chosen::now())?;
        while let Some(Ready(node)) = self.heap.pop() {
            let Some(mut grads) = self.buffers.remove(&key(&node)) else { continue };
            polling.step(&grads)?;
            queues::switch(&node.queues)?;
            let _span = watch_span(SpanKind::Backward, || node.name().into(), node.seq);
            // What the first half left had its hooks then.
            if !self.arrived.remove(&key(&node)) {
                arrive(&node, &mut grads)?;
            }
            if self.left.is_some() && self.needed.as_ref().is_some_and(|n| !n.contains(&key(&node))) {
                self.leave(&node, &grads, 0);
                continue;
            }
            if let Kind::Accumulate(leaf) = &node.kind {
                self.leaf(&node, leaf, &mut grads)?;
                continue;
            }
            self.capture(&node, &grads);
            let wanted = self.wanted(&node);
            let hooked = node.hooks.any();
            if wanted == 0 && !(self.accumulates && hooked && self.is_target(&node)) {
                continue;
            }
            let rest = self.leave(&node, &grads, wanted);
            // A node that runs once runs for both halves.
            let once = rest && Left::runs_once(&node);
            let (wanted, retain) = if once { (u64::MAX, false) } else { (wanted, self.retain || rest) };
            if hooked {
                node.hooks.run_pre(&mut grads)?;
            }
            // Where gradients are recorded, looked at or kept, each is made on its own.
            let seen = hooked || anomaly;
            let open = !self.create && !seen && self.needed.is_none() && self.left.is_none() && self.first.is_none();
            let to = open.then(|| Reachable::new(&node, &mut self.buffers));
            let to = to.as_ref().map(|to| to as &dyn Destinations);
            let mut out = if anomaly {
                let (name, trace) = (node.name(), node.hooks.trace());
                let _inside = Inside::new(&name, trace.clone());
                let out = node.run(&grads, wanted, retain, to);
                let checked = out.and_then(|out| anomaly::check(&name, &out).map(|()| out));
                checked.map_err(|e| anomaly::explain(&name, trace, e))?
            } else {
                node.run(&grads, wanted, retain, to)?
            };
            if hooked && node.hooks.has_post() {
                node.hooks.run_post(&mut out, &grads)?;
            }
            drop(grads);
            let fixes = fixes(&node);
            for (i, (g, e)) in out.into_iter().zip(&node.edges).enumerate() {
                let Some(e) = e else { continue };
                let Some(g) = g else {
                    self.send_or_leave(e, None, once)?;
                    continue;
                };
                let g = match fixes.and_then(|m| m.get(i)).and_then(Option::as_ref) {
                    Some(meta) => fit(g, meta)?,
                    None => g,
                };
                let g = if self.create { tied(&node, e, g) } else { g };
                self.send_or_leave(e, Some(g), once)?;
            }
        }
        Ok(())
    }

    fn is_target(&self, node: &Arc<Node>) -> bool {
        self.targets.iter().any(|t| Arc::ptr_eq(&t.node, node))
    }

    fn capture(&mut self, node: &Arc<Node>, grads: &[Option<Tensor>]) {
        for (t, slot) in self.targets.iter().zip(&mut self.captured) {
            if Arc::ptr_eq(&t.node, node) {
                *slot = grads[t.nr as usize].clone();
            }
        }
    }

    fn leaf(&mut self, node: &Arc<Node>, leaf: &Tensor, grads: &mut Slots) -> Result<()> {
        let mut g = grads[0].take();
        for hook in leaf_pre(leaf) {
            if let Some(new) = hook(g.as_ref())? {
                g = Some(new);
            }
        }
        if self.needed.is_some() && !self.accumulates {
            self.capture(node, &[g]);
            return Ok(());
        }
        let create = self.create;
        let keep = |g: Option<Tensor>, seen: usize| match g {
            Some(g) => accumulate(leaf, g, create, seen),
            None => leaf_post(leaf).into_iter().try_for_each(|hook| hook(leaf)),
        };
        if !node.hooks.any() {
            return keep(g, 0);
        }
        let mut g = [g];
        node.hooks.run_pre(&mut g)?;
        let [g] = g;
        let seen = node.hooks.has_post().then(|| g.clone());
        keep(g, usize::from(seen.is_some()))?;
        if let Some(seen) = seen {
            node.hooks.run_post(&mut [], &[seen])?;
        }
        Ok(())
    }
}

/// The gradient with the history of the input it belongs to as well, where the op asks for that: its derivative is zero there.
fn tied(node: &Node, to: &Edge, g: Tensor) -> Tensor {
    let Kind::Op(o) = &node.kind else { return g };
    if !o.op.traits.has(Traits::FLAT) {
        return g;
    }
    let both = |grads: &[Option<Tensor>]| {
        let g = grads.first().and_then(Option::as_ref);
        Ok(vec![g.map(TensorOps::zeros_like).transpose()?, g.cloned()])
    };
    let to = [Some(to.clone()), edge(&g)];
    let e = custom_edges(&format!("{}Backward", node.name()), &to, Box::new(both));
    let g = g.shallow();
    link(&g, e.node, e.nr);
    g
}

/// Metas that gradients of this node's inputs are summed and cast back to.
fn fixes(node: &Node) -> Option<&[Option<Meta>]> {
    match &node.kind {
        Kind::Op(o) if matches!(o.op.grad, Grad::Rule { fix: Fix::Broadcast, .. }) => Some(&o.in_metas),
        _ => None,
    }
}

/// Whether a gradient of the first sizes is one of a tensor of the second that was broadcast.
pub fn sums_to(sizes: &[i64], to: &[i64]) -> bool {
    sizes.len() >= to.len() && sizes.iter().rev().zip(to.iter().rev()).all(|(n, m)| n == m || *m == 1)
}

/// Undoes broadcasting and promotion.
pub fn fit(g: Tensor, meta: &Meta) -> Result<Tensor> {
    let mut g = g;
    if g.sizes() != meta.sizes.as_slice() {
        let lead = g.ndim().saturating_sub(meta.sizes.len());
        let dims: SmallVec<[i64; 6]> = (0..g.ndim())
            .filter(|&i| i < lead || (meta.sizes[i - lead] == 1 && g.sizes()[i] != 1))
            .map(|i| i as i64)
            .collect();
        if !dims.is_empty() {
            // Leading dimensions go at once: a view of the sum would not be the gradient's own memory.
            g = g.sum(dims.as_slice(), dims.len() != lead)?;
        }
        if g.sizes() != meta.sizes.as_slice() {
            g = g.reshape(&meta.sizes)?;
        }
    }
    if g.dtype() != meta.dtype {
        g = g.to_copy_with(Some(meta.dtype), None)?;
    }
    Ok(g)
}

/// The gradient that arrives at root `i`, checked against what the root is, where that is known.
fn given(i: usize, g: Tensor, root: &Root) -> Result<Tensor> {
    let Some(meta) = root.meta() else { return Ok(g) };
    if g.sizes() != meta.sizes.as_slice() {
        return Err(Error::runtime(format!(
            "Mismatch in shape: grad_output[{i}] has a shape of {:?} and output[{i}] has a shape of {:?}.",
            g.sizes(),
            meta.sizes.as_slice()
        )));
    }
    if g.dtype().is_complex() && !meta.dtype.is_complex() {
        return Err(Error::runtime(format!(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: grad_output[{i}] has a dtype of {} and output[{i}] has a dtype of {}: a real tensor has no complex gradient.",
            g.dtype(),
            meta.dtype
        )));
    }
    if g.dtype() == meta.dtype { Ok(g) } else { g.to_copy_with(Some(meta.dtype), None) }
}

/// The gradient of a root that none is given for: one.
fn implicit(root: &Root) -> Result<Tensor> {
    let Some(meta) = root.meta() else {
        return Err(Error::runtime(
            "a gradient must be given for a GradientEdge of a node that does not know its outputs",
        ));
    };
    if meta.numel() != 1 {
        return Err(Error::runtime("grad can be implicitly created only for scalar outputs"));
    }
    if meta.dtype.is_complex() && !oneflow_conventions() {
        return Err(Error::runtime(format!(
            "grad can be implicitly created only for real scalar outputs but got {} (Under OneFlow's conventions it is allowed: oneflow.conventions(\"oneflow\").)",
            meta.dtype
        )));
    }
    match root {
        Root::Tensor(t) => ones_like(t),
        Root::Edge(e) => match e.node.leaf() {
            Some(leaf) => ones_like(leaf),
            None => f::ones_with(&meta.sizes, Some(meta.dtype), Some(meta.device), false),
        },
    }
}

/// The sum of two gradients; into the first where nobody else can see it.
fn add(have: Tensor, g: Tensor, create: bool) -> Result<Tensor> {
    let alone = have.use_count() == 1
        && have.storage().is_some_and(|s| s.use_count() == 1)
        && (have.dtype() == g.dtype() || have.dtype() == DType::F32 && matches!(g.dtype(), DType::BF16 | DType::F16))
        && have.is_contiguous();
    if is_sparse(&have) && !create {
        return g.add(&have);
    }
    if create || !alone {
        return sum(&have, &g);
    }
    have.add_(&g)?;
    Ok(have)
}

fn is_sparse(t: &Tensor) -> bool {
    t.has_key(bit::SPARSE)
}

/// The sum of two gradients. A sparse one is added to a dense one, never the other way round.
fn sum(have: &Tensor, g: &Tensor) -> Result<Tensor> {
    if is_sparse(have) && !is_sparse(g) { g.add(have) } else { have.add(g) }
}

/// `seen`: how many others hold the gradient who may see it change, as hooks of the accumulator do.
fn accumulate(leaf: &Tensor, g: Tensor, create: bool, seen: usize) -> Result<()> {
    let g = match ACCUMULATE_RULE.get() {
        Some(rule) => rule(leaf, g)?,
        None => g,
    };
    if !create && let Some(old) = grad(leaf) {
        check_inference_write(&old)?;
    }
    let old = leaf.with_slot(|s| state_mut(s).grad.take());
    let new = match old {
        None => {
            let own = g.use_count() == 1 + seen
                && match (g.storage(), g.ext_arc()) {
                    (Some(s), _) => s.use_count() == 1,
                    // The gradient's own count, the one taken here, and the trace's of a traced gradient.
                    (None, Some(e)) => Arc::strong_count(&e) == 2 + usize::from(g.has_key(bit::LAZY)),
                    (None, None) => true,
                };
            let new = match create || (own && follows(&g, leaf)) {
                // Another object over the same memory: the gradient of a leaf has hooks and a history of its own.
                true if seen > 0 && !create => g.shallow(),
                true => g,
                false => copy_like(&g, leaf)?,
            };
            mark_inference(&new);
            new
        }
        Some(old) if create || is_sparse(&old) && !is_sparse(&g) => sum(&old, &g)?,
        Some(old) => {
            old.add_(&g)?;
            old
        }
    };
    leaf.with_slot(|s| state_mut(s).grad = Some(new));
    for hook in leaf_post(leaf) {
        hook(leaf)?;
    }
    Ok(())
}

/// In inference mode a gradient that shares no memory with anything is a tensor of that mode, as others that are made there.
fn mark_inference(g: &Tensor) {
    if is_inference_mode_enabled() && g.use_count() == 1 && g.storage().is_some_and(|s| s.use_count() == 1) {
        g.set_inference();
    }
}

/// Whether a gradient has the layout that a leaf's should have: the leaf's own where that is dense, else row-major. Strides of
/// dimensions of size one do not count.
fn follows(g: &Tensor, leaf: &Tensor) -> bool {
    if !is_dense(leaf) {
        return g.is_contiguous();
    }
    let strides = g.strides().iter().zip(leaf.strides());
    g.sizes().iter().zip(strides).all(|(n, (a, b))| if *n == 1 { *a != 0 } else { a == b })
}

/// A copy of a gradient in the layout that the leaf's should have.
fn copy_like(g: &Tensor, leaf: &Tensor) -> Result<Tensor> {
    let plain = g.keys() & (1 << bit::GLOBAL | 1 << bit::LAZY | 1 << bit::META) == 0 && g.storage().is_some();
    if !plain || g.sizes() != leaf.sizes() {
        return g.clone_contiguous();
    }
    let strides = match (follows(g, leaf), is_dense(leaf)) {
        (true, _) => g.strides().into(),
        (false, true) => leaf.strides().into(),
        (false, false) => contiguous_strides(g.sizes()),
    };
    let t = Tensor::shell(g.dtype(), g.device(), g.sizes().into(), strides)?;
    t.materialize()?;
    copy_into(&t, g)?;
    Ok(t)
}

fn ones_like(t: &Tensor) -> Result<Tensor> {
    t.shallow().ones_like()
}
