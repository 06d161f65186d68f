//! The lanes between two ranks of one host, one for collectives and one for messages: each has two rings of bytes in memory
//! that both have mapped.
//!
//! A ring carries the byte stream that a socket would. A thread that finds nothing to do spins for a
//! moment and then sleeps, either on a word of this memory (a futex) or on the lane's socket. It says which and what it waits for, and
//! the other side wakes it there when it has done that. The
//! memory has no name: it is gone when both processes are, however they ended. Its size is sealed and every position in it is
//! checked, so that a broken peer is an error here and no fault. Pages that no message has touched take no memory.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

use super::direct;
use crate::copy::copy_past_cache;
use crate::sockets::timespec;

/// Separates the words that two ranks write.
#[repr(C, align(128))]
pub(super) struct Apart<T>(pub T);

/// Of one direction: bytes written and bytes read since the beginning.
#[repr(C)]
struct Ring {
    head: Apart<AtomicU64>,
    tail: Apart<AtomicU64>,
}

/// The header before the bytes of a lane's two rings.
#[repr(C)]
struct Head {
    /// Known to those two ranks alone. Of the first lane.
    secret: AtomicU64,
    /// Written by side 0 and by side 1.
    rings: [Ring; 2],
    /// What a side that sleeps waits for, and where.
    asleep: [Apart<AtomicU32>; 2],
    /// Of messages that do not go through the rings. Of the first lane.
    direct: [direct::Side; 2],
}

/// A sleeper waits for bytes that it may read.
pub(super) const DATA: u32 = 1;
/// A sleeper waits for room to write.
pub(super) const ROOM: u32 = 2;
/// A sleeper takes bytes that it does not wait for, where the other side has no room left.
pub(super) const PRESSURE: u32 = 4;
/// Sleepers are woken through the memory and not through the socket.
pub(super) const FUTEX: u32 = 8;

const HEAD: usize = size_of::<Head>().next_multiple_of(4096);
/// Bytes that become visible to the other side at once: it copies the first while the next are written.
const STRIDE: usize = 64 << 10;
/// Bytes of the rings of all pairs together that one rank of a group touches, of collectives and again of messages.
const BUDGET: usize = 32 << 20;
/// Where at least this many bytes are still to come, they go to memory past the cache, which would not hold them until they are used.
const UNCACHED: usize = 2 << 20;
const NAME: &str = "oneflow lane";
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// One rank's end of a lane.
pub(super) struct Shm {
    /// Keeps the memory mapped.
    _memory: Arc<Memory>,
    head: NonNull<Head>,
    /// 0 created the memory, 1 was offered it.
    side: usize,
    capacity: usize,
}

// SAFETY: the memory stays mapped as long as the value lives; all words in it are atomics, and bytes of a ring are touched
// by the one side that the positions give them to.
unsafe impl Send for Shm {}
// SAFETY: as above. One thread at a time reads or writes a lane: the one in the group's collective turn, or the one that holds
// the lock of its messages.
unsafe impl Sync for Shm {}

/// The lanes of two ranks.
pub(super) struct Lanes {
    pub collectives: Shm,
    pub messages: Shm,
}

struct Memory {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: an address and a length; who uses the memory says why it may.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the very mapping that `map` made; all lanes in it are gone.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.bytes) };
    }
}

/// Memory that a peer may map, with the parameters it needs for that.
pub(super) struct Offer {
    pub lanes: Lanes,
    pub fd: OwnedFd,
    pub secret: u64,
}

fn capacity(n_ranks: usize) -> usize {
    (BUDGET / (2 * n_ranks)).clamp(STRIDE, 1 << 20).next_power_of_two()
}

