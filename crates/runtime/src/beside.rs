//! Collectives of a device beside its other work: on a queue of the program's own, between what came before them and the first
//! launch that needs them.
//!
//! A plan gives such collectives to streams of their own, whose threads issue them. Where the device's queues order all of it, one
//! thread can do that: the tasks become one, and the whole can be recorded. Copies from the host and messages between
//! placements keep their tasks.

use crate::lower::launches;
use crate::plan::{Home, Instr, Plan, Port, Task, Work};
use oneflow_base::{Device, DeviceType, Error, Result};
use oneflow_ep::cuda::{Cuda, Event};
use oneflow_ep::queues::{Chosen, choose};
use oneflow_ep::{Provider, Queue};
use oneflow_global::boxing::circle;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// An instruction that runs beside others, and the one that waits for it; behind the last one: the end.
pub(crate) type Beside = (usize, usize);

/// The plan with one task in place of all that compute; `None` where they stay apart.
pub(crate) fn in_one_task(plan: &Plan) -> Option<(Plan, Vec<Beside>)> {
    joined(plan, is_collective_of)
}

/// `is_collective`: whether a task is one that may run beside the others.
fn joined(plan: &Plan, is_collective: impl Fn(&Task, Device) -> bool) -> Option<(Plan, Vec<Beside>)> {
    let is_compute = |t: &Task| matches!(t.work, Work::Compute(_));
    let tasks: Vec<&Task> = plan.tasks.iter().filter(|t| is_compute(t)).collect();
    let (first, device) = (tasks.first()?, device_of(plan)?);
    if tasks.len() < 2 || device.kind != DeviceType::CUDA {
        return None;
    }
    let main = first.stream;
    if !tasks.iter().all(|t| t.stream == main || is_collective(t, device)) {
        return None;
    }
    // A step of one is a step of all.
    if tasks.iter().flat_map(|t| t.consumes.iter().chain(&t.produces)).any(|port| port.pieces != 1) {
        return None;
    }
    let maker: HashMap<u32, usize> =
        tasks.iter().enumerate().flat_map(|(i, t)| t.produces.iter().map(move |p| (p.register, i))).collect();
    let is_inner = |register: &u32| maker.contains_key(register);
    let makers = |t: &Task| t.consumes.iter().filter_map(|p| maker.get(&p.register).copied()).collect::<Vec<_>>();
    if tasks.iter().enumerate().any(|(i, t)| makers(t).iter().any(|m| *m >= i)) {
        return None;
    }
    // Collectives that follow nothing of the step come before all of it.
    let follows = |t: &Task| makers(t).iter().any(|m| tasks[*m].stream == main);
    let (early, rest): (Vec<usize>, Vec<usize>) =
        (0..tasks.len()).partition(|i| tasks[*i].stream != main && !follows(tasks[*i]));
    let (mut program, mut starts): (Vec<Instr>, Vec<usize>) = (Vec::new(), vec![0; tasks.len()]);
    for i in early.into_iter().chain(rest) {
        starts[i] = program.len();
        if let Work::Compute(instrs) = &tasks[i].work {
            program.extend(instrs.iter().cloned());
        }
    }
    let needs = |register: u32| {
        let readers = tasks.iter().zip(&starts).filter(|(t, _)| t.stream == main);
        readers.filter(|(t, _)| t.consumes.iter().any(|p| p.register == register)).map(|(_, start)| *start).min()
    };
    let beside = tasks.iter().zip(&starts).filter(|(t, _)| t.stream != main).map(|(t, start)| {
        let until = t.produces.iter().filter_map(|p| needs(p.register)).min();
        (*start, until.unwrap_or(usize::MAX))
    });
    let beside: Vec<Beside> = beside.collect();

    let outer = |t: &&Task| !is_compute(t);
    let leaves =
        |register: &u32| plan.tasks.iter().filter(outer).any(|t| t.consumes.iter().any(|p| p.register == *register));
    let ports = |all: Vec<u32>| {
        let mut found: Vec<u32> = Vec::new();
        all.into_iter().for_each(|r| {
            if !found.contains(&r) {
                found.push(r)
            }
        });
        found.into_iter().map(|register| Port { register, pieces: 1 }).collect::<Vec<_>>()
    };
    let consumes = ports(tasks.iter().flat_map(|t| &t.consumes).map(|p| p.register).filter(|r| !is_inner(r)).collect());
    let produces = ports(tasks.iter().flat_map(|t| &t.produces).map(|p| p.register).filter(leaves).collect());
    let whole = Task { name: "compute".into(), stream: main, work: Work::Compute(program), consumes, produces };
    let mut made = Plan { tasks: Vec::new(), ..plan.clone() };
    let mut whole = Some(whole);
    for t in &plan.tasks {
        match is_compute(t) {
            true => made.tasks.extend(whole.take()),
            false => made.tasks.push(t.clone()),
        }
    }
    drop_registers(&mut made, |register| is_inner(&register) && !leaves(&register))?;
    Some((made, beside))
}

