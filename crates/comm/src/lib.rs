//! Process groups: ranks that communicate. Raw bytes, a dtype, a reduce op; no tensor.
//!
//! A launcher's environment is read by [`rendezvous`], ranks find each other through a [`store`], and a [`ProcessGroup`]
//! runs collectives over threads of one process ([`fake`]), sockets between processes ([`tcp`]) or an installed MPI ([`mpi`]). Memory of
//! devices is for a backend that another crate registers ([`set_device_backend`]); which devices there are is not known here.
//!
//! ```
//! use oneflow_base::DType;
//! use oneflow_comm::{DEFAULT_TIMEOUT, ReduceOp, fake};
//!
//! let sums = fake::run_ranks(3, DEFAULT_TIMEOUT, |group| {
//!     let mut data = [group.rank() as u8, 10];
//!     group.all_reduce(&mut data, DType::U8, ReduceOp::Sum)?;
//!     Ok(data)
//! });
//! assert!(sums.into_iter().all(|sum| sum.unwrap() == [3, 30]));
//! ```

mod auth;
mod collective;
mod copy;
pub mod described;
mod device;
mod engine;
pub mod fake;
pub mod flight;
mod flow;
mod group;
mod hypercube;
mod interrupt;
mod launch;
pub mod mpi;
mod p2p;
mod prompt;
mod purpose;
mod reduce;
mod registry;
pub mod rendezvous;
mod request;
mod scratch;
mod security;
mod sockets;
pub mod store;
mod stream;
pub mod tcp;
mod tls;
mod transport;
mod waits;
mod work;
mod world;

pub use auth::{Access, Secret};
pub use device::{Admitted, Described, Desk, DeviceBackend, on_device, serves_device, set_device_backend};
pub use group::{Counters, Ledger, ProcessGroup};
pub use interrupt::{interrupted, set_interrupt_check, set_thread_interrupt_check};
pub use purpose::Purpose;
pub use registry::{DEFAULT_TIMEOUT, set_process_group, set_thread_group};
pub use request::{ANY_RANK, Kind, ReduceOp, Request, Span};
pub use security::Security;
pub use tls::Tls;
pub use work::{Abort, OnDevice, Work};
pub use world::world;
