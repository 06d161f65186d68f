//! CROSS_ENTROPY, summed or not, and its backward over rows of logits; the probabilities exist in registers only.

use crate::mem::{Run, STREAM_BYTES, aligned, by_register, fence, greatest, total, with_scratch};
use crate::row::Row;
use oneflow_base::{DType, Error, Result, by_float};
use oneflow_kernels_prim::rows::{Shared, split};
use oneflow_kernels_prim::{
    Acc, CrossEntropyParams, CrossEntropyReducedParams, Float, Lanes, Launch, Num, Reg, Register, Simd, View, WithSimd,
    dispatch, isa,
};

/// Logits a chunk: they stay in the first cache between its maximum and its sum.
const CHUNK: usize = 4096;

/// Class indices, checked.
struct Targets<'a> {
    view: View<'a>,
    ignore: i64,
}

impl<'a> Targets<'a> {
    fn new(view: View<'a>, ignore: i64, classes: i64) -> Result<Self> {
        if view.dtype != DType::I64 {
            return Err(Error::runtime(format!(
                "cross_entropy: expected a target of dtype int64 but found {}",
                view.dtype
            )));
        }
        let t = Targets { view, ignore };
        for i in 0..view.numel() {
            // SAFETY: i is below the number of targets.
            if let Some(c) = unsafe { t.get(i) }
                && (c as u64) >= classes as u64
            {
                return Err(Error::index(format!("Target {c} is out of bounds.")));
            }
        }
        Ok(t)
    }

    /// The class of row `i`; none where it is ignored.
    unsafe fn get(&self, i: usize) -> Option<i64> {
        // SAFETY: i is a row by the caller.
        let c = unsafe { *self.view.ptr.cast::<i64>().offset(i as isize * step(&self.view)) };
        (c != self.ignore).then_some(c)
    }
}

/// The stride of a 1-D view (any of a 0-dim one).
fn step(v: &View) -> isize {
    v.strides.first().map_or(0, |s| *s as isize)
}

// SAFETY: the view is only read.
unsafe impl Sync for Targets<'_> {}

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let (x, loss) = (l.input(0)?, l.output(0)?);
    let down = step(&loss);
    by_float!("cross_entropy", x.dtype, T => {
        let loss = Shared::<T>::new(loss.ptr);
        // SAFETY: the views are valid by the launch's contract; each row has its own loss.
        unsafe { rows::<T>(l, &x, &l.read()?, &|i, v, _| *loss.at(i as isize * down) = T::narrow(v)) }
    })
}

pub unsafe fn forward_reduced(l: &Launch<'_>) -> Result<()> {
    let x = l.input(0)?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("cross_entropy", x.dtype, T => unsafe { summed::<T>(l, &x) })
}

/// The rows' losses, then their sum in order: the same for any number of threads.
unsafe fn summed<T: Float>(l: &Launch<'_>, x: &View) -> Result<()> {
    let (n, loss, total) = (x.sizes[0] as usize, l.output(0)?, l.output(2)?);
    let CrossEntropyReducedParams { rows: params, mean } = l.read()?;
    with_scratch(n * size_of::<[T::Acc; 2]>(), |scratch| {
        let each = Shared::<[T::Acc; 2]>::new(scratch);
        // SAFETY: each row has its own place; afterwards all places are written.
        unsafe {
            rows::<T>(l, x, &params, &|i, v, w| *each.at(i as isize) = [v, w])?;
            let (mut sum, mut weight) = (0.0, 0.0);
            for i in 0..n as isize {
                let [v, w] = *each.at(i);
                (sum, weight) = (sum + v.to_f64(), weight + w.to_f64());
            }
            *loss.ptr.cast::<T>() = T::narrow(T::Acc::of(if mean { sum / weight } else { sum }));
            *total.ptr.cast::<T::Acc>() = T::Acc::of(weight);
        }
        Ok(())
    })
}

/// What smoothing adds: weight of the target's term, weight of every class' term, sum of the class weights.
struct Smoothing<A> {
    target: A,
    class: A,
    sum: A,
}

impl<A: Acc> Smoothing<A> {
    fn new(s: f64, classes: usize, weight: *const A) -> Self {
        let of_class = |c: usize| match weight.is_null() {
            true => 1.0,
            // SAFETY: a weight holds one number a class.
            false => unsafe { *weight.add(c) }.to_f64(),
        };
        let sum = if s == 0.0 { 0.0 } else { (0..classes).map(of_class).sum() };
        Smoothing { target: A::of(1.0 - s), class: A::of(s / classes as f64), sum: A::of(sum) }
    }
}

