//! What is done to gradients just before an optimizer's update becomes part of the update: factors (of clipping, of a mean
//! over micro-batches, of a loss that was scaled), and tables of which a step touches few rows.

use super::ops;
use super::pattern::{Edits, Uses, arg, is, node};
use crate::Config;
use crate::ir::{Graph, Kind, Node, ValueId};
use crate::passes::dead_code;
use oneflow_base::{Arg, Attrs, DType, Device, Result};
use oneflow_core::At;
use oneflow_ops::named::{_fused_sgd_, div, embedding_backward, mul};
use smallvec::SmallVec;
use std::collections::HashMap;

/// The ops that update lists of parameters: lists first, their lengths first among the arguments, `grad_scale` and
/// `found_inf` last among the inputs.
pub fn is_update(n: &Node) -> bool {
    [&ops::FUSED_UPDATE, &ops::FUSED_ADAMW, &ops::FUSED_ADAM, &ops::FUSED_SGD].into_iter().any(|op| is(n, op))
}

/// Lengths of a node's lists.
pub fn lists(n: &Node) -> Vec<usize> {
    let Kind::Op { attrs, .. } = &n.kind else { return Vec::new() };
    let lens = attrs.args().into_iter().map_while(|a| if let Arg::Len(n) = a { Some(n as usize) } else { None });
    lens.collect()
}

/// The same update for some of the parameters.
pub fn part(n: &Node, keep: &[usize]) -> Node {
    let Kind::Op { op, attrs } = &n.kind else { return n.clone() };
    let lens = lists(n);
    let mut part = Node { ins: SmallVec::new(), outs: SmallVec::new(), updates: SmallVec::new(), ..n.clone() };
    let mut take = |i: usize| {
        if let Some((_, o)) = n.updates.iter().find(|u| u.0 as usize == i) {
            part.updates.push((part.ins.len() as u32, part.outs.len() as u32));
            part.outs.push(n.outs[*o as usize]);
        }
        part.ins.push(n.ins[i]);
    };
    let mut start = 0;
    for len in &lens {
        keep.iter().filter(|_| *len > 0).for_each(|k| take(start + k));
        start += len;
    }
    (start..n.ins.len()).for_each(&mut take);
    let mut args = attrs.args();
    for (a, len) in args.iter_mut().zip(&lens) {
        *a = Arg::Len(if *len > 0 { keep.len() as u32 } else { 0 });
    }
    part.kind = Kind::Op { op, attrs: Attrs::new(&args) };
    part
}

/// What every gradient was multiplied with, or divided by.
#[derive(Clone, Copy, PartialEq)]
enum Factor {
    Tensor(ValueId),
    Number(f64),
}

/// A factor of one gradient, whether it divides, and the gradient without it.
fn factor_of(g: &Graph, uses: &Uses, v: ValueId) -> Option<(Factor, bool, ValueId)> {
    let by = uses.maker(g, Some(v), &ops::DIV);
    let m = &g.nodes[by.or_else(|| uses.maker(g, Some(v), &ops::MUL))?];
    let number = |x: ValueId| g.meta(x).sizes.is_empty() && g.meta(x).dtype.is_float();
    let (factor, x) = match (m.ins[0]?, m.ins.get(1).copied().flatten()) {
        (a, None) => (Factor::Number(arg(m, mul::OTHER_SCALAR).float()?), a),
        (a, Some(b)) if number(b) => (Factor::Tensor(b), a),
        (a, Some(b)) if number(a) && by.is_none() => (Factor::Tensor(a), b),
        _ => return None,
    };
    let rounded = by.is_some() && !arg(m, div::ROUNDING_MODE).is_none();
    let fits = !rounded && factor != Factor::Number(0.0) && g.meta(x) == g.meta(v) && uses.once(v);
    fits.then_some((factor, by.is_some(), x))
}

/// The last factor that all gradients have in common, whether it divides, and the gradients without it.
fn common_factor(g: &Graph, uses: &Uses, grads: &[Option<ValueId>]) -> Option<(Factor, bool, Vec<ValueId>)> {
    let all: Vec<_> = grads.iter().map(|v| factor_of(g, uses, (*v)?)).collect::<Option<_>>()?;
    let (factor, divides, _) = *all.first()?;
    let same = all.iter().all(|f| (f.0, f.1) == (factor, divides));
    same.then(|| (factor, divides, all.into_iter().map(|f| f.2).collect()))
}

/// The scale that an update divides by once it takes over a factor: the value, and the node that makes it.
fn scale(
    g: &mut Graph,
    old: Option<ValueId>,
    factor: Factor,
    divides: bool,
    n: &Node,
) -> Result<(ValueId, Option<Node>)> {
    let op = if divides { &ops::MUL } else { &ops::DIV };
    let made = match (old, factor) {
        (None, Factor::Tensor(c)) if divides => return Ok((c, None)),
        (None, Factor::Tensor(c)) => node(g, &ops::RECIPROCAL, &[Some(c)], &[], n)?,
        (None, Factor::Number(c)) => {
            let device = n.ins[0].map_or(Device::CPU, |v| g.meta(v).device);
            let value = Arg::Float(if divides { c } else { 1.0 / c });
            let args = [Arg::Ints(&[]), value, Arg::DType(DType::F64), Arg::Device(device), Arg::Bool(false)];
            node(g, &ops::FULL, &[], &args, n)?
        }
        (Some(s), f) => {
            let (c, number) = match f {
                Factor::Tensor(c) => (Some(c), Arg::None),
                Factor::Number(c) => (None, Arg::Float(c)),
            };
            node(g, op, &[Some(s), c], &[number, Arg::None][..2 - divides as usize], n)?
        }
    };
    Ok((made.outs[0], Some(made)))
}

