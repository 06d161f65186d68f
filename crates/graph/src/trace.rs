//! One trace: the values of a thread's program while `build` runs.
//!
//! Tensors of a trace carry an alias group and a layout. A group represents memory: it has a present value, which a write
//! replaces. Reading a view after a write derives it again from the present value, so the graph has no mutation
//! and no two names for one place.

use crate::ir::{Graph, Kind, Node, Section, Value, ValueId, Variable, Write};
use oneflow_base::{Arg, Attrs, Dims, Error, Meta, Result, contiguous_strides};
use oneflow_core::kernels::mt19937;
use oneflow_core::{
    Call, Ext, Kernel, OpDef, Rows, Storage, Tensor, Traits, bit, default_generator, ops, tls, with_tls,
};
use oneflow_global::pinned::{self, call_key, end_key};
use oneflow_ops::creation;
use oneflow_ops::view::as_strided;
use smallvec::{SmallVec, smallvec};
use std::any::Any;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The trace's data on a tensor; shared by all tensors of one alias group.
pub(crate) struct Group {
    trace: u64,
    index: u32,
    version: AtomicU32,
}

impl Ext for Group {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn version(&self) -> u32 {
        self.version.load(Ordering::Relaxed)
    }
    fn bump_version(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }
}

/// An alias group's present state.
struct State {
    ext: Arc<Group>,
    /// The value of the whole memory.
    base: ValueId,
    /// Views of the present base that are known already.
    views: Vec<ValueId>,
    /// The value a variable or an input had when the run started.
    external: Option<ValueId>,
}

pub(crate) struct Trace {
    /// Alive as long as the tracer is.
    owner: Weak<()>,
    id: u64,
    pub graph: Graph,
    groups: Vec<State>,
    /// Variables by the address of their storage.
    known: HashMap<usize, Vec<(Storage, u32)>>,
    /// Tensors met with the gradients they had: those that belong to the trace are taken off them at the end.
    met: HashMap<usize, (Tensor, Option<Tensor>)>,
    names: HashMap<usize, String>,
    /// Storages whose variables programs copy before they read them.
    fetched: HashSet<usize>,
    seed: u64,
    /// Positions of the generator that went to calls which were not traced, and where tracing paused for them.
    drawn: u64,
    paused_at: Option<u64>,
    /// The start of a backward part.
    cut: Option<Cut>,
    /// The part that is being run again, if any, and how many there have been.
    again: u32,
    n_again: u32,
    /// Gives the user's source line; and the line of the call under way.
    stack: Option<StackFn>,
    here: Option<Arc<str>>,
    /// Tensors from outside that have no name (parameters and buffers have) keep their values for ever.
    captures_are_constant: bool,
    /// Ops whose calls are traced as their compositions.
    expanded: HashSet<String>,
    expanding: Vec<&'static str>,
    /// Of calls that global tensors choose layouts for, how many there were of a key; none is counted without `expand_as_global`.
    calls: Option<HashMap<String, usize>>,
    /// Behind the last micro-batch.
    is_end: bool,
    /// Not zero inside such a call.
    pub inside_calls: u32,
}

/// The user's source location, as text.
pub type StackFn = Rc<dyn Fn() -> Result<Option<String>>>;

thread_local! {
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Runs `f` on this thread's trace.
pub(crate) fn with_trace<R>(f: impl FnOnce(&mut Trace) -> Result<R>) -> Result<R> {
    TRACE.with_borrow_mut(|t| match t {
        Some(t) => f(t),
        None => Err(Error::runtime(
            "a tensor of an nn.Graph's build is used after build has ended: return it from build instead",
        )),
    })
}

/// Reads this thread's trace: its graph, and whether a variable is a constant of the program.
pub(crate) fn look_at<R>(f: impl FnOnce(&Graph, &dyn Fn(&Variable) -> bool) -> Result<Option<R>>) -> Result<Option<R>> {
    TRACE.with_borrow(|t| match t {
        Some(t) => f(&t.graph, &|v| t.captures_are_constant && !t.names.contains_key(&(v.storage.ptr() as usize))),
        None => Ok(None),
    })
}

/// Records the user's line for the next nodes. The front end is called while the trace is not borrowed: it may run
/// anything.
pub(crate) fn note_line() -> Result<()> {
    let ask = with_trace(|t| Ok(t.stack.clone()))?;
    if let Some(ask) = ask {
        let here = ask()?.map(Arc::from);
        with_trace(|t| {
            t.here = here;
            Ok(())
        })?;
    }
    Ok(())
}

/// Returns true if this thread is tracing.
pub fn is_tracing() -> bool {
    TRACE.with_borrow(Option::is_some)
}

/// The cut between forward and backward: positions in the trace's lists.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub nodes: usize,
    pub inputs: usize,
    pub writes: usize,
    pub rng: u64,
}

