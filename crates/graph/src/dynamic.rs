//! One program for many sizes: a step traced at several sizes of its named dimensions becomes one dynamic plan.
//!
//! The traces must be the same but for numbers. Each goes through the same passes, the graphs are lowered together, and the
//! numbers in which the plans differ are solved as polynomials of the dimensions (`solve`). There are no symbolic integers:
//! no op and no pass knows that a size is open. Further traces confirm: the formulas must say what they have.

mod guards;
mod solve;

pub use guards::{Decision, guards_of};
pub use solve::Solver;

use crate::ir::{Graph, Kind, Node, ValueId};
use crate::lowering::lower_together;
use crate::passes::{self, Stage, order};
use crate::split::Parts;
use crate::trace::Traced;
use crate::{Compiled, Config, Current, Straighten};
use oneflow_base::{Error, Result};
use oneflow_core::{Storage, Tensor, copy_to_host};
use oneflow_ops::creation::{clone, contiguous};
use oneflow_runtime::{Dynamic, Formula, Guard, Instr, NamedDim, Plan, PlanArg, PlanNumber, Session, Work};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The named dimensions, and their sizes in each trace: first the base, then each set of one or two dimensions grown, then
/// points that confirm.
#[derive(Clone, Debug)]
pub struct Points {
    pub dims: Vec<NamedDim>,
    pub sizes: Vec<Vec<i64>>,
}

impl Points {
    fn shown(&self, sizes: &[i64]) -> String {
        let one = |(d, n): (&NamedDim, &i64)| format!("{}={n}", d.name);
        self.dims.iter().zip(sizes).map(one).collect::<Vec<_>>().join(", ")
    }
}

/// A trace at further sizes, which is not compiled: the logical graph must follow at these too.
pub struct Check {
    pub sizes: Vec<i64>,
    pub traced: Traced,
}

/// Compiles the traces of one step as one program. `guards`: what Python asked of sizes in these traces.
///
/// # Errors
/// ValueError: the traces are different programs, or a number of theirs does not follow from the named dimensions; the error
/// has the place in the user's program.
pub fn compile_at_sizes(
    traced: Vec<Traced>,
    checks: &[Check],
    points: &Points,
    guards: Vec<Guard>,
    config: &Config,
) -> Result<Compiled> {
    let mut graphs: Vec<Graph> = traced.into_iter().map(|t| t.graph).collect();
    follow(&mut graphs, checks, points)?;
    compile(graphs, points, guards, config)
}

/// The guards of what Python asked of sizes in these traces.
pub fn guards_of_traces(traced: &[Traced], asked: &[Vec<Decision>], points: &Points) -> Result<Vec<Guard>> {
    let layout = |g: &Graph| -> Vec<i64> {
        g.values.iter().flat_map(|v| v.meta.sizes.iter().chain(&v.meta.strides).copied()).collect()
    };
    let known: Vec<Vec<i64>> = traced.iter().map(|t| layout(&t.graph)).collect();
    guards_of(asked, points, &known)
}

/// The same of traces that were cut: the forward part and the backward part.
pub fn compile_parts_at_sizes(
    traced: Vec<Traced>,
    checks: &[Check],
    n_outputs: usize,
    points: &Points,
    guards: Vec<Guard>,
    config: &Config,
) -> Result<(Compiled, Compiled, Vec<usize>, usize)> {
    let cuts: Vec<_> = traced.iter().map(|t| t.cut).collect();
    let mut graphs: Vec<Graph> = traced.into_iter().map(|t| t.graph).collect();
    follow(&mut graphs, checks, points)?;
    let (mut forward, mut backward, mut hang) = (Vec::new(), Vec::new(), None);
    for (graph, cut) in graphs.into_iter().zip(cuts) {
        let parts: Parts = Traced { graph, cut }.split(n_outputs, config)?;
        let how = (parts.saved_inputs, parts.n_saved);
        if *hang.get_or_insert_with(|| how.clone()) != how {
            return Err(Error::value(
                "the backward pass depends on a named dimension: it reads other values for other sizes",
            ));
        }
        forward.push(parts.forward.graph);
        backward.push(parts.backward.graph);
    }
    let (saved_inputs, n_saved) = hang.unwrap_or_default();
    // The sizes of a backward come from its forward, whatever its inputs say.
    let mut unread = points.clone();
    unread.dims.iter_mut().for_each(|d| d.read = None);
    let forward = compile(forward, points, guards, config)?;
    Ok((forward, compile(backward, &unread, Vec::new(), config)?, saved_inputs, n_saved))
}

