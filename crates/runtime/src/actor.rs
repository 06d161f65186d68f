//! Actors at work: each stream's thread lets those actors act that may, and wakes the streams of their neighbours. There is no
//! scheduler.
//!
//! Actors talk through the counters of `Progress`; a stream that has nothing to do listens to its bell. The caller is a stream too: what consumes the
//! caller's data runs on the caller's thread while it waits for the result, so a run of one stream crosses no thread.
//! Knows pieces of memory and bodies, not what bodies do.

use crate::plan::{Plan, Work};
use crate::progress::{Piece, Progress};
use crate::sync::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::sync::{Arc, Mutex, MutexGuard};
use crate::sync::thread::{Builder, JoinHandle, Thread, current, park, park_timeout, yield_now};
use oneflow_base::{Error, Result};
use oneflow_comm::set_thread_interrupt_check;
use oneflow_core::{SpanKind, watch_span};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// What an actor does once per act.
pub trait Body: Send {
    fn act(&mut self, act: &mut Act<'_>) -> Result<()>;
}

/// One act: what it reads, where it writes.
pub struct Act<'a> {
    /// Per consumed and per produced register the pieces of this act.
    pub ins: &'a [Vec<Piece>],
    pub outs: &'a [Vec<Piece>],
    /// What the caller gave to this run, if a register comes from the caller.
    pub run: Option<&'a RunArgs>,
    /// Asked now and then by bodies that take long; its error ends the act. Costs little where there is nothing to ask.
    pub poll: &'a mut dyn FnMut() -> Result<()>,
}

/// What the caller gives to one run: addresses of its inputs, of the variables and of the results, and its random position.
#[derive(Clone, Debug, Default)]
pub struct RunArgs {
    pub inputs: Vec<usize>,
    pub variables: Vec<usize>,
    pub outputs: Vec<usize>,
    pub seed: u64,
    pub offset: u64,
    /// All ranks record the plan as a whole in this run.
    pub records: bool,
}

/// What all streams share.
struct Shared {
    progress: Progress,
    cancel: Arc<AtomicBool>,
    /// Ends every thread.
    stop: AtomicBool,
    /// Threads that only read data and have not ended.
    n_readers: AtomicUsize,
    /// Arguments of the runs under way, by number.
    runs: Mutex<Vec<(u64, Arc<RunArgs>)>>,
    /// What failed in streams other than the caller's.
    failures: Mutex<Vec<Failure>>,
    /// One for each stream.
    bells: Vec<Bell>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

impl Shared {
    /// Counts an act of a task, and wakes every stream whom it concerns: once, when all of it is written down.
    fn executed(&self, task: usize) {
        self.progress.executed(task);
        self.progress.neighbours(task).iter().for_each(|s| self.bells[*s as usize].ring());
    }
}

/// How often a stream listens before it sleeps: some twenty microseconds, which is what waking it up would cost.
const SPINS: usize = if cfg!(test) { 1 } else { 1000 };
/// After how many looks it lets others run.
const YIELD: usize = 32;

/// Tells one stream that its actors may have got something.
#[derive(Default)]
struct Bell {
    rung: AtomicU64,
    asleep: AtomicBool,
    /// Who listens: a stream's own thread, or whichever thread the caller came on last.
    listener: Mutex<Option<Thread>>,
}

impl Bell {
    /// How often it was rung so far. Asked before a look at the counters, so that no ring after the look is missed.
    fn heard(&self) -> u64 {
        self.rung.load(Ordering::SeqCst)
    }

