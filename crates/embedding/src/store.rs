//! `Store`: lookups, updates, writes and removals of batches of rows, and the cache between memory and disk.
//!
//! What makes rows last stands in `epochs.rs`. A call that fails leaves every row's numbers as they were, except an update of
//! more rows than fit in half of the memory, which runs in pieces; its error says so.

use crate::admission::Admissions;
use crate::batch::{self, Bags, Batch, Key};
use crate::config::{Config, Options};
use crate::disk::{Found, Wanted, Where};
use crate::folder::Folder;
use crate::initial::fill_row;
use crate::lines::prefetch_at;
use crate::log::{HEADER, Log, Place, Segment};
use crate::page::{PAGE, Run};
use crate::pages::Pages;
use crate::places::Places;
use crate::prefetch::Waiting;
use crate::queues::{AHEAD, DEAD, DIRTY, PINNED, Queues, WANTED, touch};
use crate::readers::Readers;
use crate::rows::{COUNT, LINE, MOST_LINES, NOT_ON_DISK, ON_PAGE, Rows, STEP};
use crate::rules::{Rule, Step};
use crate::saved::Records;
use crate::slots::{ABSENT, Slots};
use oneflow_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Rows of embeddings by key, in memory and on disk.
pub struct Store {
    pub(crate) config: Config,
    pub(crate) folder: Arc<Folder>,
    pub(crate) readers: Readers,
    /// Those of prefetches, which others do not wait for.
    pub(crate) ahead: Arc<Readers>,
    pub(crate) log: Log,
    pub(crate) rows: Rows,
    pub(crate) memory_budget: u64,
    pub(crate) queues: Queues,
    /// The slots of the rows in memory.
    pub(crate) slots: Slots,
    /// A number of this store, and how often a slot has lost its row: what a batch found is right while both are the same.
    pub(crate) number: u64,
    pub(crate) n_moves: u64,
    /// Rows with the flag `AHEAD`, and with `WANTED`.
    pub(crate) ahead_rows: Waiting,
    pub(crate) wanted_rows: Waiting,
    /// Rows in the log, and those in pages.
    pub(crate) places: Places,
    pub(crate) pages: Pages,
    /// Rows that were written and not removed, and those of them whose newest numbers are in memory alone.
    pub(crate) n_rows: usize,
    pub(crate) n_dirty: usize,
    pub(crate) epoch: u64,
    /// Segments that manifests need, by the name of the manifest.
    pub(crate) pins: BTreeMap<String, BTreeSet<u32>>,
    pub(crate) bounds_disk: bool,
    /// `Log::n_changes` at the last epoch.
    pub(crate) committed_at: u64,
    /// Segments below this stay: a damaged snapshot may need any of them.
    pub(crate) keep_below: u32,
    pub(crate) counts: Counts,
    pub(crate) admissions: Admissions,
    /// `Log::n_changes` when the disk was last looked at.
    pub(crate) looked_at: u64,
}

/// What a store did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Different keys of lookups and updates: found in memory, read from disk, never written before.
    pub hits: u64,
    pub reads: u64,
    /// Rows that were read from disk before a lookup asked for them.
    pub prefetched: u64,
    pub initial: u64,
    /// Rows that left memory, and those of them that had to be written.
    pub evictions: u64,
    pub writes: u64,
    /// Records that collection moved, or a merge moved into pages.
    pub moved: u64,
    /// New keys that were not admitted, each time, and rows that were forgotten.
    pub refused: u64,
    pub forgotten: u64,
    /// Time that calls waited for reads, in nanoseconds.
    pub stalled: u64,
}

/// Numbers about a store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Rows that were written and not removed.
    pub rows: u64,
    /// Rows in memory now, and the most there may be.
    pub resident: u64,
    pub capacity: u64,
    /// Bytes of rows in memory, and of the indexes.
    pub memory_bytes: u64,
    pub index_bytes: u64,
    /// Bytes of segment files, and of the records and rows of pages in them that are the newest of their row.
    pub disk_bytes: u64,
    pub live_bytes: u64,
    pub epoch: u64,
    pub counts: Counts,
}

