//! COUNT_NONZERO and NONZERO. NaN is not zero, -0 is.

use crate::num::{Complex, Num, by_num};
use oneflow_base::{DType, Dims, Error, Result};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Launch, View};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! by_any {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::C64 => { type $T = Complex<f32>; $body }
            DType::C128 => { type $T = Complex<f64>; $body }
            d => by_num!(d, $T => $body, complex => unreachable!("complex dtypes are matched above")),
        }
    };
}

pub unsafe fn count_nonzero(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    // SAFETY: the views are valid by the launch's contract.
    unsafe {
        let n = by_any!(x.dtype, T => count::<T>(&x));
        *out.ptr.cast::<i64>() = n as i64;
    }
    Ok(())
}

unsafe fn count<T: Num>(x: &View) -> u64 {
    const BLOCK: usize = 4096;
    let mut grid = Grid::new(x.sizes, [x.strides]);
    let (n, [step]) = grid.pop_inner();
    let x = Shared::<T>::new(x.ptr);
    let blocks = n.div_ceil(BLOCK);
    let total = AtomicU64::new(0);
    split(grid.len() * blocks, n.min(BLOCK) as f64 * 0.4, &|r| {
        let mut sum = 0;
        for u in r {
            let (row, from) = (u / blocks, u % blocks * BLOCK);
            let len = (n - from).min(BLOCK);
            grid.each(row..row + 1, |_, [off]| {
                // SAFETY: the row lies inside the view.
                sum += unsafe {
                    if step == 1 {
                        let s = std::slice::from_raw_parts(x.at(off).add(from), len);
                        s.iter().map(|v| !v.is_zero() as u32).sum::<u32>() as u64
                    } else {
                        (from..from + len).filter(|j| !(*x.at(off + *j as isize * step)).is_zero()).count() as u64
                    }
                };
            });
        }
        total.fetch_add(sum, Relaxed);
    });
    total.into_inner()
}

pub unsafe fn nonzero(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let (n, nd) = (out.sizes[0], x.ndim());
    if nd == 0 || n == 0 {
        return Ok(());
    }
    let (rows, last) = (Grid::new(&x.sizes[..nd - 1], [&x.strides[..nd - 1]]), nd - 1);
    let (cols, step) = (x.sizes[last], x.strides[last] as isize);
    let (down, right) = (out.strides[0] as isize, out.strides[1] as isize);
    let out = out.ptr.cast::<i64>();
    let mut found = 0;
    by_any!(x.dtype, T => {
        let p = x.ptr.cast::<T>();
        rows.each(0..rows.len(), |row, [off]| {
            let (mut at, mut rest) = (Dims::from_elem(0, last), row as i64);
            for d in (0..last).rev() {
                at[d] = rest % x.sizes[d];
                rest /= x.sizes[d];
            }
            for j in 0..cols {
                // SAFETY: the position lies inside the view.
                if unsafe { (*p.offset(off + j as isize * step)).is_zero() } {
                    continue;
                }
                if found < n {
                    // SAFETY: fewer than n rows were written, and a row has one column a dimension.
                    unsafe {
                        let o = out.offset(found as isize * down);
                        *o.offset(last as isize * right) = j;
                        for (d, c) in at.iter().enumerate() {
                            *o.offset(d as isize * right) = *c;
                        }
                    }
                }
                found += 1;
            }
        });
    });
    if found != n {
        return Err(Error::runtime(format!("nonzero: {found} non-zero elements where {n} were counted")));
    }
    Ok(())
}
