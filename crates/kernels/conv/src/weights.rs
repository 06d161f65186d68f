//! Weights in the order the micro-kernels read them: passes over k, panels of output channels, rows of k.

use crate::geometry::Three;
use crate::region::SPARE;
use crate::stored::Stored;
use oneflow_kernels_gemm::micro::{Mode, Slot, Strip, with_scratch};
use oneflow_kernels_gemm::{Isa, Parallel, Pool};
use oneflow_kernels_prim::rows::Shared;
use std::ops::Range;

/// One tap of a window: where it reads the source, and where its weights lie.
#[derive(Clone, Copy, Debug)]
pub struct Tap {
    pub shift: Three,
    pub weight: isize,
}

/// The passes over k = (tap, channel), taps outermost: all but equal parts that fit the cache.
#[derive(Clone, Copy, Debug)]
pub struct Passes {
    pub k: usize,
    pub step: usize,
}

impl Passes {
    pub fn new(k: usize, kc: usize) -> Passes {
        Passes { k, step: k.div_ceil(k.div_ceil(kc).max(1)).max(1) }
    }
    pub fn len(&self) -> usize {
        self.k.div_ceil(self.step)
    }
    pub fn get(&self, i: usize) -> Range<usize> {
        i * self.step..((i + 1) * self.step).min(self.k)
    }
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

impl Weight<'_> {
    pub fn k(&self) -> usize {
        self.channels * self.taps.len()
    }

    /// The first weight of a channel's taps and how far they reach, where that is near and nothing else is contiguous.
    fn near_taps(&self) -> Option<(isize, usize)> {
        let offsets = || self.taps.iter().map(|t| t.weight);
        let (first, last) = (offsets().min()?, offsets().max()?);
        let span = last.abs_diff(first).saturating_add(1);
        (self.n_stride != 1 && self.c_stride != 1 && span <= 64).then_some((first, span))
    }

    /// Packs `n.next_multiple_of(lanes)` columns: pass `p` starts at `p.start * columns`, its panel of column `j` at
    /// `j * p.len()` behind that.
    ///
    /// # Safety
    /// The weight holds `T`; `dst` has room for `k * columns` sums and the spare bytes.
    pub unsafe fn pack<T: Stored>(&self, isa: Isa, passes: Passes, dst: Shared<T::Acc>) {
        let ker = T::Mode::kernels(isa);
        let columns = self.n.next_multiple_of(ker.lanes);
        let panels = self.n.div_ceil(ker.nr);
        let panel = |i: usize| {
            let j = i * ker.nr;
            let width = ker.nr.min(self.n - j);
            let padded = width.next_multiple_of(ker.lanes);
            let row = |k: usize| {
                let pass = passes.get(k / passes.step);
                dst.at((pass.start * columns + j * pass.len() + (k - pass.start) * padded) as isize)
            };
            let src = self.ptr.cast::<T>().wrapping_offset(j as isize * self.n_stride);
            // SAFETY: strips lie in the weight, rows in the buffer; panels are disjoint.
            unsafe {
                match self.near_taps() {
                    Some(span) => self.all_taps::<T>(isa, span, src, (width, padded), row),
                    None => self.tap_by_tap::<T>(isa, passes, src, (width, padded), row),
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
    unsafe fn tap_by_tap<T: Stored>(
        &self,
        isa: Isa,
        passes: Passes,
        src: *const T,
        (width, padded): (usize, usize),
        row: impl Fn(usize) -> *mut T::Acc,
    ) {
        let (ws, ks) = (self.n_stride, self.c_stride);
        for (t, tap) in self.taps.iter().enumerate() {
            let mut c = 0;
            while c < self.channels {
                let k = t * self.channels + c;
                let len = (self.channels - c).min(passes.get(k / passes.step).end - k);
                let src = src.wrapping_offset(tap.weight + c as isize * ks);
                // SAFETY: the caller's contract.
                unsafe { T::Mode::pack(isa, Strip { src, ws, ks, width, k: len }, row(k), padded) };
                c += len;
            }
        }
    }

    /// Memory runs along the taps: what lies there for some channels is transposed at once, then brought into its place.
    unsafe fn all_taps<T: Stored>(
        &self,
        isa: Isa,
        (first, span): (isize, usize),
        src: *const T,
        (width, padded): (usize, usize),
        row: impl Fn(usize) -> *mut T::Acc,
    ) {
        let together = if self.c_stride == span as isize { (64 / span).max(1) } else { 1 };
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
