//! What reductions fold with: the operations, and loops over runs and columns of every compute type.

use crate::io::Io;
use oneflow_base::{DType, bf16, f16};
use oneflow_kernels_prim::{Float, I32, I64, Num, Reg, Register, Simd};
use std::mem::MaybeUninit;

/// Most columns that are folded at a time.
pub const MAX_STRIP: usize = 2048;

/// An associative operation and what is done to an element before it.
pub trait Fold: 'static {
    /// The identity.
    const ID: f64;
    fn join<L: Num>(a: L, b: L) -> L;
    #[inline(always)]
    fn prepare<L: Num>(x: L) -> L {
        x
    }
    /// The lanes of a register joined.
    fn across<R: Register>(v: R) -> R::Elem;
}

macro_rules! folds {
    ($($name:ident $id:expr, |$a:ident, $b:ident| $join:expr, |$x:ident| $prepare:expr, $across:ident;)*) => {$(
        pub struct $name;
        impl Fold for $name {
            const ID: f64 = $id;
            #[inline(always)]
            fn join<L: Num>($a: L, $b: L) -> L {
                $join
            }
            #[inline(always)]
            fn prepare<L: Num>($x: L) -> L {
                $prepare
            }
            #[inline(always)]
            fn across<R: Register>(v: R) -> R::Elem {
                v.$across()
            }
        }
    )*};
}
folds! {
    Sum 0.0, |a, b| a + b, |x| x, sum;
    NanSum 0.0, |a, b| a + b, |x| L::select(x.is_nan(), L::splat(0.0), x), sum;
    Prod 1.0, |a, b| a * b, |x| x, product;
    Max f64::NEG_INFINITY, |a, b| a.maximum(b), |x| x, max_of;
    Min f64::INFINITY, |a, b| a.minimum(b), |x| x, min_of;
    Any 0.0, |a, b| a.maximum(b), |x| L::from_mask(x.is_true()), max_of;
    All 1.0, |a, b| a.minimum(b), |x| L::from_mask(x.is_true()), min_of;
}

