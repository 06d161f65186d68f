//! The compiled thing: tasks that pass registers, instructions over buffers, and where every buffer lives.
//!
//! A plan is data alone: no pointer, no tensor, no code. An instruction names ops of the table with their arguments; the
//! program that runs is built from it by the ops' own rules (`program`), so a plan read from a file is checked by the very
//! code that checks eager calls.

use crate::guards::Dynamic;
use oneflow_base::{Arg, Attrs, DType, Device, Dims, Error, Meta, Result, intern, sym_name};
use std::sync::Arc;

/// A compiled program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub name: String,
    pub arenas: Vec<Arena>,
    pub buffers: Vec<Buffer>,
    pub inputs: Vec<Input>,
    pub variables: Vec<Variable>,
    pub outputs: Vec<Output>,
    pub registers: Vec<Register>,
    pub tasks: Vec<Task>,
    /// Positions of the default generator that one run takes.
    pub n_rng: u64,
    /// The names of inputs and results, in their order; those beyond have a number only.
    pub input_names: Vec<String>,
    pub output_names: Vec<String>,
    /// Of a plan for many sizes: the numbers that depend on them.
    pub dynamic: Option<Arc<Dynamic>>,
}

/// One allocation of device memory, cut into buffers at compile time.
#[derive(Clone, Debug, PartialEq)]
pub struct Arena {
    pub device: Device,
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    pub device: Device,
    pub bytes: u64,
    pub home: Home,
}

/// Where a buffer's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    Arena {
        arena: u32,
        offset: u64,
    },
    /// The caller's input of a run.
    Input(u32),
    /// Outlives runs: parameters, buffers, optimizer state.
    Variable(u32),
    /// Memory of a result.
    Output(u32),
    /// Item `piece` (of those consumed or produced in one step) of a register, from `offset` on.
    Register {
        register: u32,
        piece: u32,
        offset: u64,
    },
}

/// An argument of every run: contiguous, of this meta.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub buffer: u32,
    pub meta: Meta,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    pub name: String,
    pub buffer: u32,
    /// Of the whole memory: contiguous.
    pub meta: Meta,
}

/// A result: a layout of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    pub operand: Operand,
}

/// Memory passed from one producer to its consumers, in `slots` slots: as many items as may be under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Register {
    pub name: String,
    pub device: Device,
    /// Bytes of one slot.
    pub bytes: u64,
    pub slots: u32,
}

/// An actor.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub name: String,
    /// Tasks of one stream share a thread.
    pub stream: u32,
    pub work: Work,
    pub consumes: Vec<Port>,
    pub produces: Vec<Port>,
}

/// A task's use of a register: how many items it consumes or produces in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    pub register: u32,
    pub pieces: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// The caller's side: starts runs.
    HostIn,
    /// The caller's side: takes results.
    HostOut,
    Compute(Vec<Instr>),
    /// A named source with its own configuration (`sources`).
    Source {
        kind: String,
        config: Vec<u8>,
    },
}

/// One op, or a chain of elementwise ops that runs as one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Instr {
    pub steps: Vec<Step>,
    pub ins: Vec<Operand>,
    pub outs: Vec<Operand>,
    /// The text of an error: the op and its source location.
    pub origin: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub op: String,
    pub args: Vec<PlanArg>,
    pub ins: Vec<Option<Ref>>,
    pub outs: Vec<Ref>,
}

/// An operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ref {
    In(u16),
    Out(u16),
    /// A value inside a chain; never in memory. It has the dtype, and the sizes of the chain.
    Temp(u16, DType),
}

/// A layout of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    pub buffer: u32,
    /// First element, in elements from the buffer's start.
    pub offset: i64,
    pub dtype: DType,
    pub sizes: Dims,
    pub strides: Dims,
}

impl Operand {
    pub fn meta(&self, device: Device) -> Meta {
        Meta { dtype: self.dtype, device, sizes: self.sizes.clone(), strides: self.strides.clone() }
    }
    /// First and one past the last byte from the buffer's start; `None` where the arithmetic overflows or it is negative.
    pub fn extent(&self) -> Option<(u64, u64)> {
        if self.sizes.len() != self.strides.len() || self.sizes.iter().any(|n| *n < 0) || self.offset < 0 {
            return None;
        }
        let item = self.dtype.size() as i64;
        if self.sizes.contains(&0) {
            let at = self.offset.checked_mul(item)? as u64;
            return Some((at, at));
        }
        let (mut lo, mut hi) = (self.offset, self.offset);
        for (n, s) in self.sizes.iter().zip(&self.strides) {
            let reach = (n - 1).checked_mul(*s)?;
            if reach < 0 {
                lo = lo.checked_add(reach)?;
            } else {
                hi = hi.checked_add(reach)?;
            }
        }
        (lo >= 0).then_some(())?;
        Some((lo.checked_mul(item)? as u64, hi.checked_add(1)?.checked_mul(item)? as u64))
    }

