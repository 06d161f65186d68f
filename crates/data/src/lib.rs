//! Sources of data as actors of a plan: files of tokens and of records, read in a reproducible order, ahead of the consumer.
//!
//! A source is a pure function of its configuration and a position, so a checkpoint is one number. It computes nothing on
//! tensors.

mod config;
mod file;
mod image;
mod indexed;
mod order;
mod raw;
mod record;
mod tokens;

pub use image::{Channels, Picture, decode as decode_image};
pub use indexed::{IndexedReader, IndexedSource, IndexedTokens};
pub use order::Shuffle;
pub use raw::{RawReader, RawSource};
pub use record::{Decoder, How, RecordFiles, RecordReader, RecordSource, Values, values};
pub use tokens::{TokenFile, TokenKind, TokenSource};

/// A source's configuration, starting at another position: the number of batches read before.
pub fn at_position(config: &[u8], position: u64) -> oneflow_base::Result<Vec<u8>> {
    Ok(config::Lines::read(config)?.set("position", position).bytes())
}

/// Makes the sources known to the runtime. Called at start-up.
pub fn register() {
    oneflow_runtime::register_source(tokens::KIND, tokens::make);
    oneflow_runtime::register_source(raw::KIND, raw::make);
    oneflow_runtime::register_source(indexed::KIND, indexed::make);
    oneflow_runtime::register_source(record::KIND, record::make);
}
