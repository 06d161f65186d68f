//! SOFTMAX and its backward, plain and logarithmic, one row at a time.
//!
//! A row of only minus infinities gives NaN, as in torch.

use crate::mem::{Float, Reg, by_float, by_register, greatest, load, store, total, with_scratch};
use crate::row::Row;
use oneflow_base::Result;
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Lanes, Launch, Num, Register, Simd, View, WithSimd, dispatch, isa};

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let (x, y, dim, log) = (l.input(0)?, l.output(0)?, l.param(0)?.usize(), l.param(1)?.bool());
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
                    let k = Forward::<T> { x: xr.read(xp, xs), y: yr.place(yp, ys), tmp, n, log };
                    dispatch(isa, k);
                    yr.finish(yp, ys);
                }
            })
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
}

impl<T: Float> WithSimd for Forward<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Forward { x, y, tmp, n, log } = self;
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
                    T::store::<S>(T::load::<S>(x.add(i), k) - max - ln, y.add(i), k);
                });
                return;
            }
            by_register!(Reg<S, T>, n, |i, k, u| {
                let e = (T::load_least::<S>(x.add(i), k) - max).exp();
                store(e, tmp.add(i), k);
                acc[u] = acc[u] + e;
            });
            let scale = Reg::<S, T>::all_of(T::Acc::splat(1.0) / total(acc));
            by_register!(Reg<S, T>, n, |i, k, _u| {
                T::store::<S>(load::<Reg<S, T>>(tmp.add(i), k) * scale, y.add(i), k);
            });
        }
    }
}

pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let (g, y, gx, dim, log) = (l.input(0)?, l.input(1)?, l.output(0)?, l.param(0)?.usize(), l.param(1)?.bool());
    // SAFETY: the views are valid by the launch's contract.
    by_float!("softmax_backward", y.dtype, T => { unsafe { rows_backward::<T>(&g, &y, &gx, dim, log) }; Ok(()) })
}

unsafe fn rows_backward<T: Float>(g: &View, y: &View, gx: &View, dim: usize, log: bool) {
    let outer = outer([g, y, gx], dim);
    let (gr, yr, xr) = (Row::along(g, dim), Row::along(y, dim), Row::along(gx, dim));
    let n = yr.len();
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
                    let k = Backward::<T> { g: gr.read(gp, gs), y: yr.read(yp, ys), gx: xr.place(xp, xs), n, log };
                    dispatch(isa, k);
                    xr.finish(xp, xs);
                }
            })
        })
    });
}

struct Backward<T> {
    g: *const T,
    y: *const T,
    gx: *mut T,
    n: usize,
    log: bool,
}

impl<T: Float> WithSimd for Backward<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Backward { g, y, gx, n, log } = self;
        let mut acc = [Reg::<S, T>::splat(0.0); 4];
        // SAFETY: rows hold n elements.
        unsafe {
            if log {
                by_register!(Reg<S, T>, n, |i, k, u| {
                    acc[u] = acc[u] + T::load::<S>(g.add(i), k);
                });
                let sum = Reg::<S, T>::all_of(total(acc));
                by_register!(Reg<S, T>, n, |i, k, _u| {
                    let p = T::load::<S>(y.add(i), k).exp();
                    T::store::<S>((-p).fma(sum, T::load::<S>(g.add(i), k)), gx.add(i), k);
                });
                return;
            }
            by_register!(Reg<S, T>, n, |i, k, u| {
                acc[u] = T::load::<S>(g.add(i), k).fma(T::load::<S>(y.add(i), k), acc[u]);
            });
            let sum = Reg::<S, T>::all_of(total(acc));
            by_register!(Reg<S, T>, n, |i, k, _u| {
                T::store::<S>((T::load::<S>(g.add(i), k) - sum) * T::load::<S>(y.add(i), k), gx.add(i), k);
            });
        }
    }
}
