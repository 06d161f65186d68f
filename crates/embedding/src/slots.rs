//! The slot of each row in memory. Ids below a bound, where many of them have rows, are positions of an array; all others go
//! through a hash index.
//!
//! Each table has its own, so that ids alone are compared. The array is for tables whose ids are numbered from zero, as
//! those of other frameworks are: it needs no hash, no comparison and four bytes an id. A table gets one, and a larger one,
//! when its part of the index would have to grow.
//!
//! Rows that `placing.rs` has moved are found without reading the array: a table's ids are divided into extents of as many, and
//! the rows of one stand in slots that follow each other. No two extents share a slot, so that each table grows by itself.

use crate::batch::{Key, mix};
use crate::index::Index;
use crate::lines::prefetch;
use crate::rows::Rows;
use std::ops::Range;

/// No slot: the row is not in memory.
pub const ABSENT: u32 = u32::MAX;
/// No row: the position is padding.
pub const NO_KEY: u32 = u32::MAX - 1;
/// Keys that go through a step together, and room for those between their steps.
const GROUP: usize = 64;
const RING: usize = 4 * GROUP;
/// The least and the greatest number of ids of an array, as powers of two.
const LEAST_BITS: usize = 10;
const MOST_BITS: usize = 32;
/// An array holds a row for at least one of so many ids, when it is made.
const SPARSEST: u64 = 4;
/// Ids of an extent. An array has whole ones.
const EXTENT: u32 = 1 << LEAST_BITS;

#[derive(Default)]
pub struct Slots {
    tables: Vec<Table>,
    len: usize,
    /// Extents of all tables: those of slots from zero on.
    n_extents: u32,
}

/// A row whose slot is to be the one that its extent says.
pub struct ToPlace {
    pub id: u32,
    /// Where it is, or `ABSENT`.
    pub slot: u32,
    pub to: u32,
}

/// Where the rows of a table are, by their ids.
struct Table {
    /// The slots of the ids below its length.
    dense: Vec<u32>,
    /// The rows of ids below this are in the slots that their extents say.
    n_placed: u32,
    /// The first slot of each extent, and whether each begins where the one before ends.
    extents: Vec<u32>,
    is_one_run: bool,
    /// Ids of the array from here on have never had a row.
    end: u32,
    /// Rows that were made to fill gaps between placed rows.
    n_made: u32,
    /// The slots of all other ids.
    index: Index,
    /// How many rows have ids of so many bits.
    counts: [u32; 65],
}

fn bits(id: u64) -> usize {
    64 - id.leading_zeros() as usize
}

impl Table {
    fn new() -> Table {
        Table {
            dense: Vec::new(),
            n_placed: 0,
            extents: Vec::new(),
            is_one_run: true,
            end: 0,
            n_made: 0,
            index: Index::new(),
            counts: [0; 65],
        }
    }

    /// The slot that the extent of an id says.
    #[inline(always)]
    fn place_of(&self, id: u32) -> u32 {
        self.extents[(id / EXTENT) as usize] + id % EXTENT
    }

    /// The slot of an id of the array.
    #[inline(always)]
    fn slot_of(&self, id: u64) -> u32 {
        if id < self.n_placed as u64 { self.place_of(id as u32) } else { self.dense[id as usize] }
    }

    /// The cell of an id in the array.
    #[inline(always)]
    fn cell(&self, id: u64) -> Option<&u32> {
        self.dense.get(usize::try_from(id).ok()?)
    }

    #[inline(always)]
    fn find(&self, id: u64, rows: &Rows) -> u32 {
        match self.cell(id) {
            Some(slot) => *slot,
            None => self.index.find(mix(id), |s| rows.id(s) == id).unwrap_or(ABSENT),
        }
    }

    /// Makes the array longer if enough small ids have rows, and moves those out of the index.
    fn extend(&mut self, rows: &Rows) {
        let (mut below, mut best) = (0u64, 0);
        for (n_bits, count) in self.counts.iter().enumerate().take(MOST_BITS + 1) {
            below += *count as u64;
            if n_bits >= LEAST_BITS && below * SPARSEST >= 1 << n_bits {
                best = 1usize << n_bits;
            }
        }
        if best <= self.dense.len() || self.dense.try_reserve_exact(best - self.dense.len()).is_err() {
            return;
        }
        self.dense.resize(best, ABSENT);
        let moved: Vec<u32> = self.index.numbers().filter(|slot| rows.id(*slot) < best as u64).collect();
        for slot in moved {
            let id = rows.id(slot);
            self.index.remove(mix(id), slot);
            self.dense[id as usize] = slot;
        }
    }

