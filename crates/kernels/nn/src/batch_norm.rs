//! BATCH_NORM and its backward.
//!
//! Two walks over [n, c, ...]: channel by channel where a channel's elements lie in rows, and by blocks of rows where the
//! channels themselves are adjacent (channels last, matrices). A channel's sums belong to one task, or to fixed blocks that
//! are combined in order: the same result for any number of threads. Sums of blocks are combined in f64.

use crate::channel_rows::{ApplyRow, BackwardRow, Moments, RowMoments, RowSums, Rows, Sums, step, write};
use crate::mem::{Run, by_register, read, with_scratch};
use oneflow_base::{Result, by_float};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{
    Acc, BatchNormBackwardParams, BatchNormParams, Float, Isa, Lanes, Launch, Num, Reg, Register, Simd, View, WithSimd,
    dispatch, isa,
};
use std::ops::Range;

/// Rows whose moments are taken together: with a cache line of channels they stay in the first cache.
const SUB_BLOCK: usize = 64;

/// Elements of a channel that are summed together: they stay in the second cache between two passes.
const CACHED: usize = 1 << 15;

/// Samples in runs of at most `most`: (first, number); one by one where rows have to be gathered.
fn runs(batch: usize, direct: bool, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let len = if direct { most.max(1) } else { 1 };
    (0..batch).step_by(len).map(move |i| (i, len.min(batch - i)))
}

/// The step from row to row where a row is all channels, adjacent; `None` for another layout.
fn columns(v: &View) -> Option<isize> {
    if v.strides[1] != 1 && v.sizes[1] != 1 {
        return None;
    }
    let grid = Grid::without(v.sizes, [v.strides], 1);
    let (n, [step]) = grid.inner();
    (n == grid.len()).then_some(step)
}

/// Parameters and statistics of the channels.
struct Channels<A: Acc> {
    weight: Run<A>,
    bias: Run<A>,
    mean: Shared<A>,
    rstd: Shared<A>,
    eps: f64,
    momentum: f64,
}

impl<A: Acc> Channels<A> {
    fn weight(&self, c: usize) -> A {
        // SAFETY: a weight has one number a channel.
        unsafe { self.weight.ptr().as_ref().map_or(A::of(1.0), |p| *(p as *const A).add(c)) }
    }
    fn bias(&self, c: usize) -> A {
        // SAFETY: as above.
        unsafe { self.bias.ptr().as_ref().map_or(A::of(0.0), |p| *(p as *const A).add(c)) }
    }
    /// Mean, scale and shift of a channel.
    ///
    /// # Safety
    /// The statistics of channel `c` are written.
    unsafe fn map(&self, c: usize) -> [A; 3] {
        // SAFETY: by the caller.
        let (mean, rstd) = unsafe { (*self.mean.at(c as isize), *self.rstd.at(c as isize)) };
        [mean, self.weight(c) * rstd, self.bias(c)]
    }

    /// Keeps a channel's statistics and mixes them into the running ones.
    ///
    /// # Safety
    /// The views have one number a channel, and no other task writes channel `c`.
    unsafe fn keep(&self, l: &Launch<'_>, c: usize, m: Moments) -> Result<()> {
        let var = m.m2 / m.n;
        // SAFETY: by the caller.
        unsafe {
            *self.mean.at(c as isize) = A::of(m.mean);
            *self.rstd.at(c as isize) = A::of(1.0 / (var + self.eps).sqrt());
            let unbiased = m.m2 / (m.n - 1.0);
            for (i, new) in [(3, m.mean), (4, unbiased)] {
                if let (Some(old), Some(out)) = (l.opt_input(i), l.opt_output(i)) {
                    let was = read(&old, c as isize * step(&old))?;
                    write(&out, c as isize * step(&out), was + self.momentum * (new - was))?;
                }
            }
        }
        Ok(())
    }
}

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let x = l.input(0)?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("batch_norm", x.dtype, T => unsafe { forward_of::<T>(l, &x) })
}