    fn ring(&self) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        // Whoever falls asleep says so first and then listens once more. The first ring wakes it, the next ones need not.
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            let listener = lock(&self.listener).clone();
            if let Some(thread) = listener {
                thread.unpark();
            }
        }
    }

    /// Waits until it has been rung more often than `heard`; gives back whether it was, within `limit`.
    fn wait(&self, heard: u64, limit: Option<Duration>) -> bool {
        for i in 1..=SPINS {
            if self.heard() != heard {
                return true;
            }
            std::hint::spin_loop();
            // Whoever is to ring may wait for this very processor.
            if i % YIELD == 0 {
                yield_now();
            }
        }
        if cfg!(test) && limit.is_some() {
            // The scheduler of the tests knows no time: others get a turn.
            yield_now();
            return self.heard() != heard;
        }
        *lock(&self.listener) = Some(current());
        let end = limit.map(|l| Instant::now() + l);
        loop {
            self.asleep.store(true, Ordering::SeqCst);
            if self.heard() != heard {
                break;
            }
            // Either may return early.
            match end.map(|e| e.saturating_duration_since(Instant::now())) {
                None => park(),
                Some(Duration::ZERO) => break,
                Some(left) => park_timeout(left),
            }
        }
        self.asleep.store(false, Ordering::SeqCst);
        self.heard() != heard
    }
}

/// The actors of one stream.
struct Stream {
    id: u32,
    shared: Arc<Shared>,
    actors: Vec<Actor>,
    /// Where the search for an actor that may act begins: behind the last one that did.
    next: usize,
    /// They act in turn, so only one has to be looked at.
    in_turn: bool,
    /// When all is over it still does what it can: collectives that this rank has issued, other ranks may be in.
    finishes: bool,
}

/// How long a collective that is under way may wait for other ranks when the program has ended.
const FINISH: Duration = Duration::from_secs(2);

struct Actor {
    task: usize,
    body: Box<dyn Body>,
    ins: Vec<Vec<Piece>>,
    outs: Vec<Vec<Piece>>,
}

/// A task that failed, and why.
type Failure = (u32, Error);

