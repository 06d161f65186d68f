//! Products of bytes summed in 32 bits. Operands are packed as words of some steps of k, which one instruction multiplies and
//! adds up: pairs of 16 bits everywhere, quads of bytes where the machine has `vpdpbusd`. Sums wrap, so every order gives
//! the same value.

use crate::args::{GemmArgs, Mat};
use crate::byte_row;
use crate::kernel::{Ahead, Kernels, Onto, Tile, pair_kernels, quad_kernels};
use crate::scratch::{self, Slot};
use oneflow_kernels_prim::{Isa, Simd, WithSimd, dispatch};
use std::ops::Range;

pub(crate) trait Byte: Copy + Send + Sync + 'static {
    const SIGNED: bool;
    fn wide(self) -> i16;
}
impl Byte for i8 {
    const SIGNED: bool = true;
    fn wide(self) -> i16 {
        self.into()
    }
}
impl Byte for u8 {
    const SIGNED: bool = false;
    fn wide(self) -> i16 {
        self.into()
    }
}

/// Rows of A and columns of B that are packed at a time.
const ROWS: usize = 112;
const COLUMNS: usize = 512;
/// Words between packed rows of A beside their own, so that the rows of a tile fall into different cache sets.
const GAP: usize = 16;

/// Rows `rows` of one product.
///
/// # Safety
/// The matrices cover the problem and C overlaps neither operand.
pub(crate) unsafe fn rows<T: Byte>(isa: Isa, args: &GemmArgs, (a, b, c): (Mat, Mat, Mat), rows: Range<usize>) {
    if rows.len() == 1 && (b.rs == 1 || b.cs == 1) {
        // SAFETY: the contract is the same.
        return unsafe { byte_row::row::<T>(isa, args, (a, b, c), rows.start) };
    }
    // SAFETY: the contract is the same. Quads are a signed byte times an unsigned one.
    unsafe {
        match quad_kernels(isa).filter(|_| T::SIGNED) {
            Some(kernels) => blocks::<T, 4>(isa, kernels, args, (a, b, c), rows),
            None => blocks::<T, 2>(isa, pair_kernels(isa), args, (a, b, c), rows),
        }
    }
}

unsafe fn blocks<T: Byte, const STEPS: usize>(
    isa: Isa,
    kernels: &'static Kernels<u32, i32>,
    args: &GemmArgs,
    (a, b, c): (Mat, Mat, Mat),
    rows: Range<usize>,
) {
    let words = args.k.div_ceil(STEPS);
    let stride = words + GAP;
    for first in (0..args.n).step_by(COLUMNS) {
        let columns = first..(first + COLUMNS).min(args.n);
        let padded = columns.len().next_multiple_of(kernels.lanes);
        scratch::with(Slot::B, (words + 1) * padded * size_of::<u32>(), |room| {
            // What the offset of A's bytes adds to each column; zero for pairs. The panels follow.
            let excess: *mut i32 = room.cast();
            let panels = room.cast::<u32>().wrapping_add(padded);
            let panel = |at: usize| panels.wrapping_add(at * words);
            // SAFETY: the room holds the sums and all panels; what is read lies in the operands, by the caller.
            unsafe {
                excess.write_bytes(0, padded);
                for at in (0..columns.len()).step_by(kernels.nr) {
                    let width = kernels.nr.min(columns.len() - at);
                    let src = b.ptr.cast::<T>().wrapping_offset((first + at) as isize * b.cs).cast_const();
                    let (k, dst_width) = (args.k, width.next_multiple_of(kernels.lanes));
                    let (dst, excess) = (panel(at), excess.add(at));
                    dispatch(
                        isa.lanes(),
                        Columns::<T, STEPS> { src, rs: b.rs, cs: b.cs, k, width, dst, dst_width, excess },
                    );
                }
                for top in rows.clone().step_by(ROWS) {
                    let height = ROWS.min(rows.end - top);
                    scratch::with(Slot::A, height * stride * size_of::<u32>(), |packed| {
                        let packed: *mut u32 = packed.cast();
                        for i in 0..height {
                            let src = a.ptr.cast::<T>().wrapping_offset((top + i) as isize * a.rs).cast_const();
                            let row = Row::<T, STEPS> { src, stride: a.cs, k: args.k, dst: packed.add(i * stride) };
                            dispatch(isa.lanes(), row);
                        }
                        for at in (0..columns.len()).step_by(kernels.nr) {
                            let width = kernels.nr.min(columns.len() - at);
                            let registers = width.div_ceil(kernels.lanes);
                            for i in (0..height).step_by(kernels.mr) {
                                let n_rows = kernels.mr.min(height - i);
                                let mut sums = [0i32; MAX_TILE];
                                kernels.table[1][n_rows - 1][registers - 1](&Tile {
                                    k: words,
                                    a: packed.add(i * stride),
                                    a_rs: stride as isize,
                                    a_cs: 1,
                                    b: panel(at),
                                    b_rs: (registers * kernels.lanes) as isize,
                                    c: sums.as_mut_ptr(),
                                    c_rs: kernels.nr as isize,
                                    alpha: 1,
                                    onto: Onto::Nothing,
                                    ahead: Ahead::NOTHING,
                                });
                                let store = Store {
                                    sums: &sums,
                                    nr: kernels.nr,
                                    shape: (n_rows, width),
                                    excess: excess.add(at),
                                    c: c.ptr
                                        .cast::<i32>()
                                        .wrapping_offset((top + i) as isize * c.rs + (first + at) as isize * c.cs),
                                    strides: (c.rs, c.cs),
                                    factors: (args.alpha as i32, args.beta as i32),
                                };
                                dispatch(isa.lanes(), store);
                            }
                        }
                    });
                }
            }
        });
    }
}

