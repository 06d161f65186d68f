//! A plan with its memory, ready to run: what nn.Graph calls, and what a service without Python embeds.
//!
//! ```no_run
//! use oneflow_runtime::{Session, numbers, tensor};
//!
//! # fn main() -> oneflow_runtime::Result<()> {
//! let mut session = Session::load("model")?;
//! println!("{:?} {:?}", session.inputs(), session.outputs());
//! let outputs = session.run(&[tensor(&[1.0f32, 2.0], &[1, 2])?])?;
//! println!("{:?}", numbers::<f32>(&outputs[0])?);
//! # Ok(()) }
//! ```

use crate::actor::{Act, Body, Network, RunArgs};
use crate::aside::{self, Part};
use crate::beside::in_one_task;
use crate::consent::{Circles, Consent, Together};
use crate::lower::find;
use crate::offload;
use crate::plan::*;
use crate::program::Program;
use crate::progress::Piece;
use crate::replay::{Movable, Replays};
use crate::sources;
use crate::sync::sync::Arc;
use crate::sync::sync::atomic::{AtomicBool, Ordering};
use oneflow_base::{Device, Error, Meta, Result};
use oneflow_core::kernels::mt19937;
use oneflow_core::{Pin, Storage, Tensor, Traits, copy_to_host, default_generator};
use oneflow_ep::queues::{Chosen, Switched};
use oneflow_ep::{Position, provider};
use std::collections::VecDeque;
use std::time::Duration;

/// A loaded plan. One run at a time; runs allocate nothing.
pub struct Session {
    plan: Arc<Plan>,
    arenas: Vec<Storage>,
    variables: Vec<Storage>,
    /// Per variable: whether a run writes it.
    written: Vec<bool>,
    /// The same per input.
    written_inputs: Vec<bool>,
    /// Per output memory: storages that are used again once nobody else holds them.
    outputs: Vec<Vec<Storage>>,
    /// Runs that were started and whose results nobody has taken yet; how many there may be.
    pending: VecDeque<Pending>,
    n_results: usize,
    network: Option<Network>,
    cancel: Arc<AtomicBool>,
    /// Launches of one run.
    n_launches: usize,
    /// What the ranks of collectives have agreed on, and what they are asked.
    consent: Consent,
    together: Option<Together>,
    /// Of a plan for many sizes: a session for each of the sizes that were used last, the latest first. They share
    /// variables and arenas, and one runs at a time; this one has no network of its own.
    sized: Vec<(Vec<i64>, Session)>,
}

/// Sizes whose sessions are kept: each holds its launches.
const KEPT_SIZES: usize = 16;

impl Drop for Session {
    fn drop(&mut self) {
        // The threads end before their memory does.
        self.network = None;
    }
}

/// A run under way: its inputs (a copy keeps its original alive), its results' memory, its seed and position.
struct Pending {
    inputs: Vec<(Tensor, Option<Tensor>)>,
    storages: Vec<Storage>,
    /// Keep the memory of inputs and variables, should somebody resize them meanwhile.
    #[expect(dead_code, reason = "held until the run has ended")]
    pins: Vec<Pin>,
    random: (u64, u64),
}

/// Never interrupts.
fn no_poll() -> Result<()> {
    Ok(())
}

impl Session {
    /// Assigns memory to a plan. `variables`: one storage for each of the plan's, shared with their other owners.
    pub fn new(plan: Plan, variables: Vec<Storage>) -> Result<Session> {
        Self::with_arenas(plan, variables, None)
    }

    /// A session of another plan over the same variables and arenas, where those have the same sizes. The two must not run at
    /// the same time.
    pub fn sharing(&self, plan: Plan) -> Result<Session> {
        let arenas = (plan.arenas == self.plan.arenas).then(|| self.arenas.clone());
        Self::with_arenas(plan, self.variables.clone(), arenas)
    }

