//! SORT and TOPK, and the radix sort of pairs they and the folding updates share; NONZERO, which shares its scan.

use crate::launch::{Family, Key, Place, Scratch, address, args, ceil_div, linear, run};
use crate::nest::Nest;
use crate::text::{Builder, c_type};
use oneflow_base::{DType, Error, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::{Grid, Text};
use oneflow_kernels_prim::{Launch, SortParams, TopkParams, View};

/// Pairs a tile of the radix sort holds.
const TILE: i64 = 8 * 256;

/// `part` 0: count, 1: scan, 2: scatter.
pub fn radix_text(part: u8) -> Text {
    Builder::new("radix sort").variant("PART", part).push(include_str!("text/radix.cu")).finish()
}

fn radix(queue: Queue, part: u8, grid: Grid, args: &mut [Place<'_>]) -> Result<()> {
    // SAFETY: the callers below hand over the template's arguments.
    unsafe { run(queue, Key::new(Family::Radix).small(part as u64), || Ok(radix_text(part)), grid, args) }
}

/// Exclusive scan of counts in place.
fn scan(queue: Queue, counts: *mut u8, n: i64) -> Result<()> {
    radix(queue, 1, Grid::linear(1, 1024), args![counts, n])
}

/// A stable sort of `n` pairs of 64-bit words by the low `bits` of the key. `fill` writes (keys, values).
///
/// # Safety
/// `fill` writes both tables whole.
pub unsafe fn sort_pairs(
    queue: Queue,
    n: i64,
    bits: u32,
    fill: impl FnOnce(*mut u8, *mut u8) -> Result<()>,
) -> Result<(Scratch, Scratch)> {
    let new = || Scratch::new(queue, n, 8);
    let (keys, values) = (new()?, new()?);
    fill(keys.ptr(), values.ptr())?;
    sort_filled(queue, n, bits, (keys, values))
}

fn sort_filled(queue: Queue, n: i64, bits: u32, from: (Scratch, Scratch)) -> Result<(Scratch, Scratch)> {
    let tiles = ceil_div(n, TILE);
    let grid = Grid::linear(tiles.min(1 << 30) as u32, 256);
    let counts = Scratch::new(queue, 16 * tiles, 8)?;
    let mut from = from;
    let mut to = (Scratch::new(queue, n, 8)?, Scratch::new(queue, n, 8)?);
    for shift in (0..bits as i32).step_by(4) {
        radix(queue, 0, grid, args![from.0.ptr(), n, shift, counts.ptr(), tiles])?;
        scan(queue, counts.ptr(), 16 * tiles)?;
        radix(
            queue,
            2,
            grid,
            args![from.0.ptr(), from.1.ptr(), to.0.ptr(), to.1.ptr(), n, shift, counts.ptr(), tiles],
        )?;
        std::mem::swap(&mut from, &mut to);
    }
    Ok(from)
}

/// `part` 0: keys of values, 2: results; 1 (keys of rows) needs no dtype.
pub fn text(part: u8, dtype: DType) -> Result<Text> {
    let b = Builder::new("sort").variant("PART", part).dtype("T", dtype)?;
    Ok(b.push(include_str!("text/sort.cu")).finish())
}

pub fn rows_text() -> Text {
    Builder::new("sort rows").define("PART", 1).push(include_str!("text/sort.cu")).finish()
}

pub unsafe fn sort(l: &Launch<'_>) -> Result<()> {
    let SortParams { dim, descending } = l.read()?;
    // SAFETY: the launch's contract.
    unsafe { first_k(l, None, dim, descending) }
}

pub unsafe fn topk(l: &Launch<'_>) -> Result<()> {
    let TopkParams { k, dim, largest, .. } = l.read()?;
    // SAFETY: the launch's contract.
    unsafe { first_k(l, Some(k as i64), dim, largest) }
}

/// The first `k` of every row (all of them where `k` is absent) in order.
unsafe fn first_k(l: &Launch<'_>, k: Option<i64>, dim: usize, descending: bool) -> Result<()> {
    let (x, values, indices) = (l.input(0)?, l.opt_output(0), l.opt_output(1));
    c_type("sort", x.dtype)?;
    let strides = |v: Option<View<'_>>| v.map_or_else(|| vec![0; x.ndim()], |v| v.strides.to_vec());
    let mut nest = Nest::new(x.sizes, &[x.strides, &strides(values), &strides(indices)]);
    let (n, stride) = nest.take(dim);
    let k = k.unwrap_or(n);
    if k > n || k < 0 {
        return Err(Error::runtime("selected index k out of range"));
    }
    let n_rows = nest.n();
    let total = n_rows * n;
    if total == 0 || k == 0 {
        return Ok(());
    }
    let bits = match x.dtype.compute() {
        DType::F32 => 32,
        _ => 64,
    };
    let flip = if descending { u64::MAX >> (64 - bits) } else { 0 };
    let kept_x = nest.only(0..1).geo("sort")?;
    let kept = nest.geo("sort")?;
    let queue = l.queue;
    let fill = |keys: *mut u8, numbers: *mut u8| {
        let key = Key::new(Family::Sort).small(0).dtype(x.dtype);
        // SAFETY: the arguments are the template's; the tables hold a word an element.
        unsafe {
            run(queue, key, || text(0, x.dtype), linear(total), args![x.ptr, keys, numbers, n, stride[0], flip, kept_x])
        }
    };
    // SAFETY: `fill` writes all.
    let (keys, mut numbers) = unsafe { sort_pairs(queue, total, bits, fill)? };
    if n_rows > 1 {
        // The rows' numbers as last digits: a stable sort keeps each row's order.
        let key = Key::new(Family::Sort).small(1);
        // SAFETY: the arguments are the template's; the keys are used up.
        unsafe { run(queue, key, || Ok(rows_text()), linear(total), args![numbers.ptr(), keys.ptr(), total, n])? };
        let bits = 64 - (n_rows as u64 - 1).leading_zeros();
        numbers = sort_filled(queue, total, bits, (keys, numbers))?.1;
    }
    let key = Key::new(Family::Sort).small(2).dtype(x.dtype);
    let (v, i) = (address(values), address(indices));
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            queue,
            key,
            || text(2, x.dtype),
            linear(n_rows * k),
            args![x.ptr, numbers.ptr(), v, i, n, k, stride[0], stride[1], stride[2], kept],
        )
    }
}

