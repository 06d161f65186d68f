//! A graph as text: one line a node, values with dtype and shape.

use crate::ir::{Graph, Kind, Node, ValueId};
use oneflow_base::Arg;
use std::fmt;

fn value(g: &Graph, v: ValueId) -> String {
    let m = g.meta(v);
    format!("%{v}: {}{:?}", m.dtype, m.sizes.as_slice())
}

fn list(g: &Graph, vs: impl Iterator<Item = ValueId>) -> String {
    vs.map(|v| value(g, v)).collect::<Vec<_>>().join(", ")
}

fn arg(a: Arg<'_>, rng_start: u64) -> Option<String> {
    Some(match a {
        Arg::None => return None,
        Arg::Bool(b) => b.to_string(),
        Arg::Int(i) => i.to_string(),
        Arg::Float(f) => f.to_string(),
        Arg::DType(d) => d.to_string(),
        Arg::Ints(v) => format!("{v:?}"),
        Arg::Len(n) => format!("{n} tensors"),
        Arg::Sym(_) => format!("{:?}", a.str().unwrap_or("")),
        Arg::Device(d) => d.to_string(),
        Arg::Rng { offset, .. } => format!("random site {}", offset.wrapping_sub(rng_start)),
        other => format!("{other:?}"),
    })
}

/// One node as a line, without its end.
pub fn node(g: &Graph, n: &Node) -> String {
    let mut s = list(g, n.outs.iter().copied());
    let ins: Vec<String> = n.ins.iter().map(|v| v.map_or("None".into(), |v| format!("%{v}"))).collect();
    s += &format!(" = {}({}", n.name(), ins.join(", "));
    if let Kind::Op { attrs, .. } = &n.kind {
        for a in attrs.args().iter().filter_map(|a| arg(*a, g.rng_start)) {
            s += &format!("; {a}");
        }
    }
    s.push(')');
    for (i, o) in &n.updates {
        if let (Some(Some(i)), Some(o)) = (n.ins.get(*i as usize), n.outs.get(*o as usize)) {
            s += &format!(" [%{i} becomes %{o}]");
        }
    }
    s
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {}({}) {{", self.name, list(self, self.inputs.iter().copied()))?;
        for v in &self.variables {
            writeln!(f, "  {} = variable {:?} ({} bytes)", value(self, v.value), v.name, v.bytes())?;
        }
        for n in &self.nodes {
            write!(f, "  {}", node(self, n))?;
            if let Some(s) = &n.stack {
                write!(f, "  # {s}")?;
            }
            writeln!(f)?;
        }
        for w in &self.writes {
            writeln!(f, "  %{} <- %{}", w.target, w.value)?;
        }
        writeln!(f, "  return {}\n}}", list(self, self.outputs.iter().copied()))
    }
}