/// Passes, order and lowering of one graph at several sizes.
fn compile(logical: Vec<Graph>, points: &Points, guards: Vec<Guard>, config: &Config) -> Result<Compiled> {
    let mut graphs = logical.clone();
    graphs.iter_mut().try_for_each(|g| passes::run(g, config, Stage::Rewrite).map(drop))?;
    for (g, at) in graphs.iter().zip(&points.sizes).skip(1) {
        same_nodes(&graphs[0], g).map_err(|e| e.context(format_args!("compiled for {}: ", points.shown(at))))?;
    }
    let (mut plans, mut memory) = lower_together(&graphs, config)?;
    if let Some(order) = graphs.last().and_then(|g| order::chosen(g, config)) {
        let mut other = graphs.clone();
        other.iter_mut().for_each(|g| order::apply(g, &order));
        let (p, m) = lower_together(&other, config)?;
        if config.straighten != Straighten::MemoryFirst || m.peak < memory.peak {
            (graphs, plans, memory) = (other, p, m);
        }
    }
    let plan = merged(plans, points, guards)?;
    let (Some(optimized), Some(logical)) = (graphs.pop(), logical.into_iter().next_back()) else {
        return Err(Error::runtime("graph: no trace to compile"));
    };
    let derived = optimized.derived.iter().map(|d| Current::of(&optimized, d)).collect::<Result<_>>()?;
    let storages = optimized.variables.iter().map(|v| v.storage.clone()).collect();
    Ok(Compiled { session: Session::new(plan, storages)?, logical, optimized, memory, derived })
}

/// Which traces are not what those at `points` say: its place, and the ops at which it is another program first. Copies count for
/// nothing; an op that is a composition in one and a kernel in the other does.
pub fn unfollowed(
    traced: &[&Traced],
    others: &[(&[i64], &Traced)],
    points: &Points,
) -> Result<Vec<(usize, Vec<String>)>> {
    let graphs: Vec<&Graph> = traced.iter().map(|t| &t.graph).collect();
    let solved = Solved::of(&graphs, points)?;
    let failed = others.iter().enumerate().filter_map(|(k, (sizes, other))| {
        let e = solved.check(sizes, &other.graph).err()?;
        tracing::debug!("with {}: {e}", points.shown(sizes));
        Some((k, first_difference(graphs[0], &other.graph)))
    });
    Ok(failed.collect())
}

/// Checks that the traces are one program, notes what varies in it, and that its numbers follow from the dimensions: those at
/// `points`, and those of the other traces.
fn follow(graphs: &mut [Graph], checks: &[Check], points: &Points) -> Result<()> {
    let all: Vec<&Graph> = graphs.iter().collect();
    let solved = Solved::of(&all, points)?;
    for c in checks {
        let done = solved.check(&c.sizes, &c.traced.graph);
        done.map_err(|e| e.context(format_args!("with {}: ", points.shown(&c.sizes))))?;
    }
    let mut varying: HashSet<ValueId> = HashSet::new();
    let first = all[0];
    for g in &all[1..] {
        let pairs = first.values.iter().zip(&g.values).enumerate();
        let differ = pairs.filter(|(_, (a, b))| a.meta != b.meta || a.offset != b.offset);
        varying.extend(differ.map(|(i, _)| i as ValueId));
        for (a, b) in first.nodes.iter().zip(&g.nodes).filter(|(a, b)| attrs(a) != attrs(b)) {
            varying.extend(a.outs.iter().chain(&b.outs));
        }
    }
    graphs.iter_mut().for_each(|g| g.varying.clone_from(&varying));
    Ok(())
}

/// The numbers of a logical graph as formulas.
struct Solved<'a> {
    first: &'a Graph,
    points: &'a Points,
    columns: Vec<Vec<Number64>>,
    formulas: Vec<Option<Formula>>,
}

