//! REDUCE, ARG_REDUCE, SCAN and LOGCUMSUMEXP, and COUNT_NONZERO, which is a reduction.

use crate::launch::{Family, Key, Number, Scratch, Tickets, address, args, ceil_div, gpu, rows, rows_shape, run};
use crate::nest::Nest;
use crate::text::{Builder, c_type, float, unsupported};
use oneflow_base::{DType, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{ArgReduceParams, DimParams, Launch, ReduceKind, ReduceParams, ScanParams, View};

/// The kernel's number of COUNT_NONZERO; the others are `ReduceKind`'s.
pub const COUNT: u64 = 8;

pub fn text(kind: u64, from: DType, acc: DType, to: DType) -> Result<Text> {
    let limit = if kind == ReduceKind::Max as u64 { "LOWEST" } else { "HIGHEST" };
    let b = Builder::new("reduce").variant("KIND", kind).compute("A", acc)?.dtype("T", from)?.dtype("O", to)?;
    Ok(b.define("LIMIT", limit).push(include_str!("text/reduce.cu")).finish())
}

/// What values are accumulated in.
fn accumulator(from: DType, to: DType) -> DType {
    match (from.compute(), to.compute()) {
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        (DType::F32, _) | (_, DType::F32) => DType::F32,
        _ => DType::I64,
    }
}

pub unsafe fn reduce(l: &Launch<'_>) -> Result<()> {
    let ReduceParams { kind } = l.read()?;
    let (x, out) = (l.input(0)?, l.output(0)?);
    c_type("reduce", x.dtype)?;
    if kind == ReduceKind::NanSum {
        return Err(unsupported("sum without NaN", x.dtype));
    }
    let logical = matches!(kind, ReduceKind::Any | ReduceKind::All);
    let acc = if logical { DType::I64 } else { accumulator(x.dtype, out.dtype) };
    // SAFETY: the launch's contract.
    unsafe { fold(l.queue, kind as u64, acc, &x, &out) }
}

pub unsafe fn count_nonzero(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let (sizes, strides) = (vec![1; x.ndim()], vec![0; x.ndim()]);
    let out = View { sizes: &sizes, strides: &strides, ..out };
    // SAFETY: the launch's contract.
    unsafe { fold(l.queue, COUNT, DType::I64, &x, &out) }
}

/// Reduces `x` over the dimensions in which `out` has size one.
///
/// # Safety
/// Both views are valid on the queue's device and of one rank.
pub unsafe fn fold(queue: Queue, kind: u64, acc: DType, x: &View<'_>, out: &View<'_>) -> Result<()> {
    let nest = Nest::new(x.sizes, &[out.strides, x.strides]);
    let (reduced, kept) = nest.partition(|d| out.sizes[d] == 1 && x.sizes[d] != 1);
    let reduced = reduced.only(1..2).ordered().merged();
    let kept = kept.merged();
    let (n_out, length) = (kept.n(), reduced.n());
    if n_out == 0 {
        return Ok(());
    }
    let by_x = n_out == 1 || reduced.inner_stride(0).unsigned_abs() <= kept.inner_stride(1).unsigned_abs().max(1);
    let parts = parts(queue, n_out, length, by_x)?;
    let divisor = Number::new(acc, length as f64);
    let (kept_geo, reduced_geo) = (kept.geo_unmerged("reduce")?, reduced.geo_unmerged("reduce")?);
    let (from, to) = (x.dtype, out.dtype);
    let key = Key::new(Family::Reduce).small(kind).dtype(acc).dtype(from).dtype(to);
    let split = match parts {
        1 => None,
        _ => Some((Scratch::new(queue, n_out * parts, acc.size())?, Tickets::new(queue, n_out)?)),
    };
    let (partial, tickets) =
        split.as_ref().map_or((std::ptr::null_mut(), std::ptr::null_mut()), |(s, t)| (s.ptr(), t.ptr()));
    let (grid, by_x) = rows(n_out * parts, ceil_div(length, parts), by_x);
    let args = args![by_x, parts, divisor, x.ptr, out.ptr, partial, tickets, kept_geo, reduced_geo];
    // SAFETY: the arguments are the template's; the scratch holds an accumulator a part, there is a ticket an output.
    unsafe { run(queue, key, || text(kind, from, acc, to), grid, args) }
}

/// Parts of every output's elements, so that few long reductions fill the device too.
pub fn parts(queue: Queue, n_out: i64, length: i64, by_x: bool) -> Result<i64> {
    let wanted = 4 * gpu(queue)?.n_multiprocessors as i64;
    let (across, at_once) = rows_shape(length, by_x);
    let blocks = ceil_div(n_out, at_once as i64);
    // Every thread keeps at least sixteen elements.
    Ok((wanted / blocks.max(1)).min(length / (16 * across as i64)).max(1))
}

pub fn arg_text(dtype: DType, is_max: bool) -> Result<Text> {
    let b = Builder::new("arg_reduce").compute("C", dtype.compute())?.dtype("T", dtype)?;
    Ok(b.variant("IS_MAX", is_max as u8).push(include_str!("text/arg_reduce.cu")).finish())
}

pub unsafe fn arg_reduce(l: &Launch<'_>) -> Result<()> {
    let (x, values, indices) = (l.input(0)?, l.opt_output(0), l.opt_output(1));
    let ArgReduceParams { is_max, dim } = l.read()?;
    let strides = |v: Option<View<'_>>| v.map_or_else(|| vec![0; x.ndim()], |v| v.strides.to_vec());
    let mut nest = Nest::new(x.sizes, &[x.strides, &strides(values), &strides(indices)]);
    let (n, stride) = nest.take(dim);
    let kept = nest.merged();
    if kept.n() == 0 || n == 0 {
        return Ok(());
    }
    let by_x = kept.n() == 1 || stride[0].unsigned_abs() <= kept.inner_stride(0).unsigned_abs().max(1);
    let parts = parts(l.queue, kept.n(), n, by_x)?;
    let key = Key::new(Family::ArgReduce).dtype(x.dtype).small(is_max as u64);
    let n_rows = kept.n();
    let kept = kept.geo_unmerged("arg_reduce")?;
    let text = || arg_text(x.dtype, is_max);
    let (values, indices, none) = (address(values), address(indices), std::ptr::null_mut::<u8>());
    let (grid, across_x) = rows(n_rows * parts, n / parts, by_x);
    if parts == 1 {
        let list = args![across_x, parts, none, none, x.ptr, values, indices, n, stride[0], kept];
        // SAFETY: the arguments are the template's.
        return unsafe { run(l.queue, key, text, grid, list) };
    }
    let best = Scratch::new(l.queue, n_rows * parts, size_of::<i64>())?;
    let partial = best.ptr();
    // SAFETY: the arguments are the template's; the scratch holds an index a part.
    unsafe {
        let list = args![across_x, parts, partial, none, x.ptr, none, none, n, stride[0], kept];
        run(l.queue, key, text, grid, list)?;
        let (grid, across_x) = rows(n_rows, parts, true);
        let list = args![across_x, 1i64, none, partial, x.ptr, values, indices, parts, stride[0], kept];
        run(l.queue, key, text, grid, list)
    }
}

pub fn scan_text(kind: u64, from: DType, to: DType) -> Result<Text> {
    let b = Builder::new("scan").variant("KIND", kind).compute("A", accumulator(from, to))?;
    let b = b.dtype("T", from)?.dtype("O", to)?.push(include_str!("text/scan_fold.cu"));
    Ok(b.push(include_str!("text/scan.cu")).finish())
}

pub fn logcumsumexp_text(dtype: DType) -> Result<Text> {
    let b = Builder::new("logcumsumexp").dtype("T", float("logcumsumexp", dtype)?)?.dtype("O", dtype)?;
    Ok(b.push(include_str!("text/logcumsumexp.cu")).push(include_str!("text/scan.cu")).finish())
}

pub unsafe fn scan(l: &Launch<'_>) -> Result<()> {
    let (x, out, ScanParams { kind, dim }) = (l.input(0)?, l.output(0)?, l.read()?);
    let kind = kind as u64;
    if kind > ReduceKind::Min as u64 {
        return Err(unsupported("scan of this kind", x.dtype));
    }
    let key = Key::new(Family::Scan).small(kind).dtype(x.dtype).dtype(out.dtype);
    // SAFETY: the launch's contract.
    unsafe { along(l, &x, &out, dim, key, || scan_text(kind, x.dtype, out.dtype)) }
}

pub unsafe fn logcumsumexp(l: &Launch<'_>) -> Result<()> {
    let (x, out, DimParams { dim }) = (l.input(0)?, l.output(0)?, l.read()?);
    let key = Key::new(Family::LogCumSumExp).dtype(x.dtype);
    // SAFETY: the launch's contract.
    unsafe { along(l, &x, &out, dim, key, || logcumsumexp_text(x.dtype)) }
}

/// A scan along a dimension.
unsafe fn along(
    l: &Launch<'_>,
    x: &View<'_>,
    out: &View<'_>,
    dim: usize,
    key: Key,
    text: impl Fn() -> Result<Text>,
) -> Result<()> {
    let mut nest = Nest::of(&[out, x]);
    let (n, stride) = nest.take(dim);
    let kept = nest.merged();
    if kept.n() == 0 || n == 0 {
        return Ok(());
    }
    let by_x = stride[1].unsigned_abs() <= kept.inner_stride(1).unsigned_abs().max(1);
    // Many rows fill the device with one thread each; few long ones are scanned in parts.
    let alone = kept.n() >= 16384 && !by_x;
    let parts = if alone { 1 } else { parts(l.queue, kept.n(), n, by_x)? };
    let (grid, by_x) = match alone {
        true => rows(kept.n(), 1, false),
        false => rows(kept.n() * parts, ceil_div(n, parts), by_x),
    };
    // An accumulator has at most two numbers.
    let totals = if parts > 1 { Some(Scratch::new(l.queue, kept.n() * parts, 16)?) } else { None };
    let pointer = totals.as_ref().map_or(std::ptr::null_mut(), Scratch::ptr);
    let kept = kept.geo_unmerged("scan")?;
    // The ends of the parts first.
    for ends in if parts > 1 { &[1i32, 0][..] } else { &[0] } {
        let list = args![by_x, *ends, parts, pointer, x.ptr, out.ptr, n, stride[0], stride[1], kept];
        // SAFETY: the arguments are the template's; the scratch holds an accumulator a part.
        unsafe { run(l.queue, key, &text, grid, list)? };
    }
    Ok(())
}
