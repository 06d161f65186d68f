//! SEARCHSORTED: binary search of values in sorted rows.

use crate::num::Real;
use oneflow_base::{DType, Error, Result, by_dtype};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Launch, SearchsortedParams, Simd, View, WithSimd, dispatch, isa};

pub unsafe fn searchsorted(l: &Launch<'_>) -> Result<()> {
    let (sorted, values, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let (sorter, SearchsortedParams { right }) = (l.opt_input(2), l.read()?);
    if sorted.dtype != values.dtype {
        let (a, b) = (sorted.dtype, values.dtype);
        return Err(Error::not_implemented(format!("searchsorted: {b} values in a {a} sequence are cast before")));
    }
    if let Some(s) = &sorter {
        crate::check::check(s, s.ndim().saturating_sub(1), sorted.sizes.last().copied().unwrap_or(0))
            .map_err(|_| Error::runtime("searchsorted(): sorter index out of range"))?;
    }
    by_dtype!(sorted.dtype, reals, T => match out.dtype {
        // SAFETY: the views are valid by the launch's contract, and the sorter's indices are checked.
        DType::I32 => unsafe { search::<T, i32>(&sorted, &values, sorter.as_ref(), &out, right) },
        // SAFETY: as above.
        _ => unsafe { search::<T, i64>(&sorted, &values, sorter.as_ref(), &out, right) },
    }, _ => return Err(Error::not_implemented(format!("searchsorted: complex numbers have no order (dtype {})", sorted.dtype))));
    Ok(())
}

/// Searches that are made at a time.
const TOGETHER: usize = 16;
/// Values of a task's step: some runs of searches in one row.
const RUN: usize = 256;

trait Position: Copy + Send + Sync + 'static {
    fn of(i: usize) -> Self;
}
impl Position for i32 {
    fn of(i: usize) -> i32 {
        i as i32
    }
}
impl Position for i64 {
    fn of(i: usize) -> i64 {
        i as i64
    }
}

unsafe fn search<T: Real, I: Position>(sorted: &View, values: &View, sorter: Option<&View>, out: &View, right: bool) {
    let n = sorted.sizes.last().copied().unwrap_or(0) as usize;
    let last = |v: &View| v.strides.last().copied().unwrap_or(0) as isize;
    let (step, order_step) = (last(sorted), sorter.map_or(0, last));
    let rows = sorted.ndim().saturating_sub(1);
    // Strides of the sorted rows along the values' dimensions; one row serves all of them.
    let along = |v: &View| -> Vec<i64> {
        (0..values.ndim()).map(|d| if v.ndim() > 1 && d < rows { v.strides[d] } else { 0 }).collect()
    };
    let (row, order_row) = (along(sorted), sorter.map_or_else(|| vec![0; values.ndim()], along));
    let mut grid = Grid::new(out.sizes, [out.strides, values.strides, &row, &order_row]);
    let (length, [out_step, value_step, row_step, order_row_step]) = grid.pop_inner();
    let (out, values, sorted) = (Shared::<I>::new(out.ptr), Shared::<T>::new(values.ptr), Shared::<T>::new(sorted.ptr));
    let sorter = sorter.map(|s| Shared::<i64>::new(s.ptr));
    let direct = sorter.is_none() && step == 1 && row_step == 0 && n < i32::MAX as usize;
    let runs = length.div_ceil(RUN);
    split(grid.len() * runs, RUN.min(length) as f64 * (n.max(2) as f64).log2(), &|units| {
        for u in units {
            let (nest, start) = (u / runs, u % runs * RUN);
            grid.each(nest..nest + 1, |_, [o, v, s, p]| {
                for start in (start..length.min(start + RUN)).step_by(TOGETHER) {
                    let m = TOGETHER.min(length - start);
                    let place = |k: usize| (start + k.min(m - 1)) as isize;
                    // SAFETY: the offset lies inside the view.
                    let sought: [T; TOGETHER] =
                        std::array::from_fn(|k| unsafe { *values.at(v + place(k) * value_step) });
                    let found = if direct {
                        let find = Find { row: sorted.at(s).cast_const(), n, sought: &sought };
                        if right { dispatch(isa(), Right(find)) } else { dispatch(isa(), Left(find)) }
                    } else {
                        let read = |k: usize, i: usize| {
                            // SAFETY: the offsets lie inside the views, the sorter's indices inside the row.
                            unsafe {
                                let order = p + place(k) * order_row_step + i as isize * order_step;
                                let at = sorter.map_or(i as isize, |t| *t.at(order) as isize);
                                *sorted.at(s + place(k) * row_step + at * step)
                            }
                        };
                        find(n, &sought, right, read)
                    };
                    for (k, from) in found[..m].iter().enumerate() {
                        // SAFETY: the offset lies inside the view.
                        unsafe { *out.at(o + place(k) * out_step) = I::of(*from as usize) };
                    }
                }
            });
        }
    });
}

/// Places of values in one row of neighbouring elements.
struct Find<'a, T> {
    row: *const T,
    n: usize,
    sought: &'a [T; TOGETHER],
}

impl<T: Real> Find<'_, T> {
    #[inline(always)]
    fn found(self, right: bool) -> [u64; TOGETHER] {
        let Find { row, n, sought } = self;
        // SAFETY: an element of the row.
        find(n, sought, right, |_, i| unsafe { *row.add(i) })
    }
}

/// Before equal elements.
struct Left<'a, T>(Find<'a, T>);
impl<T: Real> WithSimd for Left<'_, T> {
    type Output = [u64; TOGETHER];
    #[inline(always)]
    fn run<S: Simd>(self) -> Self::Output {
        self.0.found(false)
    }
}

/// Behind equal elements.
struct Right<'a, T>(Find<'a, T>);
impl<T: Real> WithSimd for Right<'_, T> {
    type Output = [u64; TOGETHER];
    #[inline(always)]
    fn run<S: Simd>(self) -> Self::Output {
        self.0.found(true)
    }
}

/// Where values belong in their rows of `n` elements, of which `read(k, i)` gives element i of row k. Halves without a branch
/// that would depend on the data, so that the searches overlap. The middle is PyTorch's, which decides what comes out where a
/// row is not sorted; as there no comparison with NaN holds.
#[inline(always)]
fn find<T: Real>(n: usize, sought: &[T; TOGETHER], right: bool, read: impl Fn(usize, usize) -> T) -> [u64; TOGETHER] {
    let (mut from, mut left) = ([0u64; TOGETHER], [n as u64; TOGETHER]);
    for _ in 0..usize::BITS - n.leading_zeros() {
        for k in 0..TOGETHER {
            let half = left[k] / 2;
            let middle = from[k] + half;
            let (x, value) = (read(k, middle.min(n as u64 - 1) as usize), sought[k]);
            let above = x.at_least(value) & !(right & value.at_least(x));
            // One more than the half that is passed over, nothing where the search has ended.
            let behind = u64::from(!above & (left[k] > 0));
            from[k] += behind * (half + 1);
            left[k] = half - (behind & !left[k] & 1);
        }
    }
    from
}
