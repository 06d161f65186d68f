//! REDUCE: any set of dimensions, for any order in memory.
//!
//! Where the fastest dimension is reduced, runs are folded; where it is kept, columns are. Blocks are folded in the compute
//! type in many chains and joined in a wider type. Big reductions are cut into pieces by their shape alone, so the result
//! does not depend on the number of threads.

use crate::complex;
use crate::io::{Load, Store, by_compute, is_narrow, unsupported};
use crate::nest::{Nest, Walk};
use crate::vector::{All, Any, Fold, MAX_STRIP, Max, Min, NanSum, Prod, Reduce, Sum};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{self, Shared};
use oneflow_kernels_prim::{Launch, ReduceKind, ReduceParams, Simd, View, WithSimd, dispatch, isa};
use smallvec::SmallVec;

/// Elements folded in the compute type before they are joined in the wide one.
const BLOCK: usize = 4096;
/// Rows of a column strip folded in the compute type.
const BLOCK_ROWS: usize = 128;
/// Columns of a strip: of long rows, because memory is fastest along them, and of elements that are cast first.
const STRIP: usize = MAX_STRIP;
const CAST_STRIP: usize = 256;
/// Elements of a piece when one reduction is cut for the pool.
const PIECE: usize = 64 << 10;
/// Fewer independent outputs than this leave threads idle: reductions are cut.
const FEW: usize = 16;

pub unsafe fn reduce(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let ReduceParams { kind } = l.read()?;
    if x.ndim() != out.ndim() || x.sizes.iter().zip(out.sizes).any(|(a, b)| a != b && *b != 1) {
        return Err(Error::runtime(format!("reduce: input {:?} and output {:?} do not fit", x.sizes, out.sizes)));
    }
    if x.dtype.is_complex() || out.dtype.is_complex() {
        // SAFETY: the launch's contract.
        return unsafe {
            match kind {
                ReduceKind::Sum | ReduceKind::Mean => {
                    complex::by_parts(x, out, &|x, out| by_compute!(float_of(x, out), run(x, out, kind)))
                }
                ReduceKind::Max | ReduceKind::Min | ReduceKind::NanSum => Err(unsupported(x.dtype)),
                _ => complex::reduce(x, out, kind),
            }
        };
    }
    let of_truth = matches!(kind, ReduceKind::Any | ReduceKind::All);
    let dtype = match (x.dtype.compute(), out.dtype.compute()) {
        (a, _) if of_truth => a,
        (DType::F64, _) | (_, DType::F64) => DType::F64,
        (DType::F32, _) | (_, DType::F32) => DType::F32,
        _ => DType::I64,
    };
    let picks = of_truth || matches!(kind, ReduceKind::Max | ReduceKind::Min);
    if picks && is_narrow(x.dtype) && is_narrow(out.dtype) {
        // SAFETY: the launch's contract.
        return unsafe { run::<i32>(x, out, kind) };
    }
    // SAFETY: the launch's contract.
    unsafe { by_compute!(dtype, run(x, out, kind)) }
}

fn float_of(x: View<'_>, out: View<'_>) -> DType {
    if x.dtype == DType::F64 || out.dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

unsafe fn run<T: Reduce>(x: View<'_>, out: View<'_>, kind: ReduceKind) -> Result<()> {
    // SAFETY: the caller's.
    unsafe {
        match kind {
            ReduceKind::Sum | ReduceKind::Mean => fold::<T, Sum>(x, out, kind == ReduceKind::Mean),
            ReduceKind::Prod => fold::<T, Prod>(x, out, false),
            ReduceKind::Max => fold::<T, Max>(x, out, false),
            ReduceKind::Min => fold::<T, Min>(x, out, false),
            ReduceKind::Any => fold::<T, Any>(x, out, false),
            ReduceKind::All => fold::<T, All>(x, out, false),
            // Integers have no NaN.
            ReduceKind::NanSum if T::DTYPE == DType::I64 => fold::<T, Sum>(x, out, false),
            ReduceKind::NanSum => fold::<T, NanSum>(x, out, false),
        }
    }
}

/// Everything a piece of the work needs to know.
struct Job<'a, T: Reduce> {
    x: Shared<u8>,
    dtype: DType,
    size: isize,
    load: Load<T>,
    /// Whether runs can be folded where they lie.
    direct: bool,
    /// Columns of a strip.
    strip: usize,
    /// Kept dimensions over (x, out); in column mode without the innermost.
    kept: &'a Nest,
    /// Reduced dimensions over (x).
    reduced: &'a Nest,
    n_reduced: usize,
    /// Column mode: columns, x's and out's stride between them.
    columns: Option<(usize, isize, isize)>,
    /// Pieces every reduction is cut into, and their elements (runs) or rows (columns).
    n_pieces: usize,
    piece: usize,
    /// Results: where they go at once, or piece by piece.
    out: Shared<u8>,
    out_size: isize,
    store: Store<T>,
    partial: Option<Shared<T::Wide>>,
    mean: bool,
}