    fn with_arenas(plan: Plan, variables: Vec<Storage>, arenas: Option<Vec<Storage>>) -> Result<Session> {
        plan.check()?;
        if variables.len() != plan.variables.len() {
            return Err(Error::value(format!(
                "plan {:?} has {} variables, {} were given",
                plan.name,
                plan.variables.len(),
                variables.len()
            )));
        }
        let dynamic = plan.dynamic.is_some();
        let fresh = || plan.arenas.iter().map(|a| Storage::new(a.device, a.bytes as usize)).collect::<Result<_>>();
        let arenas = if dynamic { Vec::new() } else { arenas.map_or_else(fresh, Ok)? };
        let n_outputs = plan.output_buffers()?.len();
        let taken = plan.tasks.iter().filter(|t| t.work == Work::HostOut).flat_map(|t| &t.consumes);
        let n_results = taken.map(|p| plan.registers[p.register as usize].slots / p.pieces).min().unwrap_or(1) as usize;
        let mut s = Session {
            written: plan.written(plan.variables.len(), |h| if let Home::Variable(k) = h { Some(k) } else { None }),
            written_inputs: plan.written(plan.inputs.len(), |h| if let Home::Input(k) = h { Some(k) } else { None }),
            plan: Arc::new(plan),
            arenas,
            variables,
            outputs: vec![Vec::new(); n_outputs],
            pending: VecDeque::new(),
            n_results: n_results.max(1),
            network: None,
            cancel: Arc::new(AtomicBool::new(false)),
            n_launches: 0,
            consent: Consent::default(),
            together: None,
            sized: Vec::new(),
        };
        s.check_variables()?;
        if dynamic {
            // The ops' own rules see the plan now, not at the first run.
            let programs = s.plan.tasks.iter().map(|t| match &t.work {
                Work::Compute(p) => Program::new(p, &s.plan.buffers, compute_device(&s.plan, p)).map(|p| p.len()),
                _ => Ok(0),
            });
            s.n_launches = programs.sum::<Result<usize>>()?;
            return Ok(s);
        }
        s.start()?;
        Ok(s)
    }

    /// Returns true if a run changes variables.
    pub fn writes_variables(&self) -> bool {
        self.written.contains(&true)
    }

    /// Another session over the same variables, to run at the same time as this one.
    pub fn replica(&self) -> Result<Session> {
        if let Some(i) = self.written.iter().position(|w| *w) {
            return Err(Error::value(format!(
                "plan {:?} writes its variable {:?}: sessions at the same time would disagree about it",
                self.plan.name, self.plan.variables[i].name
            )));
        }
        Session::new((*self.plan).clone(), self.variables.clone())
    }

    fn check_variables(&self) -> Result<()> {
        for (v, s) in self.plan.variables.iter().zip(&self.variables) {
            let b = &self.plan.buffers[v.buffer as usize];
            if (s.bytes() as u64) < b.bytes || s.device() != b.device {
                return Err(Error::runtime(format!(
                    "variable {:?} has {} bytes on {}, the plan was compiled for {} on {}",
                    v.name,
                    s.bytes(),
                    s.device(),
                    b.bytes,
                    b.device
                )));
            }
        }
        Ok(())
    }

