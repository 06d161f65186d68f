//! LAYER_NORM and its backward, with or without a mean (rms), one row at a time.
//!
//! The gradients of weight and bias are summed over fixed blocks of rows and then over the blocks, in order: the same
//! result for any number of threads.

use crate::mem::{Run, STREAM_BYTES, aligned, by_register, fence, total, with_scratch};
use crate::row::{Row, blocks};
use oneflow_base::{Error, Result, by_float};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{
    Acc, Float, Lanes, Launch, LayerNormParams, Num, Reg, Register, Simd, View, WithSimd, dispatch, isa,
};

/// The dimensions that are not normalised, for views of equal sizes.
fn outer<const K: usize>(views: [&View; K], n_dims: usize) -> Grid<K> {
    let at = views[0].ndim() - n_dims;
    Grid::new(&views[0].sizes[..at], views.map(|v| &v.strides[..at]))
}

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let x = l.input(0)?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("layer_norm", x.dtype, T => unsafe { rows::<T>(l, &x) })
}

unsafe fn rows<T: Float>(l: &Launch<'_>, x: &View) -> Result<()> {
    let (y, LayerNormParams { normalized_dims: n_dims, eps, rms }) = (l.output(0)?, l.read()?);
    let (outer, xr, yr) = (outer([x, &y], n_dims), Row::trailing(x, n_dims), Row::trailing(&y, n_dims));
    let n = xr.len();
    // SAFETY: the views outlive the launch.
    let (weight, bias) = unsafe { (Run::<T::Acc>::new(l.opt_input(1))?, Run::<T::Acc>::new(l.opt_input(2))?) };
    let (w, b) = (Shared::<T::Acc>::new(weight.ptr() as *mut u8), Shared::<T::Acc>::new(bias.ptr() as *mut u8));
    let stat = |i| l.opt_output(i).map(|v| Shared::<T::Acc>::new(v.ptr));
    let (mean, rstd) = (stat(1), stat(2));
    let typed = |v: Option<View>| v.map(|v| Shared::<T>::new(v.ptr));
    let added = typed(l.opt_input(3)).zip(typed(l.opt_output(3)));
    let (x, y, isa) = (Shared::<T>::new(x.ptr), Shared::<T>::new(y.ptr), isa());
    let bytes = (xr.scratch() + yr.scratch()) * size_of::<T>();
    let stream = outer.len() * n * size_of::<T>() >= STREAM_BYTES;
    split(outer.len(), 0.2 * n as f64 + 20.0, &|r| {
        with_scratch(bytes, |scratch| {
            outer.each(r, |i, off| {
                let (xs, ys) = (scratch.cast::<T>(), scratch.cast::<T>().wrapping_add(xr.scratch()));
                let yp = y.at(off[1]);
                // SAFETY: the offsets are those of rows; the scratch has room for both parts; statistics hold a number a row.
                unsafe {
                    let mut x = xr.read(x.at(off[0]), xs);
                    if let Some((residual, sum)) = added {
                        let at = (i * n) as isize;
                        dispatch(isa, Add::<T> { a: x, b: residual.at(at), sum: sum.at(at), n });
                        x = sum.at(at);
                    }
                    let k = Forward::<T> { x, y: yr.place(yp, ys), w: w.at(0), b: b.at(0), n, eps, rms, stream };
                    let (m, s) = dispatch(isa, k);
                    yr.finish(yp, ys);
                    if let Some(p) = mean {
                        *p.at(i as isize) = m;
                    }
                    if let Some(p) = rstd {
                        *p.at(i as isize) = s;
                    }
                }
            });
            if stream {
                fence();
            }
        })
    });
    Ok(())
}

/// One row of `sum = a + b`, which stays in the first cache.
struct Add<T: Float> {
    a: *const T,
    b: *const T,
    sum: *mut T,
    n: usize,
}

impl<T: Float> WithSimd for Add<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: the rows hold n elements.
        unsafe {
            by_register!(Reg<S, T>, self.n, |i, k, _u| {
                T::store_n::<S>(T::load_n::<S>(self.a.add(i), k) + T::load_n::<S>(self.b.add(i), k), self.sum.add(i), k);
            });
        }
    }
}

struct Forward<T: Float> {
    x: *const T,
    y: *mut T,
    /// Null where there is none.
    w: *const T::Acc,
    b: *const T::Acc,
    n: usize,
    eps: f64,
    rms: bool,
    stream: bool,
}

