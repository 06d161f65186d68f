//! Sources of data as actors of a plan: files of tokens, read in a reproducible order, ahead of the consumer.
//!
//! A source is a pure function of its configuration and a position, so a checkpoint is one number. It computes nothing on
//! tensors.

mod order;
mod tokens;

pub use order::Shuffle;
pub use tokens::{TokenFile, TokenKind, TokenSource};

/// Makes the sources known to the runtime. Called at start-up.
pub fn register() {
    oneflow_runtime::register_source(tokens::KIND, tokens::make);
}
