//! The stored float types: what they accumulate in, and how registers load and store them.

use oneflow_base::{bf16, f16};
use oneflow_kernels_prim::{HalfRegister, Register, Simd};
use std::ops::{Add, Mul};

/// The type sums are kept in: f32 or f64.
pub trait Acc: Copy + Default + PartialOrd + Add<Output = Self> + Mul<Output = Self> + Send + Sync + 'static {
    type Reg<S: Simd>: Register<Elem = Self>;
    const ZERO: Self;
    const ONE: Self;
    fn of(v: f64) -> Self;
}

impl Acc for f32 {
    type Reg<S: Simd> = S::F32;
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    fn of(v: f64) -> f32 {
        v as f32
    }
}

impl Acc for f64 {
    type Reg<S: Simd> = S::F64;
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    fn of(v: f64) -> f64 {
        v
    }
}

/// The register that sums of `E` are kept in.
pub type Reg<S, E> = <<E as Elem>::Acc as Acc>::Reg<S>;

/// No register has more lanes than this.
pub(crate) const MAX_LANES: usize = 16;

/// A stored float type.
pub trait Elem: Copy + Default + Send + Sync + 'static {
    type Acc: Acc;
    fn widen(self) -> Self::Acc;
    /// Loads a register's worth.
    ///
    /// # Safety
    /// As of this and the following: the elements named lie in memory.
    unsafe fn load<S: Simd>(p: *const Self) -> Reg<S, Self>;
    /// Stores a register's worth, rounding to nearest even.
    unsafe fn store<S: Simd>(v: Reg<S, Self>, p: *mut Self);

    /// What a load after a store would give: an op that reads this one's result sees no more than the stored type holds.
    ///
    /// # Safety
    /// The tier of `S` is there.
    #[inline(always)]
    unsafe fn rounded<S: Simd>(v: Reg<S, Self>) -> Reg<S, Self> {
        let mut buffer = [Self::default(); MAX_LANES];
        // SAFETY: the buffer holds any register.
        unsafe {
            Self::store::<S>(v, buffer.as_mut_ptr());
            Self::load::<S>(buffer.as_ptr())
        }
    }

    /// Loads `n` neighbours, zeros behind them; touches no others.
    #[inline(always)]
    unsafe fn load_partial<S: Simd>(p: *const Self, n: usize) -> Reg<S, Self> {
        // SAFETY: the caller's contract.
        unsafe { Self::gather::<S>(p, 1, n) }
    }

    /// Stores the first `n` lanes side by side.
    #[inline(always)]
    unsafe fn store_partial<S: Simd>(v: Reg<S, Self>, p: *mut Self, n: usize) {
        // SAFETY: the caller's contract.
        unsafe { Self::scatter::<S>(v, p, 1, n) }
    }

    /// Loads `n` elements `stride` apart, zeros behind them; touches no others.
    #[inline(always)]
    unsafe fn gather<S: Simd>(p: *const Self, stride: isize, n: usize) -> Reg<S, Self> {
        let mut buffer = [Self::default(); MAX_LANES];
        // SAFETY: the caller's pointer covers the n elements; the buffer holds any register.
        unsafe {
            for (i, b) in buffer.iter_mut().take(n).enumerate() {
                *b = *p.offset(i as isize * stride);
            }
            Self::load::<S>(buffer.as_ptr())
        }
    }

    /// Stores the first `n` lanes `stride` apart.
    #[inline(always)]
    unsafe fn scatter<S: Simd>(v: Reg<S, Self>, p: *mut Self, stride: isize, n: usize) {
        let mut buffer = [Self::default(); MAX_LANES];
        // SAFETY: the caller's pointer covers the n elements; the buffer holds any register.
        unsafe {
            Self::store::<S>(v, buffer.as_mut_ptr());
            for (i, b) in buffer.iter().take(n).enumerate() {
                *p.offset(i as isize * stride) = *b;
            }
        }
    }
}

macro_rules! float {
    ($t:ty) => {
        impl Elem for $t {
            type Acc = $t;
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            unsafe fn load<S: Simd>(p: *const $t) -> Reg<S, $t> {
                // SAFETY: the caller's contract.
                unsafe { Register::load(p) }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(v: Reg<S, $t>, p: *mut $t) {
                // SAFETY: the caller's contract.
                unsafe { v.store(p) }
            }
            #[inline(always)]
            unsafe fn rounded<S: Simd>(v: Reg<S, $t>) -> Reg<S, $t> {
                v
            }
            #[inline(always)]
            unsafe fn load_partial<S: Simd>(p: *const $t, n: usize) -> Reg<S, $t> {
                // SAFETY: the caller's contract.
                unsafe { Register::load_partial(p, n) }
            }
            #[inline(always)]
            unsafe fn store_partial<S: Simd>(v: Reg<S, $t>, p: *mut $t, n: usize) {
                // SAFETY: the caller's contract.
                unsafe { v.store_partial(p, n) }
            }
        }
    };
}
float!(f32);
float!(f64);

macro_rules! half {
    ($t:ty, $load:ident, $store:ident) => {
        impl Elem for $t {
            type Acc = f32;
            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            unsafe fn load<S: Simd>(p: *const $t) -> S::F32 {
                // SAFETY: the caller's contract; the type is its 16 bits.
                unsafe { HalfRegister::$load(p.cast()) }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(v: S::F32, p: *mut $t) {
                // SAFETY: the caller's contract; the type is its 16 bits.
                unsafe { v.$store(p.cast()) }
            }
        }
    };
}
half!(bf16, load_bf16, store_bf16);
half!(f16, load_f16, store_f16);