/// Reads under way at a time: of calls that wait for them, and of prefetches, which must not make the disk's queue long.
pub(crate) const DEPTH: u32 = 256;
const DEPTH_AHEAD: u32 = 32;

/// Of the next store of this process.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// Lines of rows that are asked for ahead of copying and updating.
const LINES_AHEAD: usize = 192;

/// Rows that leave memory are asked for so many victims before they are read.
const VICTIMS_AHEAD: usize = 6;

/// Rows of so many numbers whose lines are asked for ahead, with those of their words and flags.
fn rows_ahead(width: usize) -> usize {
    (LINES_AHEAD / (2 + width.div_ceil(LINE))).clamp(2, 48)
}

impl Store {
    pub(crate) fn new(config: Config, options: &Options, folder: Arc<Folder>, next_segment: u32) -> Result<Store> {
        let width = config.width();
        let pages = Pages::new(options, width);
        let mut log = Log::new(folder.clone(), width, options.records_per_segment, pages.n_parts(), next_segment);
        if options.direct_block.is_some() {
            log.read_directly();
        }
        let align = options.direct_block.unwrap_or(1);
        Ok(Store {
            log,
            readers: Readers::new(options.n_readers, options.io, align, DEPTH),
            ahead: Arc::new(Readers::new(options.n_readers, options.io, align, DEPTH_AHEAD)),
            rows: Rows::new(width, options.memory_budget),
            memory_budget: options.memory_budget,
            queues: Queues::default(),
            slots: Slots::new(config.tables.len()),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            n_moves: 0,
            ahead_rows: Waiting::default(),
            wanted_rows: Waiting::default(),
            places: Places::new(),
            pages,
            admissions: Admissions::new(&options.admission, config.tables.len(), config.seed)?,
            config,
            folder,
            n_rows: 0,
            n_dirty: 0,
            epoch: 0,
            pins: BTreeMap::new(),
            bounds_disk: options.bounds_disk,
            committed_at: 0,
            keep_below: 0,
            counts: Counts::default(),
            looked_at: 0,
        })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }
    /// Rows that were written and not removed.
    pub fn len(&self) -> usize {
        self.n_rows
    }
    pub fn is_empty(&self) -> bool {
        self.n_rows == 0
    }

    /// What reads from disk: `io_uring` or threads, and whether they pass by the system's cache.
    pub fn reads_by(&self) -> (&'static str, bool) {
        (self.readers.kind(), self.log.is_direct())
    }

    /// Updates the row of each position of a batch by that position's gradient. The gradients of positions with the same key
    /// are added first, in the order of the positions.
    pub fn update(&mut self, batch: &Batch, grads: &[f32], rule: &Rule, at: &Step) -> Result<()> {
        let dim = self.config.dim();
        check_numbers(batch.len(), dim, grads.len())?;
        self.update_by(batch, rule, at, |p| (&grads[p as usize * dim..(p as usize + 1) * dim], 1.0))
    }

    /// As `update`, where a position's gradient is that of its bag times its factor.
    pub fn update_bags(&mut self, batch: &Batch, bags: &Bags<'_>, grads: &[f32], rule: &Rule, at: &Step) -> Result<()> {
        let dim = self.config.dim();
        bags.check(batch.len())?;
        check_numbers(bags.ends.len(), dim, grads.len())?;
        let of = bags.of_positions();
        self.update_by(batch, rule, at, |p| {
            let bag = of[p as usize] as usize;
            (&grads[bag * dim..(bag + 1) * dim], bags.factor(p as usize))
        })
    }

