//! BATCH_NORM, GROUP_NORM and their backwards: both are rows of elements with a mean and a deviation each.
//!
//! Long rows are summed in parts side by side, and the parts are joined in order: the same result on every run.

use crate::elementwise::copy_views;
use crate::launch::{Argument, Family, Key, Number, Scratch, address, args, linear, rows, run};
use crate::nest::Nest;
use crate::reduce;
use crate::text::{Builder, PACK, float};
use oneflow_base::{DType, Error, Result, contiguous_strides};
use oneflow_ep::Queue;
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{
    BatchNormBackwardParams, BatchNormParams, GroupNormBackwardParams, GroupNormParams, Launch, View,
};

/// `part`: see the template.
pub fn text(part: u8, dtype: DType, weight: DType) -> Result<Text> {
    let b = Builder::new("batch_norm").variant("PART", part).compute("C", float("batch_norm", dtype)?.compute())?;
    let b = b.dtype("T", dtype)?.dtype("W", weight)?.define("V", width(dtype));
    Ok(b.push(PACK).push(include_str!("text/channel_norm.cu")).finish())
}

/// Neighbouring elements that a thread takes at once.
fn width(dtype: DType) -> i64 {
    if dtype.size() <= 2 { 8 } else { 4 }
}

/// Packs the innermost dimension of a nest whose first operands are these; then come rows and channels, which are counted.
fn pack(nest: &mut Nest, views: &[&View<'_>]) -> u32 {
    let Some(first) = views.first() else { return 0 };
    let counted = View { ptr: std::ptr::null_mut(), dtype: DType::U8, ..**first };
    let operands = nest.all_strides().count();
    let all: Vec<View<'_>> = views.iter().map(|v| **v).chain(std::iter::repeat(counted)).take(operands).collect();
    nest.pack(&all, 0, width(first.dtype))
}

fn key(part: u8, dtype: DType, weight: DType) -> Key {
    Key::new(Family::ChannelNorm).small(part as u64).dtype(dtype).dtype(weight)
}

/// A vector over the channels that may be absent.
#[repr(C)]
#[derive(Clone, Copy)]
struct Stat {
    at: *mut u8,
    stride: i64,
    dtype: i64,
}

#[repr(C)]
struct Running([Stat; 4]);
impl Argument for Running {}

fn step(v: Option<View<'_>>) -> i64 {
    v.and_then(|v| v.strides.first().copied()).unwrap_or(0)
}

fn stat(v: Option<View<'_>>) -> Result<Stat> {
    v.map(|v| float("batch_norm", v.dtype)).transpose()?;
    Ok(Stat { at: address(v), stride: step(v), dtype: v.map_or(DType::F32, |v| v.dtype) as i64 })
}

/// The dtype that weight and bias share; x's where neither is there.
fn weight_dtype(weight: Option<View<'_>>, bias: Option<View<'_>>, x: DType) -> Result<DType> {
    let dtype = weight.or(bias).map_or(x, |v| v.dtype);
    if bias.is_some_and(|b| b.dtype != dtype) {
        return Err(Error::not_implemented(format!(
            "no CUDA kernel takes a weight of {dtype} and a bias of another dtype"
        )));
    }
    float("batch_norm", dtype)
}

/// How elements fall into rows: a nest over [n, groups, channels of a group, spatial...].
struct Rows {
    groups: i64,
    /// Rows are channels (of all samples); otherwise groups of a sample.
    of_channels: bool,
}

impl Rows {
    fn sizes(&self, x: &View<'_>) -> Vec<i64> {
        let each = x.sizes[1] / self.groups.max(1);
        [&[x.sizes[0], self.groups, each], &x.sizes[2..]].concat()
    }
    fn strides(&self, v: &View<'_>) -> Vec<i64> {
        let each = v.sizes[1] / self.groups.max(1);
        [&[v.strides[0], each * v.strides[1], v.strides[1]], &v.strides[2..]].concat()
    }
    fn pad(&self, head: [i64; 3], x: &View<'_>) -> Vec<i64> {
        [&head[..], &vec![0; x.ndim() - 2]].concat()
    }
    /// Strides that give an element's row and channel.
    fn stat(&self, x: &View<'_>) -> Vec<i64> {
        let each = x.sizes[1] / self.groups.max(1);
        self.pad(if self.of_channels { [0, each, 1] } else { [self.groups, 1, 0] }, x)
    }
    fn channel(&self, x: &View<'_>) -> Vec<i64> {
        self.pad([0, x.sizes[1] / self.groups.max(1), 1], x)
    }
    fn n(&self, x: &View<'_>) -> i64 {
        if self.of_channels { x.sizes[1] } else { x.sizes[0] * self.groups }
    }
    fn is_kept(&self, d: usize) -> bool {
        if self.of_channels { d == 1 || d == 2 } else { d < 2 }
    }
}

/// How rows are summed: kept and reduced dimensions in the order of memory of operand `walked`, and what `rows` gave for them.
fn split(queue: Queue, kept: Nest, reduced: Nest, walked: usize) -> Result<(Nest, Nest, bool, i64)> {
    let (kept, reduced) = (kept.merged(), reduced.ordered_by(walked).merged());
    let inner = |n: &Nest| n.inner_stride(walked).unsigned_abs();
    let by_x = kept.n() == 1 || inner(&reduced) <= inner(&kept).max(1);
    let parts = reduce::parts(queue, kept.n(), reduced.n(), by_x)?;
    Ok((kept, reduced, by_x, parts))
}

/// Whether the rows of these operands begin at multiples of `width` elements.
fn apart(kept: &Nest, operands: &[usize], width: i64) -> bool {
    operands.iter().all(|k| kept.strides(*k).iter().all(|s| s % width == 0))
}

/// (n, mean, squared deviations) of every row, in parts.
fn moments(
    queue: Queue,
    x: &View<'_>,
    (kept, mut reduced, by_x, parts): (Nest, Nest, bool, i64),
) -> Result<(Scratch, i64)> {
    let dtype = x.dtype;
    let along = if by_x && apart(&kept, &[0], width(dtype)) { pack(&mut reduced, &[x]) } else { 0 };
    let moments = Scratch::new(queue, kept.n() * parts * 3, dtype.compute().size())?;
    let (grid, by_x) = rows(kept.n() * parts, reduced.n() / parts, by_x);
    let (kept, reduced) = (kept.geo_unmerged("batch_norm")?, reduced.geo_unmerged("batch_norm")?);
    // SAFETY: the arguments are the template's; the scratch holds three numbers a part of a row.
    unsafe {
        run(
            queue,
            key(0, dtype, dtype),
            || text(0, dtype, dtype),
            grid,
            args![by_x, along, parts, x.ptr, moments.ptr(), kept, reduced],
        )?
    };
    Ok((moments, parts))
}

/// Means and reciprocal deviations of the rows from the elements. `running`: as BATCH_NORM's.
fn statistics(
    queue: Queue,
    x: &View<'_>,
    by: &Rows,
    stats: (*mut u8, *mut u8),
    numbers: [f64; 2],
    running: &Running,
) -> Result<()> {
    let (kept, reduced) = Nest::new(&by.sizes(x), &[&by.strides(x)]).partition(|d| by.is_kept(d));
    let (moments, parts) = moments(queue, x, split(queue, kept, reduced, 0)?)?;
    finish(queue, x.dtype, (moments.ptr(), parts), stats, by.n(x), numbers, running)
}

/// Sums of squared deviations, divided, and the root where asked. Operands of both nests: x, out.
pub fn deviations(
    queue: Queue,
    x: &View<'_>,
    out: &View<'_>,
    kept: Nest,
    reduced: Nest,
    (divisor, root): (f64, bool),
) -> Result<()> {
    let only = |n: &Nest, k: usize| n.only(k..k + 1);
    let to = only(&kept, 1).geo("square_deviations")?;
    let (moments, parts) = moments(queue, x, split(queue, only(&kept, 0), only(&reduced, 0), 0)?)?;
    let dtype = x.dtype;
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            queue,
            key(6, dtype, dtype),
            || text(6, dtype, dtype),
            linear(to.n()),
            args![moments.ptr(), parts, out.ptr, divisor, root as i32, to],
        )
    }
}