unsafe fn forward_of<T: Float>(l: &Launch<'_>, x: &View) -> Result<()> {
    let (y, isa) = (l.output(0)?, isa());
    let BatchNormParams { training, momentum, eps } = l.read()?;
    let (n_channels, n) = (x.sizes[1] as usize, x.numel());
    // Statistics that nobody wants are kept here.
    let mut own = [vec![T::Acc::of(0.0); n_channels], vec![T::Acc::of(0.0); n_channels]];
    let [mean, rstd] = [1, 2].map(|i| match l.opt_output(i) {
        Some(v) => Shared::new(v.ptr),
        None => Shared::new(own[i - 1].as_mut_ptr().cast()),
    });
    // SAFETY: the views outlive the launch.
    let ch = unsafe {
        Channels::<T::Acc> {
            weight: Run::new(l.opt_input(1))?,
            bias: Run::new(l.opt_input(2))?,
            mean,
            rstd,
            momentum,
            eps,
        }
    };
    let ch = &Together(ch);
    if !training {
        let (mean, var) = (l.input(3)?, l.input(4)?);
        for c in 0..n_channels as isize {
            // SAFETY: every view has one number a channel.
            unsafe {
                *ch.get().mean.at(c) = T::Acc::of(read(&mean, c * step(&mean))?);
                *ch.get().rstd.at(c) = T::Acc::of(1.0 / (read(&var, c * step(&var))? + ch.get().eps).sqrt());
            }
        }
    }
    let l = &Together(l);
    if let (Some(down), Some(down_y)) = (columns(x), columns(&y)) {
        let rows = n / n_channels.max(1);
        let (x, y) = (Shared::<T>::new(x.ptr), Shared::<T>::new(y.ptr));
        if training {
            let fold = |r, m: *mut [T::Acc; 2]| ColumnMoments { x: x.at(0), step: down, rows: r, c: n_channels, m };
            let (block, sums) = by_blocks::<T, _>(isa, rows, n_channels, fold);
            for c in 0..n_channels {
                let m = sums.chunks(n_channels.max(1)).enumerate().fold(Moments::NONE, |m, (b, of)| {
                    let n = block.min(rows - b * block) as f64;
                    m.and(Moments { n, mean: of[c][0].to_f64(), m2: of[c][1].to_f64() })
                });
                // SAFETY: nobody else writes.
                unsafe { ch.get().keep(l.get(), c, m)? };
            }
        }
        // SAFETY: the statistics are written.
        let maps: Vec<[T::Acc; 3]> = (0..n_channels).map(|c| unsafe { ch.get().map(c) }).collect();
        let by = Planes::new(&maps, n_channels);
        split(rows, 0.3 * n_channels as f64 + 4.0, &|r| {
            let (x, y) = (x.at(r.start as isize * down), y.at(r.start as isize * down_y));
            dispatch(isa, ApplyColumns { x, y, down, down_y, rows: r.len(), c: n_channels, by: by.ptrs() });
        });
        return Ok(());
    }
    let (xs, ys) = (Rows::<T>::new(x), Rows::<T>::new(&y));
    let (batch, s) = (x.sizes[0] as usize, xs.row.len());
    if !training && xs.direct() && ys.direct() {
        // Nothing to sum: rows in the order of memory.
        // SAFETY: the statistics are written.
        let maps: Vec<[T::Acc; 3]> = (0..n_channels).map(|c| unsafe { ch.get().map(c) }).collect();
        let maps = &maps;
        split(batch * n_channels, 0.15 * s as f64 + 3.0, &|r| {
            dispatch(isa, ApplyRows { x: &xs, y: &ys, n: s, rows: r, by: maps });
        });
        return Ok(());
    }
    let bytes = (xs.row.scratch() + ys.row.scratch()) * size_of::<T>();
    split(n_channels, 0.5 * (batch * s) as f64 + 20.0, &|r| {
        with_scratch(bytes, |scratch| {
            let (a, b) = (scratch.cast::<T>(), scratch.cast::<T>().wrapping_add(xs.row.scratch()));
            for c in r {
                // SAFETY: the indices are inside; scratch has room for a row of each; a channel belongs to one task.
                unsafe {
                    if training {
                        let mut m = Moments::NONE;
                        for (i, lines) in runs(batch, xs.direct(), CACHED / s.max(1)) {
                            let x = xs.read(i, c, a);
                            m = m.and(dispatch(isa, RowMoments { x, n: s, lines, down: xs.down }));
                        }
                        // The dtypes of the running statistics were read once before.
                        let _ = ch.get().keep(l.get(), c, m);
                    }
                    let [mean, scale, shift] = ch.get().map(c);
                    for (i, lines) in runs(batch, xs.direct() && ys.direct(), batch) {
                        let (x, at) = (xs.read(i, c, a), ys.at(i, c));
                        let (y, down) = (ys.row.place(at, b), [xs.down, ys.down]);
                        dispatch(isa, ApplyRow { x, y, n: s, lines, down, mean, scale, shift });
                        ys.row.finish(at, b);
                    }
                }
            }
        })
    });
    Ok(())
}

