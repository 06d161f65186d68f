//! A plan with prices: what each of its instructions takes on the described device, and what it sends to whom.

use crate::cluster::Cluster;
use crate::memory::{Memory, Offloaded};
use oneflow_base::{Arg, Device, Error, Result};
use oneflow_core::{Call, OpDef, Tensor, op_by_name};
use oneflow_global::boxing::{AxisMove, CrossMove, Transfer, Wire, wire};
use oneflow_runtime::{Instr, Plan, Port, Ref, Register, Task, Work, price, shell};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// A step of a task.
#[derive(Clone, Debug)]
pub enum Item {
    Compute {
        seconds: f64,
    },
    /// Seconds of its own before it talks.
    Collective {
        seconds: f64,
        collective: Arc<Collective>,
    },
    /// A move between placements: sends what is this rank's, waits for what comes to it.
    Move {
        seconds: f64,
        what: Arc<Move>,
    },
}

impl Item {
    pub(crate) fn seconds(&self) -> f64 {
        match self {
            Item::Compute { seconds } | Item::Collective { seconds, .. } | Item::Move { seconds, .. } => *seconds,
        }
    }
}

/// Ranks that talk with each other, in groups.
#[derive(Debug, PartialEq)]
pub struct Groups {
    /// Of this number among the groups of all programs is the first group.
    pub first: u32,
    pub members: Vec<Vec<u32>>,
    /// By rank: group and place in it.
    places: HashMap<u32, (u32, u32)>,
}

impl Groups {
    fn new(first: u32, members: Vec<Vec<u32>>) -> Groups {
        let mut places = HashMap::new();
        for (g, ranks) in members.iter().enumerate() {
            places.extend(ranks.iter().enumerate().map(|(i, r)| (*r, (g as u32, i as u32))));
        }
        Groups { first, members, places }
    }

    pub(crate) fn place(&self, rank: u32) -> Option<(u32, u32)> {
        self.places.get(&rank).copied()
    }
}

/// A collective of each group.
#[derive(Debug, PartialEq)]
pub struct Collective {
    pub groups: Arc<Groups>,
    /// What ranks of a group must agree on.
    pub label: String,
    /// Messages that follow one another.
    pub rounds: f64,
    /// Each rank sends to the next of its group alone; else parts go to all others.
    pub ring: bool,
    /// Bytes that the ranks of a group send, by their places.
    pub sent: Vec<u64>,
}

/// A move: all ranks know it by its number.
#[derive(Debug, PartialEq)]
pub struct Move {
    pub number: u32,
    /// By rank: what it sends, as (target, bytes), and what it waits for, as (source, bytes).
    pub sends: HashMap<u32, Vec<(u32, u64)>>,
    pub receives: HashMap<u32, Vec<(u32, u64)>>,
}

impl Move {
    /// Of messages as (source, target, bytes).
    pub fn new(number: u32, messages: impl Iterator<Item = (u32, u32, u64)>) -> Move {
        let mut m = Move { number, sends: HashMap::new(), receives: HashMap::new() };
        for (source, target, bytes) in messages {
            m.sends.entry(source).or_default().push((target, bytes));
            m.receives.entry(target).or_default().push((source, bytes));
        }
        m
    }
}

/// One rank's priced plan, or that of all ranks that run the same.
#[derive(Clone, Debug)]
pub struct Program {
    pub plan: Arc<Plan>,
    /// By task, and in it by instruction.
    pub items: Vec<Vec<Item>>,
    /// By task and item, the bytes that it reads from memory of the host, and those that it writes there.
    pub on_host: HashMap<(usize, usize), (u64, u64)>,
    /// Operations of a step, and those of products alone.
    pub flops: f64,
    pub product_flops: f64,
    pub memory: Memory,
}

impl Program {
    /// A program of these items, by name: one actor between the caller's two.
    pub fn of_items(items: Vec<(String, Item)>) -> Program {
        let register = |name: &str| Register { name: name.into(), device: Device::CPU, bytes: 0, slots: 1 };
        let port = |register| vec![Port { register, pieces: 1 }];
        let task =
            |name: &str, stream, work, consumes, produces| Task { name: name.into(), stream, work, consumes, produces };
        let instr = |name: &str| Instr { steps: Vec::new(), ins: Vec::new(), outs: Vec::new(), origin: name.into() };
        let names = items.iter().map(|(name, _)| instr(name)).collect();
        let plan = Plan {
            registers: vec![register("run"), register("result")],
            tasks: vec![
                task("caller", 0, Work::HostIn, Vec::new(), port(0)),
                task("compute", 1, Work::Compute(names), port(0), port(1)),
                task("receiver", 0, Work::HostOut, port(1), Vec::new()),
            ],
            ..Plan::default()
        };
        Program {
            plan: Arc::new(plan),
            items: vec![Vec::new(), items.into_iter().map(|i| i.1).collect(), Vec::new()],
            on_host: HashMap::new(),
            flops: 0.0,
            product_flops: 0.0,
            memory: Memory::default(),
        }
    }

