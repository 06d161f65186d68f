//! CONV and its gradients on tensor cores: 16-bit floats, from compute capability 8.0 on. Images, weights and results lie channels
//! last there, a multiple of eight channels; what does not is copied, with zeros up to the next eight. `conv` takes the rest.

use crate::conv_geometry::{Conv, FORWARD, INPUT, WEIGHT};
use crate::elementwise::copy_views;
use crate::launch::{Family, Key, Scratch, address, args, ceil_div, cuda, gpu, run};
use crate::reduce;
use crate::text::{Builder, float};
use oneflow_base::{DType, Dims, Result, contiguous_strides};
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::{ConvParams, Launch, ReduceKind, View};

/// Channels of one access.
const EIGHT: i64 = 8;
/// Rows, columns and sums of a tile, and how many tiles are on their way at once.
const ROWS: i64 = 128;
const COLUMNS: i64 = 64;
const DEPTH: i64 = 32;
const STAGES: i64 = 3;

/// `part`: see the template.
pub fn text(part: u8, dtype: DType) -> Result<Text> {
    let b = Builder::new("conv by tensor cores").variant("PART", part);
    let b = b.compute("C", float("conv", dtype)?.compute())?.dtype("T", dtype)?;
    let b = b.define("IS_BF16", (dtype == DType::BF16) as u8);
    Ok(b.push(include_str!("text/warp.cu")).push(include_str!("text/conv_mma.cu")).finish())
}

/// Shared memory of a block, in bytes: less than what needs an announcement.
fn shared(part: u8) -> u32 {
    let (a, b) = match part {
        FORWARD => (ROWS * (DEPTH + 8), COLUMNS * (DEPTH + 8)),
        INPUT => (ROWS * (DEPTH + 8), DEPTH * (COLUMNS + 8)),
        _ => (DEPTH * (ROWS + 8), DEPTH * (COLUMNS + 8)),
    };
    ((a + b) * 2 * STAGES) as u32
}

/// An operand with channels last: itself, or a copy.
struct Image {
    ptr: *mut u8,
    dtype: DType,
    sizes: Dims,
    strides: Dims,
    copy: Option<Scratch>,
}

impl Image {
    /// With as many channels as `channels`; zeros stand for those there are not. `read`: the numbers are wanted.
    unsafe fn new(l: &Launch<'_>, v: &View<'_>, channels: i64, read: bool) -> Result<Image> {
        let apart = |(d, stride): (usize, &i64)| match d {
            1 => *stride == 1,
            _ => v.sizes[d] == 1 || stride % EIGHT == 0,
        };
        let is_ready = v.sizes[1] == channels && (v.ptr as usize).is_multiple_of(16);
        let mut image =
            Image { ptr: v.ptr, dtype: v.dtype, sizes: v.sizes.into(), strides: v.strides.into(), copy: None };
        if is_ready && v.strides.iter().enumerate().all(apart) {
            return Ok(image);
        }
        image.sizes[1] = channels;
        let mut step = 1;
        for d in std::iter::once(1).chain((2..v.ndim()).rev()).chain([0]) {
            image.strides[d] = step;
            step *= image.sizes[d];
        }
        let copy = Scratch::new(l.queue, step, v.dtype.size())?;
        image.ptr = copy.ptr();
        image.copy = Some(copy);
        if read {
            let to = View { sizes: v.sizes, ..image.view() };
            // SAFETY: the scratch holds all channels; the view is valid by the launch's contract.
            unsafe {
                if channels != v.sizes[1] {
                    cuda()?.memset(l.queue, image.ptr, 0, step as usize * v.dtype.size())?;
                }
                copy_views(l.queue, &to, v)?;
            }
        }
        Ok(image)
    }

    fn view(&self) -> View<'_> {
        View { ptr: self.ptr, dtype: self.dtype, sizes: &self.sizes, strides: &self.strides }
    }

    /// Brings a result that was written to a copy to its place.
    unsafe fn finish(&self, l: &Launch<'_>, v: &View<'_>) -> Result<()> {
        if self.copy.is_none() {
            return Ok(());
        }
        // SAFETY: the copy has all channels of the result; the view is valid by the launch's contract.
        unsafe { copy_views(l.queue, v, &View { sizes: v.sizes, ..self.view() }) }
    }
}

