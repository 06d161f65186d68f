//! What a rank's plan holds, and what of it is alive when most is.

use oneflow_base::{Device, Result};
use oneflow_runtime::{Home, Plan, Work, price};

/// Bytes of one rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Outlives runs, by name.
    pub variables: Vec<(String, u64)>,
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
            communication: scratch.iter().copied().max().unwrap_or(0),
            curve: live.iter().zip(scratch).map(|(a, b)| a + b).collect(),
            origins: instrs.iter().map(|i| i.origin.clone()).collect(),
            ..Memory::default()
        };
        let Some(at) = at else { return Ok(m) };
        m.peak_at = instrs[at].origin.clone();
        for (k, l) in lives.iter().enumerate() {
            let Some((from, to, is_gradient)) = *l else { continue };
            if from <= at && at <= to {
                let bytes = plan.buffers[k].bytes;
                *(if is_gradient { &mut m.gradients } else { &mut m.activations }) += bytes;
                m.holders.push((instrs[from].origin.clone(), bytes));
            }
        }
        m.holders.sort_by_key(|h| std::cmp::Reverse(h.1));
        Ok(m)
    }

    /// Bytes that are there during the whole step, the arena aside.
    pub fn fixed(&self) -> u64 {
        self.variables.iter().map(|v| v.1).sum::<u64>() + self.inputs + self.outputs + self.registers
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
