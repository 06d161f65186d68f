//! The keys of one lookup: which are different, and at which positions each stands.

use crate::config::MAX_TABLES;
use oneflow_base::{Error, Result};

/// A row's key: a table and any 64 bits in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub table: u32,
    pub id: u64,
}

impl Key {
    #[inline(always)]
    pub fn hash(self) -> u64 {
        mix(self.id ^ (self.table as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// Spreads 64 bits over 64 bits, one to one (the finalizer of SplitMix64).
#[inline(always)]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Marks a padding position in `Batch::inverse`.
pub const PADDING: u32 = u32::MAX;

/// The keys of a lookup, each once, in the order in which they first appear.
pub struct Batch {
    pub(crate) keys: Vec<Key>,
    /// For each position the number of its key, or `PADDING`.
    pub(crate) inverse: Vec<u32>,
    /// Positions of key `k`, ascending: `positions[starts[k]..starts[k + 1]]`.
    pub(crate) positions: Vec<u32>,
    pub(crate) starts: Vec<u32>,
}

impl Batch {
    /// From the key of each position; None is padding.
    pub fn new(keys: impl ExactSizeIterator<Item = Option<Key>>) -> Result<Batch> {
        let n = keys.len();
        if n > u32::MAX as usize / 2 {
            return Err(Error::value(format!("embedding: a batch has at most 2^31 ids, got {n}")));
        }
        let slots = (2 * n).next_power_of_two().max(16);
        let mut table = vec![PADDING; slots];
        let mut batch = Batch { keys: Vec::new(), inverse: Vec::with_capacity(n), positions: vec![], starts: vec![] };
        for key in keys {
            let Some(key) = key else {
                batch.inverse.push(PADDING);
                continue;
            };
            if key.table as usize >= MAX_TABLES {
                return Err(Error::index(format!("embedding: there is no table {}", key.table)));
            }
            let mut s = key.hash() as usize & (slots - 1);
            let number = loop {
                match table[s] {
                    PADDING => {
                        table[s] = batch.keys.len() as u32;
                        batch.keys.push(key);
                        break table[s];
                    }
                    k if batch.keys[k as usize] == key => break k,
                    _ => s = (s + 1) & (slots - 1),
                }
            };
            batch.inverse.push(number);
        }
        batch.sort_positions();
        Ok(batch)
    }

    /// Several batches as one: their positions follow each other.
    pub fn joined<'a>(parts: impl Iterator<Item = &'a Batch>) -> Result<Batch> {
        let of = |b: &'a Batch| b.inverse.iter().map(|k| b.keys.get(*k as usize).copied()).collect::<Vec<_>>();
        let keys: Vec<Option<Key>> = parts.flat_map(of).collect();
        Batch::new(keys.into_iter())
    }

    fn sort_positions(&mut self) {
        let mut starts = vec![0u32; self.keys.len() + 1];
        for k in self.inverse.iter().filter(|k| **k != PADDING) {
            starts[*k as usize + 1] += 1;
        }
        for k in 1..starts.len() {
            starts[k] += starts[k - 1];
        }
        let mut next = starts.clone();
        self.positions = vec![0; starts[self.keys.len()] as usize];
        for (p, k) in self.inverse.iter().enumerate().filter(|(_, k)| **k != PADDING) {
            self.positions[next[*k as usize] as usize] = p as u32;
            next[*k as usize] += 1;
        }
        self.starts = starts;
    }

    /// Positions, padding included.
    pub fn len(&self) -> usize {
        self.inverse.len()
    }
    pub fn is_empty(&self) -> bool {
        self.inverse.is_empty()
    }
    /// Different keys.
    pub fn n_unique(&self) -> usize {
        self.keys.len()
    }
    /// The different keys, in the order in which they first appear.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }
    pub(crate) fn positions_of(&self, k: usize) -> &[u32] {
        &self.positions[self.starts[k] as usize..self.starts[k + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_once_with_all_their_positions() {
        let key = |table, id| Some(Key { table, id });
        let ids = [key(0, 5), key(1, 5), None, key(0, 5), key(0, u64::MAX), key(1, 5), key(0, 0)];
        let batch = Batch::new(ids.into_iter()).unwrap();
        assert_eq!(batch.inverse, [0, 1, PADDING, 0, 2, 1, 3]);
        assert_eq!((0..4).map(|k| batch.positions_of(k)).collect::<Vec<_>>(), [&[0, 3][..], &[1, 5], &[4], &[6]]);
        let twice = Batch::joined([&batch, &batch].into_iter()).unwrap();
        assert_eq!((twice.len(), twice.n_unique(), twice.positions_of(1)), (14, 4, &[1, 5, 8, 12][..]));
        assert_eq!(Batch::new([].into_iter()).unwrap().n_unique(), 0);
        assert!(Batch::new([key(1 << 20, 1)].into_iter()).is_err());
    }
}
