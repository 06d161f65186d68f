//! Kernels that index one dimension: INDEX_SELECT, GATHER and SCATTER.

use crate::advanced::put;
use crate::check::{Offsets, Outside, add_offsets, check};
use crate::lines::{Axis, Lines};
use crate::num::{Complex, Num, Real, by_size};
use oneflow_base::{DType, Error, Result, by_dtype};
use oneflow_kernels_prim::rows::{Shared, copy_run};
use oneflow_kernels_prim::{DimParams, Launch, ScatterKind, ScatterParams, View, dispatch, isa};
use smallvec::smallvec;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Size and stride of a dimension; a 0-dim tensor is one element along it.
fn extent(v: &View, dim: usize) -> (i64, i64) {
    (v.sizes.get(dim).copied().unwrap_or(1), v.strides.get(dim).copied().unwrap_or(0))
}

/// torch's class for elements picked one by one.
#[cold]
fn as_runtime(name: &str, e: Error) -> Error {
    Error::runtime(format!("{name}(): {}", e.text()))
}

pub unsafe fn index_select(l: &Launch<'_>) -> Result<()> {
    let (x, index, out, DimParams { dim }) = (l.input(0)?, l.input(1)?, l.output(0)?, l.read()?);
    let (size, stride) = extent(&x, dim);
    if x.ndim() == 1 && out.is_contiguous() && index.dtype == DType::I64 && index.is_contiguous() {
        let lines = Lines::new(index.sizes, [out.strides, index.strides, x.strides], 0);
        let stride = stride as isize;
        // SAFETY: the views are valid by the launch's contract.
        let all_inside = unsafe { by_size!(out.dtype, T => gather_runs::<T>(&lines, &out, &index, &x, size, stride)) };
        return if all_inside { Ok(()) } else { check(&index, dim, size) };
    }
    let mut from: Offsets = smallvec![0; index.numel()];
    add_offsets(&index, dim, size, stride, false, &mut from)?;
    let lines = Lines::new(out.sizes, [out.strides, x.strides], dim);
    let to = Axis::Step(lines.step[0]);
    // SAFETY: the indices are checked, so that all offsets lie inside the launch's views.
    by_size!(out.dtype, T => unsafe { take::<T>(&lines, &out, &x, to, Axis::Table(&from)) });
    Ok(())
}

/// `out[to[i], lane] = x[from[i], lane]`.
pub unsafe fn take<T: Copy>(lines: &Lines<2>, out: &View, x: &View, to: Axis, from: Axis) {
    let (out, x) = (Shared::<T>::new(out.ptr), Shared::<T>::new(x.ptr));
    let [os, xs] = lines.lane_step;
    let ns = if lines.lanes >= 8 { 0.1 * size_of::<T>() as f64 } else { 1.5 };
    lines.each(ns, false, &|off, axis, lanes| {
        if let (1, Axis::Step(1), Axis::Table(from)) = (lines.lanes, to, from) {
            let (o, s) = (out.at(off[0]), x.at(off[1]));
            // SAFETY: as below.
            return axis.for_each(|i| unsafe { *o.add(i) = *s.offset(from[i] as isize) });
        }
        for i in axis {
            let (o, s) = (out.at(off[0] + to.at(i)), x.at(off[1] + from.at(i)));
            // SAFETY: offsets are in bounds by the caller's check, and tasks write disjoint positions.
            unsafe {
                if lines.lanes == 1 {
                    *o = *s;
                } else if os == 1 && xs == 1 {
                    copy_run(s.add(lanes.start), o.add(lanes.start), lanes.len());
                } else {
                    for j in lanes.clone() {
                        *o.offset(j as isize * os) = *s.offset(j as isize * xs);
                    }
                }
            }
        }
    });
}

pub unsafe fn gather(l: &Launch<'_>) -> Result<()> {
    let (x, index, out, DimParams { dim }) = (l.input(0)?, l.input(1)?, l.output(0)?, l.read()?);
    let (size, stride) = extent(&x, dim);
    let lines = Lines::new(index.sizes, [out.strides, index.strides, x.strides], dim);
    let checked = || check(&index, dim, size).map_err(|e| as_runtime("gather", e));
    if lines.lanes == 1 && lines.step[..2] == [1, 1] && index.dtype == DType::I64 {
        let stride = stride as isize;
        // SAFETY: the views are valid by the launch's contract.
        let all_inside = unsafe { by_size!(out.dtype, T => gather_runs::<T>(&lines, &out, &index, &x, size, stride)) };
        return if all_inside { Ok(()) } else { checked() };
    }
    checked()?;
    // SAFETY: the indices are checked, so that all offsets lie inside the launch's views.
    by_size!(out.dtype, T => unsafe { each_indexed::<T>(&lines, &out, &index, &x, stride as isize, Side::Gather, |_, v| v) });
    Ok(())
}

