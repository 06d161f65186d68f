//! Windows of a fixed size over lines of contiguous positions, a register of outputs at a time: maxima or sums.
//!
//! A line of the input is copied once with what pads it and with every stride-th element side by side; then each tap of a
//! window is a plain load.

use crate::geometry::Image;
use crate::pool::Axis;
use oneflow_kernels_gemm::micro::GemmFloat;
use oneflow_kernels_prim::{Acc, Num, Reg, Register, Simd, WithSimd};

/// One plane [d, h, w] of an image, pooled.
pub struct Plane<'a, T: GemmFloat> {
    pub src: *const T,
    pub dst: *mut T,
    /// Positions of the maxima; null where nobody asks.
    pub indices: *mut i64,
    pub x: &'a Image,
    pub y: &'a Image,
    pub index_strides: [isize; 3],
    pub axes: &'a [Axis; 3],
    /// Divisors of the sums along each dimension, rows one after the other; `None` for maxima.
    pub divisors: Option<&'a [Vec<T::Acc>; 3]>,
    /// `n_slots` lines of `line_len`, and their tags.
    pub lines: *mut T::Acc,
    pub tags: &'a mut [usize],
}

/// Elements of a prepared line: one run a remainder by the stride.
pub fn run_len(w: &Axis) -> usize {
    w.output + (w.kernel - 1) * w.dilation / w.stride as usize + 16
}

pub fn line_len(w: &Axis) -> usize {
    run_len(w) * w.stride as usize
}

/// Lines kept at a time: as many as a window sees.
pub fn n_slots(axes: &[Axis; 3]) -> usize {
    axes[0].kernel * axes[1].kernel
}

impl<T: GemmFloat> WithSimd for Plane<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(mut self) {
        self.tags.fill(usize::MAX);
        let [ad, ah, _] = *self.axes;
        for d in 0..ad.output {
            for h in 0..ah.output {
                // SAFETY: the caller's planes and buffers.
                unsafe { self.out_line::<S>(d, h) };
            }
        }
    }
}

