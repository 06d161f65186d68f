//! Lookups: rows that are in memory are copied block by block as they are found, others are read from disk in one go.
//!
//! Changes no row. Only a lookup that is trained brings rows into memory.

use crate::batch::{Bags, Batch, Key, PADDING, Slots};
use crate::initial::fill_row;
use crate::lines::{fence, prefetch_at};
use crate::log::HEADER;
use crate::rows::{LINE, Rows, floats};
use crate::slots::{ABSENT, NO_KEY};
use crate::store::{Store, check_numbers};
use oneflow_base::Result;
use oneflow_kernels_prim::{Register, Simd, WithSimd, dispatch, isa};
use std::marker::PhantomData;
use std::sync::PoisonError;

/// Positions whose slots are found before their rows are read.
const BLOCK: usize = 2048;
/// Cache lines of rows that are asked for before they are read, about, and bounds of how many rows that are. A line of memory
/// takes as long as some 30 others that are under way with it.
const LINES_AHEAD: usize = 192;
const LEAST_AHEAD: usize = 8;
const MOST_AHEAD: usize = 160;
/// Rows that are copied between two looks ahead.
const AT_ONCE: usize = 8;
/// Positions of one bag that are added at a time.
const MOST_OF_BAG: usize = 16;
/// Results from here on are written past the caches, which they would fill.
const STREAM_BYTES: usize = 16 << 20;
/// In a list of slots: a row that was read aside.
const ASIDE: u32 = 1 << 31;

/// Rows of a block of positions: in memory, or read aside.
#[derive(Clone, Copy)]
struct Found<'a> {
    rows: &'a Rows,
    aside: &'a [f32],
    /// Numbers of a row that are looked up.
    n: usize,
    /// Whether the rows' lines were asked for.
    is_asked: bool,
}

impl<'a> Found<'a> {
    /// The addresses of the rows of some slots, for as long as nothing changes the rows.
    #[inline(always)]
    fn addresses(&'a self, slots: &[u32]) -> Addresses<'a> {
        let address = |slot: &u32| match *slot {
            NO_KEY => std::ptr::null(),
            slot if slot & ASIDE == 0 => self.rows.values(slot)[..self.n].as_ptr(),
            slot => self.aside[(slot & !ASIDE) as usize * self.n..][..self.n].as_ptr(),
        };
        let n_lines = if self.is_asked { 0 } else { self.rows.lines(self.n) };
        let n_ahead = (LINES_AHEAD / n_lines.max(1)).clamp(LEAST_AHEAD, MOST_AHEAD);
        Addresses { of: slots.iter().map(address).collect(), n_asked: 0, n_ahead, n_lines, rows: PhantomData }
    }
}

/// Where the rows of a block are: `n` numbers each, or null for padding. They are asked for in turn, a few before each that is read.
struct Addresses<'a> {
    of: Vec<*const f32>,
    n_asked: usize,
    n_ahead: usize,
    n_lines: usize,
    rows: PhantomData<&'a [f32]>,
}

impl Addresses<'_> {
    /// The first `n` rows of the block are read next, and those before them were.
    #[inline(always)]
    fn before_reading(&mut self, n: usize) {
        let end = self.of.len().min(n + self.n_ahead);
        if end <= self.n_asked {
            return;
        }
        for row in &self.of[self.n_asked..end] {
            for line in 0..self.n_lines {
                prefetch_at(row.wrapping_add(line * LINE));
            }
        }
        self.n_asked = end;
    }
}

impl Store {
    /// Writes the weights of each position of a batch to `out`; padding gives zeros. Changes no row. With `trains`, rows come
    /// into memory and count as used, because an update follows.
    pub fn lookup(&mut self, batch: &Batch, trains: bool, out: &mut [f32]) -> Result<()> {
        self.read(batch, self.config.dim(), trains, out)
    }

    /// As `lookup`, with the optimizer's state after the weights: zeros for rows that nobody has updated.
    pub fn read_rows(&mut self, batch: &Batch, out: &mut [f32]) -> Result<()> {
        self.read(batch, self.config.width(), false, out)
    }

