//! Rows in memory: slots of one size in chunks, so that rows never move and an unused budget costs nothing.
//!
//! A row is its numbers, weights and then state, as float32, its id, and in words its table, step, frequency and location on
//! disk. Each of the three stands with those of the other rows of a chunk, so that a lookup reads no line of which it needs a
//! part alone: ids are dense where only they are compared, and numbers begin with a cache line where that wastes little.

use crate::batch::Key;
use crate::chunk::Chunk;
use crate::lines::{prefetch, prefetch_at};
use crate::log::{CHECKSUM, HEADER};
use oneflow_base::{Error, Result};

/// In place of the entry of a row's record: its newest numbers are not on disk, or in a page.
pub const NOT_ON_DISK: u32 = u32::MAX;
pub const ON_PAGE: u32 = u32::MAX - 1;
/// Words of an id, and the others of a head.
const ID: usize = 2;
const REST: usize = HEADER - ID;
/// Positions in a head: the step of the row's last update, and how often updates named it.
pub const STEP: usize = 3;
pub const COUNT: usize = 4;
const ON_DISK: usize = CHECKSUM;
/// The least and the greatest bytes of a chunk, about, and the part of a budget that a chunk is between them.
const LEAST_CHUNK: u64 = 1 << 12;
const MOST_CHUNK: u64 = 32 << 20;
const CHUNKS: u64 = 16;
/// Lines of a row that are asked for.
pub const MOST_LINES: usize = 32;
/// Words of a cache line.
pub const LINE: usize = 16;

pub struct Rows {
    chunks: Vec<Chunk>,
    width: usize,
    /// Words from one row's numbers to the next one's.
    stride: usize,
    /// Rows of a chunk, as a power of two.
    shift: u32,
    pub flags: Vec<u8>,
    capacity: usize,
}

impl Rows {
    pub fn new(width: usize, budget: u64) -> Rows {
        let lines = width.next_multiple_of(LINE);
        let stride = if lines - width <= width / 16 { lines } else { width };
        let bytes = 4 * (stride + HEADER);
        let shift = ((budget / CHUNKS).clamp(LEAST_CHUNK, MOST_CHUNK) as usize / bytes).max(1).ilog2();
        let mut rows = Rows { chunks: Vec::new(), width, stride, shift, flags: Vec::new(), capacity: 0 };
        rows.fit(budget);
        rows
    }

    /// Bytes of a row with its flag and its place in a queue.
    fn row_bytes(&self) -> usize {
        4 * (self.stride + HEADER) + 1 + 4
    }

    /// Takes as many rows as so many bytes hold, at least 64.
    pub fn fit(&mut self, bytes: u64) {
        self.capacity = (bytes / self.row_bytes() as u64).clamp(64, 1 << 31) as usize;
    }

    /// The first row of the last chunk, if there are a chunk more of rows than the capacity. Below that it is not worth it: a
    /// capacity that shrinks a little at a time would empty the chunk each time.
    pub fn surplus(&self) -> Option<u32> {
        let is_over = self.flags.len() >= self.capacity + (1 << self.shift) && self.chunks.len() > 1;
        is_over.then(|| ((self.chunks.len() - 1) << self.shift) as u32)
    }

    /// Gives the last chunk back, whose first row is `first`.
    pub fn drop_chunk(&mut self, first: u32) {
        self.flags.truncate(first as usize);
        self.chunks.pop();
    }