/// Says that what follows computes part of a forward again (`true`), or that this has ended. Does nothing without a trace.
pub fn run_again(on: bool) {
    TRACE.with_borrow_mut(|t| {
        if let Some(t) = t {
            t.n_again += on as u32;
            t.again = if on { t.n_again } else { 0 };
        }
    });
}

/// Lets this thread's calls on tensors with values run at once although it is tracing (`false`), or traces them again.
/// Random numbers that they draw are not part of the program and come before its own. Returns the former value.
pub fn trace_calls(on: bool) -> bool {
    let was = tls().on >> bit::LAZY & 1 == 1;
    TRACE.with_borrow_mut(|t| {
        let Some(t) = t.as_mut().filter(|_| was != on) else { return };
        let g = default_generator();
        if on {
            if let Some(at) = t.paused_at.take() {
                t.drawn = g.offset().saturating_sub(at);
                g.set_state(t.seed, at);
            }
        } else {
            t.paused_at = Some(g.offset());
            g.set_state(t.seed, g.offset() + t.drawn);
        }
        set_lazy(on);
    });
    was
}

/// A finished trace: the graph, whose variables hold the memory it is about.
#[derive(Clone)]
pub struct Traced {
    pub graph: Graph,
    pub cut: Option<Cut>,
}

/// A trace under way; dropping it aborts it. It can be used on its own thread only, but dropped on any.
pub struct Tracer {
    owner: Arc<()>,
}

fn set_lazy(on: bool) {
    let mut t = tls();
    if on {
        t.on |= 1 << bit::LAZY;
    } else {
        t.on &= !(1 << bit::LAZY);
    }
    // The switch outlives this function: `finish` or the drop turns it back.
    std::mem::forget(with_tls(t));
}

impl Tracer {
    /// Starts tracing on this thread.
    pub fn begin(name: &str, stack: Option<StackFn>) -> Result<Tracer> {
        crate::register();
        if TRACE.with_borrow(|t| t.as_ref().is_some_and(|t| t.owner.strong_count() == 0)) {
            // Its tracer was dropped by another thread.
            stop();
        }
        if is_tracing() {
            return Err(Error::runtime("an nn.Graph is built inside the build of another one"));
        }
        let g = default_generator();
        let owner = Arc::new(());
        let trace = Trace {
            owner: Arc::downgrade(&owner),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            graph: Graph { name: name.to_owned(), rng_start: g.offset(), ..Graph::default() },
            groups: Vec::new(),
            known: HashMap::new(),
            met: HashMap::new(),
            names: HashMap::new(),
            fetched: HashSet::new(),
            seed: g.seed(),
            drawn: 0,
            paused_at: None,
            cut: None,
            again: 0,
            n_again: 0,
            stack,
            here: None,
            captures_are_constant: false,
            expanded: HashSet::new(),
            expanding: Vec::new(),
            calls: None,
            is_end: false,
            inside_calls: 0,
        };
        TRACE.set(Some(trace));
        set_lazy(true);
        Ok(Tracer { owner })
    }

    /// Runs `f` on the trace, if this is its thread.
    fn with<R>(&self, f: impl FnOnce(&mut Trace) -> Result<R>) -> Result<R> {
        with_trace(|t| match self.owns(t) {
            true => f(t),
            false => Err(Error::runtime("an nn.Graph's build goes on in another thread")),
        })
    }

    fn owns(&self, t: &Trace) -> bool {
        std::ptr::eq(t.owner.as_ptr(), Arc::as_ptr(&self.owner))
    }

    /// A placeholder for an input of this meta. Runs take contiguous inputs.
    pub fn input(&self, like: &Tensor) -> Result<Tensor> {
        let shell = Tensor::shell(
            like.dtype(),
            like.device(),
            Dims::from_slice(like.sizes()),
            contiguous_strides(like.sizes()),
        )?;
        self.with(|t| {
            let v = t.add_value(shell.meta(), 0, None);
            t.graph.inputs.push(v);
            let group = t.add_group(v, Some(v));
            t.hang(&shell, group);
            Ok(())
        })?;
        Ok(shell)
    }

