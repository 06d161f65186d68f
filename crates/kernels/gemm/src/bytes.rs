//! Products of bytes summed in 32 bits. Operands are packed as words of some steps of k, which one instruction multiplies and
//! adds up: pairs of 16 bits everywhere, quads of bytes where the machine has `vpdpbusd`. Sums wrap, so every order gives
//! the same value.

use crate::args::{GemmArgs, Mat};
use crate::isa::Isa;
use crate::kernel::{Kernels, Tile, pair_kernels, quad_kernels};
use crate::scratch::{self, Slot};
use oneflow_kernels_prim::{Simd, WithSimd, dispatch};
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
                                    add: false,
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

/// A step of k in its word: 16 bits of a pair, or a byte of a quad. A's bytes are moved by 128 there, to be unsigned.
#[inline(always)]
fn unit<T: Byte, const STEPS: usize>(x: T, of_a: bool) -> u32 {
    match STEPS {
        4 if of_a => (x.wide() as u8 ^ 0x80).into(),
        4 => (x.wide() as u8).into(),
        _ => (x.wide() as u16).into(),
    }
}

/// One row of A, k after k; zeros behind it, which meet zeros of B.
struct Row<T, const STEPS: usize> {
    src: *const T,
    stride: isize,
    k: usize,
    dst: *mut u32,
}

impl<T: Byte, const STEPS: usize> WithSimd for Row<T, STEPS> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Row { src, stride, k, dst } = self;
        let word = |w: usize, steps: usize| {
            let mut word = 0;
            for s in 0..steps {
                // SAFETY: step `w * STEPS + s` is below k.
                let x = unsafe { *src.offset((w * STEPS + s) as isize * stride) };
                word |= unit::<T, STEPS>(x, true) << (32 / STEPS * s);
            }
            word
        };
        // SAFETY: the destination has a word for every `STEPS` of k.
        unsafe {
            for w in 0..k / STEPS {
                *dst.add(w) = word(w, STEPS);
            }
            if !k.is_multiple_of(STEPS) {
                *dst.add(k / STEPS) = word(k / STEPS, k % STEPS);
            }
        }
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
    /// The words of `steps` of k from step `p` on.
    #[inline(always)]
    unsafe fn line(&self, p: usize, steps: usize, cs: isize) {
        // SAFETY: by the caller: the steps lie in B, the words in the panel, the columns in `excess`.
        unsafe {
            let src = self.src.wrapping_offset(p as isize * self.rs);
            let dst = self.dst.add(p / STEPS * self.dst_width);
            for j in 0..self.width {
                let (mut word, mut sum) = (0, 0);
                for s in 0..steps {
                    let x = *src.offset(s as isize * self.rs + j as isize * cs);
                    word |= unit::<T, STEPS>(x, false) << (32 / STEPS * s);
                    sum += i32::from(x.wide());
                }
                *dst.add(j) = word;
                if STEPS == 4 {
                    let excess = self.excess.add(j);
                    *excess = (*excess).wrapping_add(128 * sum);
                }
            }
            for j in self.width..self.dst_width {
                *dst.add(j) = 0;
            }
        }
    }
}

impl<T: Byte, const STEPS: usize> WithSimd for Columns<T, STEPS> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: every step named is below k.
        unsafe {
            for p in (0..self.k / STEPS).map(|w| w * STEPS) {
                match self.cs {
                    1 => self.line(p, STEPS, 1),
                    cs => self.line(p, STEPS, cs),
                }
            }
            if !self.k.is_multiple_of(STEPS) {
                self.line(self.k / STEPS * STEPS, self.k % STEPS, self.cs);
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
            for (j, &sum) in sums.iter().enumerate() {
                // SAFETY: the tile lies in C, and `excess` has a number for each of its columns.
                unsafe {
                    let c = row.offset(j as isize * self.strides.1);
                    let sum = sum.wrapping_sub(*self.excess.add(j));
                    let old = if beta == 0 { 0 } else { beta.wrapping_mul(*c) };
                    *c = alpha.wrapping_mul(sum).wrapping_add(old);
                }
            }
        }
    }
}
