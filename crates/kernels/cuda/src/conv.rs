//! CONV and its two gradients: single taps are matrix products, few channels a group are summed directly, everything else is a
//! tiled product whose right side is gathered from the image. 16-bit floats go to the tensor cores where they can (`conv_mma`). But
//! for single taps cuDNN comes first, where it is installed (`conv_cudnn`).

use crate::conv_cudnn;
use crate::conv_geometry::{Conv, FORWARD, INPUT, WEIGHT};
use crate::conv_mma;
use crate::launch::{Family, Key, Scratch, address, args, ceil_div, gpu, linear, rows, run};
use crate::nest::Nest;
use crate::reduce;
use crate::text::{Builder, float};
use oneflow_base::{Result, contiguous_strides};
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::{Activation, Launch, MatmulParams, ReduceKind, View, words};

/// Added to a part: without tiles.
const DIRECT: u8 = 3;

/// The columns of a tile of the product; its rows are 64, or 16 where there are few.
const COLUMNS: i64 = 64;
const FEW_ROWS: i64 = 16;

/// `part`: see the template.
pub fn text(part: u8, rows: i64, dtype: oneflow_base::DType) -> Result<Text> {
    let b = Builder::new("conv").variant("PART", part).variant("BM", rows);
    let b = b.compute("C", float("conv", dtype)?.compute())?.dtype("T", dtype)?;
    Ok(b.push(include_str!("text/conv.cu")).finish())
}

impl Conv {
    fn is_one_tap(&self) -> bool {
        self.taps() == 1 && self.stride == [1; 3] && self.padding == [0; 3]
    }

    fn launch(&self, l: &Launch<'_>, part: u8, like: &View<'_>, grid: Grid, ptrs: [*mut u8; 4]) -> Result<()> {
        // The rows of tiles: enough for the matrix.
        let (c, o) = self.per_group();
        let rows = if (if part == INPUT { c } else { o }) <= FEW_ROWS { FEW_ROWS } else { 64 };
        let key = Key::new(Family::Conv).small(part as u64).dtype(like.dtype).small(rows as u64 / 16);
        let [a, b, bias, out] = ptrs;
        let text = || text(part, rows, like.dtype);
        // Threads walk along what lies side by side in the gathered image.
        let by_k = (part == WEIGHT || self.last != 0) as i64;
        // SAFETY: the arguments are the template's; the views are valid by the launch's contract.
        unsafe {
            if part < DIRECT {
                run(l.queue, key, text, grid, args![a, b, bias, out, by_k, *self])
            } else {
                run(l.queue, key, text, grid, args![a, b, bias, out, *self])
            }
        }
    }

    /// Blocks for the tiles of `m` rows by `n` columns, over `z` products.
    fn tiles(&self, m: i64, n: i64, z: i64) -> (i64, u32) {
        let height = if m <= FEW_ROWS { FEW_ROWS } else { 64 };
        (ceil_div(m, height) * ceil_div(n, COLUMNS), z.min(65535) as u32)
    }
}

fn grid(x: i64, z: u32) -> Grid {
    Grid { blocks: [x.clamp(0, 1 << 30) as u32, 1, z], threads: [256, 1, 1], shared: 0 }
}

