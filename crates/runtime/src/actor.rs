//! Actors: each waits until every register it consumes holds data and every register it produces has a free slot, acts,
//! tells its consumers "ready" and its producers "done with it". That is the whole protocol; there is no scheduler.
//!
//! One thread a stream; actors of one stream talk through their shared state, streams through channels. The caller is a
//! stream of its own. Knows pieces of memory and bodies, not what bodies do.

use crate::plan::Plan;
use oneflow_base::{Error, Result};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One slot of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub ptr: *mut u8,
    pub bytes: usize,
}
// SAFETY: an address; the protocol says who may touch the memory.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

/// What an actor does once per act.
pub trait Body: Send {
    /// `ins` and `outs`: per register the pieces of this act. `run`: what the caller gave to this run, if a register comes
    /// from the caller.
    fn act(&mut self, ins: &[Vec<Piece>], outs: &[Vec<Piece>], run: Option<&RunArgs>) -> Result<()>;
}

/// What the caller gives to one run: addresses of its inputs, of the variables and of the results, and its random position.
#[derive(Clone, Debug, Default)]
pub struct RunArgs {
    pub inputs: Vec<usize>,
    pub variables: Vec<usize>,
    pub outputs: Vec<usize>,
    pub seed: u64,
    pub offset: u64,
}

/// Messages are plain data.
enum Message {
    /// Consumer `port` of `task` has that many pieces more.
    Ready {
        task: u32,
        port: u32,
        pieces: u64,
    },
    /// Consumer number `reader` gave pieces of the register that `task` makes at `port` back.
    Done {
        task: u32,
        port: u32,
        reader: u32,
        pieces: u64,
    },
    Stop,
    Failed {
        task: u32,
        error: Error,
    },
}

/// Where a task's registers lead.
struct Wires {
    /// Per consumed port: (producer task, its port, number of this reader).
    producers: Vec<(u32, u32, u32)>,
    /// Per produced port: (consumer task, its port).
    consumers: Vec<Vec<(u32, u32)>>,
}

/// What everybody may look at: who is where, for the text of the watchdog.
struct Shared {
    names: Vec<String>,
    registers: Vec<RegisterInfo>,
    wires: Vec<Wires>,
    stream_of: Vec<u32>,
    ports: Vec<(Vec<crate::plan::Port>, Vec<crate::plan::Port>)>,
    /// Per task: acts done; per port: pieces seen and given back.
    acts: Vec<AtomicU64>,
    seen: Vec<Vec<AtomicU64>>,
    given: Vec<Vec<Vec<AtomicU64>>>,
    cancel: Arc<AtomicBool>,
    payload: Mutex<HashMap<u64, Arc<RunArgs>>>,
}

struct RegisterInfo {
    name: String,
    slots: u64,
    pieces: Vec<Piece>,
}

impl Shared {
    fn blocked(&self, task: usize) -> Option<String> {
        let acts = self.acts[task].load(Ordering::Relaxed);
        for (k, p) in self.ports[task].0.iter().enumerate() {
            let have = self.seen[task][k].load(Ordering::Relaxed) - acts * p.pieces as u64;
            if have < p.pieces as u64 {
                let from = &self.names[self.wires[task].producers[k].0 as usize];
                let name = &self.registers[p.register as usize].name;
                return Some(format!("waits for {name:?} from {from} ({have} of {} pieces)", p.pieces));
            }
        }
        for (k, p) in self.ports[task].1.iter().enumerate() {
            let (used, slowest) = self.used(task, k);
            let r = &self.registers[p.register as usize];
            if used + p.pieces as u64 > r.slots {
                let by = slowest.map_or("nobody", |t| &self.names[t as usize]);
                return Some(format!("waits for {by} to give {:?} back ({used} of {} slots in use)", r.name, r.slots));
            }
        }
        None
    }

    /// Slots of a produced register in use, and the consumer that holds the oldest.
    fn used(&self, task: usize, port: usize) -> (u64, Option<u32>) {
        let made = self.acts[task].load(Ordering::Relaxed) * self.ports[task].1[port].pieces as u64;
        let given = self.given[task][port].iter().map(|g| g.load(Ordering::Relaxed)).enumerate().min_by_key(|x| x.1);
        let slowest = given.map(|(i, _)| self.wires[task].consumers[port][i].0);
        (made - given.map_or(made, |g| g.1), slowest)
    }

