//! COPY: strided moves by element size, transposes in blocks, casts through the compute dtype.

use crate::io::{Io, is_narrow};
use crate::nest::Nest;
use crate::tiles::{STREAM_BYTES, fence, for_each_tile, stream_copy};
use crate::transpose;
use oneflow_base::{Category, DType, Result};
use oneflow_kernels_prim::rows::{self, Shared};
use oneflow_kernels_prim::{Cx, Launch, Simd, View, WithSimd, dispatch, isa};

pub unsafe fn copy(l: &Launch<'_>) -> Result<()> {
    let (src, out) = (l.input(0)?, l.output(0)?);
    if out.numel() == 0 {
        return Ok(());
    }
    // SAFETY: the launch's contract.
    unsafe {
        if src.dtype == out.dtype {
            match out.dtype.size() {
                1 => moves::<u8>(src, out),
                2 => moves::<u16>(src, out),
                4 => moves::<u32>(src, out),
                8 => moves::<u64>(src, out),
                _ => moves::<[u64; 2]>(src, out),
            }
            return Ok(());
        }
        match (src.dtype.category(), out.dtype.category()) {
            (Category::Complex, _) | (_, Category::Complex) => complex(src, out),
            _ => reals(src, out),
        }
    }
}

/// Casts between real dtypes.
unsafe fn reals(src: View<'_>, out: View<'_>) -> Result<()> {
    // SAFETY: the launch's contract.
    unsafe {
        // Integers become floats as they are read, and are rounded once.
        match (src.dtype.compute(), out.dtype.compute()) {
            (DType::F32, _) | (DType::I64, DType::F32) => cast::<f32>(src, out),
            (DType::F64, _) | (DType::I64, DType::F64) => cast::<f64>(src, out),
            _ if is_narrow(src.dtype) && is_narrow(out.dtype) => cast::<i32>(src, out),
            _ => cast::<i64>(src, out),
        }
    }
}

unsafe fn cast<T: Io>(src: View<'_>, out: View<'_>) -> Result<()> {
    if src.dtype == T::DTYPE && src.is_contiguous() && out.is_contiguous() {
        // SAFETY: both are one run; the launch's contract covers them.
        return unsafe { cast_run::<T>(src, out) };
    }
    if out.dtype == T::DTYPE && src.is_contiguous() && out.is_contiguous() {
        // SAFETY: as above.
        return unsafe { load_run::<T>(src, out) };
    }
    let f = |n: usize, ins: &[*const T], steps: &[usize], outs: &[*mut T]| {
        // SAFETY: the walk hands out `n` valid elements (one where the step is 0).
        unsafe {
            if steps[0] == 1 {
                std::ptr::copy(ins[0], outs[0], n);
            } else {
                let v = *ins[0];
                (0..n).for_each(|i| *outs[0].add(i) = v);
            }
        }
    };
    // SAFETY: the launch's contract.
    unsafe { for_each_tile(&[out], &[src], &f) }
}

/// Casts to and from complex: the parts are views of floats.
unsafe fn complex(src: View<'_>, out: View<'_>) -> Result<()> {
    let doubled = |v: View<'_>| v.strides.iter().map(|s| s * 2).collect::<Vec<_>>();
    let (src_strides, out_strides) = (doubled(src), doubled(out));
    let half = |v: View<'_>, i: usize| v.ptr.wrapping_add(i * v.dtype.to_real().size());
    let parts_of_src = if src.dtype.is_complex() { 2 } else { 1 };
    if !out.dtype.is_complex() {
        // SAFETY: as below.
        return unsafe {
            if out.dtype == DType::Bool {
                return truth(src, out);
            }
            let real = View { ptr: src.ptr, dtype: src.dtype.to_real(), sizes: src.sizes, strides: &src_strides };
            if real.dtype == out.dtype {
                return copy_real(real, out);
            }
            match real.dtype {
                DType::F64 => cast::<f64>(real, out),
                _ => reals(real, out),
            }
        };
    }
    for i in 0..2 {
        let dst = View { ptr: half(out, i), dtype: out.dtype.to_real(), sizes: out.sizes, strides: &out_strides };
        // SAFETY: the parts of a complex view are views of floats twice as far apart; the launch's contract covers them.
        unsafe {
            if i == 1 && parts_of_src == 1 {
                crate::fill::fill_view(dst, [0; 16]);
                continue;
            }
            let from = if parts_of_src == 2 {
                View { ptr: half(src, i), dtype: src.dtype.to_real(), sizes: src.sizes, strides: &src_strides }
            } else {
                src
            };
            if from.dtype == dst.dtype {
                copy_real(from, dst)?
            } else if from.dtype == DType::F16 || dst.dtype == DType::F16 {
                reals(from, dst)?
            } else {
                cast::<f64>(from, dst)?
            }
        }
    }
    Ok(())
}