    /// `grad_of` returns the gradient of a position and its factor.
    fn update_by<'a>(
        &mut self,
        batch: &Batch,
        rule: &Rule,
        at: &Step,
        grad_of: impl Fn(u32) -> (&'a [f32], f32),
    ) -> Result<()> {
        let dim = self.config.dim();
        rule.check(dim, self.config.state_width)?;
        self.check_tables(batch.keys())?;
        self.bound_epoch(batch.n_unique())?;
        // Before slots are taken from a lookup, since rows may leave here.
        self.bound_memory()?;
        let admitted = if self.admissions.any() { Some(self.admit(batch, at.step)?) } else { None };
        let found = batch.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let found = found.filter(|f| admitted.is_none() && f.store == self.number).map(|f| self.still_right(batch, f));
        let some: Vec<Key>;
        let keys = match &admitted {
            None => batch.keys(),
            Some(numbers) => {
                some = numbers.iter().map(|k| batch.keys()[*k as usize]).collect();
                &some
            }
        };
        let mut sum = vec![0.0; dim];
        let step = at.step.clamp(1, u32::MAX as u64) as u32;
        let n = dim + rule.state_width(dim);
        let rule = rule.at(*at);
        let lines = dim.div_ceil(LINE).min(MOST_LINES);
        let ahead = (LINES_AHEAD / lines).max(1);
        self.in_pieces(keys, found, n, false, |store, k, slot, next| {
            let k = admitted.as_ref().map_or(k, |a| a[k] as usize);
            // A key's positions may be anywhere, so no processor guesses which gradient comes next.
            for p in batch.positions_behind(k, ahead) {
                let grad = grad_of(*p).0.as_ptr();
                (0..lines).for_each(|line| prefetch_at(grad.wrapping_add(line * LINE)));
            }
            let positions = batch.positions_of(k);
            let grad = match positions {
                [p] if at.scale == 1.0 && grad_of(*p).1 == 1.0 => grad_of(*p).0,
                _ => {
                    rule.add_up(positions.iter().map(|p| grad_of(*p)), &mut sum);
                    &sum
                }
            };
            let last = store.rows.count(slot, step, positions.len() as u32);
            let next = next.map_or(std::ptr::null(), |next| store.rows.starts().of(next));
            let (w, state) = store.rows.values_mut(slot).split_at_mut(dim);
            rule.apply(w, state, grad, last, next);
        })
    }

    /// The slots that a lookup found, as far as they are those of its keys still.
    fn still_right(&self, batch: &Batch, found: batch::Slots) -> Vec<u32> {
        let batch::Slots { n_moves, mut slots, .. } = found;
        if n_moves != self.n_moves {
            for (slot, key) in slots.iter_mut().zip(batch.keys()) {
                let is_right =
                    self.rows.flags.get(*slot as usize).is_some_and(|f| f & DEAD == 0) && self.rows.key(*slot) == *key;
                *slot = if is_right { *slot } else { ABSENT };
            }
        }
        slots
    }

    /// Numbers of the keys that have a row, or get one.
    fn admit(&mut self, batch: &Batch, step: u64) -> Result<Vec<u32>> {
        let mut slots = Vec::new();
        self.find(batch.keys(), 0, &mut slots);
        let absent: Vec<Key> = slots.iter().zip(batch.keys()).filter(|(s, _)| **s == ABSENT).map(|(_, k)| *k).collect();
        let mut have = self.have_rows(&absent)?.into_iter();
        let mut admitted = Vec::with_capacity(slots.len());
        for (k, (slot, key)) in slots.into_iter().zip(batch.keys()).enumerate() {
            let is_there = match slot {
                ABSENT => have.next().unwrap_or(false),
                slot => self.is_written(slot),
            };
            if is_there || self.admissions.admits(*key, batch.positions_of(k).len() as u32, step) {
                admitted.push(k as u32);
            } else {
                self.counts.refused += 1;
            }
        }
        Ok(admitted)
    }

    /// Sets rows with their steps and counts, as `Saved` reads them; they are admitted always. Returns how many there are.
    pub fn put(&mut self, rows: &Records) -> Result<usize> {
        let (n, width) = (rows.keys.len(), self.config.width());
        check_numbers(n, width, rows.values.len())?;
        if rows.steps.len() != n || rows.counts.len() != n {
            return Err(Error::value(format!("embedding: {n} rows want as many steps and counts")));
        }
        self.check_tables(&rows.keys)?;
        self.bound_epoch(n)?;
        self.bound_memory()?;
        let batch = Batch::new(rows.keys.iter().map(|k| Some(*k)))?;
        self.in_pieces(batch.keys(), None, width, true, |store, k, slot, _| {
            let Some(&p) = batch.positions_of(k).last() else { return };
            let p = p as usize;
            store.rows.values_mut(slot).copy_from_slice(&rows.values[p * width..(p + 1) * width]);
            store.rows.set_step_and_count(slot, rows.steps[p], rows.counts[p]);
        })?;
        Ok(batch.n_unique())
    }