    /// Makes programs and threads.
    fn start(&mut self) -> Result<()> {
        self.cancel = Arc::new(AtomicBool::new(false));
        let mut bodies: Vec<Option<Box<dyn Body>>> = Vec::new();
        self.n_launches = 0;
        let whole = in_one_task(&self.plan);
        let (plan, beside) = whole.as_ref().map_or((&*self.plan, &[][..]), |(plan, beside)| (plan, beside));
        let mut hints = offload::hints(plan, &self.variables);
        let parts = aside::parts(plan, &self.variables)?;
        let is_one = plan.tasks.iter().filter(|t| matches!(t.work, Work::Compute(_))).count() == 1;
        let (mut circles, mut can) = (Circles::default(), false);
        for ((t, hints), part) in plan.tasks.iter().zip(&mut hints).zip(parts) {
            bodies.push(match &t.work {
                Work::HostIn | Work::HostOut => None,
                Work::Source { kind, config } => Some(sources::make(kind, config)?),
                Work::Compute(instrs) => {
                    let device = compute_device(plan, instrs);
                    let mut program = Program::new(instrs, &plan.buffers, device)?;
                    program.set_beside(beside)?;
                    self.n_launches += program.len();
                    program.set_hints(std::mem::take(hints));
                    let used: Vec<(usize, u32)> = program.used().collect();
                    for (place, buffer) in used {
                        if let Home::Arena { arena, offset } = plan.buffers[buffer as usize].home {
                            program.set_base(place, self.arenas[arena as usize].ptr().wrapping_add(offset as usize));
                        }
                    }
                    // A collective that was issued is not given up: other ranks may be in it.
                    let talks = !instrs.is_empty() && instrs.iter().all(is_collective);
                    let cancel = if talks { Arc::default() } else { self.cancel.clone() };
                    circles.add(&program);
                    let mut body = Compute::new(program, plan, t, cancel, &self.written_inputs, part);
                    if is_one && circles.is_one() && body.can_be_whole() {
                        can = true;
                        body.replays.set_whole(self.consent.clone(), circles.clone());
                    }
                    Some(Box::new(body))
                }
            });
        }
        self.together = (!circles.is_empty()).then(|| Together::new(self.consent.clone(), circles, can));
        self.network = Some(Network::start(plan, bodies, self.cancel.clone())?);
        Ok(())
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Says what inputs and results are called; those without a name keep a number.
    ///
    /// # Errors
    /// ValueError: two have one name, or there are more names than inputs or results.
    pub fn name_ends(&mut self, inputs: Vec<String>, outputs: Vec<String>) -> Result<()> {
        let plan = Plan { input_names: inputs, output_names: outputs, ..(*self.plan).clone() };
        plan.check()?;
        self.plan = Arc::new(plan);
        Ok(())
    }

    /// Name, dtype, sizes and device of every input, in the order of `run`.
    pub fn inputs(&self) -> Vec<(String, Meta)> {
        let named = |(i, input): (usize, &Input)| (self.plan.input_name(i), input.meta.clone());
        self.plan.inputs.iter().enumerate().map(named).collect()
    }

    /// The same of every result.
    pub fn outputs(&self) -> Vec<(String, Meta)> {
        let named = |(i, o): (usize, &Output)| {
            let device = self.plan.buffers[o.operand.buffer as usize].device;
            (self.plan.output_name(i), o.operand.meta(device))
        };
        self.plan.outputs.iter().enumerate().map(named).collect()
    }

    /// Runs the plan once with inputs by name; results come with theirs.
    ///
    /// # Errors
    /// TypeError: a name is missing, unknown, or repeated. Otherwise as `run`.
    pub fn run_by_name(&mut self, inputs: &[(&str, Tensor)]) -> Result<Vec<(String, Tensor)>> {
        let names: Vec<String> = (0..self.plan.inputs.len()).map(|i| self.plan.input_name(i)).collect();
        let mut given: Vec<Option<&Tensor>> = vec![None; names.len()];
        for (name, t) in inputs {
            let at = names.iter().position(|n| n == name);
            if at.and_then(|i| given[i].replace(t).map_or(Some(()), |_| None)).is_none() {
                return Err(Error::type_(format!("{}: takes {names:?} once each, got {name:?}", self.plan.name)));
            }
        }
        let missing = || Error::type_(format!("{}: takes {names:?}, some were not given", self.plan.name));
        let ordered =
            given.into_iter().map(Option::<&Tensor>::cloned).collect::<Option<Vec<_>>>().ok_or_else(missing)?;
        let results = self.run(&ordered)?;
        Ok(results.into_iter().enumerate().map(|(i, t)| (self.plan.output_name(i), t)).collect())
    }

    /// Kernel launches of one run.
    pub fn n_launches(&self) -> usize {
        self.n_launches
    }

    /// A variable's memory.
    pub fn variable(&self, name: &str) -> Option<&Storage> {
        self.plan.variables.iter().position(|v| v.name == name).map(|i| &self.variables[i])
    }

    /// Runs the plan once.
    pub fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.run_polled(inputs, &mut no_poll)
    }