    /// Returns true if two operands may have bytes in common.
    pub(crate) fn meets(&self, other: &Operand) -> bool {
        let apart = |(a, b): ((u64, u64), (u64, u64))| a.0 == a.1 || b.0 == b.1 || a.1 <= b.0 || b.1 <= a.0;
        self.buffer == other.buffer && !self.extent().zip(other.extent()).is_some_and(apart)
    }

    /// The dimensions that have a stride worth the name.
    fn moving(&self) -> impl Iterator<Item = (i64, i64)> {
        self.sizes.iter().copied().zip(self.strides.iter().copied()).filter(|d| d.0 > 1)
    }

    /// Returns true if both are the same elements in the same order.
    pub(crate) fn is_same(&self, other: &Operand) -> bool {
        let place = |o: &Operand| (o.buffer, o.offset, o.dtype);
        place(self) == place(other) && self.moving().eq(other.moving())
    }

    /// Returns true if no two indices address one element.
    pub(crate) fn is_injective(&self) -> bool {
        let mut dims: Vec<(i64, i64)> = self.moving().collect();
        dims.sort_by_key(|d| d.1.unsigned_abs());
        let mut reach = 0i64;
        self.sizes.contains(&0)
            || dims.iter().all(|(n, s)| {
                let apart = s.unsigned_abs() > reach.unsigned_abs();
                reach = reach.saturating_add((n - 1).saturating_mul(s.saturating_abs()));
                apart
            })
    }
}

/// An argument that can be kept in a file: no interned numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanArg {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
    DType(DType),
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    Len(u32),
    Str(String),
    Device(Device),
    /// The n-th random position of a run.
    Rng(u64),
    /// The same for a shard's window of the one stream.
    RngAt(u64, Vec<i64>),
}

impl PlanArg {
    /// Keeps arguments. A random one becomes its position after `rng_start`.
    pub fn keep(attrs: &Attrs, rng_start: u64) -> Result<Vec<PlanArg>> {
        attrs.args().iter().map(|a| Self::keep_one(*a, rng_start)).collect()
    }

    fn keep_one(a: Arg<'_>, rng_start: u64) -> Result<PlanArg> {
        Ok(match a {
            Arg::None => PlanArg::None,
            Arg::Bool(b) => PlanArg::Bool(b),
            Arg::Int(i) => PlanArg::Int(i),
            Arg::Float(f) => PlanArg::Float(f),
            Arg::Complex(r, i) => PlanArg::Complex(r, i),
            Arg::DType(d) => PlanArg::DType(d),
            Arg::Ints(v) => PlanArg::Ints(v.to_vec()),
            Arg::Floats(v) => PlanArg::Floats(v.to_vec()),
            Arg::Len(n) => PlanArg::Len(n),
            Arg::Sym(s) => PlanArg::Str(sym_name(s).to_owned()),
            Arg::Device(d) => PlanArg::Device(d),
            Arg::Rng { offset, .. } => PlanArg::Rng(offset.wrapping_sub(rng_start)),
            Arg::RngAt { offset, window, .. } => PlanArg::RngAt(offset.wrapping_sub(rng_start), window.to_vec()),
            Arg::Placement(_) | Arg::Sbp(_) => {
                return Err(Error::not_implemented("a plan keeps no placement: boxing comes before lowering"));
            }
        })
    }

    /// The argument again; random ones read `(seed, offset of site 0)`.
    pub fn arg(&self, rng: (u64, u64)) -> Arg<'_> {
        match self {
            PlanArg::None => Arg::None,
            PlanArg::Bool(b) => Arg::Bool(*b),
            PlanArg::Int(i) => Arg::Int(*i),
            PlanArg::Float(f) => Arg::Float(*f),
            PlanArg::Complex(r, i) => Arg::Complex(*r, *i),
            PlanArg::DType(d) => Arg::DType(*d),
            PlanArg::Ints(v) => Arg::Ints(v),
            PlanArg::Floats(v) => Arg::Floats(v),
            PlanArg::Len(n) => Arg::Len(*n),
            PlanArg::Str(s) => Arg::Sym(intern(s)),
            PlanArg::Device(d) => Arg::Device(*d),
            PlanArg::Rng(site) => Arg::Rng { seed: rng.0, offset: rng.1.wrapping_add(*site) },
            PlanArg::RngAt(site, window) => Arg::RngAt { seed: rng.0, offset: rng.1.wrapping_add(*site), window },
        }
    }
}