/// Bytes of one lane: its header and two rings.
fn lane_bytes(capacity: usize) -> usize {
    HEAD + 2 * capacity
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

impl Lanes {
    /// Makes the lanes with a peer in a group of `n_ranks`.
    pub fn offer(n_ranks: usize, secret: u64) -> Result<Offer> {
        let capacity = capacity(n_ranks);
        let fd = memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, 2 * lane_bytes(capacity) as u64)?;
        fcntl_add_seals(&fd, SEALS)?;
        let lanes = Lanes::map(&fd, capacity, 0)?;
        lanes.collectives.head().secret.store(secret, Ordering::Release);
        lanes.collectives.arrive();
        Ok(Offer { lanes, fd, secret })
    }

    /// The other ends of what the process `pid` offers under its descriptor `fd`.
    pub fn accept(pid: u32, fd: u32, n_ranks: usize, secret: u64) -> Result<Lanes> {
        let path = format!("/proc/{pid}/fd/{fd}");
        // In another namespace the number may be that of anything: nothing else is opened.
        if !std::fs::read_link(&path)?.to_string_lossy().contains(NAME) {
            return Err(broken("no lane"));
        }
        let file = File::options().read(true).write(true).open(&path)?;
        let capacity = capacity(n_ranks);
        let whole = 2 * lane_bytes(capacity) as u64;
        if file.metadata()?.len() != whole || !fcntl_get_seals(&file)?.contains(SEALS) {
            return Err(broken("a lane of another size"));
        }
        let lanes = Lanes::map(&file, capacity, 1)?;
        match lanes.collectives.head().secret.load(Ordering::Acquire) == secret {
            true => {
                lanes.collectives.arrive();
                lanes.collectives.try_reading();
                Ok(lanes)
            }
            false => Err(broken("another group's lane")),
        }
    }

    fn map(fd: &impl std::os::fd::AsFd, capacity: usize, side: usize) -> Result<Lanes> {
        let bytes = 2 * lane_bytes(capacity);
        // SAFETY: a fresh mapping at an address of the system's choice; the file's size is sealed, so every byte exists.
        let at = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, fd.as_fd(), 0)
        }?;
        let at = NonNull::new(at.cast::<u8>()).ok_or_else(|| broken("no memory"))?;
        let memory = Arc::new(Memory { at, bytes });
        let lane = |place: usize| {
            // SAFETY: inside the mapping, which has room for two lanes; their bytes are whole pages, so a header is aligned.
            let head = unsafe { at.add(place * lane_bytes(capacity)) }.cast::<Head>();
            Shm { _memory: memory.clone(), head, side, capacity }
        };
        Ok(Lanes { collectives: lane(0), messages: lane(1) })
    }
}

impl Shm {
    fn head(&self) -> &Head {
        // SAFETY: mapped, zeroed or written as a `Head`, whose fields are atomics: any bytes are valid values.
        unsafe { self.head.as_ref() }
    }

    /// First byte of the ring that `side` writes.
    fn data(&self, side: usize) -> *mut u8 {
        // SAFETY: inside the mapping, which has room for two rings behind the head.
        unsafe { self.head.as_ptr().cast::<u8>().add(HEAD + side * self.capacity) }
    }

    /// Bytes in a ring; more than it holds is the other side's nonsense.
    fn filled(&self, head: u64, tail: u64) -> Result<usize> {
        match head.wrapping_sub(tail) {
            n if n <= self.capacity as u64 => Ok(n as usize),
            _ => Err(broken("the lane's positions are out of range")),
        }
    }

