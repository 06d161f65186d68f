//! The thread pool of the CPU provider: fork-join over task indices.
//!
//! The caller works too, and it waits only for tasks somebody has begun: a worker the system does not schedule costs
//! nothing. One region runs at a time; a second caller, a nested region and a forked child never wait for the pool, they
//! run inline. No work stealing, no futures, no priorities; cutting work into tasks of a good size is the kernel's matter.

use super::futex;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// Most threads a region can use.
pub const MAX_THREADS: usize = 1023;
/// How long an idle thread spins before it sleeps: a wake-up by the operating system costs several microseconds.
const SPIN: Duration = Duration::from_micros(30);

/// Zero: not chosen yet.
static NUM_THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OVERRIDE: Cell<usize> = const { Cell::new(0) };
    static IN_REGION: Cell<bool> = const { Cell::new(false) };
}

/// Threads a region started here may use, the caller included.
#[inline]
pub fn num_threads() -> usize {
    match OVERRIDE.get() {
        0 => match NUM_THREADS.load(Ordering::Relaxed) {
            0 => default_num_threads(),
            n => n,
        },
        n => n,
    }
}

/// Sets the number of threads for the whole process (at least 1, at most `MAX_THREADS`). Workers start when first needed.
pub fn set_num_threads(n: usize) {
    NUM_THREADS.store(n.clamp(1, MAX_THREADS), Ordering::Relaxed);
}

/// Sets the number of threads for regions started by the calling thread; `None` follows the process again. For ranks
/// that are threads of one process.
pub fn set_thread_num_threads(n: Option<usize>) {
    OVERRIDE.set(n.map_or(0, |n| n.clamp(1, MAX_THREADS)));
}

/// Returns true if the caller is inside a task of the pool.
#[inline]
pub fn in_parallel_region() -> bool {
    IN_REGION.get()
}

/// Runs `f(0..n_tasks)`, in any order, on the pool and the caller; returns when all are done. A panic in a task stops
/// the handing out of further tasks and is raised again here.
#[inline]
pub fn parallel_for(n_tasks: usize, f: &(dyn Fn(usize) + Sync)) {
    if n_tasks > 1 && !IN_REGION.get() {
        let threads = num_threads();
        if threads > 1 && pool().fork_join(n_tasks, threads, f) {
            return;
        }
    }
    for i in 0..n_tasks {
        f(i);
    }
}

#[cold]
fn default_num_threads() -> usize {
    let from_env = |name: &str| {
        let text = std::env::var(name).ok()?;
        // OpenMP allows a list, one number a nesting level.
        text.split(',').next()?.trim().parse::<usize>().ok().filter(|&n| n > 0)
    };
    let n = from_env("ONEFLOW_NUM_THREADS").or_else(|| from_env("OMP_NUM_THREADS")).unwrap_or_else(physical_cores);
    let n = n.clamp(1, MAX_THREADS);
    // A number set meanwhile stays.
    match NUM_THREADS.compare_exchange(0, n, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => n,
        Err(set) => set,
    }
}

/// Physical cores this process may run on: hyper-threads share the vector units, so a second one adds nothing.
fn physical_cores() -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut cores = std::collections::BTreeSet::new();
    // SAFETY: an all-zero cpu_set_t is a valid empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is valid for its size.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } != 0 {
        return allowed;
    }
    for cpu in 0..libc::CPU_SETSIZE as usize {
        // SAFETY: `cpu` is below the set's size.
        if unsafe { libc::CPU_ISSET(cpu, &set) } {
            match std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")) {
                Ok(siblings) => cores.insert(siblings),
                Err(_) => return allowed,
            };
        }
    }
    cores.len().clamp(1, allowed)
}

/// The task of a region; written by its caller before the region opens.
#[derive(Clone, Copy)]
struct Job {
    f: *const (dyn Fn(usize) + Sync),
    n: usize,
}

#[repr(align(128))]
struct Line<T>(T);

/// `state` packs how many helpers may enter and how many are inside: bits 0..10 helpers inside, 10..20 free places, 20 the
/// caller sleeps.
struct Pool {
    busy: Line<AtomicBool>,
    state: Line<AtomicU32>,
    cursor: Line<AtomicUsize>,
    sleepers: Line<AtomicU32>,
    /// Bumped by the last helper that leaves while the caller sleeps.
    left: AtomicU32,
    n_workers: AtomicUsize,
    job: UnsafeCell<Job>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

const INSIDE: u32 = (1 << 10) - 1;
const PLACE: u32 = 1 << 10;
const PLACES: u32 = INSIDE << 10;
const CALLER_SLEEPS: u32 = 1 << 20;

// SAFETY: `job` is written only by the holder of `busy` while nobody is inside and no place is free, and read only by
// threads that took a place afterwards; the state word orders the two.
unsafe impl Sync for Pool {}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(std::ptr::null_mut());

/// The process's pool. It is never freed: workers use it until the process ends.
#[inline]
fn pool() -> &'static Pool {
    let p = POOL.load(Ordering::Acquire);
    if p.is_null() {
        return start();
    }
    // SAFETY: a non-null pointer is a leaked box.
    unsafe { &*p }
}

