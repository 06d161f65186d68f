//! The compiler: traces a step, rewrites the graph, plans its memory and makes a plan of it.
//!
//! Compiles. Of a step it runs nothing but what is constant, once (`passes/fold.rs`); what it makes is run by
//! `oneflow-runtime`.

mod dynamic;
mod flops;
mod ir;
mod known;
mod layer;
mod layouts;
mod lowering;
mod passes;
mod print;
mod repeats;
mod solve;
mod split;
mod streams;
mod trace;
mod units;

pub use dynamic::{
    Check, Decision, Number64, Points, Solver, compile_at_sizes, compile_parts_at_sizes, guards_of, guards_of_traces,
    unfollowed,
};
pub use flops::model_flops;
pub use ir::{Derived, Folds, Graph, Kind, Node, Section, Value, ValueId, Variable};
pub use known::known;
pub use layouts::{Elsewhere, Estimate, Laid, Mesh, Move, Zero, estimate, offers, unfolded};
pub use lowering::{MemoryReport, lower};
pub use oneflow_runtime::memory::Effort;
pub use passes::order::Straighten;
pub use passes::pipeline::{Half, Turn};
pub use passes::{PASSES, Pass, Stage};
pub use repeats::fold;
pub use solve::{Group, Pipeline, Shape, Solution, StageCut, cut_stages, price_stages, solve};
pub use split::Parts;
pub use trace::{Cut, StackFn, Traced, Tracer, is_lazy, is_tracing, run_again, trace_calls};
pub use units::{Flow, Unit, Units, units};

use oneflow_base::{Error, Meta, Result};
use oneflow_core::{Storage, Tensor};
use oneflow_runtime::Session;
use std::collections::HashMap;

/// What the passes may do.
#[derive(Clone, Debug)]
pub struct Config {
    /// Fuse elementwise chains and activations.
    pub fuse: bool,
    /// Put the fused op in place of attention written by hand.
    pub fuse_attention: bool,
    /// Take what is done to gradients last into the update of their parameters.
    pub fuse_update: bool,
    /// Add what is added to a product in the product's epilogue.
    pub fuse_add: bool,
    /// Take casts between floats into elementwise chains.
    pub fuse_cast: bool,
    /// Update all parameters of a group in one launch, not each in its own.
    pub multi_tensor_update: bool,
    /// Keep parameters that a step reads in a half type in that type too.
    pub update_cast: bool,
    /// Compute what depends on parameters alone when they change, not in every run: batch norms become part of the
    /// convolutions before them, and convolutions run channels last.
    pub precompute: bool,
    /// Runs whose results may wait to be read while the next one starts.
    pub outputs: u32,
    pub straighten: Straighten,
    pub memory: Effort,
    /// Streams beside the compute stream for collectives; with none they run in line with it.
    pub streams: u32,
    /// Seconds of estimated work that a collective must be able to hide behind to leave the compute stream.
    pub least_hidden: f64,
    /// Bytes, and tensors, that collectives of one kind take together at most; with no bytes each goes alone.
    pub bucket_bytes: u64,
    pub bucket_ops: u32,
    /// Pipeline stages behind this rank's: micro-batches it may be ahead of the backward that it waits for.
    pub stages_after: usize,
    /// This rank's row of a pipeline table; without one, one forward for one backward.
    pub turns: Vec<Turn>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            fuse: true,
            fuse_attention: true,
            fuse_update: true,
            fuse_add: true,
            fuse_cast: true,
            multi_tensor_update: true,
            update_cast: false,
            precompute: true,
            outputs: 2,
            straighten: Straighten::default(),
            memory: Effort::default(),
            streams: 4,
            least_hidden: 20e-6,
            bucket_bytes: 16 << 20,
            bucket_ops: 64,
            stages_after: 0,
            turns: Vec::new(),
        }
    }
}

/// Puts the lazy layer into the stack.
pub fn register() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(layer::register);
}

/// A compiled step.
pub struct Compiled {
    pub session: Session,
    /// As it was traced, and as it runs.
    pub logical: Graph,
    pub optimized: Graph,
    pub memory: MemoryReport,
    derived: Vec<Current>,
}

/// A variable that is computed from others, and what it was computed from.
struct Current {
    made: Derived,
    to: Tensor,
    /// The variables, and which of their writes (`Storage::writes`) had been made when they were read; none at first.
    from: Vec<(Tensor, Option<u64>)>,
    /// Runs compute it too, when they write what it is computed from.
    by_runs: bool,
}

