//! Random number generators: a seed and a position. Kernels are counter-based, so a call needs only these two numbers.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// A seed and the number of random calls made with it. Shared by handle.
#[derive(Clone, Debug)]
pub struct Generator(Arc<State>);

#[derive(Debug)]
struct State {
    seed: AtomicU64,
    offset: AtomicU64,
}

/// torch's default seed.
const DEFAULT_SEED: u64 = 67280421310721;

impl Generator {
    pub fn new() -> Generator {
        Generator(Arc::new(State { seed: AtomicU64::new(DEFAULT_SEED), offset: AtomicU64::new(0) }))
    }
    /// Restarts from a seed.
    pub fn manual_seed(&self, seed: u64) {
        self.0.seed.store(seed, Ordering::Relaxed);
        self.0.offset.store(0, Ordering::Relaxed);
    }
    pub fn seed(&self) -> u64 {
        self.0.seed.load(Ordering::Relaxed)
    }
    pub fn offset(&self) -> u64 {
        self.0.offset.load(Ordering::Relaxed)
    }
    pub fn set_state(&self, seed: u64, offset: u64) {
        self.0.seed.store(seed, Ordering::Relaxed);
        self.0.offset.store(offset, Ordering::Relaxed);
    }
    /// Takes `n` positions in program order; returns the seed and the first of them.
    pub fn take(&self, n: u64) -> (u64, u64) {
        (self.seed(), self.0.offset.fetch_add(n, Ordering::Relaxed))
    }
    pub fn same(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Default for Generator {
    fn default() -> Self {
        Self::new()
    }
}

static DEFAULT: LazyLock<Generator> = LazyLock::new(Generator::new);

thread_local! {
    static THREAD: RefCell<Option<Generator>> = const { RefCell::new(None) };
}

/// The generator of calls that name none: the process's, or the thread's own where ranks are threads.
pub fn default_generator() -> Generator {
    THREAD.with_borrow(|g| g.clone()).unwrap_or_else(|| DEFAULT.clone())
}

/// Gives this thread a default generator of its own (or takes it away).
pub fn set_thread_generator(g: Option<Generator>) {
    THREAD.with_borrow_mut(|slot| *slot = g);
}
