//! Rows of dense ids moved to slots in the order of their ids, so that a lookup of them reads no index at all.
//!
//! For stores whose rows are all in memory. `slots.rs` says which slots are whose. Lookups do the work, each in
//! proportion to its ids; no result depends on it. Where a few ids below others have no row, rows with their initial values
//! are made for them, which count as no rows of the store.

use crate::batch::Key;
use crate::queues::{AHEAD, DEAD, PINNED, WANTED};
use crate::slots::{ABSENT, ToPlace};
use crate::store::Store;

/// Ids that are looked at for each id of a lookup, and how many of those a row that moves stands for.
const STEPS: usize = 4;
const STEPS_OF_MOVE: usize = 16;
/// A row is made for an id without one if there are so many placed ids for each such.
const IDS_OF_MADE: u32 = 8;

impl Store {
    /// Moves rows to their places, on the way of a lookup of so many ids.
    pub(crate) fn place_rows(&mut self, n_ids: usize) {
        if self.counts.evictions > 0 {
            return;
        }
        let (mut left, mut any_moved) = (STEPS * n_ids, false);
        for table in 0..self.config.tables.len() as u32 {
            any_moved |= self.place_table(table, &mut left);
        }
        self.n_moves += any_moved as u64;
    }

    /// Moves rows of a table until there are no more or nothing is left of the work to do; returns whether a row has moved.
    fn place_table(&mut self, table: u32, left: &mut usize) -> bool {
        let mut any_moved = false;
        while *left > 0
            && let Some(ToPlace { id, mut slot, to }) = self.slots.next_to_place(table, self.rows.flags.len())
        {
            *left -= 1;
            if slot != to {
                let key = Key { table, id: id as u64 };
                if slot == ABSENT {
                    let Some(made) = self.make_unwritten(key, id) else { break };
                    slot = made;
                }
                let flags = [to, slot].map(|s| self.rows.flags[s as usize]);
                if (flags[0] | flags[1]) & (PINNED | AHEAD | WANTED) != 0 {
                    break;
                }
                if slot != to {
                    self.rows.swap(slot, to);
                    if flags[0] & DEAD == 0 {
                        self.slots.set_moved(self.rows.key(slot), to, slot);
                    }
                    self.slots.set_moved(key, slot, to);
                    any_moved = true;
                }
                *left = left.saturating_sub(STEPS_OF_MOVE);
            }
            self.slots.count_placed(table);
        }
        any_moved
    }

    /// A row in memory with the initial values of a key that was never written, if its table has few such. `id` is the key's.
    fn make_unwritten(&mut self, key: Key, id: u32) -> Option<u32> {
        if self.slots.n_made(key.table) > id / IDS_OF_MADE || self.locate(key).is_some() {
            return None;
        }
        let slot = self.rows.take().ok().flatten()?;
        self.slots.count_made(key.table);
        self.start_row(slot, key);
        self.hold(slot, key);
        self.rows.flags[slot as usize] = 0;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::config::{Config, Options};
    use crate::initial::Initializer;

    #[test]
    fn tables_that_grow_by_turns_are_placed_whole() {
        let folder = std::env::temp_dir().join(format!("oneflow_embedding_placing_{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let tables = vec![vec![Initializer::Constant(-1.0)]; 5];
        let config = Config { column_dims: vec![1], state_width: 0, tables, seed: 0 };
        let mut store = Store::open(&folder, config, &Options::default()).unwrap();
        // Rows that each table gets in a round, in an order that is not that of their ids. Those of the last are far apart.
        let n_new = [700u64, 90, 1500, 5, 40];
        let id_of = |table: usize, n: u64| if table == 4 { n.wrapping_mul(0x9E37_79B9_7F4A_7C15) } else { n };
        let value = |table: usize, id: u64| (table * 100_000 + id as usize % 65_537) as f32;
        for round in 0..12u64 {
            for (table, n) in n_new.into_iter().enumerate() {
                let ids: Vec<u64> = (0..n).map(|i| id_of(table, round * n + (i * 11 + 3) % n)).collect();
                let values: Vec<f32> = ids.iter().map(|id| value(table, *id)).collect();
                let of = vec![table as u64; ids.len()];
                store.write(&Batch::from_ids(ids, Some(&of), 0, None).unwrap(), &values).unwrap();
            }
            // Ids of all tables by turns, some of them padding and some without a row.
            for _ in 0..8 {
                let key = |p: usize| (p % 5, id_of(p % 5, (p as u64 * 31) % (n_new[p % 5] * (round + 1) + 3)));
                let ids: Vec<u64> = (0..5000).map(|p| key(p).1).collect();
                let mut found = vec![f32::NAN; ids.len()];
                store.lookup(&Batch::from_ids(ids, None, 5, Some(17)).unwrap(), false, &mut found).unwrap();
                for (p, found) in found.into_iter().enumerate() {
                    let ((table, id), n) = (key(p), n_new[p % 5] * (round + 1));
                    let has_row = (0..n).any(|i| id_of(table, i) == id);
                    let want = if id == 17 {
                        0.0
                    } else if has_row {
                        value(table, id)
                    } else {
                        -1.0
                    };
                    assert_eq!(found, want, "round {round}, table {table}, id {id}");
                }
            }
        }
        let placed: Vec<(u32, bool)> = (0..5).map(|table| store.slots.placed(table)).collect();
        for (table, (placed, is_one_run)) in placed.into_iter().enumerate() {
            let (n, placed) = (n_new[table] * 12, placed as u64);
            // All but those of an extent that has less room than ids: the last ones of the store. Few rows have no array.
            match n > 1024 && table < 3 {
                true => assert!(placed + 1024 > n && placed <= n, "{table}: {placed} of {n}"),
                false => assert_eq!(placed, 0, "{table}"),
            }
            assert!(is_one_run || table < 3);
            assert!(!is_one_run || table != 0, "the second table has slots between those of the first");
        }
        drop(store);
        let _ = std::fs::remove_dir_all(&folder);
    }
}