/// What tasks share and only read, or write at places of their own.
struct Together<T>(T);
// SAFETY: tasks write disjoint channels only.
unsafe impl<T> Sync for Together<T> {}

impl<T> Together<T> {
    /// A method, so that closures capture the whole wrapper.
    fn get(&self) -> &T {
        &self.0
    }
}

/// Sums of blocks of rows: rows a block, then the sums of all channels block by block. The blocks do not depend on the
/// number of threads.
fn by_blocks<T: Float, K: WithSimd<Output = ()>>(
    isa: Isa,
    rows: usize,
    c: usize,
    fold: impl Fn(Range<usize>, *mut [T::Acc; 2]) -> K + Sync,
) -> (usize, Vec<[T::Acc; 2]>) {
    let block = rows.div_ceil(32).next_multiple_of(SUB_BLOCK).max(SUB_BLOCK);
    let n = rows.div_ceil(block);
    let mut sums = vec![[T::Acc::of(0.0); 2]; n * c];
    let at = Shared::<[T::Acc; 2]>::new(sums.as_mut_ptr().cast());
    split(n, 0.5 * (block * c) as f64 + 20.0, &|r| {
        for b in r {
            dispatch(isa, fold(b * block..rows.min((b + 1) * block), at.at((b * c) as isize)));
        }
    });
    (block, sums)
}

/// Numbers of a channel as one array a number.
struct Planes<A, const K: usize> {
    all: Vec<A>,
    c: usize,
}

impl<A: Acc, const K: usize> Planes<A, K> {
    fn new(of: &[[A; K]], c: usize) -> Self {
        Planes { all: (0..K).flat_map(|k| of.iter().map(move |v| v[k])).collect(), c }
    }
    fn ptrs(&self) -> [*const A; K] {
        std::array::from_fn(|k| self.all.as_ptr().wrapping_add(k * self.c))
    }
}

/// Registers of channels that are summed side by side: whole cache lines of every row.
const TOGETHER: usize = 4;

/// Runs a body for `$r` in `0..$n` and registers `$u` of a row, of which `$k` lanes are there; all of them where `$whole`.
macro_rules! side_by_side {
    ($R:ty, $n:expr, $whole:expr, $lanes:expr, |$r:ident, $u:ident, $k:ident| $body:block) => {
        if $whole {
            for $r in 0..$n {
                for $u in 0..TOGETHER {
                    let $k = <$R as Register>::WIDTH;
                    $body
                }
            }
        } else {
            for $u in 0..TOGETHER {
                let $k = $lanes($u);
                for $r in 0..if $k > 0 { $n } else { 0 } {
                    $body
                }
            }
        }
    };
}

/// Mean and squared deviations of each channel over a range of rows.
struct ColumnMoments<T: Float> {
    x: *const T,
    step: isize,
    rows: Range<usize>,
    c: usize,
    m: *mut [T::Acc; 2],
}

