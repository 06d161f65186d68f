//! How the driver is given threads. It owns none and never nests regions.

use oneflow_ep::cpu;

/// Runs independent tasks, on as many threads as it likes.
pub trait Parallel {
    /// How many tasks can make progress at once.
    fn threads(&self) -> usize;
    /// Calls `f(0) .. f(n_tasks - 1)` once each, in any order, and returns when all are done.
    fn run(&self, n_tasks: usize, f: &(dyn Fn(usize) + Sync));
}

/// Everything on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn threads(&self) -> usize {
        1
    }
    fn run(&self, n_tasks: usize, f: &(dyn Fn(usize) + Sync)) {
        for task in 0..n_tasks {
            f(task);
        }
    }
}

/// The CPU provider's thread pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pool;

impl Parallel for Pool {
    fn threads(&self) -> usize {
        if cpu::in_parallel_region() { 1 } else { cpu::num_threads() }
    }
    fn run(&self, n_tasks: usize, f: &(dyn Fn(usize) + Sync)) {
        cpu::parallel_for(n_tasks, f)
    }
}
