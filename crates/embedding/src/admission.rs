//! Which new keys get a row: all, those that were seen often enough, or a random share.
//!
//! Asked once for each key of an update that has no row. A key that is refused keeps its initial values, and its gradient is
//! dropped. What was counted is in memory alone: a store that is opened again counts from zero.

use crate::batch::{Key, mix};
use crate::config::MAX_TABLES;
use oneflow_base::{Error, Result};
use std::collections::HashMap;

/// How a table admits new keys.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Admission {
    #[default]
    Always,
    /// Keys that updates have named this many times. Counts each key exactly, in some 24 bytes a key.
    Count { at_least: u32 },
    /// As `Count`, by a counting Bloom filter of this many bytes: it never counts too few, and rarely too many.
    CountingBloom { at_least: u8, n_bytes: usize },
    /// Each update admits a new key with this probability: a function of the store's seed, the key and the step.
    Probability(f64),
}

/// Cells that a key counts in.
const N_HASHES: u64 = 4;
/// The most bytes of a filter.
const MAX_FILTER: usize = 1 << 36;

impl Admission {
    pub fn check(&self) -> Result<()> {
        match *self {
            Admission::Probability(p) if !(0.0..=1.0).contains(&p) => {
                Err(Error::value(format!("embedding: a probability of admission lies in [0, 1], got {p}")))
            }
            Admission::CountingBloom { n_bytes, .. } if n_bytes == 0 || n_bytes > MAX_FILTER => {
                Err(Error::value(format!("embedding: a counting Bloom filter has 1 to 2^36 bytes, got {n_bytes}")))
            }
            _ => Ok(()),
        }
    }
}

/// What the tables of a store have seen.
pub struct Admissions {
    tables: Vec<Admission>,
    seed: u64,
    counts: HashMap<Key, u32>,
    /// The filter of each table that has one.
    filters: Vec<Vec<u8>>,
}

impl Admissions {
    /// `tables` may be shorter than the store's list of tables: the others admit all keys.
    pub fn new(tables: &[Admission], n_tables: usize, seed: u64) -> Result<Admissions> {
        if tables.len() > n_tables.min(MAX_TABLES) {
            let n = tables.len();
            return Err(Error::value(format!("embedding: {n} admissions for {n_tables} tables")));
        }
        tables.iter().try_for_each(Admission::check)?;
        let mut filters = Vec::new();
        for table in tables {
            let mut filter = Vec::new();
            if let Admission::CountingBloom { n_bytes, .. } = *table {
                filter.try_reserve_exact(n_bytes).map_err(|_| {
                    Error::out_of_memory(format!("embedding: no memory for a filter of {n_bytes} bytes"))
                })?;
                filter.resize(n_bytes, 0);
            }
            filters.push(filter);
        }
        Ok(Admissions { tables: tables.to_vec(), seed, counts: HashMap::new(), filters })
    }

    /// Returns true if some table refuses keys.
    pub fn any(&self) -> bool {
        self.tables.iter().any(|t| *t != Admission::Always)
    }

    /// Bytes that the counts take.
    pub fn bytes(&self) -> usize {
        self.counts.capacity() * 24 + self.filters.iter().map(Vec::len).sum::<usize>()
    }

    /// Decides on a key without a row, which an update of this step names `n` times.
    pub fn admits(&mut self, key: Key, n: u32, step: u64) -> bool {
        match self.tables.get(key.table as usize).copied().unwrap_or_default() {
            Admission::Always => true,
            Admission::Count { at_least } => {
                let count = self.counts.entry(key).or_insert(0);
                *count = count.saturating_add(n);
                let is_enough = *count >= at_least;
                if is_enough {
                    self.counts.remove(&key);
                }
                is_enough
            }
            Admission::CountingBloom { at_least, .. } => {
                let filter = &mut self.filters[key.table as usize];
                let (first, second) = (key.hash(), mix(key.hash() ^ self.seed) | 1);
                let n_cells = filter.len() as u64;
                let cells = (0..N_HASHES).map(|i| (first.wrapping_add(second.wrapping_mul(i)) % n_cells) as usize);
                // Only the lowest counters of a key rise: the others were raised by other keys.
                let lowest = cells.clone().map(|c| filter[c]).min().unwrap_or(0);
                let count = lowest.saturating_add(n.min(255) as u8);
                cells.for_each(|c| filter[c] = filter[c].max(count));
                count >= at_least
            }
            Admission::Probability(p) => {
                let draw = mix(key.hash() ^ mix(self.seed ^ mix(step)));
                ((draw >> 11) as f64) < p * (1u64 << 53) as f64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u64) -> Key {
        Key { table: 0, id }
    }

    #[test]
    fn keys_are_admitted_once_they_were_seen_often_enough() {
        let bloom = Admission::CountingBloom { at_least: 3, n_bytes: 1 << 14 };
        for rule in [Admission::Count { at_least: 3 }, bloom] {
            let mut all = Admissions::new(&[rule], 2, 7).unwrap();
            for id in 0..500 {
                assert!(!all.admits(key(id), 2, 1));
            }
            assert!((0..500).all(|id| all.admits(key(id), 1, 2)));
            // A filter counts a key too often only where all of its cells are another's.
            let early = (1000..2000).filter(|id| all.admits(key(*id), 1, 3)).count();
            assert!(early < 5, "{rule:?}: {early}");
            assert!(all.admits(Key { table: 1, id: 3 }, 1, 1), "a table without a rule");
        }
    }

    #[test]
    fn a_share_of_the_keys_is_admitted_by_chance_and_again_by_the_same() {
        let mut all = Admissions::new(&[Admission::Probability(0.25)], 1, 7).unwrap();
        let first: Vec<bool> = (0..4000).map(|id| all.admits(key(id), 1, 1)).collect();
        let again: Vec<bool> = (0..4000).map(|id| all.admits(key(id), 1, 1)).collect();
        let n = first.iter().filter(|a| **a).count();
        assert!((900..1100).contains(&n) && first == again, "{n}");
        assert!((0..4000).map(|id| all.admits(key(id), 1, 2)).ne(first));
        for (p, expected) in [(0.0, false), (1.0, true)] {
            let mut all = Admissions::new(&[Admission::Probability(p)], 1, 7).unwrap();
            assert!((0..100).all(|id| all.admits(key(id), 1, 1) == expected));
        }
        assert!(Admissions::new(&[Admission::Probability(1.5)], 1, 7).is_err());
        assert!(Admissions::new(&[Admission::CountingBloom { at_least: 1, n_bytes: 0 }], 1, 7).is_err());
        assert!(Admissions::new(&[Admission::Always; 2], 1, 7).is_err());
    }
}