    /// Writes as much as fits now, up to a stride after the first part, which is a header or empty. The other side sees all of it
    /// at once: it does not wake up for the header of a short message.
    pub fn write(&self, parts: [&[u8]; 2]) -> Result<usize> {
        let ring = &self.head().rings[self.side];
        let head = ring.head.0.load(Ordering::Relaxed);
        let room = self.capacity - self.filled(head, ring.tail.0.load(Ordering::Acquire))?;
        let room = room.min(parts[0].len().min(STRIDE) + STRIDE);
        let mut written = 0;
        for mut part in parts {
            while written < room && !part.is_empty() {
                let at = (head as usize).wrapping_add(written) & (self.capacity - 1);
                let n = part.len().min(room - written).min(self.capacity - at);
                // SAFETY: `n` bytes from `at` on lie in the ring, and until `head` says so the other side does not touch them.
                unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), self.data(self.side).add(at), n) };
                (part, written) = (&part[n..], written + n);
            }
        }
        if written == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        ring.head.0.store(head.wrapping_add(written as u64), Ordering::Release);
        Ok(written)
    }

    /// Reads what has come, up to a stride.
    pub fn read(&self, data: &mut [u8]) -> Result<usize> {
        let other = 1 - self.side;
        let ring = &self.head().rings[other];
        let tail = ring.tail.0.load(Ordering::Relaxed);
        let filled = self.filled(ring.head.0.load(Ordering::Acquire), tail)?;
        let at = tail as usize & (self.capacity - 1);
        let n = data.len().min(filled).min(STRIDE).min(self.capacity - at);
        if n == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        // SAFETY: `head` says that the other side has written these bytes, and until `tail` says so it writes no others there.
        unsafe {
            let (src, dst) = (self.data(other).add(at), data.as_mut_ptr());
            if data.len() >= UNCACHED { copy_past_cache(src, dst, n) } else { src.copy_to_nonoverlapping(dst, n) }
        };
        ring.tail.0.store(tail.wrapping_add(n as u64), Ordering::Release);
        Ok(n)
    }

    fn arrive(&self) {
        self.own().arrive(self.head.as_ptr() as u64);
    }

    fn try_reading(&self) {
        self.own().try_reading(self.other(), self.head().secret.load(Ordering::Acquire));
    }

    /// What this side has said of messages that do not go through the rings.
    pub fn own(&self) -> &direct::Side {
        &self.head().direct[self.side]
    }

    /// What the other side has.
    pub fn other(&self) -> &direct::Side {
        &self.head().direct[1 - self.side]
    }

    /// Bytes that the other side has written and this one has not read. More than a ring holds: nonsense, which a read finds.
    pub fn unread(&self) -> usize {
        let ring = &self.head().rings[1 - self.side];
        ring.head.0.load(Ordering::Acquire).wrapping_sub(ring.tail.0.load(Ordering::Relaxed)) as usize
    }

    /// Bytes that this side may write.
    pub fn room(&self) -> usize {
        let ring = &self.head().rings[self.side];
        let filled = ring.head.0.load(Ordering::Relaxed).wrapping_sub(ring.tail.0.load(Ordering::Acquire)) as usize;
        self.capacity.saturating_sub(filled)
    }

    /// Bytes that a ring holds.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// This side is about to sleep until one of `events`. Between this and the sleep it looks once more whether there is something
    /// to do.
    pub fn fall_asleep(&self, events: u32) {
        self.head().asleep[self.side].0.store(events, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    pub fn wake_up(&self) {
        self.head().asleep[self.side].0.store(0, Ordering::Relaxed);
    }

    /// Sleeps in the memory for as long as what this side has said of its sleep is `said`, and a signal or `limit` may end it.
    pub fn sleep(&self, said: u32, limit: Duration) {
        // However it ends, the caller looks what there is to do.
        let _ = futex::wait(&self.head().asleep[self.side].0, futex::Flags::empty(), said, Some(&timespec(limit)));
    }

    /// Wakes the other side if it sleeps in the memory and waits for one of `events`, which this one has caused. Returns true if it
    /// sleeps on its socket instead, for the caller to ring.
    pub fn must_ring(&self, events: u32) -> bool {
        self.wake(1 - self.side, events) == Some(false)
    }

    /// Wakes the threads of this side that sleep in the memory.
    pub fn rouse(&self) {
        self.wake(self.side, FUTEX);
    }

    /// `None` where nobody of a side sleeps for one of `events`, else whether its sleepers were in the memory and are awake.
    fn wake(&self, side: usize, events: u32) -> Option<bool> {
        // Either this sees that somebody sleeps, or the sleeper, who looks after having said so, sees what was done.
        fence(Ordering::SeqCst);
        let asleep = &self.head().asleep[side].0;
        if asleep.load(Ordering::Relaxed) & events == 0 {
            return None;
        }
        let said = asleep.swap(0, Ordering::SeqCst);
        if said & FUTEX != 0 {
            // Fails for no word that is mapped.
            let _ = futex::wake(asleep, futex::Flags::empty(), i32::MAX as u32);
        }
        // What it waits for may have changed meanwhile: it looks again.
        (said != 0).then_some(said & FUTEX != 0)
    }
}

impl Offer {
    /// The other rank has mapped the memory.
    pub fn taken(self) -> Lanes {
        self.lanes.collectives.try_reading();
        self.lanes
    }

    /// Tells the other rank how to map the memory.
    pub fn place(&self) -> (u32, u32) {
        (std::process::id(), self.fd.as_raw_fd() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Shm, Shm) {
        let (one, other) = lanes();
        (one.collectives, other.collectives)
    }

    fn lanes() -> (Lanes, Lanes) {
        let offer = Lanes::offer(2, 77).unwrap();
        let (pid, fd) = offer.place();
        assert!(Lanes::accept(pid, fd, 2, 78).is_err(), "another secret");
        assert!(Lanes::accept(pid, fd, 64, 77).is_err(), "another size");
        assert!(Lanes::accept(pid, 0, 2, 77).is_err(), "no lane");
        let other = Lanes::accept(pid, fd, 2, 77).unwrap();
        (offer.lanes, other)
    }

    #[test]
    fn bytes_come_in_order_both_ways_at_once() {
        let (a, b) = pair();
        let sent: Vec<u8> = (0..5_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let side = |lane: &Shm| {
            let (mut out, mut got) = (0, vec![0; sent.len()]);
            let mut at = 0;
            while out < sent.len() || at < got.len() {
                // Odd lengths, so that pieces wrap around the ring's end anywhere.
                let (next, end) = ((out + 48).min(sent.len()), (out + 70_001).min(sent.len()));
                out += lane.write([&sent[out..next], &sent[next..end]]).unwrap_or(0);
                let end = (at + 33_333).min(got.len());
                at += lane.read(&mut got[at..end]).unwrap_or(0);
            }
            assert!(got == sent);
        };
        std::thread::scope(|s| {
            s.spawn(|| side(&a));
            s.spawn(|| side(&b));
        });
    }

    #[test]
    fn a_sleeper_is_rung_for_once_and_nonsense_is_an_error() {
        let (a, b) = pair();
        assert!(!a.must_ring(DATA | ROOM));
        b.fall_asleep(DATA | ROOM);
        assert!(a.must_ring(DATA) && !a.must_ring(DATA));
        b.fall_asleep(DATA | PRESSURE);
        assert!(!a.must_ring(ROOM) && a.must_ring(PRESSURE) && !a.must_ring(DATA));
        assert_eq!(b.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
        a.head().rings[0].head.0.store(u64::MAX / 2, Ordering::Release);
        assert_eq!(b.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(a.write([&[0; 4], &[]]).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn sleepers_in_the_memory_are_woken_by_either_side() {
        let (a, b) = pair();
        let long = Duration::from_secs(60);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let start = std::time::Instant::now();
                for said in [DATA | FUTEX, FUTEX] {
                    b.fall_asleep(said);
                    while b.head().asleep[b.side].0.load(Ordering::SeqCst) == said {
                        b.sleep(said, long);
                    }
                }
                assert!(start.elapsed() < long);
            });
            let says = |said: u32| {
                while b.head().asleep[b.side].0.load(Ordering::SeqCst) != said {
                    std::thread::yield_now();
                }
            };
            says(DATA | FUTEX);
            assert!(!a.must_ring(ROOM));
            a.write([&[1], &[]]).unwrap();
            assert!(!a.must_ring(DATA), "no socket");
            // What the other side does is no reason for a thread that waits for one of its own.
            says(FUTEX);
            assert!(!a.must_ring(DATA | ROOM | PRESSURE));
            assert!(!sleeper.is_finished());
            b.rouse();
        });
        // Who says that something else is waited for meanwhile sleeps no more.
        b.fall_asleep(ROOM | FUTEX);
        b.sleep(DATA | FUTEX, long);
    }

    #[test]
    fn the_two_lanes_of_a_pair_share_no_byte() {
        let (one, other) = lanes();
        for (lane, byte) in [(&one.collectives, 1), (&other.collectives, 2), (&one.messages, 3), (&other.messages, 4)] {
            let mut at = 0;
            while let Ok(n) = lane.write([&vec![byte; lane.capacity()], &[]]) {
                at += n;
            }
            assert_eq!((at, lane.room()), (lane.capacity(), 0));
        }
        let sides = [(&other.collectives, 1), (&one.collectives, 2), (&other.messages, 3), (&one.messages, 4)];
        for (lane, byte) in sides {
            assert_eq!(lane.unread(), lane.capacity());
            let (mut got, mut at) = (vec![0; lane.capacity()], 0);
            while let Ok(n) = lane.read(&mut got[at..]) {
                at += n;
            }
            assert!(at == got.len() && got.iter().all(|&b| b == byte), "{byte}");
        }
    }
}
