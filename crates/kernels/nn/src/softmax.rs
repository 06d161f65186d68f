//! SOFTMAX and its backward, plain and logarithmic, one row at a time.
//!
//! A row of only minus infinities gives NaN, as in torch.

use crate::mem::{STREAM_BYTES, aligned, by_register, fence, greatest, total, with_scratch};
use crate::row::Row;
use oneflow_base::{Result, by_float};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{
    Float, Lanes, Launch, Num, Reg, Register, Simd, SoftmaxParams, View, WithSimd, dispatch, isa,
};

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let (x, y, SoftmaxParams { dim, log }) = (l.input(0)?, l.output(0)?, l.read()?);
    // SAFETY: the views are valid by the launch's contract.
    by_float!("softmax", x.dtype, T => { unsafe { rows::<T>(&x, &y, dim, log) }; Ok(()) })
}

/// The other dimensions of tensors of equal sizes.
fn outer<const K: usize>(views: [&View; K], dim: usize) -> Grid<K> {
    Grid::without(views[0].sizes, views.map(|v| v.strides), dim)
}

unsafe fn rows<T: Float>(x: &View, y: &View, dim: usize, log: bool) {
    let (outer, xr, yr) = (outer([x, y], dim), Row::along(x, dim), Row::along(y, dim));
    let n = xr.len();
    if n == 0 {
        return;
    }
    if in_lanes(&outer, [&xr, &yr]) {
        // SAFETY: by this function's contract.
        return unsafe { columns::<T>(outer, x, y, dim, log) };
    }
    let stream = outer.len() * n * size_of::<T>() >= STREAM_BYTES;
    let (x, y, isa) = (Shared::<T>::new(x.ptr), Shared::<T>::new(y.ptr), isa());
    let bytes = n * size_of::<T::Acc>() + (xr.scratch() + yr.scratch()) * size_of::<T>();
    split(outer.len(), 0.3 * n as f64 + 10.0, &|r| {
        with_scratch(bytes, |scratch| {
            outer.each(r, |_, off| {
                let tmp = scratch.cast::<T::Acc>();
                let (xs, ys) =
                    (tmp.wrapping_add(n).cast::<T>(), tmp.wrapping_add(n).cast::<T>().wrapping_add(xr.scratch()));
                let (xp, yp) = (x.at(off[0]), y.at(off[1]));
                // SAFETY: the offsets are those of rows; the scratch has room for the three parts.
                unsafe {
                    let k = Forward::<T> { x: xr.read(xp, xs), y: yr.place(yp, ys), tmp, n, log, stream };
                    dispatch(isa, k);
                    yr.finish(yp, ys);
                }
            });
            if stream {
                fence();
            }
        })
    });
}

struct Forward<T: Float> {
    x: *const T,
    y: *mut T,
    /// Room for the row in the compute dtype.
    tmp: *mut T::Acc,
    n: usize,
    log: bool,
    stream: bool,
}

impl<T: Float> WithSimd for Forward<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Forward { x, y, tmp, n, log, stream } = self;
        // SAFETY: rows and scratch hold n elements.
        unsafe {
            let mut acc = [Reg::<S, T>::splat(f64::NEG_INFINITY); 4];
            by_register!(Reg<S, T>, n, |i, k, u| {
                acc[u] = acc[u].maximum(T::load_least::<S>(x.add(i), k));
            });
            let max = Reg::<S, T>::all_of(greatest(acc));
            let mut acc = [Reg::<S, T>::splat(0.0); 4];
            if log {
                by_register!(Reg<S, T>, n, |i, k, u| {
                    acc[u] = acc[u] + (T::load_least::<S>(x.add(i), k) - max).exp();
                });
                let ln = Reg::<S, T>::all_of(total(acc).log());
                by_register!(Reg<S, T>, n, |i, k, _u| {
                    T::store_n::<S>(T::load_n::<S>(x.add(i), k) - max - ln, y.add(i), k);
                });
                return;
            }
            by_register!(Reg<S, T>, n, |i, k, u| {
                let e = (T::load_least::<S>(x.add(i), k) - max).exp();
                e.store_n(tmp.add(i), k);
                acc[u] = acc[u] + e;
            });
            let scale = Reg::<S, T>::all_of(T::Acc::splat(1.0) / total(acc));
            if stream && aligned(y) && n.is_multiple_of(Reg::<S, T>::WIDTH) {
                by_register!(Reg<S, T>, n, |i, k, _u| {
                    T::stream::<S>(Reg::<S, T>::load_n(tmp.add(i), k) * scale, y.add(i));
                });
                return;
            }
            by_register!(Reg<S, T>, n, |i, k, _u| {
                T::store_n::<S>(Reg::<S, T>::load_n(tmp.add(i), k) * scale, y.add(i), k);
            });
        }
    }
}

