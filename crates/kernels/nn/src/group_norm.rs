//! GROUP_NORM and its backward: a sample's groups one by one, rows of channels within.
//!
//! A group belongs to one task; gradients of weight and bias are summed over the samples in order: the same result for any
//! number of threads.

use crate::channel_rows::{ApplyRow, BackwardRow, Moments, RowMoments, RowSums, Rows, Sums, step, write};
use crate::mem::{Run, with_scratch};
use crate::row::blocks;
use oneflow_base::{Result, by_float};
use oneflow_kernels_prim::rows::{Shared, split};
use oneflow_kernels_prim::{Acc, Float, GroupNormBackwardParams, GroupNormParams, Launch, View, dispatch, isa};

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let x = l.input(0)?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("group_norm", x.dtype, T => unsafe { forward_of::<T>(l, &x) })
}

unsafe fn forward_of<T: Float>(l: &Launch<'_>, x: &View) -> Result<()> {
    let (y, isa) = (l.output(0)?, isa());
    let GroupNormParams { groups, eps } = l.read()?;
    // SAFETY: the views outlive the launch.
    let (weight, bias) = unsafe { (Run::<T::Acc>::new(l.opt_input(1))?, Run::<T::Acc>::new(l.opt_input(2))?) };
    let (w, b) = (Shared::<T::Acc>::new(weight.ptr() as *mut u8), Shared::<T::Acc>::new(bias.ptr() as *mut u8));
    let (mean, rstd) = (Shared::<T::Acc>::new(l.output(1)?.ptr), Shared::<T::Acc>::new(l.output(2)?.ptr));
    let (xs, ys) = (Rows::<T>::new(x), Rows::<T>::new(&y));
    let (batch, each, s) = (x.sizes[0] as usize, x.sizes[1] as usize / groups, xs.row.len());
    let bytes = (xs.row.scratch() + ys.row.scratch()) * size_of::<T>();
    split(batch * groups, 0.4 * (each * s) as f64 + 20.0, &|r| {
        with_scratch(bytes, |scratch| {
            let (xt, yt) = (scratch.cast::<T>(), scratch.cast::<T>().wrapping_add(xs.row.scratch()));
            for at in r {
                let (n, from) = (at / groups, at % groups * each);
                // SAFETY: the indices are inside; scratch has room for a row of each; a group belongs to one task.
                unsafe {
                    let mut m = Moments::NONE;
                    for c in from..from + each {
                        let x = xs.read(n, c, xt);
                        for (at, len) in blocks(s) {
                            m = m.and(dispatch(isa, RowMoments { x: x.add(at), n: len, lines: 1, down: 0 }));
                        }
                    }
                    let r = 1.0 / (m.m2 / m.n + eps).sqrt();
                    let (mu, r) = (T::Acc::of(m.mean), T::Acc::of(r));
                    (*mean.at(at as isize), *rstd.at(at as isize)) = (mu, r);
                    for c in from..from + each {
                        let scale = if w.at(0).is_null() { r } else { r * *w.at(c as isize) };
                        let shift = if b.at(0).is_null() { T::Acc::of(0.0) } else { *b.at(c as isize) };
                        let (x, at) = (xs.read(n, c, xt), ys.at(n, c));
                        dispatch(
                            isa,
                            ApplyRow {
                                x,
                                y: ys.row.place(at, yt),
                                n: s,
                                lines: 1,
                                down: [0; 2],
                                mean: mu,
                                scale,
                                shift,
                            },
                        );
                        ys.row.finish(at, yt);
                    }
                }
            }
        })
    });
    Ok(())
}

pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let x = l.input(1)?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("group_norm_backward", x.dtype, T => unsafe { backward_of::<T>(l, &x) })
}

unsafe fn backward_of<T: Float>(l: &Launch<'_>, x: &View) -> Result<()> {
    let (g, gx, isa) = (l.input(0)?, l.output(0)?, isa());
    let GroupNormBackwardParams { groups } = l.read()?;
    // SAFETY: the views outlive the launch.
    let parameters: [Run<T::Acc>; 3] =
        unsafe { [Run::new(l.opt_input(4))?, Run::new(l.opt_input(2))?, Run::new(l.opt_input(3))?] };
    let [w, mean, rstd] = parameters.each_ref().map(|p| Shared::<T::Acc>::new(p.ptr() as *mut u8));
    let (gs, xs, os) = (Rows::<T>::new(&g), Rows::<T>::new(x), Rows::<T>::new(&gx));
    let (batch, channels, s) = (x.sizes[0] as usize, x.sizes[1] as usize, xs.row.len());
    let each = channels / groups;
    let count = (each * s) as f64;
    let bytes = (gs.row.scratch() + xs.row.scratch() + os.row.scratch()) * size_of::<T>();
    // Of each sample and channel: sum of g, sum of g (x - mean).
    let mut sums: Vec<Sums> = vec![[0.0; 2]; batch * channels];
    let all = Shared::<Sums>::new(sums.as_mut_ptr().cast());
    split(batch * groups, 0.7 * count + 20.0, &|r| {
        with_scratch(bytes, |scratch| {
            let gt = scratch.cast::<T>();
            let (xt, ot) = (gt.wrapping_add(gs.row.scratch()), gt.wrapping_add(gs.row.scratch() + xs.row.scratch()));
            for at in r {
                let (n, from) = (at / groups, at % groups * each);
                // SAFETY: the indices are inside; scratch has room for a row of each; a group belongs to one task.
                unsafe {
                    let (mu, r) = (*mean.at(at as isize), (*rstd.at(at as isize)).to_f64());
                    let weight = |c: usize| if w.at(0).is_null() { 1.0 } else { (*w.at(c as isize)).to_f64() };
                    let mut total = [0.0; 2];
                    for c in from..from + each {
                        let (g, x) = (gs.read(n, c, gt), xs.read(n, c, xt));
                        let [p, q] = dispatch(isa, RowSums { g, x, n: s, lines: 1, down: [0; 2], mean: mu });
                        *all.at((n * channels + c) as isize) = [p, q];
                        total = [total[0] + weight(c) * p, total[1] + weight(c) * q];
                    }
                    let (b, q) = (-r * total[0] / count, r * r * r * total[1] / count);
                    for c in from..from + each {
                        let by = [T::Acc::of(r * weight(c)), T::Acc::of(b), mu, T::Acc::of(q)];
                        let (g, x, at) = (gs.read(n, c, gt), xs.read(n, c, xt), os.at(n, c));
                        dispatch(isa, BackwardRow { g, x, gx: os.row.place(at, ot), n: s, lines: 1, down: [0; 3], by });
                        os.row.finish(at, ot);
                    }
                }
            }
        })
    });
    for c in 0..channels {
        let (mut gw, mut gb) = (0.0, 0.0);
        for n in 0..batch {
            let [p, q] = sums[n * channels + c];
            // SAFETY: there is one number a group.
            gw += q * unsafe { *rstd.at((n * groups + c / each) as isize) }.to_f64();
            gb += p;
        }
        for (i, v) in [(1, gw), (2, gb)] {
            if let Some(out) = l.opt_output(i) {
                // SAFETY: the gradient has one number a channel.
                unsafe { write(&out, c as isize * step(&out), v)? };
            }
        }
    }
    Ok(())
}
