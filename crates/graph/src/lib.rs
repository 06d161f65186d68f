//! The compiler: traces a step, rewrites the graph, plans its memory and makes a plan of it.
//!
//! Compiles; never runs anything. What it makes is run by `oneflow-runtime`.

mod ir;
mod layer;
mod lowering;
mod passes;
mod print;
mod split;
mod trace;

pub use ir::{Graph, Kind, Node, Value, ValueId};
pub use lowering::{MemoryReport, lower};
pub use passes::{PASSES, Pass, run_all};
pub use split::Parts;
pub use trace::{Cut, StackFn, Traced, Tracer, is_lazy, is_tracing};

use oneflow_base::Result;
use oneflow_runtime::Session;

/// What the passes may do.
#[derive(Clone, Debug)]
pub struct Config {
    /// Fuse elementwise chains and activations.
    pub fuse: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config { fuse: true }
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

/// Passes, lowering, memory.
pub fn compile(traced: Traced, config: &Config) -> Result<Compiled> {
    let logical = traced.graph;
    let mut optimized = logical.clone();
    run_all(&mut optimized, config)?;
    let (plan, memory) = lower(&optimized)?;
    Ok(Compiled { session: Session::new(plan, traced.storages)?, logical, optimized, memory })
}
