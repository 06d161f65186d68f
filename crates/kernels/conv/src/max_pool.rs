//! MAX_POOL and its backward.
//!
//! Channels side by side: a register of channels at a time. Planes: lines of positions. Adaptive windows of planes,
//! windows far wider than the image and integers: one element at a time.

use crate::geometry::Image;
use crate::pool::{Axis, axes, by_channel, positions};
use crate::pool_backward::{Gradient, Sink};
use crate::sliding_window::{Plane, line_len, n_slots};
use oneflow_base::{DType, Error, Result, by_float};
use oneflow_kernels_gemm::micro::{GemmFloat, Slot, with_scratch};
use oneflow_kernels_prim::rows::split;
use oneflow_kernels_prim::{
    self as prim, Acc, Float, Launch, MaxPoolParams, Num, Reg, Register, Simd, WithSimd, dispatch,
};

struct MaxPool {
    x: Image,
    y: Image,
    indices: Option<Image>,
    axes: [Axis; 3],
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let (x, y) = (l.input(0)?, l.output(0)?);
    let params: MaxPoolParams = l.read()?;
    let spatial = params.axes.len();
    let (xi, yi) = (Image::new(&x, spatial)?, Image::new(&y, spatial)?);
    let indices = l.opt_output(1).map(|v| Image::new(&v, spatial)).transpose()?;
    let axes = axes(params.axes.iter().cloned(), &xi, &yi)?;
    if yi.numel() == 0 {
        return Ok(());
    }
    let pool = MaxPool { x: xi, y: yi, indices, axes };
    // SAFETY: the views are valid by the launch's contract.
    unsafe {
        match x.dtype {
            DType::I64 => pool.one_by_one::<i64>(i64::MIN, |v, best| v > best),
            DType::I32 => pool.one_by_one::<i32>(i32::MIN, |v, best| v > best),
            DType::I16 => pool.one_by_one::<i16>(i16::MIN, |v, best| v > best),
            DType::I8 => pool.one_by_one::<i8>(i8::MIN, |v, best| v > best),
            DType::U8 => pool.one_by_one::<u8>(0, |v, best| v > best),
            _ => {
                return by_float!("max_pool", x.dtype, T => {
                    pool.floats::<T>();
                    Ok(())
                });
            }
        }
    }
    Ok(())
}

impl MaxPool {
    fn work_ns(&self) -> f64 {
        self.axes.iter().map(|a| a.most_taps() as f64).product()
    }

    /// The index image's place of an element; null where nobody asks.
    fn index_at(&self, n: usize, c: usize, at: [usize; 3]) -> *mut i64 {
        self.indices.map_or(std::ptr::null_mut(), |i| i.at::<i64>(n, c, at))
    }

    unsafe fn floats<T: GemmFloat>(&self) {
        let (x, y) = (&self.x, &self.y);
        let [od, oh, ow] = y.spatial();
        let (n, c) = (y.sizes[0], y.sizes[1]);
        // Taps or places in a plane are kept in a float beside the maxima.
        let exactly = |n: f64| n < (1 << 24) as f64;
        if by_channel(&[x, y]) && exactly(x.spatial().iter().map(|n| *n as f64).product()) {
            let ns = 0.2 * self.work_ns() * (ow * c) as f64;
            return split(n * od * oh, ns, &|r| {
                for i in r {
                    let line =
                        Channels::<T> { p: self, n: i / (od * oh), d: i / oh % od, h: i % oh, t: Default::default() };
                    dispatch(prim::isa(), line);
                }
            });
        }
        let by_line = self.axes.iter().all(|a| a.kernel > 0 && !a.is_far()) && exactly(self.work_ns());
        if !by_line {
            // SAFETY: by the caller.
            return unsafe {
                self.one_by_one::<T>(T::narrow(Acc::of(f64::NEG_INFINITY)), |v, best| {
                    let (v, best) = (v.widen().to_f64(), best.widen().to_f64());
                    v > best || v.is_nan()
                })
            };
        }
        let slots = n_slots(&self.axes);
        let len = slots * line_len(&self.axes[2]);
        split(n * c, 0.3 * self.work_ns() * (od * oh * ow) as f64, &|r| {
            let mut tags = vec![0; slots];
            with_scratch(Slot::A, len * size_of::<T::Acc>(), |lines| {
                for i in r {
                    let (n, c) = (i / c, i % c);
                    let strides = self.indices.map_or([0; 3], |i| [i.strides[2], i.strides[3], i.strides[4]]);
                    let plane = Plane::<T> {
                        src: x.at(n, c, [0; 3]),
                        dst: y.at(n, c, [0; 3]),
                        indices: self.index_at(n, c, [0; 3]),
                        x,
                        y,
                        index_strides: strides,
                        axes: &self.axes,
                        divisors: None,
                        lines: lines.cast(),
                        tags: &mut tags,
                    };
                    dispatch(prim::isa(), plane);
                }
            })
        });
    }

