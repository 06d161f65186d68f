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
pub use trace::{Cut, StackFn, Traced, Tracer, is_lazy, is_tracing, run_again};

use oneflow_base::Result;
use oneflow_runtime::Session;

/// What the passes may do.
#[derive(Clone, Debug)]
pub struct Config {
    /// Fuse elementwise chains and activations.
    pub fuse: bool,
    pub straighten: Straighten,
    pub memory: Effort,
}

impl Default for Config {
    fn default() -> Self {
        Config { fuse: true, straighten: Straighten::default(), memory: Effort::default() }
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
}

/// Passes, order, lowering, memory.
pub fn compile(traced: Traced, config: &Config) -> Result<Compiled> {
    let Traced { graph: logical, .. } = traced;
    let mut optimized = logical.clone();
    run_all(&mut optimized, config)?;
    let (mut plan, mut memory) = lower(&optimized, config.memory)?;
    if config.straighten != Straighten::Disable {
        let mut other = optimized.clone();
        passes::straighten::order(&mut other, config.straighten);
        let (p, m) = lower(&other, config.memory)?;
        // Ordering for memory is a guess; the program's own order may be the better one.
        if config.straighten != Straighten::MemoryFirst || m.peak < memory.peak {
            (optimized, plan, memory) = (other, p, m);
        }
    }
    let storages = optimized.variables.iter().map(|v| v.storage.clone()).collect();
    Ok(Compiled { session: Session::new(plan, storages)?, logical, optimized, memory })
}