    /// The row that is probably that of a hash, whose lines are asked for.
    #[inline(always)]
    fn candidate(&self, hash: u64, n: usize, rows: &Rows) -> u32 {
        let ask = |slot| {
            rows.prefetch_id(slot);
            rows.prefetch(slot, n);
        };
        self.index.candidate(hash, ask).inspect(|slot| ask(*slot)).unwrap_or(ABSENT)
    }

    /// As `Slots::find` for a table without an array.
    fn find_hashed(&self, ids: &[u64], rows: &Rows, slots: &mut Vec<u32>) {
        let known = slots.len();
        slots.resize(known + ids.len(), ABSENT);
        let (found, heads) = (&mut slots[known..], rows.starts());
        let mut hashes = [0u64; RING];
        // Groups begin at multiples of their size, as the ring does.
        let of_ring = |range: &Range<usize>| range.start % RING..range.start % RING + range.len();
        in_steps(ids.len(), |step, range| {
            // Copies of this step's own, which need not be read again for each id.
            let (index, heads) = (self.index.view(), heads);
            match step {
                Step::Ask => {
                    for (hash, id) in hashes[of_ring(&range)].iter_mut().zip(&ids[range]) {
                        *hash = mix(*id);
                        index.prefetch(*hash);
                    }
                }
                Step::Guess => {
                    let ask = |slot| heads.prefetch_id(slot);
                    for (slot, hash) in found[range.clone()].iter_mut().zip(&hashes[of_ring(&range)]) {
                        *slot = index.candidate(*hash, ask).inspect(|slot| ask(*slot)).unwrap_or(ABSENT);
                    }
                }
                Step::Check => {
                    let keys = ids[range.clone()].iter().zip(&hashes[of_ring(&range)]);
                    for (slot, (id, hash)) in found[range].iter_mut().zip(keys) {
                        if *slot == ABSENT || heads.id(*slot) != *id {
                            *slot = index.find(*hash, |s| heads.id(s) == *id).unwrap_or(ABSENT);
                        }
                    }
                }
            }
        });
    }

    /// The slot of an id whose row is probably the candidate.
    #[inline(always)]
    fn checked(&self, id: u64, hash: u64, candidate: u32, rows: &Rows) -> u32 {
        if candidate != ABSENT && rows.id(candidate) == id {
            return candidate;
        }
        self.index.find(hash, |s| rows.id(s) == id).unwrap_or(ABSENT)
    }
}

