//! Records of the log moved into pages, a part of all hashes at a time: the part's files of pages are read in order, its records
//! take the place of what they supersede, and new files take the place of the old ones.
//!
//! Changes nothing before the new files are written; what a manifest needs stays on disk. A part in which something is damaged
//! is left as it is: its rows are named when somebody asks for them.

use crate::batch::Key;
use crate::disk::{Wanted, Where};
use crate::epochs::SLACK;
use crate::folder::Folder;
use crate::log::{Log, MAX_RECORDS, Place};
use crate::page::{PAGE, PagesWriter, Row, Run, pages_name, prefix};
use crate::pages::{Pages, most_bytes};
use crate::queues::{DEAD, DIRTY};
use crate::rows::ON_PAGE;
use crate::store::Store;
use oneflow_base::Result;
use std::fs::File;
use std::ops::Range;

/// Records of the log that are read at once.
const RECORDS: usize = 1 << 12;
/// While rows of this share of the store, or more, are newer in memory, what they supersede is looked for and left out.
const DIRTY_SHARE: usize = 8;

/// How many times as many places the log may have where merging it would take too much of the disk.
const LONGER: usize = 2;

/// Bytes of a place of the log in a manifest.
const PLACE_BYTES: u64 = 16;

/// A record of the log that is moved: its hash, its key, its entry, and where in `Moved::words` it begins; or a removal.
struct Move {
    hash: u64,
    key: Key,
    entry: u32,
    place: Place,
    at: Option<usize>,
}

/// The records of a part, in the order of their hashes.
#[derive(Default)]
struct Moved {
    moves: Vec<Move>,
    words: Vec<u32>,
}

/// New files of pages.
struct Output<'a> {
    folder: &'a Folder,
    width: usize,
    /// Of a file.
    most_bytes: u64,
    writer: Option<PagesWriter<'a>>,
    /// The part of the rows of the file that is written.
    part: usize,
    made: Vec<(Run, File)>,
}