    /// As `lookup`, with the rows of each bag's positions added to a row of `out`, in the order of the positions.
    pub fn lookup_bags(&mut self, batch: &Batch, bags: &Bags<'_>, trains: bool, out: &mut [f32]) -> Result<()> {
        let dim = self.config.dim();
        bags.check(batch.len())?;
        check_numbers(bags.ends.len(), dim, out.len())?;
        // Every other bag is written with its first positions.
        let mut start = 0;
        for (bag, end) in bags.ends.iter().enumerate() {
            if start == *end {
                out[bag * dim..(bag + 1) * dim].fill(0.0);
            }
            start = *end;
        }
        let isa = isa();
        self.each_block(batch, dim, trains, |found, first, slots| {
            dispatch(isa, AddRows { found, slots, bags, first, out });
        })
    }

    fn read(&mut self, batch: &Batch, n: usize, trains: bool, out: &mut [f32]) -> Result<()> {
        check_numbers(batch.len(), n, out.len())?;
        let (isa, streams) = (isa(), size_of_val(out) >= STREAM_BYTES);
        let outcome = self.each_block(batch, n, trains, |found, first, slots| {
            let out = &mut out[first * n..(first + slots.len()) * n];
            dispatch(isa, CopyRows { found, slots, out, streams });
        });
        if streams {
            fence();
        }
        outcome
    }

