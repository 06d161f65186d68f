//! Lookups: rows that are in memory are copied block by block as they are found, others are read from disk in one go.
//!
//! Changes no row. Only a lookup that is trained brings rows into memory.

use crate::batch::{Bags, Batch, Key, PADDING, Slots};
use crate::disk::Wanted;
use crate::initial::fill_row;
use crate::lines::{fence, prefetch_at};
use crate::log::HEADER;
use crate::rows::{LINE, Rows, floats};
use crate::slots::{ABSENT, NO_KEY};
use crate::store::{Store, check_numbers};
use oneflow_base::Result;
use oneflow_kernels_prim::{Register, Simd, WithSimd, dispatch, isa};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::PoisonError;

/// Positions whose slots are found before their rows are read.
const BLOCK: usize = 2048;
/// Cache lines of rows that are asked for before they are read, about, and bounds of how many rows that are: those that the
/// processor fetches at a time. They are asked for row by row, since more at once wait for each other.
const LINES_AHEAD: usize = 128;
const LEAST_AHEAD: usize = 4;
const MOST_AHEAD: usize = 128;
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
}

impl<'a> Found<'a> {
    /// The addresses of the rows of some slots, for as long as nothing changes the rows.
    #[inline(always)]
    fn addresses(&'a self, slots: &[u32]) -> Addresses<'a> {
        let (starts, aside, n) = (self.rows.starts(), self.aside.as_ptr(), self.n);
        let address = |slot: &u32| match *slot {
            NO_KEY => std::ptr::null(),
            slot if slot & ASIDE == 0 => starts.of(slot),
            slot => aside.wrapping_add((slot & !ASIDE) as usize * n),
        };
        let n_ahead = (LINES_AHEAD / self.rows.lines(n)).clamp(LEAST_AHEAD, MOST_AHEAD);
        let mut of = Vec::with_capacity(slots.len() + n_ahead);
        of.extend(slots.iter().map(address));
        let is_any_padding = slots.iter().fold(false, |any, slot| any | (*slot == NO_KEY));
        // What is asked for behind the last row.
        of.resize(slots.len() + n_ahead, of.last().copied().unwrap_or_default());
        let first = &of[..n_ahead.min(slots.len())];
        first.iter().for_each(|row| (0..n).step_by(LINE).for_each(|at| prefetch_at(row.wrapping_add(at))));
        Addresses { of, n_ahead, is_any_padding, are_whole_lines: self.rows.are_whole_lines(), rows: PhantomData }
    }
}

/// Where the rows of a block are: `n` numbers each, or null for padding, and `n_ahead` addresses more. The first `n_ahead` rows
/// have been asked for.
struct Addresses<'a> {
    of: Vec<*const f32>,
    n_ahead: usize,
    is_any_padding: bool,
    /// Whether a row begins with a cache line.
    are_whole_lines: bool,
    rows: PhantomData<&'a [f32]>,
}