impl<'a> Output<'a> {
    /// Adds a row, which is of this part.
    fn push(&mut self, hash: u64, part: usize, record: &[u32], log: &mut Log) -> Result<()> {
        if let Some(writer) = self.writer.take_if(|w| {
            let is_full = w.bytes() >= self.most_bytes || w.n_records() >= MAX_RECORDS;
            w.can_end_before(hash) && (is_full || part != self.part)
        }) {
            self.end(writer)?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                self.part = part;
                self.writer.insert(PagesWriter::new(self.folder, log.take_number()?, self.width)?)
            }
        };
        writer.push(hash, record)
    }

    fn end(&mut self, writer: PagesWriter<'a>) -> Result<()> {
        let name = writer.name().to_string();
        match writer.finish() {
            Ok(made) => self.made.push(made),
            Err(e) => {
                // What cannot be removed now is when the store is opened next.
                let _ = self.folder.remove(&name);
                return Err(e);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<(Run, File)>> {
        if let Some(writer) = self.writer.take()
            && let Err(e) = self.end(writer)
        {
            self.discard();
            return Err(e);
        }
        Ok(self.made)
    }

    /// Removes what was written.
    fn discard(&mut self) {
        let names = self.made.iter().map(|(run, _)| pages_name(run.segment));
        let names: Vec<String> = names.chain(self.writer.take().map(|w| w.name().to_string())).collect();
        // As in `end`.
        names.iter().for_each(|name| drop(self.folder.remove(name)));
    }
}

impl Store {
    /// Merges parts until the log is as small as its places in memory must be.
    ///
    /// A part whose files a manifest needs is on disk twice once it is merged. Where that would be more than twice what lives, its
    /// log may take more of the memory first.
    pub(crate) fn bound_log(&mut self) -> Result<()> {
        while self.places.len() > self.pages.most_records {
            let mut sizes = vec![0; self.pages.n_parts()];
            self.places.entries().for_each(|(_, key, _)| sizes[self.pages.part(key.hash())] += 1);
            // Where parts that cannot be merged hold the most, the others are not merged for a few records.
            let enough = self.pages.most_records / sizes.len() / 2;
            let room = (2 * self.live_bytes()).saturating_sub(self.disk_bytes() + self.manifest_bytes());
            let fits = |part: &usize| self.kept_bytes(*part) <= room;
            let parts = (0..sizes.len()).filter(|part| sizes[*part] > enough && !self.is_damaged(*part));
            let is_full = self.places.len() > self.pages.most_records * LONGER;
            let largest = parts.clone().filter(fits).max_by_key(|part| sizes[*part]);
            let any = || parts.filter(|_| is_full).max_by_key(|part| sizes[*part]);
            let Some(part) = largest.or_else(any) else { break };
            let before = self.places.len();
            self.merge(part)?;
            if self.places.len() == before && !self.is_damaged(part) {
                // None of its records can be read.
                break;
            }
        }
        Ok(())
    }

    /// Bytes of the places of the log in the next manifest.
    pub(crate) fn manifest_bytes(&self) -> u64 {
        PLACE_BYTES * self.places.len() as u64
    }

    /// Bytes that merges write while a call changes `n` rows.
    pub(crate) fn merges_of(&self, n: usize) -> u64 {
        let enough = (self.pages.most_records / self.pages.n_parts() / 2).max(1);
        let n_merges = (1 + n / enough).min(self.pages.n_parts());
        let largest = (0..self.pages.n_parts()).map(|part| self.part_bytes(part, |_| true)).max();
        n_merges as u64 * largest.unwrap_or(0)
    }

    /// The bytes of a part's files that a manifest needs.
    fn kept_bytes(&self, part: usize) -> u64 {
        self.part_bytes(part, |run| self.is_pinned(run.segment))
    }

    /// The bytes of those of a part's files for which `f` returns true.
    fn part_bytes(&self, part: usize, f: impl Fn(&Run) -> bool) -> u64 {
        let (first, last) = self.pages.prefixes(part);
        let runs = &self.pages.runs()[self.pages.between(first, last)];
        runs.iter().filter(|run| f(run)).map(|run| run.n_blocks as u64 * PAGE as u64).sum()
    }

    /// Returns true if a file of a part holds what cannot be read.
    fn is_damaged(&self, part: usize) -> bool {
        let (first, last) = self.pages.prefixes(part);
        let runs = &self.pages.runs()[self.pages.between(first, last)];
        runs.iter().any(|run| self.log.damaged.contains(&run.segment))
    }

    /// Merges parts until what is not kept holds at most twice the rows that are newest on disk.
    /// Returns false if it still holds more, since something cannot be read.
    pub(crate) fn bound_pages(&mut self, is_kept: impl Fn(&Store, u32) -> bool) -> Result<bool> {
        for _ in 0..self.pages.n_parts() {
            let of_use = |s: &&u32| !is_kept(self, **s);
            let used = self.log.segments.iter().filter(|(_, s)| s.n_live > 0).map(|(n, _)| n).filter(of_use);
            let n_records: u64 = used.map(|n| self.log.segments[n].n_records as u64).sum();
            if n_records <= 2 * self.n_on_disk() + SLACK {
                return Ok(true);
            }
            let part = self.pages.take_part();
            self.merge(part)?;
            self.remove_dead();
        }
        Ok(false)
    }

    /// Rows whose newest numbers are on disk.
    pub(crate) fn n_on_disk(&self) -> u64 {
        (self.n_rows - self.n_dirty.min(self.n_rows)) as u64
    }

    /// Merges all parts, so that the log is empty and no page holds what is superseded.
    pub(crate) fn merge_all(&mut self) -> Result<()> {
        (0..self.pages.n_parts()).try_for_each(|part| self.merge(part))
    }

    /// Moves the records of a part of the log into pages.
    fn merge(&mut self, part: usize) -> Result<()> {
        let (mut first, mut last) = self.pages.prefixes(part);
        // Files of another cut may go beyond the part.
        let range = self.pages.between(first, last);
        if self.is_damaged(part) {
            return Ok(());
        }
        for run in &self.pages.runs()[range.clone()] {
            (first, last) = (first.min(run.first), last.max(run.last));
        }
        // Its segment is then free, unless a manifest needs it.
        self.log.seal(part)?;
        let moved = self.records_between(first, last)?;
        if moved.moves.is_empty() && range.is_empty() {
            return Ok(());
        }
        let Some(made) = self.write_merged(range.clone(), &moved)? else { return Ok(()) };
        let mut runs = Vec::with_capacity(made.len());
        for (run, file) in made {
            self.log.adopt(run.segment, file, run.n_records, run.n_blocks);
            runs.push(run);
        }
        for run in self.pages.replace(range, runs) {
            self.log.retire(run.segment);
        }
        for m in &moved.moves {
            if let Some(slot) = self.slots.get(m.key, &self.rows)
                && self.rows.flags[slot as usize] & (DEAD | DIRTY) == 0
                && self.rows.on_disk(slot) == m.entry
            {
                self.rows.set_on_disk(slot, ON_PAGE);
            }
            self.places.remove(m.entry);
            if m.at.is_some() {
                self.log.forget(m.place);
                self.counts.moved += 1;
            }
        }
        self.remove_dead();
        Ok(())
    }

    /// The records of the log with hashes between two prefixes. Damaged ones are left out, and stay in the log.
    fn records_between(&mut self, first: u32, last: u32) -> Result<Moved> {
        let mut moves: Vec<Move> = Vec::new();
        for (entry, key, place) in self.places.entries() {
            let hash = key.hash();
            if (first..=last).contains(&prefix(hash)) {
                moves.push(Move { hash, key, entry, place, at: None });
            }
        }
        moves.sort_unstable_by_key(|m| m.place);
        let n = self.log.record_bytes() / 4;
        let mut words = Vec::new();
        let mut whole = Vec::with_capacity(moves.len());
        let mut rest = moves.into_iter().peekable();
        while rest.peek().is_some() {
            let mut part: Vec<Move> = rest.by_ref().take(RECORDS).collect();
            let wanted: Vec<Wanted> = part.iter().filter(|m| !m.place.is_gone()).map(wanted_of).collect();
            let start = words.len();
            if let Ok(found) = self.log.read(&self.readers, &wanted) {
                words.extend(found.words);
                let read = part.iter_mut().filter(|m| !m.place.is_gone());
                read.enumerate().for_each(|(i, m)| m.at = Some(start + i * n));
                whole.append(&mut part);
                continue;
            }
            for mut m in part {
                if m.place.is_gone() {
                    whole.push(m);
                } else if let Ok(found) = self.log.read(&self.readers, &[wanted_of(&m)]) {
                    m.at = Some(words.len());
                    words.extend(found.words);
                    whole.push(m);
                }
            }
        }
        whole.sort_unstable_by_key(|m| (m.hash, m.key));
        Ok(Moved { moves: whole, words })
    }

    /// Writes the rows of some files of pages and of the log together. None if something of the old files cannot be read.
    fn write_merged(&mut self, old: Range<usize>, moved: &Moved) -> Result<Option<Vec<(Run, File)>>> {
        let (folder, width) = (self.folder.clone(), self.config.width());
        let mut output = Output {
            folder: &folder,
            width,
            most_bytes: most_bytes(self.memory_budget, width),
            writer: None,
            part: 0,
            made: Vec::new(),
        };
        match self.merge_into(&mut output, old, moved) {
            Ok(true) => output.finish().map(Some),
            Ok(false) => {
                output.discard();
                Ok(None)
            }
            Err(e) => {
                output.discard();
                Err(e)
            }
        }
    }

    /// Returns false if something of the old files cannot be read.
    fn merge_into(&mut self, output: &mut Output<'_>, old: Range<usize>, moved: &Moved) -> Result<bool> {
        let (n, width) = (self.log.record_bytes() / 4, self.config.width());
        let leaves_dirty = self.n_dirty > self.n_rows / DIRTY_SHARE;
        let (log, pages, readers) = (&mut self.log, &self.pages, &self.readers);
        let (slots, rows) = (&self.slots, &self.rows);
        let is_superseded = |key| slots.get(key, rows).is_some_and(|slot| rows.flags[slot as usize] & DIRTY != 0);
        let mut rest = moved.moves.iter().peekable();
        let mut record = vec![0; n];
        for run in &pages.runs()[old] {
            let mut written = Ok(());
            let mut write = |row: Row<'_>, log: &mut Log| {
                let key = row.key();
                let hash = key.hash();
                let mut is_moved = false;
                while let Some(m) = rest.next_if(|m| (m.hash, m.key) <= (hash, key)) {
                    is_moved |= m.key == key;
                    moved.push(m, n, output, pages, log)?;
                }
                if is_moved || (leaves_dirty && is_superseded(key)) {
                    return Ok(());
                }
                row.copy(&mut record);
                output.push(hash, pages.part(hash), &record, log)
            };
            let read = log.file_to_read(run.segment).and_then(|file| {
                run.visit(&file, readers, width, |_, row| {
                    written = write(row, log);
                    written.is_ok()
                })
            });
            written?;
            if read.is_err() {
                log.damaged.insert(run.segment);
                return Ok(false);
            }
        }
        for m in rest {
            moved.push(m, n, output, pages, log)?;
        }
        Ok(true)
    }
}

impl Moved {
    /// Writes a record that is moved, unless it is a removal.
    fn push(&self, m: &Move, n: usize, output: &mut Output<'_>, pages: &Pages, log: &mut Log) -> Result<()> {
        match m.at {
            Some(at) => output.push(m.hash, pages.part(m.hash), &self.words[at..at + n], log),
            None => Ok(()),
        }
    }
}

fn wanted_of(m: &Move) -> Wanted {
    Wanted { key: m.key, at: Where::Record(m.place) }
}