impl Stream {
    /// Lets the first actor that can act do so; gives back whether one did.
    fn act_once(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<bool, Failure> {
        let shared = &*self.shared;
        if shared.cancel.load(Ordering::Relaxed) && !self.finishes {
            return Ok(false);
        }
        let n = self.actors.len();
        for k in 0..if self.in_turn { n.min(1) } else { n } {
            let at = (self.next + k) % n;
            let Actor { task, body, ins, outs } = &mut self.actors[at];
            let task = *task;
            if !shared.progress.may_run(task) {
                continue;
            }
            self.next = at + 1;
            shared.progress.pieces(task, ins, outs);
            let number = shared.progress.executions(task);
            let run = lock(&shared.runs).iter().find(|r| r.0 == number).map(|r| r.1.clone());
            let _span = watch_span(SpanKind::Actor, || format!("actor: {}", shared.progress.name(task)).into(), 0);
            let mut act = Act { ins, outs, run: run.as_deref(), poll };
            let done = catch_unwind(AssertUnwindSafe(|| body.act(&mut act)));
            done.unwrap_or_else(|_| Err(Error::runtime("internal error: an actor panicked")))
                .map_err(|e| (task as u32, e))?;
            shared.executed(task);
            return Ok(true);
        }
        Ok(false)
    }

    fn bell(&self) -> &Bell {
        &self.shared.bells[self.id as usize]
    }

    /// The life of a stream that has a thread of its own.
    fn run(mut self, only_reads: bool) {
        if self.finishes {
            // The other ranks may never come.
            let (cancel, since) = (self.shared.cancel.clone(), Cell::new(None));
            set_thread_interrupt_check(Some(Box::new(move || {
                if !cancel.load(Ordering::Relaxed) {
                    return false;
                }
                let first: Instant = since.get().unwrap_or_else(Instant::now);
                since.set(Some(first));
                first.elapsed() > FINISH
            })));
        }
        self.act_until_stopped();
        if only_reads {
            self.shared.n_readers.fetch_sub(1, Ordering::SeqCst);
            self.shared.bells[0].ring();
        }
    }

    fn act_until_stopped(&mut self) {
        loop {
            let heard = self.bell().heard();
            let stops = self.shared.stop.load(Ordering::Acquire);
            if stops && !self.finishes {
                return;
            }
            match self.act_once(&mut no_poll) {
                Ok(true) => {}
                Err(_) | Ok(false) if stops => return,
                Ok(false) => {
                    self.bell().wait(heard, None);
                }
                Err(failure) => {
                    // The failed actor runs no more; its neighbours pass on what was made before.
                    self.actors.retain(|a| a.task != failure.0 as usize);
                    self.in_turn = false;
                    lock(&self.shared.failures).push(failure);
                    self.shared.bells[0].ring();
                }
            }
        }
    }
}

fn no_poll() -> Result<()> {
    Ok(())
}

/// A running plan. Dropping it stops its threads.
pub struct Network {
    shared: Arc<Shared>,
    /// The caller's own stream.
    own: Stream,
    threads: Vec<JoinHandle<()>>,
    /// Threads of sources alone. What they call may take as long as it likes.
    readers: Vec<JoinHandle<()>>,
    /// The process that has the threads.
    process: u32,
    host_in: Option<usize>,
    host_out: Option<usize>,
    failed: Option<Error>,
    /// Failures of other streams: what was made before them is used first.
    late: Vec<Failure>,
}

/// How long a run may stand still before it ends with an error.
fn timeout() -> Duration {
    let seconds = std::env::var("ONEFLOW_TIMEOUT_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(7200))
}

/// Says on standard error who waits for whom when a run stands still: after `ONEFLOW_WATCHDOG_SECONDS` (60), after twice as
/// long, and so on. 0 keeps it silent.
struct Watchdog {
    next: Duration,
}

impl Watchdog {
    fn new() -> Watchdog {
        let seconds = std::env::var("ONEFLOW_WATCHDOG_SECONDS").ok().and_then(|s| s.parse::<f64>().ok());
        let seconds = seconds.filter(|s| s.is_finite() && *s >= 0.0 && *s < 1e9).unwrap_or(60.0);
        Watchdog { next: Duration::from_secs_f64(seconds) }
    }

    fn bark(&mut self, idle: Duration, report: impl FnOnce() -> String) -> Option<String> {
        if self.next.is_zero() || idle < self.next {
            return None;
        }
        self.next *= 2;
        Some(format!("oneflow: a run has stood still for {:.1} seconds: {}", idle.as_secs_f64(), report()))
    }
}

/// What the caller waits for.
#[derive(Clone, Copy)]
enum Goal {
    /// That this end of its may act.
    Run(usize),
    /// That the tasks of the next run have what does not come from the caller.
    Data,
}

impl Goal {
    fn is_reached(self, progress: &Progress) -> bool {
        match self {
            Goal::Run(task) => progress.may_run(task),
            Goal::Data => progress.data_ready(),
        }
    }
    /// Whether it is, or will be once the messages under way have come.
    fn is_due(self, progress: &Progress) -> bool {
        match self {
            Goal::Run(task) => progress.could_run(task),
            Goal::Data => progress.data_ready(),
        }
    }
}

/// How often the caller looks for Ctrl-C.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// How long a network that is dropped waits for a source to come back. One that does not keeps its thread and its registers
/// until it does, and touches nothing else.
const GRACE: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 1 });