impl Current {
    fn of(g: &Graph, made: &Derived) -> Result<Current> {
        let from = made.from.iter().map(|v| Ok((tensor_of(g, *v)?, None))).collect::<Result<_>>()?;
        let by_runs = g.writes.iter().any(|w| w.target == made.value);
        Ok(Current { to: laid_out(g, made.value, g.meta(made.made))?, made: made.clone(), from, by_runs })
    }

    /// Whether it holds what its variables give now.
    fn holds(&self) -> bool {
        self.from.iter().all(|(t, read)| {
            let Some(s) = t.storage() else { return true };
            *read == Some(s.writes()) && (self.by_runs || !s.is_written_elsewhere())
        })
    }

    fn compute(&mut self, g: &Graph) -> Result<()> {
        self.note_writes();
        let mut known: HashMap<ValueId, Tensor> = HashMap::new();
        known.extend(self.made.from.iter().copied().zip(self.from.iter().map(|(t, _)| t.clone())));
        for n in &self.made.nodes {
            if let Some(made) = passes::fold::evaluate(g, n, &known)? {
                known.extend(n.outs.iter().copied().zip(made));
            }
        }
        let made = known.get(&self.made.made);
        let made = made.ok_or_else(|| Error::runtime("graph: a derived variable that nothing makes"))?;
        oneflow_core::copy_into(&self.to, made)
    }

    fn note_writes(&mut self) {
        for (t, at) in &mut self.from {
            *at = t.storage().map(Storage::writes);
        }
    }
}

impl Compiled {
    /// Runs the step once; while it waits it calls `poll`, whose error ends the run.
    pub fn run(&mut self, inputs: &[Tensor], poll: &mut dyn FnMut() -> Result<()>) -> Result<Vec<Tensor>> {
        self.refresh()?;
        let results = self.session.run_polled(inputs, poll)?;
        self.note_writes();
        Ok(results)
    }

    /// As `run`, of a plan for many sizes at these sizes of its named dimensions.
    pub fn run_at(
        &mut self,
        sizes: &[i64],
        inputs: &[Tensor],
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Tensor>> {
        self.refresh()?;
        let results = self.session.run_at(sizes, inputs, poll)?;
        self.note_writes();
        Ok(results)
    }

    /// As `run`, in another session that shares this one's memory (`Session::sharing`).
    pub fn run_in(
        &mut self,
        s: &mut Session,
        inputs: &[Tensor],
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Tensor>> {
        self.refresh()?;
        let results = s.run_polled(inputs, poll)?;
        self.note_writes();
        Ok(results)
    }

    fn note_writes(&mut self) {
        self.derived.iter_mut().filter(|d| d.by_runs).for_each(Current::note_writes);
    }

    /// Computes those derived variables anew whose sources somebody has written since.
    pub fn refresh(&mut self) -> Result<()> {
        self.derived.iter_mut().filter(|d| !d.holds()).try_for_each(|d| d.compute(&self.optimized))
    }
}

/// A variable as a tensor.
fn tensor_of(g: &Graph, v: ValueId) -> Result<Tensor> {
    laid_out(g, v, g.meta(v))
}

/// The memory of a variable in a layout.
fn laid_out(g: &Graph, v: ValueId, m: &Meta) -> Result<Tensor> {
    let variable = g.variables.of(v);
    let variable = variable.ok_or_else(|| Error::runtime("graph: a derived value that is no variable"))?;
    Tensor::from_storage(variable.storage.clone(), m.dtype, m.sizes.clone(), m.strides.clone(), 0)
}

/// Passes, order, lowering, memory.
pub fn compile(traced: Traced, config: &Config) -> Result<Compiled> {
    let Traced { graph: logical, .. } = traced;
    let mut optimized = logical.clone();
    passes::run(&mut optimized, config, Stage::Rewrite)?;
    let mut other = optimized.clone();
    passes::run(&mut optimized, config, Stage::Overlap)?;
    let (mut plan, mut memory) = lower(&optimized, config)?;
    if passes::run(&mut other, config, Stage::Order)? {
        passes::run(&mut other, config, Stage::Overlap)?;
        let (p, m) = lower(&other, config)?;
        // Ordering for memory is a guess; the program's own order may be the better one.
        if config.straighten != Straighten::MemoryFirst || m.peak < memory.peak {
            (optimized, plan, memory) = (other, p, m);
        }
    }
    let derived = optimized.derived.iter().map(|d| Current::of(&optimized, d)).collect::<Result<_>>()?;
    let storages = optimized.variables.iter().map(|v| v.storage.clone()).collect();
    Ok(Compiled { session: Session::new(plan, storages)?, logical, optimized, memory, derived })
}
