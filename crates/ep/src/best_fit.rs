//! Best fit with splitting and coalescing over segments of address space: the bookkeeping that the host's and the GPU's
//! caching allocators share. It never touches the memory it manages and obtains none.

use std::collections::{BTreeSet, HashSet};

const NONE: u32 = u32::MAX;

/// A part of a segment. Neighbours in the same segment are linked.
struct Chunk {
    pool: u64,
    addr: usize,
    bytes: usize,
    prev: u32,
    next: u32,
    used: bool,
}

/// A chunk as `segments` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub id: u32,
    pub addr: usize,
    pub bytes: usize,
    pub used: bool,
}

/// An allocated chunk. `id` is needed to free it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub addr: usize,
    pub bytes: usize,
    pub id: u32,
}

/// Free and used chunks of all segments. Chunks of different pools never merge.
pub struct BestFit {
    chunks: Vec<Chunk>,
    vacant: Vec<u32>,
    /// Free chunks but the open one, ordered so that the first entry at or above (pool, bytes) is the best fit, lowest address
    /// first.
    free: BTreeSet<Key>,
    /// The chunk that became free last, if it still is. Mostly it is the next one that is split or merged, and the set need not
    /// change for that.
    open: u32,
    /// Number and bytes of free chunks that are a part of their segment, of even and of odd pools.
    splits: [(usize, usize); 2],
}

/// Pool, bytes, address, number.
type Key = (u64, usize, usize, u32);

impl Default for BestFit {
    fn default() -> BestFit {
        BestFit::new()
    }
}

impl BestFit {
    pub const fn new() -> BestFit {
        BestFit { chunks: Vec::new(), vacant: Vec::new(), free: BTreeSet::new(), open: NONE, splits: [(0, 0); 2] }
    }

    /// Adds a fresh free segment; the number of its first chunk, which stays.
    pub fn add_segment(&mut self, pool: u64, addr: usize, bytes: usize) -> u32 {
        let id = self.insert(Chunk { pool, addr, bytes, prev: NONE, next: NONE, used: false });
        self.add_free(id);
        id
    }

    /// The last chunk of the segment that begins with `head`.
    pub fn tail(&self, head: u32) -> Part {
        let mut id = head;
        while self.chunks[id as usize].next != NONE {
            id = self.chunks[id as usize].next;
        }
        self.part(id)
    }

    /// Makes the segment that begins with `head` longer at its end.
    pub fn extend(&mut self, head: u32, bytes: usize) {
        let tail = self.tail(head);
        if !tail.used {
            self.forget_free(tail.id);
            self.at(tail.id).bytes += bytes;
            return self.add_free(tail.id);
        }
        let pool = self.at(tail.id).pool;
        let addr = tail.addr + tail.bytes;
        let id = self.insert(Chunk { pool, addr, bytes, prev: tail.id, next: NONE, used: false });
        self.at(tail.id).next = id;
        self.add_free(id);
    }

    /// Ends the segment that begins with `head` at an address within its last chunk, which is free; true where nothing is left.
    pub fn cut(&mut self, head: u32, end: usize) -> bool {
        let tail = self.tail(head);
        self.forget_free(tail.id);
        if end > tail.addr {
            self.at(tail.id).bytes = end - tail.addr;
            self.add_free(tail.id);
            return false;
        }
        let prev = self.at(tail.id).prev;
        if prev != NONE {
            self.at(prev).next = NONE;
        }
        self.vacant.push(tail.id);
        prev == NONE
    }

    fn part(&self, id: u32) -> Part {
        let c = &self.chunks[id as usize];
        Part { id, addr: c.addr, bytes: c.bytes, used: c.used }
    }

    /// The smallest free chunk of `pool` that holds `bytes`, split where more than `slack` would be left over.
    pub fn take(&mut self, pool: u64, bytes: usize, slack: usize) -> Option<Taken> {
        let (_, whole, addr, id) = self.best(pool, bytes)?;
        self.forget_free(id);
        let rest = whole - bytes;
        if rest > slack {
            let next = self.at(id).next;
            let tail = Chunk { pool, addr: addr + bytes, bytes: rest, prev: id, next, used: false };
            let tail_id = self.insert(tail);
            if next != NONE {
                self.at(next).prev = tail_id;
            }
            let head = self.at(id);
            head.next = tail_id;
            head.bytes = bytes;
            self.add_free(tail_id);
        }
        let c = self.at(id);
        c.used = true;
        Some(Taken { addr, bytes: c.bytes, id })
    }

    /// Returns true if `take` would find `bytes` in `pool`.
    pub fn holds(&self, pool: u64, bytes: usize) -> bool {
        self.best(pool, bytes).is_some()
    }

