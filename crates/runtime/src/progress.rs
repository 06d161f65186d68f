//! The protocol of actors, as counters: how many items each has received, and how many slots each has got back.
//!
//! An actor may run when every register it consumes holds enough items and every register it produces has a free slot.
//! After a step its consumers have more items and its producers more free slots. Each counter has a single writer and a
//! single reader, possibly on different threads: a thread that reads a counter sees everything written before it grew.
//! Independent of bodies and threads.

use crate::plan::{Plan, Port, Register, Work};
use crate::sync::sync::atomic::{AtomicU64, Ordering};
use oneflow_base::Result;
use oneflow_core::Storage;
use std::collections::HashMap;

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

struct RegisterInfo {
    name: String,
    slots: u64,
    pieces: Vec<Piece>,
    /// Keeps the slots' memory alive while any task may still write to it.
    _memory: Vec<Storage>,
}

/// A consumed register, as one task sees it.
struct Consumed {
    port: Port,
    producer: u32,
    producer_port: u32,
    /// This task's number among the register's readers.
    reader: u32,
    seen: AtomicU64,
}

impl Consumed {
    /// Returns true if the items of the next step are ready, after so many steps.
    #[inline]
    fn is_full(&self, executions: u64) -> bool {
        self.seen.load(Ordering::Acquire) >= (executions + 1) * self.port.pieces as u64
    }
}

/// A produced register, as one task sees it.
struct Produced {
    port: Port,
    readers: Vec<Reader>,
}

struct Reader {
    task: u32,
    port: u32,
    given_back: AtomicU64,
}

struct TaskState {
    name: String,
    stream: u32,
    executions: AtomicU64,
    consumes: Vec<Consumed>,
    produces: Vec<Produced>,
    /// Other streams, whose tasks are notified of its steps.
    neighbours: Vec<u32>,
}

/// The numbers of every task: what runs plans, and what simulates them.
pub struct Progress {
    tasks: Vec<TaskState>,
    registers: Vec<RegisterInfo>,
    /// Inputs that a run needs and that do not follow from what its caller gives: tasks, and which of their registers.
    from_elsewhere: Vec<(u32, u32)>,
}

impl Progress {
    /// Assigns memory to every register. The caller's tasks, and whichever task consumes the caller's data, are stream 0.
    pub(crate) fn new(plan: &Plan) -> Result<Progress> {
        let mut p = Self::counters(plan);
        for (info, r) in p.registers.iter_mut().zip(&plan.registers) {
            let memory: Vec<Storage> =
                (0..r.slots).map(|_| Storage::new(r.device, r.bytes as usize)).collect::<Result<_>>()?;
            info.pieces = memory.iter().map(|s| Piece { ptr: s.ptr(), bytes: s.bytes() }).collect();
            info._memory = memory;
        }
        Ok(p)
    }

    /// The protocol alone, without memory: registers have no pieces.
    pub fn counters(plan: &Plan) -> Progress {
        let mut tasks: Vec<TaskState> = plan
            .tasks
            .iter()
            .zip(streams(plan))
            .map(|(t, stream)| TaskState {
                name: t.name.clone(),
                stream,
                executions: AtomicU64::new(0),
                consumes: t
                    .consumes
                    .iter()
                    .map(|p| Consumed { port: *p, producer: 0, producer_port: 0, reader: 0, seen: AtomicU64::new(0) })
                    .collect(),
                produces: t.produces.iter().map(|p| Produced { port: *p, readers: Vec::new() }).collect(),
                neighbours: Vec::new(),
            })
            .collect();
        // Every consumer of each register, in the order of tasks.
        let mut consumers: HashMap<u32, Vec<(usize, usize)>> = HashMap::new();
        for (b, t) in plan.tasks.iter().enumerate() {
            t.consumes.iter().enumerate().for_each(|(k, p)| consumers.entry(p.register).or_default().push((b, k)));
        }
        for a in 0..tasks.len() {
            for i in 0..tasks[a].produces.len() {
                for &(b, k) in consumers.get(&tasks[a].produces[i].port.register).into_iter().flatten() {
                    let reader = tasks[a].produces[i].readers.len() as u32;
                    let c = &mut tasks[b].consumes[k];
                    (c.producer, c.producer_port, c.reader) = (a as u32, i as u32, reader);
                    let given_back = AtomicU64::new(0);
                    tasks[a].produces[i].readers.push(Reader { task: b as u32, port: k as u32, given_back });
                }
            }
        }
        for t in 0..tasks.len() {
            let producers = tasks[t].consumes.iter().map(|c| c.producer);
            let readers = tasks[t].produces.iter().flat_map(|p| p.readers.iter().map(|r| r.task));
            let mut streams: Vec<u32> = producers.chain(readers).map(|k| tasks[k as usize].stream).collect();
            streams.sort_unstable();
            streams.dedup();
            streams.retain(|s| *s != tasks[t].stream);
            tasks[t].neighbours = streams;
        }
        let info = |r: &Register| RegisterInfo {
            name: r.name.clone(),
            slots: r.slots as u64,
            pieces: Vec::new(),
            _memory: Vec::new(),
        };
        let from_elsewhere = from_elsewhere(plan, &tasks);
        Progress { tasks, registers: plan.registers.iter().map(info).collect(), from_elsewhere }
    }