    /// The name under which this tensor's memory appears in the graph.
    pub fn name(&self, t: &Tensor, name: &str) -> Result<()> {
        self.with(|trace| {
            if let Some(s) = t.storage() {
                trace.names.insert(s.ptr() as usize, name.to_owned());
            }
            Ok(())
        })
    }

    /// Says that clones of a tensor from outside bring it from the host: each is a copy of its own, made in its turn.
    pub fn fetch(&self, t: &Tensor) -> Result<()> {
        self.with(|trace| {
            trace.fetched.extend(t.storage().map(|s| s.ptr() as usize));
            Ok(())
        })
    }

    /// Tensors from outside that the trace has used so far and that require a gradient.
    pub fn captured(&self) -> Result<Vec<Tensor>> {
        self.with(|t| {
            let mut met: Vec<&Tensor> =
                t.met.values().map(|(t, _)| t).filter(|t| oneflow_autograd::requires_grad(t)).collect();
            met.sort_by_key(|t| t.id());
            Ok(met.into_iter().cloned().collect())
        })
    }

    /// Says that the program is a copy for another place: tensors from outside, other than those with names, are constants
    /// of it, and what follows from them may be read.
    pub fn capture_constants(&self) -> Result<()> {
        self.with(|t| {
            t.captures_are_constant = true;
            Ok(())
        })
    }

    /// From now on calls of these ops ("layer_norm", "max.dim") are traced as their compositions, where they have one.
    pub fn expand(&self, names: Vec<String>) -> Result<()> {
        self.with(|t| {
            t.expanded.extend(names);
            Ok(())
        })
    }

    /// From now on calls are traced as global tensors run them: as compositions where an op has no layouts of its own.
    pub fn expand_as_global(&self) -> Result<()> {
        self.with(|t| {
            t.calls = Some(HashMap::new());
            Ok(())
        })?;
        let placed = ops().into_iter().filter(|op| matches!(op.sbp.rows, Rows::Compose));
        self.expand(placed.map(|op| op.name().to_owned()).collect())
    }

    /// Says that a micro-batch begins here, or that the last one has ended (`is_end`). Calls are counted from here.
    pub fn micro_batch(&self, is_end: bool) -> Result<()> {
        pinned::micro_batch(is_end);
        self.with(|t| {
            t.graph.micro_batches.push(t.graph.nodes.len());
            t.calls.iter_mut().for_each(HashMap::clear);
            t.is_end = is_end;
            Ok(())
        })
    }

    /// What follows is the forward or the backward of a pipeline stage.
    pub fn section(&self, stage: u32, backward: bool) -> Result<()> {
        self.with(|t| {
            let (at, micro_batch) = (t.graph.nodes.len(), t.graph.micro_batches.len().saturating_sub(1));
            t.graph.sections.push(Section { at, micro_batch, stage, backward });
            Ok(())
        })
    }

    /// Returns true if a tensor uses the memory of an input or of a tensor from outside.
    pub fn is_external(&self, t: &Tensor) -> Result<bool> {
        self.with(|trace| {
            let v = trace.resolve(t)?;
            Ok(trace.graph.is_external(trace.graph.root(v)))
        })
    }

    /// Returns true if the trace has read or written a tensor from outside: this one, not another of the same memory.
    pub fn has_met(&self, t: &Tensor) -> Result<bool> {
        self.with(|trace| Ok(trace.met.contains_key(&t.id())))
    }

    /// The nodes so far are the forward part, the next ones the backward part: `Traced::split` separates them into two graphs.
    /// The forward part ends with its write-backs; after it nothing from outside may be written.
    pub fn cut(&self) -> Result<()> {
        self.with(|t| {
            t.write_back()?;
            t.groups.iter_mut().for_each(|g| g.external = None);
            let rng = default_generator().offset();
            let (nodes, inputs, writes) = (t.graph.nodes.len(), t.graph.inputs.len(), t.graph.writes.len());
            t.cut = Some(Cut { nodes, inputs, writes, rng });
            Ok(())
        })
    }

