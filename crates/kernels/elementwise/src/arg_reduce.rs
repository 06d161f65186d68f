//! ARG_REDUCE: the extreme along one dimension and where it first stands. NaN is more extreme than any number.

use crate::io::{Load, Store, by_compute, unsupported};
use crate::vector::{Max, Min, Reduce};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{self, Grid, Shared};
use oneflow_kernels_prim::{ArgReduceParams, Launch, Simd, View, WithSimd, dispatch, isa};

/// Columns (or elements of a run) held at a time.
const STRIP: usize = 256;

pub unsafe fn arg_reduce(l: &Launch<'_>) -> Result<()> {
    let x = l.input(0)?;
    let ArgReduceParams { is_max, dim } = l.read()?;
    let n = x.sizes.get(dim).copied().unwrap_or(1);
    if dim >= x.ndim().max(1) || n == 0 {
        return Err(Error::index(format!(
            "max/min: dimension {dim} of shape {:?} has no elements to compare",
            x.sizes
        )));
    }
    if x.dtype.is_complex() {
        return Err(unsupported(x.dtype));
    }
    // SAFETY: the launch's contract.
    unsafe { by_compute!(x.dtype.compute(), run(l, x, dim, is_max)) }
}

struct Job<T: Reduce> {
    x: Shared<u8>,
    size: isize,
    load: Load<T>,
    n: usize,
    stride: isize,
    /// Whether runs can be used where they lie.
    direct: bool,
    is_max: bool,
    values: Option<(Shared<u8>, Store<T>, isize)>,
    indices: Option<Shared<i64>>,
}

unsafe fn run<T: Reduce>(l: &Launch<'_>, x: View<'_>, dim: usize, is_max: bool) -> Result<()> {
    let (values, indices) = (l.opt_output(0), l.opt_output(1));
    if indices.is_some_and(|i| i.dtype != DType::I64) {
        return Err(Error::type_("max/min: indices must be int64"));
    }
    let zeros = vec![0i64; x.ndim()];
    let strides = [x.strides, values.map_or(&zeros[..], |v| v.strides), indices.map_or(&zeros[..], |v| v.strides)];
    let mut grid = Grid::<3>::without(x.sizes, strides, dim);
    let job = Job::<T> {
        x: Shared::new(x.ptr),
        size: x.dtype.size() as isize,
        load: T::load(x.dtype)?,
        n: x.sizes.get(dim).copied().unwrap_or(1) as usize,
        stride: x.strides.get(dim).copied().unwrap_or(0) as isize,
        direct: x.dtype == T::DTYPE
            && x.strides.get(dim).is_none_or(|s| *s == 1)
            && (x.ptr as usize).is_multiple_of(align_of::<T>()),
        is_max,
        values: match values {
            Some(v) => Some((Shared::new(v.ptr), T::store(v.dtype)?, v.dtype.size() as isize)),
            None => None,
        },
        indices: indices.map(|i| Shared::new(i.ptr)),
    };
    if grid.is_empty() {
        return Ok(());
    }
    // Columns side by side where they are the faster dimension, runs otherwise.
    let by_columns = grid.inner().1[0].abs() < job.stride.abs() && grid.inner().0 > 1;
    let (width, inner) = if by_columns { grid.pop_inner() } else { (1, [0; 3]) };
    let strips = width.div_ceil(STRIP);
    let ns = job.n as f64 * width.min(STRIP) as f64 * 0.5 + 5.0;
    rows::split(grid.len() * strips, ns, &|r| {
        for u in r {
            let col = u % strips * STRIP;
            grid.each(u / strips..u / strips + 1, |_, offsets| {
                let at = std::array::from_fn(|k| offsets[k] + col as isize * inner[k]);
                // SAFETY: positions lie in the views; every output belongs to one unit.
                unsafe {
                    if by_columns {
                        job.columns(at, inner, STRIP.min(width - col));
                    } else {
                        job.one(at);
                    }
                }
            });
        }
    });
    Ok(())
}

