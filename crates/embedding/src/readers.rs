//! Reads of many records at once, so that a batch waits for the disk once: by `io_uring`, or by threads where there is none.
//!
//! Checks nothing that it reads.

use crate::blocks::{Buffer, Piece, Read, cover};
#[cfg(target_os = "linux")]
use crate::uring::Ring;
use oneflow_base::{Error, Result};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// What reads many records at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// `io_uring` where the kernel has it, else threads.
    #[default]
    Best,
    Threads,
}

/// Pieces that a thread reads, and where their bytes go.
struct Job {
    pieces: Vec<(Piece, Address)>,
    done: Sender<io::Result<()>>,
}

/// An address inside of a buffer that outlives the job.
struct Address(*mut u8);

// SAFETY: each job has pieces of its own, and the buffer is not freed or read before all jobs have ended.
unsafe impl Send for Address {}

/// Threads that read; started when they are first needed.
#[derive(Default)]
struct Threads {
    jobs: Option<Sender<Job>>,
    handles: Vec<JoinHandle<()>>,
}

pub struct Readers {
    #[cfg(target_os = "linux")]
    ring: Mutex<Option<Ring>>,
    threads: Mutex<Threads>,
    n_threads: usize,
    /// Of offsets, sizes and memory; 1 without direct reads.
    align: usize,
    process: u32,
}

/// Pieces a thread takes at a time: enough to pay for waking it.
const PIECES_A_JOB: usize = 16;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readers {
    /// `align` is that of direct reads, or 1; `depth` how many reads a ring has under way.
    pub fn new(n_threads: usize, io: Io, align: usize, depth: u32) -> Readers {
        Readers {
            #[cfg(target_os = "linux")]
            ring: Mutex::new(if io == Io::Best { Ring::new(depth) } else { None }),
            threads: Mutex::default(),
            n_threads: n_threads.clamp(1, 256),
            align: align.max(1),
            process: std::process::id(),
        }
    }

    /// The name of what reads.
    pub fn kind(&self) -> &'static str {
        #[cfg(target_os = "linux")]
        if lock(&self.ring).is_some() {
            return "io_uring";
        }
        "threads"
    }

    /// Refuses work in a process that was forked from the one that opened the store: it has no threads, and a file has one writer.
    pub fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(Error::runtime("embedding: the store belongs to the process that opened it, not to those forked from it"))
    }

    /// Reads records or pages and calls `f` with the number and the bytes of each, in order.
    pub fn read(&self, reads: &[Read], mut f: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        let (pieces, starts, total) = cover(reads, self.align);
        let buffer = Buffer::new(total, self.align)?;
        let buffer = self.fill(&pieces, buffer).map_err(failed)?;
        for (i, start) in starts.into_iter().enumerate() {
            f(i, &buffer.bytes()[start..start + reads[i].length])?;
        }
        Ok(())
    }

    fn fill(&self, pieces: &[Piece], mut buffer: Buffer) -> io::Result<Buffer> {
        if pieces.len() == 1 {
            read_piece(&pieces[0], Address(buffer.address(&pieces[0])))?;
            return Ok(buffer);
        }
        #[cfg(target_os = "linux")]
        if let Some(ring) = lock(&self.ring).as_mut() {
            return ring.read(pieces, buffer);
        }
        self.fill_by_threads(pieces, buffer)
    }

    fn fill_by_threads(&self, pieces: &[Piece], mut buffer: Buffer) -> io::Result<Buffer> {
        let (done, results) = channel();
        let n_jobs = pieces.len().div_ceil(PIECES_A_JOB);
        {
            let mut threads = lock(&self.threads);
            let jobs = threads.started(self.n_threads)?;
            for part in pieces.chunks(PIECES_A_JOB) {
                let pieces = part.iter().map(|p| (p.clone(), Address(buffer.address(p)))).collect();
                // The threads live as long as this sender.
                let _ = jobs.send(Job { pieces, done: done.clone() });
            }
        }
        drop(done);
        let mut outcome = Ok(());
        for _ in 0..n_jobs {
            match results.recv() {
                Ok(part) => outcome = outcome.and(part),
                Err(_) => {
                    // A thread is gone, and others may still write here.
                    std::mem::forget(buffer);
                    return Err(io::Error::other("a reader thread has ended"));
                }
            }
        }
        outcome.map(|()| buffer)
    }
}