    /// Calls `f` with blocks of positions, in order: their rows, the first position, and the slot of each or `NO_KEY`.
    fn each_block(
        &mut self,
        batch: &Batch,
        n: usize,
        trains: bool,
        mut f: impl FnMut(&Found<'_>, usize, &[u32]),
    ) -> Result<()> {
        if !trains && batch.plain_ids().is_some() {
            self.place_rows(batch.len());
        }
        let first = if trains { 0 } else { self.each_present_block(batch, n, &mut f)? };
        if first == batch.len() { Ok(()) } else { self.each_block_from(batch, first, n, trains, &mut f) }
    }

    /// As `each_block` up to a block with a row that is not in memory; returns where that begins. Looks for each position's key
    /// alone: where nothing has to be read, finding equal keys costs more than finding rows twice.
    fn each_present_block(
        &self,
        batch: &Batch,
        n: usize,
        f: &mut impl FnMut(&Found<'_>, usize, &[u32]),
    ) -> Result<usize> {
        self.readers.check_process()?;
        let found = Found { rows: &self.rows, aside: &[], n, is_asked: false };
        if let Some((table, ids)) = batch.plain_ids() {
            let asked = Found { is_asked: true, ..found };
            let n_found = self.slots.each_hashed(table, ids, n, &self.rows, |first, slots| f(&asked, first, slots));
            if let Some(n_found) = n_found {
                return Ok(n_found);
            }
        }
        let mut slots = Vec::with_capacity(BLOCK);
        for first in (0..batch.len()).step_by(BLOCK) {
            slots.clear();
            let n_block = BLOCK.min(batch.len() - first);
            // A table that is not there has no array and no entry: its rows are found missing.
            let is_plain = batch.plain_ids().is_some_and(|(table, ids)| {
                let (ids, rest) = ids[first..].split_at(n_block);
                self.slots.find_ids(table, ids, &rest[..BLOCK.min(rest.len())], &mut slots)
            });
            if !is_plain {
                self.slots.find(|i| batch.key_at(first + i), n_block, 0, &self.rows, &mut slots);
            }
            if slots.contains(&ABSENT) {
                return Ok(first);
            }
            f(&found, first, &slots);
        }
        Ok(batch.len())
    }

    /// As `each_block` from a position on, by the different keys.
    fn each_block_from(
        &mut self,
        batch: &Batch,
        mut first: usize,
        n: usize,
        trains: bool,
        f: &mut impl FnMut(&Found<'_>, usize, &[u32]),
    ) -> Result<()> {
        self.bound_disk()?;
        self.bound_memory()?;
        let keys = batch.keys();
        self.check_tables(keys)?;
        let mut slots = Vec::with_capacity(keys.len());
        // Keys stand in the order in which they first appear, so the rows of a block of keys are copied as soon as they are found.
        // The first row that is not in memory ends this.
        while slots.len() < keys.len() {
            let known = slots.len();
            let part = &keys[known..keys.len().min(known + BLOCK)];
            self.find(part, 0, &mut slots);
            if slots[known..].contains(&ABSENT) {
                break;
            }
            first =
                emit(&Found { rows: &self.rows, aside: &[], n, is_asked: false }, batch.inverse(), first, &slots, f);
        }
        let known = slots.len();
        self.find(&keys[known..], 0, &mut slots);
        let mut any_missing = slots.contains(&ABSENT);
        if trains && keys.len() <= self.piece() {
            self.count_hits(&slots);
            if any_missing {
                let missing: Vec<usize> = (0..slots.len()).filter(|k| slots[*k] == ABSENT).collect();
                self.pin(&slots, true);
                let mut brought = self.fetch(keys, &missing, &mut slots);
                if !self.admissions.any() {
                    // The update that follows needs them, and need not draw their values again.
                    brought = brought.and_then(|()| self.make(keys, &mut slots));
                }
                self.pin(&slots, false);
                brought?;
            }
            any_missing = slots.contains(&ABSENT);
            // The update that follows finds them here, and need not look for them.
            self.want(&slots);
            let found = Slots { store: self.number, n_moves: self.n_moves, slots: slots.clone() };
            *batch.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        }
        let aside = if any_missing { self.read_aside(keys, &mut slots, n)? } else { Vec::new() };
        emit(&Found { rows: &self.rows, aside: &aside, n, is_asked: false }, batch.inverse(), first, &slots, f);
        Ok(())
    }

    /// Reads rows that are not in memory without bringing them there: `n` numbers each. Their slots become numbers of
    /// them, with the bit `ASIDE`.
    fn read_aside(&mut self, keys: &[Key], slots: &mut [u32], n: usize) -> Result<Vec<f32>> {
        let missing: Vec<usize> = (0..slots.len()).filter(|k| slots[*k] == ABSENT).collect();
        let mut aside = vec![0.0; missing.len() * n];
        let (mut places, mut ids, mut which) = (Vec::new(), Vec::new(), Vec::new());
        missing.iter().for_each(|k| self.places.prefetch(keys[*k]));
        for (i, &k) in missing.iter().enumerate() {
            slots[k] = ASIDE | i as u32;
            let key = keys[k];
            if let Some(entry) = self.places.find(key) {
                places.push(self.places.get(entry));
                ids.push(key.id);
                which.push(i);
                continue;
            }
            let out = &mut aside[i * n..i * n + self.config.dim()];
            fill_row(&self.config.tables[key.table as usize], &self.config.column_dims, self.config.seed, key, out);
        }
        let rows = self.wait_for(&places, &ids)?;
        for (row, i) in rows.chunks_exact(HEADER + self.config.width()).zip(&which) {
            aside[i * n..(i + 1) * n].copy_from_slice(&floats(&row[HEADER..])[..n]);
        }
        self.counts.reads += which.len() as u64;
        self.counts.initial += (missing.len() - which.len()) as u64;
        Ok(aside)
    }
}

/// Calls `f` with blocks of the positions from `first` on, up to one whose key has no slot yet; returns that position.
/// `inverse` holds the number of each position's key, `slots` the slots of the keys.
fn emit(
    found: &Found<'_>,
    inverse: &[u32],
    mut first: usize,
    slots: &[u32],
    f: &mut impl FnMut(&Found<'_>, usize, &[u32]),
) -> usize {
    let mut of_positions = Vec::with_capacity(BLOCK);
    for part in inverse[first..].chunks(BLOCK) {
        of_positions.clear();
        of_positions.extend(part.iter().map_while(|k| match *k {
            PADDING => Some(NO_KEY),
            k => slots.get(k as usize).copied(),
        }));
        f(found, first, &of_positions);
        first += of_positions.len();
        if of_positions.len() < part.len() {
            break;
        }
    }
    first
}

/// Copies the rows of a block of positions.
struct CopyRows<'a> {
    found: &'a Found<'a>,
    slots: &'a [u32],
    out: &'a mut [f32],
    /// Whether to write past the caches.
    streams: bool,
}

impl WithSimd for CopyRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let CopyRows { found, slots, out, streams } = self;
        let (n, width) = (found.n, S::F32::WIDTH);
        let is_whole = n.is_multiple_of(width);
        let streams = streams && is_whole && out.as_ptr().addr().is_multiple_of(size_of::<S::F32>());
        let mut rows = found.addresses(slots);
        for (i, out) in out.chunks_exact_mut(n).enumerate() {
            if i % AT_ONCE == 0 {
                rows.before_reading(i + AT_ONCE);
            }
            let row = rows.of[i];
            if row.is_null() {
                out.fill(0.0);
                continue;
            }
            if !is_whole {
                // SAFETY: `n` numbers lie behind an address.
                out.copy_from_slice(unsafe { std::slice::from_raw_parts(row, n) });
                continue;
            }
            for (r, out) in out.chunks_exact_mut(width).enumerate() {
                // SAFETY: both have as many numbers as a register. The output begins at a multiple of its size where rows are
                // written past the caches.
                unsafe {
                    let row = S::F32::load(row.add(r * width));
                    if streams { row.stream(out.as_mut_ptr()) } else { row.store(out.as_mut_ptr()) }
                }
            }
        }
    }
}

/// Adds the rows of a block of positions to their bags.
struct AddRows<'a> {
    found: &'a Found<'a>,
    slots: &'a [u32],
    bags: &'a Bags<'a>,
    first: usize,
    out: &'a mut [f32],
}

