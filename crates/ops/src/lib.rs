//! The op table: one file an op, definitions only. The vocabulary of the house.
//!
//! A definition says what an op means (signature, metas, gradient, layouts, cost), never how a device computes it, and never
//! reaches into another layer. Helpers of a family stand in its `mod.rs`.
//!
//! `generated/methods.rs` is written by `cargo xtask codegen` from the signatures; gradient rules are written with it.

pub mod attention;
mod call;
pub mod conv;
pub mod creation;
pub mod elementwise;
pub mod fft;
mod fits;
mod generated;
pub mod index;
pub mod limited;
pub mod linalg;
pub mod matmul;
pub mod nn;
mod operand;
pub mod optim;
pub mod random;
pub mod reduce;
pub mod resample;
pub mod rnn;
mod scalar_range;
mod table;
pub mod view;

/// Functions of the table that have no tensor to be a method of (creation, lists).
pub mod f {
    pub use crate::generated::methods::functions::*;
}
pub use call::OptInts;
pub use generated::methods::TensorOps;
pub use generated::named;
pub use operand::Operand;
pub use table::TABLE;

/// Everything an op's file needs.
pub(crate) mod prelude {
    pub use crate::{TensorOps, f};
    pub(crate) use crate::{fits, scalar_range};
    pub use oneflow_base::*;
    pub use oneflow_core::promote::{self, result_type};
    pub use oneflow_core::*;
    pub use oneflow_kernels_prim::*;
    pub use smallvec::SmallVec;
}

/// Adds the table to the process's ops.
pub fn register() {
    optim::rules::RULES.into_iter().for_each(oneflow_kernels_prim::register_rule);
    oneflow_core::set_widen(limited::widen);
    oneflow_core::register_ops(TABLE);
}
