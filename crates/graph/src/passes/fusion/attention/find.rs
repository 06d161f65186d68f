//! Attention in a graph: from a softmax up to the product of query and key, down to the product with the value, and the
//! same ways back in the gradients.

use super::mask::Constants;
use crate::ir::{Graph, Node, ValueId};
use crate::passes::fusion::layout::{Memories, is_columns, is_rows, is_transpose, same};
use crate::passes::fusion::ops;
use crate::passes::fusion::pattern::{arg, is};
use oneflow_base::{Arg, DType, Scalar};
use oneflow_core::{At, In, OpDef};
use oneflow_ops::named::{add, div, masked_fill, mul, native_dropout, softmax, where_};

/// What happens to scores on their way from the product to the softmax.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Factor(f64),
    Cast,
    /// This value where the mask is true, or, if it `keeps`, where it is not.
    Fill {
        mask: ValueId,
        keeps: bool,
        value: f64,
    },
    Add(ValueId),
}

/// Attention, and what it is of.
pub struct Match {
    /// The node that makes the result.
    pub forward: usize,
    pub query: ValueId,
    /// As the product read it: (*, width, keys).
    pub key: ValueId,
    pub value: ValueId,
    /// Batch, heads, rows, keys.
    pub sizes: [i64; 4],
    pub width: i64,
    pub value_width: i64,
    pub scale: f64,
    /// Sizes of the scores where masks meet them.
    pub scores: Vec<i64>,
    /// Fills and sums, the last first.
    pub masks: Vec<Step>,
    /// Probability and position of the draw.
    pub dropout: Option<(f64, Arg<'static>)>,
    pub backward: Option<Backward>,
}

pub struct Backward {
    /// The first node that reads the result's gradient.
    pub at: usize,
    pub grad_out: ValueId,
    /// The nodes that make the gradients, where they are wanted.
    pub query: Option<usize>,
    pub key: Option<usize>,
    pub value: Option<usize>,
    /// The same of what was added to the scores.
    pub mask: Option<usize>,
}

/// What looking needs.
struct Search<'a> {
    g: &'a Graph,
    memories: &'a Memories,
    /// The part of the program, as `Node::again` says.
    again: u32,
}

/// What happens to probabilities before they meet the values: a cast, or dropout and the node that does it.
enum After {
    Cast,
    Dropout { p: f64, mask: ValueId },
}

