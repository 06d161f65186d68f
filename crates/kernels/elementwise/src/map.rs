//! ELEMENTWISE: one expression over its inputs.
//!
//! Contiguous operands of the compute dtype, and scalars among them, go straight to the compiled tile; everything else takes
//! the general walk.

use crate::io::{Io, by_number, is_narrow};
use crate::nest::Nest;
use crate::tiles::{STREAM_BYTES, fence, for_each_tile, stream_copy};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{self, Shared};
use oneflow_kernels_prim::{Expr, Launch, MAX_INPUTS, MAX_PARAMS, Simd, Tile, View, WithSimd, Word, dispatch, isa};
use smallvec::SmallVec;

/// Bytes of all operands below which a launch stays on its caller (some twenty microseconds).
const INLINE_BYTES: usize = 512 << 10;
/// Rows shorter than this are gathered into tiles.
const SHORT: usize = 8;

pub unsafe fn elementwise(l: &Launch<'_>) -> Result<()> {
    let Some(expr) = l.expr else {
        return Err(Error::runtime("elementwise launch: the expression is missing"));
    };
    let ((dtype, scalars), isa) = (l.scalars()?, isa());
    let mut views: SmallVec<[View<'_>; 4]> = SmallVec::new();
    views.push(l.output(0)?);
    for i in 0..expr.arity {
        views.push(l.input(i)?);
    }
    let all = |f: &dyn Fn(DType) -> bool| views.iter().all(|v| f(v.dtype));
    if let Some(i) = expr.nonzero
        && dtype == DType::I64
    {
        // SAFETY: the launch's contract.
        unsafe { refuse_zero(expr, views[1 + i])? };
    }
    // SAFETY: the launch's contract.
    unsafe {
        match dtype {
            // Half types in registers, where the formula is compiled for them and their elements lie side by side.
            DType::F32 if views[0].dtype != DType::F32 && all(&|d| d == views[0].dtype) => {
                if let Some(tile) = expr.tile_bits(isa)
                    && direct(&views, tile, &[0; MAX_PARAMS], None)
                {
                    return Ok(());
                }
                if let Some(tile) = expr.tile_half(views[0].dtype, isa)
                    && direct(&views, tile, &params::<f32>(scalars), None)
                {
                    return Ok(());
                }
            }
            DType::I64 if all(&is_narrow) && scalars.iter().all(|w| i32::try_from(w.i64()).is_ok()) => {
                let bytes = all(&|d| matches!(d, DType::Bool | DType::U8))
                    && scalars.iter().all(|w| u8::try_from(w.i64()).is_ok());
                if bytes && let Some(tile) = expr.tile_u8(isa) {
                    let params = params::<i32>(scalars).map(|p| p as u8);
                    let finish: Option<Finish<u8>> = (views[0].dtype == DType::Bool && !expr.truth).then_some(truths);
                    if direct(&views, tile, &params, finish) {
                        return Ok(());
                    }
                }
                if expr.tile_i32(isa).is_some() {
                    return run::<i32>(l, expr, &views);
                }
            }
            _ => {}
        }
        by_number!(dtype, run(l, expr, &views))
    }
}

/// Scalars as numbers of the formula's type.
fn params<T: Io>(scalars: &[Word]) -> [T; MAX_PARAMS] {
    let mut params = [T::default(); MAX_PARAMS];
    for (p, w) in params.iter_mut().zip(scalars.chunks(T::WORDS)) {
        *p = T::word(w);
    }
    params
}

/// What is done to a piece of results while it is in the first cache.
type Finish<T> = unsafe fn(*mut T, usize);

/// Bytes that are not zero become one.
struct Truths(*mut u8, usize);
impl WithSimd for Truths {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: the caller's piece.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.0, self.1) };
        bytes.iter_mut().for_each(|b| *b = (*b).min(1));
    }
}

/// # Safety
/// `p` is valid for `n` reads and writes.
unsafe fn truths(p: *mut u8, n: usize) {
    dispatch(isa(), Truths(p, n));
}

/// Runs a tile, and what follows it piece by piece.
unsafe fn finished<T: Copy, P>(
    n: usize,
    tile: Tile<T, P>,
    mut at: [*const T; MAX_INPUTS],
    steps: &[usize; MAX_INPUTS],
    dst: *mut T,
    params: &[P; MAX_PARAMS],
    finish: Option<Finish<T>>,
) {
    const PIECE: usize = 8192;
    // SAFETY: the caller's operands hold `n` elements.
    unsafe {
        let Some(finish) = finish else {
            return tile(n, at.as_ptr(), steps.as_ptr(), dst, params.as_ptr());
        };
        let mut i = 0;
        while i < n {
            let m = PIECE.min(n - i);
            tile(m, at.as_ptr(), steps.as_ptr(), dst.add(i), params.as_ptr());
            finish(dst.add(i), m);
            for (p, s) in at.iter_mut().zip(steps) {
                *p = p.wrapping_add(m * s);
            }
            i += m;
        }
    }
}

