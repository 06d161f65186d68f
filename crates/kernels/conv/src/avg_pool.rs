//! AVG_POOL and its backward.
//!
//! Channels side by side: a register of channels at a time. Planes: lines of positions. Adaptive windows of planes and
//! windows far wider than the image: one element at a time.

use crate::geometry::Image;
use crate::lines::{Plane, line_len, n_slots};
use crate::pool::{Axis, axes, by_channel, positions};
use crate::scatter::{Gradient, Sink};
use crate::stored::{Stored, by_float};
use oneflow_base::Result;
use oneflow_kernels_gemm::micro::{Acc, Reg, Slot, with_scratch};
use oneflow_kernels_prim::rows::split;
use oneflow_kernels_prim::{self as prim, Launch, Num, Register, Simd, WithSimd, dispatch};

struct AvgPool {
    x: Image,
    y: Image,
    axes: [Axis; 3],
    divisor: Divisor,
}

#[derive(Clone, Copy)]
enum Divisor {
    Fixed(f64),
    WithPadding,
    Elements,
}

impl Divisor {
    fn of(l: &Launch<'_>) -> Result<Divisor> {
        Ok(match (l.param(2)?.i64(), l.param(1)?.bool()) {
            (0, true) => Divisor::WithPadding,
            (0, false) => Divisor::Elements,
            (n, _) => Divisor::Fixed(n as f64),
        })
    }

    /// One dimension's part of the number that a sum is divided by.
    fn part(self, axis: &Axis, o: usize, dim: usize) -> f64 {
        match self {
            Divisor::Fixed(n) => {
                if dim == 0 {
                    n
                } else {
                    1.0
                }
            }
            Divisor::WithPadding => axis.padded_len(o) as f64,
            // A window without elements sums up to zero.
            Divisor::Elements => {
                let s = axis.span(o);
                (s.end - s.start).max(1) as f64
            }
        }
    }

    fn at(self, axes: &[Axis; 3], at: [usize; 3]) -> f64 {
        (0..3).map(|d| self.part(&axes[d], at[d], d)).product()
    }
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let (x, y) = (l.input(0)?, l.output(0)?);
    let spatial = l.param(0)?.usize();
    let (xi, yi) = (Image::new(&x, spatial)?, Image::new(&y, spatial)?);
    let axes = axes(l.params, 3, 3, &xi, &yi, spatial)?;
    if yi.numel() == 0 {
        return Ok(());
    }
    let pool = AvgPool { x: xi, y: yi, axes, divisor: Divisor::of(l)? };
    by_float!("avg_pool", x.dtype, T => {
        // SAFETY: the views are valid by the launch's contract.
        unsafe { pool.run::<T>() };
        Ok(())
    })
}

impl AvgPool {
    unsafe fn run<T: Stored>(&self) {
        let (x, y) = (&self.x, &self.y);
        let [od, oh, ow] = y.spatial();
        let (n, c) = (y.sizes[0], y.sizes[1]);
        let ns = self.axes.iter().map(|a| a.most_taps() as f64).product::<f64>() * (od * oh * ow) as f64;
        if by_channel(&[x, y]) {
            return split(n * od * oh, 0.2 * ns * c as f64 / (od * oh) as f64, &|r| {
                for i in r {
                    let line =
                        Channels::<T> { p: self, n: i / (od * oh), d: i / oh % od, h: i % oh, t: Default::default() };
                    dispatch(prim::isa(), line);
                }
            });
        }
        if self.axes.iter().any(|a| a.kernel == 0 || a.is_far()) {
            return split(n * c, ns, &|r| {
                for i in r {
                    // SAFETY: by the caller.
                    unsafe { self.one_by_one::<T>(i / c, i % c) };
                }
            });
        }
        let slots = n_slots(&self.axes);
        let len = slots * line_len(&self.axes[2]);
        let divisors: [Vec<T::Acc>; 3] = std::array::from_fn(|d| {
            let a = &self.axes[d];
            (0..a.output).map(|o| T::Acc::of(self.divisor.part(a, o, d))).collect()
        });
        split(n * c, 0.3 * ns, &|r| {
            let mut tags = vec![0; slots];
            with_scratch(Slot::A, len * size_of::<T::Acc>(), |lines| {
                for i in r {
                    let (n, c) = (i / c, i % c);
                    let plane = Plane::<T> {
                        src: x.at(n, c, [0; 3]),
                        dst: y.at(n, c, [0; 3]),
                        indices: std::ptr::null_mut(),
                        x,
                        y,
                        index_strides: [0; 3],
                        axes: &self.axes,
                        divisors: Some(&divisors),
                        lines: lines.cast(),
                        tags: &mut tags,
                    };
                    dispatch(prim::isa(), plane);
                }
            })
        });
    }

