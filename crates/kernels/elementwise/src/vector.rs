//! What a reduction folds with: registers of every compute type, and the folds.

use crate::io::Io;
use oneflow_kernels_prim::{I64, Num, Register, Simd};

/// An associative operation and what is done to an element before it.
pub trait Fold: 'static {
    /// The identity.
    const ID: f64;
    fn join<L: Num>(a: L, b: L) -> L;
    #[inline(always)]
    fn prepare<L: Num>(x: L) -> L {
        x
    }
}

macro_rules! folds {
    ($($name:ident $id:expr, |$a:ident, $b:ident| $join:expr, |$x:ident| $prepare:expr;)*) => {$(
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
        }
    )*};
}
folds! {
    Sum 0.0, |a, b| a + b, |x| x;
    Prod 1.0, |a, b| a * b, |x| x;
    Max f64::NEG_INFINITY, |a, b| a.maximum(b), |x| x;
    Min f64::INFINITY, |a, b| a.minimum(b), |x| x;
    Any 0.0, |a, b| a.maximum(b), |x| L::from_mask(x.is_true());
    All 1.0, |a, b| a.minimum(b), |x| L::from_mask(x.is_true());
}

/// A register of a compute type.
pub trait Vector: Copy {
    type Elem: Copy;
    const WIDTH: usize;
    fn splat(v: f64) -> Self;
    /// # Safety
    /// `p` is valid for `WIDTH` reads.
    unsafe fn load(p: *const Self::Elem) -> Self;
    /// # Safety
    /// `p` is valid for `n <= WIDTH` reads.
    unsafe fn load_partial_or(p: *const Self::Elem, n: usize, fill: Self) -> Self;
    /// # Safety
    /// `p` is valid for `WIDTH` writes.
    unsafe fn store(self, p: *mut Self::Elem);
    fn join<F: Fold>(self, o: Self) -> Self;
    fn prepare<F: Fold>(self) -> Self;
    /// The lanes joined pairwise.
    fn across<F: Fold>(self) -> Self::Elem;
}

/// A float register.
#[derive(Clone, Copy)]
pub struct Float<R>(pub R);

impl<R: Register> Vector for Float<R>
where
    R::Elem: Num,
{
    type Elem = R::Elem;
    const WIDTH: usize = R::WIDTH;
    #[inline(always)]
    fn splat(v: f64) -> Self {
        Float(R::splat(v))
    }
    #[inline(always)]
    unsafe fn load(p: *const R::Elem) -> Self {
        // SAFETY: the caller's.
        Float(unsafe { R::load(p) })
    }
    #[inline(always)]
    unsafe fn load_partial_or(p: *const R::Elem, n: usize, fill: Self) -> Self {
        // SAFETY: the caller's.
        Float(unsafe { R::load_partial_or(p, n, fill.0) })
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut R::Elem) {
        // SAFETY: the caller's.
        unsafe { self.0.store(p) }
    }
    #[inline(always)]
    fn join<F: Fold>(self, o: Self) -> Self {
        Float(F::join(self.0, o.0))
    }
    #[inline(always)]
    fn prepare<F: Fold>(self) -> Self {
        Float(F::prepare(self.0))
    }
    #[inline(always)]
    fn across<F: Fold>(self) -> R::Elem {
        let mut a = [R::Elem::default(); 16];
        // SAFETY: no register is wider than sixteen lanes.
        unsafe { self.0.store(a.as_mut_ptr()) };
        let mut n = R::WIDTH;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                a[i] = F::join(a[i], a[i + n]);
            }
        }
        a[0]
    }
}

/// Eight integers; the compiler makes registers of them.
#[derive(Clone, Copy)]
pub struct Ints([I64; 8]);

