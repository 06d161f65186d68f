//! A box of an image, zero-padded, with channels side by side, in the compute dtype: [n, d, h, w, channel].
//!
//! However the image lies in memory, everything behind this reads rows of channels. A box and its halo stay in the cache.

use crate::geometry::{Image, Three};
use oneflow_kernels_gemm::micro::{GemmFloat, Mode, Slot, Strip, with_scratch};
use oneflow_kernels_prim::{self as prim, Isa, Reg, Register, Simd, WithSimd, dispatch};
use std::any::TypeId;
use std::ops::Range;

/// Spare bytes behind every buffer: whole registers are stored over the end of a row.
pub const SPARE: usize = 64;

/// The layout of a box.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// [n, d, h, w]
    pub len: [usize; 4],
    pub channels: usize,
    /// Elements from a position to the next.
    pub ld: usize,
}

impl Region {
    /// `unit` channels are one packed element.
    pub fn new(len: [usize; 4], channels: usize, lanes: usize, unit: usize) -> Region {
        // Few channels lie densely, so that windows read long runs.
        let mut ld = channels.next_multiple_of(if channels < lanes { unit } else { unit * lanes });
        // The rows of a tile do not all fall into one set of the first cache.
        if ld.is_multiple_of(512) {
            ld += unit * lanes;
        }
        Region { len, channels, ld }
    }

    pub fn n_elements(&self) -> usize {
        self.len.iter().product::<usize>() * self.ld
    }

    /// Where a position relative to the box lies.
    #[inline(always)]
    pub fn offset(&self, n: usize, [d, h, w]: Three) -> isize {
        let [_, ld, lh, lw] = self.len.map(|l| l as isize);
        (((n as isize * ld + d) * lh + h) * lw + w) * self.ld as isize
    }

    /// Copies channels `channels` of images from `first` on, from position `start` on (which may lie outside).
    ///
    /// # Safety
    /// The image holds `T`; `dst` has room for the region and `SPARE` bytes, `tile` for 64 positions of a register and
    /// `SPARE`.
    pub unsafe fn fill<T: GemmFloat>(
        &self,
        isa: Isa,
        src: &Image,
        channels: Range<usize>,
        first: usize,
        start: Three,
        dst: *mut T::Acc,
        tile: *mut T::Acc,
    ) {
        let line = |at: *const T, width: usize, to: *mut T::Acc| {
            // SAFETY: the line lies in the image, and in the region.
            unsafe { self.line::<T>(isa, src, at, width, to, tile) }
        };
        // SAFETY: by the caller.
        unsafe { self.lines::<T, T::Acc>(src, (channels.start, first, start), dst, self.ld, line) }
    }

    /// Calls `line(first position in the image, positions, where to)` for all lines; sets to zero what lies outside. Positions
    /// lie `ld` packed elements apart.
    ///
    /// # Safety
    /// As `fill`; all bits of zero are a packed element.
    pub unsafe fn lines<T, P>(
        &self,
        src: &Image,
        (channel, first, start): (usize, usize, Three),
        dst: *mut P,
        ld: usize,
        line: impl Fn(*const T, usize, *mut P),
    ) {
        let [n, len_d, lh, lw] = self.len;
        let inside = |d: usize, at: isize| (0..src.sizes[2 + d] as isize).contains(&at);
        // The part of a line that lies in the image.
        let w0 = start[2].clamp(0, src.sizes[4] as isize);
        let w1 = (start[2] + lw as isize).clamp(w0, src.sizes[4] as isize);
        let (left, width) = ((w0 - start[2]).clamp(0, lw as isize) as usize, (w1 - w0) as usize);
        let mut to = dst;
        for n in first..first + n {
            for d in start[0]..start[0] + len_d as isize {
                for h in start[1]..start[1] + lh as isize {
                    // SAFETY: the line lies in the region; the positions copied lie in the image.
                    unsafe {
                        if width > 0 && inside(0, d) && inside(1, h) {
                            std::ptr::write_bytes(to, 0, left * ld);
                            let at = src.at::<T>(n, channel, [d as usize, h as usize, w0 as usize]);
                            line(at, width, to.add(left * ld));
                            let end = left + width;
                            std::ptr::write_bytes(to.add(end * ld), 0, (lw - end) * ld);
                        } else {
                            std::ptr::write_bytes(to, 0, lw * ld);
                        }
                        to = to.add(lw * ld);
                    }
                }
            }
        }
    }