    /// Runs the plan once; while it waits it calls `poll`, whose error ends the run.
    pub fn run_polled(&mut self, inputs: &[Tensor], poll: &mut dyn FnMut() -> Result<()>) -> Result<Vec<Tensor>> {
        if self.plan.dynamic.is_some() {
            let sizes = self.plan.sizes_of(inputs)?;
            return self.run_at(&sizes, inputs, poll);
        }
        if !self.pending.is_empty() {
            return Err(Error::runtime(format!(
                "{}: runs are under way whose results were not collected",
                self.plan.name
            )));
        }
        self.submit(inputs, poll)?;
        self.collect(poll)
    }

    /// Runs a plan for many sizes at these sizes of its named dimensions.
    pub fn run_at(
        &mut self,
        sizes: &[i64],
        inputs: &[Tensor],
        poll: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Tensor>> {
        self.at(sizes, inputs)?.run_polled(inputs, poll)
    }

    /// Plans the memory and the launches of a run at these sizes of the named dimensions, which the first run at them does
    /// otherwise.
    pub fn prepare(&mut self, sizes: &[i64]) -> Result<()> {
        match self.plan.dynamic.is_some() {
            true => self.at(sizes, &[]).map(drop),
            false => Ok(()),
        }
    }

    /// The session of these sizes; it is made if it was not among those used last.
    fn at(&mut self, sizes: &[i64], inputs: &[Tensor]) -> Result<&mut Session> {
        if let Some((other, _)) = self.sized.iter().find(|(s, x)| !x.pending.is_empty() && s != sizes) {
            return Err(Error::runtime(format!(
                "{}: a run at sizes {other:?} is under way, collect its results before one at {sizes:?} starts",
                self.plan.name
            )));
        }
        match self.sized.iter().position(|s| s.0 == sizes) {
            Some(k) => {
                if k > 0 {
                    self.sized[0].1.release_results();
                    self.sized[..=k].rotate_right(1);
                }
                if !self.sized[0].1.fits(inputs) {
                    return Err(self.plan.misfit(inputs, sizes));
                }
            }
            None => {
                let plan = self.plan.at(sizes)?;
                if inputs.iter().zip(&plan.inputs).any(|(t, i)| t.sizes() != i.meta.sizes.as_slice()) {
                    return Err(self.plan.misfit(inputs, sizes));
                }
                if let Some((_, last)) = self.sized.first_mut() {
                    last.release_results();
                }
                self.grow(&plan)?;
                let made = Session::with_arenas(plan, self.variables.clone(), Some(self.arenas.clone()));
                let session = made.map_err(|e| self.plan.with_sizes(e, sizes))?;
                self.sized.truncate(KEPT_SIZES - 1);
                self.sized.insert(0, (sizes.to_vec(), session));
            }
        }
        Ok(&mut self.sized[0].1)
    }

    /// Makes the arenas large enough. Sessions of other sizes end with the memory that they had.
    fn grow(&mut self, plan: &Plan) -> Result<()> {
        let enough = self.arenas.len() == plan.arenas.len()
            && self.arenas.iter().zip(&plan.arenas).all(|(s, a)| s.bytes() as u64 >= a.bytes);
        if !enough {
            self.sized.clear();
            self.arenas.clear();
            self.arenas =
                plan.arenas.iter().map(|a| Storage::new(a.device, a.bytes as usize)).collect::<Result<_>>()?;
        }
        Ok(())
    }

    fn fits(&self, inputs: &[Tensor]) -> bool {
        let fits = |(t, i): (&Tensor, &Input)| {
            let m = &i.meta;
            t.sizes() == m.sizes.as_slice() && t.dtype() == m.dtype && t.device() == m.device
        };
        inputs.len() != self.plan.inputs.len() || inputs.iter().zip(&self.plan.inputs).all(fits)
    }

    /// Frees the memory of results that nobody holds.
    fn release_results(&mut self) {
        self.outputs.iter_mut().for_each(|ring| ring.retain(|s| s.use_count() > 1));
    }

    /// Starts a run whose results `collect` returns. As many may be under way as the plan has slots for results; inputs
    /// must not be written until theirs is collected.
    pub fn submit(&mut self, inputs: &[Tensor], poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.plan.dynamic.is_some() {
            let sizes = self.plan.sizes_of(inputs)?;
            return self.at(&sizes, inputs)?.submit(inputs, poll);
        }
        if self.pending.len() >= self.n_results {
            return Err(Error::runtime(format!(
                "{}: {} runs are under way, collect the first one's results before the next starts",
                self.plan.name,
                self.pending.len()
            )));
        }
        self.check_variables()?;
        let inputs = self.check_inputs(inputs)?;
        let storages = self.output_storages()?;
        // All actors issue to the devices' own queues, whichever thread they are on: what the caller issued comes first.
        let _own_queues = Switched::to(&Chosen::default())?;
        let variables: Vec<usize> = self.variables.iter().map(|s| s.ptr() as usize).collect();
        let records = self.ask_ranks(&variables)?;
        // Taken at once: others may be taking theirs.
        let generator = default_generator();
        if self.plan.n_rng > 0 && generator.is_in_order() {
            return Err(mt19937::only_in_order("run", "a graph or a compiled function"));
        }
        let (seed, offset) = generator.take(self.plan.n_rng);
        let kept = |(t, original): &(Tensor, Option<&Tensor>)| (t.clone(), original.cloned());
        let used = inputs.iter().filter_map(|t| t.0.storage()).chain(&self.variables);
        let pins = used.map(Storage::pin).collect();
        let run = Pending { inputs: inputs.iter().map(kept).collect(), storages, pins, random: (seed, offset) };
        let args = RunArgs {
            inputs: inputs.iter().map(|t| t.0.data_ptr() as usize).collect(),
            variables,
            outputs: run.storages.iter().map(|s| s.ptr() as usize).collect(),
            seed,
            offset,
            records,
        };
        let done = self.network()?.submit(args, poll);
        self.pending.push_back(run);
        if let Err(e) = done {
            return Err(self.stop(e));
        }
        Ok(())
    }

    /// Asks the ranks of collectives whether all record this run. Within somebody's capture none does.
    fn ask_ranks(&mut self, variables: &[usize]) -> Result<bool> {
        let device = self.plan.arenas.first().map_or(Device::CPU, |a| a.device);
        let Some(together) = &mut self.together else { return Ok(false) };
        let p = provider(device.kind)?;
        if p.is_recorded(p.own_queue(device.index)) { Ok(false) } else { together.ask(variables) }
    }

    /// Waits until the data of sources for the next run are ready. Other threads may use the variables meanwhile.
    pub fn wait_for_data(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.plan.dynamic.is_some() {
            return Ok(());
        }
        self.network()?.wait_for_data(poll).map_err(|e| self.stop(e))
    }

    /// Ends the threads. Unlike dropping, it waits for sources without a limit, but calls `poll`; the next run starts them
    /// again.
    pub fn close(&mut self, limit: Option<Duration>, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let done = self.network.take().map_or(Ok(()), |mut n| n.stop(limit, poll));
        self.pending.clear();
        self.sized.clear();
        done
    }

    /// The actors; they are restarted after an error.
    fn network(&mut self) -> Result<&mut Network> {
        if self.network.is_none() {
            self.start()?;
        }
        self.network.as_mut().ok_or_else(|| Error::runtime("the plan did not start"))
    }

    /// After an error everything stops before the caller gets its memory back; the next run restarts, with the random
    /// numbers that the first unfinished one would have had.
    fn stop(&mut self, e: Error) -> Error {
        self.cancel.store(true, Ordering::Relaxed);
        self.network = None;
        if let Some(&Pending { random: (seed, offset), .. }) = self.pending.front() {
            let generator = default_generator();
            // Unless somebody else has taken numbers since.
            if generator.offset() == offset.wrapping_add(self.plan.n_rng.wrapping_mul(self.pending.len() as u64)) {
                generator.set_state(seed, offset);
            }
        }
        self.pending.clear();
        e
    }

    /// The results of the run that was started first.
    pub fn collect(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Vec<Tensor>> {
        if let Some((_, sized)) = self.sized.iter_mut().find(|s| !s.1.pending.is_empty()) {
            return sized.collect(poll);
        }
        let Some(network) = self.network.as_mut().filter(|_| !self.pending.is_empty()) else {
            return Err(Error::runtime(format!("{}: no run is under way", self.plan.name)));
        };
        // What the caller issues afterwards comes after the run.
        let _own_queues = Switched::to(&Chosen::default())?;
        if let Err(e) = network.collect(poll, &mut |_| Ok(())) {
            return Err(self.stop(e));
        }
        let Some(Pending { inputs, storages, .. }) = self.pending.pop_front() else { return Ok(Vec::new()) };
        for ((t, original), written) in inputs.iter().zip(&self.written_inputs) {
            if *written && let Some(original) = original {
                oneflow_core::copy_into(original, t)?;
            }
            if *written {
                original.as_ref().unwrap_or(t).bump_version();
            }
        }
        for (v, written) in self.variables.iter().zip(&self.written) {
            if *written {
                v.bump_version();
            }
        }
        self.results(&inputs, &storages)
    }

    /// Inputs as the plan reads them: contiguous. A copy keeps the tensor it came from.
    fn check_inputs<'a>(&self, given: &'a [Tensor]) -> Result<Vec<(Tensor, Option<&'a Tensor>)>> {
        let want = &self.plan.inputs;
        if given.len() != want.len() {
            return Err(Error::type_(format!(
                "{}: takes {} tensors, {} were given",
                self.plan.name,
                want.len(),
                given.len()
            )));
        }
        let mut out = Vec::with_capacity(given.len());
        for (i, (t, w)) in given.iter().zip(want).enumerate() {
            let m = &w.meta;
            if t.sizes() != m.sizes.as_slice() || t.dtype() != m.dtype || t.device() != m.device {
                return Err(Error::runtime(format!(
                    "{}: input {i} was compiled as {}{:?} on {}, got {}{:?} on {}",
                    self.plan.name,
                    m.dtype,
                    m.sizes.as_slice(),
                    m.device,
                    t.dtype(),
                    t.sizes(),
                    t.device()
                )));
            }
            if t.storage().is_none() {
                return Err(Error::runtime(format!("{}: input {i} has no data", self.plan.name)));
            }
            t.check_memory()?;
            if t.is_contiguous() {
                out.push((t.clone(), None));
            } else if t.device().is_cpu() {
                out.push((copy_to_host(t)?, Some(t)));
            } else {
                return Err(Error::runtime(format!("{}: input {i} is not contiguous", self.plan.name)));
            }
        }
        Ok(out)
    }

    /// Memory for this run's results: what nobody else holds any more, or new memory.
    fn output_storages(&mut self) -> Result<Vec<Storage>> {
        let mut out = Vec::with_capacity(self.outputs.len());
        for (ring, b) in self.outputs.iter_mut().zip(self.plan.output_buffers()?) {
            let free = ring.iter().find(|s| s.use_count() == 1).cloned();
            out.push(match free {
                Some(s) => s,
                None => {
                    let s = Storage::new(b.device, b.bytes as usize)?;
                    // The caller may keep every result; only a few are remembered.
                    if ring.len() > self.n_results {
                        ring.remove(0);
                    }
                    ring.push(s.clone());
                    s
                }
            });
        }
        Ok(out)
    }

    fn results(&self, inputs: &[(Tensor, Option<Tensor>)], outputs: &[Storage]) -> Result<Vec<Tensor>> {
        let mut out = Vec::with_capacity(self.plan.outputs.len());
        for o in &self.plan.outputs {
            let op = &o.operand;
            let (storage, shift) = match self.plan.buffers[op.buffer as usize].home {
                Home::Output(k) => (outputs.get(k as usize).cloned(), 0),
                Home::Variable(k) => (self.variables.get(k as usize).cloned(), 0),
                Home::Input(k) => {
                    // Of an input that is not contiguous the copy: a result's layout speaks of that.
                    let t = inputs.get(k as usize).map(|t| &t.0);
                    (t.and_then(Tensor::storage).cloned(), t.map_or(0, Tensor::offset))
                }
                Home::Arena { .. } | Home::Register { .. } => (None, 0),
            };
            let storage = storage.ok_or_else(|| Error::value("plan: a result does not outlive its run"))?;
            out.push(Tensor::from_storage(storage, op.dtype, op.sizes.clone(), op.strides.clone(), op.offset + shift)?);
        }
        Ok(out)
    }

    /// Memory of the variables, in the plan's order.
    pub fn variables(&self) -> &[Storage] {
        &self.variables
    }
}

/// The device of a program: that of its operands.
fn compute_device(plan: &Plan, instrs: &[Instr]) -> Device {
    let first = instrs.iter().flat_map(|i| i.outs.iter().chain(&i.ins)).next();
    first.and_then(|o| plan.buffers.get(o.buffer as usize)).map_or(Device::CPU, |b| b.device)
}

fn is_collective(i: &Instr) -> bool {
    i.steps.iter().any(|s| find(&s.op).is_ok_and(|op| op.traits.has(Traits::COLLECTIVE)))
}

impl Plan {
    /// The name of an input: "input0" if it has none.
    pub fn input_name(&self, i: usize) -> String {
        self.input_names.get(i).cloned().unwrap_or_else(|| format!("input{i}"))
    }

