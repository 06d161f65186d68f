//! The runtime: plans, their memory and the actors that run them.
//!
//! Runs plans; never traces, never differentiates, never chooses. A plan comes from `oneflow-graph` or from a file. This is
//! also the one crate that a service in Rust depends on: [`Session::load`], [`Pool`], [`tensor`] and [`numbers`].
//!
//! A session runs one call at a time and may go from thread to thread; a [`Pool`] is called from any number of threads,
//! over one copy of the weights. The first run of a session already finds its memory and its kernels ready: there is
//! nothing to warm up. A failure is an [`Error`] with an [`ErrorKind`]: a wrong file or wrong sizes, an index out of range,
//! too little memory. No call here panics, whatever the files hold.

mod actor;
mod aside;
mod beside;
mod check;
mod codec;
mod consent;
mod cost;
mod describe;
mod embed;
mod formulas;
mod guards;
mod lower;
mod measure;
pub mod memory;
#[cfg(test)]
mod model;
pub mod offload;
mod plan;
mod pool;
mod program;
mod progress;
mod replay;
mod saved;
mod session;
mod sharing;
mod sizes;
mod sources;
mod sync;

pub use actor::{Act, Body, Network, RunArgs};
pub use codec::VERSION;
pub use cost::{Price, price};
pub use describe::{Held, Row};
pub use embed::{
    Number, manual_seed, num_threads, numbers, numbers_into, register, set_num_threads, tensor, tensor_of,
};
pub use formulas::{Formula, NamedDim, Polynomial, Read, Term};
pub use guards::{Asked, Broken, Dynamic, Guard};
pub use lower::{can_lower, expression, init_input, shell};
pub use measure::measure;
pub use plan::*;
pub use pool::{Lent, Pool};
pub use program::Program;
pub use progress::{Piece, Progress};
pub use session::Session;
pub use sizes::Number as PlanNumber;
pub use sources::{MakeSource, make as make_source, register_source};

// What the calls of a service take and give: it needs no other crate of the framework.
pub use oneflow_base::{DType, Device, Error, ErrorKind, Meta, Result};
pub use oneflow_core::Tensor;