unsafe fn run<T: Io>(l: &Launch<'_>, expr: &'static Expr, views: &[View<'_>]) -> Result<()> {
    let Some(tile) = T::tile(expr, isa()) else {
        return Err(no_kernel(expr, T::DTYPE));
    };
    let params = params::<T>(l.scalars()?.1);
    // SAFETY: the launch's contract.
    if views.iter().all(|v| v.dtype == T::DTYPE) && unsafe { direct(views, tile, &params, None) } {
        return Ok(());
    }
    let f = |n: usize, ins: &[*const T], steps: &[usize], outs: &[*mut T]| {
        // SAFETY: the walk hands out `n` valid elements of every operand.
        unsafe { tile(n, ins.as_ptr(), steps.as_ptr(), outs[0], params.as_ptr()) }
    };
    // SAFETY: the launch's contract.
    unsafe { for_each_tile(&views[..1], &views[1..], &f) }
}

/// Operands of one dtype that the tile can use where they lie: as one run, the way of almost every call, or as rows. The
/// output is the first. Answers whether they could be.
unsafe fn direct<T: Copy + Default, P: Sync>(
    views: &[View<'_>],
    tile: Tile<T, P>,
    params: &[P; MAX_PARAMS],
    finish: Option<Finish<T>>,
) -> bool {
    let (out, ins) = (&views[0], &views[1..]);
    let n = out.numel();
    if n == 0 {
        return true;
    }
    let mut ptrs = [std::ptr::null::<T>(); MAX_INPUTS];
    let mut steps = [0usize; MAX_INPUTS];
    let mut linear = out.is_contiguous();
    for (i, v) in ins.iter().enumerate() {
        ptrs[i] = v.ptr.cast();
        if v.is_contiguous() {
            steps[i] = 1;
        } else {
            linear &= v.strides.iter().all(|s| *s == 0);
        }
    }
    if linear {
        let dst = out.ptr.cast::<T>();
        if n * size_of::<T>() * views.len() < INLINE_BYTES {
            // SAFETY: all operands hold `n` elements (one where the step is 0); aliasing is as the launch's contract says.
            unsafe { finished(n, tile, ptrs, &steps, dst, params, finish) };
        } else {
            // SAFETY: as above.
            unsafe { parallel(n, tile, &ptrs[..ins.len()], &steps, dst, params, finish) };
        }
        return true;
    }
    let strides: SmallVec<[&[i64]; 4]> = views.iter().map(|v| v.strides).collect();
    let nest = Nest::new(out.sizes, &strides);
    let inner = nest.inner_strides();
    if inner[0] == 1 && inner.iter().all(|s| matches!(s, 0 | 1)) && nest.inner() >= SHORT {
        // SAFETY: the launch's contract.
        unsafe { by_rows(&nest, tile, ins, out.ptr, params, finish) };
        return true;
    }
    false
}

/// Rows that every operand walks by one or stays on, used where they lie: a bias, a column.
unsafe fn by_rows<T: Copy, P: Sync>(
    nest: &Nest,
    tile: Tile<T, P>,
    ins: &[View<'_>],
    out: *mut u8,
    params: &[P; MAX_PARAMS],
    finish: Option<Finish<T>>,
) {
    /// Elements of a piece of a row.
    const PIECE: usize = 16 << 10;
    let (n, inner, arity) = (nest.inner(), nest.inner_strides(), ins.len());
    let out = Shared::<T>::new(out);
    let mut srcs = [Shared::<T>::new(std::ptr::null_mut()); MAX_INPUTS];
    let mut steps = [0usize; MAX_INPUTS];
    for (k, v) in ins.iter().enumerate() {
        srcs[k] = Shared::new(v.ptr);
        steps[k] = inner[k + 1] as usize;
    }
    let pieces = n.div_ceil(PIECE);
    // Rows of the last outer dimension go by adding its strides.
    let skip = nest.ndim().min(2);
    let (height, strides): (usize, &[isize]) = if skip == 2 {
        (nest.sizes[nest.ndim() - 2], nest.strides(nest.ndim() - 2))
    } else {
        (1, &[0; MAX_INPUTS + 1])
    };
    let ns = n.min(PIECE) as f64 * 0.1 * (1 + arity) as f64 + 10.0;
    rows::split(nest.rows(1) * pieces, ns, &|r| {
        let mut col = r.start % pieces;
        let mut row = r.start / pieces % height;
        let mut walk = nest.walk(skip, r.start / pieces / height);
        for _ in r {
            let offset = |k: usize| walk.offsets[k] + row as isize * strides[k];
            let mut at = [std::ptr::null::<T>(); MAX_INPUTS];
            for k in 0..arity {
                at[k] = srcs[k].at(offset(k + 1) + (col * PIECE * steps[k]) as isize);
            }
            let dst = out.at(offset(0) + (col * PIECE) as isize);
            // SAFETY: the piece lies in its row; rows are disjoint.
            unsafe { finished(PIECE.min(n - col * PIECE), tile, at, &steps, dst, params, finish) };
            col += 1;
            if col == pieces {
                (col, row) = (0, row + 1);
            }
            if row == height {
                row = 0;
                walk.next();
            }
        }
    });
}

/// One run cut into pieces of whole cache lines for the pool. Where it is cut does not change an element.
#[inline(never)]
unsafe fn parallel<T: Copy + Default, P: Sync>(
    n: usize,
    tile: Tile<T, P>,
    ptrs: &[*const T],
    steps: &[usize; MAX_INPUTS],
    dst: *mut T,
    params: &[P; MAX_PARAMS],
    finish: Option<Finish<T>>,
) {
    const GRAIN: usize = 4096;
    let pieces = n.div_ceil(GRAIN);
    let dst = Shared::<T>::new(dst.cast());
    let mut srcs = [Shared::<T>::new(std::ptr::null_mut()); MAX_INPUTS];
    for (s, p) in srcs.iter_mut().zip(ptrs) {
        *s = Shared::new(p.cast_mut().cast());
    }
    let arity = ptrs.len();
    let apart = ptrs.iter().all(|p| !std::ptr::eq(*p, dst.at(0)));
    let stream = n * size_of::<T>() >= STREAM_BYTES && apart;
    rows::split(pieces, GRAIN as f64 * 0.1 * (1 + arity) as f64, &|r| {
        let (a, b) = (r.start * GRAIN, n.min(r.end * GRAIN));
        let mut at = [std::ptr::null::<T>(); MAX_INPUTS];
        for i in 0..arity {
            at[i] = srcs[i].at((a * steps[i]) as isize);
        }
        // SAFETY: `a..b` lies within the operands; pieces are disjoint.
        unsafe {
            if stream && finish.is_none() {
                streamed(b - a, tile, &mut at[..arity], steps, dst.at(a as isize), params);
            } else {
                finished(b - a, tile, at, steps, dst.at(a as isize), params, finish);
            }
        }
    });
}

/// Through a few cache lines and then past the caches: in small steps, so that loads and stores to memory alternate.
unsafe fn streamed<T: Copy + Default, P>(
    n: usize,
    tile: Tile<T, P>,
    at: &mut [*const T],
    steps: &[usize; MAX_INPUTS],
    dst: *mut T,
    params: &[P; MAX_PARAMS],
) {
    const STEP: usize = 128;
    let mut buf = [T::default(); STEP];
    let mut i = 0;
    while i < n {
        let m = STEP.min(n - i);
        // SAFETY: the caller's operands hold `n` elements.
        unsafe {
            tile(m, at.as_ptr(), steps.as_ptr(), buf.as_mut_ptr(), params.as_ptr());
            stream_copy(buf.as_ptr().cast(), dst.add(i).cast(), m * size_of::<T>());
            for (p, s) in at.iter_mut().zip(steps) {
                *p = p.add(m * s);
            }
        }
        i += m;
    }
    fence();
}

/// An integer divided by zero is an error before anything is written.
unsafe fn refuse_zero(expr: &Expr, v: View<'_>) -> Result<()> {
    let load = i64::load(v.dtype)?;
    if v.numel() == 0 {
        return Ok(());
    }
    let nest = Nest::new(v.sizes, &[v.strides]);
    let (n, stride) = (nest.inner(), nest.inner_strides()[0]);
    let mut walk = nest.walk(1, 0);
    let mut buf = [0i64; 256];
    for _ in 0..nest.rows(1) {
        let mut i = 0;
        let n = if stride == 0 { 1 } else { n };
        while i < n {
            let m = (n - i).min(buf.len());
            let offset = (walk.offsets[0] + i as isize * stride) * v.dtype.size() as isize;
            // SAFETY: the elements are the view's.
            unsafe { load(v.ptr.offset(offset), stride, m, buf.as_mut_ptr()) };
            if buf[..m].contains(&0) {
                return Err(Error::runtime(format!("ZeroDivisionError: {}: integer division by zero", expr.name)));
            }
            i += m;
        }
        walk.next();
    }
    Ok(())
}

#[cold]
pub fn no_kernel(expr: &Expr, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{}_cpu\" not implemented for '{}'", expr.name, dtype.scalar_type_name()))
}
