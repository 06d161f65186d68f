//! From the graph to a plan: which values share memory, when each is alive, at which offset, and the instructions.
//!
//! Views become layouts of their root's buffer. An update of a variable happens in the variable's own memory; a result that
//! is to end up in a variable is computed there where no later node still reads the old value, and copied at the end
//! otherwise.

use crate::Config;
use crate::ir::{Graph, Kind, Node, ValueId};
use crate::streams::{FETCHES, Fact, Streamed, streamed, tasks};
use oneflow_base::{Attrs, Device, Error, Result};
use oneflow_core::{Call, Kernel, OpDef, Outs, Tensor, Traits};
use oneflow_global::boxing::lane;
use oneflow_ops::creation::contiguous::COPY_OP;
use oneflow_runtime::memory::{Life, align, place};
use oneflow_runtime::{
    Arena, Buffer, Home, Input, Instr, Operand, Output, Plan, PlanArg, Ref, Step, Variable, init_input, price, shell,
};
use std::collections::HashMap;

/// The result of the memory planner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryReport {
    /// Bytes of the arena.
    pub peak: u64,
    /// The largest sum of live bytes.
    pub bound: u64,
    /// Sum over all intermediate buffers: what a run without reuse would take.
    pub total: u64,
    pub n_buffers: usize,
    /// Of them written in place over an input that nobody reads afterwards.
    pub n_in_place: usize,
    pub order: &'static str,
    /// The buffers that are alive at the peak: op and bytes, the largest first.
    pub holders: Vec<(String, u64)>,
}

const END: usize = usize::MAX;

/// A memory that one value or several, one after another, live in.
struct Class {
    home: Option<Home>,
    bytes: u64,
    device: Device,
    /// The value that lives in it now.
    last: ValueId,
}

struct Lowering<'a> {
    g: &'a Graph,
    /// The same graph at other sizes. What two values share, they share at all of them.
    others: &'a [Graph],
    classes: Vec<Class>,
    /// Per root: its class.
    class_of: HashMap<ValueId, usize>,
    /// Per root: positions of its readers, in order.
    readers: HashMap<ValueId, Vec<usize>>,
    n_in_place: usize,
}

/// A value's layout in a class.
#[derive(Clone, Copy)]
struct Place {
    value: ValueId,
    class: usize,
    /// From the start of the class, wherever the value begins in its root.
    whole: bool,
}

/// An instruction before sizes and buffers have numbers.
struct Line {
    /// The node that it runs; a copy without one.
    node: Option<usize>,
    /// What a copy is for.
    copies: &'static str,
    ins: Vec<Place>,
    outs: Vec<Place>,
}

/// Makes the plan of a graph.
pub fn lower(g: &Graph, config: &Config) -> Result<(Plan, MemoryReport)> {
    let (mut plans, report) = lower_together(std::slice::from_ref(g), config)?;
    Ok((plans.pop().unwrap_or_default(), report))
}

/// Makes the plans of one graph at several sizes: they differ in numbers alone. Memory is planned for the last.
pub fn lower_together(all: &[Graph], config: &Config) -> Result<(Vec<Plan>, MemoryReport)> {
    let Some((g, others)) = all.split_last() else { return Err(Error::runtime("graph: nothing to lower")) };
    let (classes, class_of, readers) = (Vec::new(), HashMap::new(), HashMap::new());
    let mut l = Lowering { g, others, classes, class_of, readers, n_in_place: 0 };
    l.find_readers();
    l.externals();
    let owners = l.owners();
    let mut lines: Vec<Line> = Vec::new();
    for (at, n) in g.nodes.iter().enumerate() {
        if n.is_view() {
            continue;
        }
        l.emit(at, n, &owners, &mut lines)?;
    }
    for w in &g.writes {
        let (from, to) = (l.class(g.root(w.value))?, l.class(w.target)?);
        if from != to {
            let (src, dst) = (place_of(w.value, from), Place { whole: true, ..place_of(w.value, to) });
            lines.push(copy_line(src, dst, "write-back"));
        }
    }
    l.finish(lines, config)
}

fn place_of(value: ValueId, class: usize) -> Place {
    Place { value, class, whole: false }
}

