//! What a rank's plan holds, and what of it is alive when most is.

use oneflow_base::{Device, Result};
use oneflow_runtime::{Home, Plan, Task, Work, price};
use std::collections::{HashMap, HashSet};

/// Bytes of one rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Outlives runs, by name.
    pub variables: Vec<(String, u64)>,
    /// Further variables lie on a disk or in memory of the host: their bytes, and how many of them stay in the device's memory.
    pub offloaded: u64,
    pub window: u64,
    pub inputs: u64,
    pub outputs: u64,
    /// Registers of sources and between actors, with all their slots.
    pub registers: u64,
    /// The planned arena, which has room for what is alive at once and for gaps.
    pub arena: u64,
    /// Of the arena when most is alive: gradients that an update reads, and everything else that the step computes.
    pub gradients: u64,
    pub activations: u64,
    /// Copies that the communication with other ranks takes at most.
    pub communication: u64,
    /// The instruction at which most is alive, and what is alive then: the instruction that made it, and bytes.
    pub peak_at: String,
    pub holders: Vec<(String, u64)>,
    /// Bytes alive in the arena and for communication during each instruction.
    pub curve: Vec<u64>,
    origins: Vec<String>,
}

/// Variables that lie on a disk between the instructions that need them, or in memory of the host.
#[derive(Clone, Debug, Default)]
pub struct Offloaded {
    /// By the names that plans have for them.
    pub names: HashSet<String>,
    /// Bytes of them that stay in memory.
    pub window: u64,
    /// Instructions read and write them in memory of the host, over the device's link to it.
    pub on_host: bool,
}

impl Memory {
    /// `scratch`: bytes that each instruction takes beside the plan's buffers.
    pub(crate) fn of(plan: &Plan, scratch: &[u64]) -> Result<Memory> {
        let instrs: Vec<_> =
            plan.tasks.iter().flat_map(|t| if let Work::Compute(p) = &t.work { p.as_slice() } else { &[] }).collect();
        // First and last instruction of a buffer, and whether an update reads it.
        let mut lives: Vec<Option<(usize, usize, bool)>> = vec![None; plan.buffers.len()];
        for (at, i) in instrs.iter().enumerate() {
            let updates = i.outs.is_empty() && price(i, Device::CPU)?.updates;
            for o in i.ins.iter().chain(&i.outs) {
                if matches!(plan.buffers[o.buffer as usize].home, Home::Arena { .. }) {
                    let l = lives[o.buffer as usize].get_or_insert((at, at, false));
                    l.1 = at;
                    l.2 |= updates;
                }
            }
        }
        for (from, to, until) in beside(plan) {
            for o in instrs[from..to].iter().flat_map(|i| i.ins.iter().chain(&i.outs)) {
                lives[o.buffer as usize].iter_mut().for_each(|l| l.1 = l.1.max(until));
            }
        }
        let mut change = vec![0i64; instrs.len() + 1];
        for (b, l) in plan.buffers.iter().zip(&lives) {
            if let Some((from, to, _)) = l {
                change[*from] += b.bytes as i64;
                change[to + 1] -= b.bytes as i64;
            }
        }
        let mut now = 0i64;
        let live: Vec<u64> = change
            .iter()
            .take(instrs.len())
            .map(|c| {
                now += c;
                now as u64
            })
            .collect();
        let at = (0..live.len()).max_by_key(|t| (live[*t], std::cmp::Reverse(*t)));
        let homes = |f: &dyn Fn(&Home) -> bool| plan.buffers.iter().filter(|b| f(&b.home)).map(|b| b.bytes).sum();
        let mut m = Memory {
            variables: plan.variables.iter().map(|v| (v.name.clone(), plan.buffers[v.buffer as usize].bytes)).collect(),
            inputs: homes(&|h| matches!(h, Home::Input(_))),
            outputs: homes(&|h| matches!(h, Home::Output(_))),
            registers: plan.registers.iter().map(|r| r.bytes * r.slots as u64).sum(),
            arena: plan.arenas.iter().map(|a| a.bytes).sum(),
            communication: scratch_of(plan, scratch),
            curve: live.iter().zip(scratch).map(|(a, b)| a + b).collect(),
            origins: instrs.iter().map(|i| i.origin.clone()).collect(),
            ..Memory::default()
        };
        let Some(at) = at else { return Ok(m) };
        m.peak_at = instrs[at].origin.clone();
        // By arena and place: gradients may lie in a bucket that is alive too, and those bytes are there once.
        let mut alive = Vec::new();
        for (k, l) in lives.iter().enumerate() {
            let Some((from, to, is_gradient)) = *l else { continue };
            let (bytes, home) = (plan.buffers[k].bytes, &plan.buffers[k].home);
            if let (true, Home::Arena { arena, offset }) = (from <= at && at <= to, home) {
                alive.push(((*arena, *offset), *offset + bytes, is_gradient));
                m.holders.push((instrs[from].origin.clone(), bytes));
            }
        }
        (m.gradients, m.activations) = shares(&mut alive);
        m.holders.sort_by_key(|h| std::cmp::Reverse(h.1));
        Ok(m)
    }

