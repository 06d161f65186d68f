//! INDEX_SELECT, GATHER, SCATTER, INDEX and INDEX_PUT.
//!
//! Moves are direct. Updates that fold (add, mul, max, min) are sorted by destination first and folded in index order, so
//! that results do not depend on the order of threads.

use crate::host::reach;
use crate::launch::{Argument, Family, Key, Scratch, args, faults, linear, run};
use crate::nest::{Geo, Nest};
use crate::sort::sort_pairs;
use crate::text::{Builder, MAX_DIMS, bits_type, c_type};
use oneflow_base::{DType, Error, Result};
use oneflow_ep::Queue;
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::{DimParams, IndexParams, IndexPutParams, Launch, ScatterKind, ScatterParams, View};

/// `part`: see the template.
pub fn text(part: u8, dtype: DType, index: DType) -> Result<Text> {
    let b = Builder::new(format!("index {dtype}")).variant("PART", part).alias("E", bits_type(dtype));
    Ok(b.dtype("I", index)?.push(include_str!("text/index.cu")).finish())
}

fn key(part: u8, dtype: DType, index: DType) -> Key {
    Key::new(Family::Index).small(part as u64).small(dtype.size().ilog2() as u64).dtype(index)
}

fn index_dtype(v: &View<'_>) -> Result<DType> {
    match v.dtype {
        DType::I32 | DType::I64 => Ok(v.dtype),
        d => Err(Error::index(format!("tensors used as indices must be int64 or int32, but got {d}"))),
    }
}

/// Size and stride of a dimension; a 0-dim tensor is one element along it.
fn extent(v: &View<'_>, dim: usize) -> (i64, i64) {
    (v.sizes.get(dim).copied().unwrap_or(1), v.strides.get(dim).copied().unwrap_or(0))
}

/// The strides with zero at `dim`.
fn without(v: &View<'_>, dim: usize) -> Vec<i64> {
    v.strides.iter().enumerate().map(|(d, s)| if d == dim { 0 } else { *s }).collect()
}

pub unsafe fn index_select(l: &Launch<'_>) -> Result<()> {
    let (x, index, out, DimParams { dim }) = (l.input(0)?, l.input(1)?, l.output(0)?, l.read()?);
    let (size, stride) = extent(&x, dim);
    let along: Vec<i64> =
        (0..out.ndim()).map(|d| if d == dim { index.strides.first().copied().unwrap_or(0) } else { 0 }).collect();
    let geo = Nest::new(out.sizes, &[out.strides, &without(&x, dim), &along]).geo("index_select")?;
    let (i, dim) = (index_dtype(&index)?, dim as i64);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key(0, out.dtype, i),
            || text(0, out.dtype, i),
            linear(geo.n()),
            args![x.ptr, index.ptr, out.ptr, size, stride, dim, faults(l.queue)?, geo],
        )
    }
}

pub unsafe fn gather(l: &Launch<'_>) -> Result<()> {
    let (x, index, out, DimParams { dim }) = (l.input(0)?, l.input(1)?, l.output(0)?, l.read()?);
    let (size, stride) = extent(&x, dim);
    let geo = Nest::new(index.sizes, &[out.strides, index.strides, &without(&x, dim)]).geo("gather")?;
    let (i, dim) = (index_dtype(&index)?, dim as i64);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key(1, out.dtype, i),
            || text(1, out.dtype, i),
            linear(geo.n()),
            args![x.ptr, index.ptr, out.ptr, size, stride, dim, faults(l.queue)?, geo],
        )
    }
}

