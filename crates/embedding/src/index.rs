//! A hash index in cache lines: 12 one-byte tags and 12 numbers a bucket, and how many keys had to go on to the next one.
//!
//! Holds numbers of rows, no keys: the caller compares those. A lookup that finds nothing reads one line, mostly.

use crate::chunk::ask_for_huge_pages;
use crate::lines::prefetch;

/// Entries a bucket.
const WAYS: usize = 12;
const FULL: u32 = (1 << WAYS) - 1;
/// A count that is no longer known, and so never falls.
const SATURATED: u8 = u8::MAX;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    /// 0 if there is no entry.
    tags: [u8; WAYS],
    /// Keys that found this bucket full, when they came.
    n_passed: u8,
    unused: [u8; 3],
    numbers: [u32; WAYS],
}

const EMPTY: Bucket = Bucket { tags: [0; WAYS], n_passed: 0, unused: [0; 3], numbers: [0; WAYS] };

impl Bucket {
    /// Bits of the entries with this tag.
    #[inline(always)]
    fn matching(&self, tag: u8) -> u32 {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8, _mm_set1_epi8};
            // SAFETY: every x86-64 processor has SSE2; a bucket begins with 16 bytes, aligned as it is, the tags first.
            let mask = unsafe {
                let tags = _mm_load_si128(std::ptr::from_ref(self).cast());
                _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8)))
            };
            mask as u32 & FULL
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            (0..WAYS).fold(0, |bits, w| bits | ((self.tags[w] == tag) as u32) << w)
        }
    }
}

#[inline(always)]
fn tag_of(hash: u64) -> u8 {
    ((hash >> 56) as u8).max(1)
}

pub struct Index {
    buckets: Vec<Bucket>,
    len: usize,
}

impl Index {
    pub fn new() -> Index {
        Index { buckets: vec![EMPTY; 1], len: 0 }
    }
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// What lookups read.
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        View { buckets: &self.buckets }
    }
    #[inline(always)]
    fn bucket_of(&self, hash: u64) -> usize {
        self.view().bucket_of(hash)
    }
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.view().prefetch(hash);
    }
    /// As `View::find`.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.view().find(hash, is_it)
    }
    /// As `View::candidate`.
    #[inline(always)]
    pub fn candidate(&self, hash: u64, ask: impl FnOnce(u32)) -> Option<u32> {
        self.view().candidate(hash, ask)
    }

    /// All numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        self.buckets.iter().flat_map(|b| (0..WAYS).filter(|w| b.tags[*w] != 0).map(|w| b.numbers[w]))
    }

    /// Returns true if the next key makes the table grow. Five sixths full: beyond, keys pass on through many buckets.
    pub fn is_full(&self) -> bool {
        self.len >= self.buckets.len() * (WAYS - 2)
    }

    /// Adds a new key. `hash_of` returns the hash of existing numbers.
    pub fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        if self.is_full() {
            let old = std::mem::take(&mut self.buckets);
            self.buckets = Vec::with_capacity(old.len() * 2);
            ask_for_huge_pages(self.buckets.as_mut_ptr().cast(), old.len() * 2 * size_of::<Bucket>());
            self.buckets.resize(old.len() * 2, EMPTY);
            for bucket in &old {
                for w in (0..WAYS).filter(|w| bucket.tags[*w] != 0) {
                    self.place(hash_of(bucket.numbers[w]), bucket.numbers[w]);
                }
            }
        }
        self.place(hash, number);
        self.len += 1;
    }

    fn place(&mut self, hash: u64, number: u32) {
        let mask = self.buckets.len() - 1;
        let mut b = self.bucket_of(hash);
        // Ends: the table is never full.
        loop {
            let bucket = &mut self.buckets[b];
            let free = bucket.matching(0);
            if free != 0 {
                let w = free.trailing_zeros() as usize;
                bucket.tags[w] = tag_of(hash);
                bucket.numbers[w] = number;
                return;
            }
            bucket.n_passed = bucket.n_passed.saturating_add(1);
            b = (b + 1) & mask;
        }
    }

    /// The key of one number has another one from now on.
    pub fn renumber(&mut self, hash: u64, from: u32, to: u32) {
        let (mut b, tag) = (self.bucket_of(hash), tag_of(hash));
        for _ in 0..self.buckets.len() {
            let bucket = &mut self.buckets[b];
            let bits = bucket.matching(tag);
            if let Some(w) = (0..WAYS).find(|w| bits >> w & 1 == 1 && bucket.numbers[*w] == from) {
                bucket.numbers[w] = to;
                return;
            }
            if bucket.n_passed == 0 {
                return;
            }
            b = (b + 1) & (self.buckets.len() - 1);
        }
    }

    /// Removes the entry of this number; false if it is not there.
    pub fn remove(&mut self, hash: u64, number: u32) -> bool {
        let mask = self.buckets.len() - 1;
        let (first, tag) = (self.bucket_of(hash), tag_of(hash));
        for n in 0..self.buckets.len() {
            let b = (first + n) & mask;
            let bucket = &mut self.buckets[b];
            let bits = bucket.matching(tag);
            let found = (0..WAYS).find(|w| bits >> w & 1 == 1 && bucket.numbers[*w] == number);
            if let Some(w) = found {
                bucket.tags[w] = 0;
                self.len -= 1;
                for k in 0..n {
                    let passed = &mut self.buckets[(first + k) & mask].n_passed;
                    if *passed != SATURATED {
                        *passed -= 1;
                    }
                }
                return true;
            }
            if bucket.n_passed == 0 {
                return false;
            }
        }
        false
    }
}

