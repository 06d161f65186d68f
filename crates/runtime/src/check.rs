//! The conditions that a plan must meet before it runs: indices and extents inside their bounds, and enough credits. Who may use
//! which memory when is in `sharing`. An op checks its own instruction when the program is built.

use crate::plan::*;
use oneflow_base::{Error, Meta, Result};
use std::collections::BTreeSet;

/// Largest allocation that a plan may ask for: sums of such sizes cannot overflow.
const MAX_BYTES: u64 = 1 << 46;
/// Far more than plans have, and few enough that no check and no start takes long.
const MAX_TASKS: usize = 1 << 12;
const MAX_PORTS: usize = 1 << 14;
const MAX_SLOTS: u64 = 1 << 16;
/// Executions of all tasks until every register is as it was.
const MAX_PERIOD: u64 = 1 << 16;
const MAX_DIMS: usize = 64;

#[cold]
fn bad(what: String) -> Error {
    Error::value(format!("plan: {what}"))
}

impl Plan {
    pub fn check(&self) -> Result<()> {
        self.check_memory()?;
        self.check_names()?;
        self.check_ends()?;
        self.check_ports()?;
        self.check_credits()?;
        for t in &self.tasks {
            if let Work::Compute(p) = &t.work {
                self.check_program(t, p)?;
            }
        }
        self.check_sharing()?;
        self.check_dynamic()
    }

    fn check_memory(&self) -> Result<()> {
        if let Some(a) = self.arenas.iter().find(|a| a.bytes > MAX_BYTES) {
            return Err(bad(format!("an arena of {} bytes", a.bytes)));
        }
        for (i, b) in self.buffers.iter().enumerate() {
            let inside = |offset: u64, whole: u64| {
                offset.checked_add(b.bytes).is_some_and(|end| end <= whole) && offset.is_multiple_of(64)
            };
            let ok = match b.home {
                Home::Arena { arena, offset } => {
                    self.arenas.get(arena as usize).is_some_and(|a| inside(offset, a.bytes) && a.device == b.device)
                }
                Home::Register { register, offset, .. } => self
                    .registers
                    .get(register as usize)
                    .is_some_and(|r| inside(offset, r.bytes) && r.device == b.device),
                Home::Input(k) => self.inputs.get(k as usize).is_some_and(|x| x.buffer == i as u32),
                Home::Variable(k) => self.variables.get(k as usize).is_some_and(|x| x.buffer == i as u32),
                Home::Output(_) => true,
            };
            if !ok || b.bytes > MAX_BYTES {
                return Err(bad(format!("buffer {i} ({} bytes) does not lie inside {:?}", b.bytes, b.home)));
            }
        }
        Ok(())
    }

    fn check_names(&self) -> Result<()> {
        for (names, n) in [(&self.input_names, self.inputs.len()), (&self.output_names, self.outputs.len())] {
            let distinct: BTreeSet<&String> = names.iter().collect();
            if names.len() > n || distinct.len() < names.len() {
                return Err(bad(format!("{names:?} are no names of {n} inputs or results")));
            }
        }
        Ok(())
    }

    fn check_ends(&self) -> Result<()> {
        // Bytes of a contiguous meta, and the buffer that it is about.
        let sizes = |m: &Meta, buffer: u32| {
            let n = oneflow_base::numel(&m.sizes).ok()?.checked_mul(m.dtype.size() as i64)?;
            let plain = m.sizes.iter().all(|n| *n >= 0) && m.is_contiguous();
            Some((n as u64, self.buffers.get(buffer as usize)?)).filter(|_| plain)
        };
        for (i, x) in self.inputs.iter().enumerate() {
            if !sizes(&x.meta, x.buffer).is_some_and(|(n, b)| n == b.bytes && b.home == Home::Input(i as u32)) {
                return Err(bad(format!("input {i} does not fit its buffer")));
            }
        }
        for v in &self.variables {
            // A memory may be some bytes longer than whole elements.
            if !sizes(&v.meta, v.buffer).is_some_and(|(n, b)| n <= b.bytes && b.bytes - n < 16) {
                return Err(bad(format!("variable {:?} does not fit its buffer", v.name)));
            }
        }
        for (i, o) in self.outputs.iter().enumerate() {
            self.check_operand(&o.operand)?;
            if matches!(self.buffers[o.operand.buffer as usize].home, Home::Arena { .. } | Home::Register { .. }) {
                return Err(bad(format!("result {i} does not outlive its run")));
            }
        }
        Ok(())
    }

    fn check_operand(&self, o: &Operand) -> Result<()> {
        let b = self.buffers.get(o.buffer as usize).ok_or_else(|| bad(format!("there is no buffer {}", o.buffer)))?;
        let n = oneflow_base::numel(&o.sizes).ok();
        match o.extent() {
            Some((_, end)) if end <= b.bytes && n.is_some() && o.sizes.len() <= MAX_DIMS => Ok(()),
            _ => Err(bad(format!(
                "sizes {:?}, strides {:?}, offset {} lie outside buffer {}",
                o.sizes, o.strides, o.offset, o.buffer
            ))),
        }
    }