/// The largest tile of sums.
const MAX_TILE: usize = 14 * 32;

/// The word of `steps` of k, `step` apart: 16 bits of a pair each, or a byte of a quad each.
///
/// # Safety
/// The steps are readable.
#[inline(always)]
unsafe fn word<T: Byte, const STEPS: usize>(src: *const T, step: isize, steps: usize) -> u32 {
    // SAFETY: by the caller.
    unsafe {
        if (STEPS, step, steps) == (4, 1, 4) {
            return u32::from_le_bytes(*src.cast());
        }
        (0..steps).fold(0, |word, s| {
            let x = (*src.offset(s as isize * step)).wide();
            let unit: u32 = if STEPS == 4 { (x as u8).into() } else { (x as u16).into() };
            word | unit << (32 / STEPS * s)
        })
    }
}

/// One row of A, k after k; what stands behind it meets zeros of B. Bytes of quads are moved by 128, to be unsigned.
struct Row<T, const STEPS: usize> {
    src: *const T,
    stride: isize,
    k: usize,
    dst: *mut u32,
}

impl<T: Byte, const STEPS: usize> Row<T, STEPS> {
    #[inline(always)]
    unsafe fn words(&self, stride: isize) {
        let Row { src, k, dst, .. } = *self;
        let moved = if STEPS == 4 { 0x8080_8080 } else { 0 };
        let at = |w: usize| src.wrapping_offset((w * STEPS) as isize * stride);
        // SAFETY: the destination has a word for every `STEPS` of k, and the steps named are below k.
        unsafe {
            for w in 0..k / STEPS {
                *dst.add(w) = word::<T, STEPS>(at(w), stride, STEPS) ^ moved;
            }
            if !k.is_multiple_of(STEPS) {
                *dst.add(k / STEPS) = word::<T, STEPS>(at(k / STEPS), stride, k % STEPS) ^ moved;
            }
        }
    }
}

impl<T: Byte, const STEPS: usize> WithSimd for Row<T, STEPS> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: the row is readable and its words writable, by the caller.
        unsafe { if self.stride == 1 { self.words(1) } else { self.words(self.stride) } }
    }
}

/// A panel of B: words of some columns side by side; zeros beside and below them.
struct Columns<T, const STEPS: usize> {
    src: *const T,
    rs: isize,
    cs: isize,
    k: usize,
    width: usize,
    dst: *mut u32,
    dst_width: usize,
    excess: *mut i32,
}

