//! Threads that read records from disk, so that a batch waits for many reads at once. Checks nothing that it reads.

use oneflow_base::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A record to read: its file and offset.
pub struct Read {
    pub file: Arc<File>,
    pub offset: u64,
}

struct Job {
    part: usize,
    reads: Vec<Read>,
    length: usize,
    done: Sender<(usize, std::io::Result<Vec<u8>>)>,
}

pub struct Readers {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    process: u32,
}

/// Reads a thread takes at a time: enough to pay for waking it.
const READS_A_JOB: usize = 16;

impl Readers {
    pub fn new(n: usize) -> Result<Readers> {
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        let start = |i: usize| {
            let queue = queue.clone();
            std::thread::Builder::new().name(format!("embedding-{i}")).spawn(move || work(&queue))
        };
        let threads = (0..n.clamp(1, 256)).map(start).collect::<std::io::Result<Vec<_>>>();
        let threads = threads.map_err(|e| Error::runtime(format!("embedding: cannot start a reader thread: {e}")))?;
        Ok(Readers { jobs: Some(jobs), threads, process: std::process::id() })
    }

    /// Refuses work in a process that was forked from the one that opened the store: it has no threads, and a file has one writer.
    pub fn check_process(&self) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(Error::runtime("embedding: the store belongs to the process that opened it, not to those forked from it"))
    }

    /// The bytes of all records, one after the other, each `length` long.
    pub fn read(&self, mut reads: Vec<Read>, length: usize) -> Result<Vec<u8>> {
        let (Some(jobs), true) = (&self.jobs, reads.len() > READS_A_JOB) else {
            return read_all(&reads, length).map_err(failed);
        };
        let (done, results) = channel();
        let n_parts = reads.len().div_ceil(READS_A_JOB);
        for part in (0..n_parts).rev() {
            let reads = reads.split_off(part * READS_A_JOB);
            let job = Job { part, reads, length, done: done.clone() };
            jobs.send(job).map_err(|_| Error::runtime("embedding: the reader threads have ended"))?;
        }
        drop(done);
        let mut parts: Vec<Vec<u8>> = vec![Vec::new(); n_parts];
        for _ in 0..n_parts {
            let (part, bytes) = results.recv().map_err(|_| Error::runtime("embedding: a reader thread has ended"))?;
            parts[part] = bytes.map_err(failed)?;
        }
        Ok(parts.concat())
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.jobs = None;
        if self.process != std::process::id() {
            // A forked process has no threads but its own; nobody would come to be joined.
            return std::mem::forget(std::mem::take(&mut self.threads));
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn failed(e: std::io::Error) -> Error {
    Error::runtime(format!("embedding: cannot read a record: {e}"))
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // Nobody listens where another part has failed.
        let _ = job.done.send((job.part, read_all(&job.reads, job.length)));
    }
}

fn read_all(reads: &[Read], length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; reads.len() * length];
    for (read, bytes) in reads.iter().zip(bytes.chunks_exact_mut(length)) {
        read.file.read_exact_at(bytes, read.offset)?;
    }
    Ok(bytes)
}