    /// The name of a result: "output0" if it has none.
    pub fn output_name(&self, i: usize) -> String {
        self.output_names.get(i).cloned().unwrap_or_else(|| format!("output{i}"))
    }

    /// The buffers of results by their number.
    fn output_buffers(&self) -> Result<Vec<&Buffer>> {
        let mut found: Vec<(u32, &Buffer)> = Vec::new();
        for b in &self.buffers {
            if let Home::Output(k) = b.home {
                found.push((k, b));
            }
        }
        found.sort_by_key(|x| x.0);
        if found.iter().enumerate().any(|(i, x)| x.0 as usize != i) {
            return Err(Error::value("plan: the buffers of its results are not numbered from zero"));
        }
        Ok(found.into_iter().map(|x| x.1).collect())
    }

    /// Compute tasks that touch a buffer.
    fn n_tasks_of(&self, buffer: u32) -> usize {
        let touches = |i: &Instr| i.outs.iter().chain(&i.ins).any(|o| o.buffer == buffer);
        self.tasks.iter().filter(|t| matches!(&t.work, Work::Compute(p) if p.iter().any(touches))).count()
    }

    /// Per variable or input: whether some instruction writes it. Ops that update inputs may write any operand.
    fn written(&self, n: usize, number: impl Fn(&Home) -> Option<&u32>) -> Vec<bool> {
        let mut written = vec![false; n];
        for t in &self.tasks {
            let Work::Compute(instrs) = &t.work else { continue };
            for i in instrs {
                let all = i.steps.iter().any(|s| find(&s.op).is_ok_and(|op| op.traits.has(Traits::MUTATES)));
                for o in i.outs.iter().chain(i.ins.iter().filter(|_| all)) {
                    let k = number(&self.buffers[o.buffer as usize].home);
                    if let Some(w) = k.and_then(|k| written.get_mut(*k as usize)) {
                        *w = true;
                    }
                }
            }
        }
        written
    }
}

/// A compute actor.
struct Compute {
    program: Program,
    cancel: Arc<AtomicBool>,
    /// Buffers whose address changes from step to step, by their places in the program.
    moving: Vec<(usize, Where)>,
    replays: Replays,
    part: Part,
}

enum Where {
    Input(usize),
    Variable(usize),
    Output(usize),
    Consumed(usize, usize, usize),
    Produced(usize, usize, usize),
}

impl Compute {
    fn new(
        program: Program,
        plan: &Plan,
        task: &Task,
        cancel: Arc<AtomicBool>,
        written_inputs: &[bool],
        part: Part,
    ) -> Compute {
        let (mut moving, mut movable) = (Vec::new(), Vec::new());
        for (place, buffer) in program.used() {
            let b = &plan.buffers[buffer as usize];
            let is_result = matches!(b.home, Home::Output(_)) && plan.n_tasks_of(buffer) == 1;
            let is_read = matches!(b.home, Home::Input(k) if !written_inputs[k as usize]);
            if is_result || is_read {
                movable.push(Movable { place, bytes: b.bytes, is_result });
            }
            let home = match plan.buffers[buffer as usize].home {
                Home::Arena { .. } => continue,
                Home::Input(k) => Where::Input(k as usize),
                Home::Variable(k) => Where::Variable(k as usize),
                Home::Output(k) => Where::Output(k as usize),
                Home::Register { register, piece, offset } => {
                    let find = |ports: &[Port]| ports.iter().position(|p| p.register == register);
                    match (find(&task.consumes), find(&task.produces)) {
                        (Some(k), _) => Where::Consumed(k, piece as usize, offset as usize),
                        (None, Some(k)) => Where::Produced(k, piece as usize, offset as usize),
                        (None, None) => continue,
                    }
                }
            };
            moving.push((place, home));
        }
        let replays = Replays::new(&program, movable);
        Compute { program, cancel, moving, replays, part }
    }

