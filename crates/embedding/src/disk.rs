//! Where rows are on disk, in records of the log or in pages, and reads of many of them at once.

use crate::batch::Key;
use crate::log::{Log, Place, accept};
use crate::page::{PageRows, Spot};
use crate::readers::Readers;
use crate::store::Store;
use oneflow_base::Result;

/// Where a row is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    Record(Place),
    /// In this page, if there is such a row at all.
    Page(Spot),
}

impl Where {
    pub fn segment(self) -> u32 {
        match self {
            Where::Record(place) => place.segment(),
            Where::Page(spot) => spot.segment,
        }
    }
    /// The order in which rows are read.
    pub fn order(self) -> (u32, u32) {
        match self {
            Where::Record(place) => (place.segment(), place.record()),
            Where::Page(spot) => (spot.segment, spot.block),
        }
    }
}

/// A row to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub key: Key,
    pub at: Where,
}

/// Records one after the other, and which of them were there: a page may lack a row that its filter does not deny.
#[derive(Default)]
pub struct Found {
    pub words: Vec<u32>,
    pub are_there: Vec<bool>,
}

/// Copies the record of a row out of what was read for it. Returns false if a page does not hold it.
pub fn take(bytes: &[u8], wanted: &Wanted, record: &mut [u32]) -> Result<bool> {
    match wanted.at {
        Where::Record(place) => {
            accept(bytes, place, wanted.key.id, record)?;
            Ok(true)
        }
        Where::Page(spot) => {
            let width = record.len() - crate::log::HEADER;
            let row = PageRows::of(bytes, spot, width)?.find(wanted.key);
            if let Some(row) = row {
                row.copy(record);
            }
            Ok(row.is_some())
        }
    }
}

impl Log {
    /// Reads rows: all that is on disk in one go.
    pub fn read(&mut self, readers: &Readers, wanted: &[Wanted]) -> Result<Found> {
        let n = self.record_bytes() / 4;
        let mut found = Found { words: vec![0; wanted.len() * n], are_there: vec![false; wanted.len()] };
        let (mut reads, mut which) = (Vec::new(), Vec::new());
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_unstable_by_key(|i| wanted[*i].at.order());
        for i in order {
            match self.read_of(wanted[i].at)? {
                Some(read) => {
                    reads.push(read);
                    which.push(i);
                }
                None => {
                    if let Where::Record(place) = wanted[i].at
                        && let Some(bytes) = self.buffered(place)
                    {
                        found.are_there[i] = take(bytes, &wanted[i], &mut found.words[i * n..(i + 1) * n])?;
                    }
                }
            }
        }
        if which.is_empty() {
            return Ok(found);
        }
        let damaged = &mut self.damaged;
        readers.read(&reads, |r, bytes| {
            let i = which[r];
            let taken = take(bytes, &wanted[i], &mut found.words[i * n..(i + 1) * n]);
            found.are_there[i] = taken.inspect_err(|_| {
                damaged.insert(wanted[i].at.segment());
            })?;
            Ok(())
        })?;
        Ok(found)
    }
}

impl Store {
    /// Where the row of a key that is not in memory is, or may be.
    pub(crate) fn locate(&self, key: Key) -> Option<Where> {
        match self.places.find(key).map(|entry| self.places.get(entry)) {
            Some(place) if place.is_gone() => None,
            Some(place) => Some(Where::Record(place)),
            None => self.pages.find(key.hash()).map(Where::Page),
        }
    }

    /// Which of these keys, none of them in memory, have a row.
    pub(crate) fn have_rows(&mut self, keys: &[Key]) -> Result<Vec<bool>> {
        let mut have = vec![false; keys.len()];
        let (mut wanted, mut which) = (Vec::new(), Vec::new());
        for (i, &key) in keys.iter().enumerate() {
            match self.locate(key) {
                Some(Where::Record(_)) => have[i] = true,
                Some(at) => {
                    wanted.push(Wanted { key, at });
                    which.push(i);
                }
                None => {}
            }
        }
        let found = self.log.read(&self.readers, &wanted)?;
        which.into_iter().zip(found.are_there).for_each(|(i, there)| have[i] = there);
        Ok(have)
    }
}
