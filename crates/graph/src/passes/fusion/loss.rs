//! Log-probabilities of which one a row is read (`log_softmax` and `nll_loss`) become the cross entropy of the rows, which
//! never holds the probabilities; so does their gradient.

use super::ops;
use super::pattern::{Edits, Uses, arg, is, node};
use crate::Config;
use crate::ir::{Graph, Node, ValueId};
use crate::passes::dead_code;
use oneflow_base::{Arg, Result};
use oneflow_ops::named::{gather, log_softmax, scatter_add, softmax_backward};

/// No class has this number, so no row is ignored.
const NONE_IGNORED: i64 = i64::MIN;

/// Whether an argument names the last of two dimensions.
fn is_last(a: Arg<'_>) -> bool {
    matches!(a.int(), Some(1 | -1))
}

/// A pick of one column a row: the node, and the gradients of it (softmax backward, scatter).
struct Match {
    softmax: usize,
    pick: usize,
    backward: Vec<(usize, usize)>,
}

fn find(g: &Graph, uses: &Uses, softmax: usize) -> Option<Match> {
    let n = &g.nodes[softmax];
    let (x, y) = (n.ins[0]?, *n.outs.first()?);
    let m = g.meta(x);
    if m.sizes.len() != 2 || !is_last(arg(n, log_softmax::DIM)) || m.dtype != g.meta(y).dtype || !m.dtype.is_float() {
        return None;
    }
    let mut found = Match { softmax, pick: usize::MAX, backward: Vec::new() };
    for &r in uses.readers(y)? {
        let reader = &g.nodes[r];
        match () {
            () if is(reader, &ops::GATHER) && found.pick == usize::MAX && is_last(arg(reader, gather::DIM)) => {
                let index = g.meta(reader.ins[1]?);
                if index.sizes.as_slice() != [m.sizes[0], 1] {
                    return None;
                }
                found.pick = r;
            }
            () if is(reader, &ops::SOFTMAX_BACKWARD)
                && is_last(arg(reader, softmax_backward::DIM))
                && reader.ins[1] == Some(y) =>
            {
                found.backward.push((r, 0));
            }
            () => return None,
        }
    }
    let pick = g.nodes.get(found.pick)?;
    for (r, scatter) in &mut found.backward {
        *scatter = uses.maker(g, g.nodes[*r].ins[0], &ops::SCATTER_ADD)?;
        let s = &g.nodes[*scatter];
        uses.maker(g, s.ins[0], &ops::NEW_ZEROS)?;
        if !is_last(arg(s, scatter_add::DIM)) || s.ins[1] != pick.ins[1] || *r <= found.pick {
            return None;
        }
    }
    Some(found)
}

/// A column as a vector.
fn flat(g: &mut Graph, v: ValueId, rows: i64, like: &Node, out: &mut Vec<Node>) -> Result<Option<ValueId>> {
    let n = node(g, &ops::SQUEEZE_DIM, &[Some(v)], &[Arg::Ints(&[1])], like)?;
    debug_assert_eq!(g.meta(n.outs[0]).sizes.as_slice(), [rows]);
    let v = n.outs[0];
    out.push(n);
    Ok(Some(v))
}

fn rewrite(g: &mut Graph, m: &Match, edits: &mut Edits) -> Result<Option<()>> {
    let (Some(x), pick) = (g.nodes[m.softmax].ins[0], g.nodes[m.pick].clone()) else { return Ok(None) };
    let Some(column) = pick.ins[1] else { return Ok(None) };
    let rows = g.meta(x).sizes[0];
    let options = [Arg::Int(NONE_IGNORED), Arg::Float(0.0)];
    let mut forward = Vec::new();
    let index = flat(g, column, rows, &pick, &mut forward)?;
    let losses = node(g, &ops::NATIVE_CROSS_ENTROPY, &[Some(x), index, None], &options, &pick)?;
    let (loss, lse) = (losses.outs[0], losses.outs[1]);
    forward.push(losses);
    let negative = node(g, &ops::NEG, &[Some(loss)], &[], &pick)?;
    // The pick's own value is this vector as a column.
    let mut column_of = node(g, &ops::UNSQUEEZE, &[Some(negative.outs[0])], &[Arg::Int(1)], &pick)?;
    let made = g.values[column_of.outs[0] as usize].clone();
    let readers_of_view = g.meta(pick.outs[0]) == &made.meta;
    if !readers_of_view {
        return Ok(None);
    }
    let old = pick.outs[0];
    for v in &mut g.values {
        if v.root == old {
            v.root = made.root;
        }
    }
    g.values[old as usize] = made;
    column_of.outs[0] = old;
    forward.extend([negative, column_of]);
    edits.replace(m.pick, forward);
    for &(at, scatter) in &m.backward {
        let like = g.nodes[at].clone();
        let Some(source) = g.nodes[scatter].ins[2] else { return Ok(None) };
        let mut with = Vec::new();
        let Some(g_row) = flat(g, source, rows, &like, &mut with)? else { return Ok(None) };
        let negative = node(g, &ops::NEG, &[Some(g_row)], &[], &like)?;
        let ins = [Some(negative.outs[0]), Some(x), index, None, Some(lse)];
        let mut back = node(g, &ops::CROSS_ENTROPY_BACKWARD, &ins, &options, &like)?;
        back.outs = like.outs.clone();
        with.extend([negative, back]);
        edits.replace(at, with);
    }
    Ok(Some(()))
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.fuse {
        return Ok(false);
    }
    let uses = Uses::of(g);
    let found: Vec<Match> =
        (0..g.nodes.len()).filter(|i| is(&g.nodes[*i], &ops::LOG_SOFTMAX)).filter_map(|i| find(g, &uses, i)).collect();
    let mut edits = Edits::default();
    for m in &found {
        rewrite(g, m, &mut edits)?;
    }
    let changed = edits.apply(g);
    if changed {
        dead_code::run(g, config)?;
    }
    Ok(changed)
}