/// Whether to work on neighbouring rows at once: the rows are strided, and their elements lie side by side.
fn in_lanes<const K: usize>(outer: &Grid<K>, rows: [&Row; K]) -> bool {
    let (m, steps) = outer.inner();
    m > 1 && steps == [1; K] && rows.iter().any(|r| r.scratch() > 0)
}

/// Rows side by side that a kernel takes at once.
const LANES: usize = 16;

/// Stride of a dimension (any of a 0-dim tensor).
fn stride(v: &View, dim: usize) -> isize {
    v.strides.get(dim).map_or(0, |s| *s as isize)
}

unsafe fn columns<T: Float>(mut outer: Grid<2>, x: &View, y: &View, dim: usize, log: bool) {
    let (m, _) = outer.pop_inner();
    let (n, steps, blocks) = (x.sizes[dim] as usize, [stride(x, dim), stride(y, dim)], m.div_ceil(LANES));
    let (x, y, isa) = (Shared::<T>::new(x.ptr), Shared::<T>::new(y.ptr), isa());
    split(outer.len() * blocks, 0.4 * (n * m.min(LANES)) as f64, &|r| {
        with_scratch(n * LANES * size_of::<T::Acc>(), |scratch| {
            for u in r {
                let (row, from) = (u / blocks, u % blocks * LANES);
                outer.each(row..row + 1, |_, off| {
                    let (x, y) = (x.at(off[0] + from as isize), y.at(off[1] + from as isize));
                    dispatch(isa, Columns { x, y, tmp: scratch.cast(), steps, n, lanes: LANES.min(m - from), log });
                });
            }
        })
    });
}

/// The forward kernel on `lanes` rows side by side.
struct Columns<T: Float> {
    x: *const T,
    y: *mut T,
    /// Room for n registers.
    tmp: *mut T::Acc,
    steps: [isize; 2],
    n: usize,
    lanes: usize,
    log: bool,
}

impl<T: Float> WithSimd for Columns<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Columns { tmp, steps: [xs, ys], n, lanes, log, .. } = self;
        let width = Reg::<S, T>::WIDTH;
        let mut from = 0;
        while from < lanes {
            let k = width.min(lanes - from);
            // SAFETY: k lanes of n rows lie in both tensors; the scratch holds n registers.
            unsafe {
                let (x, y) = (self.x.add(from), self.y.add(from));
                let mut max = Reg::<S, T>::splat(f64::NEG_INFINITY);
                for i in 0..n {
                    max = max.maximum(T::load_n::<S>(x.offset(i as isize * xs), k));
                }
                let mut sum = Reg::<S, T>::splat(0.0);
                for i in 0..n {
                    let e = (T::load_n::<S>(x.offset(i as isize * xs), k) - max).exp();
                    e.store(tmp.add(i * width));
                    sum = sum + e;
                }
                let (ln, scale) = (sum.log(), Reg::<S, T>::splat(1.0) / sum);
                for i in 0..n {
                    let v = match log {
                        true => T::load_n::<S>(x.offset(i as isize * xs), k) - max - ln,
                        false => Reg::<S, T>::load(tmp.add(i * width)) * scale,
                    };
                    T::store_n::<S>(v, y.offset(i as isize * ys), k);
                }
            }
            from += k;
        }
    }
}

pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let (g, y, gx) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let SoftmaxParams { dim, log } = l.read()?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("softmax_backward", y.dtype, T => { unsafe { rows_backward::<T>(&g, &y, &gx, dim, log) }; Ok(()) })
}

unsafe fn rows_backward<T: Float>(g: &View, y: &View, gx: &View, dim: usize, log: bool) {
    let outer = outer([g, y, gx], dim);
    let (gr, yr, xr) = (Row::along(g, dim), Row::along(y, dim), Row::along(gx, dim));
    let n = yr.len();
    if in_lanes(&outer, [&gr, &yr, &xr]) {
        // SAFETY: by this function's contract.
        return unsafe { columns_backward::<T>(outer, [g, y, gx], dim, log) };
    }
    let stream = outer.len() * n * size_of::<T>() >= STREAM_BYTES;
    let (g, y, gx, isa) = (Shared::<T>::new(g.ptr), Shared::<T>::new(y.ptr), Shared::<T>::new(gx.ptr), isa());
    let bytes = (gr.scratch() + yr.scratch() + xr.scratch()) * size_of::<T>();
    split(outer.len(), 0.3 * n as f64 + 10.0, &|r| {
        with_scratch(bytes, |scratch| {
            outer.each(r, |_, off| {
                let gs = scratch.cast::<T>();
                let ys = gs.wrapping_add(gr.scratch());
                let xs = ys.wrapping_add(yr.scratch());
                let (gp, yp, xp) = (g.at(off[0]), y.at(off[1]), gx.at(off[2]));
                // SAFETY: the offsets are those of rows; the scratch has room for the three parts.
                unsafe {
                    let k =
                        Backward::<T> { g: gr.read(gp, gs), y: yr.read(yp, ys), gx: xr.place(xp, xs), n, log, stream };
                    dispatch(isa, k);
                    xr.finish(xp, xs);
                }
            });
            if stream {
                fence();
            }
        })
    });
}

