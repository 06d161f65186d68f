//! SCAN: inclusive sums, products, maxima and minima along one dimension.
//!
//! Floats accumulate in f64. One scan is sequential; independent ones run side by side and on the pool.

use crate::io::{by_compute, unsupported};
use crate::vector::{Fold, Max, Min, Prod, Reduce, Sum};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{self, Grid, Shared};
use oneflow_kernels_prim::{Launch, ReduceKind, Simd, View, WithSimd, dispatch, isa};
use std::marker::PhantomData;

/// Columns of a strip, and elements of a run held at a time.
const STRIP: usize = 256;

pub unsafe fn scan(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let kind = ReduceKind::from_u64(l.param(0)?.0);
    let dim = l.param(1)?.usize();
    if x.sizes != out.sizes || dim >= x.ndim().max(1) {
        return Err(Error::runtime(format!(
            "scan: input {:?} and output {:?} do not fit along {dim}",
            x.sizes, out.sizes
        )));
    }
    if x.dtype.is_complex() || out.dtype.is_complex() {
        return Err(unsupported(if x.dtype.is_complex() { x.dtype } else { out.dtype }));
    }
    let dtype = match (x.dtype.compute(), out.dtype.compute()) {
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        (DType::F32, _) | (_, DType::F32) => DType::F32,
        _ => DType::I64,
    };
    // SAFETY: the launch's contract.
    unsafe {
        match kind {
            Some(ReduceKind::Sum) => by_compute!(dtype, sum(x, out, dim)),
            Some(ReduceKind::Prod) => by_compute!(dtype, prod(x, out, dim)),
            Some(ReduceKind::Max) => by_compute!(dtype, max(x, out, dim)),
            Some(ReduceKind::Min) => by_compute!(dtype, min(x, out, dim)),
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
    let (xb, ob) = (x.dtype.size() as isize, out.dtype.size() as isize);
    let n = x.sizes.get(dim).copied().unwrap_or(1) as usize;
    let along = [x, out].map(|v| v.strides.get(dim).copied().unwrap_or(0) as isize);
    let mut grid = Grid::<2>::without(x.sizes, [x.strides, out.strides], dim);
    if grid.is_empty() || n == 0 {
        return Ok(());
    }
    let by_columns = grid.inner().1[1].abs() < along[1].abs() && grid.inner().0 > 1;
    let (width, inner) = if by_columns { grid.pop_inner() } else { (1, [0; 2]) };
    let strips = width.div_ceil(STRIP);
    let (src, dst) = (Shared::<u8>::new(x.ptr), Shared::<u8>::new(out.ptr));
    rows::split(grid.len() * strips, n as f64 * width.min(STRIP) as f64, &|r| {
        let mut buf = [T::default(); STRIP];
        for u in r {
            let col = u % strips * STRIP;
            let m = STRIP.min(width - col);
            grid.each(u / strips..u / strips + 1, |_, offsets| {
                let at: [isize; 2] = std::array::from_fn(|k| offsets[k] + col as isize * inner[k]);
                // SAFETY: strips and runs lie in the views; each belongs to one unit. Elements are read before their
                // results are written, so the output may be the input.
                unsafe {
                    if by_columns {
                        let mut acc = [T::id::<F>(); STRIP];
                        for i in 0..n as isize {
                            load(src.at((at[0] + i * along[0]) * xb), inner[0], m, buf.as_mut_ptr());
                            dispatch(isa(), Step::<T, F>(&mut buf[..m], &mut acc[..m], PhantomData));
                            store(buf.as_ptr(), m, dst.at((at[1] + i * along[1]) * ob), inner[1]);
                        }
                    } else {
                        let mut acc = T::id::<F>();
                        let mut i = 0;
                        while i < n {
                            let m = STRIP.min(n - i);
                            load(src.at((at[0] + i as isize * along[0]) * xb), along[0], m, buf.as_mut_ptr());
                            for v in &mut buf[..m] {
                                acc = T::join_wide::<F>(acc, v.widen());
                                *v = T::narrow(acc);
                            }
                            store(buf.as_ptr(), m, dst.at((at[1] + i as isize * along[1]) * ob), along[1]);
                            i += m;
                        }
                    }
                }
            });
        }
    });
    Ok(())
}
