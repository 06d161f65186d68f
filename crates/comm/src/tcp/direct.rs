//! Long messages between two ranks of one host: the receiver reads them in the sender's memory, one copy in place of two. A message
//! that goes one way to one rank takes the ring all the same: there the sender has nothing else to do and makes half of the copies.
//!
//! The sender says where its bytes are and waits until they are taken. Nobody writes into the other's memory, so a rank that gives
//! up needs to wait for nobody: it withdraws its message first, and who reads it all the same fails. Each side finds out at the start
//! whether the system lets it read the other's memory (Yama, containers and users may differ); else the bytes go through the ring.
//! Reading costs a look at each page, which is little only where pages are huge, as those of large tensors are if the system
//! has some left. A side to which several messages in a row came slowly takes the ring from then on.

use std::cell::Cell;
use std::io::{Error, ErrorKind, Result};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use super::shm::Apart;
use crate::copy::{LONG, copy_past_cache};

/// Shorter messages, and the pieces of reductions, stay in cache on their way through the ring, which is as fast there.
pub(super) const LEAST: usize = 2 << 20;
/// Bytes that are read at once: other messages go on in between.
pub(super) const PIECE: usize = 1 << 20;
/// The same where they are read into cache first.
const CACHED_PIECE: usize = 256 << 10;
/// Bytes in a microsecond. Measured on an AMD EPYC of Zen 5: 19,000 to 40,000 on huge pages, 7,000 to 8,000 on small ones, where the ring
/// has 10,000 with its two copies.
const SLOW: u128 = 10_000;
/// So many slow messages are no accident.
const N_SLOW: u32 = 8;

thread_local! {
    /// A piece on its way to memory past the cache.
    static CACHED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What one side tells the other, in memory that both have mapped.
#[repr(C)]
pub(super) struct Side {
    process: AtomicU32,
    /// Where this side has mapped the lane.
    at: AtomicU64,
    /// Not 0: this side reads long messages in the other one's memory.
    reads: AtomicU32,
    /// How many messages in a row came slowly to this side.
    n_slow: AtomicU32,
    /// The number of the last message that this side has withdrawn.
    withdrawn: AtomicU64,
    /// How many messages of the other side this one has read.
    taken: Apart<AtomicU64>,
}

impl Side {
    /// This process has mapped the lane at this address.
    pub fn arrive(&self, at: u64) {
        self.at.store(at, Ordering::Relaxed);
        self.process.store(std::process::id(), Ordering::Release);
    }

    /// Finds out whether this side can read the memory of the other one, which has the word `secret` at the start of the lane.
    pub fn try_reading(&self, other: &Side, secret: u64) {
        let mut found = [0; 8];
        let reads = pays() && other.read(other.at.load(Ordering::Relaxed), &mut found).is_ok();
        self.reads.store(u32::from(reads && found == secret.to_ne_bytes()), Ordering::Release);
    }

    /// A message has come to this side, of whose pieces the fastest had so many bytes in so much time.
    pub fn came(&self, bytes: usize, fastest: Duration) {
        // Written by this side alone.
        let n = match bytes as u128 * 1_000 < SLOW * fastest.as_nanos() {
            true => self.n_slow.load(Ordering::Relaxed) + 1,
            false => 0,
        };
        self.n_slow.store(n, Ordering::Relaxed);
        if n >= N_SLOW {
            self.reads.store(0, Ordering::Release);
        }
    }

    pub fn reads(&self) -> bool {
        self.reads.load(Ordering::Acquire) != 0
    }

    /// How many messages this side has read. The sender may reuse the memory of those.
    pub fn taken(&self) -> u64 {
        self.taken.0.load(Ordering::Acquire)
    }

    /// Ends a message that was read from `sender`, and returns false if it was withdrawn meanwhile.
    pub fn take(&self, sender: &Side) -> bool {
        // After all reads, which a system call has done.
        fence(Ordering::SeqCst);
        let number = self.taken.0.load(Ordering::Relaxed) + 1;
        let is_whole = sender.withdrawn.load(Ordering::SeqCst) != number;
        if is_whole {
            self.taken.0.store(number, Ordering::Release);
        }
        is_whole
    }

    /// The memory of this side's message of this number is about to change.
    pub fn withdraw(&self, number: u64) {
        self.withdrawn.store(number, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Copies the next piece of what is at `from` in this side's process, of a message of so many bytes. Returns the bytes of the piece
    /// and how long reading them took.
    pub fn copy(&self, from: u64, into: &mut [u8], message: usize) -> Result<(usize, Duration)> {
        let start = Instant::now();
        if message < LONG {
            let n = into.len().min(PIECE);
            return self.read(from, &mut into[..n]).map(|()| (n, start.elapsed()));
        }
        // The system writes through the cache, and so would read each line of the target first.
        let mut piece = CACHED.take();
        let n = into.len().min(CACHED_PIECE);
        piece.resize(CACHED_PIECE, 0);
        let read = self.read(from, &mut piece[..n]).map(|()| (n, start.elapsed()));
        // SAFETY: the first `n` bytes of two slices; this one is nobody else's meanwhile.
        unsafe { copy_past_cache(piece.as_ptr(), into.as_mut_ptr(), n) };
        CACHED.set(piece);
        read
    }

    /// Reads from the memory of this side's process.
    pub fn read(&self, from: u64, into: &mut [u8]) -> Result<()> {
        read(self.process.load(Ordering::Acquire), from, into)
    }
}

/// Whether memory has huge pages, without which reading that of another process costs more than the ring's second copy.
fn pays() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        setting.is_ok_and(|text| !text.contains("[never]"))
    })
}

