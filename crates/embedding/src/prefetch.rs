//! Rows that are brought into memory before a lookup asks for them, in steps, so that others can use the store while the disk is
//! read, and between the steps: `start_prefetch` says what to read, `Prefetch::read` reads it without the store, and
//! `continue_prefetch` enters it, some rows at a call. Rows that were never written come with their initial values, so that the
//! step that trains them need not draw those, nor write other rows to disk to make room.
//!
//! Changes no row, and no result of any later call: a row that was updated, moved or removed meanwhile is left out.

use crate::batch::{Batch, Key};
use crate::blocks::Read;
use crate::disk::{Wanted, take};
use crate::log::HEADER;
use crate::queues::{AHEAD, WANTED};
use crate::readers::Readers;
use crate::slots::ABSENT;
use crate::store::Store;
use oneflow_base::Result;
use std::collections::VecDeque;
use std::sync::Arc;

/// Records that are to be read.
pub struct Prefetch {
    readers: Arc<Readers>,
    reads: Vec<Read>,
    wanted: Vec<Wanted>,
    /// Words of a record.
    words: usize,
    rows: Vec<u32>,
    /// Which rows were where they might be.
    are_there: Vec<bool>,
    /// Keys that were never written, and how many of both have been entered.
    new: Vec<Key>,
    n_entered: usize,
}

/// Rows that a step enters, after which others have their turn.
const AT_ONCE: usize = 256;

impl Prefetch {
    /// Reads the records. Takes no part of the store.
    pub fn read(&mut self) -> Result<()> {
        let (words, wanted) = (self.words, &self.wanted);
        self.rows.resize(words * wanted.len(), 0);
        self.are_there.resize(wanted.len(), false);
        let (rows, are_there) = (&mut self.rows, &mut self.are_there);
        self.readers.read(&self.reads, |i, bytes| {
            are_there[i] = take(bytes, &wanted[i], &mut rows[i * words..(i + 1) * words])?;
            Ok(())
        })
    }
}

/// Rows in memory with a flag that keeps them there: their slots, the oldest first, some of which have lost the flag, and how
/// many have it.
#[derive(Default)]
pub(crate) struct Waiting {
    pub slots: VecDeque<u32>,
    pub n: usize,
}

impl Store {
    /// Brings those rows of a batch into memory that are on disk, for a lookup or an update that comes later. Of a batch that
    /// is too large its first part comes.
    pub fn prefetch(&mut self, batch: &Batch) -> Result<()> {
        let mut prefetch = self.start_prefetch(batch)?;
        prefetch.read()?;
        while !self.continue_prefetch(&mut prefetch)? {}
        Ok(())
    }

    /// The first step of `prefetch`. Rows that wait to be written to disk come at once.
    pub fn start_prefetch(&mut self, batch: &Batch) -> Result<Prefetch> {
        self.check_tables(batch.keys())?;
        self.bound_disk()?;
        self.bound_memory()?;
        let keys = &batch.keys()[..batch.n_unique().min(self.piece())];
        let mut slots = Vec::with_capacity(keys.len());
        self.find(keys, 0, &mut slots);
        // What is there must not leave before its lookup, which would wait for it behind all other reads.
        self.want(&slots);
        let missing: Vec<Key> = (0..keys.len()).filter(|k| slots[*k] == ABSENT).map(|k| keys[k]).collect();
        let words = HEADER + self.config.width();
        let mut prefetch = Prefetch {
            readers: self.ahead.clone(),
            reads: Vec::new(),
            wanted: Vec::new(),
            words,
            rows: Vec::new(),
            are_there: Vec::new(),
            new: Vec::new(),
            n_entered: 0,
        };
        missing.iter().for_each(|key| self.places.prefetch(*key));
        let mut wanted: Vec<Wanted> = Vec::new();
        for key in missing {
            match self.locate(key) {
                Some(at) => wanted.push(Wanted { key, at }),
                None => prefetch.new.push(key),
            }
        }
        if self.admissions.any() {
            // Some of them may get no row.
            prefetch.new.clear();
        }
        wanted.sort_unstable_by_key(|w| w.at.order());
        let mut buffered = Vec::new();
        for wanted in wanted {
            match self.log.read_of(wanted.at)? {
                None => buffered.push(wanted),
                Some(read) => {
                    prefetch.reads.push(read);
                    prefetch.wanted.push(wanted);
                }
            }
        }
        let found = self.log.read(&self.readers, &buffered)?;
        self.enter(&buffered, &found.words, &found.are_there)?;
        Ok(prefetch)
    }