/// The way from the probabilities to the result.
struct Down {
    after: Vec<After>,
    dropout: Option<(f64, Arg<'static>)>,
    forward: usize,
    softmax_backward: Option<usize>,
    grad_value: Option<usize>,
}

pub fn find(g: &Graph, memories: &Memories, probabilities: ValueId) -> Option<Match> {
    let at = memories.made_at(g, probabilities)?;
    let softmax = &g.nodes[at];
    let (x, sizes) = (softmax.ins[0]?, g.meta(probabilities).sizes.to_vec());
    let n = sizes.len();
    let last = arg(softmax, softmax::DIM).int().is_some_and(|d| d == -1 || d == n as i64 - 1);
    let [lead @ .., rows, keys] = sizes.as_slice() else { return None };
    if !is(softmax, &ops::SOFTMAX) || !last || lead.is_empty() || rows * keys < 2 || sizes.contains(&0) {
        return None;
    }
    let s = Search { g, memories, again: softmax.again };
    let mut steps = Vec::new();
    let product = s.climb(x, &sizes, &mut steps)?;
    let down = s.descend(probabilities)?;
    let (of_scores, of_values) = (&g.nodes[product], &g.nodes[down.forward]);
    let (query, key, value) = (of_scores.ins[0]?, of_scores.ins[1]?, of_values.ins[1]?);
    // No broadcasting, and all of one kind.
    let leads = |v: ValueId| g.meta(v).sizes.split_last_chunk::<2>().map(|(lead, last)| (lead.to_vec(), *last));
    let ((q_lead, [_, width]), (k_lead, _), (v_lead, [_, value_width])) = (leads(query)?, leads(key)?, leads(value)?);
    let (p_lead, _) = leads(of_values.ins[0]?)?;
    let dtypes = [query, key, value, of_values.outs[0]].map(|v| g.meta(v).dtype);
    let no_update = g.nodes[product..down.forward].iter().all(|n| n.updates.is_empty());
    if q_lead != k_lead || p_lead != v_lead || dtypes.iter().any(|d| *d != dtypes[0]) || !no_update {
        return None;
    }
    let scale = steps.iter().map(|s| if let Step::Factor(f) = s { *f } else { 1.0 }).product();
    let backward = match down.softmax_backward {
        Some(b) => Some(s.backward(&down, b, &steps, [query, key, value])?),
        None if down.grad_value.is_some() => return None,
        None => None,
    };
    let (heads, batch) = match lead {
        [n] => (1, *n),
        [lead @ .., heads] => (*heads, lead.iter().product()),
        [] => return None,
    };
    Some(Match {
        forward: down.forward,
        query,
        key,
        value,
        sizes: [batch, heads, *rows, *keys],
        width,
        value_width,
        scale,
        scores: sizes.clone(),
        masks: masks(g, &steps, &sizes)?,
        dropout: down.dropout,
        backward,
    })
}

/// The fills and sums, as far as they do what a mask of the fused op does.
fn masks(g: &Graph, steps: &[Step], scores: &[i64]) -> Option<Vec<Step>> {
    let mut masks = Vec::new();
    // What scales the scores once a mask has met them, scales the mask.
    let mut later = 1.0;
    for step in steps {
        match *step {
            Step::Factor(f) => later *= f,
            Step::Cast => {}
            Step::Add(_) if later != 1.0 => return None,
            Step::Add(_) => masks.push(*step),
            Step::Fill { value, .. } if value == f64::NEG_INFINITY && later > 0.0 => masks.push(*step),
            // The finite stand-ins for minus infinity hide as well, unless all is hidden that a row sees.
            Step::Fill { mask, keeps, value } => {
                let shown = Constants::of(g, mask).is_some_and(|c| c.every_row(scores, keeps));
                let alone = steps.iter().filter(|s| matches!(s, Step::Fill { .. } | Step::Add(_))).count() == 1;
                if value * later > -1e4 || !shown || !alone {
                    return None;
                }
                masks.push(*step);
            }
        }
    }
    let sums = masks.iter().filter(|m| matches!(m, Step::Add(_))).count();
    (sums <= 1).then_some(masks)
}

impl Search<'_> {
    fn node(&self, at: usize) -> Option<&Node> {
        Some(&self.g.nodes[at]).filter(|n| n.again == self.again)
    }

    /// From what the softmax reads to the product that makes it; the steps between, the last first.
    fn climb(&self, v: ValueId, scores: &[i64], steps: &mut Vec<Step>) -> Option<usize> {
        let (g, at) = (self.g, self.memories.made_at(self.g, v)?);
        let (n, made) = (self.node(at)?, g.root(v));
        self.memories.reader(g, v)?;
        if !is_rows(g, v) || n.outs[0] != made {
            return None;
        }
        let masked = g.meta(made).sizes.as_slice() == scores;
        let of = |op: &OpDef| is(n, op);
        let step = match () {
            () if of(&ops::MATMUL) => return Some(at),
            () if of(&ops::MUL) || of(&ops::DIV) => Step::Factor(factor(g, n).filter(|f| f.is_finite())?),
            () if of(&ops::TO_COPY) && is_float_cast(g, n) => Step::Cast,
            () if (of(&ops::MASKED_FILL) || of(&ops::WHERE)) && masked => {
                let (_, mask, keeps, value) = fill(g, n)?;
                Step::Fill { mask, keeps, value }
            }
            () if of(&ops::ADD) && masked && n.ins.len() == 2 && adds_once(n) => {
                return [(0, 1), (1, 0)].into_iter().find_map(|(mine, other)| {
                    let start = steps.len();
                    steps.push(Step::Add(n.ins[other]?));
                    let found = self.climb(n.ins[mine]?, scores, steps);
                    if found.is_none() {
                        steps.truncate(start);
                    }
                    found
                });
            }
            () => return None,
        };
        let x = fill(g, n).map_or(n.ins[0], |f| Some(f.0))?;
        steps.push(step);
        self.climb(x, scores, steps)
    }

