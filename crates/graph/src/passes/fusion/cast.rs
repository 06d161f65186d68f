//! On request, a parameter that a step reads in a half type is kept in that type too: the cast follows the update, while the
//! parameter is at hand, and no step begins with casts.

use super::ops;
use super::pattern::{Uses, is, node};
use crate::Config;
use crate::ir::{Derived, Graph, ValueId, Variable, Write};
use oneflow_base::{Arg, DType, Result};
use oneflow_core::Storage;

/// A cast of a whole parameter that the step updates: the node, the parameter and its new value.
fn find(g: &Graph) -> Vec<(usize, ValueId, ValueId)> {
    let mut found = Vec::new();
    for (at, n) in g.nodes.iter().enumerate() {
        let (Some(Some(v)), [out]) = (n.ins.first().copied(), n.outs.as_slice()) else { continue };
        let write = g.writes.iter().find(|w| w.target == v);
        let is_parameter = g.variables.of(v).is_some() && g.meta(v).is_contiguous();
        let half = matches!(g.meta(*out).dtype, DType::BF16 | DType::F16) && g.meta(*out).is_contiguous();
        if let Some(w) = write
            && is(n, &ops::TO_COPY)
            && is_parameter
            && half
            && g.is_root(*out)
            && !g.outputs.iter().any(|o| g.root(*o) == *out)
        {
            found.push((at, v, w.value));
        }
    }
    found
}

pub fn run(g: &mut Graph, config: &Config) -> Result<bool> {
    if !config.update_cast {
        return Ok(false);
    }
    let found = find(g);
    let mut gone = vec![false; g.nodes.len()];
    let mut later = Vec::new();
    for (at, v, new) in &found {
        let old = g.nodes[*at].clone();
        let copy = old.outs[0];
        let m = g.meta(copy).clone();
        let storage = Storage::new(m.device, m.numel() as usize * m.dtype.size())?;
        let of = g.variables.of(*v).map_or("", |p| p.name.as_str());
        let name = format!("{of}.{}", m.dtype);
        g.variables.push(Variable { name, value: copy, storage, constant: false });
        let cast = node(g, &ops::TO_COPY, &[Some(*new)], &[Arg::DType(m.dtype), Arg::None], &old)?;
        g.writes.push(Write { target: copy, value: cast.outs[0] });
        g.derived.push(Derived { value: copy, made: copy, from: vec![*v], nodes: vec![old] });
        later.push((*new, cast));
        gone[*at] = true;
    }
    let mut it = gone.into_iter();
    g.nodes.retain(|_| !it.next().unwrap_or(false));
    for (new, cast) in later {
        // Right behind the update.
        let at = Uses::of(g).made_at(new).map_or(g.nodes.len(), |i| i + 1);
        g.nodes.insert(at, cast);
    }
    Ok(!found.is_empty())
}
