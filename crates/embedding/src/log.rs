//! Segment files of records of one size. Only the newest ones grow; what is superseded or removed leaves with its segment.
//!
//! Independent of keys: the store tells which records are live, and in which of the log's parts a record goes; each part has
//! a segment that grows. A record is 24 bytes of header, whose last word is the checksum of all else and of the record's own
//! place, and then the numbers of a row. Files of pages (`page.rs`) are segments as well, which never grow.

use crate::blocks::Read;
use crate::disk::Where;
use crate::folder::Folder;
use crate::page::{PAGE, pages_name};
use crate::readers::Readers;
use oneflow_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

/// Words of a record before its numbers: id (2), table, step, frequency, checksum.
pub const HEADER: usize = 6;
/// Position of the checksum in the header; in memory it holds the row's location on disk.
pub const CHECKSUM: usize = 5;

/// The location of a record: 32 bits of segment, 20 of record, 12 of table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place(pub u64);

pub const MAX_RECORDS: usize = 1 << 20;

impl Place {
    pub fn new(segment: u32, record: u32, table: u32) -> Place {
        Place((segment as u64) << 32 | (record as u64) << 12 | table as u64)
    }
    /// No record: the row was removed, and a page may still hold it.
    pub fn gone(table: u32) -> Place {
        Place::new(u32::MAX, 0, table)
    }
    pub fn is_gone(self) -> bool {
        self.segment() == u32::MAX
    }
    pub fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }
    pub fn record(self) -> u32 {
        (self.0 >> 12) as u32 & (MAX_RECORDS as u32 - 1)
    }
    pub fn table(self) -> u32 {
        self.0 as u32 & 0xFFF
    }
}

#[derive(Clone, Copy, Default)]
pub struct Segment {
    pub n_records: u32,
    /// Of a file of pages all of them, or none if it is not in use any more.
    pub n_live: u32,
    /// The blocks of a file of pages; 0 for one of records.
    pub n_blocks: u32,
}

impl Segment {
    pub fn is_of_pages(&self) -> bool {
        self.n_blocks > 0
    }
}

/// The end of a part of the log.
#[derive(Default)]
struct Tail {
    /// The segment that grows, if one does, and how many of its records are written; the rest is in `buffer`.
    active: Option<(u32, u32)>,
    buffer: Vec<u8>,
}

pub struct Log {
    folder: Arc<Folder>,
    record_bytes: usize,
    per_segment: u32,
    pub segments: BTreeMap<u32, Segment>,
    tails: Vec<Tail>,
    /// Bytes of a tail that are written at once.
    buffer_bytes: usize,
    next: u32,
    unsynced: BTreeSet<u32>,
    /// Records that were appended or forgotten.
    pub n_changes: u64,
    files: HashMap<u32, Arc<File>>,
    /// The same for direct reads, if the store has them.
    direct_files: HashMap<u32, Arc<File>>,
    is_direct: bool,
    /// Segments that hold a damaged record: nothing moves out of them.
    pub damaged: BTreeSet<u32>,
}

/// Bytes that are written at once by all parts together, and by each at least.
const BUFFERS: usize = 1 << 20;
const LEAST_BUFFER: usize = 1 << 14;
/// Files open at a time.
const MAX_FILES: usize = 256;
const SEGMENT_BYTES: usize = 256 << 20;

pub fn segment_name(segment: u32) -> String {
    format!("{segment:08}.rows")
}

impl Log {
    pub fn new(folder: Arc<Folder>, width: usize, per_segment: usize, n_parts: usize, next: u32) -> Log {
        let record_bytes = 4 * (HEADER + width);
        let per_segment = if per_segment == 0 { SEGMENT_BYTES / record_bytes } else { per_segment };
        Log {
            folder,
            record_bytes,
            per_segment: per_segment.clamp(1, MAX_RECORDS) as u32,
            segments: BTreeMap::new(),
            tails: (0..n_parts).map(|_| Tail::default()).collect(),
            buffer_bytes: (BUFFERS / n_parts.max(1)).max(LEAST_BUFFER),
            next,
            unsynced: BTreeSet::new(),
            n_changes: 0,
            files: HashMap::new(),
            direct_files: HashMap::new(),
            is_direct: false,
            damaged: BTreeSet::new(),
        }
    }