    /// Sets rows: `values` holds weights, or weights and state, for each position; of equal keys the last counts.
    pub fn write(&mut self, batch: &Batch, values: &[f32]) -> Result<()> {
        let (dim, width) = (self.config.dim(), self.config.width());
        let n = if values.len() == batch.len() * width { width } else { dim };
        if values.len() != batch.len() * n {
            return Err(Error::value(format!(
                "embedding: {} rows of {dim} weights, or {width} numbers with state, do not fit {} numbers",
                batch.len(),
                values.len()
            )));
        }
        self.check_tables(batch.keys())?;
        self.bound_epoch(batch.n_unique())?;
        self.bound_memory()?;
        self.in_pieces(batch.keys(), None, n, true, |store, k, slot, _| {
            let Some(&p) = batch.positions_of(k).last() else { return };
            let p = p as usize;
            store.rows.values_mut(slot)[..n].copy_from_slice(&values[p * n..(p + 1) * n]);
            if n > dim {
                let head = store.rows.head(slot);
                let (step, count) = (head[STEP].max(1), head[COUNT]);
                store.rows.set_step_and_count(slot, step, count);
            }
        })
    }

    /// Removes rows; their keys have their initial values again. Keys that are not there are no error.
    pub fn remove(&mut self, keys: &[Key]) -> Result<usize> {
        self.check_tables(keys)?;
        // What fails here has changed nothing. What these keys free is collected by the next call.
        self.bound_epoch(0)?;
        self.bound_disk()?;
        let before = self.n_rows;
        let is_absent = |i: &usize| self.slots.get(keys[*i], &self.rows).is_none();
        let (which, absent): (Vec<usize>, Vec<Key>) = (0..keys.len()).filter(is_absent).map(|i| (i, keys[i])).unzip();
        let mut have = vec![false; keys.len()];
        which.into_iter().zip(self.have_rows(&absent)?).for_each(|(i, h)| have[i] = h);
        for (&key, has_row) in keys.iter().zip(have) {
            let slot = self.slots.get(key, &self.rows);
            if let Some(slot) = slot {
                self.n_rows = self.n_rows.saturating_sub(self.is_written(slot) as usize);
                self.n_dirty -= (self.rows.flags[slot as usize] & DIRTY != 0) as usize;
                self.slots.remove(key, slot);
                self.n_moves += 1;
                self.release(slot);
                self.rows.flags[slot as usize] = DEAD;
            }
            let entry = self.places.find(key);
            let is_gone = entry.is_some_and(|e| self.places.get(e).is_gone());
            // A key that stands twice has its row once.
            if has_row && self.locate(key).is_some() {
                self.n_rows = self.n_rows.saturating_sub(1);
            }
            if let Some(entry) = entry.filter(|_| !is_gone) {
                self.log.forget(self.places.get(entry));
                self.places.remove(entry);
            }
            if !is_gone && self.pages.may_contain(key.hash()) {
                self.places.put(key, Place::gone(key.table));
                self.log.n_changes += 1;
            }
        }
        Ok(before - self.n_rows)
    }

    /// Rows of each table that were written and not removed.
    pub fn rows_by_table(&mut self) -> Result<Vec<u64>> {
        let mut n = vec![0; self.config.tables.len()];
        self.keys()?.iter().for_each(|k| n[k.table as usize] += 1);
        Ok(n)
    }

    /// Keys of all rows that were written and not removed, in order. Reads all pages.
    pub fn keys(&mut self) -> Result<Vec<Key>> {
        let on_disk = self.places.iter().map(|(key, _)| key);
        let is_of_memory = |s: &u32| self.rows.flags[*s as usize] & DIRTY != 0 || self.rows.on_disk(*s) == ON_PAGE;
        let slots = 0..self.rows.flags.len() as u32;
        let is_alive = |s: &u32| self.rows.flags[*s as usize] & DEAD == 0;
        let in_memory = slots.filter(|s| is_alive(s) && is_of_memory(s)).map(|s| self.rows.key(s));
        let mut keys: Vec<Key> = on_disk.chain(in_memory).collect();
        self.visit_pages(None, |key, _| keys.push(key))?;
        keys.sort_unstable();
        Ok(keys)
    }