/// Whether `v` takes the place of `best`: it is more extreme, or the first NaN. On the negated order for a minimum.
#[inline(always)]
#[allow(clippy::eq_op)]
fn wins<T: Reduce>(v: T, best: T, is_max: bool) -> bool {
    let beats = if is_max { v > best } else { v < best };
    beats || (v != v && best == best)
}

struct Step<'a, T>(&'a [T], &'a mut [T], &'a mut [i64], i64, bool);
impl<T: Reduce> WithSimd for Step<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Step(row, best, index, i, is_max) = self;
        for ((v, b), j) in row.iter().zip(best).zip(index) {
            let w = wins(*v, *b, is_max);
            *b = if w { *v } else { *b };
            *j = if w { i } else { *j };
        }
    }
}

impl<T: Reduce> Job<T> {
    unsafe fn columns(&self, at: [isize; 3], inner: [isize; 3], width: usize) {
        let (mut row, mut best, mut index) = ([T::default(); STRIP], [T::default(); STRIP], [0i64; STRIP]);
        // SAFETY: rows of `width` columns lie in the input, the outputs have as many.
        unsafe {
            (self.load)(self.x.at(at[0] * self.size), inner[0], width, best.as_mut_ptr());
            for i in 1..self.n {
                let src = self.x.at((at[0] + i as isize * self.stride) * self.size);
                (self.load)(src, inner[0], width, row.as_mut_ptr());
                let step = Step(&row[..width], &mut best[..width], &mut index[..width], i as i64, self.is_max);
                dispatch(isa(), step);
            }
            if let Some((out, store, size)) = self.values {
                store(best.as_ptr(), width, out.at(at[1] * size), inner[1]);
            }
            if let Some(out) = self.indices {
                for (c, i) in index.iter().enumerate().take(width) {
                    *out.at(at[2] + c as isize * inner[2]) = *i;
                }
            }
        }
    }

    /// One run: the extreme of each block, looked up where it beats the blocks before.
    unsafe fn one(&self, at: [isize; 3]) {
        let (best, index) = dispatch(isa(), Run(self, at[0]));
        // SAFETY: the outputs of this run.
        unsafe {
            if let Some((out, store, size)) = self.values {
                store(&best, 1, out.at(at[1] * size), 1);
            }
            if let Some(out) = self.indices {
                *out.at(at[2]) = index;
            }
        }
    }
}

/// The extreme of the run at an offset and its index.
struct Run<'a, T: Reduce>(&'a Job<T>, isize);
impl<T: Reduce> WithSimd for Run<'_, T> {
    type Output = (T, i64);
    #[inline(always)]
    fn run<S: Simd>(self) -> (T, i64) {
        const BLOCK: usize = 1024;
        let Run(job, base) = self;
        let mut buf = [std::mem::MaybeUninit::<T>::uninit(); BLOCK];
        let (mut best, mut index) = (T::default(), 0i64);
        let mut i = 0;
        while i < job.n {
            let m = BLOCK.min(job.n - i);
            let src = job.x.at((base + i as isize * job.stride) * job.size);
            // SAFETY: the block lies in the input, or in the buffer after it has been loaded.
            let block = unsafe {
                let p = if job.direct {
                    src.cast_const().cast::<T>()
                } else {
                    (job.load)(src, job.stride, m, buf.as_mut_ptr().cast());
                    buf.as_ptr().cast()
                };
                std::slice::from_raw_parts(p, m)
            };
            // SAFETY: the block holds `m` numbers.
            let v = unsafe {
                if job.is_max {
                    T::fold_run::<S, Max>(block.as_ptr(), m)
                } else {
                    T::fold_run::<S, Min>(block.as_ptr(), m)
                }
            };
            if i == 0 || wins(v, best, job.is_max) {
                // The extreme itself, or the first NaN: what nothing in the block beats.
                let k = block.iter().position(|x| !wins(v, *x, job.is_max)).unwrap_or(0);
                (best, index) = (block[k], (i + k) as i64);
            }
            i += m;
        }
        (best, index)
    }
}
