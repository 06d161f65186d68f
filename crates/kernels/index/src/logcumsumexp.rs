//! LOGCUMSUMEXP: a running sum of exponentials, kept as its largest exponent and the sum relative to it.

use oneflow_base::{Result, by_float};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Acc, DimParams, Float, Launch, View};

pub unsafe fn logcumsumexp(l: &Launch<'_>) -> Result<()> {
    let (x, out, DimParams { dim }) = (l.input(0)?, l.output(0)?, l.read()?);
    by_float!("logcumsumexp", x.dtype, T => {
        // SAFETY: the views are valid by the launch's contract.
        unsafe { scan::<T>(&x, &out, dim) };
        Ok(())
    })
}

unsafe fn scan<T: Float>(x: &View, out: &View, dim: usize) {
    let (grid, n, [os, xs]) = if x.ndim() == 0 {
        (Grid::new(&[], [&[], &[]]), 1, [0, 0])
    } else {
        let steps = [out.strides[dim] as isize, x.strides[dim] as isize];
        (Grid::without(x.sizes, [out.strides, x.strides], dim), x.sizes[dim], steps)
    };
    let (out, x) = (Shared::<T>::new(out.ptr), Shared::<T>::new(x.ptr));
    split(grid.len(), 12.0 * n as f64, &|r| {
        grid.each(r, |_, [o, i]| {
            let (mut top, mut sum) = (f64::NEG_INFINITY, 0.0);
            for k in 0..n as isize {
                // SAFETY: position k lies inside the row of both views; rows are disjoint.
                unsafe {
                    let v = (*x.at(i + k * xs)).widen().to_f64();
                    if top.is_nan() {
                        // What follows NaN is NaN.
                    } else if v <= top {
                        // Equal infinities differ by nothing.
                        sum += if v == top { 1.0 } else { (v - top).exp() };
                    } else {
                        sum = if top == f64::NEG_INFINITY { 1.0 } else { sum * (top - v).exp() + 1.0 };
                        top = v;
                    }
                    *out.at(o + k * os) =
                        T::narrow(T::Acc::of(if sum == 0.0 || !top.is_finite() { top } else { top + sum.ln() }));
                }
            }
        });
    });
}