    /// Returns true if the row in a slot is one of the store, not initial values that nobody has updated.
    pub(crate) fn is_written(&self, slot: u32) -> bool {
        self.rows.flags[slot as usize] & DIRTY != 0 || self.rows.on_disk(slot) != NOT_ON_DISK
    }

    pub fn stats(&self) -> Stats {
        Stats {
            rows: self.n_rows as u64,
            resident: self.slots.len() as u64,
            capacity: self.rows.capacity() as u64,
            memory_bytes: self.rows.bytes() as u64,
            index_bytes: self.index_bytes(),
            disk_bytes: self.disk_bytes(),
            live_bytes: self.live_bytes(),
            epoch: self.epoch,
            counts: self.counts,
        }
    }

    /// Bytes of segment files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        let (record, page) = (self.log.record_bytes() as u64, PAGE as u64);
        let bytes = |s: &Segment| match s.is_of_pages() {
            true => page * s.n_blocks as u64 + Run::foot_bytes(s.n_blocks as usize, s.n_records as usize) as u64,
            false => record * s.n_records as u64,
        };
        self.log.segments.values().map(bytes).sum()
    }

    /// Bytes of the newest records of rows, as the log has them.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.log.record_bytes() as u64 * self.n_on_disk()
    }

    /// Bytes of all that finds rows.
    fn index_bytes(&self) -> u64 {
        (self.slots.bytes() + self.places.bytes() + self.pages.bytes() + self.admissions.bytes()) as u64
    }

    pub(crate) fn check_tables(&self, keys: &[Key]) -> Result<()> {
        self.readers.check_process()?;
        let n = self.config.tables.len();
        match keys.iter().find(|k| k.table as usize >= n) {
            Some(key) => Err(Error::index(format!("embedding: there is no table {}: the store has {n}", key.table))),
            None => Ok(()),
        }
    }

    /// Rows that one piece of a call keeps in memory: the others need room to leave.
    pub(crate) fn piece(&self) -> usize {
        self.rows.capacity() / 2
    }

    /// Brings rows into memory, a piece at a time, and calls `f` with each key's number and slot. They are then newer than
    /// on disk.
    /// `found` are slots of the keys that are known to be right, or `ABSENT`; `f` uses the first `n` numbers of a row. It is told
    /// the slot of a row that comes some calls later; without `asks` it asks for its numbers by itself.
    fn in_pieces(
        &mut self,
        keys: &[Key],
        found: Option<Vec<u32>>,
        n: usize,
        asks: bool,
        mut f: impl FnMut(&mut Store, usize, u32, Option<u32>),
    ) -> Result<()> {
        let piece = self.piece();
        let mut slots = found.filter(|f| f.len() == keys.len() && f.len() <= piece).unwrap_or_default();
        let ahead = rows_ahead(n);
        for (i, part) in keys.chunks(piece).enumerate() {
            let brought = self.bound_disk().and_then(|()| self.bring(part, &mut slots));
            brought.map_err(|e| match i {
                0 => e,
                _ => e.context(format!("after the first {} of {} rows: ", i * piece, keys.len())),
            })?;
            for (k, &slot) in slots.iter().enumerate() {
                let next = slots.get(k + ahead).copied();
                if let Some(next) = next {
                    self.rows.prefetch_to_update(next, if asks { n } else { 0 });
                }
                f(self, i * piece + k, slot, next);
                self.make_dirty(slot);
            }
            slots.clear();
        }
        // The indexes may have grown. The next call tries again before it changes anything, and says why if that fails.
        let _ = self.bound_memory();
        Ok(())
    }

    #[inline]
    fn make_dirty(&mut self, slot: u32) {
        let flag = &mut self.rows.flags[slot as usize];
        if *flag & DIRTY != 0 {
            return;
        }
        *flag |= DIRTY;
        self.n_dirty += 1;
        match self.rows.on_disk(slot) {
            NOT_ON_DISK => self.n_rows += 1,
            ON_PAGE => self.log.n_changes += 1,
            entry => {
                self.log.forget(self.places.get(entry));
                self.places.remove(entry);
            }
        }
        self.rows.set_on_disk(slot, NOT_ON_DISK);
    }

    /// Appends the slot of each key, or `ABSENT`, and asks for the first `n` numbers of each row.
    pub(crate) fn find(&self, keys: &[Key], n: usize, slots: &mut Vec<u32>) {
        self.slots.find(|i| Some(keys[i]), keys.len(), n, &self.rows, slots);
    }

    pub(crate) fn count_hits(&mut self, slots: &[u32]) {
        for &slot in slots.iter().filter(|s| **s != ABSENT) {
            self.counts.hits += 1;
            // The first use of a row that was prefetched is that for which any other row comes into memory.
            let flag = &mut self.rows.flags[slot as usize];
            if *flag & (AHEAD | WANTED) == 0 {
                touch(flag);
            } else if !self.release(slot) {
                touch(&mut self.rows.flags[slot as usize]);
            }
        }
    }

    pub(crate) fn pin(&mut self, slots: &[u32], on: bool) {
        for &slot in slots.iter().filter(|s| **s != ABSENT) {
            let flag = &mut self.rows.flags[slot as usize];
            *flag = if on { *flag | PINNED } else { *flag & !PINNED };
        }
    }

    /// Brings the rows of different keys into memory, at most a piece of them.
    fn bring(&mut self, keys: &[Key], slots: &mut Vec<u32>) -> Result<()> {
        if slots.len() == keys.len() && !keys.is_empty() {
            for (key, slot) in keys.iter().zip(slots.iter_mut()).filter(|(_, slot)| **slot == ABSENT) {
                *slot = self.slots.get(*key, &self.rows).unwrap_or(ABSENT);
            }
        } else {
            slots.clear();
            self.find(keys, 0, slots);
        }
        self.count_hits(slots);
        if !slots.contains(&ABSENT) {
            return Ok(());
        }
        self.pin(slots, true);
        let missing: Vec<usize> = (0..slots.len()).filter(|k| slots[*k] == ABSENT).collect();
        let made = self.fetch(keys, &missing, slots).and_then(|()| self.make(keys, slots));
        self.pin(slots, false);
        made
    }

    pub(crate) fn wait_for(&mut self, wanted: &[Wanted]) -> Result<Found> {
        if wanted.is_empty() {
            return Ok(Found::default());
        }
        let start = Instant::now();
        let found = self.log.read(&self.readers, wanted);
        self.counts.stalled += start.elapsed().as_nanos() as u64;
        found
    }

    /// Brings those of the missing rows into memory that are on disk.
    pub(crate) fn fetch(&mut self, keys: &[Key], missing: &[usize], slots: &mut [u32]) -> Result<()> {
        missing.iter().for_each(|k| self.places.prefetch(keys[*k]));
        let (mut wanted, mut which) = (Vec::new(), Vec::new());
        for &k in missing {
            if let Some(at) = self.locate(keys[k]) {
                wanted.push(Wanted { key: keys[k], at });
                which.push(k);
            }
        }
        let found = self.wait_for(&wanted)?;
        let rows = found.words.chunks_exact(HEADER + self.config.width()).zip(found.are_there);
        for ((k, wanted), (row, is_there)) in which.into_iter().zip(wanted).zip(rows) {
            if is_there {
                self.counts.reads += 1;
                let slot = self.take_slot()?;
                self.enter_row(slot, row, wanted);
                self.hold(slot, wanted.key);
                slots[k] = slot;
            }
        }
        Ok(())
    }

    /// Takes a row over as it was read.
    pub(crate) fn enter_row(&mut self, slot: u32, row: &[u32], wanted: Wanted) {
        let entry = match wanted.at {
            Where::Page(_) => ON_PAGE,
            Where::Record(_) => self.places.find(wanted.key).unwrap_or(NOT_ON_DISK),
        };
        self.rows.enter(slot, row, entry);
    }

    /// Makes the rows that are nowhere, with their initial values.
    pub(crate) fn make(&mut self, keys: &[Key], slots: &mut [u32]) -> Result<()> {
        for (key, slot) in keys.iter().zip(slots) {
            if *slot == ABSENT {
                *slot = self.take_slot()?;
                self.start_row(*slot, *key);
                self.hold(*slot, *key);
                self.counts.initial += 1;
            }
        }
        Ok(())
    }

    /// Writes the initial values of a key to a slot. They are no row of the store before something changes them.
    pub(crate) fn start_row(&mut self, slot: u32, key: Key) {
        self.rows.start(slot, key);
        let (columns, dims) = (&self.config.tables[key.table as usize], &self.config.column_dims);
        let (weights, state) = self.rows.values_mut(slot).split_at_mut(self.config.dim());
        fill_row(columns, dims, self.config.seed, key, weights);
        state.fill(0.0);
    }

    /// Enters a row that came into memory; it stays for the running call.
    pub(crate) fn hold(&mut self, slot: u32, key: Key) {
        self.slots.insert(key, slot, &self.rows);
        self.queues.push(slot, key.hash());
        self.rows.flags[slot as usize] = PINNED;
    }

    /// An empty slot; another row leaves for it where there is none.
    pub(crate) fn take_slot(&mut self) -> Result<u32> {
        if let Some(slot) = self.rows.take()? {
            return Ok(slot);
        }
        if let Some(soon) = self.queues.soon(VICTIMS_AHEAD) {
            self.rows.prefetch_to_update(soon, self.config.width());
        }
        let victim = self.queues.victim(&mut self.rows.flags);
        let slot = victim.ok_or_else(|| Error::runtime("embedding: every row in memory is in use"))?;
        if self.rows.flags[slot as usize] & DEAD == 0
            && let Err(e) = self.evict(slot)
        {
            self.queues.restore(slot);
            return Err(e);
        }
        self.n_moves += 1;
        self.rows.flags[slot as usize] = 0;
        Ok(slot)
    }

    /// Keeps rows and indexes within the budget: where the indexes have grown, rows leave, a chunk at a time.
    pub(crate) fn bound_memory(&mut self) -> Result<()> {
        self.rows.fit(self.memory_budget.saturating_sub(self.index_bytes()));
        while let Some(first) = self.rows.surplus() {
            for slot in first..self.rows.flags.len() as u32 {
                if self.rows.flags[slot as usize] & DEAD == 0 {
                    self.evict(slot)?;
                    self.release(slot);
                    self.rows.flags[slot as usize] = DEAD;
                }
            }
            self.queues.truncate(first);
            self.ahead_rows.slots.retain(|slot| *slot < first);
            self.wanted_rows.slots.retain(|slot| *slot < first);
            self.rows.drop_chunk(first);
            self.n_moves += 1;
        }
        self.bound_waiting();
        Ok(())
    }

    /// Lets a row leave memory; it is written first if it is newer than on disk.
    fn evict(&mut self, slot: u32) -> Result<()> {
        if self.rows.flags[slot as usize] & DIRTY != 0 {
            self.save(slot)?;
        }
        let key = self.rows.key(slot);
        self.slots.remove(key, slot);
        self.queues.left(key.hash());
        self.counts.evictions += 1;
        Ok(())
    }

    /// Appends a dirty row to the log.
    pub(crate) fn save(&mut self, slot: u32) -> Result<()> {
        let key = self.rows.key(slot);
        let place = self.log.append(self.pages.part(key.hash()), &self.rows.head(slot), self.rows.values(slot))?;
        // The key may be here as removed.
        let entry = self.places.put(key, place);
        self.rows.set_on_disk(slot, entry);
        self.rows.flags[slot as usize] &= !DIRTY;
        self.n_dirty -= 1;
        self.counts.writes += 1;
        Ok(())
    }
}

pub(crate) fn check_numbers(n_rows: usize, width: usize, n_numbers: usize) -> Result<()> {
    match n_rows.checked_mul(width) == Some(n_numbers) {
        true => Ok(()),
        false => {
            Err(Error::value(format!("embedding: {n_rows} rows of {width} numbers do not fit {n_numbers} numbers")))
        }
    }
}
