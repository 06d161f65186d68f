//! Fusion: patterns of ops that one kernel computes.

pub mod chain;
pub mod linear;
