//! The slot of each row in memory. Ids below a bound, where many of them have rows, are positions of an array; all others go
//! through a hash index.
//!
//! The array is for tables whose ids are numbered from zero, as those of other frameworks are: it needs no hash, no comparison
//! and four bytes an id. A table gets one, and a larger one, when its part of the index would have to grow.

use crate::batch::Key;
use crate::index::{Index, prefetch};
use crate::rows::Rows;

/// No slot: the row is not in memory.
pub const ABSENT: u32 = u32::MAX;
/// No row: the position is padding.
pub const NO_KEY: u32 = u32::MAX - 1;
/// How many keys ahead lines of the index, and lines of rows, are asked for before they are read; and room for both.
const DISTANCE: usize = 16;
const RING: usize = 32;
/// The least and the greatest number of ids of an array, as powers of two.
const LEAST_BITS: usize = 10;
const MOST_BITS: usize = 32;
/// An array holds a row for at least one of so many ids, when it is made.
const SPARSEST: u64 = 4;

pub struct Slots {
    index: Index,
    /// For each table the slots of the ids below the array's length.
    dense: Vec<Vec<u32>>,
    /// For each table how many rows have ids of so many bits.
    counts: Vec<[u32; 65]>,
    n_dense: usize,
}

fn bits(id: u64) -> usize {
    64 - id.leading_zeros() as usize
}

impl Slots {
    pub fn new(n_tables: usize) -> Slots {
        Slots { index: Index::new(), dense: vec![Vec::new(); n_tables], counts: vec![[0; 65]; n_tables], n_dense: 0 }
    }

    pub fn len(&self) -> usize {
        self.index.len() + self.n_dense
    }

    pub fn bytes(&self) -> usize {
        self.index.bytes() + self.dense.iter().map(|d| 4 * d.capacity()).sum::<usize>()
    }

    /// The cell of a key in its table's array.
    #[inline(always)]
    fn cell(&self, key: Key) -> Option<&u32> {
        self.dense.get(key.table as usize)?.get(usize::try_from(key.id).ok()?)
    }

    /// The slot of a key.
    pub fn get(&self, key: Key, rows: &Rows) -> Option<u32> {
        match self.cell(key) {
            Some(slot) => (*slot != ABSENT).then_some(*slot),
            None => self.index.find(key.hash(), |s| rows.key(s) == key),
        }
    }

    /// Enters a row that is in its slot, and was not here.
    pub fn insert(&mut self, key: Key, slot: u32, rows: &Rows) {
        let table = key.table as usize;
        self.counts[table][bits(key.id)] += 1;
        if self.cell(key).is_none() && self.index.is_full() {
            self.extend(rows);
        }
        if self.cell(key).is_some() {
            self.dense[table][key.id as usize] = slot;
            self.n_dense += 1;
        } else {
            self.index.insert(key.hash(), slot, |s| rows.key(s).hash());
        }
    }

    pub fn remove(&mut self, key: Key, slot: u32) {
        let table = key.table as usize;
        let was_here = if self.cell(key).is_some() {
            let cell = &mut self.dense[table][key.id as usize];
            let was_here = *cell == slot;
            if was_here {
                *cell = ABSENT;
                self.n_dense -= 1;
            }
            was_here
        } else {
            self.index.remove(key.hash(), slot)
        };
        if was_here {
            self.counts[table][bits(key.id)] -= 1;
        }
    }

    /// Gives arrays to tables of which enough small ids have rows, and moves those out of the index.
    fn extend(&mut self, rows: &Rows) {
        let mut any = false;
        for (dense, counts) in self.dense.iter_mut().zip(&self.counts) {
            let (mut below, mut best) = (0u64, 0);
            for (n_bits, count) in counts.iter().enumerate().take(MOST_BITS + 1) {
                below += *count as u64;
                if n_bits >= LEAST_BITS && below * SPARSEST >= 1 << n_bits {
                    best = 1usize << n_bits;
                }
            }
            if best > dense.len() && dense.try_reserve_exact(best - dense.len()).is_ok() {
                dense.resize(best, ABSENT);
                any = true;
            }
        }
        if !any {
            return;
        }
        // Rows that are in memory and not in the index stand in an array already, or are dead.
        for slot in 0..rows.flags.len() as u32 {
            let key = rows.key(slot);
            if self.cell(key).is_some() && self.index.remove(key.hash(), slot) {
                self.dense[key.table as usize][key.id as usize] = slot;
                self.n_dense += 1;
            }
        }
    }

    /// As `find` for ids of one table, if all of them are positions of its array: there is nothing to compare, and the processor
    /// has many of the reads under way by itself. Returns false, and appends nothing, if not.
    pub fn find_dense(&self, table: u32, ids: &[u64], n: usize, rows: &Rows, slots: &mut Vec<u32>) -> bool {
        let Some(dense) = self.dense.get(table as usize).filter(|d| !d.is_empty()) else { return false };
        if ids.iter().any(|id| *id >= dense.len() as u64) {
            return false;
        }
        slots.extend(ids.iter().map(|id| {
            let slot = dense[*id as usize];
            if slot != ABSENT {
                rows.prefetch(slot, n);
            }
            slot
        }));
        true
    }

