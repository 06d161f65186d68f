//! Floats in memory as kernels read them: registers of the dtype they are computed in.
//!
//! The switch from a dtype to its type is `oneflow_base::by_float!`.

use crate::{HalfRegister, Register, Simd};
use oneflow_base::{DType, bf16, f16};

/// No register has more lanes than this.
const MAX_LANES: usize = 16;

/// A dtype that kernels compute in: `f32` or `f64`.
pub trait Acc: Register<Elem = Self> + Default + PartialOrd + Send + Sync + 'static {
    type Reg<S: Simd>: Register<Elem = Self>;
    const DTYPE: DType;
    const ZERO: Self;
    const ONE: Self;
    /// Zeros, then minus infinities: what a partly loaded register adds to make its missing lanes the least number.
    const LEAST: &'static [Self; 2 * MAX_LANES];
    fn of(v: f64) -> Self;
    fn to_f64(self) -> f64;
    /// Without its fraction.
    ///
    /// # Safety
    /// The value is at least zero and below 2^31.
    unsafe fn index(self) -> i32;
}

macro_rules! acc {
    ($t:ident, $register:ident, $dtype:ident) => {
        impl Acc for $t {
            type Reg<S: Simd> = S::$register;
            const DTYPE: DType = DType::$dtype;
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const LEAST: &'static [$t; 2 * MAX_LANES] = &{
                let mut t = [0.0; 2 * MAX_LANES];
                let mut i = MAX_LANES;
                while i < t.len() {
                    t[i] = $t::NEG_INFINITY;
                    i += 1;
                }
                t
            };
            #[inline(always)]
            fn of(v: f64) -> $t {
                v as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            unsafe fn index(self) -> i32 {
                // SAFETY: by the caller.
                unsafe { self.to_int_unchecked() }
            }
        }
    };
}
acc!(f32, F32, F32);
acc!(f64, F64, F64);

/// The register that numbers of a float dtype are computed in.
pub type Reg<S, T> = <<T as Float>::Acc as Acc>::Reg<S>;