/// One run of the compute dtype, stored as it is read.
unsafe fn cast_run<T: Io>(src: View<'_>, out: View<'_>) -> Result<()> {
    const RUN: usize = 4096;
    let store = T::store(out.dtype)?;
    let (n, size) = (out.numel(), out.dtype.size());
    let (from, to) = (Shared::<T>::new(src.ptr), Shared::<u8>::new(out.ptr));
    rows::split(n.div_ceil(RUN), RUN as f64 * 0.1, &|r| {
        let (a, b) = (r.start * RUN, n.min(r.end * RUN));
        // SAFETY: the piece lies in both runs; pieces are disjoint.
        unsafe { store(from.at(a as isize).cast_const(), b - a, to.at((a * size) as isize), 1) };
    });
    Ok(())
}

/// One run, read into the compute dtype where it belongs.
unsafe fn load_run<T: Io>(src: View<'_>, out: View<'_>) -> Result<()> {
    const RUN: usize = 4096;
    let load = T::load(src.dtype)?;
    let (n, size) = (out.numel(), src.dtype.size());
    let (from, to) = (Shared::<u8>::new(src.ptr), Shared::<T>::new(out.ptr));
    rows::split(n.div_ceil(RUN), RUN as f64 * 0.1, &|r| {
        let (a, b) = (r.start * RUN, n.min(r.end * RUN));
        // SAFETY: the piece lies in both runs; pieces are disjoint.
        unsafe { load(from.at((a * size) as isize).cast_const(), 1, b - a, to.at(a as isize)) };
    });
    Ok(())
}

/// The real parts, which lie two apart.
unsafe fn copy_real(real: View<'_>, out: View<'_>) -> Result<()> {
    // SAFETY: the caller's.
    unsafe {
        match out.dtype.size() {
            2 => moves::<u16>(real, out),
            4 => moves::<u32>(real, out),
            _ => moves::<u64>(real, out),
        }
    }
    Ok(())
}

/// Where a complex number is not zero.
unsafe fn truth(src: View<'_>, out: View<'_>) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { if src.dtype == DType::C128 { cast::<Cx<f64>>(src, out) } else { cast::<Cx<f32>>(src, out) } }
}

/// Below this many bytes one task moves everything.
const PIECE: usize = 256 << 10;

unsafe fn moves<E: Copy + Send + Sync>(src: View<'_>, out: View<'_>) {
    if src.is_contiguous() && out.is_contiguous() {
        // SAFETY: both ranges hold the elements.
        unsafe { contiguous(src.ptr, out.ptr, out.numel() * size_of::<E>()) };
        return;
    }
    let nest = Nest::new(out.sizes, &[out.strides, src.strides]);
    let (from, to) = (Shared::<E>::new(src.ptr), Shared::<E>::new(out.ptr));
    let (n, inner) = (nest.inner(), nest.inner_strides());
    let (so, ss) = (inner[0], inner[1]);
    let repeats = so == 1 && ss == 0 && n <= MOST_REPEATS;
    if so == 1 && ss != 1 && ss != 0 && n > 1 && nest.ndim() > 1 {
        // A dimension the source walks without gaps makes a plane to transpose.
        let plane = (0..nest.ndim() - 1).find(|d| nest.strides(*d)[1] == 1 && nest.sizes[*d] > 1);
        if let Some(d) = plane {
            // SAFETY: the nest's elements are the views'.
            unsafe { transpose::planes(&nest, d, from, to) };
            return;
        }
    }
    let ns = if so == 1 && ss == 1 { 0.03 * size_of::<E>() as f64 } else { 0.6 } * n as f64 + 8.0;
    let row = |to: *mut E, from: *const E, n: usize| {
        // SAFETY: a run of the views.
        unsafe {
            if so == 1 && ss == 1 {
                plain_run(from, to, n)
            } else if so == 1 && ss == -1 {
                dispatch(isa(), Reversed(from, to, n));
            } else if so == 1 && ss == 0 {
                let v = from.read_unaligned();
                (0..n).for_each(|i| to.add(i).write_unaligned(v));
            } else {
                for i in 0..n as isize {
                    to.offset(i * so).write_unaligned(from.offset(i * ss).read_unaligned());
                }
            }
        }
    };
    if nest.ndim() == 1 {
        const CHUNK: usize = 8192;
        rows::split(n.div_ceil(CHUNK), ns * CHUNK as f64 / n as f64, &|r| {
            let (a, b) = (r.start * CHUNK, n.min(r.end * CHUNK));
            row(to.at(a as isize * so), from.at(a as isize * ss), b - a);
        });
        return;
    }
    // Rows of the last outer dimension go by adding its strides.
    let (height, down) = (nest.sizes[nest.ndim() - 2], nest.strides(nest.ndim() - 2));
    rows::split(nest.rows(1), ns, &|r| {
        let mut at = r.start % height;
        let mut walk = nest.walk(2, r.start / height);
        let mut left = r.len();
        while left > 0 {
            let offset = |k: usize| walk.offsets[k] + at as isize * down[k];
            let (to, from) = (to.at(offset(0)), from.at(offset(1)));
            let done = if repeats { left.min(height - at) } else { 1 };
            if repeats {
                // SAFETY: as many rows of the views.
                unsafe { repeat_each(to, from, done, n, [down[0], down[1]]) };
            } else {
                row(to, from, n);
            }
            (at, left) = (at + done, left - done);
            if at == height {
                at = 0;
                walk.next();
            }
        }
    });
}

