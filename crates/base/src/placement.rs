//! The devices of a global tensor: a device type, an n-D array of ranks, and how they share a dimension. Interned, so that it
//! is one word in a call.

use crate::{DeviceType, Dims, Error, Result, balanced_split};
use std::fmt;
use std::sync::RwLock;

/// How the ranks of a mesh axis share a dimension that their number does not divide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Parts {
    /// Sizes differ by one at most, the first ones are larger: those of global tensors, 5 over 4 ranks as 2, 1, 1, 1.
    #[default]
    Balanced,
    /// Equal sizes until nothing is left: those of DTensors and of `chunk`, 5 over 4 ranks as 2, 2, 1, 0.
    Chunks,
}

impl Parts {
    pub const ALL: [Parts; 2] = [Parts::Balanced, Parts::Chunks];

    pub fn name(self) -> &'static str {
        match self {
            Parts::Balanced => "balanced",
            Parts::Chunks => "chunks",
        }
    }

    pub fn from_name(name: &str) -> Option<Parts> {
        Parts::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Start and length of part `i` of a dimension of `n` elements over `n_parts` ranks.
    pub fn part(self, n: i64, n_parts: i64, i: i64) -> (i64, i64) {
        match self {
            Parts::Balanced => balanced_split(n, n_parts, i),
            Parts::Chunks => {
                let each = (n + n_parts - 1) / n_parts;
                let start = (i * each).min(n);
                (start, each.min(n - start))
            }
        }
    }
}

/// A device type and a hierarchy (mesh) of ranks.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Placement {
    pub kind: DeviceType,
    /// Ranks in row-major order of the hierarchy.
    pub ranks: Vec<u32>,
    /// Sizes of the mesh axes; their product is `ranks.len()`.
    pub hierarchy: Dims,
    /// How ranks share a dimension.
    pub parts: Parts,
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
        Ok(Placement { kind, ranks, hierarchy: Dims::from_slice(hierarchy), parts: Parts::Balanced })
    }

    /// The same ranks that share dimensions in another way.
    pub fn with_parts(&self, parts: Parts) -> Placement {
        Placement { parts, ..self.clone() }
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
        // Those of the same ranks follow each other: `PlacementId::of_ranks`.
        let first = t.len();
        for parts in Parts::ALL {
            t.push(Box::leak(Box::new(self.with_parts(parts))));
        }
        PlacementId(first as u32 + self.parts as u32)
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
    /// One number for all placements of the same ranks, however these share a dimension.
    pub fn of_ranks(self) -> PlacementId {
        PlacementId(self.0 / Parts::ALL.len() as u32 * Parts::ALL.len() as u32)
    }
    /// The placement of the same ranks that share dimensions in this way.
    pub fn with_parts(self, parts: Parts) -> PlacementId {
        PlacementId(self.of_ranks().0 + parts as u32)
    }
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
        match self.parts {
            Parts::Balanced => f.write_str(")"),
            parts => write!(f, ", parts=\"{}\")", parts.name()),
        }
    }
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_dimension_once() {
        for parts in Parts::ALL {
            assert_eq!(Parts::from_name(parts.name()), Some(parts));
            for n in 0..20 {
                for n_parts in 1..6 {
                    let mut next = 0;
                    for i in 0..n_parts {
                        let (start, len) = parts.part(n, n_parts, i);
                        assert_eq!(start, next);
                        next = start + len;
                    }
                    assert_eq!(next, n);
                }
            }
        }
        let sizes = |parts: Parts| (0..4).map(|i| parts.part(5, 4, i).1).collect::<Vec<_>>();
        assert_eq!((sizes(Parts::Balanced), sizes(Parts::Chunks)), (vec![2, 1, 1, 1], vec![2, 2, 1, 0]));
    }

    #[test]
    fn placements_of_the_same_ranks_share_a_number() {
        let of = |ranks: &[u32]| Placement::new(DeviceType::CPU, ranks.to_vec(), &[2]).unwrap();
        let (a, b) = (of(&[3, 8]), of(&[8, 3]));
        let (balanced, chunks) = (a.id(), a.with_parts(Parts::Chunks).id());
        assert_ne!(balanced, chunks);
        assert_eq!((balanced.of_ranks(), chunks.with_parts(Parts::Balanced)), (chunks.of_ranks(), balanced));
        assert_ne!(b.id().of_ranks(), balanced.of_ranks());
        assert_eq!(chunks.get(), Some(&a.with_parts(Parts::Chunks)));
        assert_eq!(
            chunks.get().unwrap().to_string(),
            "oneflow.placement(type=\"cpu\", ranks=[3, 8], parts=\"chunks\")"
        );
    }
}