/// Calls `put` with each row's position, loss and weight (zero both where the row is ignored).
unsafe fn rows<T: Float>(
    l: &Launch<'_>,
    x: &View,
    params: &CrossEntropyParams,
    put: &(dyn Fn(usize, T::Acc, T::Acc) + Sync),
) -> Result<()> {
    let (rows, c) = (x.sizes[0] as usize, x.sizes[1] as usize);
    let (lse, smooth) = (l.output(1)?, params.label_smoothing);
    let targets = Targets::new(l.input(1)?, params.ignore_index, c as i64)?;
    // SAFETY: the view outlives the launch.
    let weight = unsafe { Run::<T::Acc>::new(l.opt_input(2))? };
    let s = Smoothing::new(smooth, c, weight.ptr());
    let w = Shared::<T::Acc>::new(weight.ptr() as *mut u8);
    let (row, down, lse_step) = (Row::along(x, 1), x.strides[0] as isize, step(&lse));
    let (x, lse, isa) = (Shared::<T>::new(x.ptr), Shared::<T::Acc>::new(lse.ptr), isa());
    let zero = T::Acc::splat(0.0);
    split(rows, 0.3 * c as f64 + 30.0, &|r| {
        with_scratch(row.scratch() * size_of::<T>(), |scratch| {
            for i in r {
                // SAFETY: i is a row; the targets are classes.
                unsafe {
                    let lse = lse.at(i as isize * lse_step);
                    let Some(t) = targets.get(i) else {
                        *lse = zero;
                        put(i, zero, zero);
                        continue;
                    };
                    let x = row.read(x.at(i as isize * down), scratch.cast());
                    let wt = if w.at(0).is_null() { T::Acc::splat(1.0) } else { *w.at(t as isize) };
                    let (top, rest) = dispatch(isa, LogSumExp { x, n: c });
                    *lse = top + rest;
                    // Far from zero the difference to the greatest logit keeps the digits that `lse` rounds away.
                    let mut v = s.target * wt * (rest - ((*x.add(t as usize)).widen() - top));
                    if smooth != 0.0 {
                        v = v + s.class * (s.sum * *lse - dispatch(isa, WeightedSum { x, w: w.at(0), n: c }));
                    }
                    put(i, v, wt);
                }
            }
        })
    });
    Ok(())
}

struct LogSumExp<T> {
    x: *const T,
    n: usize,
}

impl<T: Float> WithSimd for LogSumExp<T> {
    /// The greatest element, and the logarithm of the sum of exponentials relative to it.
    type Output = (T::Acc, T::Acc);
    #[inline(always)]
    fn run<S: Simd>(self) -> Self::Output {
        let least = T::Acc::splat(f64::NEG_INFINITY);
        let (mut max, mut sum, mut from) = (least, T::Acc::splat(0.0), 0);
        while from < self.n {
            let len = CHUNK.min(self.n - from);
            // SAFETY: the chunk lies inside the row.
            unsafe {
                let x = self.x.add(from);
                let mut acc = [Reg::<S, T>::splat(f64::NEG_INFINITY); 4];
                by_register!(Reg<S, T>, len, |i, k, u| {
                    acc[u] = acc[u].maximum(T::load_least::<S>(x.add(i), k));
                });
                let m = greatest(acc);
                // NaN stays.
                if m > max || m.to_f64().is_nan() {
                    sum = if max == least { sum } else { sum * (max - m).exp() };
                    max = m;
                }
                // Only minus infinities so far: nothing to add, and no infinity minus infinity.
                if max != least {
                    let m = Reg::<S, T>::all_of(max);
                    let mut acc = [Reg::<S, T>::splat(0.0); 4];
                    by_register!(Reg<S, T>, len, |i, k, u| {
                        acc[u] = acc[u] + (T::load_least::<S>(x.add(i), k) - m).exp();
                    });
                    sum = sum + total(acc);
                }
            }
            from += len;
        }
        (max, sum.log())
    }
}

/// Sum of `w x`; `w` may be null.
struct WeightedSum<T: Float> {
    x: *const T,
    w: *const T::Acc,
    n: usize,
}

impl<T: Float> WithSimd for WeightedSum<T> {
    type Output = T::Acc;
    #[inline(always)]
    fn run<S: Simd>(self) -> T::Acc {
        let mut acc = [Reg::<S, T>::splat(0.0); 4];
        // SAFETY: the row and the weight hold n elements.
        unsafe {
            by_register!(Reg<S, T>, self.n, |i, k, u| {
                let mut v = T::load_n::<S>(self.x.add(i), k);
                if !self.w.is_null() {
                    v = v * Reg::<S, T>::load_n(self.w.add(i), k);
                }
                acc[u] = acc[u] + v;
            });
        }
        total(acc)
    }
}

pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let x = l.input(1)?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("cross_entropy_backward", x.dtype, T => unsafe { rows_backward::<T>(l, &x) })
}

unsafe fn rows_backward<T: Float>(l: &Launch<'_>, x: &View) -> Result<()> {
    let (rows, c) = (x.sizes[0] as usize, x.sizes[1] as usize);
    let (g, lse, gx) = (l.input(0)?, l.input(4)?, l.output(0)?);
    let CrossEntropyParams { ignore_index, label_smoothing: smooth } = l.read()?;
    let targets = Targets::new(l.input(2)?, ignore_index, c as i64)?;
    // SAFETY: the view outlives the launch.
    let weight = unsafe { Run::<T::Acc>::new(l.opt_input(3))? };
    let s = Smoothing::new(smooth, c, weight.ptr());
    let w = Shared::<T::Acc>::new(weight.ptr() as *mut u8);
    let (g_step, lse_step, x_step, gx_step) = (step(&g), step(&lse), x.strides[0] as isize, gx.strides[0] as isize);
    let (xr, or, isa) = (Row::along(x, 1), Row::along(&gx, 1), isa());
    let (g, lse) = (Shared::<T>::new(g.ptr), Shared::<T::Acc>::new(lse.ptr));
    let (x, gx) = (Shared::<T>::new(x.ptr), Shared::<T>::new(gx.ptr));
    let bytes = (xr.scratch() + or.scratch()) * size_of::<T>();
    let (smoothed, stream) = (smooth != 0.0, rows * c * size_of::<T>() >= STREAM_BYTES);
    split(rows, 0.3 * c as f64 + 30.0, &|r| {
        with_scratch(bytes, |scratch| {
            let (xs, os) = (scratch.cast::<T>(), scratch.cast::<T>().wrapping_add(xr.scratch()));
            for i in r.map(|i| i as isize) {
                // SAFETY: i is a row; the targets are classes; scratch has room for both parts.
                unsafe {
                    let op = gx.at(i * gx_step);
                    let out = or.place(op, os);
                    if let Some(t) = targets.get(i as usize) {
                        let x = xr.read(x.at(i * x_step), xs);
                        let (g, lse) = ((*g.at(i * g_step)).widen(), *lse.at(i * lse_step));
                        let wt = if w.at(0).is_null() { T::Acc::splat(1.0) } else { *w.at(t as isize) };
                        let hit = g * s.target * wt;
                        let (a, even) = match smoothed {
                            true => (hit + g * s.class * s.sum, g * s.class),
                            false => (hit, T::Acc::splat(0.0)),
                        };
                        let at_t = (*x.add(t as usize)).widen();
                        dispatch(isa, Backward { x, gx: out, w: w.at(0), n: c, lse, a, even, smoothed, stream });
                        if stream {
                            // The target's gradient below must not be overtaken.
                            fence();
                        }
                        *out.add(t as usize) = T::narrow(a * (at_t - lse).exp() - even * wt - hit);
                    } else {
                        out.write_bytes(0, c);
                    }
                    or.finish(op, os);
                }
            }
        })
    });
    Ok(())
}

/// `gx = a exp(x - lse) - even w`; the target's own term is the caller's.
struct Backward<T: Float> {
    x: *const T,
    gx: *mut T,
    w: *const T::Acc,
    n: usize,
    lse: T::Acc,
    a: T::Acc,
    even: T::Acc,
    smoothed: bool,
    stream: bool,
}

impl<T: Float> WithSimd for Backward<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Backward { x, gx, w, n, lse, a, even, smoothed, stream } = self;
        let (lse, a, even) = (Reg::<S, T>::all_of(lse), Reg::<S, T>::all_of(a), Reg::<S, T>::all_of(even));
        // SAFETY: rows and the weight hold n elements.
        unsafe {
            if stream && !smoothed && aligned(gx) && n.is_multiple_of(Reg::<S, T>::WIDTH) {
                by_register!(Reg<S, T>, n, |i, k, _u| {
                    T::stream::<S>(a * (T::load_n::<S>(x.add(i), k) - lse).exp(), gx.add(i));
                });
                return;
            }
            by_register!(Reg<S, T>, n, |i, k, _u| {
                let mut v = a * (T::load_n::<S>(x.add(i), k) - lse).exp();
                if smoothed {
                    v = v - if w.is_null() { even } else { even * Reg::<S, T>::load_n(w.add(i), k) };
                }
                T::store_n::<S>(v, gx.add(i), k);
            });
        }
    }
}
