//! What stands alone: EMBEDDING_BAG, SEARCHSORTED, RANDOM_BY, SQUARE_DEVIATIONS.

use crate::channel_norm;
use crate::launch::{Family, Key, address, args, drawn, faults, linear, run};
use crate::nest::Nest;
use crate::random::PHILOX;
use crate::text::{Builder, c_type, float, unsupported};
use oneflow_base::{DType, Error, Result};
use oneflow_ep::cuda::Text;
use oneflow_kernels_prim::mt19937;
use oneflow_kernels_prim::philox::Window;
use oneflow_kernels_prim::{
    BagMode, DeviationsParams, EmbeddingBagParams, Launch, RandomByKind, RandomByParams, SearchsortedParams, View,
};

pub fn bag_text(mode: BagMode, dtype: DType, index: DType, offsets: DType) -> Result<Text> {
    let b = Builder::new("embedding_bag").variant("MODE", mode as u8);
    let b = b.compute("C", float("embedding_bag", dtype)?.compute())?.dtype("T", dtype)?.dtype("I", index)?;
    Ok(b.dtype("F", offsets)?.push(include_str!("text/bag.cu")).finish())
}

/// Strides of a matrix; a vector is one row.
fn down_right(v: Option<View<'_>>) -> [i64; 2] {
    match v.map(|v| v.strides) {
        Some([right]) => [0, *right],
        Some([down, right]) => [*down, *right],
        _ => [0, 0],
    }
}

pub unsafe fn embedding_bag(l: &Launch<'_>) -> Result<()> {
    let (weight, index, offsets, factors) = (l.input(0)?, l.input(1)?, l.opt_input(2), l.opt_input(3));
    let (out, chosen) = (l.output(0)?, l.opt_output(1));
    let EmbeddingBagParams { mode, padding, last_offset_is_end: last_is_end, start, total } = l.read()?;
    if mode == BagMode::Max && chosen.is_none() {
        return Err(Error::runtime("embedding_bag: a maximum without a place for its indices"));
    }
    let (i, f) = (index.dtype, offsets.map_or(DType::I64, |o| o.dtype));
    if let Some(d) = [i, f].iter().find(|d| ![DType::I32, DType::I64].contains(d)) {
        return Err(Error::runtime(format!("embedding_bag: expected indices of dtype int64 or int32, but got {d}")));
    }
    let even = if offsets.is_some() { 0 } else { index.sizes[1] };
    let total_indices = index.numel() as i64;
    // Without a last end the bags end with the indices.
    let n_offsets = offsets.map_or(0, |o| o.sizes[0]) * (offsets.is_some() as i64);
    debug_assert!(!last_is_end || n_offsets == out.sizes[0] + 1 || n_offsets == 0);
    let ([wd, wr], [id, ir]) = (down_right(Some(weight)), down_right(Some(index)));
    let ([fd, fr], [od, or]) = (down_right(factors), down_right(Some(out)));
    let [cd, cr] = down_right(chosen);
    let step = offsets.and_then(|o| o.strides.first().copied()).unwrap_or(0);
    let (n_rows, n_bags, width) = (weight.sizes[0], out.sizes[0], out.sizes[1]);
    let key = Key::new(Family::Bag).small(mode as u64).dtype(out.dtype).dtype(i).dtype(f);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key,
            || bag_text(mode, out.dtype, i, f),
            linear(n_bags * width),
            args![
                weight.ptr,
                wd,
                wr,
                n_rows,
                index.ptr,
                id,
                ir,
                even,
                total_indices,
                address(offsets),
                step,
                n_offsets,
                address(factors),
                fd,
                fr,
                out.ptr,
                od,
                or,
                address(chosen),
                cd,
                cr,
                n_bags,
                width,
                padding,
                start,
                total,
                faults(l.queue)?
            ],
        )
    }
}

pub fn search_text(dtype: DType, out: DType) -> Result<Text> {
    let b = Builder::new("searchsorted").compute("C", dtype.compute())?.dtype("T", dtype)?.dtype("O", out)?;
    Ok(b.push(include_str!("text/search.cu")).finish())
}

