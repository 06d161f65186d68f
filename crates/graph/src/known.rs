//! Values of a trace under way that depend on nothing a run brings: a program may read them as if it ran eagerly.
//!
//! Inputs, random numbers, parameters and buffers are not known: they differ from run to run. Nor are other tensors from
//! outside, unless the program is a copy for another place (`Tracer::capture_constants`).

use crate::ir::{Graph, ValueId, Variable};
use crate::passes::fold::{evaluate, is_fill, is_pure};
use crate::trace::{look_at, value_of};
use oneflow_base::Result;
use oneflow_core::{Tensor, Tls, bit, tls, with_tls};
use std::collections::{HashMap, HashSet};

/// The elements of a traced tensor, if they follow from constants alone.
pub fn known(t: &Tensor) -> Result<Option<Tensor>> {
    let value = value_of(t)?;
    // Above this layer the recorded calls have had their turn; below it they run at once.
    let now = tls();
    let _guard = with_tls(Tls { on: now.on & !(1 << bit::LAZY), allowed: now.allowed & ((1 << bit::LAZY) - 1) });
    look_at(|graph, is_constant| evaluated(graph, value, is_constant))
}

fn evaluated(g: &Graph, value: ValueId, is_constant: &dyn Fn(&Variable) -> bool) -> Result<Option<Tensor>> {
    let mut wanted = HashSet::from([value]);
    let mut slice = Vec::new();
    for n in g.nodes.iter().rev() {
        if !n.outs.iter().any(|v| wanted.contains(v)) {
            continue;
        }
        if !is_pure(n) && !n.is_view() {
            return Ok(None);
        }
        wanted.retain(|v| !n.outs.contains(v));
        // A fill reads the layout of its inputs, never their values.
        wanted.extend(n.ins.iter().flatten().filter(|_| !is_fill(n)));
        slice.push(n);
    }
    let mut known: HashMap<ValueId, Tensor> = HashMap::new();
    for v in wanted {
        let Some(variable) = g.variables.of(v).filter(|x| is_constant(x)) else { return Ok(None) };
        let m = g.meta(v);
        let t = Tensor::from_storage(variable.storage.clone(), m.dtype, m.sizes.clone(), m.strides.clone(), 0)?;
        known.insert(v, t);
    }
    for n in slice.into_iter().rev() {
        let Some(made) = evaluate(g, n, &known)? else { return Ok(None) };
        let same = |t: &Tensor, v: ValueId| {
            t.sizes() == g.meta(v).sizes.as_slice() && t.strides() == g.meta(v).strides.as_slice()
        };
        if !made.iter().zip(&n.outs).all(|(t, v)| same(t, *v)) {
            return Ok(None);
        }
        known.extend(n.outs.iter().copied().zip(made));
    }
    Ok(known.remove(&value))
}
