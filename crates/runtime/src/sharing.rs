//! Memory that several tasks use: what is written must be ordered by the registers between them, within a step and from one step
//! to the next. A communication stream works on the arena of the compute stream under this rule.
//!
//! A register whose producer and consumer take as many pieces orders them: the consumer's n-th step comes after the producer's.
//! Steps follow one another if all tasks come after the producer of a register of one step, and before one of its consumers.

use crate::lower::find;
use crate::plan::*;
use crate::progress::streams;
use oneflow_base::{Error, Result};
use oneflow_core::Traits;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[cold]
fn bad(what: String) -> Error {
    Error::value(format!("plan: {what}"))
}

/// One task's use of a buffer.
#[derive(Clone, Copy)]
struct Use {
    task: usize,
    /// The first and the last instruction that touch it.
    first: usize,
    last: usize,
    writes: bool,
}

/// Which tasks come after which, within a step.
pub(crate) struct Order {
    /// A position of every task that no register contradicts.
    position: Vec<usize>,
    /// Per task, a bit for each task that comes after it.
    after: Vec<Vec<u64>>,
}

impl Order {
    pub fn of(plan: &Plan) -> Order {
        let n = plan.tasks.len();
        let mut producer: HashMap<u32, (usize, u32)> = HashMap::new();
        for (t, task) in plan.tasks.iter().enumerate() {
            task.produces.iter().for_each(|p| {
                producer.insert(p.register, (t, p.pieces));
            });
        }
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); n];
        let mut waits = vec![0usize; n];
        for (b, task) in plan.tasks.iter().enumerate() {
            for p in &task.consumes {
                if let Some(&(a, pieces)) = producer.get(&p.register)
                    && pieces == p.pieces
                {
                    next[a].push(b);
                    waits[b] += 1;
                }
            }
        }
        let mut sorted: Vec<usize> = (0..n).filter(|t| waits[*t] == 0).collect();
        let mut at = 0;
        while let Some(&t) = sorted.get(at) {
            at += 1;
            for &b in &next[t] {
                waits[b] -= 1;
                if waits[b] == 0 {
                    sorted.push(b);
                }
            }
        }
        // Tasks in a circle never run: they come after nothing, and nothing comes after them.
        let mut position = vec![n; n];
        sorted.iter().enumerate().for_each(|(i, t)| position[*t] = i);
        let mut after = vec![vec![0u64; n.div_ceil(64)]; n];
        for &a in sorted.iter().rev() {
            let mut own = std::mem::take(&mut after[a]);
            for &b in next[a].iter().filter(|b| position[**b] < n) {
                own[b / 64] |= 1 << (b % 64);
                own.iter_mut().zip(&after[b]).for_each(|(x, y)| *x |= y);
            }
            after[a] = own;
        }
        Order { position, after }
    }

    /// Returns true if each step of `a` comes before the same step of `b`.
    pub fn is_before(&self, a: usize, b: usize) -> bool {
        self.after[a][b / 64] >> (b % 64) & 1 == 1
    }
}

impl Plan {
    /// Tasks that use the same memory follow one another, and buffers of an arena that are alive at the same time lie on
    /// different bytes.
    pub(crate) fn check_sharing(&self) -> Result<()> {
        let order = Order::of(self);
        let uses = self.uses();
        self.check_results_awaited(&order, &uses)?;
        let mut owners: BTreeMap<(u8, u32), BTreeSet<usize>> = BTreeMap::new();
        for (b, uses) in &uses {
            let place = match self.buffers[*b as usize].home {
                Home::Arena { arena, .. } => (0, arena),
                Home::Output(k) => (1, k),
                Home::Input(k) => (2, k),
                Home::Variable(k) => (3, k),
                Home::Register { .. } => continue,
            };
            // Several may read what the caller gives at the same time.
            if place.0 < 2 || uses.iter().any(|u| u.writes) {
                owners.entry(place).or_default().extend(uses.iter().map(|u| u.task));
            }
        }
        for tasks in owners.values().filter(|t| t.len() > 1) {
            self.check_steps(&order, tasks)?;
        }
        for (b, uses) in &uses {
            if !matches!(self.buffers[*b as usize].home, Home::Register { .. }) {
                self.check_turns(&order, uses)?;
            }
        }
        self.check_lifetimes(&order, &uses)
    }

