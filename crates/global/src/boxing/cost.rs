//! The cost table: bytes on the wire of each change of layout, over all ranks. One table for eager, lazy and the solver.

use oneflow_base::{Error, PKind, Result, Sbp};
use smallvec::SmallVec;

/// A change of layout that is not possible.
pub const UNSUPPORTED: f64 = f64::MAX / 4.0;
/// A partial consumer defers a reduction that costs more later: discouraged by several times the tensor's bytes.
const PARTIAL_PENALTY: f64 = 4.0;

/// Cost of changing one mesh axis of `n` ranks, for a tensor of `bytes` on that axis.
pub fn axis_cost(from: Sbp, to: Sbp, bytes: f64, n: i64) -> f64 {
    let p = n as f64;
    if from == to || n == 1 && !(to.is_partial() ^ from.is_partial()) {
        return 0.0;
    }
    match (from, to) {
        (Sbp::S(_), Sbp::S(_)) => bytes * (p - 1.0) / p,
        (Sbp::S(_), Sbp::B) => bytes * (p - 1.0),
        (Sbp::P(_), Sbp::S(_)) => bytes * (p - 1.0),
        (Sbp::P(_), Sbp::B) => 2.0 * bytes * (p - 1.0),
        (Sbp::B, Sbp::S(_)) => 1.0,
        (Sbp::B | Sbp::S(_), Sbp::P(PKind::Sum)) => 1.0 + PARTIAL_PENALTY * bytes * 2.0 * p,
        _ => UNSUPPORTED,
    }
}

/// One mesh axis changes its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub axis: usize,
    pub from: Sbp,
    pub to: Sbp,
}

type State = SmallVec<[Sbp; 2]>;

/// The cheapest sequence of one-axis steps between two layouts over one mesh, and its cost.
///
/// An axis whose split is nested in by a later axis cannot change alone: the later axis is gathered first.
pub fn cheapest_path(from: &[Sbp], to: &[Sbp], bytes: f64, hierarchy: &[i64]) -> Result<(Vec<Step>, f64)> {
    struct Node {
        state: State,
        cost: f64,
        path: Vec<Step>,
        done: bool,
    }
    let mut nodes = vec![Node { state: State::from_slice(from), cost: 0.0, path: Vec::new(), done: false }];
    // A handful of layouts (three choices an axis): a scan is the queue.
    while let Some(at) =
        (0..nodes.len()).filter(|i| !nodes[*i].done).min_by(|a, b| nodes[*a].cost.total_cmp(&nodes[*b].cost))
    {
        nodes[at].done = true;
        if nodes[at].state.as_slice() == to {
            let n = nodes.swap_remove(at);
            return Ok((n.path, n.cost));
        }
        for axis in 0..from.len() {
            for next in [from[axis], to[axis], Sbp::B] {
                let n = &nodes[at];
                let cur = n.state[axis];
                let is_nested = |s| nested(&n.state, axis, s, hierarchy);
                if next == cur || is_nested(cur) || is_nested(next) {
                    continue;
                }
                // Other axes that replicate do the same work again; other axes that split do it on less.
                let copies: f64 = (0..from.len())
                    .filter(|k| *k != axis && !matches!(n.state[*k], Sbp::S(_)))
                    .map(|k| hierarchy[k] as f64)
                    .product();
                let cost = n.cost + axis_cost(cur, next, bytes * copies, hierarchy[axis]);
                if cost >= UNSUPPORTED {
                    continue;
                }
                let mut state = n.state.clone();
                state[axis] = next;
                let mut path = n.path.clone();
                path.push(Step { axis, from: cur, to: next });
                match nodes.iter_mut().find(|n| n.state == state) {
                    Some(old) if old.done || old.cost <= cost => {}
                    Some(old) => (old.cost, old.path) = (cost, path),
                    None => nodes.push(Node { state, cost, path, done: false }),
                }
            }
        }
    }
    Err(Error::runtime(format!("no way from sbp {from:?} to sbp {to:?}")))
}

/// Returns true if a later axis of several ranks splits the same dimension.
fn nested(state: &[Sbp], axis: usize, s: Sbp, hierarchy: &[i64]) -> bool {
    let mut later = state.iter().zip(hierarchy).skip(axis + 1);
    matches!(s, Sbp::S(_)) && later.any(|(t, n)| *t == s && *n > 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    const B: Sbp = Sbp::B;
    const P: Sbp = Sbp::P_SUM;
    const fn s(d: u8) -> Sbp {
        Sbp::S(d)
    }

    fn states(from: &[Sbp], to: &[Sbp], hierarchy: &[i64]) -> Vec<Vec<Sbp>> {
        let (path, _) = cheapest_path(from, to, 1024.0, hierarchy).unwrap();
        let mut cur = from.to_vec();
        path.iter()
            .map(|p| {
                assert_eq!(cur[p.axis], p.from);
                cur[p.axis] = p.to;
                cur.clone()
            })
            .collect()
    }

    #[test]
    fn one_axis_is_one_step() {
        for (a, b) in [(P, B), (P, s(0)), (s(0), B), (s(0), s(1)), (B, s(1)), (B, P), (s(0), P)] {
            assert_eq!(states(&[a], &[b], &[4]), [[b]]);
        }
        assert!(states(&[B], &[B], &[4]).is_empty());
        assert!(cheapest_path(&[B], &[Sbp::P(PKind::Max)], 1.0, &[2]).is_err());
    }

    #[test]
    fn reductions_shrink_before_they_spread() {
        // Scatter on one axis first, so that the all-reduce of the other moves less.
        assert_eq!(states(&[P, P], &[B, s(0)], &[2, 2]), [[P, s(0)], [B, s(0)]]);
        assert_eq!(states(&[P, B], &[B, s(0)], &[2, 2]), [[P, s(0)], [B, s(0)]]);
    }

    #[test]
    fn a_nested_split_is_undone_from_the_inside() {
        assert_eq!(states(&[s(0), s(0)], &[B, s(0)], &[2, 2]), [[s(0), B], [B, B], [B, s(0)]]);
        assert_eq!(states(&[B, s(0)], &[s(0), s(0)], &[2, 2]), [[B, B], [s(0), B], [s(0), s(0)]]);
        // An axis of one rank splits nothing.
        assert_eq!(states(&[s(0), s(0)], &[B, s(0)], &[2, 1]), [[B, s(0)]]);
        assert_eq!(states(&[s(0), s(1)], &[s(1), s(0)], &[2, 2]).last().unwrap(), &[s(1), s(0)]);
    }
}
