//! A plan as rows for display: what runs in which order, what it reads, and where each buffer lies in memory for how long.

use crate::plan::{Home, Operand, Plan};
use std::collections::HashMap;

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// "linear", or "add+gelu" of a chain.
    pub name: String,
    /// Source location of the traced call.
    pub origin: String,
    /// Rows whose results it reads.
    pub after: Vec<usize>,
    pub ins: Vec<String>,
    pub outs: Vec<String>,
    /// Bytes read and written.
    pub bytes: u64,
}

/// A buffer in the arena.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub offset: u64,
    pub bytes: u64,
    /// First and last row that touches it.
    pub from: usize,
    pub to: usize,
}

impl Plan {
    /// Every instruction in order.
    pub fn rows(&self) -> Vec<Row> {
        let mut writer: HashMap<u32, usize> = HashMap::new();
        let mut rows = Vec::new();
        for (at, i) in self.instrs().enumerate() {
            let mut after: Vec<usize> = i.ins.iter().filter_map(|o| writer.get(&o.buffer).copied()).collect();
            after.sort_unstable();
            after.dedup();
            // An instruction without results updates what it reads.
            let written = if i.outs.is_empty() { &i.ins } else { &i.outs };
            writer.extend(written.iter().map(|o| (o.buffer, at)));
            rows.push(Row {
                name: i.steps.iter().map(|s| s.op.as_str()).collect::<Vec<_>>().join("+"),
                origin: i.origin.clone(),
                after,
                ins: i.ins.iter().map(|o| self.operand(o)).collect(),
                outs: i.outs.iter().map(|o| self.operand(o)).collect(),
                bytes: i
                    .ins
                    .iter()
                    .chain(&i.outs)
                    .map(|o| o.sizes.iter().product::<i64>() as u64 * o.dtype.size() as u64)
                    .sum(),
            });
        }
        rows
    }

    fn operand(&self, o: &Operand) -> String {
        let place = match self.buffers[o.buffer as usize].home {
            Home::Arena { .. } => String::new(),
            Home::Input(k) => format!(" input {k}"),
            Home::Variable(k) => format!(" {}", self.variables[k as usize].name),
            Home::Output(k) => format!(" result {k}"),
            Home::Register { register, .. } => format!(" {}", self.registers[register as usize].name),
        };
        format!("{}{:?}{place}", o.dtype, o.sizes.as_slice())
    }

    /// Every buffer of the arenas that some row touches.
    pub fn held(&self) -> Vec<Held> {
        let mut held: Vec<Option<Held>> = vec![None; self.buffers.len()];
        for (at, i) in self.instrs().enumerate() {
            for o in i.ins.iter().chain(&i.outs) {
                let b = &self.buffers[o.buffer as usize];
                let Home::Arena { offset, .. } = b.home else { continue };
                let h = held[o.buffer as usize].get_or_insert(Held { offset, bytes: b.bytes, from: at, to: at });
                h.to = at;
            }
        }
        held.into_iter().flatten().collect()
    }
}
