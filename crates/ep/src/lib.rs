//! Execution providers: what a device must offer before a kernel can run on it, and the two built-in ones.
//!
//! A provider owns memory, queues and copies. It is independent of tensors and ops; kernels register themselves with
//! `oneflow_kernels_prim::Primitive`. This is the only crate that loads vendor libraries.

mod best_fit;
pub mod cpu;
pub mod cuda;
mod provider;
pub mod queues;

pub use provider::{Block, Copy, Pinned, Position, Provider, Queue, Recorded, Recording, provider, register};