/// The buckets of an index, to be copied where many keys are looked for.
#[derive(Clone, Copy)]
pub struct View<'a> {
    buckets: &'a [Bucket],
}

impl View<'_> {
    #[inline(always)]
    fn bucket_of(&self, hash: u64) -> usize {
        // The number of buckets is a power of two.
        hash as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.buckets[self.bucket_of(hash)]);
    }

    /// The number of the key for which `is_it` returns true.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let (mut b, tag) = (self.bucket_of(hash), tag_of(hash));
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[b];
            let mut bits = bucket.matching(tag);
            while bits != 0 {
                let number = bucket.numbers[bits.trailing_zeros() as usize];
                if is_it(number) {
                    return Some(number);
                }
                bits &= bits - 1;
            }
            if bucket.n_passed == 0 {
                return None;
            }
            b = (b + 1) & (self.buckets.len() - 1);
        }
        None
    }

    /// The first number that may be this key's; None if `find` finds nothing in its first bucket. Asks for what `find` reads if
    /// it is not this one: `ask` is called with the next number, or the next bucket is asked for.
    #[inline(always)]
    pub fn candidate(&self, hash: u64, ask: impl FnOnce(u32)) -> Option<u32> {
        let b = self.bucket_of(hash);
        let bucket = &self.buckets[b];
        let bits = bucket.matching(tag_of(hash));
        if bits == 0 {
            if bucket.n_passed != 0 {
                prefetch(&self.buckets[(b + 1) & (self.buckets.len() - 1)]);
            }
            return None;
        }
        let rest = bits & (bits - 1);
        if rest != 0 {
            ask(bucket.numbers[rest.trailing_zeros() as usize]);
        }
        Some(bucket.numbers[bits.trailing_zeros() as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::mix;
    use std::collections::HashSet;

    #[test]
    fn random_programs_agree_with_a_set() {
        for to_positions in [1u64, 8, 1 << 20] {
            // A narrow to_positions gives keys of equal hashes, which overflow into many buckets.
            let hash_of = |n: u32| mix(n as u64 % to_positions);
            let (mut index, mut set, mut x) = (Index::new(), HashSet::new(), 5u64);
            for _ in 0..20_000 {
                x = mix(x + 1);
                let n = (x >> 8) as u32 % 600;
                match (x % 3, set.contains(&n)) {
                    (0, true) => {
                        assert!(index.remove(hash_of(n), n));
                        set.remove(&n);
                    }
                    (0, false) => assert!(!index.remove(hash_of(n), n)),
                    (_, false) => {
                        index.insert(hash_of(n), n, hash_of);
                        set.insert(n);
                    }
                    (_, true) => {
                        assert_eq!(index.find(hash_of(n), |m| m == n), Some(n));
                        index.renumber(hash_of(n), n, n + 1000);
                        assert_eq!(index.find(hash_of(n), |m| m % 1000 == n), Some(n + 1000));
                        index.renumber(hash_of(n), n + 1000, n);
                        index.renumber(hash_of(n), n + 1000, n + 2000);
                    }
                }
                assert_eq!(index.len(), set.len());
            }
            for n in 0..600 {
                assert_eq!(index.find(hash_of(n), |m| m == n).is_some(), set.contains(&n));
            }
        }
    }
}
