//! SEARCHSORTED: binary search of values in sorted rows.

use crate::num::Real;
use oneflow_base::{DType, Error, Result, by_dtype};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Launch, SearchsortedParams, View};

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
const TOGETHER: usize = 8;

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
    let grid = Grid::new(out.sizes, [out.strides, values.strides, &row, &order_row]);
    let (out, values, sorted) = (Shared::<I>::new(out.ptr), Shared::<T>::new(values.ptr), Shared::<T>::new(sorted.ptr));
    let sorter = sorter.map(|s| Shared::<i64>::new(s.ptr));
    let units = grid.len().div_ceil(TOGETHER);
    split(units, TOGETHER as f64 * (n.max(2) as f64).log2(), &|r| {
        for u in r {
            let (first, end) = (u * TOGETHER, grid.len().min((u + 1) * TOGETHER));
            let (mut keys, mut rows, mut to) = ([0u64; TOGETHER], [(0, 0); TOGETHER], [0isize; TOGETHER]);
            grid.each(first..end, |i, [o, v, s, p]| {
                // SAFETY: the offset lies inside the view.
                keys[i - first] = unsafe { sought(*values.at(v)) };
                (rows[i - first], to[i - first]) = ((s, p), o);
            });
            let read = |(s, p): (isize, isize), i: usize| {
                // SAFETY: the offsets lie inside the views, the sorter's indices inside the row.
                unsafe {
                    let at = sorter.map_or(i as isize, |t| *t.at(p + i as isize * order_step) as isize);
                    let x = *sorted.at(s + at * step);
                    if x.is_nan() { 0 } else { x.key() }
                }
            };
            let found = find(n, &keys, right, |k, i| read(rows[k], i));
            for (o, from) in to[..end - first].iter().zip(found) {
                // SAFETY: the offset lies inside the view.
                unsafe { *out.at(*o) = I::of(from) };
            }
        }
    });
}

/// The key of what is looked for. As in PyTorch, where no comparison with NaN holds, every number stands before NaN, and a
/// NaN of the row (whose key is zero) before every number.
#[inline(always)]
fn sought<T: Real>(value: T) -> u64 {
    if value.is_nan() { u64::MAX } else { value.key() }
}

/// Where keys belong in their rows of `n` elements, of which `read(k, i)` gives the key of number `i`. Halves without a
/// branch that would depend on the data, so that the searches overlap. The middle is PyTorch's, which decides what comes
/// out where a row is not sorted.
#[inline(always)]
fn find<const K: usize>(n: usize, keys: &[u64; K], right: bool, read: impl Fn(usize, usize) -> u64) -> [usize; K] {
    let (mut from, mut left) = ([0; K], [n; K]);
    for _ in 0..usize::BITS - n.leading_zeros() {
        for k in 0..K {
            let half = left[k] / 2;
            let mid = from[k] + half;
            let x = read(k, mid.min(n - 1));
            let behind = (x < keys[k] || right && x == keys[k]) && left[k] > 0;
            from[k] = if behind { mid + 1 } else { from[k] };
            left[k] = if behind { left[k] - half - 1 } else { half };
        }
    }
    from
}