/// A table that plain gradient descent changes in the rows of a lookup alone: its place in the lists, the new table, the rows
/// looked up and their gradients.
struct Lookup {
    k: usize,
    out: ValueId,
    index: ValueId,
    grad: ValueId,
}

fn lookup(g: &Graph, uses: &Uses, n: &Node, k: usize, count: usize) -> Option<Lookup> {
    let (table, grad) = (n.ins[k]?, n.ins[count + k]?);
    let back = &g.nodes[uses.maker(g, Some(grad), &ops::EMBEDDING_BACKWARD).filter(|_| uses.once(grad))?];
    let (grad, index) = (back.ins[0]?, back.ins[1]?);
    let int = |at: At<i64>| arg(back, at).int();
    let total = g.meta(table).sizes[0];
    let whole = int(embedding_backward::NUM_ROWS) == Some(total)
        && int(embedding_backward::PADDING_IDX) == Some(-1)
        && int(embedding_backward::START) == Some(0)
        && int(embedding_backward::TOTAL) == Some(total);
    let fits = whole
        && g.is_root(table)
        && g.meta(index).dtype == DType::I64
        && g.meta(index).numel() * 2 <= total
        && g.meta(grad).dtype == g.meta(table).dtype;
    let (_, out) = n.updates.iter().find(|u| u.0 as usize == k).filter(|_| fits)?;
    Some(Lookup { k, out: n.outs[*out as usize], index, grad })
}

/// Adds the rows' gradients times `-lr` to their tables. What gradients are views of is scaled once for all of them, unless that
/// is more than they are.
fn add_rows(g: &mut Graph, n: &Node, count: usize, lookups: Vec<Lookup>) -> Result<Vec<Node>> {
    let Some(lr) = n.ins[2 * count].filter(|_| !lookups.is_empty()) else { return Ok(Vec::new()) };
    let rate = node(g, &ops::NEG, &[Some(lr)], &[], n)?;
    let rate_value = rate.outs[0];
    let mut with = vec![rate];
    let mut wanted: HashMap<ValueId, i64> = HashMap::new();
    for l in &lookups {
        *wanted.entry(g.root(l.grad)).or_default() += g.meta(l.grad).numel();
    }
    let mut scaled: HashMap<ValueId, ValueId> = HashMap::new();
    for l in lookups {
        let (root, m, offset) = (g.root(l.grad), g.meta(l.grad).clone(), g.values[l.grad as usize].offset);
        let whole = g.meta(root).is_contiguous()
            && g.meta(root).dtype == m.dtype
            && !g.is_external(root)
            && g.meta(root).numel() <= wanted[&root];
        let from = if whole { root } else { l.grad };
        let product = match scaled.get(&from) {
            Some(v) => *v,
            None => {
                let product = node(g, &ops::MUL, &[Some(from), Some(rate_value)], &[Arg::None], n)?;
                let v = product.outs[0];
                scaled.insert(from, v);
                with.push(product);
                v
            }
        };
        let mut rows = product;
        if whole && from != l.grad {
            let layout = [Arg::Ints(&m.sizes), Arg::Ints(&m.strides), Arg::Int(offset)];
            let view = node(g, &ops::AS_STRIDED, &[Some(product)], &layout, n)?;
            rows = view.outs[0];
            with.push(view);
        }
        let ins = [n.ins[l.k], Some(l.index), Some(rows)];
        let mut add = node(g, &ops::INDEX_PUT, &ins, &[Arg::Len(1), Arg::Bool(true)], n)?;
        add.outs[0] = l.out;
        with.push(add);
    }
    Ok(with)
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse || !config.fuse_update {
        return Ok(false);
    }
    let uses = Uses::of(g);
    let mut edits = Edits::default();
    for at in 0..g.nodes.len() {
        if !is_update(&g.nodes[at]) {
            continue;
        }
        let mut n = g.nodes[at].clone();
        let lens = lists(&n);
        let count = lens.first().copied().unwrap_or(0);
        let (mut with, mut changed) = (Vec::new(), false);
        while let Some((factor, divides, plain)) = common_factor(g, &uses, &n.ins[count..2 * count]) {
            let at = n.ins.len() - 2;
            let (divisor, made) = scale(g, n.ins[at], factor, divides, &n)?;
            n.ins[at] = Some(divisor);
            n.ins[count..2 * count].iter_mut().zip(plain).for_each(|(i, x)| *i = Some(x));
            changed = true;
            with.extend(made);
        }
        let plain_descent = is(&n, &ops::FUSED_SGD)
            && lens[2] == 0
            && arg(&n, _fused_sgd_::WEIGHT_DECAY).float() == Some(0.0)
            && !arg(&n, _fused_sgd_::MAXIMIZE).bool()
            && n.ins[n.ins.len() - 2..].iter().all(Option::is_none);
        let mut keep: Vec<usize> = (0..count).collect();
        if plain_descent {
            let lookups: Vec<Lookup> = keep.iter().filter_map(|k| lookup(g, &uses, &n, *k, count)).collect();
            keep.retain(|k| lookups.iter().all(|l| l.k != *k));
            with.extend(add_rows(g, &n, count, lookups)?);
        }
        if with.is_empty() && !changed {
            continue;
        }
        if keep.len() < count {
            n = part(&n, &keep);
        }
        if !keep.is_empty() {
            with.push(n);
        }
        edits.replace(at, with);
    }
    let changed = edits.apply(g);
    if changed {
        dead_code::run(g, config)?;
    }
    Ok(changed)
}