unsafe fn columns_backward<T: Float>(mut outer: Grid<3>, views: [&View; 3], dim: usize, log: bool) {
    let (m, _) = outer.pop_inner();
    let (n, steps, blocks) = (views[0].sizes[dim] as usize, views.map(|v| stride(v, dim)), m.div_ceil(LANES));
    let (at, isa) = (views.map(|v| Shared::<T>::new(v.ptr)), isa());
    split(outer.len() * blocks, 0.4 * (n * m.min(LANES)) as f64, &|r| {
        for u in r {
            let (row, from) = (u / blocks, u % blocks * LANES);
            outer.each(row..row + 1, |_, off| {
                let p = |k: usize| at[k].at(off[k] + from as isize);
                dispatch(isa, ColumnsBackward { at: [p(0), p(1), p(2)], steps, n, lanes: LANES.min(m - from), log });
            });
        }
    });
}

/// The backward kernel on `lanes` rows side by side, of grad_output, output and grad_input.
struct ColumnsBackward<T> {
    at: [*mut T; 3],
    steps: [isize; 3],
    n: usize,
    lanes: usize,
    log: bool,
}

impl<T: Float> WithSimd for ColumnsBackward<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ColumnsBackward { at, steps, n, lanes, log } = self;
        let mut from = 0;
        while from < lanes {
            let k = Reg::<S, T>::WIDTH.min(lanes - from);
            // SAFETY: k lanes of n rows lie in all tensors.
            unsafe {
                let mut sum = Reg::<S, T>::splat(0.0);
                for i in 0..n as isize {
                    let g = T::load_n::<S>(at[0].add(from).offset(i * steps[0]), k);
                    let y = T::load_n::<S>(at[1].add(from).offset(i * steps[1]), k);
                    sum = if log { sum + g } else { g.fma(y, sum) };
                }
                for i in 0..n as isize {
                    let g = T::load_n::<S>(at[0].add(from).offset(i * steps[0]), k);
                    let y = T::load_n::<S>(at[1].add(from).offset(i * steps[1]), k);
                    let v = if log { (-y.exp()).fma(sum, g) } else { (g - sum) * y };
                    T::store_n::<S>(v, at[2].add(from).offset(i * steps[2]), k);
                }
            }
            from += k;
        }
    }
}

struct Backward<T> {
    g: *const T,
    y: *const T,
    gx: *mut T,
    n: usize,
    log: bool,
    stream: bool,
}

impl<T: Float> WithSimd for Backward<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Backward { g, y, gx, n, log, stream } = self;
        let mut acc = [Reg::<S, T>::splat(0.0); 4];
        // SAFETY: rows hold n elements.
        unsafe {
            if log {
                by_register!(Reg<S, T>, n, |i, k, u| {
                    acc[u] = acc[u] + T::load_n::<S>(g.add(i), k);
                });
                let sum = Reg::<S, T>::all_of(total(acc));
                by_register!(Reg<S, T>, n, |i, k, _u| {
                    let p = T::load_n::<S>(y.add(i), k).exp();
                    T::store_n::<S>((-p).fma(sum, T::load_n::<S>(g.add(i), k)), gx.add(i), k);
                });
                return;
            }
            by_register!(Reg<S, T>, n, |i, k, u| {
                acc[u] = T::load_n::<S>(g.add(i), k).fma(T::load_n::<S>(y.add(i), k), acc[u]);
            });
            let sum = Reg::<S, T>::all_of(total(acc));
            if stream && aligned(gx) && n.is_multiple_of(Reg::<S, T>::WIDTH) {
                by_register!(Reg<S, T>, n, |i, k, _u| {
                    T::stream::<S>((T::load_n::<S>(g.add(i), k) - sum) * T::load_n::<S>(y.add(i), k), gx.add(i));
                });
                return;
            }
            by_register!(Reg<S, T>, n, |i, k, _u| {
                T::store_n::<S>((T::load_n::<S>(g.add(i), k) - sum) * T::load_n::<S>(y.add(i), k), gx.add(i), k);
            });
        }
    }
}
