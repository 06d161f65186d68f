//! Process groups: ranks that communicate. Raw bytes, a dtype, a reduce op; no tensor.
//!
//! A launcher's environment is read by [`rendezvous`], ranks find each other through a [`store`], and a [`ProcessGroup`]
//! runs collectives over threads of one process ([`fake`]) or sockets between processes ([`tcp`]). Devices other than the
//! host are not known here.

mod collective;
mod engine;
pub mod fake;
mod group;
mod p2p;
mod reduce;
mod registry;
pub mod rendezvous;
mod request;
pub mod store;
pub mod tcp;
mod work;

pub use group::{Counters, ProcessGroup};
pub use registry::{DEFAULT_TIMEOUT, set_process_group, set_thread_group, world};
pub use request::{Kind, ReduceOp, Request, Span};
pub use work::Work;
