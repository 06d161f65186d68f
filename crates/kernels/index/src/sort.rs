//! SORT and TOPK by packed words of (key, position): an unstable sort of them is a stable sort of the values.

use crate::num::Real;
use oneflow_base::{DType, Error, Result, by_dtype};
use oneflow_ep::cpu;
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Launch, Simd, SortParams, TopkParams, View, WithSimd, dispatch, isa};
use std::cell::Cell;

/// Most bytes a thread keeps between calls.
const KEPT_BYTES: usize = 16 << 20;
/// From this length on a radix sort is faster.
const RADIX_FROM: usize = 1024;
/// From this length on a row that has no others beside it is sorted in parts.
const PARTS_FROM: usize = 1 << 16;

/// Key in the upper half, position in the lower.
trait Packed: Ord + Copy + Send + Sync + 'static {
    type Key: Ord + Copy;
    const LAST: Self::Key;
    /// A number's key in the wanted order.
    fn key(key: u64) -> Self::Key;
    fn pack(key: u64, position: usize) -> Self;
    fn position(self) -> usize;
    /// Byte `i` of the key, the least significant first.
    fn digit(self, i: usize) -> usize;
    /// The thread's reusable buffer.
    fn with_buffer<R>(f: impl FnOnce(&mut Vec<Self>) -> R) -> R;
}

macro_rules! packed {
    ($t:ty, $half:ty, $shift:expr) => {
        impl Packed for $t {
            type Key = $half;
            const LAST: $half = <$half>::MAX;
            #[inline(always)]
            fn key(key: u64) -> $half {
                key as $half
            }
            #[inline(always)]
            fn pack(key: u64, position: usize) -> Self {
                ((key as $t) << $shift) | position as $t
            }
            #[inline(always)]
            fn position(self) -> usize {
                self as $half as usize
            }
            #[inline(always)]
            fn digit(self, i: usize) -> usize {
                (self >> ($shift + 8 * i)) as u8 as usize
            }
            fn with_buffer<R>(f: impl FnOnce(&mut Vec<Self>) -> R) -> R {
                thread_local!(static BUFFER: Cell<Vec<$t>> = const { Cell::new(Vec::new()) });
                let mut buffer = BUFFER.take();
                buffer.clear();
                let r = f(&mut buffer);
                // A very long row does not hold its memory for ever.
                if size_of::<$t>() * buffer.capacity() <= KEPT_BYTES {
                    BUFFER.set(buffer);
                }
                r
            }
        }
    };
}
packed!(u64, u32, 32);
packed!(u128, u64, 64);

/// What both kernels share: x, values and indices along a dimension.
struct Rows<'a> {
    grid: Grid<3>,
    n: usize,
    k: usize,
    steps: [isize; 3],
    x: View<'a>,
    values: Option<View<'a>>,
    indices: Option<View<'a>>,
}

impl<'a> Rows<'a> {
    fn new(l: &Launch<'a>, dim: usize) -> Result<Self> {
        let (x, values, indices) = (l.input(0)?, l.opt_output(0), l.opt_output(1));
        let shape = values.or(indices).ok_or_else(|| Error::runtime("sort: no output"))?;
        let none = [0i64; 64];
        let strides = [x.strides, values.map_or(&none, |v| v.strides), indices.map_or(&none, |v| v.strides)];
        if x.ndim() == 0 {
            return Ok(Rows {
                grid: Grid::new(&[], [&[]; 3]),
                n: 1,
                k: shape.numel(),
                steps: [0; 3],
                x,
                values,
                indices,
            });
        }
        let (n, k, steps) = (x.sizes[dim] as usize, shape.sizes[dim] as usize, strides.map(|s| s[dim] as isize));
        Ok(Rows { grid: Grid::without(x.sizes, strides, dim), n, k, steps, x, values, indices })
    }