    pub fn name(&self, task: usize) -> &str {
        &self.tasks[task].name
    }
    pub fn n_tasks(&self) -> usize {
        self.tasks.len()
    }
    pub fn n_streams(&self) -> usize {
        self.tasks.iter().map(|t| t.stream as usize + 1).max().unwrap_or(1)
    }
    pub fn stream_of(&self, task: u32) -> u32 {
        self.tasks[task as usize].stream
    }
    /// Other streams that a step of this task may concern.
    pub fn neighbours(&self, task: usize) -> &[u32] {
        &self.tasks[task].neighbours
    }
    pub fn executions(&self, task: usize) -> u64 {
        self.tasks[task].executions.load(Ordering::Relaxed)
    }

    /// Returns true if every item it needs is ready and every slot it needs is free.
    #[inline]
    pub fn may_run(&self, task: usize) -> bool {
        let t = &self.tasks[task];
        let executions = t.executions.load(Ordering::Relaxed);
        t.consumes.iter().all(|c| c.is_full(executions))
            && t.produces.iter().all(|p| self.used(p, executions).0 + p.port.pieces as u64 <= self.slots(p))
    }

    /// Returns true if every input of the next run that does not come from the caller is ready.
    pub fn data_ready(&self) -> bool {
        self.from_elsewhere.iter().all(|(t, k)| {
            let task = &self.tasks[*t as usize];
            let (own, c) = (task.executions.load(Ordering::Acquire), &task.consumes[*k as usize]);
            self.made(c) >= (own + 1) * c.port.pieces as u64
        })
    }

    /// Items of a consumed register that were produced, whether or not their reader was notified.
    fn made(&self, c: &Consumed) -> u64 {
        let producer = &self.tasks[c.producer as usize];
        producer.executions.load(Ordering::Acquire) * producer.produces[c.producer_port as usize].port.pieces as u64
    }

    /// Returns true if it may run, or will once the messages under way have arrived: by the progress of all tasks, not by
    /// the messages received.
    pub fn could_run(&self, task: usize) -> bool {
        let t = &self.tasks[task];
        let executions = |k: u32| self.tasks[k as usize].executions.load(Ordering::Acquire);
        let own = executions(task as u32);
        let taken =
            |r: &Reader| executions(r.task) * self.tasks[r.task as usize].consumes[r.port as usize].port.pieces as u64;
        t.consumes.iter().all(|c| self.made(c) >= (own + 1) * c.port.pieces as u64)
            && t.produces.iter().all(|p| {
                let back = p.readers.iter().map(taken).min().unwrap_or(0);
                (own + 1) * p.port.pieces as u64 - back <= self.slots(p)
            })
    }

    #[inline]
    fn slots(&self, p: &Produced) -> u64 {
        self.registers[p.port.register as usize].slots
    }

    /// Slots of a produced register in use, and the consumer that holds the oldest.
    #[inline]
    fn used(&self, p: &Produced, executions: u64) -> (u64, Option<u32>) {
        let made = executions * p.port.pieces as u64;
        let slowest = p.readers.iter().map(|r| (r.given_back.load(Ordering::Acquire), r.task)).min_by_key(|x| x.0);
        (made - slowest.map_or(made, |s| s.0), slowest.map(|s| s.1))
    }

    /// Describes what a task waits for.
    fn waits_for(&self, task: usize) -> Vec<String> {
        let t = &self.tasks[task];
        let executions = t.executions.load(Ordering::Relaxed);
        let mut waits = Vec::new();
        for c in t.consumes.iter().filter(|c| !c.is_full(executions)) {
            let need = c.port.pieces as u64;
            let have = c.seen.load(Ordering::Relaxed) - executions * need;
            let (name, from) = (&self.registers[c.port.register as usize].name, self.name(c.producer as usize));
            waits.push(format!("waits for {name:?} from {from} ({have} of {need} pieces)"));
        }
        for p in &t.produces {
            let (used, slowest) = self.used(p, executions);
            if used + p.port.pieces as u64 > self.slots(p) {
                let by = slowest.map_or("nobody", |t| self.name(t as usize));
                let (name, slots) = (&self.registers[p.port.register as usize].name, self.slots(p));
                waits.push(format!("waits for {by} to give {name:?} back ({used} of {slots} slots in use)"));
            }
        }
        waits
    }