impl Vector for Ints {
    type Elem = i64;
    const WIDTH: usize = 8;
    #[inline(always)]
    fn splat(v: f64) -> Self {
        Ints([I64::splat(v); 8])
    }
    #[inline(always)]
    unsafe fn load(p: *const i64) -> Self {
        // SAFETY: the caller's.
        Ints(unsafe { p.cast::<[I64; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_partial_or(p: *const i64, n: usize, fill: Self) -> Self {
        let mut v = fill;
        for i in 0..n.min(8) {
            // SAFETY: the caller's.
            v.0[i] = I64(unsafe { p.add(i).read_unaligned() });
        }
        v
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut i64) {
        // SAFETY: the caller's.
        unsafe { p.cast::<[I64; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    fn join<F: Fold>(mut self, o: Self) -> Self {
        for i in 0..8 {
            self.0[i] = F::join(self.0[i], o.0[i]);
        }
        self
    }
    #[inline(always)]
    fn prepare<F: Fold>(mut self) -> Self {
        for i in 0..8 {
            self.0[i] = F::prepare(self.0[i]);
        }
        self
    }
    #[inline(always)]
    fn across<F: Fold>(self) -> i64 {
        let mut acc = self.0[0];
        for v in &self.0[1..] {
            acc = F::join(acc, *v);
        }
        acc.0
    }
}

/// A compute type with its registers and the wider type in which blocks are joined.
pub trait Reduce: Io {
    type Reg<S: Simd>: Vector<Elem = Self>;
    type Wide: Copy + Default + Send + Sync;
    fn widen(self) -> Self::Wide;
    fn narrow(w: Self::Wide) -> Self;
    fn join_wide<F: Fold>(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn id<F: Fold>() -> Self::Wide;
    fn divide(w: Self::Wide, n: usize) -> Self::Wide;
}

macro_rules! float_reduce {
    ($t:ident $reg:ident) => {
        impl Reduce for $t {
            type Reg<S: Simd> = Float<S::$reg>;
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
        }
    };
}
float_reduce!(f32 F32);
float_reduce!(f64 F64);

impl Reduce for i64 {
    type Reg<S: Simd> = Ints;
    type Wide = i64;
    #[inline(always)]
    fn widen(self) -> i64 {
        self
    }
    #[inline(always)]
    fn narrow(w: i64) -> i64 {
        w
    }
    #[inline(always)]
    fn join_wide<F: Fold>(a: i64, b: i64) -> i64 {
        F::join(I64(a), I64(b)).0
    }
    #[inline(always)]
    fn id<F: Fold>() -> i64 {
        I64::splat(F::ID).0
    }
    #[inline(always)]
    fn divide(w: i64, n: usize) -> i64 {
        if n == 0 { 0 } else { w.div_euclid(n as i64) }
    }
}

/// One contiguous run joined in independent chains of registers.
///
/// # Safety
/// `p` is valid for `n` reads.
#[inline(always)]
pub unsafe fn fold_run<S: Simd, T: Reduce, F: Fold>(p: *const T, n: usize) -> T {
    let w = T::Reg::<S>::WIDTH;
    let id = T::Reg::<S>::splat(F::ID);
    let mut acc = [id; 8];
    let mut i = 0;
    // SAFETY: every load stays below `n`.
    unsafe {
        while i + 8 * w <= n {
            for (k, a) in acc.iter_mut().enumerate() {
                *a = a.join::<F>(T::Reg::<S>::load(p.add(i + k * w)).prepare::<F>());
            }
            i += 8 * w;
        }
        let mut k = 0;
        while i + w <= n {
            acc[k] = acc[k].join::<F>(T::Reg::<S>::load(p.add(i)).prepare::<F>());
            i += w;
            k = (k + 1) % 8;
        }
        if i < n {
            // The identity is its own preparation for every fold.
            acc[7] = acc[7].join::<F>(T::Reg::<S>::load_partial_or(p.add(i), n - i, id).prepare::<F>());
        }
    }
    let quads =
        [acc[0].join::<F>(acc[1]), acc[2].join::<F>(acc[3]), acc[4].join::<F>(acc[5]), acc[6].join::<F>(acc[7])];
    quads[0].join::<F>(quads[1]).join::<F>(quads[2].join::<F>(quads[3])).across::<F>()
}

/// Joins `n_rows` rows of `n_cols` columns into `acc`, column by column.
///
/// # Safety
/// Rows are `stride` elements apart and valid for reads; `acc` holds `n_cols` numbers.
#[inline(always)]
pub unsafe fn fold_columns<S: Simd, T: Reduce, F: Fold>(
    p: *const T,
    stride: isize,
    n_rows: usize,
    n_cols: usize,
    acc: *mut T::Wide,
) {
    const REGS: usize = 4;
    let w = T::Reg::<S>::WIDTH;
    let id = T::Reg::<S>::splat(F::ID);
    let mut buf = [T::default(); 16 * REGS];
    let mut col = 0;
    // SAFETY: columns stay below `n_cols`; the buffer holds four of the widest registers.
    unsafe {
        while col < n_cols {
            let m = (n_cols - col).min(REGS * w);
            let mut regs = [id; REGS];
            if m == REGS * w {
                for r in 0..n_rows as isize {
                    let row = p.offset(r * stride).add(col);
                    for (k, a) in regs.iter_mut().enumerate() {
                        *a = a.join::<F>(T::Reg::<S>::load(row.add(k * w)).prepare::<F>());
                    }
                }
            } else {
                for (k, a) in regs.iter_mut().enumerate() {
                    let from = k * w;
                    let lanes = m.saturating_sub(from).min(w);
                    if lanes == 0 {
                        break;
                    }
                    for r in 0..n_rows as isize {
                        let row = p.offset(r * stride).add(col + from);
                        *a = a.join::<F>(T::Reg::<S>::load_partial_or(row, lanes, id).prepare::<F>());
                    }
                }
            }
            for (k, a) in regs.iter().enumerate() {
                a.store(buf.as_mut_ptr().add(k * w));
            }
            for (i, v) in buf.iter().enumerate().take(m) {
                let a = acc.add(col + i);
                *a = T::join_wide::<F>(*a, v.widen());
            }
            col += m;
        }
    }
}