pub unsafe fn scatter(l: &Launch<'_>) -> Result<()> {
    let (index, src, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let ScatterParams { dim, kind } = l.read()?;
    let (size, stride) = extent(&out, dim);
    let geo = Nest::new(index.sizes, &[&without(&out, dim), index.strides, src.strides]).geo("scatter")?;
    let (i, dim, fault) = (index_dtype(&index)?, dim as i64, faults(l.queue)?);
    let part = if kind == ScatterKind::Set { 2 } else { 6 };
    let destinations = |to: *mut u8, from: *mut u8| {
        // SAFETY: the arguments are the template's; the tables hold a word an index where the part writes them.
        unsafe {
            run(
                l.queue,
                key(part, out.dtype, i),
                || text(part, out.dtype, i),
                linear(geo.n()),
                args![src.ptr, index.ptr, out.ptr, to, from, size, stride, dim, fault, geo],
            )
        }
    };
    if kind == ScatterKind::Set {
        return destinations(std::ptr::null_mut(), std::ptr::null_mut());
    }
    // SAFETY: destinations are offsets of the output, sources of src.
    unsafe { fold_at(l.queue, kind, geo.n(), destinations, &src, &out) }
}

/// `out[to] = fold(out[to], src[from])` in index order. `destinations` writes element offsets, -1 for none.
unsafe fn fold_at(
    queue: Queue,
    kind: ScatterKind,
    n: i64,
    destinations: impl Fn(*mut u8, *mut u8) -> Result<()>,
    src: &View<'_>,
    out: &View<'_>,
) -> Result<()> {
    let (low, high) = reach(out);
    if low < 0 {
        return Err(Error::not_implemented("scatter: CUDA kernels do not fold into views with negative strides"));
    }
    if n == 0 {
        return Ok(());
    }
    let to = Scratch::new(queue, n, 8)?;
    let skip = high as u64 + 1;
    let keys = |keys: *mut u8, numbers: *mut u8, from: *mut u8| {
        destinations(to.ptr(), from)?;
        let key = Key::new(Family::Sort).small(3);
        // SAFETY: the arguments are the template's; all tables hold a word an index.
        unsafe { run(queue, key, || Ok(keys_text()), linear(n), args![to.ptr(), keys, numbers, n, skip]) }
    };
    let (s, o) = ((src.ptr, src.dtype, 0), (out.ptr, out.dtype, 1, 0));
    // SAFETY: keys are element offsets of the output or `skip`.
    unsafe { sorted_updates(queue, kind, n, skip, keys, s, o, 1) }
}

pub fn keys_text() -> Text {
    Builder::new("keys of destinations").define("PART", 3).push(include_str!("text/sort.cu")).finish()
}

pub fn updates_text(kind: ScatterKind, from: DType, to: DType) -> Result<Text> {
    let b = Builder::new("updates").variant("KIND", kind as u64).compute("C", to.compute())?;
    Ok(b.dtype("T", from)?.dtype("O", to)?.push(include_str!("text/segments.cu")).finish())
}

/// Folds updates by destination, in order. `keys` fills (destination row or `skip`, 0.., source row offset). `src` is
/// (pointer, dtype, column stride), `out` (pointer, dtype, row stride, column stride); rows have `width` elements.
///
/// # Safety
/// Destinations below `skip` are rows of `out`, source offsets are rows of `src`, both valid on the queue's device.
pub unsafe fn sorted_updates(
    queue: Queue,
    kind: ScatterKind,
    n: i64,
    skip: u64,
    keys: impl FnOnce(*mut u8, *mut u8, *mut u8) -> Result<()>,
    src: (*mut u8, DType, i64),
    out: (*mut u8, DType, i64, i64),
    width: i64,
) -> Result<()> {
    if n == 0 || width == 0 {
        return Ok(());
    }
    c_type("scatter", out.1)?;
    let from = Scratch::new(queue, n, 8)?;
    let bits = u64::BITS - skip.leading_zeros();
    // SAFETY: by the contract of `keys`.
    let (to, order) = unsafe { sort_pairs(queue, n, bits, |to, numbers| keys(to, numbers, from.ptr()))? };
    let key = Key::new(Family::Segments).small(kind as u64).dtype(src.1).dtype(out.1);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            queue,
            key,
            || updates_text(kind, src.1, out.1),
            linear(n * width),
            args![to.ptr(), order.ptr(), from.ptr(), n, src.0, out.0, width, src.2, out.2, out.3, skip],
        )
    }
}