pub unsafe fn searchsorted(l: &Launch<'_>) -> Result<()> {
    let (sorted, values, sorter, out) = (l.input(0)?, l.input(1)?, l.opt_input(2), l.output(0)?);
    let SearchsortedParams { right } = l.read()?;
    let right = right as i32;
    if sorted.dtype != values.dtype {
        let (a, b) = (sorted.dtype, values.dtype);
        return Err(Error::not_implemented(format!("searchsorted: {b} values in a {a} sequence are cast before")));
    }
    let dims = sorted.ndim().saturating_sub(1);
    // Strides of the sorted rows along the values' dimensions; one row serves all of them.
    let along = |v: &View<'_>| -> Vec<i64> {
        (0..values.ndim()).map(|d| if v.ndim() > 1 && d < dims { v.strides[d] } else { 0 }).collect()
    };
    let none = vec![0; values.ndim()];
    let order = sorter.map_or(none, |s| along(&s));
    let geo = Nest::new(out.sizes, &[out.strides, values.strides, &along(&sorted), &order]).geo("searchsorted")?;
    let last = |v: &View<'_>| v.strides.last().copied().unwrap_or(0);
    let (n, step) = (sorted.sizes.last().copied().unwrap_or(0), last(&sorted));
    let sorter_step = sorter.map_or(0, |s| last(&s));
    let key = Key::new(Family::Search).dtype(sorted.dtype).dtype(out.dtype);
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            key,
            || search_text(sorted.dtype, out.dtype),
            linear(geo.n()),
            args![sorted.ptr, step, values.ptr, address(sorter), sorter_step, out.ptr, n, right, faults(l.queue)?, geo],
        )
    }
}

pub fn random_by_text(kind: RandomByKind, dtype: DType) -> Result<Text> {
    let b = Builder::new("random_by").variant("KIND", kind as u8).dtype("T", dtype)?.options(&["--fmad=false"]);
    Ok(b.push(PHILOX).push(include_str!("text/random_by.cu")).finish())
}

pub unsafe fn random_by(l: &Launch<'_>) -> Result<()> {
    let (out, a) = (l.output(0)?, l.input(0)?);
    let b = l.opt_input(1).unwrap_or(a);
    let RandomByParams { kind, seed, offset, shard } = l.read()?;
    if offset == mt19937::IN_ORDER {
        return Err(mt19937::only_in_order("random_by", "a CUDA device"));
    }
    let window = Window::new(&shard, out.sizes)?;
    if a.dtype != DType::F64 || b.dtype != DType::F64 {
        return Err(Error::not_implemented(format!("random_by: {kind:?} of {} into {}", a.dtype, out.dtype)));
    }
    c_type("random_by", out.dtype)?;
    let geo = Nest::new(out.sizes, &[out.strides, window.strides(), a.strides, b.strides]).geo("random_by")?;
    // SAFETY: the arguments are the template's.
    unsafe {
        run(
            l.queue,
            Key::new(Family::RandomBy).small(kind as u64).dtype(out.dtype),
            || random_by_text(kind, out.dtype),
            linear(geo.n()),
            args![a.ptr, b.ptr, out.ptr, seed, offset, drawn(l.queue)?, window.first(), faults(l.queue)?, geo],
        )
    }
}

pub unsafe fn square_deviations(l: &Launch<'_>) -> Result<()> {
    let DeviationsParams { divisor, root } = l.read()?;
    let (x, out) = (l.input(0)?, l.output(0)?);
    if x.dtype != out.dtype || ![DType::F32, DType::F64].contains(&x.dtype) {
        return Err(unsupported("square_deviations", x.dtype));
    }
    let (reduced, kept) =
        Nest::new(x.sizes, &[x.strides, out.strides]).partition(|d| out.sizes[d] == 1 && x.sizes[d] != 1);
    channel_norm::deviations(l.queue, &x, &out, kept, reduced, (divisor, root))
}