    /// Per buffer, the tasks that touch it, in the order of tasks.
    fn uses(&self) -> BTreeMap<u32, Vec<Use>> {
        let mut uses: BTreeMap<u32, Vec<Use>> = BTreeMap::new();
        let mut mutating: HashMap<&str, bool> = HashMap::new();
        for (task, t) in self.tasks.iter().enumerate() {
            let Work::Compute(program) = &t.work else { continue };
            for (at, i) in program.iter().enumerate() {
                // An op that updates inputs may write any operand.
                let mutates = i.steps.iter().any(|s| {
                    let known = mutating.entry(s.op.as_str());
                    *known.or_insert_with(|| find(&s.op).is_ok_and(|op| op.traits.has(Traits::MUTATES)))
                });
                let ins = i.ins.iter().map(|o| (o.buffer, mutates));
                for (buffer, writes) in ins.chain(i.outs.iter().map(|o| (o.buffer, true))) {
                    let all = uses.entry(buffer).or_default();
                    match all.last_mut() {
                        Some(u) if u.task == task => (u.last, u.writes) = (at, u.writes | writes),
                        _ => all.push(Use { task, first: at, last: at, writes }),
                    }
                }
            }
        }
        uses
    }

    #[cold]
    fn shared(&self, a: usize, b: usize) -> Error {
        let (a, b) = (&self.tasks[a].name, &self.tasks[b].name);
        bad(format!("tasks {a:?} and {b:?} use the same memory, and no register orders them"))
    }

    /// The caller takes its memory back when it has the results: whoever uses it must come before.
    fn check_results_awaited(&self, order: &Order, uses: &BTreeMap<u32, Vec<Use>>) -> Result<()> {
        let Some(end) = self.tasks.iter().position(|t| t.work == Work::HostOut) else { return Ok(()) };
        for (b, uses) in uses {
            if matches!(self.buffers[*b as usize].home, Home::Input(_) | Home::Output(_))
                && let Some(u) = uses.iter().find(|u| !order.is_before(u.task, end))
            {
                return Err(bad(format!(
                    "task {:?} uses the caller's memory, and the caller does not wait for it",
                    self.tasks[u.task].name
                )));
            }
        }
        Ok(())
    }

    /// All steps of these tasks come before their next ones.
    fn check_steps(&self, order: &Order, tasks: &BTreeSet<usize>) -> Result<()> {
        if self.registers_of_one_step().any(|(from, to)| {
            let from = from.is_some_and(|a| tasks.iter().all(|t| *t == a || order.is_before(a, *t)));
            from && to.iter().any(|b| tasks.iter().all(|t| t == b || order.is_before(*t, *b)))
        }) {
            return Ok(());
        }
        let name = |t: Option<&usize>| t.map_or("", |t| self.tasks[*t].name.as_str());
        Err(bad(format!(
            "tasks {:?} and {:?} use the same memory, and the one may begin a step before the other has ended the last",
            name(tasks.first()),
            name(tasks.last())
        )))
    }

    /// Registers that hold the pieces of one step alone: their producer, and their consumers that take as many.
    fn registers_of_one_step(&self) -> impl Iterator<Item = (Option<usize>, Vec<usize>)> {
        let mut found: BTreeMap<u32, (Option<usize>, Vec<usize>)> = BTreeMap::new();
        for (t, task) in self.tasks.iter().enumerate() {
            let one_step = |p: &&Port| self.registers[p.register as usize].slots == p.pieces;
            task.produces.iter().filter(one_step).for_each(|p| found.entry(p.register).or_default().0 = Some(t));
            task.consumes.iter().filter(one_step).for_each(|p| found.entry(p.register).or_default().1.push(t));
        }
        found.into_values()
    }