    /// Who waits for whom.
    fn report(&self) -> String {
        let lines = (0..self.names.len()).map(|t| {
            let state = self.blocked(t).unwrap_or_else(|| "is acting".into());
            format!("{} (after {} acts) {state}", self.names[t], self.acts[t].load(Ordering::Relaxed))
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    fn pieces(&self, port: &crate::plan::Port, acts: u64) -> Vec<Piece> {
        let r = &self.registers[port.register as usize];
        let first = acts * port.pieces as u64;
        (first..first + port.pieces as u64).map(|i| r.pieces[(i % r.slots) as usize]).collect()
    }

    fn receive(&self, m: &Message) {
        match m {
            Message::Ready { task, port, pieces } => {
                self.seen[*task as usize][*port as usize].fetch_add(*pieces, Ordering::AcqRel);
            }
            Message::Done { task, port, reader, pieces } => {
                self.given[*task as usize][*port as usize][*reader as usize].fetch_add(*pieces, Ordering::AcqRel);
            }
            _ => {}
        }
    }
}

/// A running plan. Dropping it stops and joins its threads.
pub struct Network {
    shared: Arc<Shared>,
    senders: Vec<Sender<Message>>,
    inbox: Receiver<Message>,
    threads: Vec<JoinHandle<()>>,
    host_in: Option<usize>,
    host_out: Option<usize>,
    failed: Option<Error>,
}

/// How long a run may stand still before it ends with an error.
fn timeout() -> Duration {
    let seconds = std::env::var("ONEFLOW_TIMEOUT_SECONDS").ok().and_then(|s| s.parse().ok());
    Duration::from_secs(seconds.unwrap_or(7200))
}

/// How often the caller looks for Ctrl-C.
const POLL: Duration = Duration::from_millis(50);

impl Network {
    /// Starts the threads. `bodies`: one per task, none for the caller's ends. `slots`: the memory of every register.
    /// Tasks without data act at once.
    pub fn start(
        plan: &Plan,
        bodies: Vec<Option<Box<dyn Body>>>,
        slots: Vec<Vec<Piece>>,
        cancel: Arc<AtomicBool>,
    ) -> Result<Network> {
        plan.check_credits()?;
        let shared = Arc::new(wire(plan, slots, cancel));
        let end = |w: crate::plan::Work| plan.tasks.iter().position(|t| t.work == w);
        let host_in = end(crate::plan::Work::HostIn);
        let host_out = end(crate::plan::Work::HostOut);
        let mut streams: Vec<Vec<(usize, Box<dyn Body>)>> = Vec::new();
        let n_streams = shared.stream_of.iter().max().map_or(0, |m| *m as usize) + 1;
        streams.resize_with(n_streams, Vec::new);
        for (t, body) in bodies.into_iter().enumerate() {
            if let Some(body) = body {
                streams[shared.stream_of[t] as usize].push((t, body));
            }
        }
        // Stream 0 is the caller's.
        let (mut senders, mut inboxes) = (Vec::new(), Vec::new());
        for _ in 0..n_streams {
            let (s, r) = channel();
            senders.push(s);
            inboxes.push(r);
        }
        let mut inboxes = inboxes.into_iter();
        let inbox = inboxes.next().ok_or_else(|| Error::runtime("no stream"))?;
        let mut n = Network { shared, senders, inbox, threads: Vec::new(), host_in, host_out, failed: None };
        for ((i, actors), inbox) in streams.into_iter().enumerate().skip(1).zip(inboxes) {
            let stream = Stream { id: i as u32, shared: n.shared.clone(), actors, senders: n.senders.clone(), inbox };
            let thread = std::thread::Builder::new()
                .name(format!("oneflow-stream-{i}"))
                .spawn(move || stream.run())
                .map_err(|e| Error::runtime(format!("cannot start a thread for a stream: {e}")))?;
            n.threads.push(thread);
        }
        Ok(n)
    }

    /// Starts one run: waits for a free slot of the caller's register first.
    pub fn submit(&mut self, args: RunArgs, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let Some(t) = self.host_in else { return Err(Error::runtime("the plan takes nothing from its caller")) };
        self.wait(t, poll)?;
        let acts = self.shared.acts[t].load(Ordering::Relaxed);
        self.shared.payload.lock().unwrap_or_else(|e| e.into_inner()).insert(acts, Arc::new(args));
        self.finish_act(t);
        Ok(())
    }

    /// Waits for the result of one run; `use_it` sees its pieces before they go back.
    pub fn collect(
        &mut self,
        poll: &mut dyn FnMut() -> Result<()>,
        use_it: &mut dyn FnMut(&[Vec<Piece>]) -> Result<()>,
    ) -> Result<()> {
        let Some(t) = self.host_out else { return Err(Error::runtime("the plan gives nothing to its caller")) };
        self.wait(t, poll)?;
        let acts = self.shared.acts[t].load(Ordering::Relaxed);
        let pieces: Vec<Vec<Piece>> = self.shared.ports[t].0.iter().map(|p| self.shared.pieces(p, acts)).collect();
        let r = use_it(&pieces);
        self.shared.payload.lock().unwrap_or_else(|e| e.into_inner()).remove(&acts);
        self.finish_act(t);
        r
    }

    /// Waits until one of the caller's ends may act.
    fn wait(&mut self, task: usize, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if let Some(e) = &self.failed {
            return Err(e.clone());
        }
        let started = Instant::now();
        let limit = timeout();
        while self.shared.blocked(task).is_some() {
            match self.inbox.recv_timeout(POLL) {
                Ok(Message::Failed { task, error }) => {
                    let e = if self.shared.names.len() > 3 {
                        error.context(format_args!("actor {}: ", self.shared.names[task as usize]))
                    } else {
                        error
                    };
                    self.failed = Some(Error::runtime(format!("the plan has stopped after an error: {e}")));
                    return Err(e);
                }
                Ok(m) => self.shared.receive(&m),
                Err(RecvTimeoutError::Timeout) => {
                    poll()?;
                    if started.elapsed() > limit {
                        return Err(Error::runtime(format!(
                            "the plan stood still for {} seconds: {}",
                            limit.as_secs(),
                            self.shared.report()
                        )));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Error::runtime("the plan's threads have ended")),
            }
        }
        Ok(())
    }

    fn finish_act(&self, t: usize) {
        self.shared.acts[t].fetch_add(1, Ordering::AcqRel);
        for (to, m) in after_act(&self.shared, t) {
            let _ = self.senders[self.shared.stream_of[to as usize] as usize].send(m);
        }
    }

    /// Who waits for whom, in words.
    pub fn report(&self) -> String {
        self.shared.report()
    }

    /// Acts of a task so far.
    pub fn acts(&self, task: usize) -> u64 {
        self.shared.acts[task].load(Ordering::Relaxed)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.shared.cancel.store(true, Ordering::Relaxed);
        for s in &self.senders {
            let _ = s.send(Message::Stop);
        }
        for t in self.threads.drain(..) {
            let _ = t.join();
        }
    }
}

/// The messages an act causes, with the task they go to.
fn after_act(shared: &Shared, t: usize) -> Vec<(u32, Message)> {
    let mut out = Vec::new();
    for (p, &(task, port, reader)) in shared.ports[t].0.iter().zip(&shared.wires[t].producers) {
        out.push((task, Message::Done { task, port, reader, pieces: p.pieces as u64 }));
    }
    for (p, readers) in shared.ports[t].1.iter().zip(&shared.wires[t].consumers) {
        for &(task, port) in readers {
            out.push((task, Message::Ready { task, port, pieces: p.pieces as u64 }));
        }
    }
    out
}

fn wire(plan: &Plan, slots: Vec<Vec<Piece>>, cancel: Arc<AtomicBool>) -> Shared {
    let n = plan.tasks.len();
    let mut wires: Vec<Wires> = plan
        .tasks
        .iter()
        .map(|t| Wires { producers: vec![(0, 0, 0); t.consumes.len()], consumers: vec![Vec::new(); t.produces.len()] })
        .collect();
    for (a, t) in plan.tasks.iter().enumerate() {
        for (i, p) in t.produces.iter().enumerate() {
            for (b, u) in plan.tasks.iter().enumerate() {
                for k in (0..u.consumes.len()).filter(|k| u.consumes[*k].register == p.register) {
                    let reader = wires[a].consumers[i].len() as u32;
                    wires[a].consumers[i].push((b as u32, k as u32));
                    wires[b].producers[k] = (a as u32, i as u32, reader);
                }
            }
        }
    }
    let counters = |n: usize| -> Vec<AtomicU64> { (0..n).map(|_| AtomicU64::new(0)).collect() };
    let mut ids: HashMap<u32, u32> = HashMap::new();
    let stream_of = plan
        .tasks
        .iter()
        .map(|t| match t.work {
            crate::plan::Work::HostIn | crate::plan::Work::HostOut => 0,
            _ => {
                let next = ids.len() as u32 + 1;
                *ids.entry(t.stream).or_insert(next)
            }
        })
        .collect();
    Shared {
        names: plan.tasks.iter().map(|t| t.name.clone()).collect(),
        registers: plan
            .registers
            .iter()
            .zip(slots)
            .map(|(r, pieces)| RegisterInfo { name: r.name.clone(), slots: r.slots as u64, pieces })
            .collect(),
        stream_of,
        ports: plan.tasks.iter().map(|t| (t.consumes.clone(), t.produces.clone())).collect(),
        acts: counters(n),
        seen: plan.tasks.iter().map(|t| counters(t.consumes.len())).collect(),
        given: wires.iter().map(|w| w.consumers.iter().map(|c| counters(c.len())).collect()).collect(),
        wires,
        cancel,
        payload: Mutex::new(HashMap::new()),
    }
}

/// The thread of one stream.
struct Stream {
    id: u32,
    shared: Arc<Shared>,
    actors: Vec<(usize, Box<dyn Body>)>,
    senders: Vec<Sender<Message>>,
    inbox: Receiver<Message>,
}

impl Stream {
    fn run(mut self) {
        loop {
            while let Ok(m) = self.inbox.try_recv() {
                if matches!(m, Message::Stop) {
                    return;
                }
                self.shared.receive(&m);
            }
            match self.act_once() {
                Ok(true) => {}
                Ok(false) => match self.inbox.recv() {
                    Ok(Message::Stop) | Err(_) => return,
                    Ok(m) => self.shared.receive(&m),
                },
                Err((task, error)) => {
                    let _ = self.senders[0].send(Message::Failed { task, error });
                    // The failed stream acts no more; it only waits to be stopped.
                    while !matches!(self.inbox.recv(), Ok(Message::Stop) | Err(_)) {}
                    return;
                }
            }
        }
    }

    /// Lets the first actor that can act do so.
    fn act_once(&mut self) -> Result<bool, (u32, Error)> {
        if self.shared.cancel.load(Ordering::Relaxed) {
            return Ok(false);
        }
        for (t, body) in &mut self.actors {
            let t = *t;
            if self.shared.blocked(t).is_some() {
                continue;
            }
            let shared = &self.shared;
            let acts = shared.acts[t].load(Ordering::Relaxed);
            let side = |ports: &[crate::plan::Port]| -> Vec<Vec<Piece>> {
                ports.iter().map(|p| shared.pieces(p, acts)).collect()
            };
            let (ins, outs) = (side(&shared.ports[t].0), side(&shared.ports[t].1));
            let run = shared.payload.lock().unwrap_or_else(|e| e.into_inner()).get(&acts).cloned();
            let done = catch_unwind(AssertUnwindSafe(|| body.act(&ins, &outs, run.as_deref())));
            done.unwrap_or_else(|_| Err(Error::runtime("internal error: an actor panicked")))
                .map_err(|e| (t as u32, e))?;
            shared.acts[t].fetch_add(1, Ordering::AcqRel);
            for (to, m) in after_act(shared, t) {
                let stream = shared.stream_of[to as usize];
                if stream == self.id {
                    shared.receive(&m);
                } else {
                    let _ = self.senders[stream as usize].send(m);
                }
            }
            return Ok(true);
        }
        Ok(false)
    }
}