    unsafe fn one_by_one<T: Copy + Send + Sync>(&self, least: T, better: impl Fn(T, T) -> bool + Sync) {
        let (x, y, [ad, ah, aw]) = (&self.x, &self.y, self.axes);
        let (spatial, channels) = (y.spatial(), y.sizes[1]);
        let per_plane = spatial.iter().product::<usize>() as f64;
        split(y.sizes[0] * channels, 1.5 * self.work_ns() * per_plane, &|r| {
            for i in r {
                let (n, c) = (i / channels, i % channels);
                positions(spatial, |_, at| {
                    let (sd, sh, sw) = (ad.span(at[0]), ah.span(at[1]), aw.span(at[2]));
                    let mut best = least;
                    let mut index = (sd.start * ah.input + sh.start) * aw.input + sw.start;
                    for d in (sd.start..sd.end).step_by(ad.dilation) {
                        for h in (sh.start..sh.end).step_by(ah.dilation) {
                            for w in (sw.start..sw.end).step_by(aw.dilation) {
                                // SAFETY: spans lie in the image.
                                let v = unsafe { *x.at::<T>(n, c, [d, h, w]) };
                                if better(v, best) {
                                    (best, index) = (v, (d * ah.input + h) * aw.input + w);
                                }
                            }
                        }
                    }
                    // SAFETY: the position lies in the images.
                    unsafe {
                        *y.at::<T>(n, c, at) = best;
                        let to = self.index_at(n, c, at);
                        if !to.is_null() {
                            *to = index as i64;
                        }
                    }
                });
            }
        });
    }
}

/// Registers of channels compared together.
const TOGETHER: usize = 4;

/// One line of outputs, channels side by side.
struct Channels<'a, T> {
    p: &'a MaxPool,
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
        let (strides, channels) = (&p.x.strides, p.y.sizes[1]);
        // Taps of the window that lie in the image: where they read, and their place in the plane.
        let mut taps: Vec<(isize, T::Acc)> = Vec::new();
        for o in 0..aw.output {
            let sw = aw.span(o);
            let place = |d: usize, h: usize, w: usize| T::Acc::of(((d * ah.input + h) * aw.input + w) as f64);
            taps.clear();
            for d in (sd.start..sd.end).step_by(ad.dilation) {
                for h in (sh.start..sh.end).step_by(ah.dilation) {
                    let line = d as isize * strides[2] + h as isize * strides[3];
                    let tap = |w: usize| (line + w as isize * strides[4], place(d, h, w));
                    taps.extend((sw.start..sw.end).step_by(aw.dilation).map(tap));
                }
            }
            // A window beyond the image has no tap.
            let first = Reg::<S, T>::all_of(place(sd.start, sh.start, sw.start));
            let at = [self.d, self.h, o];
            let (from, to) = (p.x.at::<T>(n, 0, [0; 3]).cast_const(), p.y.at::<T>(n, 0, at));
            let index = p.index_at(n, 0, at);
            let step = p.indices.map_or(0, |i| i.strides[1]);
            for c in (0..channels).step_by(TOGETHER * width) {
                let k = (TOGETHER * width).min(channels - c);
                let mut best = [Reg::<S, T>::splat(f64::NEG_INFINITY); TOGETHER];
                let mut best_at = [first; TOGETHER];
                for (offset, place) in &taps {
                    let place = Reg::<S, T>::all_of(*place);
                    for u in 0..TOGETHER {
                        let m = width.min(k.saturating_sub(u * width));
                        if m == 0 {
                            break;
                        }
                        // SAFETY: `k` channels from `c` lie in the image.
                        let v = unsafe { T::load_n::<S>(from.offset(*offset).add(c + u * width), m) };
                        let better = v.gt(best[u]) | v.is_nan();
                        best[u] = Num::select(better, v, best[u]);
                        best_at[u] = Num::select(better, place, best_at[u]);
                    }
                }
                for (u, i) in (0..k).step_by(width).enumerate() {
                    let m = width.min(k - i);
                    // SAFETY: `k` channels from `c` lie in the images; places are whole numbers of a plane.
                    unsafe {
                        T::store_n::<S>(best[u], to.add(c + i), m);
                        if index.is_null() {
                            continue;
                        }
                        let mut places = [T::Acc::default(); 16];
                        best_at[u].store(places.as_mut_ptr());
                        let place = |i: usize| places[i].to_f64().to_int_unchecked::<i32>() as i64;
                        let index = index.offset((c + i) as isize * step);
                        match step {
                            1 if m == width => (0..width).for_each(|i| *index.add(i) = place(i)),
                            step => (0..m).for_each(|i| *index.offset(i as isize * step) = place(i)),
                        }
                    }
                }
            }
        }
    }
}

/// # Safety
/// The contract of `prim::KernelFn`.
pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let (g, index, gx) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let spatial = g.ndim().checked_sub(2).ok_or_else(|| Error::runtime("max_pool_backward: no image"))?;
    let indices = Image::new(&index, spatial)?;
    let gradient = Gradient { g: Image::new(&g, spatial)?, gx: Image::new(&gx, spatial)? };
    let plane: usize = gradient.gx.spatial().iter().product();
    let outputs = gradient.g.spatial();
    // SAFETY: the views are valid by the launch's contract; an index beyond the plane is skipped.
    by_float!("max_pool_backward", g.dtype, T => unsafe {
        gradient.run::<T>(2.0 * outputs.iter().product::<usize>() as f64, &|n, c, sink: &mut Sink<T>| {
            let ([is, gs], [od, oh, ow]) = ([indices.strides, gradient.g.strides], outputs);
            for (d, h) in (0..od).flat_map(|d| (0..oh).map(move |h| (d, h))) {
                let index = indices.at::<i64>(n, c, [d, h, 0]).cast_const();
                let g = gradient.g.at::<T>(n, c, [d, h, 0]).cast_const();
                for w in 0..ow as isize {
                    for i in 0..sink.channels {
                        let to = *index.offset(w * is[4] + i as isize * is[1]) as usize;
                        if to < plane {
                            sink.add(to, i, (*g.offset(w * gs[4] + i as isize * gs[1])).widen());
                        }
                    }
                }
            }
        });
        Ok(())
    })
}