    fn descend(&self, probabilities: ValueId) -> Option<Down> {
        let g = self.g;
        let (mut after, mut dropout) = (Vec::new(), None);
        let (mut softmax_backward, mut now) = (None, probabilities);
        loop {
            if self.memories.is_kept(g, now) {
                return None;
            }
            let (mut next, mut forward, mut grad_value) = (None, None, None);
            for &r in self.memories.readers(g, now) {
                let n = &g.nodes[r];
                let first = n.ins[0].filter(|v| g.root(*v) == g.root(now));
                let of = |op: &OpDef| is(n, op);
                let role = match () {
                    () if of(&ops::SOFTMAX_BACKWARD)
                        && now == probabilities
                        && first.is_none()
                        && n.ins[1] == Some(now) =>
                    {
                        &mut softmax_backward
                    }
                    () if (of(&ops::NATIVE_DROPOUT) || of(&ops::TO_COPY)) && is_rows(g, first?) => &mut next,
                    () if !of(&ops::MATMUL) || g.root(n.ins[1]?) == g.root(now) => return None,
                    () if is_rows(g, first?) => &mut forward,
                    () if is_columns(g, first?) => &mut grad_value,
                    () => return None,
                };
                if role.replace(r).is_some() {
                    return None;
                }
            }
            let Some(next) = next else {
                let forward = forward.filter(|at| self.node(*at).is_some())?;
                return Some(Down { after, dropout, forward, softmax_backward, grad_value });
            };
            let n = self.node(next)?;
            if forward.is_some() || grad_value.is_some() {
                return None;
            }
            after.push(match () {
                () if is(n, &ops::TO_COPY) && is_float_cast(g, n) => After::Cast,
                () if is(n, &ops::NATIVE_DROPOUT) && dropout.is_none() => {
                    let rng = arg(n, native_dropout::GENERATOR);
                    let (Some(p), Arg::Rng { seed, offset }) = (arg(n, native_dropout::P).float(), rng) else {
                        return None;
                    };
                    dropout = Some((p, Arg::Rng { seed, offset }));
                    After::Dropout { p, mask: n.outs[1] }
                }
                () => return None,
            });
            now = n.outs[0];
        }
    }

    /// The gradients, whose every node undoes one of the forward.
    fn backward(
        &self,
        down: &Down,
        softmax_backward: usize,
        steps: &[Step],
        [query, key, value]: [ValueId; 3],
    ) -> Option<Backward> {
        let (g, memories) = (self.g, self.memories);
        let back = &g.nodes[softmax_backward];
        // Up to the gradient of the result.
        let mut x = back.ins[0]?;
        let once = |x: ValueId| memories.reader(g, x).and(memories.made_at(g, x)).filter(|_| is_rows(g, x));
        for after in &down.after {
            let n = &g.nodes[once(x)?];
            x = match after {
                After::Cast if is_float_cast(g, n) => n.ins[0]?,
                After::Dropout { p, mask } if is(n, &ops::MUL) => {
                    let kept = if *p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
                    let hides = &g.nodes[once(n.ins[0]?)?];
                    let fits = factor(g, n) == Some(kept) && is(hides, &ops::MUL) && hides.ins.len() == 2;
                    // Nobody else may ask which were dropped.
                    memories.reader(g, *mask).filter(|_| fits)?;
                    let of_mask = |i: usize| hides.ins[i].is_some_and(|v| g.root(v) == *mask && is_rows(g, v));
                    hides.ins[(0..2).find(|i| of_mask(*i)).map(|i| 1 - i)?]?
                }
                _ => return None,
            };
        }
        let of_weights = once(x)?;
        let n = &g.nodes[of_weights];
        let grad_out = n.ins[0]?;
        let reads_value = is(n, &ops::MATMUL) && is_transpose(g, value, n.ins[1]?);
        let same_grad = down.grad_value.is_none_or(|at| g.nodes[at].ins[1].is_some_and(|v| same(g, v, grad_out)));
        if !reads_value || !same_grad {
            return None;
        }
        // Down to the gradients of query and key. Where a mask met the scores, their gradient is the mask's too.
        let (mut x, mut mask, mut of_mask) = (back.outs[0], None, false);
        let mut only_fills = true;
        for step in steps {
            if let Step::Add(_) = step {
                of_mask = only_fills;
                continue;
            }
            let mut all = memories.readers(g, x).iter().copied().filter(|at| undoes(g, &g.nodes[*at], step, x));
            let (Some(next), None) = (all.next(), all.next()) else { return None };
            if self.others(x, &[next]) {
                mask = Some(memories.made_at(g, x).filter(|_| of_mask)?);
            }
            (x, of_mask) = (g.nodes[next].outs[0], false);
            only_fills &= matches!(step, Step::Fill { .. });
        }
        let product = |i: usize, other: ValueId| {
            let fits = |n: &Node| {
                let mine = n.ins.get(i).copied().flatten().is_some_and(|v| g.root(v) == g.root(x) && is_rows(g, v));
                is(n, &ops::MATMUL) && mine && n.ins[1 - i].is_some_and(|v| is_transpose(g, other, v))
            };
            memories.readers(g, x).iter().copied().find(|at| fits(&g.nodes[*at]))
        };
        let (of_query, of_key) = (product(0, key), product(1, query));
        let used: Vec<usize> = [of_query, of_key].into_iter().flatten().collect();
        if self.others(x, &used) {
            mask = Some(memories.made_at(g, x).filter(|_| of_mask)?);
        }
        let at = down.grad_value.map_or(of_weights, |at| at.min(of_weights));
        let mut all = used.iter().chain(&down.grad_value).chain(&mask);
        let together = all.all(|i| *i >= at && g.nodes[*i].again == g.nodes[at].again) && at > down.forward;
        together.then_some(Backward { at, grad_out, query: of_query, key: of_key, value: down.grad_value, mask })
    }