    /// The most rows at a time.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    pub fn bytes(&self) -> usize {
        // Pages that no row has touched take no memory.
        self.flags.len() * self.row_bytes()
    }

    /// An empty slot, if there is one below the capacity.
    pub fn take(&mut self) -> Result<Option<u32>> {
        let slot = self.flags.len();
        if slot >= self.capacity {
            return Ok(None);
        }
        if slot >> self.shift == self.chunks.len() {
            let n = (self.stride + HEADER) << self.shift;
            let chunk = Chunk::new(n).ok_or_else(|| {
                Error::out_of_memory(format!("embedding: no memory for {} more bytes of rows", 4 * n))
            })?;
            self.chunks.push(chunk);
        }
        self.flags.push(0);
        Ok(Some(slot as u32))
    }

    pub fn clear(&mut self) {
        self.chunks.clear();
        self.flags.clear();
    }

    /// The chunk of a row, and its number there.
    #[inline(always)]
    fn at(&self, slot: u32) -> (usize, usize) {
        let slot = slot as usize;
        (slot >> self.shift, slot & ((1 << self.shift) - 1))
    }
    /// Where ids begin in a chunk, and where the other words do.
    #[inline(always)]
    fn ids(&self) -> usize {
        self.stride << self.shift
    }
    #[inline(always)]
    fn rest(&self) -> usize {
        (self.stride + ID) << self.shift
    }
    #[inline(always)]
    pub fn id(&self, slot: u32) -> u64 {
        let (chunk, row) = self.at(slot);
        let start = self.ids() + row * ID;
        let words = &self.chunks[chunk].words()[start..start + ID];
        words[0] as u64 | (words[1] as u64) << 32
    }
    /// Table, step, frequency and location on disk.
    #[inline(always)]
    fn words(&self, slot: u32) -> &[u32] {
        let (chunk, row) = self.at(slot);
        let start = self.rest() + row * REST;
        &self.chunks[chunk].words()[start..start + REST]
    }
    #[inline(always)]
    fn words_mut(&mut self, slot: u32) -> &mut [u32] {
        let (chunk, row) = self.at(slot);
        let start = self.rest() + row * REST;
        &mut self.chunks[chunk].words_mut()[start..start + REST]
    }
    /// The words before a row's numbers, as a record has them.
    pub fn head(&self, slot: u32) -> [u32; HEADER] {
        let (id, rest) = (self.id(slot), self.words(slot));
        [id as u32, (id >> 32) as u32, rest[0], rest[1], rest[2], rest[3]]
    }
    fn set_head(&mut self, slot: u32, head: &[u32]) {
        let (chunk, row) = self.at(slot);
        let start = self.ids() + row * ID;
        self.chunks[chunk].words_mut()[start..start + ID].copy_from_slice(&head[..ID]);
        self.words_mut(slot).copy_from_slice(&head[ID..]);
    }
    /// Weights and state.
    #[inline(always)]
    pub fn values(&self, slot: u32) -> &[f32] {
        let (chunk, row) = self.at(slot);
        let start = row * self.stride;
        floats(&self.chunks[chunk].words()[start..start + self.width])
    }
    #[inline(always)]
    pub fn values_mut(&mut self, slot: u32) -> &mut [f32] {
        let (chunk, row) = self.at(slot);
        let start = row * self.stride;
        floats_mut(&mut self.chunks[chunk].words_mut()[start..start + self.width])
    }

    /// Where rows begin, for many of them.
    #[inline(always)]
    pub fn starts(&self) -> Starts<'_> {
        let (mask, ids) = ((1 << self.shift) - 1, self.ids());
        Starts { chunks: &self.chunks, stride: self.stride, shift: self.shift, mask, ids }
    }

    /// Exchanges the rows of two different slots, with their flags.
    pub fn swap(&mut self, a: u32, b: u32) {
        let ((chunk_a, row_a), (chunk_b, row_b)) = (self.at(a), self.at(b));
        let (ids, rest) = (self.ids(), self.rest());
        for (start, n) in [(0, self.stride), (ids, ID), (rest, REST)] {
            let (from_a, from_b) = (start + row_a * n, start + row_b * n);
            if chunk_a == chunk_b {
                let (low, high) = (from_a.min(from_b), from_a.max(from_b));
                let (left, right) = self.chunks[chunk_a].words_mut().split_at_mut(high);
                left[low..low + n].swap_with_slice(&mut right[..n]);
            } else if let Ok([a, b]) = self.chunks.get_disjoint_mut([chunk_a, chunk_b]) {
                a.words_mut()[from_a..from_a + n].swap_with_slice(&mut b.words_mut()[from_b..from_b + n]);
            }
        }
        self.flags.swap(a as usize, b as usize);
    }

    /// Takes over a record as it was read: its head, then its numbers.
    pub fn enter(&mut self, slot: u32, record: &[u32], on_disk: u32) {
        let (head, values) = record.split_at(HEADER);
        self.set_head(slot, head);
        self.values_mut(slot).copy_from_slice(floats(values));
        self.set_on_disk(slot, on_disk);
    }

    #[inline(always)]
    pub fn key(&self, slot: u32) -> Key {
        Key { table: self.words(slot)[0], id: self.id(slot) }
    }
    #[inline(always)]
    pub fn on_disk(&self, slot: u32) -> u32 {
        self.words(slot)[ON_DISK - ID]
    }
    pub fn set_on_disk(&mut self, slot: u32, entry: u32) {
        self.words_mut(slot)[ON_DISK - ID] = entry;
    }
    pub fn set_step_and_count(&mut self, slot: u32, step: u32, count: u32) {
        let words = self.words_mut(slot);
        (words[STEP - ID], words[COUNT - ID]) = (step, count);
    }

    /// Counts an update: its step, and how often it named the row. Returns the step of the one before, or 0.
    #[inline(always)]
    pub fn count(&mut self, slot: u32, step: u32, n: u32) -> u32 {
        let words = self.words_mut(slot);
        words[COUNT - ID] = words[COUNT - ID].saturating_add(n);
        std::mem::replace(&mut words[STEP - ID], step)
    }

    /// Writes the head of a row that was never updated; its numbers are the caller's to write.
    pub fn start(&mut self, slot: u32, key: Key) {
        self.set_head(slot, &[key.id as u32, (key.id >> 32) as u32, key.table, 0, 0, NOT_ON_DISK]);
    }

    /// Lines to ask for before the first `n` numbers of a row are read; the processor goes on by itself behind them.
    #[inline(always)]
    pub fn lines(&self, n: usize) -> usize {
        // A row that begins inside of a line ends in one more.
        (n.div_ceil(LINE) + !self.stride.is_multiple_of(LINE) as usize).min(MOST_LINES)
    }

    /// Returns true if each row begins with a cache line.
    pub fn are_whole_lines(&self) -> bool {
        self.stride.is_multiple_of(LINE)
    }

    /// Asks for the first `n` numbers of a row that is read soon.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32, n: usize) {
        let row = self.values(slot).as_ptr();
        for line in 0..self.lines(n) {
            prefetch_at(row.wrapping_add(line * LINE));
        }
    }

    /// Asks for the id of a row.
    #[inline(always)]
    pub fn prefetch_id(&self, slot: u32) {
        let (chunk, row) = self.at(slot);
        prefetch(&self.chunks[chunk].words()[self.ids() + row * ID]);
    }
    /// Asks for all of a row that an update changes.
    #[inline(always)]
    pub fn prefetch_to_update(&self, slot: u32, n: usize) {
        prefetch(&self.words(slot)[0]);
        prefetch(&self.flags[slot as usize]);
        self.prefetch(slot, n);
    }
}

