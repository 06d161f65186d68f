//! Fusion: patterns of ops that one kernel computes.

pub mod activation;
pub mod attention;
pub mod bag;
pub mod batch_norm;
pub mod cast;
pub mod chain;
pub mod channels_last;
mod layout;
pub mod loss;
pub mod norm;
mod ops;
pub mod pattern;
pub mod prepared_weights;
pub mod residual;
pub mod update;