/// Removes registers; the others move up. `None` if a buffer lies in one of them.
fn drop_registers(plan: &mut Plan, goes: impl Fn(u32) -> bool) -> Option<()> {
    let mut number = HashMap::new();
    let kept = plan.registers.iter().enumerate().filter(|(i, _)| !goes(*i as u32));
    let kept: Vec<_> = kept.map(|(i, r)| (i as u32, r.clone())).collect();
    for (k, (i, _)) in kept.iter().enumerate() {
        number.insert(*i, k as u32);
    }
    plan.registers = kept.into_iter().map(|(_, r)| r).collect();
    let mut streams: Vec<u32> = plan.tasks.iter().map(|t| t.stream).collect();
    streams.sort_unstable();
    streams.dedup();
    for t in &mut plan.tasks {
        for port in t.consumes.iter_mut().chain(&mut t.produces) {
            port.register = *number.get(&port.register)?;
        }
        t.stream = streams.iter().position(|s| *s == t.stream)? as u32;
    }
    for b in &mut plan.buffers {
        if let Home::Register { register, .. } = &mut b.home {
            *register = *number.get(register)?;
        }
    }
    Some(())
}

/// The device of all that computes.
fn device_of(plan: &Plan) -> Option<Device> {
    let instrs =
        plan.tasks.iter().filter_map(|t| if let Work::Compute(p) = &t.work { Some(p) } else { None }).flatten();
    let mut operands = instrs.flat_map(|i| i.outs.iter().chain(&i.ins));
    let device = |o: &crate::plan::Operand| plan.buffers.get(o.buffer as usize).map(|b| b.device);
    let first = operands.next().and_then(device)?;
    operands.all(|o| device(o) == Some(first)).then_some(first)
}

/// One collective along a mesh axis, for which ranks meet on the device.
fn is_collective_of(t: &Task, device: Device) -> bool {
    let Work::Compute(instrs) = &t.work else { return false };
    let [instr] = instrs.as_slice() else { return false };
    let made = launches(instr, device);
    made.is_ok_and(|all| !all.is_empty() && all.iter().all(|l| circle(l.prim, &l.params, device).is_some()))
}

/// A queue that one program has for its collectives.
pub(crate) struct Side {
    cuda: &'static Cuda,
    queue: Queue,
}

/// Queues live until the process ends: those that nobody has any more.
static FREE: Mutex<Vec<(Device, usize)>> = Mutex::new(Vec::new());

impl Side {
    pub fn of(device: Device) -> Result<Side> {
        let cuda = oneflow_ep::cuda::provider().ok_or_else(|| Error::runtime("CUDA is not available"))?;
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = free.iter().position(|(of, _)| *of == device).map(|at| free.swap_remove(at).1);
        let queue = match known {
            Some(raw) => Queue { device, raw: raw as *mut _ },
            None => cuda.new_queue(device.index)?,
        };
        Ok(Side { cuda, queue })
    }

    pub fn queue(&self) -> Queue {
        self.queue
    }