    /// The name and the source line of an item; collectives have their usual names.
    pub fn origin(&self, task: usize, item: usize) -> Cow<'_, str> {
        let Work::Compute(instrs) = &self.plan.tasks[task].work else {
            return Cow::Borrowed(&self.plan.tasks[task].name);
        };
        let origin = instrs.get(item).map_or("", |i| i.origin.as_str());
        match (&self.items[task].get(item), origin.strip_prefix("_box_axis").or(origin.strip_prefix("_box_axes"))) {
            (Some(Item::Collective { collective, .. }), Some(place)) => {
                let name = collective.label.split(' ').next().unwrap_or_default();
                Cow::Owned(format!("{name}{place}"))
            }
            _ => Cow::Borrowed(origin),
        }
    }
}

/// Groups and moves that programs share. Programs that are simulated together come from one catalog.
#[derive(Default)]
pub struct Catalog {
    groups: HashMap<(u32, usize), Arc<Groups>>,
    n_groups: u32,
    moves: HashMap<MoveKey, Arc<Move>>,
}

/// Number, layouts, sizes and bytes of an element.
type MoveKey = (u32, [u32; 4], Vec<i64>, usize);

impl Catalog {
    /// Groups of these ranks under a key of the caller's.
    pub fn groups(&mut self, key: (u32, usize), members: impl FnOnce() -> Vec<Vec<u32>>) -> Arc<Groups> {
        let first = self.n_groups;
        let made = self.groups.entry(key).or_insert_with(|| Arc::new(Groups::new(first, members())));
        if made.first == first {
            self.n_groups = first + made.members.len() as u32;
        }
        made.clone()
    }

    /// Prices a plan. `seconds`: measured times of instructions, by `Instr::signature`; the others take what their ops' costs say.
    ///
    /// # Errors
    /// ValueError: an instruction breaks the rules of its op, or variables are offloaded and the cluster has no disk, or no link
    /// to the host.
    pub fn price(
        &mut self,
        plan: Arc<Plan>,
        cluster: &Cluster,
        seconds: &HashMap<String, f64>,
        offloaded: &Offloaded,
    ) -> Result<Program> {
        let elsewhere = elsewhere(&plan, offloaded);
        let is_missing = if offloaded.on_host { cluster.host_link.bandwidth } else { cluster.disk } <= 0.0;
        if is_missing && elsewhere.contains(&true) {
            return Err(Error::value(if offloaded.on_host {
                "the job offloads to the host, and devices of the cluster have no link to theirs: describe its latency and \
                 bandwidth (host)"
            } else {
                "the job offloads to a disk, and the cluster has none: describe the bytes a second of a device to and from it \
                 (disk)"
            }));
        }
        let mut found = Program {
            items: Vec::with_capacity(plan.tasks.len()),
            on_host: HashMap::new(),
            flops: 0.0,
            product_flops: 0.0,
            memory: Memory::default(),
            plan: plan.clone(),
        };
        let mut scratch = Vec::new();
        for (task, t) in plan.tasks.iter().enumerate() {
            let Work::Compute(instrs) = &t.work else {
                found.items.push(Vec::new());
                continue;
            };
            let mut items = Vec::with_capacity(instrs.len());
            for i in instrs {
                let p = price(i, Device::CPU)?;
                found.flops += p.cost.flops;
                found.product_flops += if p.cost.products { p.cost.flops } else { 0.0 };
                let peak = cluster.launch + (p.cost.flops / cluster.flops).max(p.cost.bytes / cluster.memory_bandwidth);
                let known = if seconds.is_empty() { None } else { seconds.get(&i.signature()) };
                let mut seconds = known.copied().unwrap_or(peak);
                let (read, written) = moved(i, &elsewhere, &plan, p.updates);
                if offloaded.on_host && read + written > 0 {
                    found.on_host.insert((task, items.len()), (read, written));
                } else if read + written > 0 {
                    seconds = seconds.max((read + written) as f64 / cluster.disk);
                }
                let talk = if p.collective { self.talk(i)? } else { None };
                scratch.push(match &talk {
                    Some(Wire::Axis(m)) => m.scratch(0),
                    // What is sent is copied, and what comes is put together.
                    Some(Wire::Cross(_)) => i
                        .ins
                        .iter()
                        .chain(&i.outs)
                        .map(|o| o.sizes.iter().product::<i64>() as u64 * o.dtype.size() as u64)
                        .sum(),
                    None => 0,
                });
                items.push(match talk {
                    Some(Wire::Axis(m)) if m.sends() => Item::Collective { seconds, collective: self.collective(&m) },
                    Some(Wire::Cross(m)) => Item::Move { seconds, what: self.moved(&m) },
                    _ => Item::Compute { seconds },
                });
            }
            found.items.push(items);
        }
        found.memory = Memory::of(&plan, &scratch)?;
        found.memory.offload(offloaded);
        Ok(found)
    }

