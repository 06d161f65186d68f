//! Where a batch of reads lies on disk: pieces of files that are read whole, and where each record stands in them.
//!
//! Without alignment a piece is a read, or several of the same bytes. With it a piece is the aligned blocks around one read or
//! around several that lie close to each other, as direct reads want them.

use oneflow_base::{Error, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes to read: those of a record, or of a page.
pub struct Read {
    pub file: Arc<File>,
    pub offset: u64,
    pub length: usize,
}

/// Bytes of a file that are read at once, to a position of the buffer.
#[derive(Clone)]
pub struct Piece {
    pub file: Arc<File>,
    pub offset: u64,
    pub at: usize,
    pub length: usize,
    /// Bytes that must come; a file may end inside of its last block.
    pub needed: usize,
}

/// The most bytes that are read at once to cover several records.
const MOST: usize = 1 << 20;

/// The pieces that cover all reads, where each of them begins in the buffer, and the size of the buffer.
pub fn cover(reads: &[Read], align: usize) -> (Vec<Piece>, Vec<usize>, usize) {
    let mut pieces: Vec<Piece> = Vec::with_capacity(reads.len());
    let mut starts = Vec::with_capacity(reads.len());
    let mut total = 0usize;
    let block = align as u64;
    for read in reads {
        let first = read.offset / block * block;
        let end = read.offset + read.length as u64;
        if let Some(last) = pieces.last_mut()
            && (align > 1 || (read.offset == last.offset && read.length == last.length))
            && Arc::ptr_eq(&last.file, &read.file)
            && read.offset >= last.offset
            && first <= last.offset + last.length as u64
        {
            let new_length = ((end - last.offset).div_ceil(block) * block) as usize;
            if new_length <= MOST.max(last.length) {
                starts.push(last.at + (read.offset - last.offset) as usize);
                last.needed = last.needed.max((end - last.offset) as usize);
                let grown = new_length.max(last.length);
                total += grown - last.length;
                last.length = grown;
                continue;
            }
        }
        let whole = ((end - first).div_ceil(block) * block) as usize;
        starts.push(total + (read.offset - first) as usize);
        pieces.push(Piece {
            file: read.file.clone(),
            offset: first,
            at: total,
            length: whole,
            needed: (end - first) as usize,
        });
        total += whole;
    }
    (pieces, starts, total)
}

/// Zeroed memory at an address that direct reads accept.
pub struct Buffer {
    start: NonNull<u8>,
    layout: Option<Layout>,
    length: usize,
}

// SAFETY: the buffer alone owns its memory.
unsafe impl Send for Buffer {}

impl Buffer {
    pub fn new(length: usize, align: usize) -> Result<Buffer> {
        let none = || Error::out_of_memory(format!("embedding: no memory for {length} bytes of records"));
        if length == 0 {
            return Ok(Buffer { start: NonNull::dangling(), layout: None, length });
        }
        let layout = Layout::from_size_align(length, align.max(16)).map_err(|_| none())?;
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none)?;
        Ok(Buffer { start, layout: Some(layout), length })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: initialised memory of this size, which lives as long as the buffer.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    /// The address of a piece's bytes; the piece lies inside.
    pub fn address(&mut self, piece: &Piece) -> *mut u8 {
        assert!(piece.at.checked_add(piece.length).is_some_and(|end| end <= self.length));
        // SAFETY: inside of the buffer, as was just checked.
        unsafe { self.start.as_ptr().add(piece.at) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: allocated with this layout, and freed once.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_their_records_and_share_blocks() {
        let file = Arc::new(File::open("/dev/null").unwrap());
        let reads: Vec<Read> = [10u64, 100, 4090, 9000, 9100, 40_000, 50]
            .iter()
            .map(|offset| Read { file: file.clone(), offset: *offset, length: 88 })
            .collect();
        let (pieces, starts, total) = cover(&reads, 1);
        assert_eq!((pieces.len(), total), (7, 7 * 88));
        assert_eq!(starts, (0..7).map(|i| i * 88).collect::<Vec<_>>());
        let (pieces, starts, total) = cover(&reads, 4096);
        // The first three follow each other over a border, and the next one's block follows theirs; the last goes back.
        let found: Vec<_> = pieces.iter().map(|p| (p.offset, p.length, p.needed)).collect();
        assert_eq!(found, [(0, 12288, 9188), (36864, 4096, 3224), (0, 4096, 138)]);
        assert_eq!(total, pieces.iter().map(|p| p.length).sum::<usize>());
        for (read, start) in reads.iter().zip(&starts) {
            let piece = pieces.iter().rfind(|p| p.at <= *start).unwrap();
            assert_eq!(piece.offset + (*start - piece.at) as u64, read.offset);
            assert!(*start - piece.at + 88 <= piece.needed);
        }
        let twice = [0u64, 0, 4096, 0].map(|offset| Read { file: file.clone(), offset, length: 4096 });
        let (pieces, starts, total) = cover(&twice, 1);
        assert_eq!((pieces.len(), starts, total), (3, vec![0, 0, 4096, 8192], 3 * 4096));
    }
}
