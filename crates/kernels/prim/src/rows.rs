//! Walking strided operands together, and splitting the walk over threads.
//!
//! A `Grid` is a loop nest over K operands with mergeable dimensions merged. It touches no memory: it yields offsets.

use oneflow_base::Dims;
use oneflow_ep::cpu;
use smallvec::SmallVec;
use std::ops::Range;

/// Below this much work a kernel stays on its caller.
const INLINE_NS: f64 = 20_000.0;

/// Runs `f` over disjoint parts of `0..n`. `ns` is the rough cost of an item; where the parts end must not change what
/// `f` computes for an item.
#[inline]
pub fn split(n: usize, ns: f64, f: &(dyn Fn(Range<usize>) + Sync)) {
    let total = n as f64 * ns;
    let threads = if total < INLINE_NS || n < 2 { 1 } else { cpu::num_threads() };
    if threads == 1 {
        if n > 0 {
            f(0..n);
        }
        return;
    }
    let parts = n.min((total / (INLINE_NS / 2.0)) as usize).min(threads * 8).max(2);
    cpu::parallel_for(parts, &|i| f(i * n / parts..(i + 1) * n / parts));
}

/// Copies `n` neighbours; a short run without a call.
///
/// # Safety
/// Both are valid for `n` elements and do not overlap.
#[inline(always)]
pub unsafe fn copy_run<T: Copy>(from: *const T, to: *mut T, n: usize) {
    type Lump = [u64; 2];
    const LUMP: usize = size_of::<Lump>();
    let bytes = n * size_of::<T>();
    // SAFETY: every lump lies within the run; the last one may be written twice.
    unsafe {
        if !(LUMP..=8 * LUMP).contains(&bytes) {
            return from.copy_to_nonoverlapping(to, n);
        }
        let (from, to) = (from.cast::<u8>(), to.cast::<u8>());
        let lump = |at: usize| {
            to.add(at).cast::<Lump>().write_unaligned(from.add(at).cast::<Lump>().read_unaligned());
        };
        (0..bytes / LUMP).for_each(|i| lump(i * LUMP));
        lump(bytes - LUMP);
    }
}

/// A pointer that tasks on disjoint elements share.
#[derive(Clone, Copy)]
pub struct Shared<T>(*mut T);

// SAFETY: whoever dereferences it promises that tasks touch disjoint elements.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    pub fn new(p: *mut u8) -> Self {
        Shared(p.cast())
    }
    /// The element `offset` elements further. A method, so that closures capture the whole wrapper.
    #[inline(always)]
    pub fn at(self, offset: isize) -> *mut T {
        self.0.wrapping_offset(offset)
    }
}

/// A row-major loop nest over K operands.
#[derive(Clone, Debug)]
pub struct Grid<const K: usize> {
    sizes: Dims,
    strides: [Dims; K],
    n: usize,
}

impl<const K: usize> Grid<K> {
    /// Dimensions of size one vanish, neighbours that every operand walks as one are merged.
    pub fn new(sizes: &[i64], strides: [&[i64]; K]) -> Self {
        Self::from_dims(sizes.iter().enumerate().map(|(d, &n)| (n, strides.map(|s| s[d]))))
    }

    /// The nest without dimension `skip`.
    pub fn without(sizes: &[i64], strides: [&[i64]; K], skip: usize) -> Self {
        let dims = sizes.iter().enumerate().filter(|(d, _)| *d != skip);
        Self::from_dims(dims.map(|(d, &n)| (n, strides.map(|s| s[d]))))
    }

    /// From (size, strides) pairs, outermost first.
    pub fn from_dims(dims: impl Iterator<Item = (i64, [i64; K])>) -> Self {
        let mut g = Grid { sizes: Dims::new(), strides: std::array::from_fn(|_| Dims::new()), n: 1 };
        for (n, s) in dims {
            g.n *= n as usize;
            if n == 1 {
                continue;
            }
            match g.sizes.last_mut() {
                Some(last) if (0..K).all(|k| g.strides[k].last() == Some(&(s[k] * n))) => {
                    *last *= n;
                    (0..K).for_each(|k| *g.strides[k].last_mut().expect("as long as sizes") = s[k]);
                }
                _ => {
                    g.sizes.push(n);
                    (0..K).for_each(|k| g.strides[k].push(s[k]));
                }
            }
        }
        g
    }

    /// Number of positions.
    #[inline]
    pub fn len(&self) -> usize {
        self.n
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The innermost dimension, (1, zeros) of an empty nest.
    pub fn inner(&self) -> (usize, [isize; K]) {
        match self.sizes.last() {
            Some(&n) => {
                (n as usize, std::array::from_fn(|k| *self.strides[k].last().expect("as long as sizes") as isize))
            }
            None => (1, [0; K]),
        }
    }

    /// Takes the innermost dimension off.
    pub fn pop_inner(&mut self) -> (usize, [isize; K]) {
        let inner = self.inner();
        self.sizes.pop();
        self.strides.iter_mut().for_each(|s| {
            s.pop();
        });
        self.n = self.sizes.iter().product::<i64>() as usize;
        inner
    }

    /// Calls `f(position, offsets)` over a range of positions, in order.
    #[inline]
    pub fn each(&self, range: Range<usize>, mut f: impl FnMut(usize, [isize; K])) {
        if range.is_empty() {
            return;
        }
        let nd = self.sizes.len();
        let mut at: SmallVec<[i64; 6]> = SmallVec::from_elem(0, nd);
        let mut off = [0isize; K];
        let mut rest = range.start as i64;
        for d in (0..nd).rev() {
            at[d] = rest % self.sizes[d];
            rest /= self.sizes[d];
            for k in 0..K {
                off[k] += (at[d] * self.strides[k][d]) as isize;
            }
        }
        for i in range {
            f(i, off);
            for d in (0..nd).rev() {
                at[d] += 1;
                for k in 0..K {
                    off[k] += self.strides[k][d] as isize;
                }
                if at[d] < self.sizes[d] {
                    break;
                }
                at[d] = 0;
                for k in 0..K {
                    off[k] -= (self.sizes[d] * self.strides[k][d]) as isize;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn merges_and_walks() {
        let g = Grid::new(&[2, 3, 1, 4], [&[12, 4, 99, 1], &[0, 4, 0, 1]]);
        assert_eq!(g.sizes.as_slice(), &[2, 12]);
        let mut seen = vec![];
        g.each(11..14, |i, o| seen.push((i, o)));
        assert_eq!(seen, [(11, [11, 11]), (12, [12, 0]), (13, [13, 1])]);
        assert_eq!(Grid::new(&[], [&[]]).len(), 1);
        assert!(Grid::new(&[3, 0], [&[1, 1]]).is_empty());
    }

    #[test]
    fn splits_cover_everything_once() {
        let hits: Vec<_> = (0..1001).map(|_| AtomicU32::new(0)).collect();
        split(1001, 1e6, &|r| {
            for i in r {
                hits[i].fetch_add(1, Relaxed);
            }
        });
        assert!(hits.iter().all(|h| h.load(Relaxed) == 1));
    }
}