impl Slots {
    pub fn new(n_tables: usize) -> Slots {
        Slots { tables: (0..n_tables).map(|_| Table::new()).collect(), len: 0, n_extents: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> usize {
        self.tables.iter().map(|t| t.index.bytes() + 4 * (t.dense.capacity() + t.extents.capacity())).sum()
    }

    /// The slot of a key.
    pub fn get(&self, key: Key, rows: &Rows) -> Option<u32> {
        self.tables.get(key.table as usize).map(|t| t.find(key.id, rows)).filter(|slot| *slot != ABSENT)
    }

    /// Enters a row that is in its slot, and was not here.
    pub fn insert(&mut self, key: Key, slot: u32, rows: &Rows) {
        let table = &mut self.tables[key.table as usize];
        table.counts[bits(key.id)] += 1;
        if let Ok(id) = u32::try_from(key.id) {
            table.end = table.end.max(id.saturating_add(1));
        }
        if table.cell(key.id).is_none() && table.index.is_full() {
            table.extend(rows);
        }
        match table.cell(key.id) {
            Some(_) => table.dense[key.id as usize] = slot,
            None => table.index.insert(mix(key.id), slot, |s| mix(rows.id(s))),
        }
        self.len += 1;
    }

    /// The first id of a table's array whose row is not known to be in its place, if the array has more and that place is
    /// one of the first `n_slots`.
    pub fn next_to_place(&mut self, table: u32, n_slots: usize) -> Option<ToPlace> {
        let (free, table) = (self.n_extents * EXTENT, self.tables.get_mut(table as usize)?);
        let id = table.n_placed;
        if id >= table.end.min(table.dense.len() as u32) {
            return None;
        }
        if (id / EXTENT) as usize == table.extents.len() && (free as usize) < n_slots {
            table.is_one_run &= table.extents.last().is_none_or(|last| last + EXTENT == free);
            table.extents.push(free);
            self.n_extents += 1;
        }
        let first = table.extents.get((id / EXTENT) as usize)?;
        let to = first + id % EXTENT;
        ((to as usize) < n_slots).then(|| ToPlace { id, slot: table.dense[id as usize], to })
    }

    /// The row of a table's next id to place is in its place.
    pub fn count_placed(&mut self, table: u32) {
        self.tables[table as usize].n_placed += 1;
    }

    /// Rows of a table that were made to fill gaps.
    pub fn n_made(&self, table: u32) -> u32 {
        self.tables[table as usize].n_made
    }

    pub fn count_made(&mut self, table: u32) {
        self.tables[table as usize].n_made += 1;
    }

    /// A row has moved from one slot to another one.
    pub fn set_moved(&mut self, key: Key, from: u32, to: u32) {
        let table = &mut self.tables[key.table as usize];
        match table.cell(key.id) {
            Some(_) => table.dense[key.id as usize] = to,
            None => table.index.renumber(mix(key.id), from, to),
        }
    }

    pub fn remove(&mut self, key: Key, slot: u32) {
        let table = &mut self.tables[key.table as usize];
        let was_here = match table.cell(key.id) {
            None => table.index.remove(mix(key.id), slot),
            Some(found) => {
                let was_here = *found == slot;
                if was_here {
                    table.dense[key.id as usize] = ABSENT;
                    table.n_placed = table.n_placed.min(key.id as u32);
                }
                was_here
            }
        };
        if was_here {
            table.counts[bits(key.id)] -= 1;
            self.len -= 1;
        }
    }

    /// As `find` for ids of one table, if all of them are positions of its array or it has none. Returns false, and appends
    /// nothing, if not. `following` are ids that are found next.
    pub fn find_ids(&self, table: u32, ids: &[u64], following: &[u64], rows: &Rows, slots: &mut Vec<u32>) -> bool {
        let Some(table) = self.tables.get(table as usize) else { return false };
        // The highest bit of these is set for an id of 2^63 and more, and for one that is greater than the last.
        if let Some(last) = (table.n_placed as u64).checked_sub(1)
            && ids.iter().fold(0, |bits, id| bits | id | last.wrapping_sub(*id)) >> 63 == 0
        {
            match (table.is_one_run, table.extents.first()) {
                (true, Some(first)) => slots.extend(ids.iter().map(|id| first + *id as u32)),
                _ => slots.extend(ids.iter().map(|id| table.place_of(*id as u32))),
            }
            return true;
        }
        let dense = &table.dense[..];
        if dense.is_empty() {
            table.find_hashed(ids, rows, slots);
            return true;
        }
        if ids.iter().any(|id| *id >= dense.len() as u64) {
            return false;
        }
        let is_read = |id: &&u64| **id >= table.n_placed as u64;
        for cell in following.iter().filter(is_read).filter_map(|id| dense.get(*id as usize)) {
            prefetch(cell);
        }
        slots.extend(ids.iter().map(|id| table.slot_of(*id)));
        true
    }

    /// As `find` for keys that all are positions of their tables' arrays, or padding. Returns false, and appends nothing,
    /// if one is not.
    #[inline(always)]
    pub fn find_dense(&self, key_of: impl Fn(usize) -> Option<Key>, n_keys: usize, slots: &mut Vec<u32>) -> bool {
        let first = slots.len();
        slots.reserve(n_keys);
        let mut is_any_read = false;
        for k in 0..n_keys {
            let Some(key) = key_of(k) else {
                slots.push(NO_KEY);
                continue;
            };
            let table = self.tables.get(key.table as usize);
            let Some((table, cell)) = table.and_then(|t| Some((t, t.cell(key.id)?))) else {
                slots.truncate(first);
                return false;
            };
            if key.id < table.n_placed as u64 {
                slots.push(table.place_of(key.id as u32));
            } else {
                // Read once the lines of all are on their way.
                prefetch(cell);
                slots.push(ABSENT);
                is_any_read = true;
            }
        }
        if is_any_read {
            for (k, slot) in slots[first..].iter_mut().enumerate().filter(|(_, slot)| **slot == ABSENT) {
                if let Some(key) = key_of(k) {
                    *slot = self.tables[key.table as usize].dense[key.id as usize];
                }
            }
        }
        true
    }

    /// Appends the slot of each key, `ABSENT` or `NO_KEY`, and asks for the first `n` numbers of each row. Groups of
    /// keys go through three steps, so that the lines of one key come while those of others are asked for.
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
        in_steps(n_keys, |step, range| {
            for (k, i) in range.map(|k| (k, k % RING)) {
                match (step, keys[i]) {
                    (Step::Ask, _) => {
                        keys[i] = None;
                        candidates[i] = NO_KEY;
                        let Some(key) = key_of(k) else { continue };
                        candidates[i] = ABSENT;
                        let Some(table) = self.tables.get(key.table as usize) else { continue };
                        let cell = table.cell(key.id);
                        match cell {
                            Some(cell) => prefetch(cell),
                            None => {
                                hashes[i] = mix(key.id);
                                table.index.prefetch(hashes[i]);
                            }
                        }
                        keys[i] = Some((key.id, table, cell.is_some()));
                    }
                    (Step::Guess, Some((_, table, false))) => candidates[i] = table.candidate(hashes[i], n, rows),
                    (Step::Guess, Some((id, table, true))) => {
                        candidates[i] = table.dense[id as usize];
                        if candidates[i] != ABSENT {
                            rows.prefetch(candidates[i], n);
                        }
                    }
                    (Step::Check, Some((id, table, false))) => {
                        slots.push(table.checked(id, hashes[i], candidates[i], rows));
                    }
                    (Step::Check, _) => slots.push(candidates[i]),
                    (Step::Guess, None) => {}
                }
            }
        });
    }
}

/// What is done to a group of keys.
#[derive(Clone, Copy)]
enum Step {
    /// Asks for the lines of the array or the index.
    Ask,
    /// Reads those, and asks for the rows' lines.
    Guess,
    /// Compares the rows' ids.
    Check,
}

/// Calls `f` with each step of each group of `n` keys, so that two groups lie between the steps of one.
#[inline(always)]
fn in_steps(n: usize, mut f: impl FnMut(Step, Range<usize>)) {
    let group = |first: usize| first..n.min(first + GROUP);
    for first in (0..n + 2 * GROUP).step_by(GROUP) {
        if first < n {
            f(Step::Ask, group(first));
        }
        if (GROUP..n + GROUP).contains(&first) {
            f(Step::Guess, group(first - GROUP));
        }
        if (2 * GROUP..n + 2 * GROUP).contains(&first) {
            f(Step::Check, group(first - 2 * GROUP));
        }
    }
}

#[cfg(test)]
impl Slots {
    /// How many ids of a table are placed, and whether their slots follow each other.
    pub fn placed(&self, table: u32) -> (u32, bool) {
        let table = &self.tables[table as usize];
        assert!((0..table.n_placed).all(|id| table.place_of(id) == table.dense[id as usize]));
        (table.n_placed, table.is_one_run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            assert_eq!(kind < 2, slots.tables.iter().all(|t| t.dense.len() > 1000), "{kind}");
            let mut keys: Vec<Option<Key>> = map.keys().map(|k| Some(*k)).collect();
            keys.extend([None, Some(Key { table: 0, id: 1 << 50 }), None]);
            let mut found = Vec::new();
            slots.find(|i| keys[i], keys.len(), 1, &rows, &mut found);
            let want = keys.iter().map(|k| k.map_or(NO_KEY, |k| map.get(&k).copied().unwrap_or(ABSENT)));
            assert_eq!(found, want.collect::<Vec<_>>());
            found.clear();
            let n = slots.tables[1].dense.len() as u64;
            let is_hashed = n == 0;
            assert_eq!(slots.find_ids(1, &[0, 5, n], &[n], &rows, &mut found), is_hashed);
            assert_eq!(found.len(), if is_hashed { 3 } else { 0 });
            found.clear();
            let of_one_table: Vec<u64> =
                map.keys().filter(|k| k.table == 1 && (n == 0 || k.id < n)).map(|k| k.id).collect();
            let ids: Vec<u64> = [0, 5, 8, 5].into_iter().chain(of_one_table).collect();
            assert!(ids.len() > 1000);
            let want = ids.iter().map(|id| map.get(&Key { table: 1, id: *id }).copied().unwrap_or(ABSENT));
            let want: Vec<u32> = want.collect();
            assert!(slots.find_ids(1, &ids, &[1, n], &rows, &mut found));
            assert_eq!(found, want);
        }
    }
}
