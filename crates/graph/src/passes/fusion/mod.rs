//! Fusion: patterns of ops that one kernel computes.

pub mod attention;
pub mod bag;
pub mod cast;
pub mod chain;
mod layout;
pub mod linear;
pub mod loss;
pub mod norm;
mod pattern;
pub mod residual;
pub mod update;
