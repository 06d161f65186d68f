//! The vocabulary between ops and devices: raw strided views, launches, primitives and elementwise expressions.
//!
//! A primitive is one kernel family's entry. Every provider puts its implementation into the primitive's slot of its
//! device type; a new provider is a crate that fills slots, not edits here. Knows no tensor and no op.

mod expr;
mod lanes;
mod launch;
pub mod philox;
mod primitives;
pub mod rows;
mod view;

pub use expr::{Expr, Formula};
pub use lanes::Lanes;
pub use launch::{KernelFn, Launch, Params, Primitive, Word};
pub use primitives::*;
pub use view::View;