    /// What an instruction sends.
    fn talk(&mut self, i: &Instr) -> Result<Option<Wire>> {
        let [s] = i.steps.as_slice() else { return Ok(None) };
        let op: &'static OpDef =
            op_by_name(&s.op).ok_or_else(|| Error::value(format!("plan: there is no op {:?}", s.op)))?;
        let mut ins: Vec<Option<Tensor>> = Vec::new();
        for r in &s.ins {
            ins.push(match r {
                Some(Ref::In(k)) => i.ins.get(*k as usize).map(|o| shell(&o.meta(Device::CPU), 0)).transpose()?,
                _ => None,
            });
        }
        let refs: Vec<Option<&Tensor>> = ins.iter().map(Option::as_ref).collect();
        let args: Vec<Arg<'_>> = s.args.iter().map(|a| a.arg((0, 0))).collect();
        wire(&Call::new(op, &refs, &args))
    }

    fn collective(&mut self, m: &AxisMove) -> Arc<Collective> {
        let groups = self.groups((m.placement_id.0, m.axis), || m.groups());
        let others = if m.others.is_empty() { String::new() } else { format!(" and {} more", m.others.len()) };
        let label = format!(
            "{} {:?} -> {:?} of {}{:?}{others} over axis {} of a mesh of {:?}",
            m.name(),
            m.from,
            m.to,
            m.dtype,
            m.sizes.as_slice(),
            m.axis,
            m.placement.hierarchy.as_slice()
        );
        Arc::new(Collective {
            groups,
            label,
            rounds: m.transfer().rounds,
            ring: Transfer::is_ring(m.from, m.to),
            sent: (0..m.n()).map(|c| m.sent(c)).collect(),
        })
    }

    fn moved(&mut self, m: &CrossMove) -> Arc<Move> {
        let ids = [m.from.placement_id.0, m.from.sbp_id.0, m.to.placement_id.0, m.to.sbp_id.0];
        let key = (m.number, ids, m.sizes.to_vec(), m.dtype.size());
        let make = || Arc::new(Move::new(m.number, m.messages().into_iter().map(|m| (m.source, m.target, m.bytes))));
        self.moves.entry(key).or_insert_with(make).clone()
    }
}

/// By buffer of a plan, whether it lies on a disk or on the host.
fn elsewhere(plan: &Plan, offloaded: &Offloaded) -> Vec<bool> {
    let mut found = vec![false; plan.buffers.len()];
    for v in plan.variables.iter().filter(|v| offloaded.names.contains(&v.name)) {
        found[v.buffer as usize] = true;
    }
    found
}

/// Bytes of what lies elsewhere that come for an instruction, and those that go back because it writes them.
fn moved(i: &Instr, elsewhere: &[bool], plan: &Plan, updates: bool) -> (u64, u64) {
    let mut seen: Vec<(u32, bool)> = Vec::new();
    for (o, written) in i.ins.iter().map(|o| (o, updates)).chain(i.outs.iter().map(|o| (o, true))) {
        match seen.iter_mut().find(|s| s.0 == o.buffer) {
            Some(known) => known.1 |= written,
            None if elsewhere[o.buffer as usize] => seen.push((o.buffer, written)),
            None => {}
        }
    }
    let bytes = |s: &(u32, bool)| plan.buffers[s.0 as usize].bytes;
    (seen.iter().map(bytes).sum(), seen.iter().filter(|s| s.1).map(bytes).sum())
}
