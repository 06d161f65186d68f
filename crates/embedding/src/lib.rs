//! A store of embedding rows by key: rows in use in memory, all others in segment files, both within a budget.
//!
//! Knows no tensor, no gradient graph and no process group: ids and numbers come and go as slices. One process owns a folder;
//! one caller at a time uses a store.
//!
//! - `Store` (`store.rs`) updates, writes and removes batches of rows, and looks them up (`lookup.rs`),
//!   or brings them near before (`prefetch.rs`). `epochs.rs` is its part that makes them last.
//! - A row is its key, the step and number of its updates, and its weights and optimizer state, which are contiguous
//!   (`rows.rs`). `slots.rs` finds it, by an array where ids are dense, else by `index.rs`; `placing.rs` moves rows of
//!   dense ids to slots in the order of their ids, by table; `lines.rs` asks for memory before it is read. `queues.rs` chooses which rows leave memory.
//! - `log.rs` keeps rows on disk as records with a checksum. Small rows go from there into pages (`merge.rs`), which need no place
//!   of each row in memory: `page.rs` is their format, `pages.rs` finds the page of a row. `disk.rs` reads both, `readers.rs` reads many at once (`uring.rs`, or threads;
//!   `blocks.rs` says which bytes), and `folder.rs` is the only
//!   file that touches the file system, so that tests make any of its steps fail.
//! - `manifest.rs` is the format of an epoch: which record is whose. A store that is opened again is as its last epoch was.
//! - `rules.rs` holds the optimizers, `initial.rs` the values of rows that nobody has updated. `admission.rs` decides which new
//!   keys get a row, `forget.rs` which rows leave for good, `hot.rs` which every rank keeps a copy of.
//! - `serving.rs` looks rows of a snapshot up for programs that serve, and takes deltas (`delta.rs`) meanwhile.
//! - `saved.rs` reads an epoch or a snapshot without changing it: for exports, deltas and another number of ranks.

mod admission;
mod batch;
mod blocks;
mod chunk;
mod config;
mod delta;
mod disk;
mod epochs;
mod folder;
mod forget;
mod hot;
mod index;
mod initial;
mod lines;
mod log;
mod lookup;
mod manifest;
mod merge;
mod page;
mod pages;
mod places;
mod placing;
mod prefetch;
mod queues;
mod readers;
mod rows;
mod rules;
mod saved;
mod serving;
mod slots;
mod store;
#[cfg(target_os = "linux")]
mod uring;

pub use admission::Admission;
pub use batch::{Bags, Batch, Key};
pub use config::{Config, Options};
pub use delta::Delta;
pub use folder::{Faults, Op, Verdict};
pub use forget::{Forget, Score};
pub use hot::KeySet;
pub use initial::Initializer;
pub use prefetch::Prefetch;
pub use readers::Io;
pub use rules::{Rule, Step};
pub use saved::{Records, Saved};
pub use serving::Serving;
pub use store::{Counts, Stats, Store};
