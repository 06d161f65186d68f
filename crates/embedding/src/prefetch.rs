//! Rows that are brought into memory before a lookup asks for them, in three steps, so that others can use the store while the
//! disk is read: `start_prefetch` says what to read, `Prefetch::read` reads it without the store, `finish_prefetch` enters it.
//!
//! Changes no row, and no result of any later call: a row that was updated, moved or removed meanwhile is left out.

use crate::batch::{Batch, Key};
use crate::blocks::Read;
use crate::log::{HEADER, Place, accept};
use crate::queues::AHEAD;
use crate::readers::Readers;
use crate::slots::ABSENT;
use crate::store::Store;
use oneflow_base::Result;
use std::sync::Arc;

/// Records that are to be read.
pub struct Prefetch {
    readers: Arc<Readers>,
    reads: Vec<Read>,
    /// The key, the entry of its place and the place of each.
    wanted: Vec<(Key, u32, Place)>,
    /// Words of a record.
    words: usize,
    rows: Vec<u32>,
}

impl Prefetch {
    /// Reads the records. Takes no part of the store.
    pub fn read(&mut self) -> Result<()> {
        let (words, wanted) = (self.words, &self.wanted);
        self.rows.resize(words * wanted.len(), 0);
        let rows = &mut self.rows;
        self.readers.read(&self.reads, 4 * words, |i, bytes| {
            let (key, _, place) = wanted[i];
            accept(bytes, place, key.id, &mut rows[i * words..(i + 1) * words])
        })
    }
}

impl Store {
    /// Brings those rows of a batch into memory that are on disk, for a lookup or an update that comes later. Of a batch that
    /// is too large its first part comes.
    pub fn prefetch(&mut self, batch: &Batch) -> Result<()> {
        let mut prefetch = self.start_prefetch(batch)?;
        prefetch.read()?;
        self.finish_prefetch(prefetch)
    }

    /// The first step of `prefetch`. Rows that wait to be written to disk come at once.
    pub fn start_prefetch(&mut self, batch: &Batch) -> Result<Prefetch> {
        self.check_tables(batch.keys())?;
        self.bound_disk()?;
        let keys = &batch.keys()[..batch.n_unique().min(self.piece())];
        let mut slots = Vec::with_capacity(keys.len());
        self.find(keys, 0, &mut slots);
        let missing: Vec<Key> = (0..keys.len()).filter(|k| slots[*k] == ABSENT).map(|k| keys[k]).collect();
        let words = HEADER + self.config.width();
        let mut prefetch =
            Prefetch { readers: self.ahead.clone(), reads: Vec::new(), wanted: Vec::new(), words, rows: Vec::new() };
        missing.iter().for_each(|key| self.places.prefetch(*key));
        let found = missing.iter().filter_map(|key| self.places.find(*key).map(|entry| (*key, entry)));
        let mut wanted: Vec<(Key, u32, Place)> = found.map(|(key, e)| (key, e, self.places.get(e))).collect();
        wanted.sort_unstable_by_key(|w| w.2);
        let mut buffered = Vec::new();
        for (key, entry, place) in wanted {
            match self.log.on_disk(place)? {
                None => buffered.push((key, entry, place)),
                Some(read) => {
                    prefetch.reads.push(read);
                    prefetch.wanted.push((key, entry, place));
                }
            }
        }
        let (places, ids): (Vec<Place>, Vec<u64>) = buffered.iter().map(|w| (w.2, w.0.id)).unzip();
        let rows = self.log.read(&self.readers, &places, &ids)?;
        self.enter(&buffered, &rows)?;
        Ok(prefetch)
    }

    /// The last step of `prefetch`.
    pub fn finish_prefetch(&mut self, read: Prefetch) -> Result<()> {
        self.readers.check_process()?;
        self.enter(&read.wanted, &read.rows)
    }

    /// Enters rows that are still what they were on disk, and not in memory yet.
    fn enter(&mut self, wanted: &[(Key, u32, Place)], rows: &[u32]) -> Result<()> {
        let (mut n_entered, mut outcome) = (0, Ok(()));
        for ((key, entry, place), row) in wanted.iter().zip(rows.chunks_exact(HEADER + self.config.width())) {
            let is_there = self.slots.get(*key, &self.rows).is_some();
            if is_there || self.places.find(*key) != Some(*entry) || self.places.get(*entry) != *place {
                continue;
            }
            // Lookups that never come must not fill the memory.
            while self.n_waiting >= self.rows.capacity() / 4 {
                match self.waiting.pop_front() {
                    Some(slot) => {
                        self.release(slot);
                    }
                    None => break,
                }
            }
            match self.take_slot() {
                Ok(slot) => {
                    self.rows.row_mut(slot).copy_from_slice(row);
                    self.rows.set_on_disk(slot, *entry);
                    self.slots.insert(*key, slot, &self.rows);
                    self.rows.flags[slot as usize] = AHEAD;
                    while self.waiting.front().is_some_and(|s| self.rows.flags[*s as usize] & AHEAD == 0) {
                        self.waiting.pop_front();
                    }
                    self.waiting.push_back(slot);
                    self.n_waiting += 1;
                    n_entered += 1;
                }
                Err(e) => {
                    outcome = Err(e);
                    break;
                }
            }
        }
        self.counts.prefetched += n_entered;
        outcome
    }

    /// Lets a row leave memory like any other, if it was prefetched and waited for its lookup; returns whether it was.
    pub(crate) fn release(&mut self, slot: u32) -> bool {
        let flag = &mut self.rows.flags[slot as usize];
        if *flag & AHEAD == 0 {
            return false;
        }
        *flag &= !AHEAD;
        self.n_waiting -= 1;
        self.queues.push(slot, self.rows.key(slot).hash());
        true
    }
}
