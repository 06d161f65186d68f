//! Plans for many sizes: numbers of a plan that follow from named dimensions, and the plan at given sizes.
//!
//! A dynamic plan is a plan at one choice of sizes, and a formula for each of its numbers that depends on the named ones.
//! `Plan::at` puts the values in, sizes the buffers by what is written to them and places them in the arena again: what it
//! makes is a plain plan, which `check` and the ops' own rules judge like any other. All arithmetic is checked.
//! How the formulas are found is the compiler's concern.

use crate::formulas::{Formula, NamedDim, Term};
use crate::guards::Dynamic;
use crate::memory::{Life, place_once};
use crate::plan::{Home, Instr, Operand, Plan, PlanArg, Work};
use oneflow_base::{Error, Result, contiguous_strides, numel};
use oneflow_core::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// Far more than programs have.
const MAX_DIMS: usize = 16;
const MAX_TERMS: usize = 256;
const MAX_POWER: usize = 16;
const MAX_GUARDS: usize = 1 << 16;
/// Buffers that are placed when a run brings a new size.
const MAX_PLACED: usize = 1 << 14;
/// Largest allocation that a plan may ask for, as in `check`.
const MAX_BYTES: u64 = 1 << 46;

/// A number of a plan that may depend on sizes.
pub enum Number<'a> {
    Int(&'a mut i64),
    Float(&'a mut f64),
}

impl Plan {
    /// Calls `f` with every number that may depend on sizes: sizes, strides and offsets of inputs, results and operands,
    /// and the arguments of ops. The order is fixed: saved formulas count in it.
    pub fn numbers(&mut self, f: &mut dyn FnMut(Number<'_>)) {
        self.inputs.iter_mut().flat_map(|i| &mut i.meta.sizes).for_each(|n| f(Number::Int(n)));
        self.outputs.iter_mut().for_each(|o| operand(&mut o.operand, f));
        for t in &mut self.tasks {
            let Work::Compute(program) = &mut t.work else { continue };
            program.iter_mut().for_each(|i| i.numbers(f));
        }
    }

    /// The sizes of the named dimensions that these inputs have.
    ///
    /// # Errors
    /// TypeError: another number of inputs. RuntimeError: an input has another number of dimensions, or one whose size
    /// does not follow from a dimension. ValueError: a size is outside of its dimension's range.
    pub fn sizes_of(&self, inputs: &[Tensor]) -> Result<Vec<i64>> {
        let Some(dynamic) = &self.dynamic else { return Ok(Vec::new()) };
        if inputs.len() != self.inputs.len() {
            let (want, have) = (self.inputs.len(), inputs.len());
            return Err(Error::type_(format!("{}: takes {want} tensors, {have} were given", self.name)));
        }
        let mut sizes = Vec::with_capacity(dynamic.dims.len());
        for d in &dynamic.dims {
            let Some(r) = d.read else {
                return Err(Error::runtime(format!("{}: no input has the size of {:?}", self.name, d.name)));
            };
            let given = inputs.get(r.input as usize).and_then(|t| t.sizes().get(r.axis as usize).copied());
            let whole = given
                .and_then(|n| n.checked_sub(r.constant))
                .filter(|n| n.checked_rem(r.factor) == Some(0))
                .and_then(|n| n.checked_div(r.factor));
            let Some(size) = whole else { return Err(self.misfit(inputs, &[])) };
            sizes.push(size);
        }
        dynamic.dims.iter().zip(&sizes).try_for_each(|(d, n)| d.takes(&self.name, *n))?;
        Ok(sizes)
    }

    /// Returns an error if a run does not take these inputs.
    ///
    /// # Errors
    /// As `sizes_of`; ValueError: a guard is broken; RuntimeError: an input has other sizes, another dtype or device.
    pub fn check_run(&self, inputs: &[Tensor]) -> Result<()> {
        let sizes = self.sizes_of(inputs)?;
        if inputs.len() != self.inputs.len() {
            let (want, have) = (self.inputs.len(), inputs.len());
            return Err(Error::type_(format!("{}: takes {want} tensors, {have} were given", self.name)));
        }
        if let Some(broken) = self.dynamic.as_ref().and_then(|d| d.broken(&sizes)) {
            return Err(self.with_sizes(Error::value(broken.to_string()), &sizes));
        }
        let want = self.input_sizes(&sizes)?;
        let fits = |((t, i), n): ((&Tensor, &crate::plan::Input), &Vec<i64>)| {
            t.sizes() == n.as_slice() && t.dtype() == i.meta.dtype && t.device() == i.meta.device
        };
        match inputs.iter().zip(&self.inputs).zip(&want).all(fits) {
            true => Ok(()),
            false => Err(self.misfit(inputs, &sizes)),
        }
    }

    /// Says which input is not as the program takes it at these sizes.
    #[cold]
    pub(crate) fn misfit(&self, inputs: &[Tensor], sizes: &[i64]) -> Error {
        let dims = self.dynamic.as_ref().map_or(&[][..], |d| &d.dims);
        let known: Vec<String> = dims.iter().zip(sizes).map(|(d, n)| format!("{}={n}", d.name)).collect();
        let with = if known.is_empty() { String::new() } else { format!(" with {}", known.join(", ")) };
        let at = if sizes.is_empty() { None } else { self.input_sizes(sizes).ok() };
        for (i, (t, w)) in inputs.iter().zip(&self.inputs).enumerate() {
            let fits = match &at {
                Some(want) => want[i] == t.sizes(),
                None => t.sizes().len() == w.meta.sizes.len(),
            };
            if !fits || t.dtype() != w.meta.dtype || t.device() != w.meta.device {
                return Error::runtime(format!(
                    "{}: input {:?} is {}[{}] on {}{with}, got {}{:?} on {}",
                    self.name,
                    self.input_name(i),
                    w.meta.dtype,
                    self.input_shape(i).join(", "),
                    w.meta.device,
                    t.dtype(),
                    t.sizes(),
                    t.device()
                ));
            }
        }
        Error::runtime(format!("{}: the inputs' sizes do not follow from its named dimensions", self.name))
    }

    /// The sizes of all inputs at these sizes of the dimensions.
    fn input_sizes(&self, sizes: &[i64]) -> Result<Vec<Vec<i64>>> {
        let (mut at, mut out) = (0, Vec::new());
        for i in &self.inputs {
            let one = |(k, n): (usize, &i64)| self.formula(at + k).map_or(Ok(*n), |f| f.polynomial().at(sizes));
            out.push(i.meta.sizes.iter().enumerate().map(one).collect::<Result<Vec<i64>>>()?);
            at += i.meta.sizes.len();
        }
        Ok(out)
    }

    fn formula(&self, at: usize) -> Option<&Formula> {
        let numbers = &self.dynamic.as_ref()?.numbers;
        numbers.binary_search_by_key(&(at as u64), |n| n.0.into()).ok().map(|k| &numbers[k].1)
    }

    fn shape(&self, at: usize, sizes: &[i64]) -> Vec<String> {
        let dims = self.dynamic.as_ref().map_or(&[][..], |d| &d.dims);
        let shown = |(k, n): (usize, &i64)| self.formula(at + k).map_or(n.to_string(), |f| f.polynomial().shown(dims));
        sizes.iter().enumerate().map(shown).collect()
    }

    /// The sizes of an input in words: `["batch", "16"]`.
    pub fn input_shape(&self, i: usize) -> Vec<String> {
        let at = self.inputs.iter().take(i).map(|i| i.meta.sizes.len()).sum();
        self.inputs.get(i).map_or(Vec::new(), |x| self.shape(at, &x.meta.sizes))
    }

    /// The same of a result.
    pub fn output_shape(&self, i: usize) -> Vec<String> {
        let inputs: usize = self.inputs.iter().map(|i| i.meta.sizes.len()).sum();
        let before: usize =
            self.outputs.iter().take(i).map(|o| o.operand.sizes.len() + o.operand.strides.len() + 1).sum();
        self.outputs.get(i).map_or(Vec::new(), |o| self.shape(inputs + before, &o.operand.sizes))
    }

    /// The named dimensions; none of a plan for one size.
    pub fn dims(&self) -> &[NamedDim] {
        self.dynamic.as_ref().map_or(&[], |d| &d.dims)
    }

    /// The plain plan at these sizes of the named dimensions, in their order.
    ///
    /// # Errors
    /// ValueError: a size is outside of its range, breaks a guard, does not give whole sizes, or needs more memory than
    /// there can be.
    pub fn at(&self, sizes: &[i64]) -> Result<Plan> {
        let Some(dynamic) = &self.dynamic else { return Ok(self.clone()) };
        if sizes.len() != dynamic.dims.len() {
            let (want, have) = (dynamic.dims.len(), sizes.len());
            return Err(Error::value(format!("{}: has {want} named dimensions, {have} sizes were given", self.name)));
        }
        dynamic.dims.iter().zip(sizes).try_for_each(|(d, n)| d.takes(&self.name, *n))?;
        if let Some(broken) = dynamic.broken(sizes) {
            return Err(self.with_sizes(Error::value(broken.to_string()), sizes));
        }
        self.put(dynamic, sizes).map_err(|e| self.with_sizes(e, sizes))
    }

    /// Says at which sizes something failed.
    #[cold]
    pub(crate) fn with_sizes(&self, e: Error, sizes: &[i64]) -> Error {
        let shown: Vec<String> = self.dims().iter().zip(sizes).map(|(d, n)| format!("{}={n}", d.name)).collect();
        e.context(format_args!("{} with {}: ", self.name, shown.join(", ")))
    }

    fn put(&self, dynamic: &Dynamic, sizes: &[i64]) -> Result<Plan> {
        let mut plan = Plan { dynamic: None, ..self.clone() };
        let (mut at, mut next, mut failed) = (0u32, dynamic.numbers.iter().peekable(), None);
        plan.numbers(&mut |n| {
            if let Some((_, formula)) = next.next_if(|x| x.0 == at)
                && let Err(e) = write(n, formula, sizes)
            {
                failed.get_or_insert(e);
            }
            at = at.saturating_add(1);
        });
        if let Some(e) = failed {
            return Err(e);
        }
        plan.fit_buffers()?;
        plan.place_buffers()?;
        Ok(plan)
    }

    /// Every buffer gets the bytes that its operands reach.
    fn fit_buffers(&mut self) -> Result<()> {
        let mut reach = vec![0u64; self.buffers.len()];
        let operands = self.instrs().flat_map(|i| i.ins.iter().chain(&i.outs));
        for o in operands.chain(self.outputs.iter().map(|o| &o.operand)) {
            let end = o.extent().filter(|e| e.1 <= MAX_BYTES).map(|e| e.1);
            let (Some(end), Some(held)) = (end, reach.get_mut(o.buffer as usize)) else {
                let (sizes, strides, offset) = (&o.sizes, &o.strides, o.offset);
                return Err(Error::value(format!(
                    "plan: sizes {sizes:?}, strides {strides:?}, offset {offset} are more than there is memory for"
                )));
            };
            *held = end.max(*held);
        }
        for i in &mut self.inputs {
            i.meta.strides = contiguous_strides(&i.meta.sizes);
            let bytes = numel(&i.meta.sizes)?.checked_mul(i.meta.dtype.size() as i64);
            let negative = i.meta.sizes.iter().any(|n| *n < 0);
            let bytes = bytes.filter(|n| !negative && *n as u64 <= MAX_BYTES);
            let (Some(bytes), Some(held)) = (bytes, reach.get_mut(i.buffer as usize)) else {
                return Err(Error::value(format!("plan: an input of sizes {:?}", i.meta.sizes)));
            };
            *held = bytes as u64;
        }
        for (b, bytes) in self.buffers.iter_mut().zip(reach) {
            if matches!(b.home, Home::Arena { .. } | Home::Input(_) | Home::Output(_)) {
                b.bytes = bytes;
            }
        }
        Ok(())
    }

    /// The buffers of each arena are placed again: one pass over them, no search.
    fn place_buffers(&mut self) -> Result<()> {
        // First and last instruction that touches a buffer.
        let mut lives: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        for (at, i) in self.instrs().enumerate() {
            for o in i.ins.iter().chain(&i.outs) {
                lives.entry(o.buffer).or_insert((at, at)).1 = at;
            }
        }
        for k in 0..self.arenas.len() {
            let (mut ids, mut placed, mut total) = (Vec::new(), Vec::new(), 0u64);
            for (id, b) in self.buffers.iter().enumerate() {
                let Home::Arena { arena, .. } = b.home else { continue };
                if arena as usize == k {
                    let (from, to) = lives.get(&(id as u32)).copied().unwrap_or((0, 0));
                    ids.push(id);
                    placed.push(Life { bytes: b.bytes, from, to });
                    total = total.saturating_add(b.bytes);
                }
            }
            if placed.len() > MAX_PLACED || total > MAX_BYTES << 8 {
                let n = placed.len();
                return Err(Error::value(format!("plan: {n} buffers of {total} bytes together")));
            }
            let (offsets, peak) = place_once(&placed);
            for (id, at) in ids.into_iter().zip(offsets) {
                self.buffers[id].home = Home::Arena { arena: k as u32, offset: at };
            }
            self.arenas[k].bytes = peak;
        }
        Ok(())
    }

    pub(crate) fn instrs(&self) -> impl Iterator<Item = &Instr> {
        self.tasks.iter().flat_map(|t| match &t.work {
            Work::Compute(p) => p.as_slice(),
            _ => &[],
        })
    }

    /// The conditions that formulas must meet, whatever they say.
    pub(crate) fn check_dynamic(&self) -> Result<()> {
        let Some(dynamic) = &self.dynamic else { return Ok(()) };
        let bad = |what: String| Err(Error::value(format!("plan: {what}")));
        let dims = &dynamic.dims;
        let distinct: BTreeSet<&String> = dims.iter().map(|d| &d.name).collect();
        if dims.len() > MAX_DIMS || distinct.len() < dims.len() {
            return bad(format!("{} named dimensions, {} of them distinct", dims.len(), distinct.len()));
        }
        for d in dims {
            let axes = d.read.map(|r| (r, self.inputs.get(r.input as usize).map_or(0, |i| i.meta.sizes.len())));
            let reads = axes.is_none_or(|(r, n)| (r.axis as usize) < n && r.factor != 0);
            if d.min < 0 || d.max < d.min || d.step < 1 || !reads {
                return bad(format!("the named dimension {:?} has no sizes", d.name));
            }
        }
        let mut count = 0u32;
        self.clone().numbers(&mut |_| count = count.saturating_add(1));
        let ascending = dynamic.numbers.windows(2).all(|w| w[0].0 < w[1].0);
        if !ascending || dynamic.numbers.last().is_some_and(|n| n.0 >= count) {
            return bad("formulas of numbers that it does not have".into());
        }
        if dynamic.guards.len() > MAX_GUARDS {
            return bad(format!("{} guards", dynamic.guards.len()));
        }
        let guarded = dynamic.guards.iter().flat_map(|g| [&g.a, &g.b]);
        for p in dynamic.numbers.iter().map(|n| n.1.polynomial()).chain(guarded) {
            let known = |t: &Term| t.dims.len() <= MAX_POWER && t.dims.iter().all(|d| usize::from(*d) < dims.len());
            if p.denominator < 1 || p.terms.len() > MAX_TERMS || !p.terms.iter().all(known) {
                return bad("a formula of dimensions that it does not have".into());
            }
        }
        Ok(())
    }
}

impl Instr {
    /// As `Plan::numbers`, of one instruction.
    pub fn numbers(&mut self, f: &mut dyn FnMut(Number<'_>)) {
        self.ins.iter_mut().chain(&mut self.outs).for_each(|o| operand(o, f));
        self.steps.iter_mut().flat_map(|s| &mut s.args).for_each(|a| a.numbers(f));
    }
}

fn write(n: Number<'_>, formula: &Formula, sizes: &[i64]) -> Result<()> {
    match (n, formula) {
        (Number::Int(n), Formula::Value(p)) => *n = p.at(sizes)?,
        (Number::Float(n), Formula::Value(p)) => *n = p.at(sizes)? as f64,
        (Number::Float(n), Formula::Quotient(c, p)) => *n = c / p.at(sizes)? as f64,
        (Number::Int(_), Formula::Quotient(..)) => return Err(Error::value("plan: an integer that is a quotient")),
    }
    Ok(())
}

fn operand(o: &mut Operand, f: &mut dyn FnMut(Number<'_>)) {
    o.sizes.iter_mut().chain(&mut o.strides).for_each(|n| f(Number::Int(n)));
    f(Number::Int(&mut o.offset));
}

impl PlanArg {
    /// As `Plan::numbers`, of one argument.
    pub fn numbers(&mut self, f: &mut dyn FnMut(Number<'_>)) {
        match self {
            PlanArg::Int(n) => f(Number::Int(n)),
            PlanArg::Float(n) => f(Number::Float(n)),
            PlanArg::Ints(v) | PlanArg::RngAt(_, v) => v.iter_mut().for_each(|n| f(Number::Int(n))),
            PlanArg::Floats(v) => v.iter_mut().for_each(|n| f(Number::Float(n))),
            _ => {}
        }
    }
}