    /// Whether anybody but these nodes reads a memory.
    fn others(&self, x: ValueId, by: &[usize]) -> bool {
        self.memories.is_kept(self.g, x) || self.memories.readers(self.g, x).iter().any(|r| !by.contains(r))
    }
}

/// Whether a node of the backward undoes a step, reading the gradient `x`.
fn undoes(g: &Graph, n: &Node, step: &Step, x: ValueId) -> bool {
    let reads = |v: Option<ValueId>| v.is_some_and(|v| g.root(v) == g.root(x) && is_rows(g, v));
    match *step {
        Step::Factor(f) => factor(g, n) == Some(f) && reads(n.ins[0]),
        Step::Cast => is(n, &ops::TO_COPY) && is_float_cast(g, n) && reads(n.ins[0]),
        Step::Fill { mask, keeps, .. } => {
            fill(g, n).is_some_and(|(v, m, k, zero)| reads(Some(v)) && same(g, m, mask) && k == keeps && zero == 0.0)
        }
        Step::Add(_) => false,
    }
}

/// The number that a node multiplies with.
fn factor(g: &Graph, n: &Node) -> Option<f64> {
    match () {
        () if is(n, &ops::MUL) => number(g, n, mul::OTHER, mul::OTHER_SCALAR),
        () if is(n, &ops::DIV) && arg(n, div::ROUNDING_MODE).is_none() => {
            number(g, n, div::OTHER, div::OTHER_SCALAR).map(|x| 1.0 / x)
        }
        () => None,
    }
}

/// A scalar operand: an argument, or a value that is known.
fn number(g: &Graph, n: &Node, at: In, argument: At<Scalar>) -> Option<f64> {
    match n.ins.get(at.index()).copied().flatten() {
        None => arg(n, argument).float(),
        Some(v) if g.meta(v).sizes.is_empty() => Constants::of(g, v)?.number(),
        Some(_) => None,
    }
}

/// What a node fills, the mask, whether it keeps what the mask names, and with what it fills the rest.
fn fill(g: &Graph, n: &Node) -> Option<(ValueId, ValueId, bool, f64)> {
    let input = |at: In| n.ins[at.index()];
    if is(n, &ops::MASKED_FILL) {
        let value = number(g, n, masked_fill::VALUE, masked_fill::VALUE_SCALAR)?;
        return Some((input(masked_fill::INPUT)?, input(masked_fill::MASK)?, false, value));
    }
    if !is(n, &ops::WHERE) {
        return None;
    }
    let condition = input(where_::CONDITION)?;
    match number(g, n, where_::OTHER, where_::OTHER_SCALAR) {
        Some(x) => Some((input(where_::INPUT)?, condition, true, x)),
        None => {
            let kept = number(g, n, where_::INPUT, where_::INPUT_SCALAR)?;
            Some((input(where_::OTHER)?, condition, false, kept))
        }
    }
}

fn adds_once(n: &Node) -> bool {
    let alpha = arg(n, add::ALPHA);
    matches!(alpha, Arg::None | Arg::Int(1)) || alpha.float() == Some(1.0)
}

/// Whether a node casts between the types that the fused op computes alike.
fn is_float_cast(g: &Graph, n: &Node) -> bool {
    let (Some(x), y) = (n.ins[0], n.outs[0]) else { return false };
    let narrow = |v: ValueId| matches!(g.meta(v).dtype, DType::F32 | DType::BF16 | DType::F16);
    narrow(x) && narrow(y) && g.meta(x).device == g.meta(y).device
}