impl Addresses<'_> {
    /// Asks for `n` numbers from `at` on of the row that is read `n_ahead` rows after row `i`. Each kernel asks for what it reads
    /// in turn: with few instructions between its rows, the processor looks further ahead by itself too.
    #[inline(always)]
    fn ask_ahead(&self, i: usize, at: usize, n: usize) {
        let row = self.of[i + self.n_ahead].wrapping_add(at);
        for line in 0..n.div_ceil(LINE) {
            prefetch_at(row.wrapping_add(line * LINE));
        }
        if !self.are_whole_lines {
            prefetch_at(row.wrapping_add(n));
        }
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
        if !trains {
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
        let found = Found { rows: &self.rows, aside: &[], n };
        let mut slots = Vec::with_capacity(BLOCK);
        for first in (0..batch.len()).step_by(BLOCK) {
            slots.clear();
            let n_block = BLOCK.min(batch.len() - first);
            // A table that is not there has no array and no entry: its rows are found missing.
            let key_of = |i| batch.key_at(first + i);
            let are_found = match batch.plain_ids() {
                Some((table, ids)) => {
                    let (ids, rest) = ids[first..].split_at(n_block);
                    self.slots.find_ids(table, ids, &rest[..BLOCK.min(rest.len())], &self.rows, &mut slots)
                }
                None => self.slots.find_dense(key_of, n_block, &mut slots),
            };
            if !are_found {
                self.slots.find(key_of, n_block, 0, &self.rows, &mut slots);
            }
            if any_absent(&slots) {
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
            first = emit(&Found { rows: &self.rows, aside: &[], n }, batch.inverse(), first, &slots, f);
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
        emit(&Found { rows: &self.rows, aside: &aside, n }, batch.inverse(), first, &slots, f);
        Ok(())
    }

    /// Reads rows that are not in memory without bringing them there: `n` numbers each. Their slots become numbers of
    /// them, with the bit `ASIDE`.
    fn read_aside(&mut self, keys: &[Key], slots: &mut [u32], n: usize) -> Result<Vec<f32>> {
        let missing: Vec<usize> = (0..slots.len()).filter(|k| slots[*k] == ABSENT).collect();
        let mut aside = vec![0.0; missing.len() * n];
        let (mut wanted, mut which) = (Vec::new(), Vec::new());
        missing.iter().for_each(|k| self.places.prefetch(keys[*k]));
        for (i, &k) in missing.iter().enumerate() {
            slots[k] = ASIDE | i as u32;
            if let Some(at) = self.locate(keys[k]) {
                wanted.push(Wanted { key: keys[k], at });
                which.push(i);
            }
        }
        let found = self.wait_for(&wanted)?;
        let mut is_read = vec![false; missing.len()];
        for ((row, is_there), i) in
            found.words.chunks_exact(HEADER + self.config.width()).zip(found.are_there).zip(which)
        {
            if is_there {
                aside[i * n..(i + 1) * n].copy_from_slice(&floats(&row[HEADER..])[..n]);
                is_read[i] = true;
            }
        }
        for (i, _) in is_read.iter().enumerate().filter(|(_, read)| !**read) {
            let key = keys[missing[i]];
            let out = &mut aside[i * n..i * n + self.config.dim()];
            fill_row(&self.config.tables[key.table as usize], &self.config.column_dims, self.config.seed, key, out);
        }
        let n_read = is_read.iter().filter(|read| **read).count();
        self.counts.reads += n_read as u64;
        self.counts.initial += (missing.len() - n_read) as u64;
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

/// Looks at all slots, which is faster than to stop at the first.
fn any_absent(slots: &[u32]) -> bool {
    slots.iter().fold(false, |any, slot| any | (*slot == ABSENT))
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
        let (n, w) = (found.n, S::F32::WIDTH);
        let streams = streams && n.is_multiple_of(w) && out.as_ptr().addr().is_multiple_of(size_of::<S::F32>());
        let rows = found.addresses(slots);
        if streams { rows.copy_all::<S, true>(n, out) } else { rows.copy_all::<S, false>(n, out) }
    }
}

impl Addresses<'_> {
    #[inline(always)]
    fn copy_all<S: Simd, const STREAM: bool>(&self, n: usize, out: &mut [f32]) {
        let w = S::F32::WIDTH;
        match n {
            _ if n == w => self.copy::<S, 1, STREAM>(n, out),
            _ if n == 2 * w => self.copy::<S, 2, STREAM>(n, out),
            _ if n.is_multiple_of(8 * w) => self.copy::<S, 8, STREAM>(n, out),
            _ => self.copy::<S, 4, STREAM>(n, out),
        }
    }

    /// Copies `R` registers at a time, and what is left of a row by itself. `STREAM`: past the caches.
    #[inline(always)]
    fn copy<S: Simd, const R: usize, const STREAM: bool>(&self, n: usize, out: &mut [f32]) {
        let w = S::F32::WIDTH;
        for (i, out) in out.chunks_exact_mut(n).enumerate() {
            let row = self.of[i];
            let mut at = 0;
            while n - at >= R * w {
                self.ask_ahead(i, at, R * w);
                if !row.is_null() {
                    for r in 0..R {
                        // SAFETY: both have as many numbers as a register. The output begins at a multiple of its size where
                        // rows are written past the caches.
                        unsafe {
                            let numbers = S::F32::load(row.add(at + r * w));
                            let to = out.as_mut_ptr().add(at + r * w);
                            if STREAM { numbers.stream(to) } else { numbers.store(to) }
                        }
                    }
                }
                at += R * w;
            }
            if at < n {
                self.ask_ahead(i, at, n - at);
            }
            if row.is_null() {
                out.fill(0.0);
            } else if at < n {
                // SAFETY: `n` numbers lie behind an address.
                out[at..].copy_from_slice(unsafe { std::slice::from_raw_parts(row.add(at), n - at) });
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
        let n = found.n;
        let rows = found.addresses(slots);
        let is_plain = bags.factors.is_none() && !rows.is_any_padding;
        let mut start = 0;
        let mut bag = bags.ends.partition_point(|end| *end as usize <= first);
        while start < slots.len() {
            let (begin, end) = (bag.checked_sub(1).map_or(0, |b| bags.ends[b]) as usize, bags.ends[bag] as usize);
            let stop = slots.len().min(end - first).min(start + MOST_OF_BAG);
            let run = Run {
                rows: &rows,
                positions: start..stop,
                factors: bags.factors.map(|f| &f[first..]),
                is_first: begin == first + start,
            };
            let to = &mut out[bag * n..(bag + 1) * n];
            if is_plain {
                run.add_all::<S, true>(to)
            } else {
                run.add_all::<S, false>(to)
            }
            start = stop;
            while bag < bags.ends.len() && bags.ends[bag] as usize <= first + start {
                bag += 1;
            }
        }
    }
}

/// Positions of one bag that follow each other.
struct Run<'a> {
    rows: &'a Addresses<'a>,
    /// In their block, as those of the factors.
    positions: Range<usize>,
    factors: Option<&'a [f32]>,
    /// Whether the bag begins with them: its sum has not been written yet.
    is_first: bool,
}

impl Run<'_> {
    /// Adds the rows to `to`. `PLAIN`: none is padding, and there are no factors.
    #[inline(always)]
    fn add_all<S: Simd, const PLAIN: bool>(&self, to: &mut [f32]) {
        let (n, w) = (to.len(), S::F32::WIDTH);
        let mut at = 0;
        while n - at >= 8 * w {
            self.add::<S, 8, PLAIN>(at, to);
            at += 8 * w;
        }
        if n - at >= 4 * w {
            self.add::<S, 4, PLAIN>(at, to);
            at += 4 * w;
        }
        if n - at >= 2 * w {
            self.add::<S, 2, PLAIN>(at, to);
            at += 2 * w;
        }
        if n - at >= w {
            self.add::<S, 1, PLAIN>(at, to);
            at += w;
        }
        self.add_rest(at, to);
    }

    /// Adds `R` registers of each row, from the number `at` on.
    #[inline(always)]
    fn add<S: Simd, const R: usize, const PLAIN: bool>(&self, at: usize, to: &mut [f32]) {
        let w = S::F32::WIDTH;
        let to = &mut to[at..at + R * w];
        let mut sums = [S::F32::all_of(0.0); R];
        if !self.is_first {
            // SAFETY: `R` registers lie behind each of these addresses.
            sums = std::array::from_fn(|r| unsafe { S::F32::load(to.as_ptr().add(r * w)) });
        }
        for i in self.positions.clone() {
            self.rows.ask_ahead(i, at, R * w);
            let row = self.rows.of[i];
            if !PLAIN && row.is_null() {
                continue;
            }
            let factor = if PLAIN { None } else { self.factors.map(|f| S::F32::all_of(f[i])) };
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
        for i in self.positions.clone() {
            self.rows.ask_ahead(i, at, to.len() - at);
            let row = self.rows.of[i];
            if row.is_null() {
                continue;
            }
            let factor = self.factors.map_or(1.0, |f| f[i]);
            // SAFETY: as in `add`.
            let row = unsafe { std::slice::from_raw_parts(row.add(at), to.len() - at) };
            to[at..].iter_mut().zip(row).for_each(|(to, row)| *to += factor * row);
        }
    }
}
