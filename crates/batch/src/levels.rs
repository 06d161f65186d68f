//! The batches a thread is inside of, from the outermost to the innermost. Their numbers are never used again.

use oneflow_core::{bit, tls, with_tls};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

/// What random ops do inside of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Randomness {
    Error,
    /// Every sample draws the same numbers.
    Same,
    Different,
}

/// One batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub id: u64,
    pub size: i64,
    pub randomness: Randomness,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static ACTIVE: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
    static OUTSIDE_OF: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Begins a batch of `size` samples; returns its number.
pub fn enter(size: i64, randomness: Randomness) -> u64 {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    ACTIVE.with_borrow_mut(|a| a.push(Level { id, size, randomness }));
    switch(true);
    id
}

/// Ends a batch, and what was begun inside of it.
pub fn leave(id: u64) {
    let on = ACTIVE.with_borrow_mut(|a| {
        a.retain(|level| level.id < id);
        !a.is_empty()
    });
    switch(on);
}

/// The innermost batch outside of those whose turn it was.
pub(crate) fn innermost() -> Option<Level> {
    let end = OUTSIDE_OF.get();
    ACTIVE.with_borrow(|a| a.iter().rev().find(|level| level.id < end).copied())
}

/// While it lives, a batch has had its turn: its rule calls ops on all samples.
pub(crate) struct Outside(u64);

impl Outside {
    pub fn of(id: u64) -> Outside {
        Outside(OUTSIDE_OF.replace(id))
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        OUTSIDE_OF.set(self.0);
    }
}

pub(crate) fn is_active(id: u64) -> bool {
    ACTIVE.with_borrow(|a| a.iter().any(|level| level.id == id))
}

/// The layer sees every call of the thread while a batch is on: random ops need no batched input to differ.
fn switch(on: bool) {
    let mut t = tls();
    if on {
        t.on |= 1 << bit::BATCH;
    } else {
        t.on &= !(1 << bit::BATCH);
    }
    // The switch outlives this function: `leave` turns it back.
    std::mem::forget(with_tls(t));
}