impl<T: Float> WithSimd for ColumnMoments<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ColumnMoments { x, step, rows, c, m } = self;
        let width = Reg::<S, T>::WIDTH;
        let mut from = rows.start;
        while from < rows.end {
            let len = SUB_BLOCK.min(rows.end - from);
            let (before, share) = ((from - rows.start) as f64, len as f64 / (from - rows.start + len) as f64);
            for i in (0..c).step_by(TOGETHER * width) {
                let k = |u: usize| width.min(c.saturating_sub(i + u * width));
                let whole = i + TOGETHER * width <= c;
                // SAFETY: rows and channels are inside.
                unsafe {
                    let at = |r: usize| x.offset((from + r) as isize * step).add(i);
                    let zero = Reg::<S, T>::splat(0.0);
                    let mut mean = [zero; TOGETHER];
                    side_by_side!(Reg<S, T>, len, whole, k, |r, u, k| {
                        mean[u] = mean[u] + T::load_n::<S>(at(r).add(u * width), k);
                    });
                    mean = mean.map(|sum| sum * Reg::<S, T>::splat(1.0 / len as f64));
                    let mut m2 = [zero; TOGETHER];
                    side_by_side!(Reg<S, T>, len, whole, k, |r, u, k| {
                        let d = T::load_n::<S>(at(r).add(u * width), k) - mean[u];
                        m2[u] = d.fma(d, m2[u]);
                    });
                    // Into what the rows before gave.
                    for u in (0..TOGETHER).take_while(|u| k(*u) > 0) {
                        let (mut means, mut squares) = ([T::Acc::of(0.0); 16], [T::Acc::of(0.0); 16]);
                        mean[u].store(means.as_mut_ptr());
                        m2[u].store(squares.as_mut_ptr());
                        for j in 0..k(u) {
                            let [old, old2] = &mut *m.add(i + u * width + j);
                            let d = means[j] - *old;
                            *old = *old + d * T::Acc::of(share);
                            *old2 = *old2 + squares[j] + d * d * T::Acc::of(before * share);
                        }
                    }
                }
            }
            from += len;
        }
    }
}

/// The affine map on rows of samples by channels, each channel with its mean, scale and shift.
struct ApplyRows<'a, T: Float> {
    x: &'a Rows<T>,
    y: &'a Rows<T>,
    n: usize,
    rows: Range<usize>,
    by: &'a [[T::Acc; 3]],
}

impl<T: Float> WithSimd for ApplyRows<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for row in self.rows {
            let (i, c) = (row / self.by.len(), row % self.by.len());
            let [m, a, b] = self.by[c].map(Reg::<S, T>::all_of);
            let (x, y) = (self.x.at(i, c).cast_const(), self.y.at(i, c));
            // SAFETY: the rows lie where they are read and hold n elements.
            unsafe {
                by_register!(Reg<S, T>, self.n, |i, k, _u| {
                    T::store_n::<S>((T::load_n::<S>(x.add(i), k) - m).fma(a, b), y.add(i), k);
                });
            }
        }
    }
}

struct ApplyColumns<T: Float> {
    x: *const T,
    y: *mut T,
    down: isize,
    down_y: isize,
    rows: usize,
    c: usize,
    /// Means, scales and shifts of the channels.
    by: [*const T::Acc; 3],
}

impl<T: Float> WithSimd for ApplyColumns<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let [mean, scale, shift] = self.by;
        for r in 0..self.rows as isize {
            // SAFETY: rows and channels are inside.
            unsafe {
                let (x, y) = (self.x.offset(r * self.down), self.y.offset(r * self.down_y));
                by_register!(Reg<S, T>, self.c, |i, k, _u| {
                    let v = T::load_n::<S>(x.add(i), k) - Reg::<S, T>::load_n(mean.add(i), k);
                    let v = v.fma(Reg::<S, T>::load_n(scale.add(i), k), Reg::<S, T>::load_n(shift.add(i), k));
                    T::store_n::<S>(v, y.add(i), k);
                });
            }
        }
    }
}

pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let x = l.input(1)?;
    // SAFETY: the views are valid by the launch's contract.
    by_float!("batch_norm_backward", x.dtype, T => unsafe { backward_of::<T>(l, &x) })
}