impl<T: Float> WithSimd for Forward<T> {
    /// (mean, 1 / standard deviation)
    type Output = (T::Acc, T::Acc);
    #[inline(always)]
    fn run<S: Simd>(self) -> Self::Output {
        let Forward { x, y, w, b, n, eps, rms, stream } = self;
        let stream = stream && aligned(y) && n.is_multiple_of(Reg::<S, T>::WIDTH);
        // SAFETY: the row and the parameters hold n elements.
        unsafe {
            let mut mean = T::Acc::splat(0.0);
            if !rms {
                let mut sum = 0.0;
                for (at, len) in blocks(n) {
                    let x = x.add(at);
                    let mut acc = [Reg::<S, T>::splat(0.0); 4];
                    by_register!(Reg<S, T>, len, |i, k, u| {
                        acc[u] = acc[u] + T::load_n::<S>(x.add(i), k);
                    });
                    sum += total(acc).to_f64();
                }
                mean = T::Acc::of(sum / n as f64);
            }
            let m = Reg::<S, T>::all_of(mean);
            let mut squares = 0.0;
            for (at, len) in blocks(n) {
                let x = x.add(at);
                let mut acc = [Reg::<S, T>::splat(0.0); 4];
                by_register!(Reg<S, T>, len, |i, k, u| {
                    let mut d = T::load_n::<S>(x.add(i), k);
                    if !rms {
                        d = d - m;
                    }
                    if k < Reg::<S, T>::WIDTH && !rms {
                        // The lanes beyond the row would count as -mean.
                        d = d.first(k);
                    }
                    acc[u] = d.fma(d, acc[u]);
                });
                squares += total(acc).to_f64();
            }
            let var = T::Acc::of(squares / n as f64);
            let rstd = T::Acc::splat(1.0) / (var + T::Acc::splat(eps)).sqrt();
            let s = Reg::<S, T>::all_of(rstd);
            by_register!(Reg<S, T>, n, |i, k, _u| {
                let mut v = (T::load_n::<S>(x.add(i), k) - m) * s;
                if !w.is_null() {
                    v = v * Reg::<S, T>::load_n(w.add(i), k);
                }
                if !b.is_null() {
                    v = v + Reg::<S, T>::load_n(b.add(i), k);
                }
                if stream {
                    T::stream::<S>(v, y.add(i));
                } else {
                    T::store_n::<S>(v, y.add(i), k);
                }
            });
            (mean, rstd)
        }
    }
}

/// Rows a block: what one sum over rows covers before it is added to the whole.
fn block_rows(rows: usize) -> usize {
    rows.div_ceil(32).max(16)
}

pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let (g, x) = (l.input(0)?, l.input(1)?);
    if g.dtype != x.dtype {
        let text = format!("layer_norm_backward: the gradient is {}, the input {} on the host", g.dtype, x.dtype);
        return Err(Error::not_implemented(text));
    }
    // SAFETY: the views are valid by the launch's contract.
    by_float!("layer_norm_backward", x.dtype, T => unsafe { rows_backward::<T>(l, &x) })
}

unsafe fn rows_backward<T: Float>(l: &Launch<'_>, x: &View) -> Result<()> {
    let (g, rstd, gx) = (l.input(0)?, l.input(3)?, l.opt_output(0));
    let LayerNormParams { normalized_dims: n_dims, rms, .. } = l.read()?;
    let (gw, gb) = (l.opt_output(1), l.opt_output(2));
    let outer = outer([&g, x, gx.as_ref().unwrap_or(x)], n_dims);
    let (gr, xr, or) =
        (Row::trailing(&g, n_dims), Row::trailing(x, n_dims), Row::trailing(gx.as_ref().unwrap_or(x), n_dims));
    let (n, rows) = (xr.len(), outer.len());
    // SAFETY: the view outlives the launch.
    let weight = unsafe { Run::<T::Acc>::new(l.opt_input(4))? };
    let w = Shared::<T::Acc>::new(weight.ptr() as *mut u8);
    let mean = l.opt_input(2).map(|v| Shared::<T::Acc>::new(v.ptr));
    let rstd = Shared::<T::Acc>::new(rstd.ptr);
    let (g, x) = (Shared::<T>::new(g.ptr), Shared::<T>::new(x.ptr));
    let residual = l.opt_input(5).map(|v| Shared::<T>::new(v.ptr));
    let (gx, isa) = (gx.map(|v| Shared::<T>::new(v.ptr)), isa());

    let (block, wanted) = (block_rows(rows), gw.is_some() || gb.is_some());
    let blocks = rows.div_ceil(block);
    let stream = rows * n * size_of::<T>() >= STREAM_BYTES;
    let sums = if wanted { 2 * n * blocks } else { 0 };
    let bytes = (gr.scratch() + xr.scratch() + or.scratch()) * size_of::<T>();
    with_scratch(sums * size_of::<T::Acc>(), |partial| {
        let partial = Shared::<T::Acc>::new(partial);
        let of_block = |b: usize| partial.at((b * 2 * n) as isize);
        split(blocks, (0.5 * n as f64 + 20.0) * block as f64, &|r| {
            with_scratch(bytes, |scratch| {
                for b in r {
                    let (pw, pb) = match wanted {
                        true => (of_block(b), of_block(b).wrapping_add(n)),
                        false => (std::ptr::null_mut(), std::ptr::null_mut()),
                    };
                    if wanted {
                        // SAFETY: each block owns 2n numbers; all-zero bits are zero.
                        unsafe { pw.write_bytes(0, 2 * n) };
                    }
                    outer.each(b * block..rows.min((b + 1) * block), |i, off| {
                        let gs = scratch.cast::<T>();
                        let (xs, os) = (gs.wrapping_add(gr.scratch()), gs.wrapping_add(gr.scratch() + xr.scratch()));
                        let op = gx.map_or(std::ptr::null_mut(), |p| p.at(off[2]));
                        // SAFETY: the offsets are those of rows; scratch has room for the three parts.
                        unsafe {
                            let k = Backward::<T> {
                                g: gr.read(g.at(off[0]), gs),
                                x: xr.read(x.at(off[1]), xs),
                                gx: if op.is_null() { op } else { or.place(op, os) },
                                residual: residual.map_or(std::ptr::null(), |p| p.at((i * n) as isize)),
                                w: w.at(0),
                                gw: pw,
                                gb: pb,
                                mean: mean.map_or(T::Acc::splat(0.0), |m| *m.at(i as isize)),
                                rstd: *rstd.at(i as isize),
                                n,
                                rms,
                                stream,
                            };
                            dispatch(isa, k);
                            if !op.is_null() {
                                or.finish(op, os);
                            }
                        }
                    });
                }
                if stream {
                    fence();
                }
            })
        });
        for (at, out) in [(0, gw), (n, gb)] {
            let Some(out) = out else { continue };
            by_float!("layer_norm_backward", out.dtype, O => {
                let grid = Grid::new(out.sizes, [out.strides]);
                grid.each(0..n, |j, [o]| {
                    // SAFETY: the partial sums are written; the output holds n elements.
                    unsafe {
                    let sum = (0..blocks).fold(T::Acc::splat(0.0), |s, b| s + *of_block(b).add(at + j));
                    *out.ptr.cast::<O>().offset(o) = O::narrow(<O as Float>::Acc::of(sum.to_f64()));
                    }
                });
                Ok(())
            })?;
        }
        Ok(())
    })
}