impl<T: Byte, const STEPS: usize> Columns<T, STEPS> {
    /// The words of `steps` of k from word `w` on, `rs` and `cs` as they are or as constants.
    #[inline(always)]
    unsafe fn line(&self, w: usize, steps: usize, (rs, cs): (isize, isize)) {
        let src = self.src.wrapping_offset((w * STEPS) as isize * rs);
        // SAFETY: by the caller: the steps lie in B, the words in the panel.
        unsafe {
            let dst = self.dst.add(w * self.dst_width);
            for j in 0..self.width {
                *dst.add(j) = word::<T, STEPS>(src.offset(j as isize * cs), rs, steps);
            }
        }
    }

    /// B's columns are contiguous: some words of each in turn, few enough for their lines to stay in the first cache.
    #[inline(always)]
    unsafe fn turned(&self) {
        const WORDS: usize = 64;
        let whole = self.k / STEPS;
        for first in (0..whole).step_by(WORDS) {
            for j in 0..self.width {
                let src = self.src.wrapping_offset(j as isize * self.cs);
                for w in first..whole.min(first + WORDS) {
                    // SAFETY: by the caller: the steps lie in B, the words in the panel.
                    unsafe { *self.dst.add(w * self.dst_width + j) = word::<T, STEPS>(src.add(w * STEPS), 1, STEPS) };
                }
            }
        }
    }
}

impl<T: Byte, const STEPS: usize> WithSimd for Columns<T, STEPS> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (whole, words) = (self.k / STEPS, self.k.div_ceil(STEPS));
        // SAFETY: every step named is below k, every word and column in the panel.
        unsafe {
            match (self.rs, self.cs) {
                (rs, 1) => (0..whole).for_each(|w| self.line(w, STEPS, (rs, 1))),
                (1, _) => self.turned(),
                strides => (0..whole).for_each(|w| self.line(w, STEPS, strides)),
            }
            if whole < words {
                self.line(whole, self.k % STEPS, (self.rs, self.cs));
            }
            for w in 0..words {
                let line = std::slice::from_raw_parts_mut(self.dst.add(w * self.dst_width), self.dst_width);
                line[self.width..].fill(0);
                if STEPS == 4 {
                    let excess = std::slice::from_raw_parts_mut(self.excess, self.dst_width);
                    for (excess, word) in excess.iter_mut().zip(line) {
                        let word = *word as i32;
                        let sum = (word << 24 >> 24) + (word << 16 >> 24) + (word << 8 >> 24) + (word >> 24);
                        *excess = excess.wrapping_add(128 * sum);
                    }
                }
            }
        }
    }
}

/// A tile of sums on its way to C.
struct Store<'a> {
    sums: &'a [i32; MAX_TILE],
    nr: usize,
    shape: (usize, usize),
    excess: *const i32,
    c: *mut i32,
    strides: (isize, isize),
    factors: (i32, i32),
}

impl WithSimd for Store<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (alpha, beta) = self.factors;
        for i in 0..self.shape.0 {
            let sums = &self.sums[i * self.nr..][..self.shape.1];
            let row = self.c.wrapping_offset(i as isize * self.strides.0);
            // SAFETY: the tile lies in C, and `excess` has a number for each of its columns.
            unsafe {
                let excess = std::slice::from_raw_parts(self.excess, sums.len());
                if (self.strides.1, self.factors) == (1, (1, 0)) {
                    for (j, (sum, excess)) in sums.iter().zip(excess).enumerate() {
                        *row.add(j) = sum.wrapping_sub(*excess);
                    }
                    continue;
                }
                for (j, (sum, excess)) in sums.iter().zip(excess).enumerate() {
                    let c = row.offset(j as isize * self.strides.1);
                    let old = if beta == 0 { 0 } else { beta.wrapping_mul(*c) };
                    *c = alpha.wrapping_mul(sum.wrapping_sub(*excess)).wrapping_add(old);
                }
            }
        }
    }
}