impl WithSimd for AddRows<'_> {
    type Output = ();

    // A bag's sum stays in registers; each number is added in the order of the positions, as one by one.
    #[inline(always)]
    fn run<S: Simd>(self) {
        let AddRows { found, slots, bags, first, out } = self;
        let (n, w) = (found.n, S::F32::WIDTH);
        let mut rows = found.addresses(slots);
        let mut start = 0;
        let mut bag = bags.ends.partition_point(|end| *end as usize <= first);
        while start < slots.len() {
            let (begin, end) = (bag.checked_sub(1).map_or(0, |b| bags.ends[b]) as usize, bags.ends[bag] as usize);
            let stop = slots.len().min(end - first).min(start + MOST_OF_BAG);
            rows.before_reading(stop);
            let run = Run {
                rows: &rows.of[start..stop],
                factors: bags.factors.map(|f| &f[first + start..first + stop]),
                is_first: begin == first + start,
            };
            let to = &mut out[bag * n..(bag + 1) * n];
            let mut at = 0;
            while n - at >= 8 * w {
                run.add::<S, 8>(at, to);
                at += 8 * w;
            }
            if n - at >= 4 * w {
                run.add::<S, 4>(at, to);
                at += 4 * w;
            }
            if n - at >= 2 * w {
                run.add::<S, 2>(at, to);
                at += 2 * w;
            }
            if n - at >= w {
                run.add::<S, 1>(at, to);
                at += w;
            }
            run.add_rest(at, to);
            start = stop;
            while bag < bags.ends.len() && bags.ends[bag] as usize <= first + start {
                bag += 1;
            }
        }
    }
}

/// Positions of one bag that follow each other.
struct Run<'a> {
    /// Addresses of rows, or null; the numbers that are added lie behind them.
    rows: &'a [*const f32],
    factors: Option<&'a [f32]>,
    /// Whether the bag begins with them: its sum has not been written yet.
    is_first: bool,
}

impl Run<'_> {
    /// Adds `R` registers of each row, from the number `at` on.
    #[inline(always)]
    fn add<S: Simd, const R: usize>(&self, at: usize, to: &mut [f32]) {
        let w = S::F32::WIDTH;
        let to = &mut to[at..at + R * w];
        let mut sums = [S::F32::all_of(0.0); R];
        if !self.is_first {
            // SAFETY: `R` registers lie behind each of these addresses.
            sums = std::array::from_fn(|r| unsafe { S::F32::load(to.as_ptr().add(r * w)) });
        }
        for (i, row) in self.rows.iter().enumerate().filter(|(_, row)| !row.is_null()) {
            let factor = self.factors.map(|f| S::F32::all_of(f[i]));
            for (r, sum) in sums.iter_mut().enumerate() {
                // SAFETY: a row has as many numbers as its bag's sum, of which these are some.
                let numbers = unsafe { S::F32::load(row.add(at + r * w)) };
                *sum = *sum + factor.map_or(numbers, |f| f * numbers);
            }
        }
        for (r, sum) in sums.into_iter().enumerate() {
            // SAFETY: as for the loads.
            unsafe { sum.store(to.as_mut_ptr().add(r * w)) };
        }
    }

    #[inline(always)]
    fn add_rest(&self, at: usize, to: &mut [f32]) {
        if at == to.len() {
            return;
        }
        if self.is_first {
            to[at..].fill(0.0);
        }
        for (i, row) in self.rows.iter().enumerate().filter(|(_, row)| !row.is_null()) {
            let factor = self.factors.map_or(1.0, |f| f[i]);
            // SAFETY: as in `add`.
            let row = unsafe { std::slice::from_raw_parts(row.add(at), to.len() - at) };
            to[at..].iter_mut().zip(row).for_each(|(to, row)| *to += factor * row);
        }
    }
}