unsafe fn fold<T: Reduce, F: Fold>(x: View<'_>, out: View<'_>, mean: bool) -> Result<()> {
    let (load, store) = (T::load(x.dtype)?, T::store(out.dtype)?);
    let n_out = out.numel();
    if n_out == 0 {
        return Ok(());
    }
    let n = x.numel();
    let direct = x.dtype == T::DTYPE;
    if direct && n_out == 1 && n <= PIECE && x.is_contiguous() {
        let sum = dispatch(isa(), Whole::<T, F>(x.ptr.cast(), n, std::marker::PhantomData));
        // SAFETY: the output has one element.
        unsafe { store(&finish::<T>(sum, mean, n), 1, out.ptr, 1) };
        return Ok(());
    }
    if n == 0 {
        let v = finish::<T>(T::id::<F>(), mean, 0);
        // SAFETY: the whole output is filled with one number.
        return unsafe { fill_all(out, store, v) };
    }
    let zeroed: SmallVec<[i64; 6]> =
        out.strides.iter().zip(out.sizes).zip(x.sizes).map(|((s, o), i)| if o == i { *s } else { 0 }).collect();
    let nest = Nest::new(x.sizes, &[x.strides, &zeroed]);
    let is_reduced = |d: usize| nest.strides(d)[1] == 0;
    let last = nest.ndim() - 1;
    let by_columns = !is_reduced(last);
    let n_dims = if by_columns { last } else { last + 1 };
    let kept = Nest::from_dims(2, (0..n_dims).filter(|d| !is_reduced(*d)).map(|d| (nest.sizes[d], nest.strides(d))));
    let reduced =
        Nest::from_dims(1, (0..n_dims).filter(|d| is_reduced(*d)).map(|d| (nest.sizes[d], &nest.strides(d)[..1])));
    let columns = by_columns.then(|| (nest.inner(), nest.inner_strides()[0], nest.inner_strides()[1]));
    let n_reduced = reduced.rows(0);
    let n_kept = kept.rows(0);
    let direct = direct && columns.map_or(reduced.inner_strides()[0], |c| c.1) == 1;
    let strip = if direct { STRIP } else { CAST_STRIP };
    // Cut by shape alone: where a reduction is cut decides the order of additions.
    let (n_jobs, piece) = match columns {
        None => (n_kept, PIECE),
        Some((c, ..)) => {
            let n_jobs = n_kept * c.div_ceil(strip);
            let least = (PIECE / c.min(strip)).max(n_reduced.div_ceil(FEW.div_ceil(n_jobs)));
            (n_jobs, least.next_multiple_of(BLOCK_ROWS))
        }
    };
    let n_pieces = if n_jobs < FEW { n_reduced.div_ceil(piece) } else { 1 };
    let mut partial: Vec<T::Wide> = if n_pieces > 1 { vec![T::id::<F>(); n_pieces * n_out] } else { Vec::new() };
    let job = Job {
        x: Shared::new(x.ptr),
        dtype: x.dtype,
        size: x.dtype.size() as isize,
        load,
        direct,
        strip,
        kept: &kept,
        reduced: &reduced,
        n_reduced,
        columns,
        n_pieces,
        piece: if n_pieces > 1 { piece } else { n_reduced },
        out: Shared::new(out.ptr),
        out_size: out.dtype.size() as isize,
        store,
        partial: (n_pieces > 1).then(|| Shared::new(partial.as_mut_ptr().cast())),
        mean,
    };
    let units = n_jobs * n_pieces;
    let ns = n as f64 * x.dtype.size() as f64 * 0.05 / units as f64 + 5.0;
    rows::split(units, ns, &|r| dispatch(isa(), Units::<T, F>(&job, r, std::marker::PhantomData)));
    if n_pieces > 1 {
        // SAFETY: the same output positions; all pieces are there.
        unsafe { job.join::<F>(&partial) };
    }
    Ok(())
}

#[inline(always)]
fn finish<T: Reduce>(w: T::Wide, mean: bool, n: usize) -> T {
    T::narrow(if mean { T::divide(w, n) } else { w })
}