    /// Returns true if `first` begins a step when `last`, which comes after it, has ended the one before: it follows from a
    /// register of one step that `last`, or a task after it, gives back.
    fn steps_follow(&self, order: &Order, first: usize, last: usize) -> bool {
        self.registers_of_one_step().any(|(from, to)| {
            let from = from.is_some_and(|a| a == first || order.is_before(a, first));
            from && to.iter().any(|b| *b == last || order.is_before(last, *b))
        })
    }

    /// By stream: whether its tasks, the caller's own aside, can only run one after another, in their order, again and again.
    pub fn turns(&self) -> Vec<bool> {
        let order = Order::of(self);
        let mut tasks: Vec<Vec<usize>> = Vec::new();
        for (t, stream) in streams(self).into_iter().enumerate() {
            tasks.resize_with(tasks.len().max(stream as usize + 1), Vec::new);
            if !matches!(self.tasks[t].work, Work::HostIn | Work::HostOut) {
                tasks[stream as usize].push(t);
            }
        }
        let in_turn = |tasks: &Vec<usize>| {
            let follow = tasks.windows(2).all(|w| order.is_before(w[0], w[1]));
            tasks.len() < 2 || follow && self.steps_follow(&order, tasks[0], tasks[tasks.len() - 1])
        };
        tasks.iter().map(in_turn).collect()
    }

    /// Tasks that touch one buffer take turns, unless all of them read it.
    fn check_turns(&self, order: &Order, uses: &[Use]) -> Result<()> {
        if uses.len() < 2 {
            return Ok(());
        }
        let mut uses = uses.to_vec();
        uses.sort_by_key(|u| order.position[u.task]);
        let (mut written, mut readers): (Option<usize>, Vec<usize>) = (None, Vec::new());
        for u in &uses {
            let earlier = readers.iter().filter(|_| u.writes).chain(&written);
            if let Some(t) = earlier.into_iter().find(|t| !order.is_before(**t, u.task)) {
                return Err(self.shared(*t, u.task));
            }
            if u.writes {
                readers.clear();
                written = Some(u.task);
            } else {
                readers.push(u.task);
            }
        }
        Ok(())
    }

    /// Buffers of an arena that are alive at the same time lie on different bytes: every use of the one comes before every
    /// use of the other.
    fn check_lifetimes(&self, order: &Order, uses: &BTreeMap<u32, Vec<Use>>) -> Result<()> {
        let mut placed: Vec<(u32, u64, u64, u32)> = Vec::new();
        let mut born: Vec<((usize, usize), usize)> = Vec::new();
        for (b, uses) in uses {
            let buffer = &self.buffers[*b as usize];
            if let Home::Arena { arena, offset } = buffer.home
                && buffer.bytes > 0
            {
                let first = uses.iter().map(|u| (order.position[u.task], u.first)).min().unwrap_or_default();
                born.push((first, placed.len()));
                placed.push((arena, offset, offset + buffer.bytes, *b));
            }
        }
        born.sort_unstable();
        let ends_before = |a: u32, b: u32| {
            uses[&a].iter().all(|x| {
                let is_before =
                    |y: &Use| if x.task == y.task { x.last < y.first } else { order.is_before(x.task, y.task) };
                uses[&b].iter().all(is_before)
            })
        };
        // Who had which bytes last: ranges that do not overlap, by arena and start.
        let mut had: BTreeMap<(u32, u64), (u64, u32)> = BTreeMap::new();
        for (_, k) in born {
            let (arena, from, to, b) = placed[k];
            let start = had.range(..=(arena, from)).next_back().map_or((arena, from), |(at, _)| *at);
            let met: Vec<((u32, u64), (u64, u32))> = had
                .range(start..(arena, to))
                .filter(|(at, r)| at.0 == arena && r.0 > from)
                .map(|(at, r)| (*at, *r))
                .collect();
            for ((_, at), (end, a)) in met {
                if !ends_before(a, b) {
                    return Err(bad(format!("buffers {a} and {b} are alive at the same time on the same bytes")));
                }
                had.remove(&(arena, at));
                if at < from {
                    had.insert((arena, at), (from, a));
                }
                if end > to {
                    had.insert((arena, to), (end, a));
                }
            }
            had.insert((arena, from), (to, b));
        }
        Ok(())
    }
}