    /// Orders every row's packed words and writes the first k.
    fn run<T: Real, P: Packed>(&self, ns: f64, descending: bool, order: Order) {
        let x = Shared::<T>::new(self.x.ptr);
        let values = self.values.map(|v| Shared::<T>::new(v.ptr));
        let indices = self.indices.map(|v| Shared::<i64>::new(v.ptr));
        let [xs, vs, is] = self.steps;
        let mask = if descending { u64::MAX >> (64 - 8 * size_of::<P>() / 2) } else { 0 };
        let (grid, n, k) = (&self.grid, self.n, self.k);
        // Rows are shared out among the threads; a single one is sorted by all of them.
        let threads = if grid.len() == 1 { cpu::num_threads() } else { 1 };
        split(grid.len(), ns * n as f64, &|r| {
            P::with_buffer(|buffer| {
                grid.each(r, |_, off| {
                    buffer.clear();
                    // SAFETY: positions below n and k lie inside the views; rows are disjoint.
                    unsafe {
                        let words = (0..n).map(|i| P::pack((*x.at(off[0] + i as isize * xs)).key() ^ mask, i));
                        match order {
                            Order::First { sorted } if xs == 1 && (1..=CLASSES).contains(&k) && n >= 4 * CLASSES => {
                                let row = std::slice::from_raw_parts(x.at(off[0]).cast_const(), n);
                                dispatch(isa(), Candidates { row, k, mask, buffer });
                                first(k, sorted, buffer);
                            }
                            _ => order.apply(k, words, buffer, threads),
                        }
                        for (i, w) in buffer[..k].iter().enumerate() {
                            let p = w.position();
                            if let Some(v) = values {
                                *v.at(off[1] + i as isize * vs) = *x.at(off[0] + p as isize * xs);
                            }
                            if let Some(v) = indices {
                                *v.at(off[2] + i as isize * is) = p as i64;
                            }
                        }
                    }
                });
            })
        });
    }

    /// `run` with the words that fit the dtype and the row.
    fn dispatch(&self, name: &str, ns: f64, descending: bool, order: Order) -> Result<()> {
        let wide = matches!(self.x.dtype, DType::I64 | DType::F64) || self.n > u32::MAX as usize;
        by_dtype!(self.x.dtype, reals, T => {
            if wide {
                self.run::<T, u128>(ns, descending, order);
            } else {
                self.run::<T, u64>(ns, descending, order);
            }
            Ok(())
        }, _ => Err(Error::not_implemented(format!("{name}: complex numbers have no order (dtype {})", self.x.dtype))))
    }
}

#[derive(Clone, Copy)]
enum Order {
    All,
    First { sorted: bool },
}

impl Order {
    /// Leaves the k least words in the buffer.
    fn apply<P: Packed>(self, k: usize, words: impl Iterator<Item = P>, buffer: &mut Vec<P>, threads: usize) {
        let Order::First { sorted } = self else {
            buffer.extend(words);
            return sort_words(buffer, threads);
        };
        if k == 0 {
            return;
        }
        // Candidates collect until the buffer is full; then the k least stay and bound what may come in.
        let room = (4 * k).max(256);
        buffer.reserve(room);
        let mut bound = None;
        for w in words {
            if bound.is_none_or(|b| w < b) {
                buffer.push(w);
                if buffer.len() == room {
                    bound = Some(*buffer.select_nth_unstable(k - 1).1);
                    buffer.truncate(k);
                }
            }
        }
        first(k, sorted, buffer);
    }
}

/// Leaves the `k` least words, at least one.
fn first<P: Packed>(k: usize, sorted: bool, buffer: &mut Vec<P>) {
    if buffer.len() > k {
        buffer.select_nth_unstable(k - 1);
        buffer.truncate(k);
    }
    if sorted {
        buffer.sort_unstable();
    }
}

/// Residue classes of positions, each with its least key.
const CLASSES: usize = 64;

/// Collects the words of a row that can be among the `k` least. Of the least keys of classes of positions, the k-th least
/// bounds the k-th least of the row, so that a second look finds little more than `k` words.
struct Candidates<'a, T, P> {
    row: &'a [T],
    k: usize,
    mask: u64,
    buffer: &'a mut Vec<P>,
}

impl<T: Real, P: Packed> WithSimd for Candidates<'_, T, P> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        /// Neighbours that are looked at together.
        const GROUP: usize = 16;
        let Candidates { row, k, mask, buffer } = self;
        let mut least = [P::LAST; CLASSES];
        for classes in row.chunks_exact(CLASSES) {
            for (l, v) in least.iter_mut().zip(classes) {
                *l = (*l).min(P::key(v.key() ^ mask));
            }
        }
        let bound = *least.select_nth_unstable(k - 1).1;
        for (g, group) in row.chunks(GROUP).enumerate() {
            if group.iter().fold(false, |any, v| any | (P::key(v.key() ^ mask) <= bound)) {
                for (i, v) in group.iter().enumerate() {
                    let key = v.key() ^ mask;
                    if P::key(key) <= bound {
                        buffer.push(P::pack(key, g * GROUP + i));
                    }
                }
            }
        }
    }
}