fn finish(
    queue: Queue,
    dtype: DType,
    (moments, parts): (*mut u8, i64),
    (mean, rstd): (*mut u8, *mut u8),
    n: i64,
    [eps, momentum]: [f64; 2],
    running: &Running,
) -> Result<()> {
    let running = Running(running.0);
    // SAFETY: the arguments are the template's; every vector has a number a row.
    unsafe {
        run(
            queue,
            key(1, dtype, dtype),
            || text(1, dtype, dtype),
            linear(n),
            args![moments, parts, mean, rstd, n, eps, momentum, running],
        )
    }
}

/// `y = (x - mean) rstd weight + bias`.
fn apply(l: &Launch<'_>, by: &Rows, x: &View<'_>, y: &View<'_>, stats: [*mut u8; 2]) -> Result<()> {
    let (weight, bias) = (l.opt_input(1), l.opt_input(2));
    let w = weight_dtype(weight, bias, x.dtype)?;
    let nest = Nest::new(&by.sizes(x), &[&by.strides(y), &by.strides(x), &by.stat(x), &by.channel(x)]);
    let mut nest = nest.ordered().merged();
    let along = pack(&mut nest, &[y, x]);
    let (geo, [mean, rstd]) = (nest.geo_unmerged("batch_norm")?, stats);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key(2, x.dtype, w),
            || text(2, x.dtype, w),
            linear(geo.n()),
            args![along, x.ptr, y.ptr, mean, rstd, address(weight), step(weight), address(bias), step(bias), geo],
        )
    }
}