    /// `width` positions of one line.
    unsafe fn line<T: GemmFloat>(
        &self,
        isa: Isa,
        src: &Image,
        at: *const T,
        width: usize,
        dst: *mut T::Acc,
        tile: *mut T::Acc,
    ) {
        let (cs, ws) = (src.strides[1], src.strides[4]);
        let lanes = T::Mode::kernels(isa).lanes;
        // SAFETY: the caller's contract; `dst` has room for the line, and spills land in what is written later.
        unsafe {
            if cs == 1 && self.channels > 1 {
                // Row by row, also where a single column leaves no stride.
                let strip =
                    Strip { src: at, ws: 1, ks: if width == 1 { 0 } else { ws }, width: self.channels, k: width };
                return T::Mode::pack(isa, strip, dst, self.ld);
            }
            let whole = TypeId::of::<T>() == TypeId::of::<f32>();
            if self.channels <= lanes || (whole && self.ld.is_multiple_of(lanes)) {
                let strip = Strip { src: at, ws: cs, ks: ws, width: self.channels, k: width };
                return T::Mode::pack(isa, strip, dst, self.ld);
            }
            if size_of::<T>() == 2 && ws == 1 && self.ld.is_multiple_of(lanes) {
                return self.widened_line::<T>(isa, at, cs, width, dst);
            }
            for c in (0..self.channels).step_by(lanes) {
                let n = lanes.min(self.channels - c);
                for p in (0..width).step_by(TILE) {
                    let k = TILE.min(width - p);
                    let src = at.offset(c as isize * cs + p as isize * ws);
                    T::Mode::pack(isa, Strip { src, ws: cs, ks: ws, width: n, k }, tile, lanes);
                    for q in 0..k {
                        let to = dst.add((p + q) * self.ld + c);
                        std::ptr::copy_nonoverlapping(tile.add(q * lanes), to, lanes);
                    }
                }
            }
        }
    }

    /// As `line` for half types whose rows lie along the line: widened first, then transposed.
    unsafe fn widened_line<T: GemmFloat>(&self, isa: Isa, at: *const T, cs: isize, width: usize, dst: *mut T::Acc) {
        let room = (self.channels * TILE) * size_of::<T::Acc>() + SPARE;
        with_scratch(Slot::C, room, |rows| {
            let rows: *mut T::Acc = rows.cast();
            for p in (0..width).step_by(TILE) {
                let n = TILE.min(width - p);
                dispatch(prim::isa(), Widen { src: at.wrapping_add(p), cs, channels: self.channels, n, dst: rows });
                let strip = Strip { src: rows.cast_const(), ws: TILE as isize, ks: 1, width: self.channels, k: n };
                // SAFETY: the scratch holds the rows; `dst` has room for the line.
                unsafe { T::Sums::pack(isa, strip, dst.add(p * self.ld), self.ld) };
            }
        })
    }
}

/// `n` neighbours of each channel as rows of `TILE` in the compute dtype.
struct Widen<T: GemmFloat> {
    src: *const T,
    cs: isize,
    channels: usize,
    n: usize,
    dst: *mut T::Acc,
}

impl<T: GemmFloat> WithSimd for Widen<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = Reg::<S, T>::WIDTH;
        for c in 0..self.channels {
            let src = self.src.wrapping_offset(c as isize * self.cs);
            for i in (0..self.n).step_by(width) {
                let k = width.min(self.n - i);
                // SAFETY: the neighbours lie in the image, whole registers in the rows.
                unsafe {
                    let v = match k == width {
                        true => T::load::<S>(src.add(i)),
                        false => T::load_partial::<S>(src.add(i), k),
                    };
                    v.store(self.dst.add(c * TILE + i));
                }
            }
        }
    }
}

/// Positions transposed at a time.
pub const TILE: usize = 64;
