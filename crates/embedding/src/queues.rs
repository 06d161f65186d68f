//! Which rows leave memory: S3-FIFO (Yang et al., SOSP 2023). Rows seen once pass through a small queue and go; rows used
//! again, or requested soon after they left, live in the main one.
//!
//! Knows slots and their flags, no rows. A use costs one byte; nothing is reordered on it.

use std::collections::VecDeque;

/// Flags of a slot. The two lowest bits count uses since it was last looked at.
pub const USES: u8 = 3;
/// In use by the running call: not to be evicted.
pub const PINNED: u8 = 4;
/// Newer than on disk.
pub const DIRTY: u8 = 8;
/// The row was removed; the slot waits in its queue.
pub const DEAD: u8 = 16;

/// The row was prefetched, and no lookup has asked for it yet: it is in no queue, so nothing evicts it.
pub const AHEAD: u8 = 32;

/// A lookup that was prepared is about to ask for the row, or an update for one that was looked up: it stays until then.
pub const WANTED: u8 = 64;

#[derive(Default)]
pub struct Queues {
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: Ghosts,
}

/// Fingerprints of the rows that left lately.
#[derive(Default)]
struct Ghosts {
    /// Fingerprint and time of leaving, by hash; a newer one overwrites.
    table: Vec<(u32, u32)>,
    now: u32,
}

impl Ghosts {
    fn cell(&self, hash: u64) -> usize {
        (hash >> 8) as usize & (self.table.len() - 1)
    }
    fn add(&mut self, hash: u64, n_rows: usize) {
        if self.table.is_empty() {
            self.table = vec![(0, 0); n_rows.next_power_of_two().max(64)];
        }
        self.now = self.now.wrapping_add(1);
        let cell = self.cell(hash);
        self.table[cell] = ((hash >> 32) as u32, self.now);
    }
    fn contains(&self, hash: u64) -> bool {
        if self.table.is_empty() {
            return false;
        }
        let (fingerprint, time) = self.table[self.cell(hash)];
        time != 0 && fingerprint == (hash >> 32) as u32 && self.now.wrapping_sub(time) as usize <= self.table.len()
    }
}

impl Queues {
    /// A row came into `slot`.
    pub fn push(&mut self, slot: u32, hash: u64) {
        if self.ghosts.contains(hash) { self.main.push_back(slot) } else { self.small.push_back(slot) }
    }

    /// A row with this hash left.
    pub fn left(&mut self, hash: u64) {
        let n = self.small.len() + self.main.len();
        self.ghosts.add(hash, n);
    }

    /// A slot whose row probably leaves soon, `n` victims from now.
    pub fn soon(&self, n: usize) -> Option<u32> {
        self.small.get(n).copied()
    }

    /// Puts a victim back that could not leave.
    pub fn restore(&mut self, slot: u32) {
        self.main.push_front(slot);
    }

    pub fn clear(&mut self) {
        *self = Queues::default();
    }

    /// Forgets the slots from `end` on.
    pub fn truncate(&mut self, end: u32) {
        self.small.retain(|slot| *slot < end);
        self.main.retain(|slot| *slot < end);
    }

    /// Takes the slot out whose row should leave; a dead one first where it is met. None if all are pinned.
    pub fn victim(&mut self, flags: &mut [u8]) -> Option<u32> {
        let n = self.small.len() + self.main.len();
        // A row in use passes at most four times before its uses are counted down.
        for _ in 0..6 * n {
            let from_small = self.main.is_empty() || self.small.len() * 10 > n;
            let queue = if from_small { &mut self.small } else { &mut self.main };
            let slot = match queue.pop_front() {
                Some(slot) => slot,
                None => self.small.pop_front()?,
            };
            let flag = &mut flags[slot as usize];
            if *flag & DEAD != 0 {
                return Some(slot);
            }
            let uses = *flag & USES;
            if *flag & WANTED != 0 {
                // It is used for sure: as good as used again.
                self.main.push_back(slot);
            } else if *flag & PINNED != 0 || (from_small && uses > 1) {
                *flag &= !USES;
                self.main.push_back(slot);
            } else if !from_small && uses > 0 {
                *flag -= 1;
                self.main.push_back(slot);
            } else {
                return Some(slot);
            }
        }
        None
    }
}

/// Counts a use.
#[inline(always)]
pub fn touch(flag: &mut u8) {
    if *flag & USES != USES {
        *flag += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::mix;
    use std::collections::HashMap;

    /// The share of a skewed stream that a cache of `n` of 10 `n` keys does not hold.
    fn misses(n: usize, ids: impl Iterator<Item = u64>) -> f64 {
        let (mut queues, mut flags, mut held) = (Queues::default(), vec![0; n], HashMap::new());
        let mut keys = vec![0; n];
        let (mut n_misses, mut total) = (0, 0);
        for id in ids {
            total += 1;
            if let Some(slot) = held.get(&id) {
                touch(&mut flags[*slot as usize]);
                continue;
            }
            n_misses += 1;
            let slot = if held.len() < n {
                held.len() as u32
            } else {
                let slot = queues.victim(&mut flags).unwrap();
                held.remove(&keys[slot as usize]);
                queues.left(mix(keys[slot as usize]));
                slot
            };
            (keys[slot as usize], flags[slot as usize]) = (id, 0);
            held.insert(id, slot);
            queues.push(slot, mix(id));
        }
        n_misses as f64 / total as f64
    }

    #[test]
    fn a_scan_does_not_push_hot_rows_out() {
        // Of four accesses three are to 50 hot rows, one is to a row that never comes back.
        let ids = (0..40_000u64).map(|i| if i % 4 == 0 { 1_000 + i } else { mix(i) % 50 });
        let found = misses(100, ids);
        assert!(found < 0.26, "{found}");
    }

    #[test]
    fn pinned_rows_stay() {
        let (mut queues, mut flags) = (Queues::default(), vec![PINNED; 8]);
        (0..8).for_each(|slot| queues.push(slot, mix(slot as u64)));
        assert_eq!(queues.victim(&mut flags), None);
        flags[5] = 0;
        assert_eq!(queues.victim(&mut flags), Some(5));
    }
}
