//! Operands in the order that tiles are loaded: words of A along its rows, words of B side by side along its columns.
//! Both end in whole steps of 64 bytes along k, filled up with zeros. Float32 numbers are rounded to bfloat16 on the way.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::kernel::{LINE, SIDE, TILE, Words};
use crate::kernel::prefetch;
use crate::rounded::{rounded, x86 as round};
use crate::transpose::transpose16;

/// A part of an operand: `width` rows of A or columns of B, `k` long. Distances are bytes.
pub struct Part<W> {
    src: *const u8,
    /// Between neighbours across the width, and along k.
    ws: isize,
    ks: isize,
    width: usize,
    k: usize,
    words: PhantomData<W>,
}

/// Words of B that are packed before the next panel's: few enough that lines a power of two apart stay in the first
/// cache.
const WORDS: usize = 4;
/// How many words ahead memory is asked for.
const AHEAD: isize = 8;

/// Bytes of a panel of B of so many columns and steps.
pub fn panel_bytes(columns: usize, steps: usize) -> usize {
    columns.next_multiple_of(TILE) * steps * LINE
}

impl<W: Words> Part<W> {
    /// Strides count elements.
    pub fn new(src: *const u8, (ws, ks): (isize, isize), width: usize, k: usize) -> Self {
        let size = W::SIZE as isize;
        Part { src, ws: ws * size, ks: ks * size, width, k, words: PhantomData }
    }

    /// Steps of 64 bytes along k.
    fn steps(&self) -> usize {
        self.k.div_ceil(TILE * W::TOGETHER)
    }

    fn at(&self, i: usize, p: usize) -> *const u8 {
        self.src.wrapping_offset(i as isize * self.ws + p as isize * self.ks)
    }

    /// As rows of A, `rs` bytes apart.
    ///
    /// # Safety
    /// The machine has AVX-512 BW, VL and BF16. The part lies in memory, and the rows with all their steps in `dst`.
    pub unsafe fn rows(&self, dst: *mut u8, rs: usize) {
        // SAFETY: by the caller.
        unsafe {
            if self.ks == W::SIZE as isize && !W::AS_THEY_LIE {
                self.rounded_rows(dst, rs);
            } else if self.ks == W::SIZE as isize {
                let (bytes, all) = (self.k * W::SIZE, self.steps() * LINE);
                for i in 0..self.width {
                    let row = dst.add(i * rs);
                    std::ptr::copy_nonoverlapping(self.at(i, 0), row, bytes);
                    row.add(bytes).write_bytes(0, all - bytes);
                }
            } else if self.ws == W::SIZE as isize {
                self.turned_rows(dst, rs);
            } else {
                for i in 0..self.width {
                    for w in 0..self.steps() * TILE {
                        dst.add(i * rs + 4 * w).cast::<u32>().write_unaligned(self.word(i, w));
                    }
                }
            }
        }
    }

    /// As panels of B: 32 columns each, a last one of 16 or 32, one after the other.
    ///
    /// # Safety
    /// The machine has AVX-512 BW, VL and BF16. The part lies in memory, and `dst` is as large as the panels.
    pub unsafe fn panels(&self, dst: *mut u8) {
        // SAFETY: by the caller.
        unsafe {
            if self.ks == W::SIZE as isize {
                for at in (0..self.width).step_by(TILE) {
                    let (to, width) = self.columns(dst, at);
                    self.turned_columns(at, to, width);
                }
            } else if self.ws == W::SIZE as isize {
                for first in (0..self.steps() * TILE).step_by(WORDS) {
                    for at in (0..self.width).step_by(TILE) {
                        let (to, width) = self.columns(dst, at);
                        self.woven_columns(at, first, to, width);
                    }
                }
            } else {
                for at in (0..self.width).step_by(TILE) {
                    let (to, width) = self.columns(dst, at);
                    for (w, i) in (0..self.steps() * TILE).flat_map(|w| (0..TILE).map(move |i| (w, i))) {
                        *to.add(w * width + i) = if at + i < self.width { self.word(at + i, w) } else { 0 };
                    }
                }
            }
        }
    }

    /// Where the 16 columns from `at` on go, and how wide their panel is.
    fn columns(&self, dst: *mut u8, at: usize) -> (*mut u32, usize) {
        let panel = at / SIDE * SIDE;
        let width = (self.width - panel).min(SIDE).next_multiple_of(TILE);
        (dst.wrapping_add(panel * self.steps() * LINE + (at - panel) * 4).cast(), width)
    }

    /// One word, with zeros behind k.
    unsafe fn word(&self, i: usize, w: usize) -> u32 {
        let (first, mut word) = (w * W::TOGETHER, 0u32);
        for p in first..(first + W::TOGETHER).min(self.k) {
            let bits = 32 / W::TOGETHER;
            // SAFETY: the element lies in the part.
            unsafe {
                let at = self.at(i, p);
                let x = match W::SIZE {
                    4 => rounded(at.cast::<f32>().read_unaligned()),
                    2 => at.cast::<u16>().read_unaligned().into(),
                    _ => u32::from(*at),
                };
                word |= x << (bits * (p - first));
            }
        }
        word
    }

