//! Split, broadcast, partial: how a global tensor is laid over one mesh axis, and the n-D product of that.

use smallvec::SmallVec;
use std::fmt;
use std::sync::RwLock;

/// The reduction of partial values. `oneflow.sbp` names `Sum` alone; DTensors name `Max` and `Min` too, which ops give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PKind {
    Sum,
    Max,
    Min,
}

/// The layout over one mesh axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sbp {
    S(u8),
    B,
    P(PKind),
}

/// One `Sbp` per mesh axis.
pub type NdSbp = SmallVec<[Sbp; 2]>;

/// An interned n-D SBP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NdSbpId(pub u32);

static TABLE: RwLock<Vec<&'static [Sbp]>> = RwLock::new(Vec::new());

impl Sbp {
    /// The public partial value, `oneflow.sbp.partial_sum`.
    pub const P_SUM: Sbp = Sbp::P(PKind::Sum);

    pub fn is_partial(self) -> bool {
        matches!(self, Sbp::P(_))
    }
    /// The layout a gradient has when the value has this one: S stays, B and P swap.
    pub fn dual(self) -> Sbp {
        match self {
            Sbp::S(d) => Sbp::S(d),
            Sbp::B => Sbp::P_SUM,
            Sbp::P(_) => Sbp::B,
        }
    }
}

impl NdSbpId {
    pub fn of(sbp: &[Sbp]) -> NdSbpId {
        let find = |t: &[&'static [Sbp]]| t.iter().position(|p| *p == sbp).map(|i| NdSbpId(i as u32));
        if let Some(id) = find(&TABLE.read().unwrap_or_else(|e| e.into_inner())) {
            return id;
        }
        let mut t = TABLE.write().unwrap_or_else(|e| e.into_inner());
        if let Some(id) = find(&t) {
            return id;
        }
        t.push(Box::leak(sbp.to_vec().into_boxed_slice()));
        NdSbpId(t.len() as u32 - 1)
    }
    pub fn get(self) -> Option<&'static [Sbp]> {
        TABLE.read().unwrap_or_else(|e| e.into_inner()).get(self.0 as usize).copied()
    }
}

/// Start and length of part `i` when `n` elements are split over `parts`: the first ones get the extra.
pub fn balanced_split(n: i64, parts: i64, i: i64) -> (i64, i64) {
    let (q, r) = (n / parts, n % parts);
    (i * q + i.min(r), q + (i < r) as i64)
}

impl fmt::Display for Sbp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sbp::S(d) => write!(f, "oneflow.sbp.split(dim={d})"),
            Sbp::B => f.write_str("oneflow.sbp.broadcast"),
            Sbp::P(PKind::Sum) => f.write_str("oneflow.sbp.partial_sum"),
            Sbp::P(k) => write!(f, "oneflow.sbp.partial_{}", if *k == PKind::Max { "max" } else { "min" }),
        }
    }
}

impl fmt::Debug for Sbp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sbp::S(d) => write!(f, "S({d})"),
            Sbp::B => f.write_str("B"),
            Sbp::P(PKind::Sum) => f.write_str("P"),
            Sbp::P(k) => write!(f, "P({k:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_covers_everything_once() {
        for n in 0..20 {
            for parts in 1..6 {
                let mut next = 0;
                for i in 0..parts {
                    let (s, l) = balanced_split(n, parts, i);
                    assert_eq!(s, next);
                    next = s + l;
                }
                assert_eq!(next, n);
            }
        }
    }
}
