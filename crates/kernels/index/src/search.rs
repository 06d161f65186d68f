//! SEARCHSORTED: binary search of values in sorted rows.

use crate::num::{Real, by_num};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Launch, View};

pub unsafe fn searchsorted(l: &Launch<'_>) -> Result<()> {
    let (sorted, values, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let (sorter, right) = (l.opt_input(2), l.param(0)?.bool());
    if sorted.dtype != values.dtype {
        let (a, b) = (sorted.dtype, values.dtype);
        return Err(Error::not_implemented(format!("searchsorted: {b} values in a {a} sequence are cast before")));
    }
    if let Some(s) = &sorter {
        crate::check::check(s, s.ndim().saturating_sub(1), sorted.sizes.last().copied().unwrap_or(0))
            .map_err(|_| Error::runtime("searchsorted(): sorter index out of range"))?;
    }
    by_num!(sorted.dtype, T => match out.dtype {
        // SAFETY: the views are valid by the launch's contract, and the sorter's indices are checked.
        DType::I32 => unsafe { search::<T, i32>(&sorted, &values, sorter.as_ref(), &out, right) },
        // SAFETY: as above.
        _ => unsafe { search::<T, i64>(&sorted, &values, sorter.as_ref(), &out, right) },
    }, complex => return Err(Error::not_implemented(format!("searchsorted: complex numbers have no order (dtype {})", sorted.dtype))));
    Ok(())
}

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
    split(grid.len(), 3.0 * (n.max(2) as f64).log2(), &|r| {
        grid.each(r, |_, [o, v, s, p]| {
            // SAFETY: the offsets lie inside the views, the sorter's indices inside the row.
            unsafe {
                let key = (*values.at(v)).key();
                // Halves without a branch that would depend on the data. The middle is PyTorch's, which decides what comes
                // out where the sequence is not sorted.
                let (mut from, mut left) = (0, n);
                while left > 0 {
                    let half = left / 2;
                    let mid = from + half;
                    let at = sorter.map_or(mid as isize, |t| *t.at(p + mid as isize * order_step) as isize);
                    let x = (*sorted.at(s + at * step)).key();
                    let behind = x < key || right && x == key;
                    from = if behind { mid + 1 } else { from };
                    left = if behind { left - half - 1 } else { half };
                }
                *out.at(o) = I::of(from);
            }
        });
    });
}