    unsafe fn one_by_one<T: Stored>(&self, n: usize, c: usize) {
        let [ad, ah, aw] = self.axes;
        positions(self.y.spatial(), |_, at| {
            let (sd, sh, sw) = (ad.span(at[0]), ah.span(at[1]), aw.span(at[2]));
            let mut sum = T::Acc::ZERO;
            // Whole lines that follow each other are one run.
            let joined = sw.end - sw.start == aw.input && self.x.strides[3] == aw.input as isize * self.x.strides[4];
            let (lines, len) = match joined {
                true => (1, (sh.end - sh.start) * aw.input),
                false => (sh.end - sh.start, sw.end - sw.start),
            };
            for d in sd.start..sd.end {
                for h in sh.start..sh.start + lines {
                    let from = self.x.at::<T>(n, c, [d, h, sw.start]);
                    // SAFETY: spans lie in the image.
                    unsafe {
                        if self.x.strides[4] == 1 && len >= 16 {
                            sum = sum + dispatch(prim::isa(), RunSum { from, n: len });
                        } else {
                            (0..len).for_each(|w| sum = sum + (*from.offset(w as isize * self.x.strides[4])).widen());
                        }
                    }
                }
            }
            let mean = T::number(sum) / self.divisor.at(&self.axes, at);
            // SAFETY: the position lies in the image.
            unsafe { *self.y.at::<T>(n, c, at) = T::narrow(T::Acc::of(mean)) };
        });
    }
}

/// The sum of neighbours.
struct RunSum<T> {
    from: *const T,
    n: usize,
}

impl<T: Stored> WithSimd for RunSum<T> {
    type Output = T::Acc;
    #[inline(always)]
    fn run<S: Simd>(self) -> T::Acc {
        let width = Reg::<S, T>::WIDTH;
        let mut sums = [Reg::<S, T>::splat(0.0); 4];
        let whole = self.n / (4 * width) * (4 * width);
        // SAFETY: the caller's run.
        unsafe {
            for i in (0..whole).step_by(4 * width) {
                for (u, sum) in sums.iter_mut().enumerate() {
                    *sum = *sum + T::load::<S>(self.from.add(i + u * width));
                }
            }
            for i in (whole..self.n).step_by(width) {
                sums[0] = sums[0] + T::load_partial::<S>(self.from.add(i), width.min(self.n - i));
            }
        }
        ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum()
    }
}

/// One line of outputs, a register of channels at a time.
struct Channels<'a, T> {
    p: &'a AvgPool,
    n: usize,
    d: usize,
    h: usize,
    t: std::marker::PhantomData<T>,
}

impl<T: Stored> WithSimd for Channels<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (p, n) = (self.p, self.n);
        let [ad, ah, aw] = p.axes;
        let (sd, sh) = (ad.span(self.d), ah.span(self.h));
        let width = Reg::<S, T>::WIDTH;
        for o in 0..aw.output {
            let (sw, at) = (aw.span(o), [self.d, self.h, o]);
            let by = Reg::<S, T>::splat(p.divisor.at(&p.axes, at));
            for c in (0..p.y.sizes[1]).step_by(width) {
                let k = width.min(p.y.sizes[1] - c);
                let mut sum = Reg::<S, T>::splat(0.0);
                for d in sd.start..sd.end {
                    for h in sh.start..sh.end {
                        for w in sw.start..sw.end {
                            let from = p.x.at::<T>(n, c, [d, h, w]);
                            // SAFETY: `k` channels from `c` lie in the image.
                            sum = sum
                                + unsafe {
                                    match k == width {
                                        true => T::load::<S>(from),
                                        false => T::load_partial::<S>(from, k),
                                    }
                                };
                        }
                    }
                }
                let (mean, to) = (sum / by, p.y.at::<T>(n, c, at));
                // SAFETY: `k` channels from `c` lie in the image.
                unsafe {
                    match k == width {
                        true => T::store::<S>(mean, to),
                        false => T::store_partial::<S>(mean, to, k),
                    }
                }
            }
        }
    }
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let (g, gx) = (l.input(0)?, l.output(0)?);
    let spatial = l.param(0)?.usize();
    let gradient = Gradient { g: Image::new(&g, spatial)?, gx: Image::new(&gx, spatial)? };
    let axes = axes(l.params, 3, 3, &gradient.gx, &gradient.g, spatial)?;
    let divisor = Divisor::of(l)?;
    by_float!("avg_pool_backward", g.dtype, T => {
        // SAFETY: the views are valid by the launch's contract.
        unsafe { spread::<T>(&gradient, &axes, divisor) };
        Ok(())
    })
}