    /// Lets later reads pass by the system's cache, if the file system has such reads.
    pub fn read_directly(&mut self) {
        self.is_direct = true;
    }
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    pub fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// Appends a record, which lives. It can be read at once; on disk it is some time before `sync` returns.
    pub fn append(&mut self, part: usize, head: &[u32], values: &[f32]) -> Result<Place> {
        if self.tails[part].buffer.len() >= self.buffer_bytes {
            self.flush(part)?;
        }
        let segment = match self.tails[part].active {
            Some((s, _)) if self.segments.get(&s).is_some_and(|g| g.n_records < self.per_segment) => s,
            _ => self.start_segment(part)?,
        };
        let entry = self.segments.entry(segment).or_default();
        let place = Place::new(segment, entry.n_records, head[2]);
        entry.n_records += 1;
        entry.n_live += 1;
        self.n_changes += 1;
        let buffer = &mut self.tails[part].buffer;
        let start = buffer.len();
        buffer.resize(start + self.record_bytes, 0);
        let (to_head, to_values) = buffer[start..].split_at_mut(4 * HEADER);
        to_head.chunks_exact_mut(4).zip(head).for_each(|(b, w)| b.copy_from_slice(&w.to_le_bytes()));
        to_values.chunks_exact_mut(4).zip(values).for_each(|(b, v)| b.copy_from_slice(&v.to_le_bytes()));
        let sum = checksum(&buffer[start..], place);
        buffer[start + 4 * CHECKSUM..start + 4 * HEADER].copy_from_slice(&sum.to_le_bytes());
        Ok(place)
    }

    fn start_segment(&mut self, part: usize) -> Result<u32> {
        self.seal(part)?;
        let segment = self.take_number()?;
        let file = self.folder.create(&segment_name(segment))?;
        self.files.insert(segment, Arc::new(file));
        self.segments.insert(segment, Segment::default());
        self.tails[part].active = Some((segment, 0));
        Ok(segment)
    }

    /// The number of a new segment.
    pub fn take_number(&mut self) -> Result<u32> {
        if self.next >= u32::MAX - 1 {
            return Err(Error::runtime("embedding: the store has used up its segment numbers"));
        }
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Writes what a part has buffered. After a failure all of it is still there to read and to write again.
    fn flush(&mut self, part: usize) -> Result<()> {
        let Some((segment, n_written)) = self.tails[part].active else { return Ok(()) };
        if self.tails[part].buffer.is_empty() {
            return Ok(());
        }
        let file = self.file(segment)?;
        let offset = n_written as u64 * self.record_bytes as u64;
        self.unsynced.insert(segment);
        let tail = &mut self.tails[part];
        self.folder.write_at(&file, &segment_name(segment), &tail.buffer, offset)?;
        let n = (tail.buffer.len() / self.record_bytes) as u32;
        tail.active = Some((segment, n_written + n));
        tail.buffer.clear();
        Ok(())
    }

    /// Ends the segment of a part that grows, so that its next record starts another one.
    pub fn seal(&mut self, part: usize) -> Result<()> {
        self.flush(part)?;
        self.tails[part].active = None;
        Ok(())
    }

    pub fn seal_all(&mut self) -> Result<()> {
        (0..self.tails.len()).try_for_each(|part| self.seal(part))
    }

    /// The part in which a segment grows.
    pub fn part_of(&self, segment: u32) -> Option<usize> {
        self.tails.iter().position(|t| t.active.is_some_and(|a| a.0 == segment))
    }

    /// The segment of each part that grows.
    pub fn active(&self) -> impl Iterator<Item = (usize, u32)> {
        self.tails.iter().enumerate().filter_map(|(part, t)| Some((part, t.active?.0)))
    }

    /// Makes everything that was appended last.
    pub fn sync(&mut self) -> Result<()> {
        (0..self.tails.len()).try_for_each(|part| self.flush(part))?;
        while let Some(&segment) = self.unsynced.first() {
            let file = self.file(segment)?;
            self.folder.sync(&file, &self.name(segment))?;
            self.unsynced.remove(&segment);
        }
        Ok(())
    }

    /// Takes over a file of pages that was written.
    pub fn adopt(&mut self, segment: u32, file: File, n_records: u32, n_blocks: u32) {
        self.files.insert(segment, Arc::new(file));
        self.segments.insert(segment, Segment { n_records, n_live: n_records, n_blocks });
        self.unsynced.insert(segment);
    }

    /// A file of pages is in use no more.
    pub fn retire(&mut self, segment: u32) {
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.n_live = 0;
            self.n_changes += 1;
        }
    }

    fn name(&self, segment: u32) -> String {
        let is_of_pages = self.segments.get(&segment).is_some_and(Segment::is_of_pages);
        if is_of_pages { pages_name(segment) } else { segment_name(segment) }
    }

    fn file(&mut self, segment: u32) -> Result<Arc<File>> {
        if let Some(file) = self.files.get(&segment) {
            return Ok(file.clone());
        }
        if self.files.len() >= MAX_FILES {
            // Readers keep those that they use.
            self.files.clear();
        }
        let file = Arc::new(self.folder.open_file(&self.name(segment))?);
        self.files.insert(segment, file.clone());
        Ok(file)
    }