impl Network {
    /// Starts the threads. `bodies`: one per task, none for the caller's ends. Tasks without data act at once.
    pub fn start(plan: &Plan, bodies: Vec<Option<Box<dyn Body>>>, cancel: Arc<AtomicBool>) -> Result<Network> {
        plan.check_credits()?;
        let progress = Progress::new(plan)?;
        let mut actors: Vec<Vec<Actor>> = Vec::new();
        actors.resize_with(progress.n_streams(), Vec::new);
        for (task, body) in bodies.into_iter().enumerate() {
            if let Some(body) = body {
                let actor = Actor { task, body, ins: Vec::new(), outs: Vec::new() };
                actors[progress.stream_of(task as u32) as usize].push(actor);
            }
        }
        let mut bells = Vec::new();
        bells.resize_with(progress.n_streams(), Bell::default);
        let (stop, runs, failures) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        let n_readers = AtomicUsize::new(0);
        let shared = Arc::new(Shared { progress, cancel, stop, n_readers, runs, failures, bells });
        let turns = plan.turns();
        let stream = |(id, actors): (usize, Vec<Actor>)| {
            let in_turn = turns.get(id).copied().unwrap_or(false);
            let source = |a: &Actor| matches!(plan.tasks[a.task].work, Work::Source { .. });
            let finishes = id > 0 && !actors.iter().any(source);
            Stream { id: id as u32, shared: shared.clone(), actors, next: 0, in_turn, finishes }
        };
        let mut streams = actors.into_iter().enumerate().map(stream);
        let own = streams.next().ok_or_else(|| Error::runtime("no stream"))?;
        let end = |w: Work| plan.tasks.iter().position(|t| t.work == w);
        let (host_in, host_out) = (end(Work::HostIn), end(Work::HostOut));
        let mut n = Network {
            shared: shared.clone(),
            own,
            threads: Vec::new(),
            readers: Vec::new(),
            process: std::process::id(),
            host_in,
            host_out,
            failed: None,
            late: Vec::new(),
        };
        for stream in streams {
            let only_reads = stream.actors.iter().all(|a| matches!(plan.tasks[a.task].work, Work::Source { .. }));
            shared.n_readers.fetch_add(only_reads as usize, Ordering::SeqCst);
            let thread = Builder::new()
                .name(format!("oneflow-stream-{}", stream.id))
                .spawn(move || stream.run(only_reads))
                .map_err(|e| Error::runtime(format!("cannot start a thread for a stream: {e}")));
            match thread {
                Ok(thread) if only_reads => n.readers.push(thread),
                Ok(thread) => n.threads.push(thread),
                Err(e) => {
                    shared.n_readers.fetch_sub(only_reads as usize, Ordering::SeqCst);
                    return Err(e);
                }
            }
        }
        Ok(n)
    }

    /// Waits until the run that starts next finds its data.
    pub fn wait_for_data(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.host_in.is_none() {
            return Ok(());
        }
        self.wait(Goal::Data, poll)
    }

    /// Starts one run: waits for a free slot of the caller's register first.
    pub fn submit(&mut self, args: RunArgs, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let Some(t) = self.host_in else { return Err(Error::runtime("the plan takes nothing from its caller")) };
        self.wait(Goal::Run(t), poll)?;
        lock(&self.shared.runs).push((self.shared.progress.executions(t), Arc::new(args)));
        self.shared.executed(t);
        Ok(())
    }

    /// Waits for the result of one run; `use_it` sees its pieces before they go back.
    pub fn collect(
        &mut self,
        poll: &mut dyn FnMut() -> Result<()>,
        use_it: &mut dyn FnMut(&[Vec<Piece>]) -> Result<()>,
    ) -> Result<()> {
        let Some(t) = self.host_out else { return Err(Error::runtime("the plan gives nothing to its caller")) };
        self.wait(Goal::Run(t), poll)?;
        let (mut pieces, mut none) = (Vec::new(), Vec::new());
        self.shared.progress.pieces(t, &mut pieces, &mut none);
        let r = use_it(&pieces);
        let number = self.shared.progress.executions(t);
        lock(&self.shared.runs).retain(|r| r.0 != number);
        self.shared.executed(t);
        r
    }

