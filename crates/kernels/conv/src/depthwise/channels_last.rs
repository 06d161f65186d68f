//! Channels that lie side by side, one a group: a register of them at a time, some neighbouring positions together.

use super::layout::Rows;
use crate::algorithm::Correlation;
use crate::element::madd;
use crate::output::finish;
use crate::packed_weights::Tap;
use oneflow_kernels_gemm::micro::GemmFloat;
use oneflow_kernels_prim::rows::split;
use oneflow_kernels_prim::{Num, Reg, Register, Simd, WithSimd, dispatch, isa};
use std::any::TypeId;

/// # Safety
/// As `Correlation::run`.
pub unsafe fn run<T: GemmFloat>(c: &Correlation<'_>) {
    let ([n, _, d, h, w], channels) = (c.dst.sizes, c.groups);
    let taps = c.weight.taps;
    // SAFETY: the caller's weight and bias.
    let bias: Vec<T::Acc> = (0..channels).map(|g| unsafe { c.first_sum::<T>(g) }).collect();
    let in_order = c.group_stride == 1 && taps.iter().enumerate().all(|(t, tap)| tap.weight == (t * channels) as isize);
    let mut copied = Vec::new();
    let weights: &[T::Acc] = match in_order && TypeId::of::<T>() == TypeId::of::<T::Acc>() {
        // SAFETY: the caller's weight holds them side by side.
        true => unsafe { std::slice::from_raw_parts(c.weight.ptr.cast(), taps.len() * channels) },
        false => {
            // SAFETY: the caller's weight.
            copied.extend(
                (0..taps.len() * channels).map(|i| unsafe { c.weight::<T>(i % channels, [0, 0, i / channels]) }),
            );
            &copied
        }
    };
    let per_line = 0.1 * (c.weight.taps.len() + 4) as f64 * (w * channels) as f64;
    split(n * d * h, per_line, &|r| {
        for i in r {
            dispatch(isa(), Line::<T> { c, weights, bias: &bias, at: [i / (d * h), i / h % d, i % h] });
        }
    });
}

/// One line of outputs.
struct Line<'a, T: GemmFloat> {
    c: &'a Correlation<'a>,
    /// [tap, channel]
    weights: &'a [T::Acc],
    bias: &'a [T::Acc],
    /// n, d, h
    at: [usize; 3],
}

/// A tap that reads a line inside: where for the first position, its shift along the line, and its weights.
#[derive(Clone, Copy)]
struct Reads {
    from: isize,
    shift: isize,
    by: usize,
}

/// Sums computed together at most: of neighbouring positions.
const TOGETHER: usize = Rows::MOST;

impl<T: GemmFloat> WithSimd for Line<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: the caller's images.
        unsafe {
            match Rows::of(self.c.dst.sizes[4]) {
                Rows::Eight => self.line::<S, 8>(),
                Rows::Seven => self.line::<S, 7>(),
                Rows::Four => self.line::<S, 4>(),
                Rows::One => self.line::<S, 1>(),
            }
        }
    }
}