/// The kernel's table of index tensors.
#[repr(C)]
struct Indices {
    used: i64,
    p: [*const u8; MAX_DIMS],
    size: [i64; MAX_DIMS],
    stride: [i64; MAX_DIMS],
    dim: [i64; MAX_DIMS],
    strides: [[i64; MAX_DIMS]; MAX_DIMS],
}
impl Argument for Indices {}

/// The picked side's geometry (picked, indexed) and the index tensors over it.
fn plan(x: &View<'_>, picked: &View<'_>, l: &Launch<'_>, params: IndexParams) -> Result<(Geo, Indices)> {
    let (IndexParams { position: pos, n_dims }, ins) = (params, &l.ins[1..]);
    if pos + n_dims > picked.ndim() || ins.len() > x.ndim() {
        return Err(Error::index(format!("too many indices for tensor of dimension {}", x.ndim())));
    }
    let mut along = vec![0i64; picked.ndim()];
    let mut table = Indices {
        used: 0,
        p: [std::ptr::null(); MAX_DIMS],
        size: [0; MAX_DIMS],
        stride: [0; MAX_DIMS],
        dim: [0; MAX_DIMS],
        strides: [[0; MAX_DIMS]; MAX_DIMS],
    };
    let (mut free, mut used) = (0, 0);
    for d in 0..x.ndim() {
        let Some(index) = ins.get(d).copied().flatten() else {
            let at = if free < pos { free } else { free + n_dims };
            along[at] = x.strides[d];
            free += 1;
            continue;
        };
        if index.dtype != DType::I64 {
            return Err(Error::index(format!("tensors used as indices must be int64, but got {}", index.dtype)));
        }
        if used == MAX_DIMS || picked.ndim() > MAX_DIMS || index.ndim() != n_dims {
            return Err(Error::not_implemented(format!("index: CUDA kernels take at most {MAX_DIMS} dimensions")));
        }
        (table.p[used], table.size[used], table.stride[used]) = (index.ptr, x.sizes[d], x.strides[d]);
        table.dim[used] = d as i64;
        table.strides[used][pos..pos + n_dims].copy_from_slice(index.strides);
        used += 1;
    }
    table.used = used as i64;
    let geo = Nest::new(picked.sizes, &[picked.strides, &along]).geo_unmerged("index")?;
    Ok((geo, table))
}

pub unsafe fn index(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let (geo, table) = plan(&x, &out, l, l.read()?)?;
    let none = std::ptr::null_mut::<i64>();
    let k = key(3, out.dtype, DType::I64);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            k,
            || text(3, out.dtype, DType::I64),
            linear(geo.n()),
            args![out.ptr, x.ptr, none, none, faults(l.queue)?, geo, table],
        )
    }
}

pub unsafe fn index_put(l: &Launch<'_>) -> Result<()> {
    let (value, out) = (l.input(0)?, l.output(0)?);
    let IndexPutParams { index, accumulate } = l.read()?;
    let (geo, table) = plan(&out, &value, l, index)?;
    let (fault, part) = (faults(l.queue)?, if accumulate { 7 } else { 4 });
    let destinations = |to: *mut u8, from: *mut u8| {
        let k = key(part, out.dtype, DType::I64);
        // SAFETY: the arguments are the template's; the tables hold a word an index where the part writes them.
        unsafe {
            run(
                l.queue,
                k,
                || text(part, out.dtype, DType::I64),
                linear(geo.n()),
                args![value.ptr, out.ptr, to, from, fault, geo, table],
            )
        }
    };
    if !accumulate {
        return destinations(std::ptr::null_mut(), std::ptr::null_mut());
    }
    // SAFETY: destinations are offsets of the output, sources of the value.
    unsafe { fold_at(l.queue, ScatterKind::Add, geo.n(), destinations, &value, &out) }
}