unsafe fn backward_of<T: Float>(l: &Launch<'_>, x: &View) -> Result<()> {
    let (g, gx, isa) = (l.input(0)?, l.opt_output(0), isa());
    let BatchNormBackwardParams { training } = l.read()?;
    let (n_channels, n) = (x.sizes[1] as usize, x.numel());
    let each = (n / n_channels.max(1)) as f64;
    // SAFETY: the views outlive the launch.
    let parameters: [Run<T::Acc>; 3] =
        unsafe { [Run::new(l.opt_input(4))?, Run::new(l.opt_input(2))?, Run::new(l.opt_input(3))?] };
    let [w, mean, rstd] = parameters.each_ref().map(|p| Shared::<T::Acc>::new(p.ptr() as *mut u8));
    // gx = a g + b + (mean - x) q: [a, b, mean, q] of a channel.
    // SAFETY: statistics and weights have one number a channel.
    let map = |c: usize, [sum_g, sum_gx]: Sums| unsafe {
        let c = c as isize;
        let (m, r) = (*mean.at(c), (*rstd.at(c)).to_f64());
        let a = r * if w.at(0).is_null() { 1.0 } else { (*w.at(c)).to_f64() };
        let (b, q) = if training { (-a * sum_g / each, a * r * r * sum_gx / each) } else { (0.0, 0.0) };
        [T::Acc::of(a), T::Acc::of(b), m, T::Acc::of(q)]
    };
    let mut sums: Vec<Sums> = vec![[0.0; 2]; n_channels];
    let wanted = training || l.opt_output(1).is_some() || l.opt_output(2).is_some();
    let steps = (columns(&g), columns(x), gx.as_ref().map_or(Some(0), columns));
    if let (Some(dg), Some(dx), Some(dy)) = steps {
        let rows = n / n_channels.max(1);
        let (g, x) = (Shared::<T>::new(g.ptr), Shared::<T>::new(x.ptr));
        if wanted {
            let fold = |rows, m: *mut [T::Acc; 2]| ColumnSums {
                g: g.at(0),
                x: x.at(0),
                down: [dg, dx],
                rows,
                c: n_channels,
                mean: mean.at(0),
                m,
            };
            for of in by_blocks::<T, _>(isa, rows, n_channels, fold).1.chunks(n_channels.max(1)) {
                for (s, b) in sums.iter_mut().zip(of) {
                    *s = [s[0] + b[0].to_f64(), s[1] + b[1].to_f64()];
                }
            }
        }
        if let Some(gx) = gx.map(|v| Shared::<T>::new(v.ptr)) {
            let maps: Vec<_> = sums.iter().enumerate().map(|(c, s)| map(c, *s)).collect();
            let by = Planes::new(&maps, n_channels);
            split(rows, 0.4 * n_channels as f64 + 4.0, &|r| {
                let from = r.start as isize;
                let (g, x, gx) = (g.at(from * dg), x.at(from * dx), gx.at(from * dy));
                let down = [dg, dx, dy];
                dispatch(isa, BackwardColumns { g, x, gx, down, rows: r.len(), c: n_channels, by: by.ptrs() });
            });
        }
    } else {
        let (gs, xs, os) = (Rows::<T>::new(&g), Rows::<T>::new(x), Rows::<T>::new(gx.as_ref().unwrap_or(x)));
        let (batch, s, wants_x) = (x.sizes[0] as usize, xs.row.len(), gx.is_some());
        let bytes = (gs.row.scratch() + xs.row.scratch() + os.row.scratch()) * size_of::<T>();
        let all = Shared::<Sums>::new(sums.as_mut_ptr().cast());
        split(n_channels, 0.7 * (batch * s) as f64 + 20.0, &|r| {
            with_scratch(bytes, |scratch| {
                let a = scratch.cast::<T>();
                let (b, o) = (a.wrapping_add(gs.row.scratch()), a.wrapping_add(gs.row.scratch() + xs.row.scratch()));
                for c in r {
                    // SAFETY: the indices are inside; scratch has room for a row of each; a channel belongs to one task.
                    unsafe {
                        let sum = &mut *all.at(c as isize);
                        if wanted {
                            for (i, lines) in runs(batch, gs.direct() && xs.direct(), CACHED / s.max(1)) {
                                let (g, x) = (gs.read(i, c, a), xs.read(i, c, b));
                                let (mean, down) = (*mean.at(c as isize), [gs.down, xs.down]);
                                let [p, q] = dispatch(isa, RowSums { g, x, n: s, lines, down, mean });
                                *sum = [sum[0] + p, sum[1] + q];
                            }
                        }
                        if wants_x {
                            let by = map(c, *sum);
                            for (i, lines) in runs(batch, gs.direct() && xs.direct() && os.direct(), batch) {
                                let (g, x, at) = (gs.read(i, c, a), xs.read(i, c, b), os.at(i, c));
                                let (gx, down) = (os.row.place(at, o), [gs.down, xs.down, os.down]);
                                dispatch(isa, BackwardRow { g, x, gx, n: s, lines, down, by });
                                os.row.finish(at, o);
                            }
                        }
                    }
                }
            })
        });
    }
    for (c, [sum_g, sum_gx]) in sums.iter().enumerate() {
        // SAFETY: statistics and gradients have one number a channel.
        unsafe {
            if let Some(gw) = l.opt_output(1) {
                write(&gw, c as isize * step(&gw), sum_gx * (*rstd.at(c as isize)).to_f64())?;
            }
            if let Some(gb) = l.opt_output(2) {
                write(&gb, c as isize * step(&gb), *sum_g)?;
            }
        }
    }
    Ok(())
}