impl Plan {
    /// Lets a source on a separate thread supply an input in place of the caller: `slots` batches ahead at most.
    /// The further inputs move up.
    pub fn feed_input(&mut self, input: usize, kind: &str, config: Vec<u8>, slots: u32) -> Result<()> {
        self.feed_inputs(&[input], kind, config, slots)
    }

    /// As `feed_input`, with one source that supplies several inputs at once, in this order.
    pub fn feed_inputs(&mut self, inputs: &[usize], kind: &str, config: Vec<u8>, slots: u32) -> Result<()> {
        let fits = |i: &usize| *i < self.inputs.len() && inputs.iter().filter(|k| *k == i).count() == 1;
        let computes = self.tasks.iter().any(|t| matches!(t.work, Work::Compute(_)));
        if !computes || inputs.is_empty() || !inputs.iter().all(fits) {
            return Err(Error::value(format!("the plan has no inputs {inputs:?} to feed")));
        }
        let mut produces = Vec::with_capacity(inputs.len());
        for (k, input) in inputs.iter().enumerate() {
            // Those fed before have moved up the inputs behind them.
            let moved = inputs[..k].iter().filter(|i| *i < input).count();
            produces.push(self.feed_one(input - moved, kind, slots));
        }
        let stream = self.tasks.iter().map(|t| t.stream).max().unwrap_or(0) + 1;
        let work = Work::Source { kind: kind.into(), config };
        self.tasks.push(Task { name: kind.into(), stream, work, consumes: Vec::new(), produces });
        Ok(())
    }

    /// Results in this buffer are copied to memory of their own: the slot of a register is released after the run.
    fn keep_results_of(&mut self, buffer: u32) {
        if self.outputs.iter().all(|o| o.operand.buffer != buffer) {
            return;
        }
        let number = self.buffers.iter().filter(|b| matches!(b.home, Home::Output(_))).count() as u32;
        let copy = self.buffers.len() as u32;
        let old = &self.buffers[buffer as usize];
        let (device, bytes) = (old.device, old.bytes);
        self.buffers.push(Buffer { device, bytes, home: Home::Output(number) });
        let Some(dtype) = self.outputs.iter().find(|o| o.operand.buffer == buffer).map(|o| o.operand.dtype) else {
            return;
        };
        let n = (bytes / dtype.size() as u64) as i64;
        let whole = |buffer| Operand {
            buffer,
            offset: 0,
            dtype,
            sizes: Dims::from_slice(&[n]),
            strides: Dims::from_slice(&[1]),
        };
        let op = &oneflow_ops::creation::contiguous::COPY_OP;
        let step = Step {
            op: op.name().into(),
            args: vec![PlanArg::None; op.sig.params().iter().filter(|p| p.is_arg()).count()],
            ins: vec![Some(Ref::In(0))],
            outs: vec![Ref::Out(0)],
        };
        let origin = "copy of a result that is an input".into();
        let instr = Instr { steps: vec![step], ins: vec![whole(buffer)], outs: vec![whole(copy)], origin };
        if let Some(Work::Compute(program)) =
            self.tasks.iter_mut().map(|t| &mut t.work).rfind(|w| matches!(w, Work::Compute(_)))
        {
            program.push(instr);
        }
        self.outputs.iter_mut().filter(|o| o.operand.buffer == buffer).for_each(|o| o.operand.buffer = copy);
    }

    fn feed_one(&mut self, input: usize, kind: &str, slots: u32) -> Port {
        let fed = self.inputs.remove(input);
        let register = self.registers.len() as u32;
        let b = &mut self.buffers[fed.buffer as usize];
        b.home = Home::Register { register, piece: 0, offset: 0 };
        let (device, bytes) = (b.device, b.bytes);
        self.keep_results_of(fed.buffer);
        for b in &mut self.buffers {
            if let Home::Input(k) = &mut b.home
                && *k as usize > input
            {
                *k -= 1;
            }
        }
        self.registers.push(Register { name: format!("{kind} {input}"), device, bytes, slots });
        let port = Port { register, pieces: 1 };
        let touches = |t: &Task| {
            let Work::Compute(p) = &t.work else { return false };
            p.iter().flat_map(|i| i.ins.iter().chain(&i.outs)).any(|o| o.buffer == fed.buffer)
        };
        let mut readers: Vec<usize> = (0..self.tasks.len()).filter(|t| touches(&self.tasks[*t])).collect();
        if readers.is_empty() {
            // Items that nobody looks at are taken all the same.
            readers.extend(self.tasks.iter().position(|t| matches!(t.work, Work::Compute(_))));
        }
        readers.into_iter().for_each(|t| self.tasks[t].consumes.push(port));
        port
    }
}
