//! Written by `cargo xtask codegen`; not edited by hand.

pub mod methods;
pub mod named;