/// GATHER where indices and results are neighbours. Indices are checked piece by piece, each piece before it is written,
/// so that memory is read once; stops at the first that is outside and says so.
unsafe fn gather_runs<T: Copy>(lines: &Lines<3>, out: &View, index: &View, x: &View, size: i64, stride: isize) -> bool {
    const PIECE: usize = 1024;
    let (out, index, x) = (Shared::<T>::new(out.ptr), Shared::<i64>::new(index.ptr), Shared::<T>::new(x.ptr));
    let (inside, isa) = (AtomicBool::new(true), isa());
    lines.each(1.0, false, &|off, axis, _| {
        let x = x.at(off[2]).cast_const();
        for at in axis.clone().step_by(PIECE) {
            let n = PIECE.min(axis.end - at);
            // SAFETY: the piece lies in the index and in the output, and what it reads inside x once it is checked.
            unsafe {
                let piece = std::slice::from_raw_parts(index.at(off[1] + at as isize).cast_const(), n);
                if dispatch(isa, Outside(piece, size)) {
                    return inside.store(false, Relaxed);
                }
                let o = std::slice::from_raw_parts_mut(out.at(off[0] + at as isize), n);
                if stride == 1 {
                    o.iter_mut().zip(piece).for_each(|(o, i)| *o = *x.offset(*i as isize));
                } else {
                    o.iter_mut().zip(piece).for_each(|(o, i)| *o = *x.offset(*i as isize * stride));
                }
            }
        }
    });
    inside.into_inner()
}

/// Which operand the index leads into.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Gather,
    Scatter,
}

/// Walks out, index and a third operand together: `out = x[index]` or `out[index] = f(out[index], x)`.
unsafe fn each_indexed<T: Copy>(
    lines: &Lines<3>,
    out: &View,
    index: &View,
    x: &View,
    stride: isize,
    side: Side,
    f: impl Fn(T, T) -> T + Sync,
) {
    match index.dtype {
        // SAFETY: by the caller.
        DType::I32 => unsafe { each_indexed_by::<T, i32>(lines, out, index, x, stride, side, f) },
        // SAFETY: as above.
        _ => unsafe { each_indexed_by::<T, i64>(lines, out, index, x, stride, side, f) },
    }
}

unsafe fn each_indexed_by<T: Copy, I: Copy + Into<i64>>(
    lines: &Lines<3>,
    out: &View,
    index: &View,
    x: &View,
    stride: isize,
    side: Side,
    f: impl Fn(T, T) -> T + Sync,
) {
    let (out, index, x) = (Shared::<T>::new(out.ptr), Shared::<I>::new(index.ptr), Shared::<T>::new(x.ptr));
    // The indexed operand moves along the axis by the index alone.
    let mut steps = lines.step;
    steps[if side == Side::Scatter { 0 } else { 2 }] = 0;
    lines.each(1.0, side == Side::Scatter, &|off, axis, lanes| {
        // One loop along what is longer inside: the lanes, or the axis where there are none.
        let (outer, inner, [o_out, i_out, x_out], [o_in, i_in, x_in]) = match lines.lanes {
            1 => (0..1, axis, [0; 3], steps),
            _ => (axis, lanes, steps, lines.lane_step),
        };
        for a in outer.map(|a| a as isize) {
            let (o, i, x) = (out.at(off[0] + a * o_out), index.at(off[1] + a * i_out), x.at(off[2] + a * x_out));
            if i_in == 1 && (o_in, x_in, side) == (1, 0, Side::Gather) {
                // The plain case: indices and results are neighbours.
                let (n, first) = (inner.len(), inner.start);
                // SAFETY: as below.
                unsafe {
                    let (o, i) = (o.add(first), i.add(first));
                    for b in 0..n {
                        *o.add(b) = *x.offset((*i.add(b)).into() as isize * stride);
                    }
                }
                continue;
            }
            if i_in == 1 && (o_in, x_in, side) == (0, 1, Side::Scatter) {
                // SAFETY: as below.
                unsafe {
                    for b in inner.clone() {
                        let o = o.offset((*i.add(b)).into() as isize * stride);
                        *o = f(*o, *x.add(b));
                    }
                }
                continue;
            }
            for b in inner.clone().map(|b| b as isize) {
                // SAFETY: the caller has checked the indices. Tasks write disjoint positions: a scatter's hold whole
                // axes, a gather's write each position once.
                unsafe {
                    let at = (*i.offset(b * i_in)).into() as isize * stride;
                    if side == Side::Gather {
                        *o.offset(b * o_in) = *x.offset(b * x_in + at);
                    } else {
                        let o = o.offset(b * o_in + at);
                        *o = f(*o, *x.offset(b * x_in));
                    }
                }
            }
        }
    });
}

