//! AVG_POOL.
//!
//! Channels side by side: a register of channels at a time. Planes: lines of positions. Adaptive windows of planes and
//! windows far wider than the image: one element at a time.

use crate::avg_pool_backward::Backward;
use crate::geometry::Image;
use crate::pool::{Axis, axes, by_channel, positions};
use crate::sliding_window::{Plane, line_len, n_slots};
use oneflow_base::{Result, by_float};
use oneflow_kernels_gemm::micro::{GemmFloat, Slot, with_scratch};
use oneflow_kernels_prim::rows::split;
use oneflow_kernels_prim::{
    self as prim, Acc, AvgPoolParams, Launch, MaxPoolAxis, Num, Reg, Register, Simd, WithSimd, dispatch,
};

struct AvgPool {
    x: Image,
    y: Image,
    axes: [Axis; 3],
    divisor: Divisor,
}

/// What the sum of a window is divided by.
#[derive(Clone, Copy)]
pub enum Divisor {
    Fixed(f64),
    WithPadding,
    Elements,
}

impl Divisor {
    fn of(params: &AvgPoolParams) -> Divisor {
        match (params.divisor, params.count_include_pad) {
            (0, true) => Divisor::WithPadding,
            (0, false) => Divisor::Elements,
            (n, _) => Divisor::Fixed(n as f64),
        }
    }

    /// One dimension's part of the number that a sum is divided by.
    pub fn part(self, axis: &Axis, o: usize, dim: usize) -> f64 {
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
    let params: AvgPoolParams = l.read()?;
    let spatial = params.axes.len();
    let (xi, yi) = (Image::new(&x, spatial)?, Image::new(&y, spatial)?);
    let axes = axes(params.axes.iter().map(MaxPoolAxis::from), &xi, &yi)?;
    if yi.numel() == 0 {
        return Ok(());
    }
    let pool = AvgPool { x: xi, y: yi, axes, divisor: Divisor::of(&params) };
    by_float!("avg_pool", x.dtype, T => {
        // SAFETY: the views are valid by the launch's contract.
        unsafe { pool.run::<T>() };
        Ok(())
    })
}

impl AvgPool {
    unsafe fn run<T: GemmFloat>(&self) {
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

    unsafe fn one_by_one<T: GemmFloat>(&self, n: usize, c: usize) {
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
                let from = self.x.at::<T>(n, c, [d, sh.start, sw.start]);
                let [down, step] = [self.x.strides[3], self.x.strides[4]];
                if step == 1 && len >= 8 {
                    sum = sum + dispatch(prim::isa(), RunSum { from, n: len, lines, down });
                    continue;
                }
                for h in 0..lines as isize {
                    // SAFETY: spans lie in the image.
                    (0..len as isize).for_each(|w| sum = sum + unsafe { (*from.offset(h * down + w * step)).widen() });
                }
            }
            let mean = sum.to_f64() / self.divisor.at(&self.axes, at);
            // SAFETY: the position lies in the image.
            unsafe { *self.y.at::<T>(n, c, at) = T::narrow(T::Acc::of(mean)) };
        });
    }
}

/// The sum of lines of neighbours.
struct RunSum<T> {
    from: *const T,
    n: usize,
    lines: usize,
    down: isize,
}

impl<T: GemmFloat> WithSimd for RunSum<T> {
    type Output = T::Acc;
    #[inline(always)]
    fn run<S: Simd>(self) -> T::Acc {
        let width = Reg::<S, T>::WIDTH;
        let mut sums = [Reg::<S, T>::splat(0.0); 4];
        let whole = self.n / (4 * width) * (4 * width);
        for line in 0..self.lines {
            let from = self.from.wrapping_offset(line as isize * self.down);
            // SAFETY: the caller's run.
            unsafe {
                for i in (0..whole).step_by(4 * width) {
                    for (u, sum) in sums.iter_mut().enumerate() {
                        *sum = *sum + T::load::<S>(from.add(i + u * width));
                    }
                }
                for i in (whole..self.n).step_by(width) {
                    sums[0] = sums[0] + T::load_n::<S>(from.add(i), width.min(self.n - i));
                }
            }
        }
        ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum()
    }
}

/// Registers of channels summed together.
const TOGETHER: usize = 4;

/// One line of outputs, channels side by side.
struct Channels<'a, T> {
    p: &'a AvgPool,
    n: usize,
    d: usize,
    h: usize,
    t: std::marker::PhantomData<T>,
}

impl<T: GemmFloat> WithSimd for Channels<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (p, n) = (self.p, self.n);
        let [ad, ah, aw] = p.axes;
        let (sd, sh) = (ad.span(self.d), ah.span(self.h));
        let width = Reg::<S, T>::WIDTH;
        let strides = &p.x.strides;
        for o in 0..aw.output {
            let (sw, at) = (aw.span(o), [self.d, self.h, o]);
            let by = Reg::<S, T>::splat(p.divisor.at(&p.axes, at));
            let (first, to) = (p.x.at::<T>(n, 0, [sd.start, sh.start, sw.start]), p.y.at::<T>(n, 0, at));
            // Channels of some cache lines at a time, position by position.
            for c in (0..p.y.sizes[1]).step_by(TOGETHER * width) {
                let k = (TOGETHER * width).min(p.y.sizes[1] - c);
                let mut sums = [Reg::<S, T>::splat(0.0); TOGETHER];
                for d in 0..(sd.end - sd.start) as isize {
                    for h in 0..(sh.end - sh.start) as isize {
                        let line = first.wrapping_offset(d * strides[2] + h * strides[3]).wrapping_add(c);
                        for w in 0..(sw.end - sw.start) as isize {
                            // SAFETY: `k` channels from `c` lie in the image.
                            unsafe {
                                let from = line.offset(w * strides[4]);
                                if k == TOGETHER * width {
                                    for (u, sum) in sums.iter_mut().enumerate() {
                                        *sum = *sum + T::load::<S>(from.add(u * width));
                                    }
                                } else {
                                    for (u, i) in (0..k).step_by(width).enumerate() {
                                        sums[u] = sums[u] + T::load_n::<S>(from.add(i), width.min(k - i));
                                    }
                                }
                            }
                        }
                    }
                }
                for (sum, i) in sums.into_iter().zip((0..k).step_by(width)) {
                    // SAFETY: `k` channels from `c` lie in the image.
                    unsafe { T::store_n::<S>(sum / by, to.add(c + i), width.min(k - i)) };
                }
            }
        }
    }
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let (g, gx) = (l.input(0)?, l.output(0)?);
    let params: AvgPoolParams = l.read()?;
    let spatial = params.axes.len();
    let (gi, gxi) = (Image::new(&g, spatial)?, Image::new(&gx, spatial)?);
    let axes = axes(params.axes.iter().map(MaxPoolAxis::from), &gxi, &gi)?;
    let backward = Backward { g: gi, gx: gxi, axes, divisor: Divisor::of(&params) };
    by_float!("avg_pool_backward", g.dtype, T => {
        // SAFETY: the views are valid by the launch's contract.
        unsafe { backward.run::<T>() };
        Ok(())
    })
}