pub unsafe fn batch_norm(l: &Launch<'_>) -> Result<()> {
    let (x, y) = (l.input(0)?, l.output(0)?);
    let BatchNormParams { training, momentum, eps } = l.read()?;
    weight_dtype(l.opt_input(1), l.opt_input(2), float("batch_norm", x.dtype)?)?;
    let by = Rows { groups: 1, of_channels: true };
    let own = Scratch::new(l.queue, 2 * x.sizes[1], x.dtype.compute().size())?;
    let spare = |i: i64| own.ptr().wrapping_add((i * x.sizes[1]) as usize * x.dtype.compute().size());
    let stats = [l.opt_output(1).map_or(spare(0), |v| v.ptr), l.opt_output(2).map_or(spare(1), |v| v.ptr)];
    // A running value that is not there stays away.
    let pair = |i: usize| l.opt_input(i).and(l.opt_output(i));
    let running = [stat(l.opt_input(3))?, stat(l.opt_input(4))?, stat(pair(3))?, stat(pair(4))?];
    let (running, numbers) = (Running(running), [eps, momentum]);
    if training {
        statistics(l.queue, &x, &by, (stats[0], stats[1]), numbers, &running)?;
    } else {
        l.input(3).and(l.input(4))?;
        let none = (std::ptr::null_mut(), 0);
        finish(l.queue, x.dtype, none, (stats[0], stats[1]), x.sizes[1], numbers, &running)?;
    }
    apply(l, &by, &x, &y, stats)
}

pub unsafe fn group_norm(l: &Launch<'_>) -> Result<()> {
    let (x, y, GroupNormParams { groups, eps }) = (l.input(0)?, l.output(0)?, l.read()?);
    let groups = groups as i64;
    weight_dtype(l.opt_input(1), l.opt_input(2), float("group_norm", x.dtype)?)?;
    let by = Rows { groups, of_channels: false };
    let stats = [l.output(1)?.ptr, l.output(2)?.ptr];
    statistics(l.queue, &x, &by, (stats[0], stats[1]), [eps, 0.0], &Running([stat(None)?; 4]))?;
    apply(l, &by, &x, &y, stats)
}

/// The backward's operands: grad_output, x, mean, rstd, weight?.
struct Backward<'a> {
    queue: Queue,
    grad: View<'a>,
    x: View<'a>,
    mean: Dense,
    rstd: Dense,
    weight: Option<View<'a>>,
    w: DType,
}

/// Statistics of the compute dtype without gaps: a view's own memory, or a copy.
struct Dense {
    ptr: *mut u8,
    _copy: Option<Scratch>,
}

impl Dense {
    fn new(queue: Queue, v: &View<'_>, compute: DType) -> Result<Dense> {
        if v.dtype == compute && v.is_contiguous() {
            return Ok(Dense { ptr: v.ptr, _copy: None });
        }
        let copy = Scratch::new(queue, v.numel() as i64, compute.size())?;
        let strides = contiguous_strides(v.sizes);
        let to = View { ptr: copy.ptr(), dtype: compute, sizes: v.sizes, strides: &strides };
        // SAFETY: the copy has the view's sizes.
        unsafe { copy_views(queue, &to, v)? };
        Ok(Dense { ptr: copy.ptr(), _copy: Some(copy) })
    }
}