/// A float dtype in memory.
pub trait Float: Copy + Default + Send + Sync + 'static {
    type Acc: Acc;
    const DTYPE: DType;
    fn widen(self) -> Self::Acc;
    /// Rounds to nearest even.
    fn narrow(v: Self::Acc) -> Self;

    /// Loads a register's worth.
    ///
    /// # Safety
    /// As of this and all that follow: the elements named lie in memory, and no more than a register's.
    unsafe fn load<S: Simd>(p: *const Self) -> Reg<S, Self>;
    /// Stores a register's worth, rounding to nearest even.
    ///
    /// # Safety
    /// As of `load`.
    unsafe fn store<S: Simd>(v: Reg<S, Self>, p: *mut Self);

    /// Loads `n` neighbours, zeros behind them; touches no others.
    ///
    /// # Safety
    /// As of `load`.
    #[inline(always)]
    unsafe fn load_partial<S: Simd>(p: *const Self, n: usize) -> Reg<S, Self> {
        let mut buffer = [Self::default(); MAX_LANES];
        // SAFETY: the caller's pointer covers the n elements; the buffer holds any register.
        unsafe {
            std::ptr::copy_nonoverlapping(p, buffer.as_mut_ptr(), n);
            Self::load::<S>(buffer.as_ptr())
        }
    }

    /// Stores the first `n` lanes.
    ///
    /// # Safety
    /// As of `load`.
    #[inline(always)]
    unsafe fn store_partial<S: Simd>(v: Reg<S, Self>, p: *mut Self, n: usize) {
        let mut buffer = [Self::default(); MAX_LANES];
        // SAFETY: the caller's pointer covers the n elements; the buffer holds any register.
        unsafe {
            Self::store::<S>(v, buffer.as_mut_ptr());
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), p, n);
        }
    }

    /// Loads the first `n` neighbours; whole registers without a mask, which some machines are slow at. A constant `n`
    /// folds.
    ///
    /// # Safety
    /// As of `load`.
    #[inline(always)]
    unsafe fn load_n<S: Simd>(p: *const Self, n: usize) -> Reg<S, Self> {
        // SAFETY: by the caller.
        unsafe { if n == Reg::<S, Self>::WIDTH { Self::load::<S>(p) } else { Self::load_partial::<S>(p, n) } }
    }

    /// Stores the first `n` lanes, as `load_n` loads.
    ///
    /// # Safety
    /// As of `load`.
    #[inline(always)]
    unsafe fn store_n<S: Simd>(v: Reg<S, Self>, p: *mut Self, n: usize) {
        // SAFETY: by the caller.
        unsafe { if n == Reg::<S, Self>::WIDTH { Self::store::<S>(v, p) } else { Self::store_partial::<S>(v, p, n) } }
    }

    /// As `load_n`, with `fill`'s in the other lanes.
    ///
    /// # Safety
    /// As of `load`.
    #[inline(always)]
    unsafe fn load_or<S: Simd>(p: *const Self, n: usize, fill: Reg<S, Self>) -> Reg<S, Self> {
        // SAFETY: by the caller; the buffer holds any register.
        unsafe {
            if n == Reg::<S, Self>::WIDTH {
                return Self::load::<S>(p);
            }
            let mut wide = [Self::Acc::ZERO; MAX_LANES];
            Self::load_partial::<S>(p, n).store(wide.as_mut_ptr());
            Register::load_partial_or(wide.as_ptr(), n, fill)
        }
    }

    /// As `load_n`, with minus infinity in the other lanes.
    ///
    /// # Safety
    /// As of `load`.
    #[inline(always)]
    unsafe fn load_least<S: Simd>(p: *const Self, n: usize) -> Reg<S, Self> {
        // SAFETY: by the caller; the table has a register's worth on both sides.
        unsafe {
            if n == Reg::<S, Self>::WIDTH {
                Self::load::<S>(p)
            } else {
                Self::load_partial::<S>(p, n) + Register::load(Self::Acc::LEAST.as_ptr().add(MAX_LANES - n))
            }
        }
    }

    /// As `store`, past the caches where the dtype can.
    ///
    /// # Safety
    /// As of `load`; `p` is aligned to a register, and a fence must follow before other threads read.
    #[inline(always)]
    unsafe fn stream<S: Simd>(v: Reg<S, Self>, p: *mut Self) {
        // SAFETY: by the caller.
        unsafe { Self::store::<S>(v, p) }
    }

    /// What a load after a store would give: an op that reads this one's result sees no more than the dtype holds.
    ///
    /// # Safety
    /// The machine has the instructions of `S`.
    #[inline(always)]
    unsafe fn rounded<S: Simd>(v: Reg<S, Self>) -> Reg<S, Self> {
        let mut buffer = [Self::default(); MAX_LANES];
        // SAFETY: the buffer holds any register.
        unsafe {
            Self::store::<S>(v, buffer.as_mut_ptr());
            Self::load::<S>(buffer.as_ptr())
        }
    }

    /// Loads `n` elements `stride` apart, zeros behind them; touches no others.
    ///
    /// # Safety
    /// As of `load`.
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
    ///
    /// # Safety
    /// As of `load`.
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

