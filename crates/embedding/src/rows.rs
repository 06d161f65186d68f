//! Rows in memory: slots of one size in chunks, so that rows never move and an unused budget costs nothing.
//!
//! A row is words: id (2), table, step, frequency, its location on disk; then weights and state as float32.

use crate::batch::Key;
use crate::chunk::Chunk;
use crate::index::prefetch;
use crate::log::{CHECKSUM, HEADER};
use oneflow_base::{Error, Result};

/// A row that is not on disk.
pub const NOT_ON_DISK: u32 = u32::MAX;
/// Words of a row: the step of its last update, and how often updates named it.
pub const STEP: usize = 3;
pub const COUNT: usize = 4;
const ON_DISK: usize = CHECKSUM;
/// Bytes of a chunk, about: of a small store, and of one that huge pages are worth asking for.
const CHUNK: usize = 1 << 20;
const LARGE_CHUNK: usize = 32 << 20;
/// Words of a cache line.
const LINE: usize = 16;

pub struct Rows {
    chunks: Vec<Chunk>,
    stride: usize,
    /// Rows of a chunk, as a power of two.
    shift: u32,
    pub flags: Vec<u8>,
    capacity: usize,
}

impl Rows {
    pub fn new(width: usize, budget: u64) -> Rows {
        let stride = HEADER + width;
        // A row, its flag, its place in a queue and in the index.
        let bytes = 4 * stride as u64 + 1 + 4 + 10;
        let capacity = (budget / bytes).clamp(64, 1 << 31) as usize;
        let chunk = if capacity.saturating_mul(4 * stride) >= 2 * LARGE_CHUNK { LARGE_CHUNK } else { CHUNK };
        let shift = (chunk / (4 * stride)).max(1).ilog2();
        Rows { chunks: Vec::new(), stride, shift, flags: Vec::new(), capacity }
    }

    /// The most rows at a time.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
    pub fn bytes(&self) -> usize {
        // Pages that no row has touched take no memory.
        self.flags.len() * (4 * self.stride + 1)
    }

    /// An empty slot, if there is one below the capacity.
    pub fn take(&mut self) -> Result<Option<u32>> {
        let slot = self.flags.len();
        if slot >= self.capacity {
            return Ok(None);
        }
        if slot >> self.shift == self.chunks.len() {
            let n = self.stride << self.shift;
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

    #[inline(always)]
    fn at(&self, slot: u32) -> (usize, usize) {
        let slot = slot as usize;
        (slot >> self.shift, (slot & ((1 << self.shift) - 1)) * self.stride)
    }
    /// All words of a row.
    #[inline(always)]
    pub fn row(&self, slot: u32) -> &[u32] {
        let (chunk, start) = self.at(slot);
        &self.chunks[chunk].words()[start..start + self.stride]
    }
    #[inline(always)]
    pub fn row_mut(&mut self, slot: u32) -> &mut [u32] {
        let (chunk, start) = self.at(slot);
        &mut self.chunks[chunk].words_mut()[start..start + self.stride]
    }
    /// Weights and state.
    #[inline(always)]
    pub fn values(&self, slot: u32) -> &[f32] {
        floats(&self.row(slot)[HEADER..])
    }
    #[inline(always)]
    pub fn values_mut(&mut self, slot: u32) -> &mut [f32] {
        floats_mut(&mut self.row_mut(slot)[HEADER..])
    }
    #[inline(always)]
    pub fn key(&self, slot: u32) -> Key {
        let row = self.row(slot);
        Key { table: row[2], id: row[0] as u64 | (row[1] as u64) << 32 }
    }
    #[inline(always)]
    pub fn on_disk(&self, slot: u32) -> u32 {
        self.row(slot)[ON_DISK]
    }
    pub fn set_on_disk(&mut self, slot: u32, entry: u32) {
        self.row_mut(slot)[ON_DISK] = entry;
    }
    #[inline(always)]
    pub fn step(&self, slot: u32) -> u32 {
        self.row(slot)[STEP]
    }
    #[inline(always)]
    pub fn set_step(&mut self, slot: u32, step: u32) {
        self.row_mut(slot)[STEP] = step;
    }
    #[inline(always)]
    pub fn count(&mut self, slot: u32, n: u32) {
        let count = &mut self.row_mut(slot)[COUNT];
        *count = count.saturating_add(n);
    }

    pub fn set_count(&mut self, slot: u32, n: u32) {
        self.row_mut(slot)[COUNT] = n;
    }

    /// Writes the header of a row that was never updated; its values are the caller's to write.
    pub fn start(&mut self, slot: u32, key: Key) {
        let header = [key.id as u32, (key.id >> 32) as u32, key.table, 0, 0, NOT_ON_DISK];
        self.row_mut(slot)[..HEADER].copy_from_slice(&header);
    }

    /// Asks for the lines of the first `n` numbers of a row that is read soon; the processor goes on by itself after eight.
    #[inline(always)]
    pub fn prefetch(&self, slot: u32, n: usize) {
        let row = &self.row(slot)[..HEADER + n];
        // A row begins anywhere in a line.
        prefetch(&row[0]);
        for line in row.chunks(LINE).take(8) {
            prefetch(&line[line.len() - 1]);
        }
    }
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
