//! Weights in the order the micro-kernels read them: panels of output channels, rows of k = (tap, channel).

use crate::geometry::Three;
use crate::region::SPARE;
use oneflow_kernels_gemm::micro::{GemmFloat, Mode, Slot, Strip, with_scratch};
use oneflow_kernels_gemm::{Parallel, Pool};
use oneflow_kernels_prim::Isa;
use oneflow_kernels_prim::rows::Shared;

/// One tap of a window: where it reads the source, and where its weights lie.
#[derive(Clone, Copy, Debug)]
pub struct Tap {
    pub shift: Three,
    pub weight: isize,
}

/// A weight as [n, channel, taps]: strides and the number of each.
#[derive(Clone, Copy, Debug)]
pub struct Weight<'a> {
    pub ptr: *const u8,
    pub n: usize,
    pub n_stride: isize,
    pub channels: usize,
    pub c_stride: isize,
    pub taps: &'a [Tap],
}

// SAFETY: tasks only read through the pointer.
unsafe impl Sync for Weight<'_> {}

/// Channels whose taps, `span` of them each, are transposed at once: whole registers where that is little memory.
fn channels_together(span: usize) -> usize {
    let whole = (1..=16).find(|n| (n * span).is_multiple_of(16)).unwrap_or(16);
    match whole * span {
        n @ ..=160 => whole * (64 / n).max(1),
        _ => (64 / span).max(1),
    }
}

impl Weight<'_> {
    pub fn k(&self) -> usize {
        self.channels * self.taps.len()
    }

    /// The first weight of a channel's taps and how far they reach, where that is near and nothing else is contiguous.
    pub fn near_taps(&self) -> Option<(isize, usize)> {
        let offsets = || self.taps.iter().map(|t| t.weight);
        let (first, last) = (offsets().min()?, offsets().max()?);
        let span = last.abs_diff(first).saturating_add(1);
        (self.n_stride != 1 && self.c_stride != 1 && span <= 64).then_some((first, span))
    }

    /// Packs `n.next_multiple_of(lanes)` columns: the panel of column `j` starts at `j * k`.
    ///
    /// # Safety
    /// The weight holds `T`; `dst` has room for `k * columns` sums and the spare bytes.
    pub unsafe fn pack<T: GemmFloat>(&self, isa: Isa, dst: Shared<T::Acc>) {
        let ker = T::Mode::kernels(isa);
        // SAFETY: the contract is the same.
        unsafe { self.pack_panels::<T>(isa, dst, ker.nr, ker.lanes) }
    }

    /// As `pack`, in panels of `nr` columns, the last one filled up to a multiple of `filled`: both whole registers.
    ///
    /// # Safety
    /// As `pack`.
    pub unsafe fn pack_panels<T: GemmFloat>(&self, isa: Isa, dst: Shared<T::Acc>, nr: usize, filled: usize) {
        let panels = self.n.div_ceil(nr);
        let panel = |i: usize| {
            let j = i * nr;
            let width = nr.min(self.n - j);
            let padded = width.next_multiple_of(filled);
            let row = |k: usize| dst.at((j * self.k() + k * padded) as isize);
            let src = self.ptr.cast::<T>().wrapping_offset(j as isize * self.n_stride);
            // SAFETY: strips lie in the weight, rows in the buffer; panels are disjoint.
            unsafe {
                match self.near_taps() {
                    Some(span) => self.all_taps::<T>(isa, span, src, (width, padded), row),
                    None => self.tap_by_tap::<T>(isa, src, (width, padded), row),
                }
            }
        };
        if self.k() * self.n < 1 << 15 {
            (0..panels).for_each(panel);
        } else {
            Pool.run(panels, &panel);
        }
    }

    /// Every tap's channels are a strip.
    unsafe fn tap_by_tap<T: GemmFloat>(
        &self,
        isa: Isa,
        src: *const T,
        (width, padded): (usize, usize),
        row: impl Fn(usize) -> *mut T::Acc,
    ) {
        let (ws, ks) = (self.n_stride, self.c_stride);
        for (t, tap) in self.taps.iter().enumerate() {
            let strip = Strip { src: src.wrapping_offset(tap.weight), ws, ks, width, k: self.channels };
            // SAFETY: the caller's contract.
            unsafe { T::Mode::pack(isa, strip, row(t * self.channels), padded) };
        }
    }

    /// Memory runs along the taps: what lies there for some channels is transposed at once, then brought into its place.
    unsafe fn all_taps<T: GemmFloat>(
        &self,
        isa: Isa,
        (first, span): (isize, usize),
        src: *const T,
        (width, padded): (usize, usize),
        row: impl Fn(usize) -> *mut T::Acc,
    ) {
        let together = if self.c_stride == span as isize { channels_together(span) } else { 1 };
        with_scratch(Slot::C, together * span * padded * size_of::<T::Acc>() + SPARE, |tmp| {
            let tmp: *mut T::Acc = tmp.cast();
            for c in (0..self.channels).step_by(together) {
                let n = together.min(self.channels - c);
                let src = src.wrapping_offset(first + c as isize * self.c_stride);
                // SAFETY: the caller's contract; the buffer holds the strip.
                unsafe {
                    T::Mode::pack(isa, Strip { src, ws: self.n_stride, ks: 1, width, k: n * span }, tmp, padded);
                    for i in 0..n {
                        for (t, tap) in self.taps.iter().enumerate() {
                            let from = tmp.add((i * span + (tap.weight - first) as usize) * padded);
                            std::ptr::copy_nonoverlapping(from, row(t * self.channels + c + i), padded);
                        }
                    }
                }
            }
        })
    }
}