    fn check_ports(&self) -> Result<()> {
        let n_ports: usize = self.tasks.iter().map(|t| t.consumes.len() + t.produces.len()).sum();
        let n_slots: u64 = self.registers.iter().map(|r| r.slots as u64).sum();
        if self.tasks.len() > MAX_TASKS || n_ports > MAX_PORTS || n_slots > MAX_SLOTS {
            let n_tasks = self.tasks.len();
            return Err(bad(format!(
                "{n_tasks} tasks with {n_ports} ports and {n_slots} slots are more than one runs"
            )));
        }
        let mut producers = vec![0; self.registers.len()];
        let mut readers = vec![0; self.registers.len()];
        for t in &self.tasks {
            for (ports, count) in [(&t.produces, &mut producers), (&t.consumes, &mut readers)] {
                for p in ports {
                    let register = self.registers.get(p.register as usize);
                    let slots = register.map(|r| r.slots);
                    let slots =
                        slots.ok_or_else(|| bad(format!("task {:?}: there is no register {}", t.name, p.register)))?;
                    if p.pieces == 0 || p.pieces > slots {
                        return Err(bad(format!(
                            "too few credits, task {:?} waits for {} pieces of register {} with {slots} slots",
                            t.name, p.pieces, p.register
                        )));
                    }
                    count[p.register as usize] += 1;
                }
            }
        }
        for (i, r) in self.registers.iter().enumerate() {
            if producers[i] != 1 || readers[i] == 0 {
                return Err(bad(format!(
                    "register {:?} has {} producers and {} consumers",
                    r.name, producers[i], readers[i]
                )));
            }
            if r.bytes > MAX_BYTES {
                return Err(bad(format!("register {:?} of {} bytes", r.name, r.bytes)));
            }
        }
        Ok(())
    }

