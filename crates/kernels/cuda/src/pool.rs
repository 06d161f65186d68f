//! MAX_POOL, AVG_POOL and their backwards.
//!
//! The gradient of a maximum goes where the indices say: sums are made in the order of the outputs by the sort that other updates
//! in order use.

use crate::conv_geometry::image;
use crate::host::reach;
use crate::index::sorted_updates;
use crate::launch::{Argument, Family, Key, address, args, linear, run};
use crate::text::{Builder, c_type, float};
use oneflow_base::{DType, Error, Result};
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{AvgPoolParams, Launch, MaxPoolAxis, MaxPoolParams, ScatterKind, View};

/// `part`: see the template.
pub fn text(part: u8, dtype: DType) -> Result<Text> {
    let b = Builder::new("pooling").variant("PART", part).compute("C", dtype.compute())?.dtype("T", dtype)?;
    Ok(b.push(include_str!("text/pool.cu")).finish())
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Axis {
    input: i64,
    output: i64,
    kernel: i64,
    stride: i64,
    padding: i64,
    dilation: i64,
}

/// The template's parameter.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pool {
    n: i64,
    c: i64,
    last: i64,
    count_padding: i64,
    divisor: i64,
    axes: [Axis; 3],
    x: [i64; 5],
    y: [i64; 5],
    index: [i64; 5],
}
impl Argument for Pool {}

impl Pool {
    fn new(x: &View<'_>, y: &View<'_>, index: Option<View<'_>>) -> Result<Pool> {
        let spatial = x.ndim().saturating_sub(2);
        let ((xs, x_strides), (ys, y_strides)) = (image(x, spatial)?, image(y, spatial)?);
        let index = index.map_or(Ok([0; 5]), |v| image(&v, spatial).map(|v| v.1))?;
        let axis =
            |d: usize| Axis { input: xs[2 + d], output: ys[2 + d], kernel: 1, stride: 1, padding: 0, dilation: 1 };
        Ok(Pool {
            n: xs[0],
            c: xs[1],
            last: 0,
            count_padding: 0,
            divisor: 0,
            axes: [axis(0), axis(1), axis(2)],
            x: x_strides,
            y: y_strides,
            index,
        })
    }

    fn windows(mut self, windows: impl ExactSizeIterator<Item = MaxPoolAxis>) -> Result<Pool> {
        let spatial = windows.len();
        for (d, window) in windows.enumerate().take(3) {
            let axis = &mut self.axes[d + 3 - spatial];
            let number = |n: i64| match n {
                n @ 0..=0x7fff_ffff => Ok(n),
                n => Err(Error::runtime(format!("pooling: {n}: integer out of range"))),
            };
            axis.kernel = number(window.kernel)?;
            // Of a single window the stride is never used.
            axis.stride = if axis.output > 1 { number(window.stride)?.max(1) } else { 1 };
            axis.padding = number(window.padding)?;
            axis.dilation = number(window.dilation)?.max(1);
        }
        Ok(self)
    }

    /// Neighbouring threads go along the channels where these lie side by side in `strides`.
    fn along(mut self, strides: [i64; 5]) -> Pool {
        self.last = (strides[1] == 1 && self.c > 1) as i64;
        self
    }
}

fn key(part: u8, dtype: DType) -> Key {
    Key::new(Family::Pool).small(part as u64).dtype(dtype)
}

pub unsafe fn max_pool(l: &Launch<'_>) -> Result<()> {
    let (x, y, indices) = (l.input(0)?, l.output(0)?, l.opt_output(1));
    c_type("max_pool", x.dtype)?;
    let MaxPoolParams { axes } = l.read()?;
    let g = Pool::new(&x, &y, indices)?.windows(axes.into_iter())?;
    let (g, grid) = (g.along(g.y), linear(y.numel() as i64));
    // SAFETY: the arguments are the template's.
    unsafe { run(l.queue, key(0, x.dtype), || text(0, x.dtype), grid, args![x.ptr, y.ptr, address(indices), g]) }
}

pub unsafe fn max_pool_backward(l: &Launch<'_>) -> Result<()> {
    let (grad, index, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    float("max_pool_backward", out.dtype)?;
    let (low, high) = reach(&out);
    if low < 0 {
        return Err(Error::not_implemented("max_pool_backward: no CUDA kernel for negative strides"));
    }
    // SAFETY: the output is valid by the launch's contract.
    unsafe { crate::elementwise::zero(&[Some(out)], l.queue)? };
    let g = Pool::new(&out, &grad, Some(index))?;
    let (n, skip) = (grad.numel() as i64, high as u64 + 1);
    let keys = |to: *mut u8, numbers: *mut u8, from: *mut u8| {
        // SAFETY: the arguments are the template's; the tables hold a word an output.
        unsafe {
            run(
                l.queue,
                key(1, grad.dtype),
                || text(1, grad.dtype),
                linear(n),
                args![index.ptr, to, numbers, from, skip, g],
            )
        }
    };
    let (from, to) = ((grad.ptr, grad.dtype, 0), (out.ptr, out.dtype, 1, 0));
    // SAFETY: keys are element offsets of the output or `skip`.
    unsafe { sorted_updates(l.queue, ScatterKind::Add, n, skip, keys, from, to, 1) }
}

fn average(l: &Launch<'_>, x: &View<'_>, y: &View<'_>) -> Result<Pool> {
    float("avg_pool", x.dtype)?;
    let AvgPoolParams { count_include_pad, divisor, axes } = l.read()?;
    let mut g = Pool::new(x, y, None)?.windows(axes.iter().map(MaxPoolAxis::from))?;
    (g.count_padding, g.divisor) = (count_include_pad as i64, divisor);
    Ok(g)
}

pub unsafe fn avg_pool(l: &Launch<'_>) -> Result<()> {
    let (x, y) = (l.input(0)?, l.output(0)?);
    let g = average(l, &x, &y)?;
    let (g, grid) = (g.along(g.y), linear(y.numel() as i64));
    // SAFETY: the arguments are the template's.
    unsafe { run(l.queue, key(2, x.dtype), || text(2, x.dtype), grid, args![x.ptr, y.ptr, g]) }
}

pub unsafe fn avg_pool_backward(l: &Launch<'_>) -> Result<()> {
    let (grad, out) = (l.input(0)?, l.output(0)?);
    let g = average(l, &out, &grad)?;
    let (g, grid) = (g.along(g.x), linear(out.numel() as i64));
    // SAFETY: the arguments are the template's.
    unsafe { run(l.queue, key(3, out.dtype), || text(3, out.dtype), grid, args![grad.ptr, out.ptr, g]) }
}
