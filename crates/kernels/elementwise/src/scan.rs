//! SCAN: inclusive sums, products, maxima and minima along one dimension.
//!
//! Floats accumulate in f64. One scan is sequential; independent ones run side by side and on the pool.

use crate::complex;
use crate::io::{Load, Store, by_compute, unsupported};
use crate::vector::{Fold, Max, Min, Prod, Reduce, Sum};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{self, Grid, Shared};
use oneflow_kernels_prim::{Launch, ReduceKind, ScanParams, Simd, View, WithSimd, dispatch, isa};
use std::marker::PhantomData;

/// Columns of a strip, and elements of a run held at a time.
const STRIP: usize = 256;

pub unsafe fn scan(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let ScanParams { kind, dim } = l.read()?;
    if x.sizes != out.sizes || dim >= x.ndim().max(1) {
        return Err(Error::runtime(format!(
            "scan: input {:?} and output {:?} do not fit along {dim}",
            x.sizes, out.sizes
        )));
    }
    if x.dtype.is_complex() || out.dtype.is_complex() {
        // The parts are one more dimension at the end, which no scan may run along.
        let dim = if x.ndim() == 0 { 1 } else { dim };
        // SAFETY: the launch's contract.
        return unsafe {
            match kind {
                ReduceKind::Sum => complex::by_parts(x, out, &|x, out| by_compute!(out.dtype, sum(x, out, dim))),
                ReduceKind::Prod => complex::cumprod(x, out, dim),
                _ => Err(unsupported(x.dtype)),
            }
        };
    }
    let dtype = match (x.dtype.compute(), out.dtype.compute()) {
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        (DType::F32, _) | (_, DType::F32) => DType::F32,
        _ => DType::I64,
    };
    // SAFETY: the launch's contract.
    unsafe {
        match kind {
            ReduceKind::Sum => by_compute!(dtype, sum(x, out, dim)),
            ReduceKind::Prod => by_compute!(dtype, prod(x, out, dim)),
            ReduceKind::Max => by_compute!(dtype, max(x, out, dim)),
            ReduceKind::Min => by_compute!(dtype, min(x, out, dim)),
            other => Err(Error::runtime(format!("scan: {other:?} is no scan"))),
        }
    }
}

unsafe fn sum<T: Reduce>(x: View<'_>, out: View<'_>, dim: usize) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { run::<T, Sum>(x, out, dim) }
}
unsafe fn prod<T: Reduce>(x: View<'_>, out: View<'_>, dim: usize) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { run::<T, Prod>(x, out, dim) }
}
unsafe fn max<T: Reduce>(x: View<'_>, out: View<'_>, dim: usize) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { run::<T, Max>(x, out, dim) }
}
unsafe fn min<T: Reduce>(x: View<'_>, out: View<'_>, dim: usize) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { run::<T, Min>(x, out, dim) }
}

/// One row of columns: every accumulator takes its element and gives the result.
struct Step<'a, T: Reduce, F>(&'a mut [T], &'a mut [T::Wide], PhantomData<F>);
impl<T: Reduce, F: Fold> WithSimd for Step<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (v, a) in self.0.iter_mut().zip(self.1) {
            *a = T::join_wide::<F>(*a, v.widen());
            *v = T::narrow(*a);
        }
    }
}

