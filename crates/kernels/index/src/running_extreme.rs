//! RUNNING_EXTREME: the greatest or smallest element so far along a dimension, and where it is.

use crate::num::Real;
use oneflow_base::{Error, Result, by_dtype};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Launch, RunningExtremeParams, Simd, View, WithSimd, dispatch, isa};

/// Columns of a strip.
const STRIP: usize = 64;
/// Rows that are read at a time where elements of a row lie apart.
const ROWS: usize = 4;
/// Elements of a row that are looked at together.
const CHUNK: usize = 32;

pub unsafe fn running_extreme(l: &Launch<'_>) -> Result<()> {
    let (x, values, places) = (l.input(0)?, l.output(0)?, l.output(1)?);
    let RunningExtremeParams { is_max, dim } = l.read()?;
    by_dtype!(x.dtype, reals, T => {
        // SAFETY: the views are valid by the launch's contract.
        unsafe {
            if is_max {
                along::<T, true>(&x, &values, &places, dim)
            } else {
                along::<T, false>(&x, &values, &places, dim)
            }
        }
    }, _ => return Err(Error::not_implemented(format!("running_extreme: complex numbers have no order (dtype {})", x.dtype))));
    Ok(())
}

/// Whether an element takes over from the extreme so far.
#[inline(always)]
fn takes<T: Real, const MAX: bool>(v: T, so_far: T) -> bool {
    (if MAX { v.at_least(so_far) } else { v.at_most(so_far) }) | v.is_nan()
}

/// A row of a strip: elements become extremes, with the places so far.
struct Row<'a, T, const MAX: bool>(&'a [T], &'a mut [T], &'a mut [i64], i64);
impl<T: Real, const MAX: bool> WithSimd for Row<'_, T, MAX> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for ((v, best), at) in self.0.iter().zip(self.1).zip(self.2) {
            let new = takes::<T, MAX>(*v, *best);
            *best = if new { *v } else { *best };
            *at = if new { self.3 } else { *at };
        }
    }
}

/// A row whose elements lie together. Most chunks of one hold nothing that takes over: they are filled.
struct Whole<'a, T, const MAX: bool>(&'a [T], &'a mut [T], &'a mut [i64]);
impl<T: Real, const MAX: bool> WithSimd for Whole<'_, T, MAX> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Whole(x, values, places) = self;
        let (Some(mut best), mut at) = (x.first().copied(), 0i64) else { return };
        let chunks = x.chunks(CHUNK).zip(values.chunks_mut(CHUNK)).zip(places.chunks_mut(CHUNK));
        for (c, ((x, values), places)) in chunks.enumerate() {
            if !x.iter().fold(false, |any, v| any | takes::<T, MAX>(*v, best)) {
                values.fill(best);
                places.fill(at);
                continue;
            }
            for (i, v) in x.iter().enumerate() {
                let new = takes::<T, MAX>(*v, best);
                best = if new { *v } else { best };
                at = if new { (c * CHUNK + i) as i64 } else { at };
                values[i] = best;
                places[i] = at;
            }
        }
    }
}

unsafe fn along<T: Real, const MAX: bool>(x: &View, values: &View, places: &View, dim: usize) {
    if x.numel() == 0 {
        return;
    }
    let none = [0i64; 1];
    let (mut grid, n, [xs, vs, ps]) = if x.ndim() == 0 {
        (Grid::new(&[], [&none[..0]; 3]), 1, [0; 3])
    } else {
        let strides = [x.strides, values.strides, places.strides];
        (Grid::without(x.sizes, strides, dim), x.sizes[dim] as isize, strides.map(|s| s[dim] as isize))
    };
    let (px, pv, pp) = (Shared::<T>::new(x.ptr), Shared::<T>::new(values.ptr), Shared::<i64>::new(places.ptr));
    let (width, inner) = grid.inner();
    if width > 1 && inner == [1; 3] {
        grid.pop_inner();
        let strips = width.div_ceil(STRIP);
        split(grid.len() * strips, n as f64 * STRIP as f64 * 0.5, &|r| {
            for u in r {
                let col = u % strips * STRIP;
                let m = STRIP.min(width - col);
                grid.each(u / strips..u / strips + 1, |_, off| {
                    let [a, b, c] = off.map(|o| o + col as isize);
                    // SAFETY: the strip lies in the views and belongs to this unit; a row is read before it is written.
                    unsafe {
                        let row = |i: isize| std::slice::from_raw_parts(px.at(a + i * xs).cast_const(), m);
                        let (mut best, mut at) = ([row(0)[0]; STRIP], [0i64; STRIP]);
                        best[..m].copy_from_slice(row(0));
                        for i in 0..n {
                            dispatch(isa(), Row::<T, MAX>(row(i), &mut best[..m], &mut at[..m], i as i64));
                            pv.at(b + i * vs).copy_from_nonoverlapping(best.as_ptr(), m);
                            pp.at(c + i * ps).copy_from_nonoverlapping(at.as_ptr(), m);
                        }
                    }
                });
            }
        });
        return;
    }
    if [xs, vs, ps] == [1; 3] {
        split(grid.len(), n as f64 * 0.5, &|r| {
            grid.each(r, |_, [a, b, c]| {
                // SAFETY: the rows lie in the views and are disjoint.
                let (x, values, places) = unsafe {
                    (
                        std::slice::from_raw_parts(px.at(a).cast_const(), n as usize),
                        std::slice::from_raw_parts_mut(pv.at(b), n as usize),
                        std::slice::from_raw_parts_mut(pp.at(c), n as usize),
                    )
                };
                dispatch(isa(), Whole::<T, MAX>(x, values, places));
            });
        });
        return;
    }
    // Some rows at a time: what is greatest in one does not wait for the others.
    let units = grid.len().div_ceil(ROWS);
    split(units, (n * ROWS as isize) as f64, &|r| {
        for u in r {
            let (from, to) = (u * ROWS, grid.len().min((u + 1) * ROWS));
            let mut starts = [[0isize; 3]; ROWS];
            grid.each(from..to, |i, off| starts[i - from] = off);
            let at = |off: [isize; 3]| (px.at(off[0]).cast_const(), pv.at(off[1]), pp.at(off[2]));
            // SAFETY: the rows lie in the views; rows are disjoint.
            unsafe {
                if to - from == ROWS {
                    rows::<T, MAX, ROWS>(starts.map(at), n, [xs, vs, ps]);
                } else {
                    starts[..to - from].iter().for_each(|s| rows::<T, MAX, 1>([at(*s)], n, [xs, vs, ps]));
                }
            }
        }
    });
}

/// `K` rows of `n` elements, from where each begins in the input, the values and the places.
unsafe fn rows<T: Real, const MAX: bool, const K: usize>(
    rows: [(*const T, *mut T, *mut i64); K],
    n: isize,
    [xs, vs, ps]: [isize; 3],
) {
    // SAFETY: the caller's.
    unsafe {
        let (mut best, mut at) = (rows.map(|r| *r.0), [0i64; K]);
        for i in 0..n {
            for (k, (x, values, places)) in rows.iter().enumerate() {
                let v = *x.offset(i * xs);
                let new = takes::<T, MAX>(v, best[k]);
                best[k] = if new { v } else { best[k] };
                at[k] = if new { i as i64 } else { at[k] };
                *values.offset(i * vs) = best[k];
                *places.offset(i * ps) = at[k];
            }
        }
    }
}