impl<'a> Solved<'a> {
    fn of(graphs: &[&'a Graph], points: &'a Points) -> Result<Solved<'a>> {
        let Some((first, rest)) = graphs.split_first() else {
            return Err(Error::runtime("graph: no trace to compile"));
        };
        for (g, at) in rest.iter().zip(points.sizes.iter().skip(1)) {
            same_program(first, g).map_err(|e| e.context(format_args!("with {}: ", points.shown(at))))?;
        }
        let columns: Vec<Vec<Number64>> = graphs.iter().map(|g| logical_numbers(g)).collect();
        let solved = Solver::new(points).solve(&columns);
        let formulas = solved.map_err(|k| at_number(first, k, &columns, points))?;
        Ok(Solved { first, points, columns, formulas })
    }

    /// Returns an error if a trace at other sizes is not what the formulas say.
    fn check(&self, sizes: &[i64], other: &Graph) -> Result<()> {
        for (k, have) in matched(self.first, other)? {
            let want = match &self.formulas[k] {
                None => self.columns[0][k],
                Some(f) => solve::value(f, sizes, &have)?,
            };
            if !want.is(&have) {
                let place = at_number(self.first, k, &self.columns, self.points);
                return Err(place.context(format_args!("it is {have}, not {want}: ")));
            }
        }
        Ok(())
    }
}

/// The ops at which two traces are different programs first.
fn first_difference(one: &Graph, other: &Graph) -> Vec<String> {
    let nodes = |g: &Graph| -> Vec<String> { g.nodes.iter().filter(|n| !is_copy(n)).map(Node::name).collect() };
    let (one, other) = (nodes(one), nodes(other));
    let at = one.iter().zip(&other).position(|(a, b)| a != b).unwrap_or(one.len().min(other.len()));
    [one.get(at), other.get(at)].into_iter().flatten().cloned().collect()
}

/// An integer or a float.
#[derive(Clone, Copy, Debug)]
pub enum Number64 {
    Int(i64),
    Float(f64),
}