pub unsafe fn scatter(l: &Launch<'_>) -> Result<()> {
    let (index, src, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let ScatterParams { dim, kind } = l.read()?;
    let (size, stride) = extent(&out, dim);
    let along_dim_alone = (0..index.ndim()).all(|d| d == dim || index.strides[d] == 0 || index.sizes[d] == 1);
    if along_dim_alone && index.ndim() > 1 {
        return rows(&index, &src, &out, dim, kind);
    }
    let stride = stride as isize;
    check(&index, dim, size).map_err(|e| as_runtime("scatter", e))?;
    let lines = Lines::new(index.sizes, [out.strides, index.strides, src.strides], dim);
    let (lines, out, index, src) = (&lines, &out, &index, &src);
    // SAFETY (of all calls below): the indices are checked, so that all offsets lie inside the launch's views.
    macro_rules! run {
        ($T:ty, $f:expr) => {
            // SAFETY: as above.
            unsafe { each_indexed::<$T>(lines, out, index, src, stride, Side::Scatter, $f) }
        };
    }
    match (kind, out.dtype) {
        (ScatterKind::Set, d) => by_size!(d, T => run!(T, |_, v| v)),
        (ScatterKind::Add, DType::C64) => run!(Complex<f32>, Num::add),
        (ScatterKind::Add, DType::C128) => run!(Complex<f64>, Num::add),
        (ScatterKind::Mul, DType::C64) => run!(Complex<f32>, Num::mul),
        (ScatterKind::Mul, DType::C128) => run!(Complex<f64>, Num::mul),
        (kind, d) => by_dtype!(d, reals, T => match kind {
            ScatterKind::Add | ScatterKind::Set => run!(T, Num::add),
            ScatterKind::Mul => run!(T, Num::mul),
            ScatterKind::Max => run!(T, Real::max),
            ScatterKind::Min => run!(T, Real::min),
        }, _ => return Err(Error::not_implemented(format!("scatter: {kind:?} has no meaning for {d}")))),
    }
    Ok(())
}

/// SCATTER by indices that are the same over all other dimensions: whole rows.
fn rows(index: &View, src: &View, out: &View, dim: usize, kind: ScatterKind) -> Result<()> {
    let (size, stride) = extent(out, dim);
    let n = index.sizes[dim];
    let mut to: Offsets = smallvec![0; n as usize];
    let along = View { sizes: &[n], strides: &index.strides[dim..dim + 1], ..*index };
    add_offsets(&along, dim, size, stride, false, &mut to).map_err(|e| as_runtime("scatter", e))?;
    let lines = Lines::new(index.sizes, [out.strides, src.strides], dim);
    let (to, from) = (Axis::Table(&to), Axis::Step(lines.step[1]));
    macro_rules! run {
        ($T:ty, $f:expr) => {
            // SAFETY: the indices are checked, so that all offsets lie inside the launch's views.
            unsafe { put::<$T>(&lines, out, src, to, from, $f) }
        };
    }
    match (kind, out.dtype) {
        (ScatterKind::Set, d) => by_size!(d, T => run!(T, |_, v| v)),
        (ScatterKind::Add, DType::C64) => run!(Complex<f32>, Num::add),
        (ScatterKind::Add, DType::C128) => run!(Complex<f64>, Num::add),
        (ScatterKind::Mul, DType::C64) => run!(Complex<f32>, Num::mul),
        (ScatterKind::Mul, DType::C128) => run!(Complex<f64>, Num::mul),
        (kind, d) => by_dtype!(d, reals, T => match kind {
            ScatterKind::Add | ScatterKind::Set => run!(T, Num::add),
            ScatterKind::Mul => run!(T, Num::mul),
            ScatterKind::Max => run!(T, Real::max),
            ScatterKind::Min => run!(T, Real::min),
        }, _ => return Err(Error::not_implemented(format!("scatter: {kind:?} has no meaning for {d}")))),
    }
    Ok(())
}