    /// Ends the trace: results, write-backs, and the generator and gradients as they were.
    pub fn finish(self, outputs: &[Tensor]) -> Result<Traced> {
        self.with(|t| {
            for o in outputs {
                let v = t.resolve(o)?;
                t.graph.outputs.push(v);
            }
            t.write_back()
        })?;
        let Some(t) = stop() else { return Err(Error::runtime("the trace has ended already")) };
        t.take_off_gradients()?;
        Ok(Traced { graph: t.graph, cut: t.cut })
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let here = TRACE.with_borrow(|t| t.as_ref().is_some_and(|t| self.owns(t)));
        if let Some(t) = here.then(stop).flatten() {
            let _ = t.take_off_gradients();
        }
    }
}

/// Removes the trace from the thread and restores the generator's positions: a run uses them.
fn stop() -> Option<Trace> {
    let mut t = TRACE.take()?;
    set_lazy(false);
    let g = default_generator();
    if g.seed() == t.seed && g.offset() >= t.graph.rng_start {
        t.graph.n_rng = g.offset() - t.graph.rng_start;
        g.set_state(t.seed, t.graph.rng_start + t.drawn);
    }
    Some(t)
}

impl Trace {
    fn take_off_gradients(&self) -> Result<()> {
        for (t, before) in self.met.values() {
            if oneflow_autograd::grad(t).is_some_and(|g| g.has_key(bit::LAZY)) {
                oneflow_autograd::set_grad(t, before.clone())?;
            }
        }
        Ok(())
    }

    /// Returns true if a call of an op is traced as its composition, which begins here. A composition may call its own op, for
    /// other dtypes say: that call is a node.
    pub(crate) fn begin_expansion(&mut self, op: &'static OpDef) -> bool {
        let begins = !self.expanded.is_empty()
            && op.compose.is_some()
            && self.expanded.contains(op.name())
            && !self.expanding.contains(&op.name());
        if begins {
            self.expanding.push(op.name());
        }
        begins
    }

    pub(crate) fn end_expansion(&mut self) {
        self.expanding.pop();
    }

    /// Counts a call that global tensors choose layouts for; its key, and how many such calls came before.
    pub(crate) fn count_call(&mut self, c: &Call<'_>) -> Option<(String, usize)> {
        let chosen = !c.op.traits.has(Traits::MUTATES) && !matches!(c.op.kernel, Kernel::None | Kernel::Layer(_));
        // Copies are made where memory is shared, which is elsewhere for global tensors.
        let copies = std::ptr::eq(c.op, &creation::contiguous::COPY_OP);
        let counted = chosen && !copies && self.inside_calls == 0 && c.ins.iter().any(Option::is_some);
        let calls = self.calls.as_mut().filter(|_| counted)?;
        let key = call_key(c.op.name(), c.ins.iter().map(|t| t.map(|t| t.sizes().to_vec())));
        let key = if self.is_end { end_key(key) } else { key };
        let n = calls.entry(key.clone()).or_default();
        *n += 1;
        Some((key, *n - 1))
    }

    /// Says that the latest node is that of a counted call.
    pub(crate) fn note_call(&mut self, call: Option<(String, usize)>) {
        if let Some(call) = call {
            self.graph.calls.insert(self.graph.nodes.len() - 1, call);
        }
    }

    fn add_value(&mut self, meta: Meta, offset: i64, root: Option<ValueId>) -> ValueId {
        let id = self.graph.values.len() as ValueId;
        self.graph.values.push(Value { meta, offset, root: root.unwrap_or(id) });
        id
    }

    fn add_group(&mut self, base: ValueId, external: Option<ValueId>) -> u32 {
        let index = self.groups.len() as u32;
        let ext = Arc::new(Group { trace: self.id, index, version: AtomicU32::new(0) });
        self.groups.push(State { ext, base, views: Vec::new(), external });
        index
    }

    /// Makes a fresh shell a tensor of the trace.
    fn hang(&self, shell: &Tensor, group: u32) {
        // SAFETY: the shell was made for this and is not shared yet.
        unsafe { shell.set_ext(self.groups[group as usize].ext.clone(), bit::LAZY) };
    }

