//! The files of pages of a store, each of which has the rows of a range of hashes: what finds the page of a row.
//!
//! The size of small rows makes an index of each too large for the memory: here a row costs less than two bytes.

use crate::blocks::Read;
use crate::config::Options;
use crate::page::{PAGE, PageRows, Row, Run, Spot, prefix, row_bytes, rows_of_page};
use crate::readers::Readers;
use oneflow_base::Result;
use std::fs::File;
use std::sync::Arc;

/// Files of pages in use, and how the log is cut to be merged into them.
pub struct Pages {
    /// In the order of their hashes; no two have the same.
    runs: Vec<Run>,
    /// Bits of a hash that are the number of its part.
    part_bits: u32,
    /// The part to merge next.
    next_part: usize,
    /// Records that the log may hold.
    pub most_records: usize,
    /// Whether the store has pages at all.
    are_wanted: bool,
}

/// The least rows of a page for which rows lie in pages, if nothing else is said.
const LEAST_ROWS: usize = 8;
/// The part of the budget for the places of records in the log, bytes of one, and the least records.
const SHARE: u64 = 5;
const BYTES_A_PLACE: u64 = 28;
const LEAST_RECORDS: u64 = 128;
/// Bytes of the budget for each part of the log, and the fewest and the most parts, as powers of two.
const BYTES_A_PART: u64 = 1 << 20;
const PART_BITS: std::ops::RangeInclusive<u32> = 2..=6;
/// Budgets from here on hold everything: nothing is merged.
const UNLIMITED: u64 = 1 << 50;

impl Pages {
    pub fn new(options: &Options, width: usize) -> Pages {
        let are_wanted = options.pages.unwrap_or(rows_of_page(width, 1) >= LEAST_ROWS);
        let (is_limited, budget) = (options.memory_budget < UNLIMITED, options.memory_budget);
        let bits = (budget / BYTES_A_PART).max(1).ilog2().clamp(*PART_BITS.start(), *PART_BITS.end());
        let most = (budget / SHARE / BYTES_A_PLACE).max(LEAST_RECORDS);
        Pages {
            runs: Vec::new(),
            part_bits: if are_wanted && is_limited { bits } else { 0 },
            next_part: 0,
            most_records: if are_wanted && is_limited { most as usize } else { usize::MAX },
            are_wanted,
        }
    }

    /// Returns true if superseded rows leave by merging: rows lie in pages, or shall.
    pub fn are_used(&self) -> bool {
        self.are_wanted || !self.runs.is_empty()
    }

    pub fn n_parts(&self) -> usize {
        1 << self.part_bits
    }
    /// The part of the log for a hash.
    pub fn part(&self, hash: u64) -> usize {
        (hash >> 32 >> (32 - self.part_bits)) as usize
    }
    /// The prefixes of a part's hashes: the first and the last one.
    pub fn prefixes(&self, part: usize) -> (u32, u32) {
        let first = (part as u64) << (32 - self.part_bits);
        (first as u32, (first + (1u64 << (32 - self.part_bits)) - 1) as u32)
    }
    pub fn take_part(&mut self) -> usize {
        self.next_part = (self.next_part + 1) % self.n_parts();
        self.next_part
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }
    pub fn bytes(&self) -> usize {
        self.runs.iter().map(Run::bytes).sum()
    }

    /// The page that may have a row with this hash.
    pub fn find(&self, hash: u64) -> Option<Spot> {
        run_of(&self.runs, hash).map(|run| run.find(hash))
    }
    pub fn may_contain(&self, hash: u64) -> bool {
        run_of(&self.runs, hash).is_some()
    }

    /// Numbers of the files that have hashes between two prefixes.
    pub fn between(&self, first: u32, last: u32) -> std::ops::Range<usize> {
        let start = self.runs.partition_point(|r| r.last < first);
        start..self.runs.partition_point(|r| r.first <= last).max(start)
    }

    /// Takes files out, and others in their place. Returns those that were taken out.
    pub fn replace(&mut self, range: std::ops::Range<usize>, by: Vec<Run>) -> Vec<Run> {
        self.runs.splice(range, by).collect()
    }

    /// Takes over files in the order of their hashes.
    pub fn become_runs(&mut self, runs: Vec<Run>) {
        self.runs = runs;
    }
}

/// The file that may have a row with this hash, of those in the order of their hashes.
pub fn run_of(runs: &[Run], hash: u64) -> Option<&Run> {
    let after = runs.partition_point(|r| r.first <= prefix(hash));
    let run = runs.get(after.checked_sub(1)?)?;
    (prefix(hash) <= run.last && run.may_contain(hash)).then_some(run)
}

/// Blocks of a file of pages that are read at once.
const BLOCKS: u32 = 64;

impl Run {
    /// Calls `f` with each row in order and its page, until it returns false.
    pub fn visit(
        &self,
        file: &Arc<File>,
        readers: &Readers,
        width: usize,
        mut f: impl FnMut(Spot, Row<'_>) -> bool,
    ) -> Result<()> {
        let (mut page, mut goes_on) = (0, true);
        while goes_on && page < self.n_pages() {
            let (first, start) = (page, self.spot(page).block);
            let mut end = start;
            while page < self.n_pages() && end - start < BLOCKS {
                end += self.spot(page).n_blocks;
                page += 1;
            }
            let (offset, length) = (start as u64 * PAGE as u64, (end - start) as usize * PAGE);
            readers.read(&[Read { file: file.clone(), offset, length }], |_, bytes| {
                for spot in (first..page).map(|p| self.spot(p)) {
                    let at = (spot.block - start) as usize * PAGE;
                    let rows = PageRows::of(&bytes[at..at + spot.n_blocks as usize * PAGE], spot, width)?;
                    goes_on = goes_on && rows.iter().all(|row| f(spot, row));
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Bytes of the rows of a new file of pages, at most, for a budget.
pub fn most_bytes(budget: u64, width: usize) -> u64 {
    let most_records = crate::log::MAX_RECORDS as u64 * row_bytes(width) as u64;
    (budget / 4).clamp(1 << 20, 256 << 20).min(most_records)
}