impl<T: GemmFloat> Plane<'_, T> {
    #[inline(always)]
    unsafe fn out_line<S: Simd>(&mut self, d: usize, h: usize) {
        type R<S, T> = Reg<S, T>;
        let [ad, ah, aw] = *self.axes;
        let (sd, sh) = (ad.span(d), ah.span(h));
        let (rows, maximum) = (self.y.strides, self.divisors.is_none());
        let width = R::<S, T>::WIDTH;
        let first = |a: &Axis, o: usize| o as isize * a.stride - a.padding;
        let base = (first(&ad, d) * ah.input as isize + first(&ah, h)) * aw.input as isize;
        // SAFETY: spans lie in the image; lines hold every tap of every output of a line and a register more.
        unsafe {
            for id in (sd.start..sd.end).step_by(ad.dilation) {
                for ih in (sh.start..sh.end).step_by(ah.dilation) {
                    self.prepare(id, ih, maximum);
                }
            }
            let out = self.dst.offset(d as isize * rows[2] + h as isize * rows[3]);
            for ow in (0..aw.output).step_by(width) {
                let mut best = R::<S, T>::splat(if maximum { f64::NEG_INFINITY } else { 0.0 });
                let mut best_tap = R::<S, T>::splat(-1.0);
                for id in (sd.start..sd.end).step_by(ad.dilation) {
                    let kd = (id as isize - first(&ad, d)) as usize / ad.dilation;
                    for ih in (sh.start..sh.end).step_by(ah.dilation) {
                        let kh = (ih as isize - first(&ah, h)) as usize / ah.dilation;
                        let line = self.lines.add(self.slot(id, ih) * line_len(&aw));
                        for kw in 0..aw.kernel {
                            let at = kw * aw.dilation;
                            let from = at % aw.stride as usize * run_len(&aw) + at / aw.stride as usize + ow;
                            let v = <R<S, T> as Register>::load(line.add(from));
                            if maximum {
                                let tap = R::<S, T>::splat(((kd * ah.kernel + kh) * aw.kernel + kw) as f64);
                                let better = v.gt(best) | v.is_nan();
                                best = Num::select(better, v, best);
                                best_tap = Num::select(better, tap, best_tap);
                            } else {
                                best = best + v;
                            }
                        }
                    }
                }
                let n = width.min(aw.output - ow);
                if let Some([dd, dh, dw]) = self.divisors {
                    let by = <R<S, T> as Register>::all_of(dd[d] * dh[h]);
                    best = best / (<R<S, T> as Register>::load_partial(dw.as_ptr().add(ow), n) * by);
                }
                let to = out.offset(ow as isize * rows[4]);
                match rows[4] {
                    1 if n == width => T::store::<S>(best, to),
                    1 => T::store_partial::<S>(best, to, n),
                    step => T::scatter::<S>(best, to, step, n),
                }
                if !self.indices.is_null() {
                    let mut taps = [T::Acc::default(); 16];
                    best_tap.store(taps.as_mut_ptr());
                    let line = [d as isize * self.index_strides[0], h as isize * self.index_strides[1]];
                    for (i, tap) in taps.iter().enumerate().take(n) {
                        let o = ow + i;
                        let index = match tap.to_f64() {
                            // Nothing is greater than minus infinity: the first element of the window.
                            t if t < 0.0 => ((sd.start * ah.input + sh.start) * aw.input + aw.span(o).start) as i64,
                            t => {
                                let t = t as usize;
                                let (kd, kh, kw) =
                                    (t / (ah.kernel * aw.kernel), t / aw.kernel % ah.kernel, t % aw.kernel);
                                let rel =
                                    (kd * ad.dilation * ah.input + kh * ah.dilation) * aw.input + kw * aw.dilation;
                                (base + first(&aw, o) + rel as isize) as i64
                            }
                        };
                        *self.indices.offset(line[0] + line[1] + o as isize * self.index_strides[2]) = index;
                    }
                }
            }
        }
    }

    /// Lines of the depth and height taps that one window sees never share a slot.
    #[inline(always)]
    fn slot(&self, id: usize, ih: usize) -> usize {
        let [ad, ah, _] = self.axes;
        (id / ad.dilation % ad.kernel) * ah.kernel + ih / ah.dilation % ah.kernel
    }

    /// Brings a line of the input into its slot, padded, every stride-th element side by side.
    #[inline(always)]
    unsafe fn prepare(&mut self, id: usize, ih: usize, maximum: bool) {
        let aw = self.axes[2];
        let (slot, tag) = (self.slot(id, ih), id * self.axes[1].input + ih);
        if self.tags[slot] == tag {
            return;
        }
        self.tags[slot] = tag;
        let fill = T::Acc::of(if maximum { f64::NEG_INFINITY } else { 0.0 });
        let (ws, run, stride) = (self.x.strides[4], run_len(&aw), aw.stride as usize);
        // SAFETY: the line lies in the image, the runs in the slot.
        unsafe {
            let src = self.src.offset(id as isize * self.x.strides[2] + ih as isize * self.x.strides[3]);
            let line = self.lines.add(slot * line_len(&aw));
            for phase in 0..stride {
                // Position i of the run is element i * stride + phase - padding.
                let to = line.add(phase * run);
                let before = (aw.padding as usize).saturating_sub(phase).div_ceil(stride).min(run);
                let inside = (aw.input + aw.padding as usize).saturating_sub(phase).div_ceil(stride).clamp(before, run);
                (0..before).for_each(|i| *to.add(i) = fill);
                let first = (before * stride + phase) as isize - aw.padding;
                let (src, step) = (src.wrapping_offset(first * ws), stride as isize * ws);
                if step == 1 {
                    (before..inside).for_each(|i| *to.add(i) = (*src.add(i - before)).widen());
                } else {
                    (before..inside).for_each(|i| *to.add(i) = (*src.offset((i - before) as isize * step)).widen());
                }
                (inside..run).for_each(|i| *to.add(i) = fill);
            }
        }
    }
}