unsafe fn fill_all<T: Reduce>(out: View<'_>, store: Store<T>, v: T) -> Result<()> {
    let mut bytes = [0u8; 16];
    // SAFETY: an element is at most sixteen bytes; the view is the launch's.
    unsafe {
        store(&v, 1, bytes.as_mut_ptr(), 1);
        crate::fill::fill_view(out, bytes);
    }
    Ok(())
}

struct Whole<T, F>(*const T, usize, std::marker::PhantomData<F>);
impl<T: Reduce, F: Fold> WithSimd for Whole<T, F> {
    type Output = T::Wide;
    #[inline(always)]
    fn run<S: Simd>(self) -> T::Wide {
        let mut acc = T::id::<F>();
        let mut i = 0;
        while i < self.1 {
            let m = BLOCK.min(self.1 - i);
            // SAFETY: the block lies in the run.
            acc = T::join_wide::<F>(acc, unsafe { T::fold_run::<S, F>(self.0.add(i), m) }.widen());
            i += m;
        }
        acc
    }
}

struct Units<'a, T: Reduce, F>(&'a Job<'a, T>, std::ops::Range<usize>, std::marker::PhantomData<F>);
impl<T: Reduce, F: Fold> WithSimd for Units<'_, T, F> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: units lie in the job, and two of them never write the same element.
        unsafe {
            match self.0.columns {
                None => self.0.runs::<S, F>(self.1),
                Some(c) => self.0.columns::<S, F>(self.1, c),
            }
        }
    }
}

