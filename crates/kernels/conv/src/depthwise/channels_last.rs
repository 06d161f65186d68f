//! Channels that lie side by side, one a group: a register of them at a time, some neighbouring positions together.

use crate::algorithm::Correlation;
use crate::element::madd;
use crate::output::finish;
use crate::packed_weights::Tap;
use oneflow_kernels_gemm::micro::GemmFloat;
use oneflow_kernels_prim::rows::split;
use oneflow_kernels_prim::{Acc, Num, Reg, Register, Simd, WithSimd, dispatch, isa};

/// # Safety
/// As `Correlation::run`.
pub unsafe fn run<T: GemmFloat>(c: &Correlation<'_>) {
    let ([n, _, d, h, w], channels) = (c.dst.sizes, c.groups);
    let mut weights = vec![T::Acc::ZERO; c.weight.taps.len() * channels];
    let mut bias = vec![T::Acc::ZERO; channels];
    for g in 0..channels {
        // SAFETY: the caller's weight and bias.
        unsafe {
            (0..c.weight.taps.len()).for_each(|t| weights[t * channels + g] = c.weight::<T>(g, [0, 0, t]));
            bias[g] = c.first_sum::<T>(g);
        }
    }
    let per_line = 0.1 * (c.weight.taps.len() + 4) as f64 * (w * channels) as f64;
    split(n * d * h, per_line, &|r| {
        for i in r {
            dispatch(isa(), Line::<T> { c, weights: &weights, bias: &bias, at: [i / (d * h), i / h % d, i % h] });
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

/// A tap that reads inside: where for the first position, its shift along the line, and its weights.
#[derive(Clone, Copy)]
struct Reads {
    from: isize,
    shift: isize,
    by: usize,
}

/// Sums computed together: of neighbouring positions, or at a line's ends of neighbouring channels.
const TOGETHER: usize = 8;

impl<T: GemmFloat> WithSimd for Line<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let [n, d, h] = self.at;
        let (c, channels) = (self.c, self.c.groups);
        let width = Reg::<S, T>::WIDTH;
        let (n_w, step, next) = (c.dst.sizes[4] as isize, c.step[2], c.src.strides[4]);
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
        // Positions whose windows lie inside go together.
        let inside = |w: isize| taps.iter().all(|t| (0..size).contains(&(w * step + t.shift)));
        let first = (0..n_w).find(|w| inside(*w)).unwrap_or(n_w);
        let end = (first..n_w).rev().find(|w| inside(*w)).map_or(first, |w| w + 1);
        let runs = runs(&taps, step);
        let mut w = 0;
        while w < n_w {
            if w < first || w >= end || end - first < TOGETHER as isize {
                let sees = |t: &&Reads| (0..size).contains(&(w * step + t.shift));
                let taps: Vec<_> = taps.iter().filter(sees).collect();
                for i in (0..channels).step_by(TOGETHER * width) {
                    let k = |u: usize| width.min(channels.saturating_sub(i + u * width));
                    let mut sum = [Reg::<S, T>::splat(0.0); TOGETHER];
                    // SAFETY: only positions and channels inside the images are touched.
                    unsafe {
                        for (u, sum) in sum.iter_mut().enumerate().take_while(|(u, _)| k(*u) > 0) {
                            let i = i + u * width;
                            *sum = Reg::<S, T>::load_n(self.bias.as_ptr().add(i), k(u));
                            for t in &taps {
                                let by = Reg::<S, T>::load_n(self.weights.as_ptr().add(t.by + i), k(u));
                                let x = from.offset(t.from + w * step * next).add(i);
                                *sum = madd(T::load_n::<S>(x, k(u)), by, *sum);
                            }
                            let y = finish::<T, S>(c.activation, *sum);
                            T::store_n::<S>(y, to.offset(w * down).add(i), k(u));
                        }
                    }
                }
                w += 1;
                continue;
            }
            // The last ones may be computed twice.
            let at = w.min(end - TOGETHER as isize);
            for i in (0..channels).step_by(width) {
                let k = width.min(channels - i);
                // SAFETY: only positions and channels inside the images are touched.
                unsafe {
                    let mut sum = [Reg::<S, T>::load_n(self.bias.as_ptr().add(i), k); TOGETHER];
                    for run in &runs {
                        let run = &taps[run.clone()];
                        let x = from.offset(run[0].from + at * step * next).add(i);
                        let by = self.weights.as_ptr().add(run[0].by + i);
                        match (run.len(), k == width) {
                            (3, true) => window::<S, T, 3>(x, next, (by, channels), &mut sum),
                            (5, true) => window::<S, T, 5>(x, next, (by, channels), &mut sum),
                            (7, true) => window::<S, T, 7>(x, next, (by, channels), &mut sum),
                            (_, true) => {
                                let by = Register::load(by);
                                for (u, sum) in sum.iter_mut().enumerate() {
                                    *sum = madd(T::load::<S>(x.offset(u as isize * step * next)), by, *sum);
                                }
                            }
                            (taps, false) => {
                                for t in 0..taps {
                                    let by = Reg::<S, T>::load_n(by.add(t * channels), k);
                                    for (u, sum) in sum.iter_mut().enumerate() {
                                        let x = x.offset((u as isize * step + t as isize) * next);
                                        *sum = madd(T::load_partial::<S>(x, k), by, *sum);
                                    }
                                }
                            }
                        }
                    }
                    for (u, sum) in sum.into_iter().enumerate() {
                        let y = finish::<T, S>(c.activation, sum);
                        T::store_n::<S>(y, to.offset((at + u as isize) * down).add(i), k);
                    }
                }
            }
            w = at + TOGETHER as isize;
        }
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

/// Adds the products of `K` taps side by side: a position is loaded once for all of them.
#[inline(always)]
unsafe fn window<S: Simd, T: GemmFloat, const K: usize>(
    x: *const T,
    next: isize,
    (by, ld): (*const T::Acc, usize),
    sum: &mut [Reg<S, T>; TOGETHER],
) {
    // SAFETY: the positions and weights lie in memory.
    unsafe {
        let mut rows = [Reg::<S, T>::splat(0.0); TOGETHER + 6];
        for j in 0..TOGETHER + K - 1 {
            rows[j] = T::load::<S>(x.offset(j as isize * next));
        }
        for k in 0..K {
            let by = Register::load(by.add(k * ld));
            for u in 0..TOGETHER {
                sum[u] = madd(rows[u + k], by, sum[u]);
            }
        }
    }
}