unsafe fn run<T: Reduce, F: Fold>(x: View<'_>, out: View<'_>, dim: usize) -> Result<()> {
    let (load, store) = (T::load(x.dtype)?, T::store(out.dtype)?);
    let n = x.sizes.get(dim).copied().unwrap_or(1) as usize;
    let along = [x, out].map(|v| v.strides.get(dim).copied().unwrap_or(0) as isize);
    let mut grid = Grid::<2>::without(x.sizes, [x.strides, out.strides], dim);
    if grid.is_empty() || n == 0 {
        return Ok(());
    }
    let by_columns = grid.inner().1[1].abs() < along[1].abs() && grid.inner().0 > 1;
    let (width, inner) = if by_columns { grid.pop_inner() } else { (1, [0; 2]) };
    let job = Job::<T> {
        src: Shared::new(x.ptr),
        dst: Shared::new(out.ptr),
        sizes: [x.dtype.size() as isize, out.dtype.size() as isize],
        load,
        store,
        n,
        along,
    };
    if by_columns {
        let strips = width.div_ceil(STRIP);
        rows::split(grid.len() * strips, n as f64 * width.min(STRIP) as f64 * 0.4, &|r| {
            for u in r {
                let col = u % strips * STRIP;
                grid.each(u / strips..u / strips + 1, |_, offsets| {
                    let at = std::array::from_fn(|k| offsets[k] + col as isize * inner[k]);
                    // SAFETY: the strip lies in the views and belongs to this unit.
                    unsafe { job.columns::<F>(at, inner, STRIP.min(width - col)) };
                });
            }
        });
        return Ok(());
    }
    rows::split(grid.len().div_ceil(SIDE), (n * SIDE) as f64 * 0.5, &|r| {
        let mut at = [[0isize; 2]; SIDE];
        grid.each(r.start * SIDE..grid.len().min(r.end * SIDE), |i, offsets| {
            at[i % SIDE] = offsets;
            if i % SIDE + 1 == SIDE || i + 1 == grid.len() {
                // SAFETY: the runs lie in the views and belong to this unit.
                unsafe { job.runs::<F>(&at[..i % SIDE + 1]) };
            }
        });
    });
    Ok(())
}

/// Runs scanned side by side: their additions do not wait for each other. Those of integers take a cycle.
const SIDE: usize = 4;

struct Job<T: Reduce> {
    src: Shared<u8>,
    dst: Shared<u8>,
    sizes: [isize; 2],
    load: Load<T>,
    store: Store<T>,
    n: usize,
    along: [isize; 2],
}

impl<T: Reduce> Job<T> {
    /// A strip of columns. Elements are read before their results are written, so the output may be the input.
    unsafe fn columns<F: Fold>(&self, at: [isize; 2], inner: [isize; 2], width: usize) {
        let mut buf = [T::default(); STRIP];
        let mut acc = [T::id::<F>(); STRIP];
        for i in 0..self.n as isize {
            // SAFETY: the caller's strip.
            unsafe {
                let src = self.src.at((at[0] + i * self.along[0]) * self.sizes[0]);
                (self.load)(src, inner[0], width, buf.as_mut_ptr());
                dispatch(isa(), Step::<T, F>(&mut buf[..width], &mut acc[..width], PhantomData));
                (self.store)(buf.as_ptr(), width, self.dst.at((at[1] + i * self.along[1]) * self.sizes[1]), inner[1]);
            }
        }
    }

    /// Up to four runs.
    unsafe fn runs<F: Fold>(&self, at: &[[isize; 2]]) {
        let mut buf = [[T::default(); STRIP]; SIDE];
        let mut acc = [T::id::<F>(); SIDE];
        let mut i = 0;
        while i < self.n {
            let m = STRIP.min(self.n - i);
            let offset = |k: usize, side: usize| (at[k][side] + i as isize * self.along[side]) * self.sizes[side];
            // SAFETY: the caller's runs.
            unsafe {
                for (k, b) in buf.iter_mut().enumerate().take(at.len()) {
                    (self.load)(self.src.at(offset(k, 0)), self.along[0], m, b.as_mut_ptr());
                }
                if at.len() == SIDE && T::DTYPE != DType::I64 {
                    let next = |s: &mut T::Wide, v: &mut T| {
                        *s = T::join_wide::<F>(*s, v.widen());
                        *v = T::narrow(*s);
                    };
                    let [a, b, c, d] = &mut buf;
                    let [mut p, mut q, mut r, mut s] = acc;
                    for (((a, b), c), d) in a.iter_mut().zip(b).zip(c).zip(d).take(m) {
                        next(&mut p, a);
                        next(&mut q, b);
                        next(&mut r, c);
                        next(&mut s, d);
                    }
                    acc = [p, q, r, s];
                } else {
                    for (b, acc) in buf.iter_mut().zip(&mut acc).take(at.len()) {
                        let mut sum = *acc;
                        for v in &mut b[..m] {
                            sum = T::join_wide::<F>(sum, v.widen());
                            *v = T::narrow(sum);
                        }
                        *acc = sum;
                    }
                }
                for (k, b) in buf.iter().enumerate().take(at.len()) {
                    (self.store)(b.as_ptr(), m, self.dst.at(offset(k, 1)), self.along[1]);
                }
            }
            i += m;
        }
    }
}
