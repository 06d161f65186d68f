//! Files of pages: rows in the order of the hashes of their keys, in pages of one block or, where keys have equal hashes, more.
//!
//! A page begins with its checksum, which is also of its own place, and is read and checked whole. Behind the pages the file has
//! a foot: the first hash of each page, where it begins, and a Bloom filter of all keys. Such a file is written once, whole, and
//! never changed. Knows no store: `pages.rs` finds rows in the files in use, `merge.rs` makes them.

use crate::batch::Key;
use crate::folder::Folder;
use crate::log::HEADER;
use crate::rows::key_of;
use oneflow_base::{Error, Result};
use std::fs::File;

/// Bytes of a block. Pages are whole blocks, which direct reads take as they are.
pub const PAGE: usize = 4096;
/// Bytes before the rows of a page: its checksum, the number of its rows, and that of the page.
const PAGE_HEAD: usize = 12;
/// Words of a row's header in a page; its checksum is the page's.
const ROW_HEAD: usize = HEADER - 1;
const MAGIC: &[u8; 8] = b"ofpages1";
/// Words of a foot before its lists.
const FOOT_HEAD: usize = 8;
/// Bits of the filter for each row, those that a row sets, and bits of a block of the filter: one cache line.
const FILTER_BITS: usize = 10;
const N_HASHES: usize = 6;
const LINE_BITS: usize = 512;
const LINE_WORDS: usize = LINE_BITS / 64;
/// Bytes that are written at once.
const BUFFER: usize = 1 << 18;

pub fn pages_name(segment: u32) -> String {
    format!("{segment:08}.pages")
}

/// Bytes of a row of so many numbers in a page.
pub fn row_bytes(width: usize) -> usize {
    4 * (ROW_HEAD + width)
}

/// Rows of so many numbers that a page of so many blocks holds.
pub fn rows_of_page(width: usize, n_blocks: usize) -> usize {
    (n_blocks * PAGE - PAGE_HEAD) / row_bytes(width)
}

/// What of a hash orders pages.
pub fn prefix(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// The location of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    pub segment: u32,
    pub page: u32,
    pub block: u32,
    pub n_blocks: u32,
}

fn damaged(spot: Spot) -> Error {
    Error::runtime(format!(
        "embedding: page {} of {} is damaged: its checksum does not fit its bytes. Its rows are not served; load a snapshot \
         that does not use this file",
        spot.page,
        pages_name(spot.segment)
    ))
}

fn checksum(page: &[u8], segment: u32, number: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&segment.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.update(&page[4..]);
    hasher.finalize()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The rows of a page, whose checksum fits.
pub struct PageRows<'a> {
    rows: &'a [u8],
    row_bytes: usize,
}

impl<'a> PageRows<'a> {
    /// Checks a page.
    pub fn of(page: &'a [u8], spot: Spot, width: usize) -> Result<PageRows<'a>> {
        if page.len() <= PAGE_HEAD || word(page, 0) != checksum(page, spot.segment, spot.page) {
            return Err(damaged(spot));
        }
        let (n, row_bytes) = (word(page, 4) as usize, row_bytes(width));
        match n.checked_mul(row_bytes).and_then(|bytes| page[PAGE_HEAD..].get(..bytes)) {
            Some(rows) => Ok(PageRows { rows, row_bytes }),
            None => Err(damaged(spot)),
        }
    }

    /// The bytes of each row.
    pub fn iter(&self) -> impl Iterator<Item = Row<'a>> + use<'a> {
        self.rows.chunks_exact(self.row_bytes).map(Row)
    }

    pub fn find(&self, key: Key) -> Option<Row<'a>> {
        self.iter().find(|row| row.key() == key)
    }
}

/// A row in a page.
#[derive(Clone, Copy)]
pub struct Row<'a>(&'a [u8]);