fn copy_line(src: Place, dst: Place, copies: &'static str) -> Line {
    Line { node: None, copies, ins: vec![src], outs: vec![dst] }
}

/// The layout of a value at a graph's sizes, with its class for a buffer.
fn operand(g: &Graph, p: &Place) -> Operand {
    let x = &g.values[p.value as usize];
    Operand {
        buffer: p.class as u32,
        // An empty view may begin behind the end of its base.
        offset: if p.whole || x.meta.sizes.contains(&0) { 0 } else { x.offset },
        dtype: x.meta.dtype,
        sizes: x.meta.sizes.clone(),
        strides: x.meta.strides.clone(),
    }
}

impl Lowering<'_> {
    /// Whether something holds at all sizes.
    fn everywhere(&self, holds: impl Fn(&Graph) -> bool) -> bool {
        holds(self.g) && self.others.iter().all(holds)
    }

    fn find_readers(&mut self) {
        for (at, n) in self.g.nodes.iter().enumerate().filter(|(_, n)| !n.is_view()) {
            for v in n.ins.iter().flatten() {
                self.readers.entry(self.g.root(*v)).or_default().push(at);
            }
        }
        for v in self.g.outputs.iter().chain(self.g.writes.iter().map(|w| &w.value)) {
            self.readers.entry(self.g.root(*v)).or_default().push(END);
        }
    }

    fn last_read(&self, root: ValueId) -> Option<usize> {
        self.readers.get(&root).and_then(|r| r.last().copied())
    }

    fn add_class(&mut self, root: ValueId, home: Option<Home>) -> usize {
        let m = self.g.meta(root);
        let bytes = self.g.bytes(root);
        self.classes.push(Class { home, bytes, device: m.device, last: root });
        let c = self.classes.len() - 1;
        self.class_of.insert(root, c);
        c
    }

    fn class(&self, root: ValueId) -> Result<usize> {
        let c = self.class_of.get(&root).copied();
        c.ok_or_else(|| Error::runtime(format!("graph: value %{root} is read before it is made")))
    }

    fn externals(&mut self) {
        for (i, v) in self.g.inputs.iter().enumerate() {
            self.add_class(*v, Some(Home::Input(i as u32)));
        }
        for (i, v) in self.g.variables.iter().enumerate() {
            self.add_class(v.value, Some(Home::Variable(i as u32)));
        }
    }

    /// Values that may be computed in the memory of the variable they end in: value -> target.
    fn owners(&self) -> HashMap<ValueId, ValueId> {
        let mut made: HashMap<ValueId, usize> = HashMap::new();
        for (at, n) in self.g.nodes.iter().enumerate() {
            n.outs.iter().for_each(|v| {
                made.insert(*v, at);
            });
        }
        let mut owners = HashMap::new();
        for w in &self.g.writes {
            let Some(&at) = made.get(&w.value) else { continue };
            let updated = self.g.nodes[at].updates.iter().any(|(_, o)| self.g.nodes[at].outs[*o as usize] == w.value);
            // The old value, and what updates made of it before, must have been read by then.
            let mut old = vec![w.target];
            for n in &self.g.nodes {
                for (i, o) in &n.updates {
                    if let Some(i) = n.ins[*i as usize]
                        && old.contains(&self.g.root(i))
                    {
                        old.push(n.outs[*o as usize]);
                    }
                }
            }
            let n = &self.g.nodes[at];
            let free = old.iter().filter(|v| **v != w.value).all(|v| {
                // The node itself may read it where it can write over what it reads.
                let last = self.last_read(*v);
                last.is_none_or(|r| r < at) || last == Some(at) && self.over_itself(n, *v, w.value)
            });
            if free && !updated && self.everywhere(|g| g.bytes(w.value) == g.bytes(w.target)) {
                owners.entry(w.value).or_insert(w.target);
            }
        }
        owners
    }

    /// Returns true if a node that works element by element, or updates an input, reads a root only in the very layout in
    /// which it writes `out`.
    fn over_itself(&self, n: &Node, root: ValueId, out: ValueId) -> bool {
        let elementwise = match &n.kind {
            Kind::Chain(_) => true,
            Kind::Op { op, attrs } => match op.kernel {
                Kernel::Elementwise(_) => op.traits.has(Traits::ALIAS_OK),
                // What it starts from is there already.
                Kernel::Prim { .. } => {
                    self.initial(n, op, attrs).is_ok_and(|v| v.is_some_and(|v| self.g.root(v) == root))
                }
                _ => false,
            },
        };
        elementwise
            && n.ins.iter().flatten().filter(|v| self.g.root(**v) == root).all(|v| {
                self.everywhere(|g| {
                    let x = &g.values[*v as usize];
                    x.offset == 0 && x.meta == *g.meta(out)
                })
            })
    }

    fn emit(&mut self, at: usize, n: &Node, owners: &HashMap<ValueId, ValueId>, lines: &mut Vec<Line>) -> Result<()> {
        let mut ins = Vec::new();
        for v in n.ins.iter().flatten() {
            ins.push(place_of(*v, self.class(self.g.root(*v))?));
        }
        // Updates: the new value lives where the old one did; an old value that is still read moves out of the way first.
        let mut updated: Vec<ValueId> = Vec::new();
        for (i, o) in &n.updates {
            let (Some(Some(v)), Some(&out)) = (n.ins.get(*i as usize), n.outs.get(*o as usize)) else { continue };
            let root = self.g.root(*v);
            let c = self.class(root)?;
            if self.classes[c].last != root {
                return Err(Error::runtime(format!("graph: {} updates a value that is gone", n.name())));
            }
            if self.last_read(root).is_some_and(|r| r > at) {
                let copy = self.add_class(root, None);
                let (src, dst) = (place_of(root, c), place_of(root, copy));
                lines.push(copy_line(src, dst, "copy of a value that an update overwrites"));
            }
            self.class_of.insert(out, c);
            self.classes[c].last = out;
            updated.push(out);
        }
        let mut outs = Vec::new();
        for v in n.outs.iter().filter(|v| !updated.contains(v)) {
            let c = match owners.get(v) {
                Some(target) => {
                    let c = self.class(*target)?;
                    self.class_of.insert(*v, c);
                    self.classes[c].last = *v;
                    c
                }
                None => match self.reusable(at, n, *v)? {
                    Some(c) => {
                        self.class_of.insert(*v, c);
                        self.classes[c].last = *v;
                        self.n_in_place += 1;
                        c
                    }
                    None => self.add_class(*v, None),
                },
            };
            outs.push(place_of(*v, c));
        }
        lines.push(Line { node: Some(at), copies: "", ins, outs });
        Ok(())
    }

    /// The class of an input that dies here and may be overwritten with this output.
    fn reusable(&self, at: usize, n: &Node, out: ValueId) -> Result<Option<usize>> {
        let candidates: Vec<ValueId> = match &n.kind {
            Kind::Chain(_) => n.ins.iter().flatten().copied().collect(),
            Kind::Op { op, attrs } => match op.kernel {
                Kernel::Elementwise(_) if op.traits.has(Traits::ALIAS_OK) => n.ins.iter().flatten().copied().collect(),
                Kernel::Prim { .. } => {
                    // Other devices' kernels may come back to what they read.
                    let here = op.traits.has(Traits::ALIAS_OK) && self.g.meta(out).device.is_cpu();
                    let over = here && n.outs.first() == Some(&out);
                    let first = self.initial(n, op, attrs)?;
                    first.into_iter().chain(n.ins.iter().flatten().copied().filter(|_| over)).collect()
                }
                _ => return Ok(None),
            },
        };
        for v in candidates {
            let root = self.g.root(v);
            let Some(&c) = self.class_of.get(&root) else { continue };
            let dies = self.last_read(root) == Some(at) && self.classes[c].last == root;
            let fits = |g: &Graph| {
                let (x, m) = (&g.values[v as usize], g.meta(out));
                let same = x.offset == 0
                    && x.meta.sizes == m.sizes
                    && x.meta.strides == m.strides
                    && x.meta.dtype == m.dtype
                    && g.bytes(root) == g.bytes(out);
                // Other inputs in the same memory must be the very same layout.
                same && n.ins.iter().flatten().filter(|o| g.root(**o) == root).all(|o| {
                    let y = &g.values[*o as usize];
                    y.offset == x.offset && y.meta == x.meta
                })
            };
            if self.classes[c].home.is_none() && dies && self.everywhere(fits) {
                return Ok(Some(c));
            }
        }
        Ok(None)
    }

    /// The input whose values the op's output starts from (scatter and friends).
    fn initial(&self, n: &Node, op: &'static OpDef, attrs: &Attrs) -> Result<Option<ValueId>> {
        let shells: Vec<Option<Tensor>> = n
            .ins
            .iter()
            .map(|v| v.map(|v| shell(self.g.meta(v), self.g.values[v as usize].offset)).transpose())
            .collect::<Result<_>>()?;
        let refs: Vec<Option<&Tensor>> = shells.iter().map(Option::as_ref).collect();
        let args = attrs.args();
        let c = Call::new(op, &refs, &args);
        let mut outs = Outs::new();
        (op.infer)(&c, &mut outs)?;
        let Some(k) = init_input(&c, &outs)? else { return Ok(None) };
        let v = n.ins.get(k).copied().flatten();
        // Read once: the source of the copy must not lie in the memory it is scattered into.
        let once =
            v.is_some_and(|v| n.ins.iter().flatten().filter(|o| self.g.root(**o) == self.g.root(v)).count() == 1);
        Ok(v.filter(|_| once))
    }

    /// Homes for every class, and the plan around the instructions.
    fn finish(mut self, lines: Vec<Line>, config: &Config) -> Result<(Vec<Plan>, MemoryReport)> {
        let g = self.g;
        let mut n_outputs = 0;
        for v in &g.outputs {
            let c = self.class(g.root(*v))?;
            if self.classes[c].home.is_none() {
                self.classes[c].home = Some(Home::Output(n_outputs));
                n_outputs += 1;
            }
        }
        // Time is counted in instructions from here on.
        let mut lives: HashMap<usize, (usize, usize)> = HashMap::new();
        for (t, line) in lines.iter().enumerate() {
            for p in line.ins.iter().chain(&line.outs) {
                let l = lives.entry(p.class).or_insert((t, t));
                l.1 = t;
            }
        }
        // While a collective runs beside the compute stream, its operands stay where they are.
        let streamed = streamed(&self.facts(&lines, config)?, config);
        for s in &streamed {
            for p in lines[s.line].ins.iter().chain(&lines[s.line].outs) {
                lives.entry(p.class).and_modify(|l| l.1 = l.1.max(s.until - 1));
            }
        }
        let mut device = Device::CPU;
        let (mut ids, mut planned) = (Vec::new(), Vec::new());
        for (c, class) in self.classes.iter().enumerate() {
            let Some(&(from, to)) = lives.get(&c) else { continue };
            if class.home.is_none() {
                device = class.device;
                ids.push(c);
                planned.push(Life { bytes: class.bytes, from, to });
            }
        }
        let layout = place(&planned, config.memory);
        for (c, offset) in ids.iter().zip(&layout.offsets) {
            self.classes[*c].home = Some(Home::Arena { arena: 0, offset: *offset });
        }
        if self.classes.iter().any(|c| c.device != device && matches!(c.home, Some(Home::Arena { .. }))) {
            return Err(Error::not_implemented("nn.Graph: a graph over several devices"));
        }
        let report = MemoryReport {
            peak: layout.peak,
            bound: layout.bound,
            total: planned.iter().map(|l| align(l.bytes)).sum(),
            n_buffers: planned.len(),
            n_in_place: self.n_in_place,
            order: layout.order,
            holders: holders(g, &planned, &ids, &lines),
        };
        // Classes that nothing touches any more have no home and no number.
        let mut number: HashMap<usize, u32> = HashMap::new();
        let mut buffers = Vec::new();
        for (c, class) in self.classes.iter().enumerate() {
            if let Some(home) = class.home {
                number.insert(c, buffers.len() as u32);
                buffers.push(Buffer { device: class.device, bytes: class.bytes, home });
            }
        }
        let made = Made { number, buffers, device, peak: layout.peak, streamed };
        let all = self.others.iter().chain([g]);
        let plans = all.map(|g| self.plan(g, &lines, &made, config)).collect::<Result<_>>()?;
        Ok((plans, report))
    }

    /// What each line does, for the choice of those that leave the compute stream.
    fn facts(&self, lines: &[Line], config: &Config) -> Result<Vec<Fact>> {
        let talks = |n: &Node| n.op().is_some_and(|o| o.traits.has(Traits::COLLECTIVE));
        if config.streams == 0 || self.g.fetched.is_empty() && !self.g.nodes.iter().any(talks) {
            return Ok(vec![Fact::default(); lines.len()]);
        }
        let fact = |line: &Line| {
            let side = |places: &[Place]| places.iter().map(|p| operand(self.g, p)).collect::<Vec<_>>();
            let node = line.node.map(|at| &self.g.nodes[at]);
            let price = price(&instr(self.g, line, side(&line.ins), side(&line.outs))?, Device::CPU)?;
            let classes = |places: &[Place]| places.iter().map(|p| p.class).collect();
            Ok(Fact {
                ins: classes(&line.ins),
                outs: classes(&line.outs),
                lane: node.map(|n| lane_of(self.g, n)).transpose()?.flatten(),
                seconds: (price.cost.flops / FLOPS).max(price.cost.bytes / BANDWIDTH),
                updates: price.updates,
            })
        };
        lines.iter().map(fact).collect()
    }

    /// The plan at a graph's sizes.
    fn plan(&self, g: &Graph, lines: &[Line], made: &Made, config: &Config) -> Result<Plan> {
        let numbered = |mut o: Operand| -> Result<Operand> {
            let id = made.number.get(&(o.buffer as usize)).copied();
            o.buffer = id.ok_or_else(|| Error::runtime("graph: a buffer without memory"))?;
            Ok(o)
        };
        let program = lines.iter().map(|line| {
            let side = |places: &[Place]| places.iter().map(|p| numbered(operand(g, p))).collect::<Result<Vec<_>>>();
            instr(g, line, side(&line.ins)?, side(&line.outs)?)
        });
        let program = program.collect::<Result<Vec<_>>>()?;
        let outputs = g.outputs.iter().map(|v| {
            let c = self.class(g.root(*v))?;
            Ok(Output { operand: numbered(operand(g, &place_of(*v, c)))? })
        });
        let at = |c: usize| made.number.get(&c).copied().unwrap_or(0);
        Ok(Plan {
            name: g.name.clone(),
            arenas: vec![Arena { device: made.device, bytes: made.peak }],
            buffers: made.buffers.clone(),
            inputs: g
                .inputs
                .iter()
                .map(|v| Ok(Input { buffer: at(self.class(*v)?), meta: g.meta(*v).clone() }))
                .collect::<Result<_>>()?,
            variables: g
                .variables
                .iter()
                .map(|v| {
                    let meta = g.meta(v.value).clone();
                    Ok(Variable { name: v.name.clone(), buffer: at(self.class(v.value)?), meta })
                })
                .collect::<Result<_>>()?,
            outputs: outputs.collect::<Result<_>>()?,
            n_rng: g.n_rng,
            ..tasks(made.device, config.outputs, program, &made.streamed)
        })
    }
}