    /// Returns true if one recording could serve all runs: whatever moves can be copied, but for variables, which mostly stay.
    fn can_be_whole(&self) -> bool {
        let stays = |(place, at): &(usize, Where)| matches!(at, Where::Variable(_)) || self.replays.moves(*place);
        self.moving.iter().all(stays) && self.replays.can_be_whole()
    }
}

impl Body for Compute {
    fn act(&mut self, act: &mut Act<'_>) -> Result<()> {
        let none = RunArgs::default();
        let (ins, outs, run) = (act.ins, act.outs, act.run.unwrap_or(&none));
        let missing = || Error::runtime("a buffer of the plan has no memory in this run");
        for (i, at) in &self.moving {
            let address = |v: &[usize], k: usize| v.get(k).map(|p| *p as *mut u8);
            let piece = |v: &[Vec<Piece>], k: usize, p: usize, o: usize| {
                v.get(k).and_then(|r| r.get(p)).map(|x| x.ptr.wrapping_add(o))
            };
            let ptr = match *at {
                Where::Input(k) => address(&run.inputs, k),
                Where::Variable(k) => address(&run.variables, k),
                Where::Output(k) => address(&run.outputs, k),
                Where::Consumed(k, p, o) => piece(ins, k, p, o),
                Where::Produced(k, p, o) => piece(outs, k, p, o),
            };
            self.replays.set_base(&mut self.program, *i, ptr.ok_or_else(missing)?);
        }
        let random = Position { seed: run.seed, offset: run.offset };
        self.program.set_rng(run.seed, run.offset);
        let aside = self.part.begin()?;
        // SAFETY: every used buffer got its memory above or at the start; sizes were checked by `Plan::check` and by the
        // session; the protocol gives the pieces to this actor alone, and the caller waits for the run.
        unsafe {
            match aside {
                Some(queue) => self.program.run(0..self.program.len(), queue, &self.cancel, act.poll)?,
                None => self.replays.run(&mut self.program, (random, run.records), &self.cancel, act.poll)?,
            }
        }
        self.part.end()
    }
}