impl Row<'_> {
    #[inline(always)]
    pub fn key(self) -> Key {
        let id = word(self.0, 0) as u64 | (word(self.0, 4) as u64) << 32;
        Key { table: word(self.0, 8), id }
    }

    /// Copies it as a record is read: its checksum is 0.
    pub fn copy(self, record: &mut [u32]) {
        let words = self.0.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let (head, values) = record.split_at_mut(HEADER);
        head[ROW_HEAD] = 0;
        head[..ROW_HEAD].iter_mut().chain(values).zip(words).for_each(|(to, w)| *to = w);
    }

    /// Copies the first of its numbers.
    pub fn copy_values(self, out: &mut [f32]) {
        let words = self.0[4 * ROW_HEAD..].chunks_exact(4);
        out.iter_mut().zip(words).for_each(|(o, b)| *o = f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    }
}

/// A file of pages that is in use: what finds a row's page.
pub struct Run {
    pub segment: u32,
    /// The prefixes of its first and its last row.
    pub first: u32,
    pub last: u32,
    pub n_records: u32,
    pub n_blocks: u32,
    /// The prefix of the first row of each page. No two pages have rows with the same.
    fences: Vec<u32>,
    /// The block in which each page begins.
    starts: Vec<u32>,
    filter: Vec<u64>,
}

fn filter_words(n_records: usize) -> usize {
    (n_records * FILTER_BITS).div_ceil(LINE_BITS).max(1) * LINE_WORDS
}

/// The cache line of a filter and the bits there that a hash sets.
fn filter_bits(hash: u64, n_words: usize) -> (usize, impl Iterator<Item = usize>) {
    let n_lines = (n_words / LINE_WORDS) as u64;
    let line = ((hash & u32::MAX as u64) * n_lines) >> 32;
    let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (line as usize * LINE_WORDS, (0..N_HASHES).map(move |i| (mixed >> (64 - 9 * (i + 1))) as usize % LINE_BITS))
}

impl Run {
    pub fn n_pages(&self) -> usize {
        self.fences.len()
    }

    /// Bytes of it in memory.
    pub fn bytes(&self) -> usize {
        size_of::<Run>() + 4 * (self.fences.capacity() + self.starts.capacity()) + 8 * self.filter.capacity()
    }

    /// False if no row has this hash; true of one key in a hundred, about, that has none.
    pub fn may_contain(&self, hash: u64) -> bool {
        let (line, mut bits) = filter_bits(hash, self.filter.len());
        bits.all(|bit| self.filter[line + bit / 64] >> (bit % 64) & 1 == 1)
    }

    pub fn spot(&self, page: usize) -> Spot {
        let block = self.starts[page];
        let end = self.starts.get(page + 1).copied().unwrap_or(self.n_blocks);
        Spot { segment: self.segment, page: page as u32, block, n_blocks: end - block }
    }

    /// The page that has the rows with this hash.
    pub fn find(&self, hash: u64) -> Spot {
        // Hashes are spread evenly, so the page is near to where its prefix lies between the first and the last one.
        let (wanted, n) = (prefix(hash), self.fences.len());
        let span = (self.last - self.first) as u64 + 1;
        let mut page = ((wanted.saturating_sub(self.first)) as u64 * n as u64 / span).min(n as u64 - 1) as usize;
        while page > 0 && self.fences[page] > wanted {
            page -= 1;
        }
        while page + 1 < n && self.fences[page + 1] <= wanted {
            page += 1;
        }
        self.spot(page)
    }

    /// Bytes of the foot of a file with so many pages and rows.
    pub fn foot_bytes(n_pages: usize, n_records: usize) -> usize {
        4 * FOOT_HEAD + 8 * n_pages + 8 * filter_words(n_records) + 4
    }

