//! Runs the plans of every rank of a described cluster without their kernels: a discrete-event simulation.
//!
//! The plans are those that would run, and the protocol is the runtime's own (`Progress`): an actor runs when its registers
//! are full and its credits are there. What takes time is priced: an instruction by its op's cost on the described device, a
//! message by the one alpha-beta model, over links that flows share. Knows no op and no layout, compiles nothing, runs no
//! kernel and holds no tensor.

mod cluster;
mod engine;
mod flows;
mod memory;
mod outcome;
mod program;
mod ranks;

pub use cluster::{Cluster, Link};
pub use engine::{Job, Scenario, simulate};
pub use memory::{Memory, Offloaded};
pub use outcome::{Outcome, Rank, Span, SpanKind, Stuck};
pub use program::{Catalog, Collective, Groups, Item, Move, Program};
