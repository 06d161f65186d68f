//! Reads through `io_uring`: one system call starts many and waits for them, without a thread each.
//!
//! A kernel that refuses a ring (old ones, and many containers) gives none; `readers.rs` then uses its threads.

use crate::blocks::{Buffer, Piece};
use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::AsRawFd;

/// The system's number of an interrupted call, and of one to be tried again.
const INTERRUPTED: i32 = 4;
const AGAIN: i32 = 11;

/// A ring, and how many reads are under way at a time.
pub struct Ring(IoUring, u32);

impl Ring {
    /// For so many reads at a time. None where the kernel gives no ring.
    pub fn new(depth: u32) -> Option<Ring> {
        let ring = IoUring::new(depth).ok()?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe).ok()?;
        probe.is_supported(opcode::Read::CODE).then_some(Ring(ring, depth))
    }

    /// Reads all pieces into the buffer. After an error of a read it waits for the others.
    pub fn read(&mut self, pieces: &[Piece], mut buffer: Buffer) -> io::Result<Buffer> {
        // Bytes of each piece that have come.
        let mut come = vec![0usize; pieces.len()];
        let mut waiting: Vec<usize> = (0..pieces.len()).rev().collect();
        let (mut n_under_way, mut failed) = (0usize, None);
        while n_under_way > 0 || (failed.is_none() && !waiting.is_empty()) {
            while failed.is_none()
                && n_under_way < self.1 as usize
                && let Some(i) = waiting.pop()
            {
                let piece = &pieces[i];
                let (file, done) = (types::Fd(piece.file.as_raw_fd()), come[i]);
                let length = (piece.length - done).min(1 << 30) as u32;
                // SAFETY: the address and the bytes behind it lie inside of the piece.
                let address = unsafe { buffer.address(piece).add(done) };
                let read = opcode::Read::new(file, address, length).offset(piece.offset + done as u64).build();
                // SAFETY: the file and the memory live until the read has ended: this function waits for it, and where it
                // cannot wait it never frees the memory.
                if unsafe { self.0.submission().push(&read.user_data(i as u64)) }.is_err() {
                    waiting.push(i);
                    break;
                }
                n_under_way += 1;
            }
            match self.0.submit_and_wait(1) {
                Ok(_) => {}
                Err(e) if matches!(e.raw_os_error(), Some(INTERRUPTED) | Some(AGAIN)) => {}
                Err(e) => {
                    // Reads may still be under way into this memory.
                    std::mem::forget(buffer);
                    return Err(e);
                }
            }
            for done in self.0.completion() {
                n_under_way -= 1;
                let i = done.user_data() as usize;
                match done.result() {
                    n if n == -INTERRUPTED || n == -AGAIN => waiting.push(i),
                    n if n < 0 => failed = failed.or(Some(io::Error::from_raw_os_error(-n))),
                    n => {
                        come[i] += n as usize;
                        if come[i] >= pieces[i].needed {
                            continue;
                        }
                        match n {
                            0 => failed = failed.or(Some(io::ErrorKind::UnexpectedEof.into())),
                            _ => waiting.push(i),
                        }
                    }
                }
            }
        }
        match failed {
            Some(e) => Err(e),
            None => Ok(buffer),
        }
    }
}