/// Sums of g and of g (x - mean) of each channel over a range of rows.
struct ColumnSums<T: Float> {
    g: *const T,
    x: *const T,
    down: [isize; 2],
    rows: Range<usize>,
    c: usize,
    mean: *const T::Acc,
    m: *mut [T::Acc; 2],
}

impl<T: Float> WithSimd for ColumnSums<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ColumnSums { g, x, down: [dg, dx], rows, c, mean, m } = self;
        let width = Reg::<S, T>::WIDTH;
        let mut from = rows.start;
        while from < rows.end {
            let len = SUB_BLOCK.min(rows.end - from);
            for i in (0..c).step_by(TOGETHER * width) {
                let k = |u: usize| width.min(c.saturating_sub(i + u * width));
                let whole = i + TOGETHER * width <= c;
                // SAFETY: rows and channels are inside.
                unsafe {
                    let mut means = [Reg::<S, T>::splat(0.0); TOGETHER];
                    for u in (0..TOGETHER).take_while(|u| k(*u) > 0) {
                        means[u] = Reg::<S, T>::load_n(mean.add(i + u * width), k(u));
                    }
                    let (mut a, mut b) = ([Reg::<S, T>::splat(0.0); TOGETHER], [Reg::<S, T>::splat(0.0); TOGETHER]);
                    side_by_side!(Reg<S, T>, len, whole, k, |r, u, k| {
                        let (at, i) = ((from + r) as isize, i + u * width);
                        let gv = T::load_n::<S>(g.offset(at * dg).add(i), k);
                        a[u] = a[u] + gv;
                        b[u] = gv.fma(T::load_n::<S>(x.offset(at * dx).add(i), k) - means[u], b[u]);
                    });
                    for u in (0..TOGETHER).take_while(|u| k(*u) > 0) {
                        let (mut p, mut q) = ([T::Acc::of(0.0); 16], [T::Acc::of(0.0); 16]);
                        a[u].store(p.as_mut_ptr());
                        b[u].store(q.as_mut_ptr());
                        for j in 0..k(u) {
                            let [old_p, old_q] = &mut *m.add(i + u * width + j);
                            (*old_p, *old_q) = (*old_p + p[j], *old_q + q[j]);
                        }
                    }
                }
            }
            from += len;
        }
    }
}

struct BackwardColumns<T: Float> {
    g: *const T,
    x: *const T,
    gx: *mut T,
    down: [isize; 3],
    rows: usize,
    c: usize,
    by: [*const T::Acc; 4],
}

impl<T: Float> WithSimd for BackwardColumns<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let ([a, b, m, q], [dg, dx, dy]) = (self.by, self.down);
        for r in 0..self.rows as isize {
            // SAFETY: rows and channels are inside.
            unsafe {
                let (g, x, gx) = (self.g.offset(r * dg), self.x.offset(r * dx), self.gx.offset(r * dy));
                by_register!(Reg<S, T>, self.c, |i, k, _u| {
                    let at = |p: *const T::Acc| Reg::<S, T>::load_n(p.add(i), k);
                    let g = T::load_n::<S>(g.add(i), k).fma(at(a), at(b));
                    let d = at(m) - T::load_n::<S>(x.add(i), k);
                    T::store_n::<S>(d.fma(at(q), g), gx.add(i), k);
                });
            }
        }
    }
}