    /// Describes which tasks wait for what.
    pub fn report(&self) -> String {
        let line = |t| {
            let waits = self.waits_for(t);
            let state = if waits.is_empty() { "may run, or is running".to_owned() } else { waits.join(" and ") };
            format!("{} (after {} steps) {state}", self.name(t), self.executions(t))
        };
        (0..self.tasks.len()).map(line).collect::<Vec<_>>().join("; ")
    }

    /// The slots of a task's present step, per register, in lists that are reused.
    pub(crate) fn pieces(&self, task: usize, ins: &mut Vec<Vec<Piece>>, outs: &mut Vec<Vec<Piece>>) {
        let t = &self.tasks[task];
        let executions = t.executions.load(Ordering::Relaxed);
        let fill = |port: &Port, into: &mut Vec<Piece>| {
            let r = &self.registers[port.register as usize];
            let first = executions * port.pieces as u64;
            into.clear();
            into.extend((first..first + port.pieces as u64).map(|i| r.pieces[(i % r.slots) as usize]));
        };
        ins.resize_with(t.consumes.len(), Vec::new);
        outs.resize_with(t.produces.len(), Vec::new);
        t.consumes.iter().zip(ins).for_each(|(c, v)| fill(&c.port, v));
        t.produces.iter().zip(outs).for_each(|(p, v)| fill(&p.port, v));
    }

    /// Counts a step, and notifies the producers of released slots and the consumers of new items.
    pub fn executed(&self, task: usize) {
        let t = &self.tasks[task];
        t.executions.fetch_add(1, Ordering::AcqRel);
        for c in &t.consumes {
            let reader = &self.tasks[c.producer as usize].produces[c.producer_port as usize].readers[c.reader as usize];
            reader.given_back.fetch_add(c.port.pieces as u64, Ordering::AcqRel);
        }
        for p in &t.produces {
            for r in &p.readers {
                let consumed = &self.tasks[r.task as usize].consumes[r.port as usize];
                consumed.seen.fetch_add(p.port.pieces as u64, Ordering::AcqRel);
            }
        }
    }
}

/// The stream of every task: 0 is the caller's, the plan's others are numbered as they come.
pub(crate) fn streams(plan: &Plan) -> Vec<u32> {
    let given: Vec<u32> = plan
        .tasks
        .iter()
        .filter(|t| t.work == Work::HostIn)
        .flat_map(|t| t.produces.iter().map(|p| p.register))
        .collect();
    let callers = plan
        .tasks
        .iter()
        .find(|t| matches!(t.work, Work::Compute(_)) && t.consumes.iter().any(|p| given.contains(&p.register)))
        .map(|t| t.stream);
    let mut ids: HashMap<u32, u32> = HashMap::new();
    plan.tasks
        .iter()
        .map(|t| match t.work {
            Work::HostIn | Work::HostOut => 0,
            _ if Some(t.stream) == callers => 0,
            _ => {
                let next = ids.len() as u32 + 1;
                *ids.entry(t.stream).or_insert(next)
            }
        })
        .collect()
}

/// The inputs of tasks that depend on the caller whose producers do not.
fn from_elsewhere(plan: &Plan, tasks: &[TaskState]) -> Vec<(u32, u32)> {
    let mut follows: Vec<bool> = plan.tasks.iter().map(|t| t.work == Work::HostIn).collect();
    let mut todo: Vec<usize> = (0..tasks.len()).filter(|t| follows[*t]).collect();
    while let Some(a) = todo.pop() {
        for r in tasks[a].produces.iter().flat_map(|p| &p.readers) {
            if !std::mem::replace(&mut follows[r.task as usize], true) {
                todo.push(r.task as usize);
            }
        }
    }
    let mut found = Vec::new();
    for (t, task) in tasks.iter().enumerate().filter(|(t, _)| follows[*t]) {
        let others = task.consumes.iter().enumerate().filter(|(_, c)| !follows[c.producer as usize]);
        found.extend(others.map(|(k, _)| (t as u32, k as u32)));
    }
    found
}