/// A compute type: how runs and columns of it are folded, and the wider type in which blocks are joined.
pub trait Reduce: Io {
    type Wide: Copy + Default + Send + Sync;
    fn widen(self) -> Self::Wide;
    fn narrow(w: Self::Wide) -> Self;
    fn join_wide<F: Fold>(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn id<F: Fold>() -> Self::Wide;
    fn divide(w: Self::Wide, n: usize) -> Self::Wide;
    /// One contiguous run.
    ///
    /// # Safety
    /// `p` is valid for `n` reads.
    unsafe fn fold_run<S: Simd, F: Fold>(p: *const Self, n: usize) -> Self;
    /// One contiguous run of half numbers, where they are computed in this type.
    ///
    /// # Safety
    /// `p` is valid for `n` reads of that dtype.
    #[inline(always)]
    unsafe fn fold_halves<S: Simd, F: Fold>(_p: *const u16, _dtype: DType, _n: usize) -> Option<Self> {
        None
    }
    /// Joins `n_rows` rows of `n_cols` columns into `acc`, column by column.
    ///
    /// # Safety
    /// Rows are `stride` elements apart and valid for reads, at least one; `acc` holds `n_cols` numbers, at most `MAX_STRIP`.
    unsafe fn fold_columns<S: Simd, F: Fold>(
        p: *const Self,
        stride: isize,
        n_rows: usize,
        n_cols: usize,
        acc: *mut Self::Wide,
    );
}

macro_rules! float_reduce {
    ($t:ident $reg:ident $($halves:item)?) => {
        impl Reduce for $t {
            $($halves)?
            type Wide = f64;
            #[inline(always)]
            fn widen(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn narrow(w: f64) -> $t {
                w as $t
            }
            #[inline(always)]
            fn join_wide<F: Fold>(a: f64, b: f64) -> f64 {
                F::join(a, b)
            }
            #[inline(always)]
            fn id<F: Fold>() -> f64 {
                F::ID
            }
            #[inline(always)]
            fn divide(w: f64, n: usize) -> f64 {
                w / n as f64
            }
            #[inline(always)]
            unsafe fn fold_run<S: Simd, F: Fold>(p: *const $t, n: usize) -> $t {
                // SAFETY: the caller's.
                unsafe { fold_run::<S::$reg, F>(p, n) }
            }
            #[inline(always)]
            unsafe fn fold_columns<S: Simd, F: Fold>(
                p: *const $t,
                stride: isize,
                n_rows: usize,
                n_cols: usize,
                acc: *mut f64,
            ) {
                // SAFETY: the caller's.
                unsafe { fold_columns::<S::$reg, F>(p, stride, n_rows, n_cols, acc, |a, v| F::join(a, v as f64)) }
            }
        }
    };
}
float_reduce!(f32 F32
    #[inline(always)]
    unsafe fn fold_halves<S: Simd, F: Fold>(p: *const u16, dtype: DType, n: usize) -> Option<f32> {
        // SAFETY: the caller's.
        unsafe {
            match dtype {
                DType::BF16 => Some(fold_widened::<S, bf16, F>(p.cast(), n)),
                DType::F16 => Some(fold_widened::<S, f16, F>(p.cast(), n)),
                _ => None,
            }
        }
    }
);
float_reduce!(f64 F64);

/// Integer folds may be reordered, so the compiler vectorises the plain loops.
macro_rules! int_reduce {
    ($t:ident $lane:ident) => {
        impl Reduce for $t {
            type Wide = i64;
            #[inline(always)]
            fn widen(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn narrow(w: i64) -> $t {
                w as $t
            }
            #[inline(always)]
            fn join_wide<F: Fold>(a: i64, b: i64) -> i64 {
                F::join(I64(a), I64(b)).0
            }
            #[inline(always)]
            fn id<F: Fold>() -> i64 {
                // The least of a narrow type serves as the least of all.
                I64::splat(F::ID).0.clamp($t::MIN as i64, $t::MAX as i64)
            }
            #[inline(always)]
            fn divide(w: i64, n: usize) -> i64 {
                if n == 0 { 0 } else { w.div_euclid(n as i64) }
            }
            #[inline(always)]
            unsafe fn fold_run<S: Simd, F: Fold>(p: *const $t, n: usize) -> $t {
                let mut acc = $lane(Self::id::<F>() as $t);
                for i in 0..n {
                    // SAFETY: the caller's.
                    acc = F::join(acc, F::prepare($lane(unsafe { p.add(i).read_unaligned() })));
                }
                acc.0
            }
            #[inline(always)]
            unsafe fn fold_columns<S: Simd, F: Fold>(
                p: *const $t,
                stride: isize,
                n_rows: usize,
                n_cols: usize,
                acc: *mut i64,
            ) {
                for r in 0..n_rows as isize {
                    for c in 0..n_cols {
                        // SAFETY: the caller's.
                        unsafe {
                            let v = F::prepare($lane(p.offset(r * stride).add(c).read_unaligned()));
                            *acc.add(c) = F::join(I64(*acc.add(c)), I64(v.0 as i64)).0;
                        }
                    }
                }
            }
        }
    };
}
int_reduce!(i64 I64);
// Sums and products of it would leave its range: for what picks one of its elements.
int_reduce!(i32 I32);

/// A float run.
///
/// # Safety
/// `p` is valid for `n` reads.
#[inline(always)]
pub unsafe fn fold_run<R: Register, F: Fold>(p: *const R::Elem, n: usize) -> R::Elem {
    // SAFETY: every load stays below `n`.
    fold_by::<R, F>(n, |i| unsafe { R::load(p.add(i)) }, |i, id| unsafe { R::load_partial_or(p.add(i), n - i, id) })
}

/// As `fold_run`, of numbers that are not computed in as they are stored.
///
/// # Safety
/// `p` is valid for `n` reads.
#[inline(always)]
pub unsafe fn fold_widened<S: Simd, T: Float, F: Fold>(p: *const T, n: usize) -> T::Acc {
    // SAFETY: the loads stay below `n`.
    fold_by::<Reg<S, T>, F>(
        n,
        // SAFETY: as above.
        |i| unsafe { T::load::<S>(p.add(i)) },
        // SAFETY: as above.
        |i, id| unsafe { T::load_or::<S>(p.add(i), n - i, id) },
    )
}

/// `n` numbers by registers from an element on: eight chains, then one, then the rest.
#[inline(always)]
fn fold_by<R: Register, F: Fold>(n: usize, load: impl Fn(usize) -> R, rest: impl Fn(usize, R) -> R) -> R::Elem {
    let w = R::WIDTH;
    let id = R::splat(F::ID);
    let mut acc = id;
    let mut i = 0;
    if n >= 8 * w {
        let mut chains = [id; 8];
        while i + 8 * w <= n {
            for (k, a) in chains.iter_mut().enumerate() {
                *a = F::join(*a, F::prepare(load(i + k * w)));
            }
            i += 8 * w;
        }
        let [a, b, c, d, e, f, g, h] = chains;
        acc = F::join(F::join(F::join(a, b), F::join(c, d)), F::join(F::join(e, f), F::join(g, h)));
    }
    while i + w <= n {
        acc = F::join(acc, F::prepare(load(i)));
        i += w;
    }
    if i < n {
        // The identity is its own preparation for every fold.
        acc = F::join(acc, F::prepare(rest(i, id)));
    }
    F::across(acc)
}

#[inline(always)]
unsafe fn fold_columns<R: Register, F: Fold>(
    p: *const R::Elem,
    stride: isize,
    n_rows: usize,
    n_cols: usize,
    acc: *mut f64,
    join: impl Fn(f64, R::Elem) -> f64,
) {
    /// Rows read side by side: enough streams for the memory, few enough for its prefetchers.
    const GROUP: usize = 8;
    // Sums of a strip stay in the first cache, while memory is read along whole rows.
    let mut part = [const { MaybeUninit::<R::Elem>::uninit() }; MAX_STRIP];
    let part = part.as_mut_ptr().cast::<R::Elem>();
    // SAFETY: rows and columns are the caller's; a strip fits the buffer, and the first row fills what is read.
    unsafe {
        add_rows::<R, F, 1>(p, stride, n_cols, part, true);
        let mut r = 1;
        while r + GROUP <= n_rows {
            add_rows::<R, F, GROUP>(p.offset(r as isize * stride), stride, n_cols, part, false);
            r += GROUP;
        }
        while r < n_rows {
            add_rows::<R, F, 1>(p.offset(r as isize * stride), stride, n_cols, part, false);
            r += 1;
        }
        for i in 0..n_cols {
            *acc.add(i) = join(*acc.add(i), *part.add(i));
        }
    }
}

/// Joins `N` rows into `part`, or begins it with them.
#[inline(always)]
unsafe fn add_rows<R: Register, F: Fold, const N: usize>(
    p: *const R::Elem,
    stride: isize,
    n_cols: usize,
    part: *mut R::Elem,
    begin: bool,
) {
    let (w, id) = (R::WIDTH, R::splat(F::ID));
    // SAFETY: every column stays below `n_cols`.
    unsafe {
        let mut col = 0;
        while col + w <= n_cols {
            let mut a = if begin { id } else { R::load(part.add(col)) };
            for r in 0..N as isize {
                a = F::join(a, F::prepare(R::load(p.offset(r * stride).add(col))));
            }
            a.store(part.add(col));
            col += w;
        }
        if col < n_cols {
            let m = n_cols - col;
            let mut a = if begin { id } else { R::load_partial(part.add(col), m) };
            for r in 0..N as isize {
                a = F::join(a, F::prepare(R::load_partial_or(p.offset(r * stride).add(col), m, id)));
            }
            a.store_partial(part.add(col), m);
        }
    }
}
