//! The standard library's words for threads, or, in this crate's own tests, those of a scheduler that tries many orders: the
//! types that are checked are the types that ship.

#[cfg(test)]
pub(crate) use shuttle::{sync, thread};
#[cfg(not(test))]
pub(crate) use std::{sync, thread};