    fn check_program(&self, t: &Task, p: &[Instr]) -> Result<()> {
        for i in p {
            for o in i.ins.iter().chain(&i.outs) {
                self.check_operand(o)?;
                if let Home::Register { register, piece, .. } = self.buffers[o.buffer as usize].home {
                    let port = t.consumes.iter().chain(&t.produces).find(|q| q.register == register);
                    if port.is_none_or(|q| piece >= q.pieces) {
                        return Err(bad(format!(
                            "task {:?} touches register {register}, which it does not hold",
                            t.name
                        )));
                    }
                }
            }
            let n_ins = i.ins.len() as u64;
            for s in &i.steps {
                for r in s.ins.iter().flatten().chain(&s.outs) {
                    let ok = match r {
                        Ref::In(k) => (*k as u64) < n_ins,
                        Ref::Out(k) => (*k as usize) < i.outs.len(),
                        Ref::Temp(..) => i.steps.len() > 1,
                    };
                    if !ok {
                        return Err(bad(format!("{:?}: operand {r:?} does not exist", s.op)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns true if the actors cannot deadlock: one period is simulated with the given credits. A step never takes away
    /// another actor's chance, so any order of simulation has the same result.
    pub fn check_credits(&self) -> Result<()> {
        let n = self.tasks.len();
        let mut executions = vec![0u64; n];
        // Per register: its consumers, pieces made, and per consumer pieces taken.
        let mut readers: Vec<Vec<Reader>> = vec![Vec::new(); self.registers.len()];
        for (i, t) in self.tasks.iter().enumerate() {
            t.consumes.iter().enumerate().for_each(|(k, p)| readers[p.register as usize].push((i, k)));
        }
        let mut made = vec![0u64; self.registers.len()];
        let mut taken: Vec<Vec<u64>> = self.tasks.iter().map(|t| vec![0; t.consumes.len()]).collect();
        let goal = self.period()?;
        loop {
            let mut moved = false;
            for (i, t) in self.tasks.iter().enumerate() {
                if executions[i] >= goal[i] {
                    continue;
                }
                let has_data = t
                    .consumes
                    .iter()
                    .zip(&taken[i])
                    .all(|(p, done)| made[p.register as usize] - done >= p.pieces as u64);
                let has_room = t.produces.iter().all(|p| {
                    let r = p.register as usize;
                    made[r] + p.pieces as u64 - oldest(&readers[r], &taken) <= self.registers[r].slots as u64
                });
                if has_data && has_room {
                    t.produces.iter().for_each(|p| made[p.register as usize] += p.pieces as u64);
                    t.consumes.iter().zip(&mut taken[i]).for_each(|(p, d)| *d += p.pieces as u64);
                    executions[i] += 1;
                    moved = true;
                }
            }
            if executions == goal {
                return Ok(());
            }
            if !moved {
                return Err(bad(self.starved(&executions, &goal, &made, &taken, &readers)));
            }
        }
    }

    /// Executions of each task after which every register is as it was: the smallest whole numbers whose rates agree.
    fn period(&self) -> Result<Vec<u64>> {
        let n = self.tasks.len();
        let mut ends: Vec<Vec<(usize, u32, bool)>> = vec![Vec::new(); self.registers.len()];
        for (t, task) in self.tasks.iter().enumerate() {
            task.produces.iter().for_each(|p| ends[p.register as usize].push((t, p.pieces, true)));
            task.consumes.iter().for_each(|p| ends[p.register as usize].push((t, p.pieces, false)));
        }
        let mut rate: Vec<Option<(u64, u64)>> = vec![None; n];
        for start in 0..n {
            if rate[start].is_some() {
                continue;
            }
            rate[start] = Some((1, 1));
            let mut todo = vec![start];
            while let Some(a) = todo.pop() {
                let Some((num, den)) = rate[a] else { continue };
                for (b, num_ab, den_ab) in self.neighbours(a, &ends) {
                    let (x, y) = reduce(num as u128 * num_ab as u128, den as u128 * den_ab as u128)?;
                    match rate[b] {
                        None => {
                            rate[b] = Some((x, y));
                            todo.push(b);
                        }
                        Some(r) if r != (x, y) => {
                            return Err(bad(format!(
                                "the rates of task {:?} contradict each other",
                                self.tasks[b].name
                            )));
                        }
                        Some(_) => {}
                    }
                }
            }
        }
        let lcm = rate.iter().flatten().try_fold(1u64, |l, (_, d)| {
            (l / gcd(l as u128, *d as u128) as u64).checked_mul(*d).filter(|x| *x <= MAX_PERIOD)
        });
        let lcm = lcm.ok_or_else(|| bad("the rates of its tasks are too far apart".into()))?;
        let goal: Vec<u64> = rate.iter().flatten().map(|(x, d)| x.saturating_mul(lcm / d)).collect();
        if goal.iter().fold(0u64, |n, g| n.saturating_add(*g)) > MAX_PERIOD {
            return Err(bad("the rates of its tasks are too far apart".into()));
        }
        Ok(goal)
    }

    /// Tasks at the other end of a register of `a`'s: steps of `b` for one step of `a`, as a fraction. `ends`: per register its
    /// tasks, their pieces, and whether they produce it.
    fn neighbours(&self, a: usize, ends: &[Vec<(usize, u32, bool)>]) -> Vec<(usize, u64, u64)> {
        let own = |ports: &[Port], made: bool| -> Vec<(usize, u64, u64)> {
            let others = ports.iter().flat_map(|p| {
                let at = ends[p.register as usize].iter().filter(|e| e.2 != made);
                at.map(|e| (e.0, p.pieces as u64, e.1 as u64)).collect::<Vec<_>>()
            });
            others.collect()
        };
        let mut out = own(&self.tasks[a].produces, true);
        out.extend(own(&self.tasks[a].consumes, false));
        out
    }

    #[cold]
    fn starved(
        &self,
        executions: &[u64],
        goal: &[u64],
        made: &[u64],
        taken: &[Vec<u64>],
        readers: &[Vec<Reader>],
    ) -> String {
        let mut text = String::from("too few credits, no task can act:");
        for (i, t) in self.tasks.iter().enumerate().filter(|(i, _)| executions[*i] < goal[*i]) {
            for (p, d) in t.consumes.iter().zip(&taken[i]) {
                let r = p.register as usize;
                if made[r] - d < p.pieces as u64 {
                    text += &format!(
                        " {} waits for {:?} ({} of {} pieces);",
                        t.name,
                        self.registers[r].name,
                        made[r] - d,
                        p.pieces
                    );
                }
            }
            for p in &t.produces {
                let r = p.register as usize;
                let used = made[r] - oldest(&readers[r], taken);
                if used + p.pieces as u64 > self.registers[r].slots as u64 {
                    text += &format!(
                        " {} waits for a free slot of {:?} ({used} of {} in use);",
                        t.name, self.registers[r].name, self.registers[r].slots
                    );
                }
            }
        }
        text
    }
}

/// A task, and which of the registers that it consumes.
type Reader = (usize, usize);

/// Slots of a register that all its consumers have released.
fn oldest(readers: &[Reader], taken: &[Vec<u64>]) -> u64 {
    readers.iter().map(|(task, port)| taken[*task][*port]).min().unwrap_or(0)
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn reduce(a: u128, b: u128) -> Result<(u64, u64)> {
    let g = gcd(a, b).max(1);
    match (u64::try_from(a / g), u64::try_from(b / g)) {
        (Ok(x), Ok(y)) if x > 0 && y > 0 => Ok((x, y)),
        _ => Err(bad("the rates of its tasks are too far apart".into())),
    }
}
