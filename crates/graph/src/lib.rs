//! The compiler: traces a step, rewrites the graph, plans its memory and makes a plan of it.
//!
//! Compiles. Of a step it runs nothing but what is constant, once (`passes/fold.rs`); what it makes is run by
//! `oneflow-runtime`.

mod ir;
mod layer;
mod lowering;
mod passes;
mod print;
mod split;
mod trace;

pub use ir::{Graph, Kind, Node, Value, ValueId};
pub use lowering::{MemoryReport, lower};
pub use oneflow_runtime::memory::Effort;
pub use passes::straighten::Straighten;
pub use passes::{PASSES, Pass, run_all};
pub use split::Parts;
pub use trace::{Cut, StackFn, Traced, Tracer, is_lazy, is_tracing, run_again, trace_calls};

use oneflow_base::{Error, Result};
use oneflow_core::{Storage, Tensor};
use oneflow_runtime::Session;

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
    /// Runs whose results may wait to be read while the next one starts.
    pub outputs: u32,
    pub straighten: Straighten,
    pub memory: Effort,
    /// Pipeline stages behind this rank's: micro-batches it may be ahead of the backward that it waits for.
    pub stages_after: usize,
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
            outputs: 2,
            straighten: Straighten::default(),
            memory: Effort::default(),
            stages_after: 0,
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
    /// Variables, copies of them in another dtype, and the version each was copied at.
    copies: Vec<(Tensor, Tensor, Option<u32>)>,
}

impl Compiled {
    /// Runs the step once; while it waits it calls `poll`, whose error ends the run.
    pub fn run(&mut self, inputs: &[Tensor], poll: &mut dyn FnMut() -> Result<()>) -> Result<Vec<Tensor>> {
        self.refresh()?;
        let results = self.session.run_polled(inputs, poll)?;
        self.note_versions();
        Ok(results)
    }

    /// As `run`, in a session beside this one's (`Session::beside`).
    pub fn run_beside(&mut self, s: &mut Session, poll: &mut dyn FnMut() -> Result<()>) -> Result<Vec<Tensor>> {
        self.refresh()?;
        let results = s.run_polled(&[], poll)?;
        self.note_versions();
        Ok(results)
    }

    fn note_versions(&mut self) {
        for (from, _, at) in &mut self.copies {
            *at = from.storage().map(Storage::version);
        }
    }

    /// Makes those copies of variables anew that somebody has written since.
    pub fn refresh(&mut self) -> Result<()> {
        for (from, to, at) in &mut self.copies {
            let now = from.storage().map(Storage::version);
            if *at != now {
                oneflow_core::copy_into(to, from)?;
                *at = now;
            }
        }
        Ok(())
    }
}

/// A variable as a tensor.
fn tensor_of(g: &Graph, v: ValueId) -> Result<Tensor> {
    let variable = g.variables.iter().find(|x| x.value == v);
    let variable = variable.ok_or_else(|| Error::runtime("graph: a copy of what is no variable"))?;
    let m = g.meta(v);
    Tensor::from_storage(variable.storage.clone(), m.dtype, m.sizes.clone(), m.strides.clone(), 0)
}

/// Passes, order, lowering, memory.
pub fn compile(traced: Traced, config: &Config) -> Result<Compiled> {
    let Traced { graph: logical, .. } = traced;
    let mut optimized = logical.clone();
    run_all(&mut optimized, config)?;
    let (mut plan, mut memory) = lower(&optimized, config)?;
    // The order of a pipeline keeps other ranks from waiting, whatever it costs here.
    if config.straighten != Straighten::Disable && !optimized.is_pipelined() {
        let mut other = optimized.clone();
        passes::straighten::order(&mut other, config.straighten);
        let (p, m) = lower(&other, config)?;
        // Ordering for memory is a guess; the program's own order may be the better one.
        if config.straighten != Straighten::MemoryFirst || m.peak < memory.peak {
            (optimized, plan, memory) = (other, p, m);
        }
    }
    let copies = optimized
        .copies
        .iter()
        .map(|(from, to)| Ok((tensor_of(&optimized, *from)?, tensor_of(&optimized, *to)?, None)))
        .collect::<Result<_>>()?;
    let storages = optimized.variables.iter().map(|v| v.storage.clone()).collect();
    Ok(Compiled { session: Session::new(plan, storages)?, logical, optimized, memory, copies })
}