/// The places of rows in memory, with what is the same for all of them.
#[derive(Clone, Copy)]
pub struct Starts<'a> {
    chunks: &'a [Chunk],
    stride: usize,
    shift: u32,
    /// Of a row's number in its chunk.
    mask: usize,
    /// Where ids begin in a chunk.
    ids: usize,
}

impl Starts<'_> {
    /// The words of a row's chunk, and its number there.
    #[inline(always)]
    fn at(&self, slot: u32) -> (&[u32], usize) {
        (self.chunks[slot as usize >> self.shift].words(), slot as usize & self.mask)
    }

    /// The address of the numbers of a row that is in its slot.
    #[inline(always)]
    pub fn of(&self, slot: u32) -> *const f32 {
        let (words, row) = self.at(slot);
        words.as_ptr().wrapping_add(row * self.stride).cast()
    }

    #[inline(always)]
    pub fn id(&self, slot: u32) -> u64 {
        let (words, row) = self.at(slot);
        let start = self.ids + row * ID;
        let id = &words[start..start + ID];
        id[0] as u64 | (id[1] as u64) << 32
    }

    /// Asks for the id of a row.
    #[inline(always)]
    pub fn prefetch_id(&self, slot: u32) {
        let (words, row) = self.at(slot);
        prefetch_at(words.as_ptr().wrapping_add(self.ids + row * ID));
    }
}

/// The key of a record.
#[inline(always)]
pub fn key_of(record: &[u32]) -> Key {
    Key { table: record[2], id: record[0] as u64 | (record[1] as u64) << 32 }
}

/// Words as the numbers that they are.
#[inline(always)]
pub fn floats(words: &[u32]) -> &[f32] {
    // SAFETY: the same size and alignment, and any 32 bits are a float32.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len()) }
}

#[inline(always)]
fn floats_mut(words: &mut [u32]) -> &mut [f32] {
    // SAFETY: as in `floats`; the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len()) }
}