/// `part` 0: counts by tile, 1: coordinates.
pub fn nonzero_text(part: u8, dtype: DType) -> Result<Text> {
    let b = Builder::new("nonzero").variant("PART", part).dtype("T", dtype)?;
    Ok(b.push(include_str!("text/nonzero.cu")).finish())
}

pub unsafe fn nonzero(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let (nd, total) = (x.ndim() as i32, x.numel() as i64);
    if nd == 0 || total == 0 || out.numel() == 0 {
        return Ok(());
    }
    let geo = Nest::of(&[&x]).geo("nonzero")?;
    let shape = Nest::of(&[&x]).geo_unmerged("nonzero")?;
    let tiles = ceil_div(total, 1024);
    let counts = Scratch::new(l.queue, tiles, 8)?;
    let grid = Grid::linear(tiles.min(1 << 30) as u32, 1024);
    let launch = |part: u8| {
        let key = Key::new(Family::Nonzero).small(part as u64).dtype(x.dtype);
        // SAFETY: the arguments are the template's.
        unsafe {
            run(
                l.queue,
                key,
                || nonzero_text(part, x.dtype),
                grid,
                args![x.ptr, counts.ptr(), tiles, out.ptr, out.strides[0], out.strides[1], nd, geo, shape],
            )
        }
    };
    launch(0)?;
    scan(l.queue, counts.ptr(), tiles)?;
    launch(1)
}