#[cold]
fn start() -> &'static Pool {
    static AT_FORK: Once = Once::new();
    extern "C" fn in_child() {
        // The workers did not come along. The old pool is left as it is: its locks may be held by threads that are gone.
        POOL.store(std::ptr::null_mut(), Ordering::Release);
    }
    // SAFETY: the handler only stores to an atomic.
    AT_FORK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    let new = Box::into_raw(Box::new(Pool {
        busy: Line(AtomicBool::new(false)),
        state: Line(AtomicU32::new(0)),
        cursor: Line(AtomicUsize::new(0)),
        sleepers: Line(AtomicU32::new(0)),
        left: AtomicU32::new(0),
        n_workers: AtomicUsize::new(0),
        job: UnsafeCell::new(Job { f: &|_: usize| (), n: 0 }),
        panic: Mutex::new(None),
    }));
    match POOL.compare_exchange(std::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: the box is leaked.
        Ok(_) => unsafe { &*new },
        Err(first) => {
            // SAFETY: nobody else has seen `new`; `first` is a leaked box.
            unsafe {
                drop(Box::from_raw(new));
                &*first
            }
        }
    }
}

impl Pool {
    /// Runs the region with the pool's help; false, with nothing done, where another caller has the pool.
    fn fork_join(&'static self, n: usize, threads: usize, f: &(dyn Fn(usize) + Sync)) -> bool {
        if self.busy.0.load(Ordering::Relaxed) || self.busy.0.swap(true, Ordering::Acquire) {
            return false;
        }
        let helpers = self.ensure_workers((threads - 1).min(n - 1));
        // SAFETY: this thread has `busy`, nobody is inside and no place is free. The lifetime is erased; `leave_none`
        // below does not return before every helper has left.
        let job = unsafe {
            let f: &'static (dyn Fn(usize) + Sync) = std::mem::transmute(f);
            let job = Job { f, n };
            *self.job.get() = job;
            job
        };
        self.cursor.0.store(0, Ordering::Relaxed);
        self.state.0.store(helpers as u32 * PLACE, Ordering::SeqCst);
        let asleep = self.sleepers.0.load(Ordering::SeqCst);
        if asleep > 0 {
            futex::wake(&self.state.0, asleep.min(helpers as u32));
        }
        IN_REGION.set(true);
        self.work(job);
        self.leave_none();
        IN_REGION.set(false);
        let panic = self.panic.lock().unwrap_or_else(|e| e.into_inner()).take();
        self.busy.0.store(false, Ordering::Release);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        true
    }

    /// Takes tasks until none is left. Never unwinds.
    fn work(&self, job: Job) {
        // SAFETY: the caller of the region keeps the closure alive until every helper has left.
        let f = unsafe { &*job.f };
        let result = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let i = self.cursor.0.fetch_add(1, Ordering::Relaxed);
                if i >= job.n {
                    break;
                }
                f(i);
            }
        }));
        if let Err(payload) = result {
            self.cursor.0.store(job.n, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(payload);
        }
        // Nothing is left to take, so nobody needs to come any more.
        self.state.0.fetch_and(!PLACES, Ordering::Relaxed);
    }

    /// Waits until no helper is inside. All places are taken away already.
    fn leave_none(&self) {
        let empty = |s: u32| s & INSIDE == 0;
        let mut spin = Spin::new();
        while !empty(self.state.0.load(Ordering::Acquire)) {
            if spin.again() {
                continue;
            }
            let seen = self.left.load(Ordering::Acquire);
            if empty(self.state.0.fetch_or(CALLER_SLEEPS, Ordering::AcqRel)) {
                break;
            }
            futex::wait(&self.left, seen);
        }
    }

    fn ensure_workers(&'static self, wanted: usize) -> usize {
        let mut n = self.n_workers.load(Ordering::Relaxed);
        while n < wanted {
            let spawned = std::thread::Builder::new().name(format!("oneflow-cpu-{n}")).spawn(move || self.worker());
            if spawned.is_err() {
                break;
            }
            n += 1;
            self.n_workers.store(n, Ordering::Relaxed);
        }
        wanted.min(n)
    }

    fn worker(&self) {
        IN_REGION.set(true);
        loop {
            self.take_place();
            // SAFETY: the place was taken after the job was written, and the job stays until this thread has left.
            let job = unsafe { *self.job.get() };
            self.work(job);
            let before = self.state.0.fetch_sub(1, Ordering::AcqRel);
            if before & INSIDE == 1 && before & CALLER_SLEEPS != 0 {
                self.left.fetch_add(1, Ordering::Release);
                futex::wake(&self.left, 1);
            }
        }
    }

    fn take_place(&self) {
        let mut spin = Spin::new();
        loop {
            let s = self.state.0.load(Ordering::Relaxed);
            if s & PLACES != 0 {
                if self.state.0.compare_exchange_weak(s, s - PLACE + 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return;
                }
                continue;
            }
            if spin.again() {
                continue;
            }
            // Announce, then look again: the opener stores the state first and reads `sleepers` second.
            self.sleepers.0.fetch_add(1, Ordering::SeqCst);
            let s = self.state.0.load(Ordering::SeqCst);
            if s & PLACES == 0 {
                futex::wait(&self.state.0, s);
            }
            self.sleepers.0.fetch_sub(1, Ordering::SeqCst);
            spin = Spin::new();
        }
    }
}

/// Spins for `SPIN`, reading the clock rarely.
struct Spin {
    n: u32,
    since: Option<Instant>,
}

impl Spin {
    fn new() -> Spin {
        Spin { n: 0, since: None }
    }
    /// Pauses a moment; false when it is time to sleep.
    fn again(&mut self) -> bool {
        std::hint::spin_loop();
        self.n += 1;
        if self.n.is_multiple_of(32) {
            return self.since.get_or_insert_with(Instant::now).elapsed() < SPIN;
        }
        true
    }
}
