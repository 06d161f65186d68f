//! Rows of dense ids moved to the slots of their ids' numbers, so that a lookup of them reads no index at all.
//!
//! For stores of one table whose rows are all in memory. Lookups do the work, each in proportion to its ids; no result depends
//! on it. Where a few ids below others have no row, rows with their initial values are made for them, which count as no rows
//! of the store.

use crate::batch::Key;
use crate::queues::{AHEAD, DEAD, PINNED, WANTED};
use crate::slots::ABSENT;
use crate::store::Store;

/// Ids that are looked at for each id of a lookup, and how many of those a row that moves stands for.
const STEPS: usize = 4;
const STEPS_OF_MOVE: usize = 16;
/// A row is made for an id without one if there are so many placed ids for each such.
const IDS_OF_MADE: u32 = 8;

impl Store {
    /// Moves rows to the slots of their ids' numbers, on the way of a lookup of so many ids.
    pub(crate) fn place_rows(&mut self, n_ids: usize) {
        let mut left = STEPS * n_ids;
        if self.config.tables.len() > 1 || self.counts.evictions > 0 {
            return;
        }
        let mut any_moved = false;
        while left > 0
            && let Some((id, mut slot)) = self.slots.next_to_place()
            && (id as usize) < self.rows.flags.len()
        {
            left -= 1;
            if slot != id {
                if slot == ABSENT {
                    let Some(made) = self.make_unwritten(id) else { break };
                    slot = made;
                }
                let flags = [id, slot].map(|s| self.rows.flags[s as usize]);
                if (flags[0] | flags[1]) & (PINNED | AHEAD | WANTED) != 0 {
                    break;
                }
                if slot != id {
                    self.rows.swap(slot, id);
                    if flags[0] & DEAD == 0 {
                        self.slots.set_moved(self.rows.key(slot), id, slot);
                    }
                    self.slots.set_moved(Key { table: 0, id: id as u64 }, slot, id);
                    any_moved = true;
                }
                left = left.saturating_sub(STEPS_OF_MOVE);
            }
            self.slots.count_placed();
        }
        self.n_moves += any_moved as u64;
    }

    /// A row in memory with the initial values of an id that was never written, if few are.
    fn make_unwritten(&mut self, id: u32) -> Option<u32> {
        let key = Key { table: 0, id: id as u64 };
        if self.n_unwritten > id / IDS_OF_MADE || self.locate(key).is_some() {
            return None;
        }
        let slot = self.rows.take().ok().flatten()?;
        self.n_unwritten += 1;
        self.start_row(slot, key);
        self.hold(slot, key);
        self.rows.flags[slot as usize] = 0;
        Some(slot)
    }
}