/// Every output's gradient, shared out over its window.
unsafe fn spread<T: Stored>(gradient: &Gradient, axes: &[Axis; 3], divisor: Divisor) {
    let ([ad, ah, aw], [od, oh, ow]) = (*axes, gradient.g.spatial());
    let ns = axes.iter().map(|a| a.most_taps() as f64).product::<f64>() * (od * oh * ow) as f64;
    let f = |n: usize, c: usize, sink: &mut Sink<T>| {
        let mut shares = vec![T::Acc::ZERO; ow];
        for (d, h) in (0..od).flat_map(|d| (0..oh).map(move |h| (d, h))) {
            let divisors: Vec<T::Acc> = (0..ow).map(|w| T::Acc::of(divisor.at(axes, [d, h, w]))).collect();
            let lines = (ad.span(d), ah.span(h));
            let line = Shares::<T> {
                from: gradient.g.at::<T>(n, c, [d, h, 0]),
                step: gradient.g.strides[4],
                divisors: &divisors,
                shares: &mut shares,
                sums: (lines.0.start..lines.0.end)
                    .flat_map(|d| (lines.1.start..lines.1.end).map(move |h| (d * ah.input + h) * aw.input))
                    .map(|p| sink.at(p).0)
                    .collect(),
                position: sink.at(0).1,
                channels: sink.channels,
                axis: &aw,
            };
            dispatch(prim::isa(), line);
        }
    };
    // SAFETY: by the caller.
    unsafe { gradient.run::<T>(ns, &f) };
}

/// One line of outputs: each one's share is added to every position of its window.
struct Shares<'a, T: Stored> {
    from: *const T,
    step: isize,
    divisors: &'a [T::Acc],
    shares: &'a mut [T::Acc],
    /// The lines that the windows see.
    sums: Vec<*mut T::Acc>,
    position: usize,
    channels: usize,
    axis: &'a Axis,
}

impl<T: Stored> WithSimd for Shares<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = Reg::<S, T>::WIDTH;
        let (axis, n) = (self.axis, self.divisors.len());
        // SAFETY: outputs, windows and channels lie in the images.
        unsafe {
            if self.channels > 1 {
                for w in 0..n {
                    let (by, span) = (Reg::<S, T>::all_of(self.divisors[w]), axis.span(w));
                    for c in (0..self.channels).step_by(width) {
                        let k = width.min(self.channels - c);
                        let share = T::load_partial::<S>(self.from.offset(w as isize * self.step).add(c), k) / by;
                        for line in &self.sums {
                            for i in span.start..span.end {
                                let to = line.add(i * self.position + c);
                                let sum = <Reg<S, T> as Register>::load_partial(to, k) + share;
                                sum.store_partial(to, k);
                            }
                        }
                    }
                }
                return;
            }
            for w in (0..n).step_by(width) {
                let k = width.min(n - w);
                let g = match self.step {
                    1 => T::load_partial::<S>(self.from.add(w), k),
                    step => T::gather::<S>(self.from.offset(w as isize * step), step, k),
                };
                let by = <Reg<S, T> as Register>::load_partial_or(self.divisors.as_ptr().add(w), k, g);
                (g / by).store_partial(self.shares.as_mut_ptr().add(w), k);
            }
            if axis.stride == 1 && axis.kernel > 0 && self.position == 1 {
                // Tap by tap, a run of neighbours at a time.
                let (input, padding) = (axis.input as isize, axis.padding);
                for tap in (padding - n as isize).max(0)..(input + padding).min(axis.kernel as isize) {
                    let first = (padding - tap).clamp(0, n as isize) as usize;
                    let end = (input + padding - tap).clamp(first as isize, n as isize) as usize;
                    let shift = tap - padding;
                    for line in &self.sums {
                        for w in (first..end).step_by(width) {
                            let k = width.min(end - w);
                            let to = line.offset(w as isize + shift);
                            let share = <Reg<S, T> as Register>::load_partial(self.shares.as_ptr().add(w), k);
                            (<Reg<S, T> as Register>::load_partial(to, k) + share).store_partial(to, k);
                        }
                    }
                }
                return;
            }
            for line in &self.sums {
                for (w, share) in self.shares.iter().enumerate() {
                    let span = axis.span(w);
                    for i in span.start..span.end {
                        let to = line.add(i * self.position);
                        *to = *to + *share;
                    }
                }
            }
        }
    }
}