struct Backward<T: Float> {
    g: *const T,
    x: *const T,
    /// Null where it is not wanted.
    gx: *mut T,
    /// What is added to it; null where there is nothing.
    residual: *const T,
    w: *const T::Acc,
    /// Sums to add to; null where they are not wanted.
    gw: *mut T::Acc,
    gb: *mut T::Acc,
    mean: T::Acc,
    rstd: T::Acc,
    n: usize,
    rms: bool,
    stream: bool,
}

impl<T: Float> WithSimd for Backward<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Backward { g, x, gx, residual, w, gw, gb, mean, rstd, n, rms, stream } = self;
        let stream = stream && aligned(gx) && n.is_multiple_of(Reg::<S, T>::WIDTH);
        let (m, s) = (Reg::<S, T>::all_of(mean), Reg::<S, T>::all_of(rstd));
        let (with_sums, with_weight) = (!gw.is_null(), !w.is_null());
        // SAFETY: rows, parameters and sums hold n elements.
        unsafe {
            let mut sums = [0.0; 2];
            for (at, len) in blocks(n) {
                let (mut a, mut b) = ([Reg::<S, T>::splat(0.0); 4], [Reg::<S, T>::splat(0.0); 4]);
                let (g, x) = (g.add(at), x.add(at));
                // Those that are null are not read.
                let (w, gw, gb) = (w.wrapping_add(at), gw.wrapping_add(at), gb.wrapping_add(at));
                by_register!(Reg<S, T>, len, |i, k, u| {
                    let gv = T::load_n::<S>(g.add(i), k);
                    let xhat = (T::load_n::<S>(x.add(i), k) - m) * s;
                    if with_sums {
                        gv.fma(xhat, Reg::<S, T>::load_n(gw.add(i), k)).store_n(gw.add(i), k);
                        (gv + Reg::<S, T>::load_n(gb.add(i), k)).store_n(gb.add(i), k);
                    }
                    // Zero in the lanes beyond the row, as g is.
                    let gv = if with_weight { gv * Reg::<S, T>::load_n(w.add(i), k) } else { gv };
                    a[u] = a[u] + gv;
                    b[u] = gv.fma(xhat, b[u]);
                });
                sums = [sums[0] + total(a).to_f64(), sums[1] + total(b).to_f64()];
            }
            if gx.is_null() {
                return;
            }
            let mean_of = |sum: f64| Reg::<S, T>::all_of(T::Acc::of(sum / n as f64));
            let (a, b) = (mean_of(if rms { 0.0 } else { sums[0] }), mean_of(sums[1]));
            by_register!(Reg<S, T>, n, |i, k, _u| {
                let gv = T::load_n::<S>(g.add(i), k);
                let gv = if w.is_null() { gv } else { gv * Reg::<S, T>::load_n(w.add(i), k) };
                let xhat = (T::load_n::<S>(x.add(i), k) - m) * s;
                let mut v = (-xhat).fma(b, gv - a) * s;
                if !residual.is_null() {
                    v = v + T::load_n::<S>(residual.add(i), k);
                }
                if stream {
                    T::stream::<S>(v, gx.add(i));
                } else {
                    T::store_n::<S>(v, gx.add(i), k);
                }
            });
        }
    }
}
