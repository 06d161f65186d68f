//! Lookups: rows that are in memory are copied block by block as they are found, others are read from disk in one go.
//!
//! Changes no row. Only a lookup that is trained brings rows into memory.

use crate::batch::{Bags, Batch, Found, Key, PADDING};
use crate::initial::fill_row;
use crate::log::HEADER;
use crate::rows::{Rows, floats};
use crate::slots::{ABSENT, NO_KEY};
use crate::store::{Store, check_numbers, rows_ahead};
use oneflow_base::Result;
use oneflow_kernels_prim::{Simd, WithSimd, dispatch, isa};
use std::sync::PoisonError;

/// Keys that are found before their rows are copied.
const BLOCK: usize = 256;
/// In a list of slots: a row that was read aside.
const ASIDE: u32 = 1 << 31;

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
        check_numbers(bags.n_bags, dim, out.len())?;
        out.fill(0.0);
        let isa = isa();
        let first = match trains {
            true => 0,
            false => self.read_present(batch, dim, |rows, first, slots| {
                dispatch(isa, AddRows { rows, slots, bags, first, out, dim });
            })?,
        };
        self.read_rows_of(batch, dim, trains, first, |p, row| {
            let bag = bags.of[p] as usize;
            if let Some(row) = row {
                dispatch(isa, AddRow { to: &mut out[bag * dim..(bag + 1) * dim], row, factor: bags.factor(p) });
            }
        })
    }

    fn read(&mut self, batch: &Batch, n: usize, trains: bool, out: &mut [f32]) -> Result<()> {
        check_numbers(batch.len(), n, out.len())?;
        let first = match trains {
            true => 0,
            false => self.read_present(batch, n, |rows, first, slots| {
                for (slot, out) in slots.iter().zip(out[first * n..].chunks_exact_mut(n)) {
                    match *slot {
                        NO_KEY => out.fill(0.0),
                        slot => out.copy_from_slice(&rows.values(slot)[..n]),
                    }
                }
            })?,
        };
        self.read_rows_of(batch, n, trains, first, |p, row| {
            let out = &mut out[p * n..(p + 1) * n];
            match row {
                Some(row) => out.copy_from_slice(row),
                None => out.fill(0.0),
            }
        })
    }

    /// Calls `f` with each position from `first` on and the first `n` numbers of its row, in order; None for padding.
    fn read_rows_of(
        &mut self,
        batch: &Batch,
        n: usize,
        trains: bool,
        mut first: usize,
        mut f: impl FnMut(usize, Option<&[f32]>),
    ) -> Result<()> {
        if first == batch.len() {
            return Ok(());
        }
        self.bound_disk()?;
        let keys = batch.keys();
        self.check_tables(keys)?;
        let mut slots = Vec::with_capacity(keys.len());
        // Keys stand in the order in which they first appear, so a block of rows is copied as soon as it is found, while its
        // lines are near. The first row that is not in memory ends this.
        while slots.len() < keys.len() {
            let known = slots.len();
            let block = &keys[known..keys.len().min(known + BLOCK)];
            self.find(block, n, &mut slots);
            if slots[known..].contains(&ABSENT) {
                break;
            }
            first = self.emit(batch, first, n, &slots, &[], &mut f);
        }
        let known = slots.len();
        self.find(&keys[known..], 0, &mut slots);
        let any_missing = slots.contains(&ABSENT);
        if trains && keys.len() <= self.piece() {
            self.count_hits(&slots);
            if any_missing {
                let missing: Vec<usize> = (0..slots.len()).filter(|k| slots[*k] == ABSENT).collect();
                self.pin(&slots, true);
                let read = self.fetch(keys, &missing, &mut slots);
                self.pin(&slots, false);
                read?;
            }
            // The update that follows need not look for them again.
            let found = Found { store: self.number, n_moves: self.n_moves, slots: slots.clone() };
            *batch.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        }
        let aside = if any_missing { self.read_aside(keys, &mut slots, n)? } else { Vec::new() };
        self.emit(batch, first, n, &slots, &aside, &mut f);
        Ok(())
    }

    /// Calls `f` with blocks of positions whose rows are in memory: the first position, and the slot of each or `NO_KEY`. Returns
    /// where it ended: at a block with another row. Looks for each position's key alone: where nothing has to be read, finding
    /// equal keys costs more than finding rows twice.
    fn read_present(&self, batch: &Batch, n: usize, mut f: impl FnMut(&Rows, usize, &[u32])) -> Result<usize> {
        self.readers.check_process()?;
        let mut slots = Vec::with_capacity(BLOCK);
        for first in (0..batch.len()).step_by(BLOCK) {
            slots.clear();
            let n_block = BLOCK.min(batch.len() - first);
            // A table that is not there has no array and no entry: its rows are found missing.
            let ids = batch.plain_ids().map(|(table, ids)| (table, &ids[first..first + n_block]));
            if !ids.is_some_and(|(table, ids)| self.slots.find_dense(table, ids, n, &self.rows, &mut slots)) {
                self.slots.find(|i| batch.key_at(first + i), n_block, n, &self.rows, &mut slots);
            }
            if slots.contains(&ABSENT) {
                return Ok(first);
            }
            f(&self.rows, first, &slots);
        }
        Ok(batch.len())
    }

    /// Calls `f` with the positions from `first` on, up to one whose key has no slot yet; returns that position.
    #[inline]
    fn emit(
        &self,
        batch: &Batch,
        first: usize,
        n: usize,
        slots: &[u32],
        aside: &[f32],
        f: &mut impl FnMut(usize, Option<&[f32]>),
    ) -> usize {
        let ahead = rows_ahead(n);
        let inverse = batch.inverse();
        for (p, &k) in inverse.iter().enumerate().skip(first) {
            if let Some(&next) = inverse.get(p + ahead)
                && let Some(&slot) = slots.get(next as usize)
                && slot & ASIDE == 0
            {
                self.rows.prefetch(slot, n);
            }
            match slots.get(k as usize) {
                _ if k == PADDING => f(p, None),
                Some(&slot) if slot & ASIDE == 0 => f(p, Some(&self.rows.values(slot)[..n])),
                Some(&slot) => f(p, Some(&aside[(slot & !ASIDE) as usize * n..][..n])),
                None => return p,
            }
        }
        inverse.len()
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

/// Adds a row, times its factor, to another.
struct AddRow<'a> {
    to: &'a mut [f32],
    row: &'a [f32],
    factor: f32,
}

impl WithSimd for AddRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        self.to.iter_mut().zip(self.row).for_each(|(to, row)| *to += self.factor * row);
    }
}

/// Adds the rows of a block of positions to their bags.
struct AddRows<'a> {
    rows: &'a Rows,
    slots: &'a [u32],
    bags: &'a Bags<'a>,
    first: usize,
    out: &'a mut [f32],
    dim: usize,
}

impl WithSimd for AddRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let AddRows { rows, slots, bags, first, out, dim } = self;
        for (i, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot != NO_KEY) {
            let bag = bags.of[first + i] as usize;
            let (to, row, factor) =
                (&mut out[bag * dim..(bag + 1) * dim], &rows.values(*slot)[..dim], bags.factor(first + i));
            to.iter_mut().zip(row).for_each(|(to, row)| *to += factor * row);
        }
    }
}