    /// What is issued here from now on comes after what `queue` has so far.
    pub fn follow(&self, queue: Queue) -> Result<()> {
        self.cuda.order(queue, self.queue)
    }

    /// Marks what was issued here so far.
    pub fn mark(&self) -> Result<Event> {
        self.cuda.record(self.queue)
    }

    /// What `queue` is given from now on comes after a mark.
    pub fn join(&self, queue: Queue, mark: &Event) -> Result<()> {
        self.cuda.wait(queue, mark)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let free = (self.queue.device, self.queue.raw as usize);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(free);
    }
}

/// While it lives, what the calling thread issues by itself goes to `queue`, unordered with its other queues.
pub(crate) struct Issuing(Queue, Option<Queue>);

impl Issuing {
    pub fn to(queue: Queue) -> Issuing {
        let before = Chosen::now().queue_of(queue.device);
        choose(queue.device, Some(queue));
        Issuing(queue, before)
    }
}

impl Drop for Issuing {
    fn drop(&mut self) {
        choose(self.0.device, self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Buffer, Operand, Register};
    use oneflow_base::{DType, Dims};

    const GPU: Device = Device { kind: DeviceType::CUDA, index: 0 };

    fn instr(name: &str) -> Instr {
        let (sizes, strides) = (Dims::from_slice(&[1]), Dims::from_slice(&[1]));
        let operand = Operand { buffer: 0, offset: 0, dtype: DType::F32, sizes, strides };
        Instr { steps: Vec::new(), ins: Vec::new(), outs: vec![operand], origin: name.into() }
    }

    fn task(stream: u32, names: &str, consumes: &[u32], produces: &[u32]) -> Task {
        let ports = |all: &[u32]| all.iter().map(|register| Port { register: *register, pieces: 1 }).collect();
        let work = match names {
            "in" => Work::HostIn,
            "out" => Work::HostOut,
            names => Work::Compute(names.split(' ').map(instr).collect()),
        };
        Task { name: names.into(), stream, work, consumes: ports(consumes), produces: ports(produces) }
    }

    fn plan(device: Device, tasks: Vec<Task>, n_registers: usize) -> Plan {
        let register = |i: usize| Register { name: i.to_string(), device, bytes: 0, slots: 1 };
        let buffers = vec![Buffer { device, bytes: 4, home: Home::Output(0) }];
        Plan { buffers, registers: (0..n_registers).map(register).collect(), tasks, ..Plan::default() }
    }

    fn names(plan: &Plan) -> String {
        let programs = plan.tasks.iter().filter_map(|t| if let Work::Compute(p) = &t.work { Some(p) } else { None });
        programs.flatten().map(|i| i.origin.clone()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn collectives_stand_where_they_may_start_and_end_where_they_are_needed() {
        let tasks = vec![
            task(0, "in", &[], &[0]),
            task(1, "a b", &[0], &[2]),
            task(2, "gather", &[0], &[5]),
            task(2, "reduce", &[2, 5], &[3]),
            task(1, "c d", &[2, 5], &[4]),
            task(1, "e", &[4, 0, 3], &[1]),
            task(0, "out", &[1], &[]),
        ];
        let beside = |t: &Task, _| t.stream == 2;
        let (whole, found) = joined(&plan(GPU, tasks.clone(), 6), beside).unwrap();
        assert_eq!(names(&whole), "gather a b reduce c d e");
        assert_eq!(found, [(0, 4), (3, 6)]);
        let registers: Vec<&str> = whole.registers.iter().map(|r| r.name.as_str()).collect();
        let port = |register| Port { register, pieces: 1 };
        assert_eq!((registers, whole.tasks.len()), (vec!["0", "1"], 3));
        assert_eq!((&whole.tasks[1].consumes[..], &whole.tasks[1].produces[..]), (&[port(0)][..], &[port(1)][..]));
        whole.check_credits().unwrap();
        // Threads of the host serve a CPU, and what is no collective of the device.
        assert!(joined(&plan(Device::CPU, tasks.clone(), 6), beside).is_none());
        assert!(joined(&plan(GPU, tasks, 6), |_, _| false).is_none());
    }
}