impl<'a> Backward<'a> {
    fn of(l: &Launch<'a>) -> Result<Backward<'a>> {
        let (grad, x, weight) = (l.input(0)?, l.input(1)?, l.opt_input(4));
        let outs = [l.opt_output(1), l.opt_output(2)];
        let w = weight_dtype(weight, outs[0].or(outs[1]), float("batch_norm_backward", x.dtype)?)?;
        weight_dtype(outs[0], outs[1], x.dtype)?;
        let stat = |i: usize| Dense::new(l.queue, &l.input(i)?, x.dtype.compute());
        Ok(Backward { queue: l.queue, grad, x, mean: stat(2)?, rstd: stat(3)?, weight, w })
    }

    /// Sums of g and g xhat over rows `by`; `stat` says which mean an element has. They go to `sums` and to the gradients.
    fn sums(
        &self,
        by: &Rows,
        stat: &Rows,
        weight: Option<View<'_>>,
        sums: *mut u8,
        grads: [Option<View<'_>>; 2],
    ) -> Result<()> {
        let (x, compute) = (&self.x, self.x.dtype.compute());
        let strides = [by.strides(&self.grad), by.strides(x), stat.stat(x), by.channel(x)];
        let nest = Nest::new(&by.sizes(x), &strides.each_ref().map(Vec::as_slice));
        let (kept, reduced) = nest.partition(|d| by.is_kept(d));
        let (kept, mut reduced, by_x, parts) = split(self.queue, kept, reduced, 1)?;
        let rows_apart = by_x && apart(&kept, &[0, 1], width(x.dtype));
        let along = if rows_apart { pack(&mut reduced, &[&self.grad, x]) } else { 0 };
        let n = by.n(x);
        let partial = Scratch::new(self.queue, n * parts * 2, compute.size())?;
        let (grid, by_x) = rows(n * parts, reduced.n() / parts, by_x);
        let (kept, reduced) = (kept.geo_unmerged("batch_norm")?, reduced.geo_unmerged("batch_norm")?);
        let (wp, ws) = (address(weight), step(weight));
        let [gw, gb] = grads;
        let text_of = |part: u8| move || text(part, x.dtype, self.w);
        // SAFETY: the arguments are the templates'; the scratch holds two numbers a part of a row.
        unsafe {
            run(
                self.queue,
                key(3, x.dtype, self.w),
                text_of(3),
                grid,
                args![
                    by_x,
                    along,
                    parts,
                    self.grad.ptr,
                    x.ptr,
                    self.mean.ptr,
                    self.rstd.ptr,
                    wp,
                    ws,
                    partial.ptr(),
                    kept,
                    reduced
                ],
            )?;
            run(
                self.queue,
                key(4, x.dtype, self.w),
                text_of(4),
                linear(n),
                args![partial.ptr(), parts, n, sums, address(gw), step(gw), address(gb), step(gb)],
            )
        }
    }

    fn grad_x(&self, by: &Rows, out: &View<'_>, sums: *mut u8, inside: bool) -> Result<()> {
        let x = &self.x;
        let strides = [by.strides(out), by.strides(&self.grad), by.strides(x), by.stat(x), by.channel(x)];
        let mut nest = Nest::new(&by.sizes(x), &strides.each_ref().map(Vec::as_slice)).ordered().merged();
        let along = pack(&mut nest, &[out, &self.grad, x]);
        let geo = nest.geo_unmerged("batch_norm")?;
        let share = Number::new(x.dtype.compute(), 1.0 / (x.numel() as i64 / by.n(x).max(1)) as f64);
        let (wp, ws, inside) = (address(self.weight), step(self.weight), inside as i32);
        // SAFETY: the arguments are the template's.
        unsafe {
            run(
                self.queue,
                key(5, x.dtype, self.w),
                || text(5, x.dtype, self.w),
                linear(geo.n()),
                args![
                    along,
                    self.grad.ptr,
                    x.ptr,
                    out.ptr,
                    self.mean.ptr,
                    self.rstd.ptr,
                    wp,
                    ws,
                    sums,
                    share,
                    inside,
                    geo
                ],
            )
        }
    }
}

pub unsafe fn batch_norm_backward(l: &Launch<'_>) -> Result<()> {
    let (b, BatchNormBackwardParams { training }) = (Backward::of(l)?, l.read()?);
    let (out, grads) = (l.opt_output(0), [l.opt_output(1), l.opt_output(2)]);
    let by = Rows { groups: 1, of_channels: true };
    let sums = Scratch::new(l.queue, 2 * by.n(&b.x), b.x.dtype.compute().size())?;
    if training || grads.iter().any(Option::is_some) {
        b.sums(&by, &by, None, sums.ptr(), grads)?;
    }
    let sums = if training { sums.ptr() } else { std::ptr::null_mut() };
    out.map_or(Ok(()), |out| b.grad_x(&by, &out, sums, false))
}

pub unsafe fn group_norm_backward(l: &Launch<'_>) -> Result<()> {
    let b = Backward::of(l)?;
    let (out, grads) = (l.output(0)?, [l.opt_output(1), l.opt_output(2)]);
    let GroupNormBackwardParams { groups } = l.read()?;
    let groups = groups as i64;
    let by = Rows { groups, of_channels: false };
    let sums = Scratch::new(l.queue, 2 * by.n(&b.x), b.x.dtype.compute().size())?;
    b.sums(&by, &by, b.weight, sums.ptr(), [None, None])?;
    if grads.iter().any(Option::is_some) {
        b.sums(&Rows { groups, of_channels: true }, &by, None, std::ptr::null_mut(), grads)?;
    }
    b.grad_x(&by, &out, sums.ptr(), true)
}
