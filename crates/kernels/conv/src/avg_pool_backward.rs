//! AVG_POOL_BACKWARD: every position sums up the shares of the windows that see it.
//!
//! A line of shares is spread along the windows once; lines of the result are sums of such lines. So each element is written
//! once, in the stored dtype. Channels that lie side by side go together, else planes go one by one.

use crate::avg_pool::Divisor;
use crate::geometry::Image;
use crate::pool::{Axis, by_channel};
use oneflow_kernels_gemm::micro::{GemmFloat, Slot, with_scratch};
use oneflow_kernels_prim::rows::split;
use oneflow_kernels_prim::{self as prim, Acc, Num, Reg, Register, Simd, WithSimd, dispatch};
use std::ops::Range;

pub struct Backward {
    pub g: Image,
    /// The result.
    pub gx: Image,
    pub axes: [Axis; 3],
    pub divisor: Divisor,
}

/// The windows that see each position of an axis: neighbours.
fn covers(axis: &Axis) -> Vec<Range<usize>> {
    let mut covers = vec![0..0; axis.input];
    for o in 0..axis.output {
        let span = axis.span(o);
        for seen in covers.iter_mut().take(span.end).skip(span.start) {
            *seen = if seen.end == 0 { o..o + 1 } else { seen.start..o + 1 };
        }
    }
    covers
}

impl Backward {
    /// # Safety
    /// The images hold `T` and are valid.
    pub unsafe fn run<T: GemmFloat>(&self) {
        let [n, channels, depth, height, width] = self.gx.sizes;
        let together = by_channel(&[&self.g, &self.gx]);
        let (runs, k) = if together { (1, channels) } else { (channels, 1) };
        let seen = [0, 1].map(|d| covers(&self.axes[d]));
        let most = |d: usize| seen[d].iter().map(Range::len).max().unwrap_or(0).max(1);
        let slots = [most(0), most(1)];
        let len = width * k + 16;
        let numbers = slots[0] * slots[1] * len + self.axes[2].output + 16;
        let taps: usize = self.axes.iter().map(Axis::most_taps).product();
        let ns = (width * k) as f64 * (0.1 + 0.02 * taps.min(100) as f64);
        split(n * runs * depth * height, ns, &|r| {
            let mut tags = vec![usize::MAX; slots[0] * slots[1]];
            let divisors = [0, 1, 2].map(|d| {
                let a = &self.axes[d];
                (0..a.output).map(|o| self.divisor.part(a, o, d)).collect::<Vec<f64>>()
            });
            with_scratch(Slot::A, numbers * size_of::<T::Acc>(), |scratch| {
                let lines: *mut T::Acc = scratch.cast();
                let shares = lines.wrapping_add(slots[0] * slots[1] * len);
                for i in r {
                    let (image, d, h) = (i / (depth * height), i / height % depth, i % height);
                    let (n, c) = (image / runs, image % runs);
                    let mut from = vec![];
                    for od in seen[0][d].clone() {
                        for oh in seen[1][h].clone() {
                            let slot = od % slots[0] * slots[1] + oh % slots[1];
                            let line = lines.wrapping_add(slot * len);
                            let tag = (image * self.axes[0].output + od) * self.axes[1].output + oh;
                            if std::mem::replace(&mut tags[slot], tag) != tag {
                                let by = divisors[0][od] * divisors[1][oh];
                                let from = self.g.at::<T>(n, c, [od, oh, 0]).cast_const();
                                let (step, divisors) = (self.g.strides[4], &divisors[2][..]);
                                let axis = &self.axes[2];
                                dispatch(
                                    prim::isa(),
                                    SpreadLine::<T> { from, step, by, divisors, shares, line, k, axis },
                                );
                            }
                            from.push(line.cast_const());
                        }
                    }
                    let (to, step) = (self.gx.at::<T>(n, c, [d, h, 0]), self.gx.strides[4]);
                    // Whole lines are one run.
                    let (n, k) = if step == k as isize { (1, width * k) } else { (width, k) };
                    match k {
                        1 => dispatch(prim::isa(), SumLines::<T> { from: &from, n: 1, k: n, to, down: 0, step }),
                        k => dispatch(prim::isa(), SumLines::<T> { from: &from, n, k, to, down: step, step: 1 }),
                    }
                }
            })
        });
    }
}