    fn foot(&self, width: usize) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for n in [self.n_pages() as u32, self.n_records, self.n_blocks, self.first, self.last, width as u32] {
            out.extend(n.to_le_bytes());
        }
        self.fences.iter().chain(&self.starts).for_each(|n| out.extend(n.to_le_bytes()));
        self.filter.iter().for_each(|w| out.extend(w.to_le_bytes()));
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out
    }

    /// Reads the foot of a file with this number of blocks, pages and rows.
    pub fn open(folder: &Folder, of: &PagesHead, width: usize) -> Result<Run> {
        let name = pages_name(of.segment);
        let path = folder.file(&name);
        let (n_pages, n_records) = (of.n_pages as usize, of.n_records as usize);
        let wrong = |what: &str| Error::runtime(format!("embedding: {} is {what}", path.display()));
        let is_possible = n_pages > 0
            && n_pages <= of.n_blocks as usize
            && n_records >= n_pages
            && n_records <= of.n_blocks as usize * (rows_of_page(width, 1) + 1);
        if !is_possible {
            return Err(wrong("damaged: the manifest has other sizes than it"));
        }
        let (start, n) = (of.n_blocks as u64 * PAGE as u64, Run::foot_bytes(n_pages, n_records));
        let found = folder.size(&name)?;
        if found < start + n as u64 {
            return Err(wrong(&format!("torn: it has {found} bytes, of which {} are needed", start + n as u64)));
        }
        let foot = folder.read_part(&name, start, n)?;
        let run =
            Run::parse(&foot, of, width).ok_or_else(|| wrong("damaged: the checksum of its foot does not fit"))?;
        let is_in_order = run.fences.is_sorted_by(|a, b| a < b)
            && run.starts.is_sorted_by(|a, b| a < b)
            && run.starts[0] == 0
            && run.starts.last().is_some_and(|s| *s < run.n_blocks)
            && run.fences[0] == run.first
            && run.fences.last().is_some_and(|f| *f <= run.last);
        if is_in_order { Ok(run) } else { Err(wrong("damaged: its pages have no order")) }
    }

    fn parse(foot: &[u8], of: &PagesHead, width: usize) -> Option<Run> {
        let end = foot.len() - 4;
        if word(foot, end) != crc32fast::hash(&foot[..end]) || !foot.starts_with(MAGIC) {
            return None;
        }
        let head = [of.n_pages, of.n_records, of.n_blocks];
        if (0..3).any(|i| word(foot, 8 + 4 * i) != head[i]) || word(foot, 28) as usize != width {
            return None;
        }
        let (n, lists) = (of.n_pages as usize, 4 * FOOT_HEAD);
        let list = |first: usize| (0..n).map(|i| word(foot, lists + 4 * (first + i))).collect::<Vec<_>>();
        let words = foot[lists + 8 * n..end].chunks_exact(8);
        Some(Run {
            segment: of.segment,
            first: word(foot, 20),
            last: word(foot, 24),
            n_records: of.n_records,
            n_blocks: of.n_blocks,
            fences: list(0),
            starts: list(n),
            filter: words.map(|w| u64::from_le_bytes(std::array::from_fn(|i| w[i]))).collect(),
        })
    }

    /// What a manifest has of it.
    pub fn head(&self) -> PagesHead {
        let (n_pages, n_records) = (self.n_pages() as u32, self.n_records);
        PagesHead { segment: self.segment, n_blocks: self.n_blocks, n_pages, n_records }
    }
}

/// A file of pages, as a manifest names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagesHead {
    pub segment: u32,
    pub n_blocks: u32,
    pub n_pages: u32,
    pub n_records: u32,
}

/// Writes a file of pages, row by row in the order of the hashes.
pub struct PagesWriter<'a> {
    folder: &'a Folder,
    file: File,
    name: String,
    width: usize,
    run: Run,
    hashes: Vec<u64>,
    /// Blocks that wait to be written, and the bytes of the page that grows.
    buffer: Vec<u8>,
    page: Vec<u8>,
    n_in_page: u32,
    n_written: u64,
}

