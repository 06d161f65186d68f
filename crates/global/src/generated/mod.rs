//! What codegen writes for the ops of this crate.

pub(crate) mod named;
