//! COUNT_NONZERO and NONZERO. NaN is not zero, -0 is.

use crate::num::{Complex, Num};
use oneflow_base::{DType, Error, Result, by_dtype};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Launch, Simd, View, WithSimd, dispatch, isa};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! by_any {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::C64 => { type $T = Complex<f32>; $body }
            DType::C128 => { type $T = Complex<f64>; $body }
            d => by_dtype!(d, reals, $T => $body, _ => unreachable!("complex dtypes are matched above")),
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
                let at = x.at(off + from as isize * step).cast_const();
                sum += dispatch(isa(), Count(Run { at, step, n: len, places: &mut [] })) as u64;
            });
        }
        total.fetch_add(sum, Relaxed);
    });
    total.into_inner()
}

pub unsafe fn nonzero(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    if x.ndim() == 0 || out.sizes[0] == 0 {
        return Ok(());
    }
    // SAFETY: the views are valid by the launch's contract.
    unsafe { by_any!(x.dtype, T => places::<T>(&x, &out)) }
}

/// Counts the set elements of each block of a row, so that every block knows where its places begin, then writes them.
unsafe fn places<T: Num>(x: &View, out: &View) -> Result<()> {
    const BLOCK: usize = 4096;
    let last = x.ndim() - 1;
    let (rows, step) = (Grid::new(&x.sizes[..last], [&x.strides[..last]]), x.strides[last] as isize);
    let (cols, elements) = (x.sizes[last] as usize, Shared::<T>::new(x.ptr));
    let blocks = cols.div_ceil(BLOCK);
    let units = rows.len() * blocks;
    // Calls `f` with the row of a block, its first column and its elements.
    let each = |u: usize, f: &mut dyn FnMut(usize, usize, Run<'_, T>)| {
        let (row, from) = (u / blocks, u % blocks * BLOCK);
        rows.each(row..row + 1, |row, [off]| {
            let at = elements.at(off + from as isize * step).cast_const();
            f(row, from, Run { at, step, n: cols.min(from + BLOCK) - from, places: &mut [] });
        });
    };
    let mut starts = vec![0usize; units + 1];
    let counts = Shared::<usize>::new(starts[1..].as_mut_ptr().cast());
    let ns = cols.min(BLOCK) as f64;
    split(units, ns, &|r| {
        for u in r {
            let mut n = 0;
            each(u, &mut |_, _, run| n += dispatch(isa(), Count(run)));
            // SAFETY: tasks write the counts of disjoint units.
            unsafe { *counts.at(u as isize) = n };
        }
    });
    for u in 0..units {
        starts[u + 1] += starts[u];
    }
    if starts[units] as i64 != out.sizes[0] {
        let (found, counted) = (starts[units], out.sizes[0]);
        return Err(Error::runtime(format!("nonzero: {found} non-zero elements where {counted} were counted")));
    }
    let (to, down, right) = (Shared::<i64>::new(out.ptr), out.strides[0] as isize, out.strides[1] as isize);
    split(units, 2.0 * ns, &|r| {
        for u in r {
            let mut places = [0u32; BLOCK];
            each(u, &mut |row, from, run| {
                let mut outer: SmallVec<[i64; 6]> = SmallVec::from_elem(0, last);
                let mut rest = row as i64;
                for d in (0..last).rev() {
                    (outer[d], rest) = (rest % x.sizes[d], rest / x.sizes[d]);
                }
                let n = dispatch(isa(), Run { places: &mut places, ..run });
                for (i, j) in (starts[u]..).zip(&places[..n]) {
                    // SAFETY: a unit writes as many rows as it counted, and a row has one column a dimension.
                    unsafe {
                        let at = to.at(i as isize * down);
                        *at.offset(last as isize * right) = (from + *j as usize) as i64;
                        for (d, place) in outer.iter().enumerate() {
                            *at.offset(d as isize * right) = *place;
                        }
                    }
                }
            });
        }
    });
    Ok(())
}

/// Some elements of a row: finds the places of those that are not zero, and answers how many there are.
struct Run<'a, T> {
    at: *const T,
    step: isize,
    n: usize,
    places: &'a mut [u32],
}

impl<T: Num> WithSimd for Run<'_, T> {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self) -> usize {
        let mut found = 0;
        for j in 0..self.n {
            // Written anyway and kept where it counts, so that no branch depends on the data.
            // SAFETY: the position lies inside the view; no more are found than have been looked at.
            unsafe {
                *self.places.get_unchecked_mut(found) = j as u32;
                found += !(*self.at.offset(j as isize * self.step)).is_zero() as usize;
            }
        }
        found
    }
}

/// How many elements of a run are not zero.
struct Count<'a, T>(Run<'a, T>);
impl<T: Num> WithSimd for Count<'_, T> {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self) -> usize {
        let Run { at, step, n, .. } = self.0;
        // SAFETY: the positions lie inside the view.
        unsafe {
            match step {
                1 => std::slice::from_raw_parts(at, n).iter().map(|v| !v.is_zero() as u32).sum::<u32>() as usize,
                _ => (0..n).filter(|j| !(*at.offset(*j as isize * step)).is_zero()).count(),
            }
        }
    }
}
