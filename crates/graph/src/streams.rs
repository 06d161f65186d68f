//! The tasks of a plan: one compute actor, or, where ranks talk or variables lie on the host, stretches of it and the collectives
//! and copies that run beside them. What is said of collectives here holds for the copies.
//!
//! A collective leaves the compute stream if work is there that does not touch its operands: it is issued where it stood, and
//! the compute stream waits for it where its result is touched next. The program is cut at these places into segments; registers
//! without memory pass from one to the next, and `run` is given back by the last, so steps do not overlap.
//!
//! Ranks cannot deadlock by this. Every dependency of a task is on what stood before it in the rank's program; so whatever order
//! of collectives that program and those of other ranks allow together is allowed here. Collectives of one group keep their
//! order: those of one stream follow each other through registers, and one that stays on the compute stream waits for those
//! of its group that were issued before.

use crate::Config;
use oneflow_base::Device;
use oneflow_runtime::{Instr, Plan, Port, Register, Task, Work};
use std::collections::{BTreeSet, HashMap};

/// A line that leaves the compute stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streamed {
    pub line: usize,
    /// The line before which it must have ended; behind the last line: the end of the step.
    pub until: usize,
    pub stream: u32,
    /// It fetches a variable from the host, and no rank talks.
    pub fetches: bool,
}

/// What is known of a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fact {
    /// The memories that it reads, and those that it writes.
    pub ins: Vec<usize>,
    pub outs: Vec<usize>,
    /// The group in which it talks; `FETCHES` for copies of variables from the host.
    pub lane: Option<usize>,
    /// Its estimated seconds of work.
    pub seconds: f64,
    /// It may write what it reads.
    pub updates: bool,
}

/// The lane of copies of variables from the host: they follow each other over its link.
pub(crate) const FETCHES: usize = usize::MAX;

/// Collectives that may leave the compute stream: each cuts it twice, and plans of too many tasks are refused.
const MOST: usize = 1000;

/// The credits of a group: its collectives that may be under way before the compute stream waits for the first of them. Their
/// operands stay in memory until it does, also those that nobody reads any more.
const UNDER_WAY: usize = 2;

/// The collectives that run beside the compute stream.
pub(crate) fn streamed(facts: &[Fact], config: &Config) -> Vec<Streamed> {
    if config.streams == 0 || facts.iter().all(|f| f.lane.is_none()) {
        return Vec::new();
    }
    // Per class the lines that touch it, and whether they write.
    let mut touches: HashMap<usize, Vec<(usize, bool)>> = HashMap::new();
    for (at, fact) in facts.iter().enumerate() {
        let ins = fact.ins.iter().map(|class| (*class, fact.updates));
        ins.chain(fact.outs.iter().map(|class| (*class, true)))
            .for_each(|(class, writes)| touches.entry(class).or_default().push((at, writes)));
    }
    let n = facts.len();
    let next = |class: usize, at: usize, writes: bool| {
        let later = touches.get(&class).into_iter().flatten().filter(|t| t.0 > at && (t.1 || !writes));
        later.map(|t| t.0).next().unwrap_or(n)
    };
    // Seconds of work before each line: that of collectives is no work to hide behind.
    let mut before = vec![0.0];
    for f in facts {
        before.push(before[before.len() - 1] + if f.lane.is_none() { f.seconds } else { 0.0 });
    }
    // By group, the next collective that stays on the compute stream.
    let mut barrier: HashMap<usize, usize> = HashMap::new();
    // By group, those that leave it, the latest first.
    let mut leave: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut found = Vec::new();
    for (at, fact) in facts.iter().enumerate().rev() {
        let Some(lane) = fact.lane else { continue };
        let result = fact.outs.iter().map(|class| next(*class, at, false));
        let operand = fact.ins.iter().map(|class| next(*class, at, true));
        let touched = result.chain(operand).min().unwrap_or(n);
        let later = leave.entry(lane).or_default();
        let credit = later.len().checked_sub(UNDER_WAY).map_or(n, |k| later[k]);
        let until = touched.min(credit).min(barrier.get(&lane).copied().unwrap_or(n));
        let hidden = before[until] - before[at];
        let is_worth_it = hidden > 0.0 && hidden >= config.least_hidden && !fact.updates;
        if !is_worth_it || found.len() >= MOST {
            barrier.insert(lane, at);
        } else {
            later.push(at);
            found.push((lane, Streamed { line: at, until, stream: 0, fetches: lane == FETCHES }));
        }
    }
    found.reverse();
    // Groups in the order of their first collective; the streams are shared out among them.
    let mut numbers: HashMap<usize, u32> = HashMap::new();
    for (lane, s) in &mut found {
        let n = numbers.len() as u32;
        s.stream = FIRST + *numbers.entry(*lane).or_insert(n) % config.streams;
    }
    found.into_iter().map(|f| f.1).collect()
}