    /// The file as it is read: past the system's cache where that is wanted and possible.
    pub fn file_to_read(&mut self, segment: u32) -> Result<Arc<File>> {
        if !self.is_direct {
            return self.file(segment);
        }
        if let Some(file) = self.direct_files.get(&segment) {
            return Ok(file.clone());
        }
        match self.folder.open_direct(&self.name(segment))? {
            None => {
                self.is_direct = false;
                self.file(segment)
            }
            Some(file) => {
                if self.direct_files.len() >= MAX_FILES {
                    self.direct_files.clear();
                }
                self.direct_files.insert(segment, file.clone());
                Ok(file)
            }
        }
    }

    /// A record's row is newer in memory, or gone.
    pub fn forget(&mut self, place: Place) {
        if let Some(segment) = self.segments.get_mut(&place.segment()) {
            segment.n_live = segment.n_live.saturating_sub(1);
            self.n_changes += 1;
        }
    }

    /// Removes the file of a segment in which nothing lives.
    pub fn remove(&mut self, segment: u32) {
        let name = self.name(segment);
        self.segments.remove(&segment);
        self.files.remove(&segment);
        self.direct_files.remove(&segment);
        self.unsynced.remove(&segment);
        self.damaged.remove(&segment);
        // What cannot be removed now is when the store is opened next.
        let _ = self.folder.remove(&name);
    }

    /// What to read for a row; None while its record waits to be written.
    pub fn read_of(&mut self, at: Where) -> Result<Option<Read>> {
        let (segment, offset, length) = match at {
            Where::Page(spot) => (spot.segment, spot.block as u64 * PAGE as u64, spot.n_blocks as usize * PAGE),
            Where::Record(place) if self.buffered(place).is_some() => return Ok(None),
            Where::Record(place) => {
                (place.segment(), place.record() as u64 * self.record_bytes as u64, self.record_bytes)
            }
        };
        Ok(Some(Read { file: self.file_to_read(segment)?, offset, length }))
    }

    /// The bytes of a record that waits to be written.
    pub fn buffered(&self, place: Place) -> Option<&[u8]> {
        let of = |t: &&Tail| t.active.is_some_and(|(s, n)| s == place.segment() && place.record() >= n);
        let tail = self.tails.iter().find(of)?;
        let at = (place.record() - tail.active?.1) as usize * self.record_bytes;
        tail.buffer.get(at..at + self.record_bytes)
    }

    /// The records of a segment that does not grow, as rows; None for those that are damaged.
    pub fn read_range(&mut self, readers: &Readers, segment: u32, range: Range<u32>) -> Result<Vec<Option<Vec<u32>>>> {
        let size = self.record_bytes;
        let file = self.file_to_read(segment)?;
        let whole = Read { file, offset: range.start as u64 * size as u64, length: range.len() * size };
        let row = |(record, bytes): (u32, &[u8])| {
            let id = u64::from_le_bytes(std::array::from_fn(|i| bytes[i]));
            let table = u32::from_le_bytes(std::array::from_fn(|i| bytes[8 + i]));
            let mut row = vec![0; size / 4];
            let fits = table < crate::config::MAX_TABLES as u32;
            let read = fits.then(|| accept(bytes, Place::new(segment, record, table), id, &mut row));
            read.is_some_and(|r| r.is_ok()).then_some(row)
        };
        let mut rows = Vec::with_capacity(range.len());
        readers.read(&[whole], |_, bytes| {
            rows.extend(range.clone().zip(bytes.chunks_exact(size)).map(row));
            Ok(())
        })?;
        Ok(rows)
    }
}

/// Copies a record whose header is valid; its checksum becomes 0.
pub fn accept(bytes: &[u8], place: Place, id: u64, row: &mut [u32]) -> Result<()> {
    for (w, b) in row.iter_mut().zip(bytes.chunks_exact(4)) {
        *w = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    }
    let found = (row[0] as u64 | (row[1] as u64) << 32, row[2]);
    if row[CHECKSUM] != checksum(bytes, place) || found != (id, place.table()) {
        return Err(damaged(place));
    }
    row[CHECKSUM] = 0;
    Ok(())
}

pub fn damaged(place: Place) -> Error {
    Error::runtime(format!(
        "embedding: record {} of {} is damaged: its checksum does not fit its bytes. The row is not served; load a \
         snapshot that does not use this file",
        place.record(),
        segment_name(place.segment())
    ))
}

/// Of all of a record but the checksum itself, and of its place.
pub fn checksum(record: &[u8], place: Place) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place.0.to_le_bytes());
    hasher.update(&record[..4 * CHECKSUM]);
    hasher.update(&record[4 * HEADER..]);
    hasher.finalize()
}