    /// The smallest free chunk of `pool` that holds `bytes`, of several the first in memory.
    fn best(&self, pool: u64, bytes: usize) -> Option<Key> {
        let open = Some(self.open).filter(|id| *id != NONE).map(|id| self.key(id));
        let open = open.filter(|k| k.0 == pool && k.1 >= bytes);
        let of_set = self.free.range((pool, bytes, 0, 0)..).next().copied().filter(|k| k.0 == pool);
        match (open, of_set) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Gives a chunk back; true where it was in use.
    pub fn give(&mut self, id: u32) -> bool {
        match self.chunks.get_mut(id as usize) {
            Some(c) if c.used => c.used = false,
            _ => return false,
        }
        let mut id = id;
        let prev = self.at(id).prev;
        if prev != NONE && !self.at(prev).used {
            self.forget_free(prev);
            self.absorb_next(prev);
            id = prev;
        }
        let next = self.at(id).next;
        if next != NONE && !self.at(next).used {
            self.forget_free(next);
            self.absorb_next(id);
        }
        self.add_free(id);
        true
    }

    /// Number and bytes of free chunks whose segments are in use beside them: (even pools, odd pools).
    pub fn splits(&self) -> [(usize, usize); 2] {
        self.splits
    }

    /// All segments with their pool and their parts in order.
    pub fn segments(&self) -> Vec<(u64, Vec<Part>)> {
        let vacant: HashSet<u32> = self.vacant.iter().copied().collect();
        let heads = (0..self.chunks.len() as u32).filter(|id| !vacant.contains(id));
        let heads = heads.filter(|id| self.chunks[*id as usize].prev == NONE);
        let after = |p: &Part| Some(self.chunks[p.id as usize].next).filter(|id| *id != NONE).map(|id| self.part(id));
        let parts = |id: u32| std::iter::successors(Some(self.part(id)), after).collect();
        heads.map(|id| (self.chunks[id as usize].pool, parts(id))).collect()
    }

    /// The pool a chunk in use belongs to.
    pub fn pool_of(&self, id: u32) -> Option<u64> {
        self.chunks.get(id as usize).filter(|c| c.used).map(|c| c.pool)
    }

    /// The size of a chunk in use.
    pub fn bytes_of(&self, id: u32) -> Option<usize> {
        self.chunks.get(id as usize).filter(|c| c.used).map(|c| c.bytes)
    }

    /// Takes out segments that are free from end to end and pass the filter (pool, bytes); the caller returns their memory:
    /// (pool, address, bytes).
    pub fn release(&mut self, mut wanted: impl FnMut(u64, usize) -> bool) -> Vec<(u64, usize, usize)> {
        self.close();
        let chunks = &self.chunks;
        let whole: Vec<_> = self
            .free
            .iter()
            .filter(|k| {
                let c = &chunks[k.3 as usize];
                c.prev == NONE && c.next == NONE && wanted(k.0, k.1)
            })
            .copied()
            .collect();
        for key in &whole {
            self.free.remove(key);
            self.vacant.push(key.3);
        }
        whole.iter().map(|k| (k.0, k.2, k.1)).collect()
    }

    fn at(&mut self, id: u32) -> &mut Chunk {
        &mut self.chunks[id as usize]
    }

    fn insert(&mut self, c: Chunk) -> u32 {
        match self.vacant.pop() {
            Some(id) => {
                self.chunks[id as usize] = c;
                id
            }
            None => {
                self.chunks.push(c);
                (self.chunks.len() - 1) as u32
            }
        }
    }

    fn key(&self, id: u32) -> Key {
        let c = &self.chunks[id as usize];
        (c.pool, c.bytes, c.addr, id)
    }

    /// Puts the open chunk among the others.
    fn close(&mut self) {
        let id = std::mem::replace(&mut self.open, NONE);
        if id != NONE {
            self.free.insert(self.key(id));
        }
    }

    fn add_free(&mut self, id: u32) {
        self.close();
        self.open = id;
        let c = self.at(id);
        if c.prev != NONE || c.next != NONE {
            let (pool, bytes) = (c.pool, c.bytes);
            let splits = &mut self.splits[pool as usize & 1];
            *splits = (splits.0 + 1, splits.1 + bytes);
        }
    }

    fn forget_free(&mut self, id: u32) {
        let key = self.key(id);
        let c = self.at(id);
        if c.prev != NONE || c.next != NONE {
            let splits = &mut self.splits[key.0 as usize & 1];
            *splits = (splits.0 - 1, splits.1 - key.1);
        }
        match self.open == id {
            true => self.open = NONE,
            false => _ = self.free.remove(&key),
        }
    }

    /// Merges a chunk with its next neighbour, whose number becomes vacant.
    fn absorb_next(&mut self, id: u32) {
        let gone = self.at(id).next;
        let (bytes, after) = (self.at(gone).bytes, self.at(gone).next);
        let c = self.at(id);
        c.bytes += bytes;
        c.next = after;
        if after != NONE {
            self.at(after).prev = id;
        }
        let g = self.at(gone);
        g.used = false;
        self.vacant.push(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_and_merges_back_to_the_whole_segment() {
        let mut b = BestFit::new();
        b.add_segment(0, 4096, 1000);
        let x = b.take(0, 100, 0).unwrap();
        let y = b.take(0, 300, 0).unwrap();
        let z = b.take(0, 600, 0).unwrap();
        assert_eq!((x.addr, y.addr, z.addr), (4096, 4196, 4496));
        assert!(b.take(0, 1, 0).is_none());
        assert!(b.give(x.id) && b.give(z.id));
        assert!(b.release(|_, _| true).is_empty());
        assert!(b.give(y.id));
        assert!(!b.give(y.id));
        assert_eq!(b.release(|_, _| true), vec![(0, 4096, 1000)]);
    }

    #[test]
    fn segments_grow_and_shrink_at_their_end() {
        let mut b = BestFit::new();
        let head = b.add_segment(0, 4096, 100);
        let x = b.take(0, 60, 0).unwrap();
        b.extend(head, 100);
        let y = b.take(0, 140, 0).unwrap();
        assert_eq!((x.addr, y.addr, b.splits()), (4096, 4156, [(0, 0); 2]));
        b.extend(head, 50);
        assert_eq!(b.tail(head), Part { id: b.tail(head).id, addr: 4296, bytes: 50, used: false });
        assert!(!b.cut(head, 4300));
        assert_eq!((b.tail(head).bytes, b.splits()[0]), (4, (1, 4)));
        assert!(!b.cut(head, 4296));
        assert!(b.tail(head).used && b.splits()[0] == (0, 0));
        assert!(b.give(y.id) && b.give(x.id));
        assert!(b.cut(head, 4096));
        assert!(b.segments().is_empty() && !b.holds(0, 1));
    }

    #[test]
    fn takes_the_smallest_that_fits_and_keeps_pools_apart() {
        let mut b = BestFit::new();
        b.add_segment(1, 1 << 20, 500);
        b.add_segment(2, 2 << 20, 200);
        b.add_segment(2, 3 << 20, 300);
        assert_eq!(b.take(2, 150, 64).unwrap(), Taken { addr: 2 << 20, bytes: 200, id: 1 });
        assert_eq!(b.take(2, 150, 64).unwrap().bytes, 150);
        assert!(b.take(2, 400, 0).is_none());
        assert_eq!(b.take(1, 400, 0).unwrap().addr, 1 << 20);
    }

    #[test]
    fn random_traffic_never_overlaps_and_loses_nothing() {
        let mut b = BestFit::new();
        b.add_segment(0, 1 << 20, 1 << 16);
        let mut seed = 1u64;
        let mut rnd = |n: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % n
        };
        let mut held: Vec<Taken> = Vec::new();
        for _ in 0..20_000 {
            if rnd(2) == 0 {
                let wanted = (rnd(40) + 1) * 64;
                let free = b.segments().remove(0).1.into_iter().filter(|p| !p.used && p.bytes >= wanted);
                let best = free.min_by_key(|p| (p.bytes, p.addr)).map(|p| p.addr);
                let taken = b.take(0, wanted, rnd(2) * 256);
                assert_eq!(taken.map(|t| t.addr), best);
                if let Some(t) = taken {
                    assert!(held.iter().all(|h| t.addr + t.bytes <= h.addr || h.addr + h.bytes <= t.addr));
                    held.push(t);
                }
            } else if !held.is_empty() {
                let i = rnd(held.len());
                assert!(b.give(held.swap_remove(i).id));
            }
            let segments = b.segments();
            assert_eq!(segments.len(), 1);
            let parts = &segments[0].1;
            assert_eq!(parts.iter().map(|p| p.bytes).sum::<usize>(), 1 << 16);
            assert!(parts.windows(2).all(|w| w[0].addr + w[0].bytes == w[1].addr && (w[0].used || w[1].used)));
            let free: Vec<usize> = parts.iter().filter(|p| !p.used && parts.len() > 1).map(|p| p.bytes).collect();
            assert_eq!(b.splits(), [(free.len(), free.iter().sum()), (0, 0)]);
        }
        held.iter().for_each(|t| assert!(b.give(t.id)));
        assert_eq!(b.release(|_, _| true), vec![(0, 1 << 20, 1 << 16)]);
    }
}