impl Threads {
    fn started(&mut self, n: usize) -> io::Result<&Sender<Job>> {
        if self.jobs.is_none() {
            let (jobs, queue) = channel::<Job>();
            let queue = Arc::new(Mutex::new(queue));
            for i in 0..n {
                let queue = queue.clone();
                let thread = std::thread::Builder::new().name(format!("embedding-{i}"));
                self.handles.push(thread.spawn(move || work(&queue))?);
            }
            self.jobs = Some(jobs);
        }
        self.jobs.as_ref().ok_or_else(|| io::Error::other("no reader threads"))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let mut threads = lock(&self.threads);
        threads.jobs = None;
        let handles = std::mem::take(&mut threads.handles);
        if self.process != std::process::id() {
            // A forked process has no threads but its own; nobody would come to be joined.
            return std::mem::forget(handles);
        }
        for thread in handles {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn failed(e: io::Error) -> Error {
    Error::runtime(format!("embedding: cannot read a record: {e}"))
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = lock(queue).recv();
        let Ok(job) = job else { return };
        let done = job.pieces.into_iter().try_for_each(|(piece, address)| read_piece(&piece, address));
        // Nobody listens where the caller has given up.
        let _ = job.done.send(done);
    }
}

fn read_piece(piece: &Piece, address: Address) -> io::Result<()> {
    // SAFETY: the piece's own bytes of a live, initialised buffer; see `Address`.
    let bytes = unsafe { std::slice::from_raw_parts_mut(address.0, piece.length) };
    let mut come = 0;
    while come < piece.needed {
        match piece.file.read_at(&mut bytes[come..], piece.offset + come as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => come += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_threads_and_direct_reads_give_the_same_bytes_and_errors() {
        let path = std::env::temp_dir().join(format!("oneflow_embedding_readers_{}", std::process::id()));
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let offsets: Vec<u64> = (0..700u64).map(|i| (i * 7919) % 299_900).chain([299_900, 0, 40, 88]).collect();
        let plain = Arc::new(std::fs::File::open(&path).unwrap());
        let direct = crate::folder::open_direct(&path).unwrap();
        for (io, align, file) in [
            (Io::Best, 1, Some(&plain)),
            (Io::Threads, 1, Some(&plain)),
            (Io::Best, 4096, direct.as_ref()),
            (Io::Threads, 512, direct.as_ref()),
        ] {
            // A file system may have no direct reads.
            let Some(file) = file else { continue };
            let readers = Readers::new(3, io, align, 64);
            let reads = |offsets: &[u64]| -> Vec<Read> {
                offsets.iter().map(|o| Read { file: file.clone(), offset: *o, length: 100 }).collect()
            };
            let mut n = 0;
            let check = |i: usize, record: &[u8]| {
                assert_eq!(record, &bytes[offsets[i] as usize..offsets[i] as usize + 100], "{io:?} {align} {i}");
                n += 1;
                Ok(())
            };
            readers.read(&reads(&offsets), check).unwrap();
            assert_eq!(n, offsets.len());
            let mut behind = offsets.clone();
            behind.push(299_950);
            let e = readers.read(&reads(&behind), |_, _| Ok(())).err();
            assert!(e.is_some_and(|e| e.text().contains("cannot read")), "{io:?} {align}");
            readers.read(&[], |_, _| Err(Error::runtime("no record"))).unwrap();
        }
        std::fs::remove_file(&path).unwrap();
    }
}