/// One line of outputs: each one's share, added to every position of its window. `k` channels lie side by side.
struct SpreadLine<'a, T: GemmFloat> {
    from: *const T,
    step: isize,
    /// The part of the divisor that all share, and each one's own.
    by: f64,
    divisors: &'a [f64],
    shares: *mut T::Acc,
    line: *mut T::Acc,
    k: usize,
    axis: &'a Axis,
}

impl<T: GemmFloat> WithSimd for SpreadLine<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let SpreadLine { from, step, by, divisors, shares, line, k, axis } = self;
        let (width, n) = (Reg::<S, T>::WIDTH, divisors.len());
        // SAFETY: outputs, windows and channels lie in the images and lines; lines have a register to spare.
        unsafe {
            std::ptr::write_bytes(line, 0, axis.input * k);
            if k > 1 {
                for (w, part) in divisors.iter().enumerate() {
                    let (by, span) = (Reg::<S, T>::splat(by * part), axis.span(w));
                    for c in (0..k).step_by(width) {
                        let m = width.min(k - c);
                        let share = T::load_n::<S>(from.offset(w as isize * step).add(c), m) / by;
                        for i in span.start..span.end {
                            let to = line.add(i * k + c);
                            (Reg::<S, T>::load_n(to, m) + share).store_n(to, m);
                        }
                    }
                }
                return;
            }
            if step == 1 {
                for w in (0..n).step_by(width) {
                    T::load_n::<S>(from.add(w), width.min(n - w)).store(shares.add(w));
                }
            } else {
                (0..n).for_each(|w| *shares.add(w) = (*from.offset(w as isize * step)).widen());
            }
            for (w, part) in divisors.iter().enumerate() {
                *shares.add(w) = T::Acc::of((*shares.add(w)).to_f64() / (by * part));
            }
            if axis.stride == 1 && axis.kernel > 0 {
                // Tap by tap, a run of neighbours at a time.
                let (input, padding) = (axis.input as isize, axis.padding);
                for tap in (padding - n as isize).max(0)..(input + padding).min(axis.kernel as isize) {
                    let first = (padding - tap).clamp(0, n as isize) as usize;
                    let end = (input + padding - tap).clamp(first as isize, n as isize) as usize;
                    for w in (first..end).step_by(width) {
                        let to = line.offset(w as isize + tap - padding);
                        let share = Reg::<S, T>::load_n(shares.add(w), width.min(end - w));
                        (<Reg<S, T> as Register>::load(to) + share).store(to);
                    }
                }
                return;
            }
            for w in 0..n {
                let (span, share) = (axis.span(w), *shares.add(w));
                for i in span.start..span.end {
                    *line.add(i) = *line.add(i) + share;
                }
            }
        }
    }
}

/// Sums of lines: `n` runs of `k` neighbours, which are stored `down` and `step` apart.
struct SumLines<'a, T: GemmFloat> {
    from: &'a [*const T::Acc],
    n: usize,
    k: usize,
    to: *mut T,
    down: isize,
    step: isize,
}

impl<T: GemmFloat> WithSimd for SumLines<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = Reg::<S, T>::WIDTH;
        for i in 0..self.n {
            let to = self.to.wrapping_offset(i as isize * self.down);
            for c in (0..self.k).step_by(width) {
                let m = width.min(self.k - c);
                // SAFETY: lines are readable in whole registers; the positions lie in the image.
                unsafe {
                    let at = |line: &*const T::Acc| <Reg<S, T> as Register>::load(line.add(i * self.k + c));
                    let sum = match self.from {
                        [] => Reg::<S, T>::splat(0.0),
                        [first, rest @ ..] => rest.iter().fold(at(first), |sum, line| sum + at(line)),
                    };
                    match self.step {
                        1 => T::store_n::<S>(sum, to.add(c), m),
                        step => T::scatter::<S>(sum, to.offset(c as isize * step), step, m),
                    }
                }
            }
        }
    }
}
