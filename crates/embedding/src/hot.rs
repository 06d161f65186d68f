//! Keys that every rank keeps a copy of, because most lookups name them: which they are, and their rows.
//!
//! Copies stay equal because all ranks update them by the same sums; that is the caller's to do.

use crate::batch::{Batch, Key};
use crate::disk::Wanted;
use crate::log::HEADER;
use crate::rows::{COUNT, STEP, floats};
use crate::saved::Records;
use crate::store::Store;
use oneflow_base::Result;
use std::collections::HashMap;

/// A set of keys, which are numbered in their order.
pub struct KeySet {
    numbers: HashMap<Key, u32>,
}

impl KeySet {
    pub fn new(keys: &[Key]) -> KeySet {
        KeySet { numbers: keys.iter().enumerate().map(|(i, k)| (*k, i as u32)).collect() }
    }
    pub fn contains(&self, key: Key) -> bool {
        self.numbers.contains_key(&key)
    }
}

impl Batch {
    /// Which of the different keys of a batch belong to a set: their numbers in the batch, and in the set.
    pub fn members(&self, set: &KeySet) -> (Vec<u32>, Vec<u32>) {
        let numbered = self.keys().iter().enumerate();
        numbered.filter_map(|(i, key)| set.numbers.get(key).map(|n| (i as u32, *n))).unzip()
    }
}

impl Store {
    /// The keys that updates named most often, with those numbers: at most `n`, the most frequent first.
    pub fn hottest(&mut self, n: usize) -> Result<Vec<(Key, u32)>> {
        let mut all = Vec::new();
        self.visit(None, |key, head, _| all.push((key, head[COUNT])))?;
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(n);
        Ok(all)
    }

    /// The rows of different keys with all that the store knows of them. A key without a row has step and count 0 and no
    /// meaning in its numbers.
    pub fn records(&mut self, keys: &[Key]) -> Result<Records> {
        let width = self.config.width();
        let mut records = Records { keys: keys.to_vec(), ..Records::default() };
        records.values.resize(keys.len() * width, 0.0);
        (records.steps, records.counts) = (vec![0; keys.len()], vec![0; keys.len()]);
        let (mut on_disk, mut wanted) = (Vec::new(), Vec::new());
        let copy = |records: &mut Records, i: usize, head: &[u32], values: &[f32]| {
            (records.steps[i], records.counts[i]) = (head[STEP], head[COUNT]);
            records.values[i * width..(i + 1) * width].copy_from_slice(values);
        };
        for (i, &key) in keys.iter().enumerate() {
            match self.slots.get(key, &self.rows) {
                Some(slot) => copy(&mut records, i, &self.rows.head(slot), self.rows.values(slot)),
                None => {
                    if let Some(at) = self.locate(key) {
                        on_disk.push(i);
                        wanted.push(Wanted { key, at });
                    }
                }
            }
        }
        let found = self.log.read(&self.readers, &wanted)?;
        for ((row, is_there), i) in found.words.chunks_exact(HEADER + width).zip(found.are_there).zip(on_disk) {
            if is_there {
                copy(&mut records, i, &row[..HEADER], floats(&row[HEADER..]));
            }
        }
        Ok(records)
    }
}
