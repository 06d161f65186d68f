//! Attention written by hand, `softmax(q @ k.T * scale + mask) @ v`, becomes the fused op, and so does its backward: neither
//! scores nor probabilities reach memory.
//!
//! `find` recognises it by what is computed, not by how it was spelled: scales before or after the mask, masks that are
//! added or filled in, softmax in float32, dropout (the fused op draws the same numbers), any grouping of the leading
//! dimensions. Where anybody else reads scores or probabilities nothing changes. A row whose keys are all hidden by minus
//! infinities gives zeros, as `scaled_dot_product_attention` does, and not NaN.

mod find;
mod mask;

use super::layout::{Memories, forgo_copy, is_rows};
use super::ops;
use super::pattern::{Edits, is, node, runs};
use crate::Config;
use crate::ir::{Graph, Node, ValueId};
use crate::passes::dead_code;
use find::{Backward, Match};
use oneflow_base::{Arg, Result};
use oneflow_core::OpDef;

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse || !config.fuse_attention {
        return Ok(false);
    }
    let results: Vec<ValueId> = g.nodes.iter().filter(|n| is(n, &ops::SOFTMAX)).map(|n| n.outs[0]).collect();
    let mut changed = false;
    let mut memories = Memories::of(g);
    for probabilities in results {
        let Some(found) = find::find(g, &memories, probabilities) else { continue };
        if rewrite(g, &found)? {
            dead_code::run(g, config)?;
            memories = Memories::of(g);
            changed = true;
        }
    }
    if changed {
        forgo_copies(g)?;
    }
    Ok(changed)
}

/// Whether the fused ops take the place of the match.
fn rewrite(g: &mut Graph, m: &Match) -> Result<bool> {
    let like = g.nodes[m.forward].clone();
    let mut w = Writer { g, sizes: m.sizes, like, nodes: Vec::new() };
    let [query, key, value] = [m.query, m.key, m.value].map(|v| w.before_copy(v, m.forward));
    let Some(key) = w.transposed(key)?.map(|v| w.before_copy(v, m.forward)) else { return Ok(false) };
    let (q, k, v) = (w.heads(query, m.width)?, w.heads(key, m.width)?, w.heads(value, m.value_width)?);
    let (Some(q), Some(k), Some(v)) = (q, k, v) else { return Ok(false) };
    let Some((causal, mask)) = mask::combined(&mut w, m)? else { return Ok(false) };
    let (p, rng) = m.dropout.unwrap_or((0.0, Arg::None));
    // A program that writes attention out asks for no library.
    let (p, causal, scale, own) = (Arg::Float(p), Arg::Bool(causal), Arg::Float(m.scale), Arg::Int(0));
    let ins = [Some(q), Some(k), Some(v), mask];
    let Some(forward) = w.push(&ops::NATIVE_ATTENTION, &ins, &[p, causal, scale, own, rng])? else {
        return Ok(false);
    };
    let (out, stats) = (forward[0], forward[1]);
    let mut edits = Edits::default();
    let old = w.like.outs[0];
    w.stands_for(out, old)?;
    edits.replace(m.forward, std::mem::take(&mut w.nodes));
    if let Some(b) = &m.backward {
        w.like = w.g.nodes[b.at].clone();
        let Some(grad) = w.heads(b.grad_out, m.value_width)? else { return Ok(false) };
        let ins = [Some(grad), Some(q), Some(k), Some(v), mask, Some(out), Some(stats)];
        let args = [p, causal, scale, Arg::Bool(b.mask.is_some()), own, rng];
        let Some(grads) = w.push(&ops::NATIVE_ATTENTION_BACKWARD, &ins, &args)? else { return Ok(false) };
        w.gradients(b, &grads)?;
        edits.replace(b.at, std::mem::take(&mut w.nodes));
        let gone = [b.query, b.key, b.value, b.mask].into_iter().flatten();
        gone.filter(|at| *at != b.at).for_each(|at| edits.replace(at, vec![]));
    }
    Ok(edits.apply(g))
}

/// Nodes that are written into the place of others.
pub(super) struct Writer<'a> {
    pub g: &'a mut Graph,
    /// Batch, heads, rows, keys.
    pub sizes: [i64; 4],
    pub like: Node,
    pub nodes: Vec<Node>,
}