/// The compute stream, and the first of those behind it.
const COMPUTE: u32 = 1;
const FIRST: u32 = 2;

/// Registers and tasks of a program.
pub(crate) fn tasks(device: Device, outputs: u32, program: Vec<Instr>, streamed: &[Streamed]) -> Plan {
    let register = |name: String, slots| Register { name, device, bytes: 0, slots };
    let port = |register: usize| Port { register: register as u32, pieces: 1 };
    let mut registers = vec![register("run".into(), 1), register("result".into(), outputs)];
    // Positions among the lines that stay, from here on.
    let stays = |line: usize| line - streamed.iter().take_while(|s| s.line < line).count();
    let at: Vec<(usize, usize)> = streamed.iter().map(|s| (stays(s.line), stays(s.until))).collect();
    let mut cuts: BTreeSet<usize> = at.iter().flat_map(|a| [a.0, a.1]).collect();
    cuts.insert(0);
    let cuts: Vec<usize> = cuts.into_iter().collect();
    let n_segments = cuts.len();
    // What segment `k` gives to the next one is register `2 + k`, what a collective gives those behind.
    for k in 1..n_segments {
        registers.push(register(format!("segment {k}"), 1));
    }
    let done = |i: usize| 1 + n_segments + i;
    let name_of = |i: usize| format!("{} {}", if streamed[i].fetches { "fetch" } else { "collective" }, i + 1);
    for i in 0..streamed.len() {
        registers.push(register(name_of(i), 1));
    }
    let mut own: HashMap<usize, Instr> = HashMap::new();
    let mut rest = Vec::with_capacity(program.len());
    let mut next = 0;
    for (line, instr) in program.into_iter().enumerate() {
        if streamed.get(next).is_some_and(|s| s.line == line) {
            own.insert(next, instr);
            next += 1;
        } else {
            rest.push(instr);
        }
    }
    let caller = |name: &str, work, consumes, produces| Task { name: name.into(), stream: 0, work, consumes, produces };
    let mut tasks = vec![caller("caller", Work::HostIn, Vec::new(), vec![port(0)])];
    let mut rest = rest.into_iter();
    for (k, start) in cuts.iter().enumerate() {
        let (is_last, end) = (k + 1 == n_segments, cuts.get(k + 1).copied());
        let mut consumes: Vec<Port> = if k == 0 { vec![port(0)] } else { vec![port(1 + k)] };
        if is_last && k > 0 {
            consumes.push(port(0));
        }
        consumes.extend(at.iter().enumerate().filter(|(_, a)| k > 0 && a.1 == *start).map(|(i, _)| port(done(i))));
        let work = match end {
            Some(end) => rest.by_ref().take(end - start).collect(),
            None => rest.by_ref().collect(),
        };
        let name = if n_segments == 1 { "compute".into() } else { format!("compute {}", k + 1) };
        let produces = vec![port(if is_last { 1 } else { 2 + k })];
        tasks.push(Task { name, stream: COMPUTE, work: Work::Compute(work), consumes, produces });
        // Those that are issued when this segment has ended; those at the start follow the first segment here and not there.
        let issued_at = |a: &(usize, usize)| Some(a.0) == end || k == 0 && a.0 == 0;
        for (i, a) in at.iter().enumerate().filter(|(_, a)| issued_at(a)) {
            let mut consumes = vec![port(if a.0 == 0 { 0 } else { 2 + k })];
            // The one before it on its stream, and those that the segment behind this one waits for: it may be why.
            let previous = (0..i).rev().find(|j| streamed[*j].stream == streamed[i].stream);
            let ended = (0..i).filter(|j| Some(*j) == previous || at[*j].1 == a.0);
            consumes.extend(ended.map(|j| port(done(j))));
            tasks.push(Task {
                name: name_of(i),
                stream: streamed[i].stream,
                work: Work::Compute(own.remove(&i).into_iter().collect()),
                consumes,
                produces: vec![port(done(i))],
            });
        }
    }
    tasks.push(caller("receiver", Work::HostOut, vec![port(1)], Vec::new()));
    Plan { registers, tasks, ..Plan::default() }
}