    /// Waits until the caller may go on; meanwhile the actors of its own stream act.
    fn wait(&mut self, goal: Goal, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let mut idle: Option<Instant> = None;
        let mut watchdog: Option<Watchdog> = None;
        loop {
            let heard = self.own.bell().heard();
            if goal.is_reached(&self.shared.progress) {
                return Ok(());
            }
            match self.own.act_once(poll) {
                Ok(true) => {
                    idle = None;
                    continue;
                }
                Ok(false) => {}
                Err((task, error)) => return Err(self.fail(task, error)),
            }
            if self.is_forked() {
                return Err(Error::runtime(
                    "the threads that work for this plan belong to the process that this one was forked from",
                ));
            }
            self.late.append(&mut lock(&self.shared.failures));
            // What was made before it comes first: also what came since the look above, or is about to.
            if !self.late.is_empty() && !self.in_motion() && !goal.is_due(&self.shared.progress) {
                let (task, error) = self.late.swap_remove(0);
                return Err(self.fail(task, error));
            }
            let since = *idle.get_or_insert_with(Instant::now);
            if self.own.bell().wait(heard, Some(POLL)) {
                idle = None;
                continue;
            }
            poll()?;
            let limit = timeout();
            if let Some(text) = watchdog.get_or_insert_with(Watchdog::new).bark(since.elapsed(), || self.report()) {
                tracing::warn!("{text}");
            }
            if since.elapsed() > limit {
                return Err(Error::runtime(format!(
                    "the plan stood still for {} seconds: {}",
                    limit.as_secs(),
                    self.report()
                )));
            }
        }
    }

    /// Whether something that was made before a failure still is on its way.
    fn in_motion(&self) -> bool {
        let progress = &self.shared.progress;
        let dead = |t: usize| self.late.iter().any(|f| f.0 as usize == t);
        let ends = [self.host_in, self.host_out];
        (0..progress.n_tasks()).any(|t| !ends.contains(&Some(t)) && !dead(t) && progress.could_run(t))
    }

    /// Notes the first error; every later run says that the plan has stopped.
    fn fail(&mut self, task: u32, error: Error) -> Error {
        let several = self.shared.progress.n_tasks() > 3;
        let e = if several {
            error.context(format_args!("actor {}: ", self.shared.progress.name(task as usize)))
        } else {
            error
        };
        self.failed = Some(Error::runtime(format!("the plan has stopped after an error: {e}")));
        e
    }

    /// Who waits for whom, in words.
    pub fn report(&self) -> String {
        self.shared.progress.report()
    }

    /// Executions of a task so far.
    pub fn executions(&self, task: usize) -> u64 {
        self.shared.progress.executions(task)
    }
}

impl Network {
    /// Whether this is another process than the one that has the threads.
    fn is_forked(&self) -> bool {
        !(self.threads.is_empty() && self.readers.is_empty()) && self.process != std::process::id()
    }

    /// Stops, and waits for what is under way: for sources no longer than `limit`, and until `poll` says no.
    pub fn stop(&mut self, limit: Option<Duration>, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.is_forked() {
            // There is nobody to wait for.
            std::mem::take(&mut self.threads).into_iter().for_each(std::mem::forget);
            std::mem::take(&mut self.readers).into_iter().for_each(std::mem::forget);
        }
        self.shared.cancel.store(true, Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Release);
        if self.threads.is_empty() && self.readers.is_empty() {
            return Ok(());
        }
        self.shared.bells.iter().for_each(Bell::ring);
        for t in self.threads.drain(..) {
            let _ = t.join();
        }
        let (since, bell) = (Instant::now(), self.own.bell());
        loop {
            let heard = bell.heard();
            if self.shared.n_readers.load(Ordering::SeqCst) == 0 {
                break;
            }
            let left = limit.map_or(POLL, |l| l.saturating_sub(since.elapsed()).min(POLL));
            if left.is_zero() {
                return Ok(());
            }
            if !bell.wait(heard, Some(left)) {
                poll()?;
            }
        }
        for t in self.readers.drain(..) {
            let _ = t.join();
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.stop(Some(GRACE), &mut no_poll);
    }
}