    /// Enters the next rows of a prefetch; returns true if those were the last.
    pub fn continue_prefetch(&mut self, of: &mut Prefetch) -> Result<bool> {
        self.readers.check_process()?;
        let (first, n_read) = (of.n_entered, of.wanted.len());
        let end = (first + AT_ONCE).min(n_read + of.new.len());
        of.n_entered = end;
        if first < n_read {
            let range = first..end.min(n_read);
            let rows = &of.rows[range.start * of.words..range.end * of.words];
            self.enter(&of.wanted[range.clone()], rows, &of.are_there[range])?;
        }
        for key in &of.new[first.max(n_read) - n_read..end.max(n_read) - n_read] {
            if self.ahead_rows.n >= self.most_waiting(AHEAD) {
                // More would drive out the rows that were read.
                return Ok(true);
            }
            if self.slots.get(*key, &self.rows).is_none() && self.locate(*key).is_none() {
                let slot = self.take_slot()?;
                self.start_row(slot, *key);
                self.slots.insert(*key, slot, &self.rows);
                self.wait(slot, AHEAD);
                self.counts.initial += 1;
            }
        }
        Ok(end == n_read + of.new.len())
    }

    /// Enters rows that are still what they were on disk, and not in memory yet.
    fn enter(&mut self, wanted: &[Wanted], rows: &[u32], are_there: &[bool]) -> Result<()> {
        let (mut n_entered, mut outcome) = (0, Ok(()));
        let rows = rows.chunks_exact(HEADER + self.config.width());
        for ((wanted, row), _) in wanted.iter().zip(rows).zip(are_there).filter(|(_, there)| **there) {
            let is_there = self.slots.get(wanted.key, &self.rows).is_some();
            // A file of pages that was written again has another number.
            if is_there || self.locate(wanted.key) != Some(wanted.at) {
                continue;
            }
            match self.take_slot() {
                Ok(slot) => {
                    self.enter_row(slot, row, *wanted);
                    self.slots.insert(wanted.key, slot, &self.rows);
                    self.rows.flags[slot as usize] = 0;
                    self.wait(slot, AHEAD);
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

    /// Keeps rows in memory until they are asked for. Where there is much room yet, nothing leaves anyway.
    pub(crate) fn want(&mut self, slots: &[u32]) {
        if self.rows.flags.len() < self.rows.capacity() / 8 * 7 {
            return;
        }
        for &slot in slots.iter().filter(|s| **s != ABSENT) {
            if self.rows.flags[slot as usize] & (AHEAD | WANTED) == 0 {
                self.wait(slot, WANTED);
            }
        }
    }

    /// How many rows may wait with a flag. Lookups and updates that never come must not fill the memory: half of it is for the rows
    /// of the running call, and some for those that leave.
    fn most_waiting(&self, flag: u8) -> usize {
        let capacity = self.rows.capacity();
        if flag == AHEAD { capacity / 16 * 3 } else { capacity / 4 }
    }

    fn waiting(&mut self, flag: u8) -> &mut Waiting {
        if flag == AHEAD { &mut self.ahead_rows } else { &mut self.wanted_rows }
    }

    fn wait(&mut self, slot: u32, flag: u8) {
        let (most, capacity) = (self.most_waiting(flag), self.rows.capacity());
        loop {
            let waiting = self.waiting(flag);
            if waiting.n < most && waiting.slots.len() < capacity {
                waiting.slots.push_back(slot);
                waiting.n += 1;
                self.rows.flags[slot as usize] |= flag;
                return;
            }
            // Nor may it wait behind an old one for ever.
            self.release_oldest(flag);
        }
    }

    fn release_oldest(&mut self, flag: u8) {
        match self.waiting(flag).slots.pop_front() {
            Some(oldest) if self.rows.flags[oldest as usize] & flag != 0 => {
                self.release(oldest);
            }
            Some(_) => {}
            None => self.waiting(flag).n = 0,
        }
    }

    /// Lets rows go that wait beyond what the capacity allows now, the oldest first. It shrinks when the indexes grow.
    pub(crate) fn bound_waiting(&mut self) {
        for flag in [AHEAD, WANTED] {
            let most = self.most_waiting(flag);
            while self.waiting(flag).n > most {
                self.release_oldest(flag);
            }
        }
    }

    /// Lets a row leave memory like any other, if it waited to be asked for; returns whether it was prefetched, and in no queue
    /// until now.
    pub(crate) fn release(&mut self, slot: u32) -> bool {
        let flag = &mut self.rows.flags[slot as usize];
        let found = *flag & (AHEAD | WANTED);
        *flag &= !found;
        self.ahead_rows.n -= (found & AHEAD != 0) as usize;
        self.wanted_rows.n -= (found & WANTED != 0) as usize;
        if found & AHEAD != 0 {
            self.queues.push(slot, self.rows.key(slot).hash());
        }
        found & AHEAD != 0
    }
}