impl Number64 {
    fn is(&self, other: &Number64) -> bool {
        match (self, other) {
            (Number64::Int(a), Number64::Int(b)) => a == b,
            (Number64::Float(a), Number64::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl std::fmt::Display for Number64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number64::Int(n) => write!(f, "{n}"),
            Number64::Float(n) => write!(f, "{n}"),
        }
    }
}

fn number(n: PlanNumber<'_>) -> Number64 {
    match n {
        PlanNumber::Int(n) => Number64::Int(*n),
        PlanNumber::Float(n) => Number64::Float(*n),
    }
}

fn attrs(n: &Node) -> Vec<PlanArg> {
    match &n.kind {
        Kind::Op { attrs, .. } => PlanArg::keep(attrs, 0).unwrap_or_default(),
        Kind::Chain(_) => Vec::new(),
    }
}

/// The numbers of a logical graph: layouts of its values, then the arguments of its nodes.
fn logical_numbers(g: &Graph) -> Vec<Number64> {
    let mut out = Vec::new();
    for v in &g.values {
        out.extend(v.meta.sizes.iter().chain(&v.meta.strides).chain([&v.offset]).map(|n| Number64::Int(*n)));
    }
    for n in &g.nodes {
        attrs(n).iter_mut().for_each(|a| a.numbers(&mut |n| out.push(number(n))));
    }
    out
}

/// The value of a graph that the k-th of its numbers is about, and which number of it; or the node.
fn about(g: &Graph, k: usize) -> (Option<(ValueId, usize)>, Option<usize>) {
    let mut at = 0;
    for (v, x) in g.values.iter().enumerate() {
        let n = 2 * x.meta.sizes.len() + 1;
        if k < at + n {
            return (Some((v as ValueId, k - at)), None);
        }
        at += n;
    }
    for (i, n) in g.nodes.iter().enumerate() {
        let mut count = 0;
        attrs(n).iter_mut().for_each(|a| a.numbers(&mut |_| count += 1));
        if k < at + count {
            return (None, Some(i));
        }
        at += count;
    }
    (None, None)
}

/// The numbers of another trace by the places that they have in the first: sizes of values and arguments of nodes. Copies count
/// for nothing: what is copied at one size may be seen in place at another.
fn matched(first: &Graph, other: &Graph) -> Result<Vec<(usize, Number64)>> {
    same_ends(first, other)?;
    let same: Vec<&Node> = first.nodes.iter().filter(|n| !is_copy(n)).collect();
    let found: Vec<&Node> = other.nodes.iter().filter(|n| !is_copy(n)).collect();
    // Values of the first by those of the other, behind copies.
    let (one, two) = (behind_copies(first), behind_copies(other));
    let mut pairs: HashMap<ValueId, ValueId> = HashMap::new();
    let mut pair = |a: ValueId, b: ValueId| -> Result<()> {
        if *pairs.entry(one(a)).or_insert(two(b)) != two(b) {
            return Err(Error::value(
                "the program depends on a named dimension: it reads other values for another size",
            ));
        }
        Ok(())
    };
    let ends = |g: &Graph| -> Vec<ValueId> {
        let variables = g.variables.iter().map(|v| v.value);
        g.inputs.iter().copied().chain(variables).collect()
    };
    ends(first).into_iter().zip(ends(other)).try_for_each(|(a, b)| pair(a, b))?;
    if same.len() != found.len() {
        return Err(Error::value("the program depends on a named dimension: it runs other ops for another size"));
    }
    for (a, b) in same.iter().zip(&found) {
        let (mut x, mut y) = ((*a).clone(), (*b).clone());
        for n in [&mut x, &mut y] {
            n.ins.iter_mut().flatten().for_each(|v| *v = 0);
            n.outs.iter_mut().for_each(|v| *v = 0);
        }
        if !same_node(&x, &y) {
            let (a, b) = (named(a), named(b));
            return Err(Error::value(format!(
                "the program depends on a named dimension: it runs {a}, and {b} for another size"
            )));
        }
        for (v, w) in a.ins.iter().flatten().zip(b.ins.iter().flatten()) {
            pair(*v, *w)?;
        }
        a.outs.iter().zip(&b.outs).try_for_each(|(v, w)| pair(*v, *w))?;
    }
    first.outputs.iter().zip(&other.outputs).try_for_each(|(a, b)| pair(*a, *b))?;
    for (a, b) in first.writes.iter().zip(&other.writes) {
        pair(a.target, b.target)?;
        pair(a.value, b.value)?;
    }
    let (starts, at) = value_starts(first);
    let mut out = Vec::new();
    for (v, w) in pairs {
        let (have, sizes) = (&first.meta(v).sizes, &other.meta(w).sizes);
        if have.len() != sizes.len() {
            return Err(Error::value("the program depends on a named dimension: a result has other dimensions"));
        }
        out.extend(sizes.iter().enumerate().map(|(i, n)| (starts[v as usize] + i, Number64::Int(*n))));
    }
    let (mut at, mut rest) = (at, found.iter());
    for n in &first.nodes {
        let mut count = 0;
        attrs(n).iter_mut().for_each(|a| a.numbers(&mut |_| count += 1));
        if !is_copy(n)
            && let Some(b) = rest.next()
        {
            let mut i = at;
            attrs(b).iter_mut().for_each(|a| {
                a.numbers(&mut |n| {
                    out.push((i, number(n)));
                    i += 1;
                })
            });
        }
        at += count;
    }
    out.sort_unstable_by_key(|n| n.0);
    Ok(out)
}

/// Where the numbers of each value begin among those of the graph, and where those of nodes do.
fn value_starts(g: &Graph) -> (Vec<usize>, usize) {
    let mut at = 0;
    let mut starts = Vec::with_capacity(g.values.len());
    for v in &g.values {
        starts.push(at);
        at += 2 * v.meta.sizes.len() + 1;
    }
    (starts, at)
}

/// Whether a node gives its input again, in the order of its dimensions.
fn is_copy(n: &Node) -> bool {
    let copies = [&contiguous::OP, &contiguous::COPY_OP, &clone::OP];
    n.op().is_some_and(|op| copies.iter().any(|c| std::ptr::eq(*c, op)))
}

/// For each value the one that it is a copy of, if it is one.
fn behind_copies(g: &Graph) -> impl Fn(ValueId) -> ValueId {
    let mut of: HashMap<ValueId, ValueId> = HashMap::new();
    for n in g.nodes.iter().filter(|n| is_copy(n)) {
        if let (Some(Some(from)), [to]) = (n.ins.first(), n.outs.as_slice()) {
            of.insert(*to, of.get(from).copied().unwrap_or(*from));
        }
    }
    move |v| of.get(&v).copied().unwrap_or(v)
}

#[cold]
fn at_number(g: &Graph, k: usize, columns: &[Vec<Number64>], points: &Points) -> Error {
    let (value, node) = about(g, k);
    let maker = value.and_then(|(v, _)| g.nodes.iter().find(|n| n.outs.contains(&v)));
    let node = maker.or(node.map(|i| &g.nodes[i]));
    let shown: Vec<String> =
        columns.iter().zip(&points.sizes).map(|(c, at)| format!("{} with {}", c[k], points.shown(at))).collect();
    let what = match (value, node) {
        (Some(_), Some(n)) => format!("a size of the result of {}", named(n)),
        (Some(_), None) => "a size of an input".to_owned(),
        (None, Some(n)) => format!("an argument of {}", named(n)),
        (None, None) => "a number".to_owned(),
    };
    Error::value(format!("{what} does not follow from the named dimensions: {}", shown.join(", ")))
}

fn named(n: &Node) -> String {
    match &n.stack {
        Some(place) => format!("{}() (traced at {place})", n.name()),
        None => format!("{}()", n.name()),
    }
}

/// Compares two traces of a step: nodes, values, variables.
fn same_program(one: &Graph, other: &Graph) -> Result<()> {
    same_nodes(one, other)?;
    same_ends(one, other)?;
    let roots = one.values.iter().zip(&other.values);
    let same = one.values.len() == other.values.len()
        && roots.clone().all(|(a, b)| {
            let ranks = a.meta.sizes.len() == b.meta.sizes.len();
            ranks && a.root == b.root && a.meta.dtype == b.meta.dtype && a.meta.device == b.meta.device
        })
        && one.inputs == other.inputs
        && one.outputs == other.outputs
        && one.writes.iter().map(|w| (w.target, w.value)).eq(other.writes.iter().map(|w| (w.target, w.value)));
    if !same {
        return Err(Error::value("the program depends on a named dimension: its values are others for another size"));
    }
    Ok(())
}

/// Compares what two traces take and give, and the tensors from outside that they read.
fn same_ends(one: &Graph, other: &Graph) -> Result<()> {
    let counts = |g: &Graph| (g.inputs.len(), g.outputs.len(), g.writes.len(), g.variables.len());
    if counts(one) != counts(other) || (one.rng_start, one.n_rng) != (other.rng_start, other.n_rng) {
        return Err(Error::value("the program depends on a named dimension: it reads other tensors for another size"));
    }
    for (a, b) in one.variables.iter().zip(other.variables.iter()) {
        if !same_storage(&a.storage, &b.storage)? {
            let reader = one.nodes.iter().find(|n| n.ins.iter().flatten().any(|v| one.root(*v) == a.value));
            let reader = reader.map_or_else(String::new, |n| format!(", which {} reads", named(n)));
            return Err(Error::value(format!("the constant {:?}{reader} depends on a named dimension", a.name)));
        }
    }
    Ok(())
}

/// Compares node by node: what runs, what it reads and gives.
fn same_nodes(one: &Graph, other: &Graph) -> Result<()> {
    for (a, b) in one.nodes.iter().zip(&other.nodes) {
        if !same_node(a, b) {
            let (a, b) = (named(a), named(b));
            return Err(Error::value(format!(
                "the program depends on a named dimension: it runs {a}, and {b} for another size"
            )));
        }
    }
    let (n, m) = (one.nodes.len(), other.nodes.len());
    if n != m {
        let longer = if n > m { &one.nodes[m] } else { &other.nodes[n] };
        let next = named(longer);
        return Err(Error::value(format!(
            "the program depends on a named dimension: for one size it goes on with {next}"
        )));
    }
    if one.variables.len() != other.variables.len() {
        return Err(Error::value("the program depends on a named dimension: it reads other tensors for another size"));
    }
    Ok(())
}

fn same_node(a: &Node, b: &Node) -> bool {
    let kinds = match (&a.kind, &b.kind) {
        (Kind::Op { op: x, .. }, Kind::Op { op: y, .. }) => std::ptr::eq(*x, *y) && blank(attrs(a)) == blank(attrs(b)),
        (Kind::Chain(x), Kind::Chain(y)) => {
            let keep = |attrs| PlanArg::keep(attrs, 0).unwrap_or_default();
            x.len() == y.len()
                && x.iter().zip(y).all(|(x, y)| {
                    std::ptr::eq(x.op, y.op)
                        && (&x.ins, x.out, x.dtype) == (&y.ins, y.out, y.dtype)
                        && blank(keep(&x.attrs)) == blank(keep(&y.attrs))
                })
        }
        _ => false,
    };
    kinds && a.ins == b.ins && a.outs == b.outs && a.updates == b.updates && a.again == b.again
}

fn blank(mut args: Vec<PlanArg>) -> Vec<PlanArg> {
    args.iter_mut().for_each(|a| a.numbers(&mut erase));
    args
}

fn erase(n: PlanNumber<'_>) {
    match n {
        PlanNumber::Int(n) => *n = 0,
        PlanNumber::Float(n) => *n = 0.0,
    }
}

/// Whether two variables are one memory, or hold the same.
fn same_storage(a: &Storage, b: &Storage) -> Result<bool> {
    if a.same(b) {
        return Ok(true);
    }
    if a.bytes() != b.bytes() || a.device() != b.device() {
        return Ok(false);
    }
    let bytes = |s: &Storage| -> Result<Vec<u8>> {
        let n = s.bytes() as i64;
        let (sizes, strides) = (oneflow_base::Dims::from_slice(&[n]), oneflow_base::Dims::from_slice(&[1]));
        let t = copy_to_host(&Tensor::from_storage(s.clone(), oneflow_base::DType::U8, sizes, strides, 0)?)?;
        // SAFETY: a contiguous host tensor of n bytes, which lives until they are copied.
        Ok(unsafe { std::slice::from_raw_parts(t.data_ptr().cast::<u8>(), n as usize) }.to_vec())
    };
    Ok(bytes(a)? == bytes(b)?)
}

/// One dynamic plan of the plans at all points; its own numbers are those of the last.
fn merged(mut plans: Vec<Plan>, points: &Points, guards: Vec<Guard>) -> Result<Plan> {
    let columns: Vec<Vec<Number64>> = plans
        .iter_mut()
        .map(|p| {
            let mut out = Vec::new();
            p.numbers(&mut |n| out.push(number(n)));
            out
        })
        .collect();
    let blanks: Vec<Plan> = plans.iter().map(without_numbers).collect();
    if let Some(other) = blanks.iter().position(|p| *p != blanks[0]) {
        let program = |p: &Plan| -> Vec<Instr> {
            p.tasks.iter().flat_map(|t| if let Work::Compute(i) = &t.work { i.clone() } else { Vec::new() }).collect()
        };
        let (one, other) = (program(&blanks[0]), program(&blanks[other]));
        let place = one.iter().zip(&other).find(|(a, b)| a != b).map_or("its memory", |(a, _)| a.origin.as_str());
        return Err(Error::value(format!("the program depends on a named dimension: {place}")));
    }
    let formulas = Solver::new(points).solve(&columns).map_err(|k| {
        let place = plans.first().map_or_else(String::new, |p| origin_of(p, k));
        let shown: Vec<String> =
            columns.iter().zip(&points.sizes).map(|(c, at)| format!("{} with {}", c[k], points.shown(at))).collect();
        Error::value(format!("a number of {place} does not follow from the named dimensions: {}", shown.join(", ")))
    })?;
    let numbers = formulas.into_iter().enumerate().filter_map(|(k, f)| Some((k as u32, f?))).collect();
    let Some(mut plan) = plans.pop() else { return Err(Error::runtime("graph: no plan")) };
    plan.dynamic = Some(Arc::new(Dynamic { dims: points.dims.clone(), numbers, guards }));
    Ok(plan)
}

fn without_numbers(p: &Plan) -> Plan {
    let mut p = p.clone();
    p.numbers(&mut erase);
    p.inputs.iter_mut().for_each(|i| i.meta.strides.iter_mut().for_each(|s| *s = 0));
    p
}

/// The instruction that the k-th number of a plan belongs to.
fn origin_of(p: &Plan, k: usize) -> String {
    let mut ends = p.clone();
    let mut at = 0;
    ends.tasks.clear();
    ends.numbers(&mut |_| at += 1);
    for t in &p.tasks {
        let Work::Compute(program) = &t.work else { continue };
        for i in program {
            i.clone().numbers(&mut |_| at += 1);
            if k < at {
                return i.origin.clone();
            }
        }
    }
    "an input or a result".into()
}
