//! Random number generators: a seed and a position. Kernels are counter-based, so a call needs only these two numbers.
//!
//! A generator may instead own an engine that draws one number after the other (`mt19937`). Calls then carry the engine's
//! number and `IN_ORDER` in the places of seed and position, and only eager kernels on the CPU take them.

use oneflow_kernels_prim::mt19937::{Engine, IN_ORDER, Registered};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// A seed and the number of random calls made with it. Shared by handle.
#[derive(Clone, Debug)]
pub struct Generator(Arc<State>);

#[derive(Debug)]
struct State {
    seed: AtomicU64,
    offset: AtomicU64,
    engine: Mutex<Option<Arc<Registered>>>,
}

/// torch's default seed.
const DEFAULT_SEED: u64 = 67280421310721;

/// Returns true if generators that users create draw in order.
static DRAW_IN_ORDER: AtomicBool = AtomicBool::new(false);

impl Generator {
    pub fn new() -> Generator {
        Generator::at(DEFAULT_SEED, 0)
    }
    /// The generator at the position that a call received.
    pub fn at(seed: u64, offset: u64) -> Generator {
        Generator(Arc::new(State {
            seed: AtomicU64::new(seed),
            offset: AtomicU64::new(offset),
            engine: Mutex::new(None),
        }))
    }
    /// With the default seed and the engine in use.
    pub fn of_engine_in_use() -> Generator {
        let g = Generator::new();
        g.draw_in_order(DRAW_IN_ORDER.load(Ordering::Relaxed));
        g
    }
    fn engine(&self) -> MutexGuard<'_, Option<Arc<Registered>>> {
        self.0.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Restarts from a seed.
    pub fn manual_seed(&self, seed: u64) {
        if let Some(e) = &*self.engine() {
            *e.lock() = Engine::new(seed);
            return;
        }
        self.set_state(seed, 0);
    }
    /// The seed of a call: the number of the engine where one draws in order.
    pub fn seed(&self) -> u64 {
        self.0.seed.load(Ordering::Relaxed)
    }
    /// The seed that a user gave.
    pub fn initial_seed(&self) -> u64 {
        self.engine().as_ref().map_or_else(|| self.seed(), |e| e.lock().seed())
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
        if self.is_in_order() {
            return (self.seed(), IN_ORDER);
        }
        (self.seed(), self.0.offset.fetch_add(n, Ordering::Relaxed))
    }
    /// Returns true if numbers are drawn one after the other.
    pub fn is_in_order(&self) -> bool {
        self.offset() == IN_ORDER
    }
    /// Draws in order from now on, or by position; starts over from the seed if that is a change.
    pub fn draw_in_order(&self, on: bool) {
        if on == self.is_in_order() {
            return;
        }
        let seed = self.initial_seed();
        let made = on.then(|| Registered::new(seed));
        let (word, offset) = made.as_ref().map_or((seed, 0), |e| (e.id(), IN_ORDER));
        *self.engine() = made;
        self.set_state(word, offset);
    }
    /// The engine's state, if it draws in order.
    pub fn engine_state(&self) -> Option<Engine> {
        self.engine().as_ref().map(|e| e.lock().clone())
    }
    /// Continues from a state; makes this a generator that draws in order.
    pub fn set_engine_state(&self, state: Engine) {
        self.draw_in_order(true);
        if let Some(e) = &*self.engine() {
            *e.lock() = state;
        }
    }
    /// A new generator that continues from the same state.
    pub fn fork(&self) -> Generator {
        match self.engine_state() {
            Some(state) => {
                let g = Generator::new();
                g.set_engine_state(state);
                g
            }
            None => Generator::at(self.seed(), self.offset()),
        }
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

/// Gives this thread its own default generator (or removes it).
pub fn set_thread_generator(g: Option<Generator>) {
    THREAD.with_borrow_mut(|slot| *slot = g);
}

/// Lets the default generator, and those created from now on, draw in order or by position. Returns the former setting.
pub fn use_in_order(on: bool) -> bool {
    DEFAULT.draw_in_order(on);
    default_generator().draw_in_order(on);
    DRAW_IN_ORDER.swap(on, Ordering::Relaxed)
}