/// Sorts words, all different, so that the result does not depend on how it is done.
fn sort_words<P: Packed>(words: &mut Vec<P>, threads: usize) {
    let n = words.len();
    if n < RADIX_FROM {
        return words.sort_unstable();
    }
    words.resize(2 * n, words[0]);
    let (data, room) = words.split_at_mut(n);
    let parts = if n < PARTS_FROM { 1 } else { threads.next_power_of_two().min(16) };
    if parts == 1 {
        radix_sort(data, room);
    } else {
        let cut = |p: usize| p * n / parts;
        let (from, to) = (Shared::<P>::new(data.as_mut_ptr().cast()), Shared::<P>::new(room.as_mut_ptr().cast()));
        cpu::parallel_for(parts, &|p| {
            let len = cut(p + 1) - cut(p);
            // SAFETY: parts do not overlap, in either half.
            unsafe {
                let at = cut(p) as isize;
                let data = std::slice::from_raw_parts_mut(from.at(at), len);
                radix_sort(data, std::slice::from_raw_parts_mut(to.at(at), len));
            }
        });
        merge_all(data, room, parts, cut);
    }
    words.truncate(n);
}

/// Merges sorted parts pair by pair; the result stands in `data`.
fn merge_all<P: Packed>(data: &mut [P], room: &mut [P], parts: usize, cut: impl Fn(usize) -> usize + Sync) {
    let (mut a, mut b, mut width) = (data, room, 1);
    let mut swapped = false;
    while width < parts {
        // Each pair is cut into pieces that can be merged side by side.
        let (pairs, pieces) = (parts / (2 * width), 2 * width);
        let from: &[P] = a;
        let to = Shared::<P>::new(b.as_mut_ptr().cast());
        cpu::parallel_for(pairs * pieces, &|task| {
            let (pair, piece) = (task / pieces, task % pieces);
            let at = |i: usize| cut(pair * 2 * width + i * width);
            let (x, y) = (&from[at(0)..at(1)], &from[at(1)..at(2)]);
            let total = x.len() + y.len();
            let (start, end) = (piece * total / pieces, (piece + 1) * total / pieces);
            let ((mut i, mut j), (i_end, j_end)) = (co_rank(x, y, start), co_rank(x, y, end));
            for k in start..end {
                let first = j == j_end || i < i_end && x[i] < y[j];
                let w = if first { x[i] } else { y[j] };
                if first {
                    i += 1
                } else {
                    j += 1
                }
                // SAFETY: pieces write disjoint positions of the pair's room.
                unsafe { *to.at((at(0) + k) as isize) = w };
            }
        });
        std::mem::swap(&mut a, &mut b);
        swapped = !swapped;
        width *= 2;
    }
    if swapped {
        b.copy_from_slice(a);
    }
}

/// How many of the `k` least words of both sorted slices stand in each.
fn co_rank<P: Packed>(x: &[P], y: &[P], k: usize) -> (usize, usize) {
    let (mut low, mut high) = (k.saturating_sub(y.len()), k.min(x.len()));
    while low < high {
        let i = low + (high - low) / 2;
        if x[i] < y[k - i - 1] { low = i + 1 } else { high = i }
    }
    (low, k - low)
}

/// Sorts words by key, least significant byte first; each pass is stable, so positions stay in order. Bytes that all keys
/// share take no pass.
fn radix_sort<P: Packed>(words: &mut [P], room: &mut [P]) {
    let n = words.len();
    let mut counts = [[0usize; 256]; 8];
    let n_digits = size_of::<P>() / 2;
    for w in words.iter() {
        (0..n_digits).for_each(|i| counts[i][w.digit(i)] += 1);
    }
    let (mut from, mut to) = (words, room);
    let mut passes = 0;
    for (i, count) in counts[..n_digits].iter_mut().enumerate() {
        if n == 0 || count[from[0].digit(i)] == n {
            continue;
        }
        let mut start = 0;
        for c in count.iter_mut() {
            start += std::mem::replace(c, start);
        }
        for w in from.iter() {
            let at = &mut count[w.digit(i)];
            to[*at] = *w;
            *at += 1;
        }
        std::mem::swap(&mut from, &mut to);
        passes += 1;
    }
    if passes % 2 == 1 {
        to.copy_from_slice(from);
    }
}

pub unsafe fn sort(l: &Launch<'_>) -> Result<()> {
    let SortParams { dim, descending } = l.read()?;
    Rows::new(l, dim)?.dispatch("sort", 10.0, descending, Order::All)
}

pub unsafe fn topk(l: &Launch<'_>) -> Result<()> {
    let TopkParams { dim, largest, sorted, .. } = l.read()?;
    let rows = Rows::new(l, dim)?;
    if rows.k > rows.n {
        return Err(Error::runtime("selected index k out of range"));
    }
    rows.dispatch("topk", 2.0, largest, Order::First { sorted })
}