/// What the plans at all sizes share.
struct Made {
    /// Per class: its buffer.
    number: HashMap<usize, u32>,
    buffers: Vec<Buffer>,
    device: Device,
    peak: u64,
    streamed: Vec<Streamed>,
}

/// Operations a second, and bytes a second of memory, by which it is guessed what a collective can hide behind: those of a core.
const FLOPS: f64 = 5e10;
const BANDWIDTH: f64 = 1e10;

/// What `f` says of the call that a node is, if ranks talk in it.
pub(crate) fn call_of<T>(g: &Graph, n: &Node, f: impl FnOnce(&Call<'_>) -> Result<Option<T>>) -> Result<Option<T>> {
    let Kind::Op { op, attrs } = &n.kind else { return Ok(None) };
    if !op.traits.has(Traits::COLLECTIVE) {
        return Ok(None);
    }
    let shell_of = |v: &Option<ValueId>| v.map(|v| shell(g.meta(v), g.values[v as usize].offset)).transpose();
    let shells: Vec<Option<Tensor>> = n.ins.iter().map(shell_of).collect::<Result<_>>()?;
    let refs: Vec<Option<&Tensor>> = shells.iter().map(Option::as_ref).collect();
    f(&Call::new(op, &refs, &attrs.args()))
}

/// The group in which a node talks with other ranks, or the lane of copies from the host.
pub(crate) fn lane_of(g: &Graph, n: &Node) -> Result<Option<usize>> {
    if fetches(g, n) { Ok(Some(FETCHES)) } else { call_of(g, n, lane) }
}

/// Whether a node reads nothing but variables on the host, as the copies do that modules see, also where a cast is part of them.
pub(crate) fn fetches(g: &Graph, n: &Node) -> bool {
    let mut ins = n.ins.iter().flatten().peekable();
    let reads = ins.peek().is_some() && !n.is_view() && n.updates.is_empty();
    reads && ins.all(|v| g.fetched.contains(&g.root(*v)))
}

/// An instruction, its operands given.
fn instr(g: &Graph, line: &Line, ins: Vec<Operand>, outs: Vec<Operand>) -> Result<Instr> {
    let Some(n) = line.node.map(|at| &g.nodes[at]) else {
        let step = Step {
            op: COPY_OP.name().into(),
            args: vec![PlanArg::None; COPY_OP.sig.params().iter().filter(|p| p.is_arg()).count()],
            ins: vec![Some(Ref::In(0))],
            outs: vec![Ref::Out(0)],
        };
        return Ok(Instr { steps: vec![step], ins, outs, origin: line.copies.into() });
    };
    let steps = match &n.kind {
        Kind::Op { op, attrs } => {
            let mut next = 0u16;
            let step_ins = n
                .ins
                .iter()
                .map(|v| {
                    v.map(|_| {
                        next += 1;
                        Ref::In(next - 1)
                    })
                })
                .collect();
            vec![Step {
                op: op.name().into(),
                args: PlanArg::keep(attrs, g.rng_start)?,
                ins: step_ins,
                outs: (0..outs.len() as u16).map(Ref::Out).collect(),
            }]
        }
        Kind::Chain(steps) => steps
            .iter()
            .map(|s| {
                Ok(Step {
                    op: s.op.name().into(),
                    args: PlanArg::keep(&s.attrs, g.rng_start)?,
                    ins: s.ins.to_vec(),
                    outs: vec![s.out],
                })
            })
            .collect::<Result<_>>()?,
    };
    Ok(Instr { steps, ins, outs, origin: origin(n) })
}

fn origin(n: &Node) -> String {
    match &n.stack {
        Some(s) => format!("{} (traced at {s})", n.name()),
        None => n.name(),
    }
}

/// The buffers alive when the sum of live bytes is largest, by the instruction that writes each.
fn holders(g: &Graph, lives: &[Life], ids: &[usize], lines: &[Line]) -> Vec<(String, u64)> {
    let mut change = vec![0i64; lines.len() + 1];
    for l in lives {
        change[l.from] += align(l.bytes) as i64;
        change[l.to + 1] -= align(l.bytes) as i64;
    }
    let (mut now, mut best) = (0, (0, 0));
    for (t, c) in change.iter().enumerate() {
        now += c;
        if now > best.0 {
            best = (now, t);
        }
    }
    let alive = lives.iter().zip(ids).filter(|(l, _)| l.from <= best.1 && best.1 <= l.to);
    let mut named: Vec<(String, u64)> = alive
        .map(|(l, c)| {
            let maker = lines.get(l.from).filter(|i| i.outs.iter().any(|o| o.class == *c));
            let named = |line: &Line| line.node.map_or_else(|| line.copies.to_owned(), |at| origin(&g.nodes[at]));
            (maker.map_or_else(|| "memory without values".into(), named), l.bytes)
        })
        .collect();
    named.sort_by_key(|h| std::cmp::Reverse(h.1));
    named
}