macro_rules! computed_as_stored {
    ($t:ty) => {
        impl Float for $t {
            type Acc = $t;
            const DTYPE: DType = <$t as Acc>::DTYPE;
            #[inline(always)]
            fn widen(self) -> $t {
                self
            }
            #[inline(always)]
            fn narrow(v: $t) -> $t {
                v
            }
            #[inline(always)]
            unsafe fn load<S: Simd>(p: *const $t) -> Reg<S, $t> {
                // SAFETY: by the caller.
                unsafe { Register::load(p) }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(v: Reg<S, $t>, p: *mut $t) {
                // SAFETY: by the caller.
                unsafe { v.store(p) }
            }
            #[inline(always)]
            unsafe fn load_partial<S: Simd>(p: *const $t, n: usize) -> Reg<S, $t> {
                // SAFETY: by the caller.
                unsafe { Register::load_partial(p, n) }
            }
            #[inline(always)]
            unsafe fn store_partial<S: Simd>(v: Reg<S, $t>, p: *mut $t, n: usize) {
                // SAFETY: by the caller.
                unsafe { v.store_partial(p, n) }
            }
            #[inline(always)]
            unsafe fn load_or<S: Simd>(p: *const $t, n: usize, fill: Reg<S, $t>) -> Reg<S, $t> {
                // SAFETY: by the caller.
                unsafe {
                    if n == Reg::<S, $t>::WIDTH { Register::load(p) } else { Register::load_partial_or(p, n, fill) }
                }
            }
            #[inline(always)]
            unsafe fn stream<S: Simd>(v: Reg<S, $t>, p: *mut $t) {
                // SAFETY: by the caller.
                unsafe { v.stream(p) }
            }
            #[inline(always)]
            unsafe fn rounded<S: Simd>(v: Reg<S, $t>) -> Reg<S, $t> {
                v
            }
        }
    };
}
computed_as_stored!(f32);
computed_as_stored!(f64);

macro_rules! half {
    ($t:ty, $dtype:ident, $load:ident, $store:ident) => {
        impl Float for $t {
            type Acc = f32;
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn narrow(v: f32) -> $t {
                <$t>::from_f32(v)
            }
            #[inline(always)]
            unsafe fn load<S: Simd>(p: *const $t) -> S::F32 {
                // SAFETY: by the caller; the type is its 16 bits.
                unsafe { HalfRegister::$load(p.cast()) }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(v: S::F32, p: *mut $t) {
                // SAFETY: by the caller; the type is its 16 bits.
                unsafe { v.$store(p.cast()) }
            }
        }
    };
}
half!(bf16, BF16, load_bf16, store_bf16);
half!(f16, F16, load_f16, store_f16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isa, WithSimd, dispatch};

    struct Partial<T>(std::marker::PhantomData<T>);

    impl<T: Float> WithSimd for Partial<T> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self) {
            let width = Reg::<S, T>::WIDTH;
            let of = |v: f64| T::narrow(T::Acc::of(v));
            let read = |v: Reg<S, T>| {
                let mut lanes = [T::Acc::ZERO; MAX_LANES];
                // SAFETY: the buffer holds any register.
                unsafe { v.store(lanes.as_mut_ptr()) };
                lanes.map(Acc::to_f64)
            };
            for n in 1..=width {
                // Exactly as long as what may be read.
                let from: Vec<T> = (1..=n).map(|i| of(i as f64)).collect();
                let fill = Reg::<S, T>::all_of(T::Acc::of(-7.0));
                // SAFETY: the vectors hold n elements.
                unsafe {
                    let loaded = [
                        (T::load_n::<S>(from.as_ptr(), n), 0.0),
                        (T::load_or::<S>(from.as_ptr(), n, fill), -7.0),
                        (T::load_least::<S>(from.as_ptr(), n), f64::NEG_INFINITY),
                        (T::gather::<S>(from.as_ptr(), 1, n), 0.0),
                    ];
                    for (i, (v, rest)) in loaded.into_iter().enumerate() {
                        let want = |k: usize| if k < n { (k + 1) as f64 } else { rest };
                        assert!(read(v)[..width].iter().enumerate().all(|(k, v)| *v == want(k)), "{i}: {n} of {width}");
                    }
                    let mut to = vec![T::default(); n];
                    T::store_n::<S>(T::load_n::<S>(from.as_ptr(), n), to.as_mut_ptr(), n);
                    assert!(to.iter().zip(&from).all(|(a, b)| a.widen() == b.widen()));
                }
            }
        }
    }

    #[test]
    fn parts_of_registers_are_read_and_written() {
        for &isa in Isa::available() {
            dispatch(isa, Partial::<f32>(std::marker::PhantomData));
            dispatch(isa, Partial::<f64>(std::marker::PhantomData));
            dispatch(isa, Partial::<bf16>(std::marker::PhantomData));
            dispatch(isa, Partial::<f16>(std::marker::PhantomData));
        }
    }
}
