//! LOGCUMSUMEXP: a running sum of exponentials, kept as its largest exponent and the sum relative to it.

use oneflow_base::{DType, Error, Result, bf16, f16};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Launch, View};

pub unsafe fn logcumsumexp(l: &Launch<'_>) -> Result<()> {
    let (x, out, dim) = (l.input(0)?, l.output(0)?, l.param(0)?.usize());
    // SAFETY: the views are valid by the launch's contract.
    unsafe {
        match x.dtype {
            DType::F32 => scan::<f32>(&x, &out, dim, |v| v as f64, |v| v as f32),
            DType::F64 => scan::<f64>(&x, &out, dim, |v| v, |v| v),
            DType::BF16 => scan::<bf16>(&x, &out, dim, |v| v.to_f32() as f64, |v| bf16::from_f32(v as f32)),
            DType::F16 => scan::<f16>(&x, &out, dim, |v| v.to_f32() as f64, |v| f16::from_f32(v as f32)),
            other => return Err(Error::not_implemented(format!("logcumsumexp: no kernel for {other}"))),
        }
    }
    Ok(())
}

unsafe fn scan<T: Copy>(x: &View, out: &View, dim: usize, up: fn(T) -> f64, down: fn(f64) -> T) {
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
                    let v = up(*x.at(i + k * xs));
                    if top.is_nan() {
                        // What follows NaN is NaN.
                    } else if v <= top {
                        // Equal infinities differ by nothing.
                        sum += if v == top { 1.0 } else { (v - top).exp() };
                    } else {
                        sum = if top == f64::NEG_INFINITY { 1.0 } else { sum * (top - v).exp() + 1.0 };
                        top = v;
                    }
                    *out.at(o + k * os) = down(if sum == 0.0 || !top.is_finite() { top } else { top + sum.ln() });
                }
            }
        });
    });
}