/// Runs a part, if tensor cores take it; false where `conv` has to.
///
/// # Safety
/// As the launch that it serves: `x`, `w` and `y` are its operands in the roles of the forward.
pub unsafe fn conv(
    l: &Launch<'_>,
    part: u8,
    params: &ConvParams,
    [x, w, y]: [&View<'_>; 3],
    bias: Option<View<'_>>,
) -> Result<bool> {
    let (dtype, groups) = (x.dtype, params.groups);
    let (channels, filters) = (w.sizes[1], y.sizes[1] / groups.max(1));
    let whole = channels % EIGHT == 0 && filters % EIGHT == 0;
    let is_empty = channels == 0 || filters == 0;
    if !matches!(dtype, DType::F16 | DType::BF16) || (groups > 1 && !whole) || is_empty {
        return Ok(false);
    }
    if gpu(l.queue)?.compute_capability.0 < 8 {
        return Ok(false);
    }
    let eights = |n: i64| (n as u64).next_multiple_of(EIGHT as u64) as i64;
    let (c, o) = (eights(channels), eights(filters));
    // SAFETY: the launch's contract.
    unsafe {
        let x_image = Image::new(l, x, c * groups, part != INPUT)?;
        let y_image = Image::new(l, y, o * groups, part != FORWARD)?;
        if part == WEIGHT {
            let sizes: Dims = [o * groups, c].into_iter().chain(w.sizes[2..].iter().copied()).collect();
            weight(l, params, [&x_image.view(), &y_image.view()], (&sizes, w))?;
            return Ok(true);
        }
        // Rows for the filters that fill the last eight up are never read: they are outside of what there is.
        let w_image = Image::new(l, w, c, true)?;
        let w_padded = padded_filters(l, w_image, o * groups)?;
        let mut g = Conv::new(params, &x_image.view(), &w_padded.view(), &y_image.view(), bias)?;
        let (out, to) = if part == FORWARD { (&y_image, y) } else { (&x_image, x) };
        let from = if part == FORWARD { &x_image } else { &y_image };
        g.last = to.sizes[1];
        let (rows, columns) = match part {
            FORWARD => (g.places(), o),
            _ => (g.n * g.input.iter().product::<i64>(), c),
        };
        launch(l, part, dtype, &g, (rows, columns), [w_padded.ptr, from.ptr, address(bias), out.ptr])?;
        out.finish(l, to)?;
    }
    Ok(true)
}

/// The weight with as many filters as `filters`, the last ones zero.
unsafe fn padded_filters(l: &Launch<'_>, w: Image, filters: i64) -> Result<Image> {
    let have = w.sizes[0];
    if have == filters {
        return Ok(w);
    }
    let one: i64 = w.sizes[1..].iter().product();
    let copy = Scratch::new(l.queue, filters * one, w.dtype.size())?;
    let mut padded =
        Image { ptr: copy.ptr(), copy: Some(copy), sizes: w.sizes.clone(), strides: w.strides.clone(), ..w };
    let mut step = 1;
    for d in std::iter::once(1).chain((2..padded.sizes.len()).rev()).chain([0]) {
        padded.strides[d] = step;
        step *= padded.sizes[d];
    }
    // SAFETY: the scratch holds all filters; the weight is valid by the launch's contract.
    unsafe {
        cuda()?.memset(l.queue, padded.ptr, 0, (filters * one) as usize * w.dtype.size())?;
        copy_views(l.queue, &padded.view(), &w.view())?;
    }
    padded.sizes[0] = filters;
    Ok(padded)
}

/// The gradient of a weight: sums of parts of the positions, then their sum in order.
unsafe fn weight(
    l: &Launch<'_>,
    params: &ConvParams,
    [x, y]: [&View<'_>; 2],
    (sizes, w): (&[i64], &View<'_>),
) -> Result<()> {
    let strides = contiguous_strides(sizes);
    let mut g = Conv::new(params, x, &View { sizes, strides: &strides, ..*w }, y, None)?;
    let (c, o) = g.per_group();
    let tiles = ceil_div(o, ROWS) * ceil_div(c, COLUMNS) * g.taps() * g.groups;
    let wanted = 4 * gpu(l.queue)?.n_multiprocessors as i64;
    g.parts = (wanted / tiles.max(1)).min(g.places() / 256).max(1);
    let n: i64 = sizes.iter().product();
    let sums = Scratch::new(l.queue, g.parts * n, size_of::<f32>())?;
    let null = std::ptr::null_mut();
    launch(l, WEIGHT, w.dtype, &g, (o, c), [y.ptr, x.ptr, null, sums.ptr()])?;
    let lead = |n: i64, rest: &[i64]| [&[n], rest].concat();
    let (from, to) = (lead(g.parts, w.sizes), lead(1, w.sizes));
    let (from_strides, to_strides) = (lead(n, &strides), lead(0, w.strides));
    let parts = View { ptr: sums.ptr(), dtype: DType::F32, sizes: &from, strides: &from_strides };
    let out = View { sizes: &to, strides: &to_strides, ..*w };
    // SAFETY: the scratch lives until after the launch was issued, on this queue.
    unsafe { reduce::fold(l.queue, ReduceKind::Sum as u64, DType::F32, &parts, &out) }
}

/// A block for every tile of so many rows by columns (of a group), for each tap and part where these are apart.
fn launch(
    l: &Launch<'_>,
    part: u8,
    dtype: DType,
    g: &Conv,
    (rows, columns): (i64, i64),
    [first, second, bias, out]: [*mut u8; 4],
) -> Result<()> {
    let taps = if part == WEIGHT { g.taps() } else { 1 };
    let units = ceil_div(rows, ROWS) * ceil_div(columns, COLUMNS) * taps * g.parts;
    let blocks = [units.min(1 << 30) as u32, 1, g.groups.min(65535) as u32];
    let grid = Grid { blocks, threads: [128, 1, 1], shared: shared(part) };
    let key = Key::new(Family::ConvMma).small(part as u64).dtype(dtype);
    // SAFETY: the arguments are the template's; the views are valid by the launch's contract.
    unsafe { run(l.queue, key, || text(part, dtype), grid, args![first, second, bias, out, *g]) }
}
