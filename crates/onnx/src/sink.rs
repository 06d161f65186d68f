//! A buffer for `prost` that writes to a file, so that a message of gigabytes is never in memory twice.

use prost::bytes::buf::UninitSlice;
use prost::bytes::{Buf, BufMut};
use std::io::{Error, Result, Write};

/// Small pieces (tags, lengths, names) are gathered up to this many bytes; a larger piece goes to the file from where it is.
const GATHERED: usize = 64 << 10;

/// Bytes on their way to `file`. The first error is kept, and `finish` returns it.
pub struct Sink<'a, W> {
    file: &'a mut W,
    gathered: Vec<u8>,
    error: Option<Error>,
}

impl<'a, W: Write> Sink<'a, W> {
    pub fn new(file: &'a mut W) -> Self {
        Sink { file, gathered: Vec::with_capacity(GATHERED), error: None }
    }

    /// Writes what is left.
    pub fn finish(mut self) -> Result<()> {
        self.flush();
        self.error.map_or(Ok(()), Err)
    }

    fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.file.write_all(&self.gathered).err();
        }
        self.gathered.clear();
    }
}

// SAFETY: `chunk_mut` returns the spare part of a vector, and `advance_mut` counts what its caller filled of it.
unsafe impl<W: Write> BufMut for Sink<'_, W> {
    fn remaining_mut(&self) -> usize {
        usize::MAX
    }

    unsafe fn advance_mut(&mut self, n: usize) {
        // SAFETY: the caller has filled `n` bytes of the spare part.
        unsafe { self.gathered.set_len(self.gathered.len() + n) };
    }

    fn chunk_mut(&mut self) -> &mut UninitSlice {
        if self.gathered.len() == self.gathered.capacity() {
            self.flush();
        }
        self.gathered.spare_capacity_mut().into()
    }

    fn put<B: Buf>(&mut self, mut bytes: B) {
        while bytes.has_remaining() {
            let piece = bytes.chunk();
            self.put_slice(piece);
            let n = piece.len();
            bytes.advance(n);
        }
    }

    fn put_slice(&mut self, piece: &[u8]) {
        if self.gathered.len() + piece.len() > self.gathered.capacity() {
            self.flush();
        }
        if piece.len() <= self.gathered.capacity() {
            self.gathered.extend_from_slice(piece);
        } else if self.error.is_none() {
            self.error = self.file.write_all(piece).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails once it has taken `room` bytes.
    struct Full {
        taken: Vec<u8>,
        room: usize,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            let n = bytes.len().min(self.room - self.taken.len());
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn pieces() -> Vec<Vec<u8>> {
        [0, 1, 7, GATHERED - 1, GATHERED, GATHERED + 1, 3 * GATHERED + 5, 2]
            .iter()
            .enumerate()
            .map(|(i, n)| vec![i as u8; *n])
            .collect()
    }

    #[test]
    fn pieces_of_every_size_arrive_in_order() {
        let mut file = Vec::new();
        let mut sink = Sink::new(&mut file);
        for piece in pieces() {
            sink.put_slice(&piece);
            sink.put_u8(9);
            sink.put(&piece[..]);
        }
        sink.finish().unwrap();
        let expected: Vec<u8> = pieces().iter().flat_map(|p| [&p[..], &[9], &p[..]].concat()).collect();
        assert!(file == expected);
    }

    #[test]
    fn a_full_disk_is_an_error_at_the_end() {
        for room in [0, 10, GATHERED, 2 * GATHERED] {
            let mut file = Full { taken: Vec::new(), room };
            let mut sink = Sink::new(&mut file);
            pieces().iter().for_each(|p| sink.put_slice(p));
            assert!(sink.finish().is_err(), "{room}");
        }
    }
}