impl<T: Reduce> Job<'_, T> {
    /// Units are (kept position, piece).
    #[inline(always)]
    unsafe fn runs<S: Simd, F: Fold>(&self, units: std::ops::Range<usize>) {
        if let Some(partial) = self.partial {
            for u in units {
                let p = u % self.n_pieces;
                let (a, b) = (p * self.piece, self.n_reduced.min((p + 1) * self.piece));
                let kept = self.kept.walk(0, u / self.n_pieces);
                // SAFETY: the caller's; one slot a unit.
                unsafe { *partial.at(u as isize) = self.run::<S, F>(kept.offsets[0], a, b) };
            }
            return;
        }
        // Outputs of one row of the kept dimensions together.
        const OUTS: usize = 64;
        let (n_cols, strides) = (self.kept.inner(), self.kept.inner_strides());
        let (xs, os) = (strides[0], strides[1]);
        let mut kept = self.kept.walk(1, units.start / n_cols);
        let mut col = units.start % n_cols;
        let mut left = units.len();
        let plain = self.direct && self.reduced.ndim() == 1 && self.n_reduced <= BLOCK;
        let mut res = [T::default(); OUTS];
        while left > 0 {
            let m = OUTS.min(left).min(n_cols - col);
            let mut base = kept.offsets[0] + col as isize * xs;
            for r in &mut res[..m] {
                // SAFETY: runs lie in the input.
                let acc = unsafe {
                    if plain {
                        T::fold_run::<S, F>(self.x.at(base * self.size).cast(), self.n_reduced).widen()
                    } else {
                        self.run::<S, F>(base, 0, self.n_reduced)
                    }
                };
                *r = finish::<T>(acc, self.mean, self.n_reduced);
                base += xs;
            }
            let dst = self.out.at((kept.offsets[1] + col as isize * os) * self.out_size);
            // SAFETY: the outputs of this piece of a row.
            unsafe { (self.store)(res.as_ptr(), m, dst, os) };
            left -= m;
            col += m;
            if col == n_cols {
                col = 0;
                kept.next();
            }
        }
    }

    /// Elements `a..b` of the reduced dimensions at a kept position, in order.
    #[inline(always)]
    unsafe fn run<S: Simd, F: Fold>(&self, base: isize, a: usize, b: usize) -> T::Wide {
        let (m, stride) = (self.reduced.inner(), self.reduced.inner_strides()[0]);
        let mut acc = T::id::<F>();
        let mut i = a;
        let mut col = a % m;
        let mut walk: Option<Walk<'_>> = (self.reduced.ndim() > 1).then(|| self.reduced.walk(1, a / m));
        let mut buf = [std::mem::MaybeUninit::<T>::uninit(); BLOCK / 4];
        while i < b {
            let halves = stride == 1 && T::DTYPE == DType::F32 && matches!(self.dtype, DType::BF16 | DType::F16);
            let n = (m - col).min(b - i).min(if self.direct || halves { BLOCK } else { BLOCK / 4 });
            let offset = base + walk.as_ref().map_or(0, |w| w.offsets[0]) + col as isize * stride;
            let src = self.x.at(offset * self.size);
            // SAFETY: the run lies in the input.
            let v = unsafe {
                if self.direct {
                    T::fold_run::<S, F>(src.cast(), n)
                } else if halves && let Some(v) = T::fold_halves::<S, F>(src.cast(), self.dtype, n) {
                    v
                } else {
                    (self.load)(src, stride, n, buf.as_mut_ptr().cast());
                    T::fold_run::<S, F>(buf.as_ptr().cast(), n)
                }
            };
            acc = T::join_wide::<F>(acc, v.widen());
            i += n;
            col += n;
            if col == m {
                col = 0;
                if let Some(w) = &mut walk {
                    w.next();
                }
            }
        }
        acc
    }

    /// Units are (kept position, strip of columns, piece of rows).
    #[inline(always)]
    unsafe fn columns<S: Simd, F: Fold>(&self, units: std::ops::Range<usize>, (n_cols, xs, os): (usize, isize, isize)) {
        const BUF_ROWS: usize = 16;
        let strips = n_cols.div_ceil(self.strip);
        let mut buf = [std::mem::MaybeUninit::<T>::uninit(); BUF_ROWS * CAST_STRIP];
        // Filled as far as a strip is wide.
        let mut acc = [const { std::mem::MaybeUninit::<T::Wide>::uninit() }; STRIP];
        let acc = acc.as_mut_ptr().cast::<T::Wide>();
        let mut res = [const { std::mem::MaybeUninit::<T>::uninit() }; STRIP];
        let res = res.as_mut_ptr().cast::<T>();
        let mut at_k = units.start / self.n_pieces / strips;
        let mut kept = self.kept.walk(0, at_k);
        for u in units {
            let (p, strip, k) = (u % self.n_pieces, u / self.n_pieces % strips, u / self.n_pieces / strips);
            if k != at_k {
                kept.next();
                at_k = k;
            }
            let (mut row, end) = (p * self.piece, self.n_reduced.min((p + 1) * self.piece));
            let col = strip * self.strip;
            let width = self.strip.min(n_cols - col);
            let base = kept.offsets[0] + col as isize * xs;
            // SAFETY: a strip fits.
            (0..width).for_each(|c| unsafe { *acc.add(c) = T::id::<F>() });
            let (m, stride) = (self.reduced.inner(), self.reduced.inner_strides()[0]);
            let mut walk = self.reduced.walk(1, row / m);
            let mut at = row % m;
            while row < end {
                let n = (m - at).min(end - row).min(if self.direct { BLOCK_ROWS } else { BUF_ROWS });
                let offset = base + walk.offsets[0] + at as isize * stride;
                // SAFETY: rows and columns lie in the input; the buffer holds sixteen rows of a strip.
                unsafe {
                    if self.direct {
                        let src = self.x.at(offset * self.size);
                        T::fold_columns::<S, F>(src.cast(), stride, n, width, acc);
                    } else {
                        for r in 0..n {
                            let src = self.x.at((offset + r as isize * stride) * self.size);
                            (self.load)(src, xs, width, buf.as_mut_ptr().cast::<T>().add(r * CAST_STRIP));
                        }
                        T::fold_columns::<S, F>(buf.as_ptr().cast(), CAST_STRIP as isize, n, width, acc);
                    }
                }
                row += n;
                at += n;
                if at == m {
                    at = 0;
                    walk.next();
                }
            }
            // SAFETY: one slot a (piece, kept position, column), or the strip of the output.
            unsafe {
                match self.partial {
                    Some(partial) => (0..width).for_each(|c| {
                        *partial.at((((k * n_cols) + col + c) * self.n_pieces + p) as isize) = *acc.add(c);
                    }),
                    None => {
                        (0..width).for_each(|c| *res.add(c) = finish::<T>(*acc.add(c), self.mean, self.n_reduced));
                        let dst = self.out.at((kept.offsets[1] + col as isize * os) * self.out_size);
                        (self.store)(res, width, dst, os);
                    }
                }
            }
        }
    }

    /// Joins the pieces of every output in order and stores them.
    unsafe fn join<F: Fold>(&self, partial: &[T::Wide]) {
        let (n_cols, _, os) = self.columns.unwrap_or((1, 0, 0));
        let mut kept = self.kept.walk(0, 0);
        for (i, pieces) in partial.chunks(self.n_pieces).enumerate() {
            let w = pieces.iter().fold(T::id::<F>(), |a, b| T::join_wide::<F>(a, *b));
            let v = finish::<T>(w, self.mean, self.n_reduced);
            let col = i % n_cols;
            // SAFETY: the output of this kept position and column.
            unsafe { (self.store)(&v, 1, self.out.at((kept.offsets[1] + col as isize * os) * self.out_size), 1) };
            if col + 1 == n_cols {
                kept.next();
            }
        }
    }
}