    /// Bytes that are there during the whole step, the arena aside.
    pub fn fixed(&self) -> u64 {
        let variables = self.variables.iter().map(|v| v.1).sum::<u64>();
        variables + self.window + self.inputs + self.outputs + self.registers
    }

    /// Takes what lies elsewhere out of what the rank holds.
    pub(crate) fn offload(&mut self, what: &Offloaded) {
        let (gone, stay) = self.variables.drain(..).partition(|v| what.names.contains(&v.0));
        let gone: Vec<(String, u64)> = gone;
        self.variables = stay;
        self.offloaded = gone.iter().map(|v| v.1).sum();
        self.window = what.window.min(self.offloaded);
    }

    /// The most that the rank holds.
    pub fn peak(&self) -> u64 {
        self.fixed() + self.arena + self.communication
    }

    /// The first instruction during which more than this is alive: its source line. Where gaps in the arena alone make it
    /// more, the one during which most is alive; `None` where what outlives the step is too much already.
    pub fn first_over(&self, limit: u64) -> Option<&str> {
        let room = limit.checked_sub(self.fixed())?;
        let most = || (0..self.curve.len()).rev().max_by_key(|t| self.curve[*t]);
        let at = self.curve.iter().position(|b| *b > room).or_else(most)?;
        Some(self.origins[at].as_str())
    }
}

/// Of places in arenas (arena and start, end, whether an update reads it) the bytes of those that updates read, and of the others.
fn shares(alive: &mut [((u32, u64), u64, bool)]) -> (u64, u64) {
    // Of what begins in one place the gradient comes first: it has the bytes that others have too.
    alive.sort_by_key(|(from, end, is_gradient)| (*from, !*is_gradient, *end));
    let (mut gradients, mut others) = (0, 0);
    let mut covered = (0, 0);
    for ((arena, start), end, is_gradient) in alive.iter() {
        if covered.0 != *arena {
            covered = (*arena, 0);
        }
        let fresh = end.saturating_sub(covered.1.max(*start));
        *(if *is_gradient { &mut gradients } else { &mut others }) += fresh;
        covered.1 = covered.1.max(*end);
    }
    (gradients, others)
}

/// The instructions of each task, as a range among all.
fn ranges(plan: &Plan) -> Vec<(usize, usize)> {
    let mut next = 0;
    let lens = plan.tasks.iter().map(|t| if let Work::Compute(p) = &t.work { p.len() } else { 0 });
    lens.map(|n| {
        next += n;
        (next - n, next)
    })
    .collect()
}

/// Tasks beside the compute stream: their instructions, and the last one before the compute stream waits for them.
fn beside(plan: &Plan) -> Vec<(usize, usize, usize)> {
    let ranges = ranges(plan);
    let compute = |t: &Task| matches!(t.work, Work::Compute(_));
    let Some(own) = plan.tasks.iter().find(|t| compute(t)).map(|t| t.stream) else { return Vec::new() };
    let mut found = Vec::new();
    for (t, &(from, to)) in plan.tasks.iter().zip(&ranges).filter(|(t, _)| compute(t) && t.stream != own) {
        let waits = |x: &&Task| x.stream == own && t.produces.iter().any(|p| x.consumes.contains(p));
        let next = plan.tasks.iter().zip(&ranges).find(|(x, _)| waits(x)).map(|(_, r)| r.0);
        found.extend(next.filter(|n| *n > to).map(|n| (from, to, n - 1)));
    }
    found
}

/// Copies that communication takes at most: streams talk at the same time.
fn scratch_of(plan: &Plan, scratch: &[u64]) -> u64 {
    let mut most: HashMap<u32, u64> = HashMap::new();
    for (t, (from, to)) in plan.tasks.iter().zip(ranges(plan)) {
        let here = scratch[from..to].iter().copied().max().unwrap_or(0);
        most.entry(t.stream).and_modify(|m| *m = here.max(*m)).or_insert(here);
    }
    most.values().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_two_buffers_share_count_once() {
        // Two gradients in a bucket, one behind it, and another arena.
        let mut alive = [
            ((0, 0), 100, false),
            ((0, 0), 40, true),
            ((0, 40), 100, true),
            ((0, 100), 150, true),
            ((1, 0), 30, false),
        ];
        assert_eq!(shares(&mut alive), (90, 90));
        let mut apart = [((0, 64), 96, false), ((0, 0), 32, true)];
        assert_eq!(shares(&mut apart), (32, 32));
    }
}