/// A product of single taps: `out[n, g, m, p] = w[g, m, k] image[n, g, k, p] + bias`. `None` where positions are not one run.
unsafe fn one_tap(
    l: &Launch<'_>,
    g: &Conv,
    w: (&View<'_>, [i64; 3], [i64; 2]),
    image: (&View<'_>, [i64; 5]),
    out: (&View<'_>, [i64; 5]),
    bias: Option<View<'_>>,
) -> Option<Result<()>> {
    let places = Nest::new(&g.input, &[&image.1[2..], &out.1[2..]]).merged();
    if places.sizes().len() > 1 || g.n * g.groups > 65535 {
        return None;
    }
    let n_places = places.n();
    let (weight, [group, row, column], [m, k]) = w;
    let steps = [places.inner_stride(0), places.inner_stride(1)];
    let sizes = |r: i64, c: i64| [g.n, g.groups, r, c];
    let strides = |s: &[i64; 5], channels: i64, step: i64| [s[0], channels * s[1], s[1], step];
    let (a_sizes, b_sizes, d_sizes) = (sizes(m, k), sizes(k, n_places), sizes(m, n_places));
    let (b_strides, d_strides) = (strides(&image.1, k, steps[0]), strides(&out.1, m, steps[1]));
    let a = View { sizes: &a_sizes, strides: &[0, group, row, column], ..*weight };
    let b = View { sizes: &b_sizes, strides: &b_strides, ..*image.0 };
    let d = View { sizes: &d_sizes, strides: &d_strides, ..*out.0 };
    let bias_strides = [0, m * g.bias_stride, g.bias_stride, 0];
    let bias = bias.map(|v| View { sizes: &d_sizes, strides: &bias_strides, ..v });
    let (ins, outs) = ([Some(a), Some(b), bias], [Some(d)]);
    let params = words(&MatmulParams { activation: Activation::None, alpha: 1.0 });
    // SAFETY: the views are parts of the launch's.
    Some(unsafe {
        crate::matmul::matmul(&Launch { outs: &outs, ins: &ins, params: &params, expr: None, queue: l.queue })
    })
}

pub unsafe fn conv(l: &Launch<'_>) -> Result<()> {
    let (x, w, bias, y) = (l.input(0)?, l.input(1)?, l.opt_input(2), l.output(0)?);
    let params = l.read()?;
    let mut g = Conv::new(&params, &x, &w, &y, bias)?;
    if y.numel() == 0 {
        return Ok(());
    }
    let (c, o) = g.per_group();
    if g.is_one_tap() && c > 1 {
        let weight = (&w, [o * g.w[0], g.w[0], g.w[1]], [o, c]);
        // SAFETY: the launch's contract.
        if let Some(done) = unsafe { one_tap(l, &g, weight, (&x, g.x), (&y, g.y), bias) } {
            return done;
        }
    }
    // SAFETY: the launch's contract.
    let done = unsafe {
        conv_cudnn::conv(l, FORWARD, &params, [&x, &w, &y], bias)?
            || conv_mma::conv(l, FORWARD, &params, [&x, &w, &y], bias)?
    };
    if done {
        return Ok(());
    }
    if c.min(o) < 4 && c * o < 64 {
        g.last = (g.y[1] == 1 && g.o > 1) as i64;
        let ptrs = [w.ptr, x.ptr, address(bias), y.ptr];
        return g.launch(l, FORWARD + DIRECT, &x, linear(y.numel() as i64), ptrs);
    }
    g.last = (g.x[1] == 1 && c > 4) as i64;
    let (tiles, z) = g.tiles(o, g.places(), g.groups);
    g.launch(l, FORWARD, &x, grid(tiles, z), [w.ptr, x.ptr, address(bias), y.ptr])
}

pub unsafe fn conv_backward_input(l: &Launch<'_>) -> Result<()> {
    let (y, w, bias, x) = (l.input(0)?, l.input(1)?, l.opt_input(2), l.output(0)?);
    let params = l.read()?;
    let mut g = Conv::new(&params, &x, &w, &y, bias)?;
    if x.numel() == 0 {
        return Ok(());
    }
    let (c, o) = g.per_group();
    if g.is_one_tap() && o > 1 {
        let weight = (&w, [o * g.w[0], g.w[1], g.w[0]], [c, o]);
        // SAFETY: the launch's contract.
        if let Some(done) = unsafe { one_tap(l, &g, weight, (&y, g.y), (&x, g.x), bias) } {
            return done;
        }
    }
    // SAFETY: the launch's contract.
    let done = unsafe {
        conv_cudnn::conv(l, INPUT, &params, [&x, &w, &y], bias)?
            || conv_mma::conv(l, INPUT, &params, [&x, &w, &y], bias)?
    };
    if done {
        return Ok(());
    }
    if c.min(o) < 4 && c * o < 64 {
        g.last = (g.x[1] == 1 && g.c > 1) as i64;
        let ptrs = [w.ptr, y.ptr, address(bias), x.ptr];
        return g.launch(l, INPUT + DIRECT, &x, linear(x.numel() as i64), ptrs);
    }
    g.last = (g.y[1] == 1 && o > 4) as i64;
    // The first phase has the most positions.
    let columns = (0..3).fold(g.n, |n, d| n * ceil_div(g.input[d], g.stride[d]));
    let (tiles, z) = g.tiles(c, columns, g.groups * g.stride.iter().product::<i64>());
    g.launch(l, INPUT, &x, grid(tiles, z), [w.ptr, y.ptr, address(bias), x.ptr])
}

pub unsafe fn conv_backward_weight(l: &Launch<'_>) -> Result<()> {
    let (y, x, w) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let params = l.read()?;
    let mut g = Conv::new(&params, &x, &w, &y, None)?;
    let n_weights = w.numel() as i64;
    if n_weights == 0 {
        return Ok(());
    }
    let (c, o) = g.per_group();
    // SAFETY: the launch's contract.
    let done = unsafe {
        conv_cudnn::conv(l, WEIGHT, &params, [&x, &w, &y], None)?
            || g.places() > 0 && conv_mma::conv(l, WEIGHT, &params, [&x, &w, &y], None)?
    };
    if done {
        return Ok(());
    }
    let null = std::ptr::null_mut();
    if o.min(c * g.taps()) < 4 {
        let mut grid = rows(n_weights, g.places(), true).0;
        // A block a weight.
        grid.threads = [grid.threads[0] * grid.threads[1], 1, 1];
        grid.blocks[0] = n_weights.min(1 << 30) as u32;
        return g.launch(l, WEIGHT + DIRECT, &x, grid, [y.ptr, x.ptr, null, w.ptr]);
    }
    g.last = (g.x[1] == 1 && c > 4) as i64;
    let (tiles, z) = g.tiles(o, c * g.taps(), g.groups);
    // Few tiles with long sums: parts of the positions side by side, added in order.
    let wanted = 4 * gpu(l.queue)?.n_multiprocessors as i64;
    g.parts = (wanted / (tiles * g.groups).max(1)).min(g.places() / 256).max(1);
    let compute = w.dtype.compute();
    let sums = Scratch::new(l.queue, g.parts * n_weights, compute.size())?;
    g.launch(l, WEIGHT, &x, grid(tiles * g.parts, z), [y.ptr, x.ptr, null, sums.ptr()])?;
    let lead = |n: i64, rest: &[i64]| [&[n], rest].concat();
    let (from, to) = (lead(g.parts, w.sizes), lead(1, w.sizes));
    let (from_strides, to_strides) = (contiguous_strides(&from), lead(0, w.strides));
    let parts = View { ptr: sums.ptr(), dtype: compute, sizes: &from, strides: &from_strides };
    let out = View { sizes: &to, strides: &to_strides, ..w };
    // SAFETY: the scratch lives until after the launch was issued, on this queue.
    unsafe { reduce::fold(l.queue, ReduceKind::Sum as u64, compute, &parts, &out) }
}
