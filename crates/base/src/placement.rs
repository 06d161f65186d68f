//! The devices of a global tensor: a device type and an n-D array of ranks. Interned, so that it is one word in a call.

use crate::{DeviceType, Dims, Error, Result};
use std::fmt;
use std::sync::RwLock;

/// A device type and a hierarchy (mesh) of ranks.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Placement {
    pub kind: DeviceType,
    /// Ranks in row-major order of the hierarchy.
    pub ranks: Vec<u32>,
    /// Sizes of the mesh axes; their product is `ranks.len()`.
    pub hierarchy: Dims,
}

/// An interned placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlacementId(pub u32);

static TABLE: RwLock<Vec<&'static Placement>> = RwLock::new(Vec::new());

impl Placement {
    pub fn new(kind: DeviceType, ranks: Vec<u32>, hierarchy: &[i64]) -> Result<Placement> {
        let n: i64 = hierarchy.iter().product();
        if ranks.is_empty() || n != ranks.len() as i64 || hierarchy.is_empty() {
            return Err(Error::value(format!(
                "placement: {} ranks do not fill the hierarchy {hierarchy:?}",
                ranks.len()
            )));
        }
        let mut seen = ranks.clone();
        seen.sort_unstable();
        if seen.windows(2).any(|w| w[0] == w[1]) {
            return Err(Error::value(format!("placement: a rank is listed twice in {ranks:?}")));
        }
        Ok(Placement { kind, ranks, hierarchy: Dims::from_slice(hierarchy) })
    }

    pub fn id(&self) -> PlacementId {
        let find = |t: &[&'static Placement]| t.iter().position(|p| *p == self).map(|i| PlacementId(i as u32));
        if let Some(id) = find(&TABLE.read().unwrap_or_else(|e| e.into_inner())) {
            return id;
        }
        let mut t = TABLE.write().unwrap_or_else(|e| e.into_inner());
        if let Some(id) = find(&t) {
            return id;
        }
        t.push(Box::leak(Box::new(self.clone())));
        PlacementId(t.len() as u32 - 1)
    }

    pub fn n_ranks(&self) -> usize {
        self.ranks.len()
    }
    /// Mesh coordinates of a rank, if it takes part.
    pub fn coords(&self, rank: u32) -> Option<Dims> {
        let mut i = self.ranks.iter().position(|r| *r == rank)? as i64;
        let mut c = self.hierarchy.clone();
        for (slot, n) in c.iter_mut().zip(self.hierarchy.iter()).rev() {
            *slot = i % n;
            i /= n;
        }
        Some(c)
    }
}

impl PlacementId {
    /// The placement of an id; `None` for an unknown id (a hostile plan file).
    pub fn get(self) -> Option<&'static Placement> {
        TABLE.read().unwrap_or_else(|e| e.into_inner()).get(self.0 as usize).copied()
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn nested(ranks: &[u32], dims: &[i64], f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("[")?;
            let step = ranks.len() / dims[0].max(1) as usize;
            for (i, part) in ranks.chunks(step.max(1)).enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                if dims.len() == 1 { write!(f, "{}", part[0])? } else { nested(part, &dims[1..], f)? }
            }
            f.write_str("]")
        }
        write!(f, "oneflow.placement(type=\"{}\", ranks=", self.kind.name())?;
        nested(&self.ranks, &self.hierarchy, f)?;
        f.write_str(")")
    }
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