    fn add_node(&mut self, op: &'static OpDef, attrs: Attrs, ins: &[Option<ValueId>], outs: &[ValueId]) {
        let stack = self.here.clone();
        self.graph.nodes.push(Node {
            kind: Kind::Op { op, attrs },
            ins: SmallVec::from_slice(ins),
            outs: SmallVec::from_slice(outs),
            updates: SmallVec::new(),
            stack,
            again: self.again,
            reads_stored: false,
        });
    }

    /// A contiguous copy.
    fn add_copy(&mut self, from: ValueId, to: ValueId) {
        let op = &creation::contiguous::COPY_OP;
        let args: SmallVec<[Arg<'_>; 2]> = op.sig.params().iter().filter(|p| p.is_arg()).map(|_| Arg::None).collect();
        self.add_node(op, Attrs::new(&args), &[Some(from)], &[to]);
    }

    /// The alias group of a tensor; eager ones become variables.
    fn group_of(&mut self, t: &Tensor) -> Result<u32> {
        if let Some(g) = t.ext::<Group>() {
            return if g.trace == self.id {
                Ok(g.index)
            } else {
                Err(Error::runtime("a tensor of one nn.Graph's build is used in the build of another"))
            };
        }
        let Some(s) = t.storage() else {
            return Err(Error::not_implemented(format!(
                "nn.Graph: a tensor without data on {} is used in build",
                t.device()
            )));
        };
        self.met.entry(t.id()).or_insert_with(|| (t.clone(), oneflow_autograd::grad(t)));
        let key = s.ptr() as usize;
        if let Some(list) = self.known.get(&key)
            && let Some((_, g)) = list.iter().find(|(k, _)| k.same(s))
        {
            return Ok(*g);
        }
        // The value is the whole storage: as this tensor sees it where it covers all of it, flat otherwise.
        let item = t.dtype().size();
        let n = (s.bytes() / item) as i64;
        let whole = t.is_contiguous() && t.offset() == 0 && t.numel() == n;
        let meta = if whole { t.meta() } else { Meta::contiguous(t.dtype(), t.device(), &[n]) };
        let v = self.add_value(meta, 0, None);
        let name = self.names.get(&key).cloned().unwrap_or_else(|| format!("captured.{}", self.graph.variables.len()));
        if self.fetched.contains(&key) {
            self.graph.fetched.insert(v);
        }
        self.graph.variables.push(Variable { name, value: v, storage: s.clone(), constant: false });
        let group = self.add_group(v, Some(v));
        self.known.entry(key).or_default().push((s.clone(), group));
        Ok(group)
    }

    /// The present value of a tensor.
    pub fn resolve(&mut self, t: &Tensor) -> Result<ValueId> {
        let group = self.group_of(t)?;
        let state = &self.groups[group as usize];
        let is_it = |v: &ValueId| {
            let x = &self.graph.values[*v as usize];
            x.meta.dtype == t.dtype()
                && x.meta.sizes.as_slice() == t.sizes()
                && x.meta.strides.as_slice() == t.strides()
                && x.offset == t.offset()
        };
        if is_it(&state.base) {
            return Ok(state.base);
        }
        if let Some(v) = state.views.iter().find(|v| is_it(v)) {
            return Ok(*v);
        }
        let base = state.base;
        let have = self.graph.meta(base).dtype;
        if have != t.dtype() {
            let want = t.dtype();
            return Err(Error::not_implemented(format!("nn.Graph: one memory is used as {have} and as {want}")));
        }
        let v = self.add_value(t.meta(), t.offset(), Some(self.graph.root(base)));
        let attrs = Attrs::new(&[Arg::Ints(t.sizes()), Arg::Ints(t.strides()), Arg::Int(t.offset())]);
        self.add_node(&as_strided::OP, attrs, &[Some(base)], &[v]);
        self.groups[group as usize].views.push(v);
        Ok(v)
    }

    /// Records a call whose results are fresh; the shells become tensors of the trace.
    pub fn record(
        &mut self,
        op: &'static OpDef,
        args: &[Arg<'_>],
        ins: &[Option<&Tensor>],
        outs: &[Tensor],
    ) -> Result<()> {
        self.check_random(op, args)?;
        let views = ins.iter().flatten().any(|t| t.base().is_some());
        let ins: SmallVec<[Option<ValueId>; 4]> =
            ins.iter().map(|t| t.map(|t| self.resolve(t)).transpose()).collect::<Result<_>>()?;
        let mut ids: SmallVec<[ValueId; 2]> = SmallVec::new();
        for t in outs {
            let v = self.add_value(t.meta(), 0, None);
            let group = self.add_group(v, None);
            self.hang(t, group);
            ids.push(v);
        }
        let reads_stored = !views && ins.iter().flatten().all(|v| self.graph.is_external(self.graph.root(*v)));
        self.add_node(op, Attrs::new(args), &ins, &ids);
        self.graph.nodes.last_mut().iter_mut().for_each(|n| n.reads_stored = reads_stored);
        Ok(())
    }

    /// Records a view: the shells share the input's group.
    pub fn record_view(
        &mut self,
        op: &'static OpDef,
        args: &[Arg<'_>],
        base: &Tensor,
        ins: &[Option<&Tensor>],
        outs: &[Tensor],
    ) -> Result<()> {
        let group = self.group_of(base)?;
        let ins: SmallVec<[Option<ValueId>; 4]> =
            ins.iter().map(|t| t.map(|t| self.resolve(t)).transpose()).collect::<Result<_>>()?;
        let from = self.resolve(base)?;
        let root = self.graph.root(from);
        let bytes = self.graph.bytes(root);
        let mut ids: SmallVec<[ValueId; 2]> = SmallVec::new();
        for t in outs {
            let end: i64 =
                t.sizes().iter().zip(t.strides()).map(|(n, s)| (n - 1).max(0) * s).sum::<i64>() + t.offset() + 1;
            if t.numel() > 0 && end as u64 * t.dtype().size() as u64 > bytes {
                return Err(Error::runtime(format!(
                    "{}(): sizes {:?}, strides {:?} and offset {} are out of bounds for storage of size {bytes}",
                    op.name(),
                    t.sizes(),
                    t.strides(),
                    t.offset()
                )));
            }
            let v = self.add_value(t.meta(), t.offset(), Some(root));
            self.groups[group as usize].views.push(v);
            ids.push(v);
        }
        self.add_node(op, Attrs::new(args), &ins, &ids);
        for t in outs {
            self.hang(t, group);
        }
        Ok(())
    }

    /// Memory without values (`empty`): a node that runs nothing.
    pub fn record_empty(
        &mut self,
        op: &'static OpDef,
        args: &[Arg<'_>],
        ins: &[Option<&Tensor>],
        outs: &[Tensor],
    ) -> Result<()> {
        self.record(op, args, ins, outs)
    }

    fn check_random(&self, op: &OpDef, args: &[Arg<'_>]) -> Result<()> {
        for a in args {
            if let Arg::Rng { seed, offset } | Arg::RngAt { seed, offset, .. } = *a {
                if offset == mt19937::IN_ORDER {
                    return Err(mt19937::only_in_order(op.name(), "a graph or a compiled function"));
                }
                let own = self.graph.rng_start..default_generator().offset();
                if seed != self.seed || !own.contains(&offset) {
                    return Err(Error::not_implemented(format!(
                        "{}(): inside nn.Graph random ops use the default generator, which must not be seeded in build",
                        op.name()
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns true if a value of this layout may represent a group's whole memory in place of its base.
    fn covers(&self, group: u32, meta: &Meta, offset: i64) -> bool {
        let b = self.graph.meta(self.groups[group as usize].base);
        offset == 0
            && (b.sizes == meta.sizes && b.strides == meta.strides
                || b.is_contiguous() && meta.is_contiguous() && b.numel() == meta.numel())
    }

    /// Gives the memory under `dest` a new value, which has the sizes of `dest`.
    pub fn write(&mut self, dest: &Tensor, value: ValueId) -> Result<()> {
        let group = self.group_of(dest)?;
        let mut value = value;
        if self.graph.meta(value).dtype != dest.dtype() {
            let meta = Meta::contiguous(dest.dtype(), dest.device(), dest.sizes());
            let v = self.add_value(meta, 0, None);
            let attrs = Attrs::new(&[Arg::DType(dest.dtype()), Arg::None]);
            self.add_node(&creation::to_copy::OP, attrs, &[Some(value)], &[v]);
            value = v;
        }
        let dest_meta = dest.meta();
        let new = &self.graph.values[value as usize];
        // A value with the layout of the destination, which is all of the memory, simply takes its place.
        let direct = new.root == value
            && self.covers(group, &dest_meta, dest.offset())
            && (new.meta.strides == dest_meta.strides || new.meta.is_contiguous() && dest_meta.is_contiguous());
        let base = if direct { value } else { self.scatter(group, dest, value)? };
        let state = &mut self.groups[group as usize];
        state.base = base;
        state.views.clear();
        Ok(())
    }

    /// The base with the elements of one view replaced.
    fn scatter(&mut self, group: u32, dest: &Tensor, value: ValueId) -> Result<ValueId> {
        let mut base = self.groups[group as usize].base;
        let m = self.graph.meta(base).clone();
        if !m.is_contiguous() {
            // Offsets count storage elements, so the base is taken as the storage lies.
            let n = (self.graph.bytes(base) / m.dtype.size() as u64) as i64;
            let flat = Meta::contiguous(m.dtype, m.device, &[n]);
            let v = self.add_value(flat, 0, Some(self.graph.root(base)));
            let attrs = Attrs::new(&[Arg::Ints(&[n]), Arg::Ints(&[1]), Arg::Int(0)]);
            self.add_node(&as_strided::OP, attrs, &[Some(base)], &[v]);
            base = v;
        }
        let m = self.graph.meta(base).clone();
        let out = self.add_value(Meta::contiguous(m.dtype, m.device, &m.sizes), 0, None);
        let attrs = Attrs::new(&[Arg::Ints(dest.sizes()), Arg::Ints(dest.strides()), Arg::Int(dest.offset())]);
        self.add_node(&as_strided::SCATTER, attrs, &[Some(base), Some(value)], &[out]);
        Ok(out)
    }

    /// Records an op that writes the inputs `written`: each gets a new value in the old one's memory.
    pub fn record_update(
        &mut self,
        op: &'static OpDef,
        args: &[Arg<'_>],
        tensors: &[Option<&Tensor>],
        written: &[usize],
    ) -> Result<()> {
        self.check_random(op, args)?;
        let mut ins: SmallVec<[Option<ValueId>; 4]> =
            tensors.iter().map(|t| t.map(|t| self.resolve(t)).transpose()).collect::<Result<_>>()?;
        let mut outs: SmallVec<[ValueId; 2]> = smallvec![];
        let mut updates = SmallVec::new();
        for &i in written {
            let (Some(t), Some(v)) = (tensors[i], ins[i]) else { continue };
            let group = self.group_of(t)?;
            let x = self.graph.values[v as usize].clone();
            if !self.covers(group, &x.meta, x.offset) {
                // Part of a memory: the op works on a copy, whose result is scattered back below.
                let c = self.add_value(Meta::contiguous(x.meta.dtype, x.meta.device, &x.meta.sizes), 0, None);
                self.add_copy(v, c);
                ins[i] = Some(c);
            }
            let meta = self.graph.meta(ins[i].unwrap_or(v)).clone();
            let out = self.add_value(meta, 0, None);
            updates.push((i as u32, outs.len() as u32));
            outs.push(out);
        }
        self.add_node(op, Attrs::new(args), &ins, &outs);
        if let Some(n) = self.graph.nodes.last_mut() {
            n.updates = updates;
        }
        let mut next = outs.iter();
        for &i in written {
            if let (Some(t), Some(_)) = (tensors[i], ins[i])
                && let Some(v) = next.next()
            {
                self.write(t, *v)?;
                t.bump_version();
            }
        }
        Ok(())
    }

    /// One write for each variable and input that changed.
    fn write_back(&mut self) -> Result<()> {
        for i in 0..self.groups.len() {
            let (Some(target), base) = (self.groups[i].external, self.groups[i].base) else { continue };
            if base == target {
                continue;
            }
            let mut value = base;
            if self.graph.is_external(self.graph.root(base)) {
                // Another variable's value: copied now, before that one is written.
                let m = self.graph.meta(base);
                let meta = Meta::contiguous(m.dtype, m.device, &m.sizes);
                value = self.add_value(meta, 0, None);
                self.add_copy(base, value);
            }
            self.graph.writes.push(Write { target, value });
        }
        Ok(())
    }
}

/// The value of a tensor that `record` or another op of the trace returned.
pub(crate) fn value_of(t: &Tensor) -> Result<ValueId> {
    with_trace(|trace| trace.resolve(t))
}

/// Returns true if a tensor belongs to a trace.
pub fn is_lazy(t: &Tensor) -> bool {
    t.has_key(bit::LAZY)
}