impl<T: GemmFloat> Line<'_, T> {
    /// `R` positions at a time.
    #[inline(always)]
    unsafe fn line<S: Simd, const R: usize>(&self) {
        let [n, d, h] = self.at;
        let (c, channels) = (self.c, self.c.groups);
        let width = Reg::<S, T>::WIDTH;
        let (n_w, step, next) = (c.dst.sizes[4], c.step[2], c.src.strides[4]);
        let size = c.src.sizes[4] as isize;
        let tap = |(t, tap): (usize, &Tap)| {
            let at = [d as isize * c.step[0] + tap.shift[0], h as isize * c.step[1] + tap.shift[1]];
            let inside = (0..2).all(|i| (0..c.src.sizes[2 + i] as isize).contains(&at[i]));
            let from = at[0] * c.src.strides[2] + at[1] * c.src.strides[3] + tap.shift[2] * next;
            inside.then_some(Reads { from, shift: tap.shift[2], by: t * channels })
        };
        let taps: Vec<Reads> = c.weight.taps.iter().enumerate().filter_map(tap).collect();
        let (from, to) = (c.src.at::<T>(n, 0, [0; 3]).cast_const(), c.dst.at::<T>(n, 0, [d, h, 0]));
        let down = c.dst.strides[4];
        let runs = runs(&taps, step);
        for at in (0..n_w).step_by(R) {
            // The last ones may be computed twice.
            let at = at.min(n_w - R);
            for i in (0..channels).step_by(width) {
                // As above.
                let i = i.min(channels.saturating_sub(width));
                let k = width.min(channels - i);
                // SAFETY: only positions and channels inside the images are touched.
                unsafe {
                    let mut sum = [Reg::<S, T>::load_n(self.bias.as_ptr().add(i), k); R];
                    for run in &runs {
                        let (run, first) = (run.len(), taps[run.start]);
                        let position = at as isize * step + first.shift;
                        let x = Positions {
                            first: from.wrapping_offset(first.from + at as isize * step * next).wrapping_add(i),
                            next: step * next,
                            inside: position >= 0 && position + (R - 1) as isize * step + (run as isize) <= size,
                            position,
                            step,
                            size,
                        };
                        let by = (self.weights.as_ptr().add(first.by + i), channels);
                        match (run, k == width) {
                            (3, true) => window::<S, T, R, 3>(&x, by, &mut sum),
                            (5, true) => window::<S, T, R, 5>(&x, by, &mut sum),
                            (7, true) => window::<S, T, R, 7>(&x, by, &mut sum),
                            (_, true) => window::<S, T, R, 1>(&x, by, &mut sum),
                            (taps, false) => {
                                for t in 0..taps {
                                    let by = Reg::<S, T>::load_partial(by.0.add(t * channels), k);
                                    for (u, sum) in sum.iter_mut().enumerate() {
                                        let (p, x) = x.get(u, t);
                                        if (0..size).contains(&p) {
                                            *sum = madd(T::load_partial::<S>(x, k), by, *sum);
                                        }
                                    }
                                }
                            }
                        }
                    }
                    for (u, sum) in sum.into_iter().enumerate() {
                        let y = finish::<T, S>(c.activation, sum);
                        T::store_n::<S>(y, to.offset((at + u) as isize * down).add(i), k);
                    }
                }
            }
        }
    }
}

/// Positions of a line, `step` apart, from the one that the first tap of a run reads first.
struct Positions<T> {
    first: *const T,
    /// Elements from one to the next.
    next: isize,
    /// Whether the line has all that the run reads.
    inside: bool,
    position: isize,
    step: isize,
    size: isize,
}

impl<T> Positions<T> {
    /// The position that tap `t` of a run reads for output `u`, and where it lies.
    #[inline(always)]
    fn get(&self, u: usize, t: usize) -> (isize, *const T) {
        // Taps of a run are one position apart; more than one have a step of one.
        let (u, t) = (u as isize, t as isize);
        (self.position + u * self.step + t, self.first.wrapping_offset((u + t) * self.next))
    }
}

/// Taps that read neighbours where positions do too: as many as go together, else one by one.
fn runs(taps: &[Reads], step: isize) -> Vec<std::ops::Range<usize>> {
    let (mut runs, mut at) = (Vec::new(), 0);
    while let Some(first) = taps.get(at) {
        let near = |(i, t): (usize, &Reads)| {
            t.shift == first.shift + i as isize && t.from - first.from == i as isize * (taps[at + 1].from - first.from)
        };
        let line = taps[at..].iter().enumerate().take_while(|(i, t)| *i == 0 || near((*i, t))).count();
        let n = [7, 5, 3].into_iter().find(|n| step == 1 && *n <= line).unwrap_or(1);
        runs.push(at..at + n);
        at += n;
    }
    runs
}

/// Adds the products of `K` taps side by side: a position is loaded once for all of them, and is zero beside the line.
#[inline(always)]
unsafe fn window<S: Simd, T: GemmFloat, const R: usize, const K: usize>(
    x: &Positions<T>,
    (by, ld): (*const T::Acc, usize),
    sum: &mut [Reg<S, T>; R],
) {
    // SAFETY: the positions and weights lie in memory.
    unsafe {
        let mut rows = [Reg::<S, T>::splat(0.0); TOGETHER + 6];
        for j in 0..R + K - 1 {
            let (position, x_j) = x.get(j, 0);
            if x.inside || (0..x.size).contains(&position) {
                rows[j] = T::load::<S>(x_j);
            }
        }
        for k in 0..K {
            let by = Register::load(by.add(k * ld));
            for u in 0..R {
                sum[u] = madd(rows[u + k], by, sum[u]);
            }
        }
    }
}