    /// Word `w` of up to 16 neighbours from `at` on, which lie side by side in memory.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn woven(&self, at: usize, w: usize) -> __m512i {
        let mask = ((1u32 << (self.width - at).min(TILE)) - 1) as u16;
        let first = w * W::TOGETHER;
        if W::SIZE == 4 {
            let masked = |p: usize| (self.at(at, p).cast(), if p < self.k { mask } else { 0 });
            // SAFETY: the masks keep the loads inside the part.
            return unsafe { round::pairs(masked(first), masked(first + 1)) };
        }
        let mut word = _mm512_setzero_si512();
        for s in (0..W::TOGETHER).rev() {
            let from = self.at(at, first + s);
            let mask = if first + s < self.k { mask } else { 0 };
            // SAFETY: the mask keeps the load inside the part.
            word = unsafe {
                if W::SIZE == 2 {
                    let x = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from.cast()));
                    _mm512_or_si512(_mm512_slli_epi32::<16>(word), x)
                } else {
                    let x = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, from.cast()));
                    _mm512_or_si512(_mm512_slli_epi32::<8>(word), x)
                }
            };
        }
        word
    }

    /// Some words of 16 columns of B, whose rows lie in one piece.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn woven_columns(&self, at: usize, first: usize, to: *mut u32, width: usize) {
        for w in first..first + WORDS {
            prefetch(self.at(at, w * W::TOGETHER).wrapping_offset(AHEAD * W::TOGETHER as isize * self.ks));
            // SAFETY: by the caller of `panels`.
            unsafe { _mm512_storeu_si512(to.add(w * width).cast(), self.woven(at, w)) };
        }
    }

    /// One step of a row or column that lies in one piece.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn step_of(&self, i: usize, step: usize) -> __m512i {
        let first = step * TILE * W::TOGETHER;
        let (from, left) = (self.at(i, first), self.k - first);
        if W::SIZE == 4 {
            // SAFETY: as many numbers lie in the part.
            return unsafe { round::line(from.cast(), left) };
        }
        let bytes = left * W::SIZE;
        let mask = if bytes >= LINE { u64::MAX } else { (1 << bytes) - 1 };
        // SAFETY: the mask keeps the load inside the part.
        unsafe { _mm512_maskz_loadu_epi8(mask, from.cast()) }
    }

    /// Rows of A, each of which lies in one piece, of numbers that are converted.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn rounded_rows(&self, dst: *mut u8, rs: usize) {
        for i in 0..self.width {
            for step in 0..self.steps() {
                // SAFETY: by the caller of `rows`.
                unsafe { _mm512_storeu_si512(dst.add(i * rs + step * LINE).cast(), self.step_of(i, step)) };
            }
        }
    }

    /// 16 columns of B, each of which lies in one piece.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn turned_columns(&self, at: usize, to: *mut u32, width: usize) {
        let n = (self.width - at).min(TILE);
        for step in 0..self.steps() {
            let mut r = [_mm512_setzero_ps(); TILE];
            for (i, r) in r.iter_mut().enumerate().take(n) {
                // SAFETY: the column lies in the part.
                *r = _mm512_castsi512_ps(unsafe { self.step_of(at + i, step) });
            }
            for (w, r) in transpose16(r).into_iter().enumerate() {
                // SAFETY: by the caller of `panels`.
                unsafe { _mm512_storeu_ps(to.add((step * TILE + w) * width).cast(), r) };
            }
        }
    }

    /// Rows of A whose columns lie in one piece.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn turned_rows(&self, dst: *mut u8, rs: usize) {
        for at in (0..self.width).step_by(TILE) {
            let n = (self.width - at).min(TILE);
            for step in 0..self.steps() {
                let mut r = [_mm512_setzero_ps(); TILE];
                for (w, r) in r.iter_mut().enumerate() {
                    let word = step * TILE + w;
                    prefetch(self.at(at, word * W::TOGETHER).wrapping_add(LINE));
                    // SAFETY: by the caller of `rows`.
                    *r = _mm512_castsi512_ps(unsafe { self.woven(at, word) });
                }
                for (i, r) in transpose16(r).into_iter().enumerate().take(n) {
                    // SAFETY: by the caller of `rows`.
                    unsafe { _mm512_storeu_ps(dst.add((at + i) * rs + step * LINE).cast(), r) };
                }
            }
        }
    }
}

/// The transpose of a block of 32-bit sums whose rows are `SIDE` numbers apart, in the same order.
///
/// # Safety
/// The machine has AVX-512; both blocks are 32 x 32.
#[target_feature(enable = "avx512f")]
pub unsafe fn transpose_sums(src: *const u32, dst: *mut u32, (rows, cols): (usize, usize)) {
    for i in (0..rows).step_by(TILE) {
        for j in (0..cols).step_by(TILE) {
            // SAFETY: by the caller.
            unsafe {
                let r = std::array::from_fn(|q| _mm512_loadu_ps(src.add((i + q) * SIDE + j).cast()));
                for (q, r) in transpose16(r).into_iter().enumerate() {
                    _mm512_storeu_ps(dst.add((j + q) * SIDE + i).cast(), r);
                }
            }
        }
    }
}