impl<'a> PagesWriter<'a> {
    pub fn new(folder: &'a Folder, segment: u32, width: usize) -> Result<PagesWriter<'a>> {
        let name = pages_name(segment);
        let run = Run {
            segment,
            first: 0,
            last: 0,
            n_records: 0,
            n_blocks: 0,
            fences: Vec::new(),
            starts: Vec::new(),
            filter: Vec::new(),
        };
        Ok(PagesWriter {
            file: folder.create(&name)?,
            folder,
            name,
            width,
            run,
            hashes: Vec::new(),
            buffer: Vec::new(),
            page: Vec::new(),
            n_in_page: 0,
            n_written: 0,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }
    pub fn n_records(&self) -> usize {
        self.hashes.len()
    }
    /// Bytes of the pages until now.
    pub fn bytes(&self) -> u64 {
        self.n_written + self.buffer.len() as u64
    }
    /// Returns true if a row with this hash can begin another file.
    pub fn can_end_before(&self, hash: u64) -> bool {
        self.n_records() > 0 && prefix(hash) != self.run.last
    }

    /// Adds a record, as it is read.
    pub fn push(&mut self, hash: u64, record: &[u32]) -> Result<()> {
        let prefix = prefix(hash);
        let room = rows_of_page(self.width, self.page.len().div_ceil(PAGE).max(1));
        if self.n_in_page as usize >= room && prefix != self.run.last {
            self.end_page()?;
        }
        if self.n_in_page == 0 {
            self.run.fences.push(prefix);
            self.run.starts.push(self.run.n_blocks);
            self.page.resize(PAGE_HEAD, 0);
        }
        if self.hashes.is_empty() {
            self.run.first = prefix;
        }
        debug_assert_eq!(key_of(record).hash(), hash);
        self.run.last = prefix;
        self.hashes.push(hash);
        self.n_in_page += 1;
        let words = record[..ROW_HEAD].iter().chain(&record[HEADER..]);
        words.for_each(|w| self.page.extend_from_slice(&w.to_le_bytes()));
        Ok(())
    }

    fn end_page(&mut self) -> Result<()> {
        if self.n_in_page == 0 {
            return Ok(());
        }
        let number = self.run.fences.len() as u32 - 1;
        self.page.resize(self.page.len().next_multiple_of(PAGE), 0);
        self.page[4..8].copy_from_slice(&self.n_in_page.to_le_bytes());
        self.page[8..12].copy_from_slice(&number.to_le_bytes());
        let sum = checksum(&self.page, self.run.segment, number);
        self.page[..4].copy_from_slice(&sum.to_le_bytes());
        self.run.n_blocks += (self.page.len() / PAGE) as u32;
        self.buffer.append(&mut self.page);
        self.n_in_page = 0;
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.folder.write_at(&self.file, &self.name, &self.buffer, self.n_written)?;
        self.n_written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left and the foot. Nothing of it lasts before the file is synced.
    pub fn finish(mut self) -> Result<(Run, File)> {
        self.end_page()?;
        self.run.n_records = self.hashes.len() as u32;
        self.run.filter = vec![0; filter_words(self.hashes.len())];
        let n_words = self.run.filter.len();
        for hash in &self.hashes {
            let (line, bits) = filter_bits(*hash, n_words);
            bits.for_each(|bit| self.run.filter[line + bit / 64] |= 1 << (bit % 64));
        }
        self.run.fences.shrink_to_fit();
        self.run.starts.shrink_to_fit();
        let foot = self.run.foot(self.width);
        self.buffer.extend(foot);
        self.flush()?;
        Ok((self.run, self.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::mix;

    const WIDTH: usize = 7;

    fn record(key: Key) -> Vec<u32> {
        let mut words = vec![key.id as u32, (key.id >> 32) as u32, key.table, 5, 6, 0];
        words.extend((0..WIDTH as u32).map(|i| i + key.id as u32));
        words
    }

    /// A file of these keys, whose hashes `hash_of` gives, and where it is.
    fn written(folder: &Folder, hashed: &mut [(u64, Key)]) -> Run {
        hashed.sort_unstable();
        let mut writer = PagesWriter::new(folder, 3, WIDTH).unwrap();
        hashed.iter().for_each(|(hash, key)| writer.push(*hash, &record(*key)).unwrap());
        writer.finish().unwrap().0
    }

    fn read(folder: &Folder, run: &Run, key: Key) -> Result<Option<Vec<u32>>> {
        let spot = run.find(key.hash());
        let bytes = folder.read_part(&pages_name(3), spot.block as u64 * PAGE as u64, spot.n_blocks as usize * PAGE)?;
        let mut words = vec![0; HEADER + WIDTH];
        let rows = PageRows::of(&bytes, spot, WIDTH)?;
        Ok(rows.find(key).map(|row| {
            row.copy(&mut words);
            words
        }))
    }

    #[test]
    fn every_row_is_found_and_few_others_are_looked_for() {
        let path = std::env::temp_dir().join(format!("oneflow_embedding_pages_{}", std::process::id()));
        let folder = Folder::open(&path, None).unwrap();
        for n in [1u64, 2, 127, 128, 5000] {
            let keys: Vec<Key> = (0..n).map(|i| Key { table: (i % 3) as u32, id: mix(i) }).collect();
            let run = written(&folder, &mut keys.iter().map(|k| (k.hash(), *k)).collect::<Vec<_>>());
            assert_eq!((run.n_records as u64, run.n_pages()), (n, (n as usize).div_ceil(rows_of_page(WIDTH, 1))));
            let again = Run::open(&folder, &run.head(), WIDTH).unwrap();
            for key in &keys {
                assert!(again.may_contain(key.hash()));
                assert_eq!(read(&folder, &again, *key).unwrap(), Some(record(*key)));
            }
            let others = (0..10_000).map(|i| Key { table: 0, id: mix(i + 99_999) });
            let n_wrong = others.clone().filter(|k| again.may_contain(k.hash())).count();
            assert!(n_wrong < 250, "{n_wrong} of 10000 for {n} rows");
            others.take(100).for_each(|key| assert_eq!(read(&folder, &again, key).unwrap(), None));
            assert!(Run::open(&folder, &run.head(), WIDTH + 1).is_err());
        }
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn keys_of_equal_hashes_share_a_page() {
        let path = std::env::temp_dir().join(format!("oneflow_embedding_equal_{}", std::process::id()));
        let folder = Folder::open(&path, None).unwrap();
        // The hash of table t and id i is that of i ^ t * c, so each pair of ids that differ so gives one hash.
        let id = |table: u64| 77 ^ table.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let equal = (0..900u32).map(|table| Key { table, id: id(table as u64) });
        let keys: Vec<Key> = equal.chain((0..900).map(|id| Key { table: 1, id })).collect();
        let run = written(&folder, &mut keys.iter().map(|k| (k.hash(), *k)).collect::<Vec<_>>());
        let run = Run::open(&folder, &run.head(), WIDTH).unwrap();
        assert!(run.n_pages() < run.n_blocks as usize);
        keys.iter().for_each(|key| assert_eq!(read(&folder, &run, *key).unwrap(), Some(record(*key))));
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn any_flipped_byte_and_any_cut_is_found() {
        let path = std::env::temp_dir().join(format!("oneflow_embedding_flips_{}", std::process::id()));
        let folder = Folder::open(&path, None).unwrap();
        let keys: Vec<Key> = (0..200).map(|id| Key { table: 0, id }).collect();
        let run = written(&folder, &mut keys.iter().map(|k| (k.hash(), *k)).collect::<Vec<_>>());
        let file = path.join(pages_name(3));
        let whole = std::fs::read(&file).unwrap();
        let foot = run.n_blocks as usize * PAGE;
        for i in (0..foot).step_by(37).chain(foot..whole.len()) {
            let mut bytes = whole.clone();
            bytes[i] ^= 0x20;
            std::fs::write(&file, &bytes).unwrap();
            let opened = Run::open(&folder, &run.head(), WIDTH);
            assert_eq!(opened.is_err(), i >= foot, "byte {i}");
            let spot = run.spot(run.starts.partition_point(|s| *s as usize * PAGE <= i).saturating_sub(1));
            let of_page = keys.iter().filter(|k| run.find(k.hash()) == spot).count();
            let n_refused = keys.iter().filter(|k| read(&folder, &run, **k).is_err()).count();
            assert_eq!(n_refused, if i < foot { of_page } else { 0 }, "byte {i}");
        }
        for n in [0, PAGE, foot, whole.len() - 1] {
            std::fs::write(&file, &whole[..n]).unwrap();
            assert!(Run::open(&folder, &run.head(), WIDTH).err().unwrap().text().contains("torn"));
        }
        std::fs::remove_dir_all(path).unwrap();
    }
}