/// The most copies of an element side by side that are written as one.
const MOST_REPEATS: usize = 8;

/// Writes `n` copies of each of `rows` elements; both lie in steps of `down`.
unsafe fn repeat_each<E: Copy>(to: *mut E, from: *const E, rows: usize, n: usize, down: [isize; 2]) {
    unsafe fn each<E: Copy, const N: usize>(to: *mut E, from: *const E, rows: usize, down: [isize; 2]) {
        for i in 0..rows as isize {
            // SAFETY: the caller's.
            unsafe {
                let copies = [from.offset(i * down[1]).read_unaligned(); N];
                to.offset(i * down[0]).cast::<[E; N]>().write_unaligned(copies);
            }
        }
    }
    // SAFETY: the caller's.
    unsafe {
        match n {
            1 => each::<E, 1>(to, from, rows, down),
            2 => each::<E, 2>(to, from, rows, down),
            3 => each::<E, 3>(to, from, rows, down),
            4 => each::<E, 4>(to, from, rows, down),
            5 => each::<E, 5>(to, from, rows, down),
            6 => each::<E, 6>(to, from, rows, down),
            7 => each::<E, 7>(to, from, rows, down),
            8 => each::<E, 8>(to, from, rows, down),
            _ => unreachable!("at most {MOST_REPEATS} copies are asked for"),
        }
    }
}

/// Neighbours, without a call where they are few; the runs may be the same.
#[inline(always)]
unsafe fn plain_run<E: Copy>(from: *const E, to: *mut E, n: usize) {
    // SAFETY: the caller's runs.
    unsafe {
        match n * size_of::<E>() {
            4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
            8 => to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()),
            16 => to.cast::<[u8; 16]>().write(from.cast::<[u8; 16]>().read()),
            32 => to.cast::<[u8; 32]>().write(from.cast::<[u8; 32]>().read()),
            _ => std::ptr::copy(from, to, n),
        }
    }
}

/// A run that ends with the first element of the source.
struct Reversed<E>(*const E, *mut E, usize);
impl<E: Copy> WithSimd for Reversed<E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Reversed(from, to, n) = self;
        // SAFETY: the caller's runs, which do not overlap.
        unsafe {
            let first = from.wrapping_sub(n.saturating_sub(1));
            for i in 0..n {
                to.add(i).write_unaligned(first.add(n - 1 - i).read_unaligned());
            }
        }
    }
}

/// Bytes from one place to another: past the caches where they would not fit.
unsafe fn contiguous(src: *const u8, dst: *mut u8, n: usize) {
    if n < PIECE || std::ptr::eq(src, dst) {
        // SAFETY: the caller's; the same range onto itself is allowed.
        unsafe { std::ptr::copy(src, dst, n) };
        return;
    }
    let (from, to) = (Shared::<u8>::new(src.cast_mut()), Shared::<u8>::new(dst));
    rows::split(n.div_ceil(PIECE), PIECE as f64 * 0.04, &|r| {
        let (a, b) = (r.start * PIECE, n.min(r.end * PIECE));
        // SAFETY: pieces lie within the ranges and are disjoint.
        unsafe {
            if n >= STREAM_BYTES {
                stream_copy(from.at(a as isize), to.at(a as isize), b - a);
                fence();
            } else {
                std::ptr::copy_nonoverlapping(from.at(a as isize).cast_const(), to.at(a as isize), b - a);
            }
        }
    });
}