impl Writer<'_> {
    /// A node with fresh results, if its op has a kernel for these inputs.
    pub fn push(
        &mut self,
        op: &'static OpDef,
        ins: &[Option<ValueId>],
        args: &[Arg<'_>],
    ) -> Result<Option<Vec<ValueId>>> {
        let n = node(self.g, op, ins, args, &self.like)?;
        if !n.is_view() && !runs(self.g, &n)? {
            return Ok(None);
        }
        let outs = n.outs.to_vec();
        self.nodes.push(n);
        Ok(Some(outs))
    }

    /// One result of an op that every device has.
    pub fn one(&mut self, op: &'static OpDef, ins: &[ValueId], args: &[Arg<'_>]) -> Result<Option<ValueId>> {
        let ins: Vec<_> = ins.iter().copied().map(Some).collect();
        Ok(self.push(op, &ins, args)?.map(|outs| outs[0]))
    }

    pub fn transposed(&mut self, v: ValueId) -> Result<Option<ValueId>> {
        self.one(&ops::TRANSPOSE, &[v], &[Arg::Int(-2), Arg::Int(-1)])
    }

    /// What a value was copied from, where it is only denser than that: the fused op reads any layout.
    fn before_copy(&self, v: ValueId, at: usize) -> ValueId {
        let g = &self.g;
        let root = g.root(v);
        let made = g.nodes[..at].iter().position(|n| n.outs.contains(&root) && is(n, &ops::CLONE_CONTIGUOUS));
        let from = made.filter(|_| is_rows(g, v)).and_then(|made| g.nodes[made].ins[0]);
        let mut sizes = self.sizes[..2].to_vec();
        sizes.extend(g.meta(v).sizes.iter().rev().take(2).rev());
        let as_it_is =
            |from: &ValueId| g.meta(*from).sizes.as_slice() == sizes && g.meta(*from).dtype == g.meta(v).dtype;
        let unchanged = made.is_some_and(|made| g.nodes[made..at].iter().all(|n| n.updates.is_empty()));
        from.filter(|f| unchanged && as_it_is(f)).unwrap_or(v)
    }

    /// (*, rows, width) as (batch, heads, rows, width), where its layout allows for it.
    fn heads(&mut self, v: ValueId, width: i64) -> Result<Option<ValueId>> {
        let rows = self.g.meta(v).sizes.iter().rev().nth(1).copied().unwrap_or(1);
        let sizes = [self.sizes[0], self.sizes[1], rows, width];
        self.view(v, &sizes)
    }

    fn view(&mut self, v: ValueId, sizes: &[i64]) -> Result<Option<ValueId>> {
        if self.g.meta(v).sizes.as_slice() == sizes {
            return Ok(Some(v));
        }
        let Ok(n) = node(self.g, &ops::VIEW, &[Some(v)], &[Arg::Ints(sizes)], &self.like) else { return Ok(None) };
        let out = n.outs[0];
        self.nodes.push(n);
        Ok(Some(out))
    }

    /// Lets `new`, up to the grouping of its dimensions, be what `old` was: a copy in the layout of `old`.
    fn stands_for(&mut self, new: ValueId, old: ValueId) -> Result<()> {
        let sizes = self.g.meta(old).sizes.clone();
        let copy_of = |w: &mut Self, v| node(w.g, &ops::CLONE_CONTIGUOUS, &[Some(v)], &[Arg::None], &w.like);
        match self.view(new, &sizes)? {
            Some(seen) => {
                let mut copy = copy_of(self, seen)?;
                copy.outs[0] = old;
                self.nodes.push(copy);
            }
            None => {
                // Dimensions group only once they lie densely.
                let dense = copy_of(self, new)?;
                let mut view = node(self.g, &ops::VIEW, &[Some(dense.outs[0])], &[Arg::Ints(&sizes)], &self.like)?;
                view.outs[0] = old;
                let root = dense.outs[0];
                self.g.values.iter_mut().filter(|v| v.root == old).for_each(|v| v.root = root);
                self.nodes.extend([dense, view]);
            }
        }
        Ok(())
    }

    fn gradients(&mut self, b: &Backward, grads: &[ValueId]) -> Result<()> {
        let made = |w: &Self, at: Option<usize>| at.map(|at| w.g.nodes[at].outs[0]);
        for (new, at) in [(grads[0], b.query), (grads[2], b.value), (grads[3], b.mask)] {
            if let Some(old) = made(self, at) {
                self.stands_for(new, old)?;
            }
        }
        if let Some(old) = made(self, b.key)
            && let Some(new) = self.transposed(grads[1])?
        {
            self.stands_for(new, old)?;
        }
        Ok(())
    }
}

/// Copies of what the fused ops make whose readers take it as it lies.
fn forgo_copies(g: &mut Graph) -> Result<()> {
    let made: Vec<ValueId> = g
        .nodes
        .iter()
        .filter(|n| is(n, &ops::NATIVE_ATTENTION) || is(n, &ops::NATIVE_ATTENTION_BACKWARD))
        .flat_map(|n| n.outs.to_vec())
        .collect();
    let copies: Vec<ValueId> = g.nodes.iter().filter(|n| is(n, &ops::CLONE_CONTIGUOUS)).map(|n| n.outs[0]).collect();
    for copy in copies {
        // Those before it may have changed the root of what it copies.
        let at = g.nodes.iter().position(|n| n.outs.first() == Some(&copy));
        let from = at.and_then(|at| g.nodes[at].ins[0]);
        if let (Some(at), Some(from)) = (at, from)
            && made.contains(&g.root(from))
        {
            forgo_copy(g, at)?;
        }
    }
    Ok(())
}