    /// Appends the slot of each key, `ABSENT` or `NO_KEY`. Lines of keys that come later are asked for while earlier ones are
    /// compared: first those of the index, then those of the first `n` numbers of the rows, so that some thirty are under way.
    #[inline(always)]
    pub fn find(
        &self,
        key_of: impl Fn(usize) -> Option<Key>,
        n_keys: usize,
        n: usize,
        rows: &Rows,
        slots: &mut Vec<u32>,
    ) {
        slots.reserve(n_keys);
        let mut keys = [None; RING];
        let (mut hashes, mut candidates) = ([0u64; RING], [ABSENT; RING]);
        for i in 0..n_keys + 2 * DISTANCE {
            // The oldest first: its place becomes that of the newest.
            if i >= 2 * DISTANCE {
                let i = (i - 2 * DISTANCE) % RING;
                let slot = match keys[i] {
                    None => NO_KEY,
                    Some((_, true)) => candidates[i],
                    Some((key, false)) if candidates[i] != ABSENT && rows.key(candidates[i]) == key => candidates[i],
                    Some((key, false)) => self.index.find(hashes[i], |s| rows.key(s) == key).unwrap_or(ABSENT),
                };
                slots.push(slot);
            }
            if i >= DISTANCE && i - DISTANCE < n_keys {
                let i = (i - DISTANCE) % RING;
                candidates[i] = match keys[i] {
                    None => ABSENT,
                    Some((key, true)) => self.cell(key).copied().unwrap_or(ABSENT),
                    Some((_, false)) => self.index.candidate(hashes[i]).unwrap_or(ABSENT),
                };
                if candidates[i] != ABSENT {
                    rows.prefetch(candidates[i], n);
                }
            }
            if i < n_keys {
                let key = key_of(i);
                let i = i % RING;
                keys[i] = key.map(|key| match self.cell(key) {
                    Some(cell) => {
                        prefetch(cell);
                        (key, true)
                    }
                    None => {
                        hashes[i] = key.hash();
                        self.index.prefetch(hashes[i]);
                        (key, false)
                    }
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::mix;
    use std::collections::HashMap;

    #[test]
    fn random_programs_agree_with_a_map() {
        // Small ids, sparse ones, the largest, and a table of each kind.
        for kind in 0..3u64 {
            let mut rows = Rows::new(1, u64::MAX);
            let (mut slots, mut map) = (Slots::new(2), HashMap::<Key, u32>::new());
            let mut free = Vec::new();
            let mut x = kind + 1;
            for i in 0..60_000u64 {
                x = mix(x + 1);
                let id = match (kind, x >> 60) {
                    (0, _) => (x >> 8) % 6000,
                    (1, 0) => u64::MAX - (x >> 8) % 50,
                    (1, _) => (x >> 8) % 9000 + (x >> 30) % 2 * (1 << 40),
                    _ => (x >> 8) % 4000 * 1_000_003,
                };
                let key = Key { table: (x % 2) as u32, id };
                assert_eq!(slots.get(key, &rows), map.get(&key).copied());
                match map.get(&key).copied() {
                    Some(slot) if i > 20_000 && x % 5 < 3 => {
                        slots.remove(key, slot);
                        free.push(slot);
                        map.remove(&key);
                    }
                    Some(_) => {}
                    None => {
                        let slot = free.pop().unwrap_or_else(|| rows.take().unwrap().unwrap());
                        rows.start(slot, key);
                        slots.insert(key, slot, &rows);
                        map.insert(key, slot);
                    }
                }
                assert_eq!(slots.len(), map.len());
            }
            assert_eq!(kind < 2, slots.n_dense > 1000, "{kind}: {}", slots.n_dense);
            let mut keys: Vec<Option<Key>> = map.keys().map(|k| Some(*k)).collect();
            keys.extend([None, Some(Key { table: 0, id: 1 << 50 }), None]);
            let mut found = Vec::new();
            slots.find(|i| keys[i], keys.len(), 1, &rows, &mut found);
            let want = keys.iter().map(|k| k.map_or(NO_KEY, |k| map.get(&k).copied().unwrap_or(ABSENT)));
            assert_eq!(found, want.collect::<Vec<_>>());
            found.clear();
            let n = slots.dense[1].len() as u64;
            assert!(!slots.find_dense(1, &[0, 5, n], 1, &rows, &mut found));
            assert!(found.is_empty() && slots.find_dense(1, &[0, 5, 8, 5], 1, &rows, &mut found) == (n > 0));
            let want = [0, 5, 8, 5].map(|id| slots.get(Key { table: 1, id }, &rows).unwrap_or(ABSENT));
            assert!(n == 0 || found == want);
        }
    }
}