#[cfg(target_os = "linux")]
fn read(process: u32, from: u64, into: &mut [u8]) -> Result<()> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the system writes into `into` alone, at most its length, and checks the address of the other process.
    let n = unsafe { libc::process_vm_readv(process as libc::pid_t, &local, 1, &remote, 1, 0) };
    match n {
        ..0 => Err(Error::last_os_error()),
        n if n as usize == into.len() => Ok(()),
        _ => Err(Error::new(ErrorKind::UnexpectedEof, "a part of the memory is not there")),
    }
}

#[cfg(not(target_os = "linux"))]
fn read(_: u32, _: u64, _: &mut [u8]) -> Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side() -> Side {
        let word = || AtomicU64::new(0);
        let half = || AtomicU32::new(0);
        Side { process: half(), at: word(), reads: half(), n_slow: half(), withdrawn: word(), taken: Apart(word()) }
    }

    #[test]
    fn a_side_reads_the_other_ones_memory_and_nothing_else() {
        let (own, other, secret) = (side(), side(), Box::new(77u64));
        other.arrive(&raw const *secret as u64);
        own.try_reading(&other, 78);
        assert!(!own.reads(), "another word stands there");
        let data: Vec<u8> = (0..100_003u32).map(|i| (i % 251) as u8).collect();
        let mut found = vec![0; data.len()];
        if let Err(error) = other.read(data.as_ptr() as u64, &mut found) {
            // Some systems allow it to nobody.
            assert!(matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)), "{error}");
            return;
        }
        assert!(found == data);
        own.try_reading(&other, 77);
        assert_eq!(own.reads(), pays());
        assert!(other.read(8, &mut found).is_err(), "nothing is mapped there");
        // A process that has ended: its number is free as long as this test runs.
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        other.process.store(ended.id(), Ordering::Release);
        assert!(other.read(data.as_ptr() as u64, &mut found).is_err());
    }

    #[test]
    fn who_reads_slowly_several_times_takes_the_ring() {
        let side = side();
        side.reads.store(1, Ordering::Relaxed);
        let (slow, fast) = (Duration::from_micros(140), Duration::from_micros(50));
        for _ in 0..10 {
            (1..N_SLOW).for_each(|_| side.came(PIECE, slow));
            side.came(PIECE, fast);
        }
        assert!(side.reads());
        (0..N_SLOW).for_each(|_| side.came(PIECE / 2, slow / 2));
        assert!(!side.reads());
    }

    #[test]
    fn what_is_withdrawn_is_not_taken() {
        let (sender, reader) = (side(), side());
        assert!(reader.take(&sender) && reader.taken() == 1);
        sender.withdraw(2);
        assert!(!reader.take(&sender) && reader.taken() == 1);
    }
}
