//! The arithmetic an elementwise formula is written in, generic over what computes it.
//!
//! `Num` is what every number can do, `Ints` what integers can, `Lanes` what floats can. One number (`f32`, `f64`, `I64`),
//! a SIMD register and a symbol (`Sym`, which writes CUDA text) implement them. Everything is `#[inline(always)]`: a single
//! call on the way that is not keeps the intrinsics from being inlined and costs a factor of fifty.
//! Does not know shapes, strides or dtypes of storage.

mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod complex;
#[cfg(target_arch = "x86_64")]
mod erfinv;
#[cfg(target_arch = "x86_64")]
mod gamma;
#[cfg(target_arch = "x86_64")]
mod inverse;
pub mod math;
mod register;
mod scalar;
mod simd;
pub mod special;
mod sym;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub use avx2::{F32x8, F64x4};
#[cfg(target_arch = "x86_64")]
pub use avx512::{F32x16, F64x8};
pub use complex::Cx;
pub use register::{HalfRegister, Register};
pub use scalar::{I32, I64, IntLane, U8, U16};
pub use simd::Baseline;
#[cfg(target_arch = "x86_64")]
pub use simd::{Avx2, Avx512};
pub use simd::{Isa, Simd, WithSimd, dispatch, isa};
pub use sym::Sym;
pub(crate) use sym::{text, texts};

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// A number, a register of numbers, or a symbol. Integer arithmetic wraps.
pub trait Num: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self> {
    /// The result of a comparison; combine with `&`, `|`, `^` and `!`.
    type Mask: Copy
        + BitAnd<Output = Self::Mask>
        + BitOr<Output = Self::Mask>
        + BitXor<Output = Self::Mask>
        + Not<Output = Self::Mask>;

    /// The same constant in every lane (truncated for integers).
    fn splat(v: f64) -> Self;
    fn eq(self, o: Self) -> Self::Mask;
    fn lt(self, o: Self) -> Self::Mask;
    fn le(self, o: Self) -> Self::Mask;
    /// True where this is NaN; never for integers.
    fn is_nan(self) -> Self::Mask;
    /// `m ? a : b`, lane by lane.
    fn select(m: Self::Mask, a: Self, b: Self) -> Self;
    fn abs(self) -> Self;
    /// `self * a + b`; of floats rounded once.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// The greater of both; NaN if either is NaN.
    fn maximum(self, o: Self) -> Self;
    /// The smaller of both; NaN if either is NaN.
    fn minimum(self, o: Self) -> Self;
    /// Quotient rounded down, as Python's `//`. An integer divided by zero gives zero.
    fn div_floor(self, o: Self) -> Self;
    /// Quotient rounded towards zero. An integer divided by zero gives zero.
    fn div_trunc(self, o: Self) -> Self;
    /// Remainder with the divisor's sign, as Python's `%` and `torch.remainder`.
    fn rem_floor(self, o: Self) -> Self;
    /// Remainder with the dividend's sign, as C's `fmod`.
    fn rem_trunc(self, o: Self) -> Self;
    /// Power. An integer to a negative power is zero unless the base is 1 or -1.
    fn pow(self, e: Self) -> Self;

    #[inline(always)]
    fn ne(self, o: Self) -> Self::Mask {
        !self.eq(o)
    }
    #[inline(always)]
    fn gt(self, o: Self) -> Self::Mask {
        o.lt(self)
    }
    #[inline(always)]
    fn ge(self, o: Self) -> Self::Mask {
        o.le(self)
    }
    /// True where this is not zero (NaN is true).
    #[inline(always)]
    fn is_true(self) -> Self::Mask {
        self.ne(Self::splat(0.0))
    }
    /// One where true, zero where false.
    #[inline(always)]
    fn from_mask(m: Self::Mask) -> Self {
        Self::select(m, Self::splat(1.0), Self::splat(0.0))
    }
    #[inline(always)]
    fn square(self) -> Self {
        self * self
    }
}

/// An integer: bits.
pub trait Ints: Num {
    fn bit_and(self, o: Self) -> Self;
    fn bit_or(self, o: Self) -> Self;
    fn bit_xor(self, o: Self) -> Self;
    fn bit_not(self) -> Self;
    /// The greatest common divisor, never negative.
    fn gcd(self, o: Self) -> Self;
    /// Left shift; zero where the distance is negative or 64 and more.
    fn shl(self, o: Self) -> Self;
    /// Arithmetic right shift; distances outside 0..64 fill with the sign.
    fn shr(self, o: Self) -> Self;
}

/// A float: what calculus needs. Transcendental functions are within 2 ulp (hyperbolic and inverse ones
/// 3, erfc 4) and right at infinities, NaN and zeros.
pub trait Lanes: Num + Div<Output = Self> {
    /// `self * a + b`, rounded once.
    fn fma(self, a: Self, b: Self) -> Self;
    fn sqrt(self) -> Self;
    /// To the nearest integer, ties to even.
    fn round(self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn trunc(self) -> Self;
    /// This magnitude with `s`'s sign.
    fn copysign(self, s: Self) -> Self;
    /// `self * 2^n`, `n` integral.
    fn ldexp(self, n: Self) -> Self;

    fn exp(self) -> Self;
    fn exp2(self) -> Self;
    fn expm1(self) -> Self;
    fn log(self) -> Self;
    fn log2(self) -> Self;
    fn log10(self) -> Self;
    fn log1p(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tan(self) -> Self;
    fn asin(self) -> Self;
    fn acos(self) -> Self;
    fn atan(self) -> Self;
    fn atan2(self, x: Self) -> Self;
    fn sinh(self) -> Self;
    fn cosh(self) -> Self;
    fn tanh(self) -> Self;
    fn asinh(self) -> Self;
    fn acosh(self) -> Self;
    fn atanh(self) -> Self;
    fn erf(self) -> Self;
    fn erfc(self) -> Self;
    /// The inverse of `erf`.
    #[inline(always)]
    fn erfinv(self) -> Self {
        special::erfinv(self)
    }
    /// The next number towards `o`.
    fn next_after(self, o: Self) -> Self;
    /// Logarithm of the absolute value of the gamma function.
    fn lgamma(self) -> Self;

    #[inline(always)]
    fn recip(self) -> Self {
        Self::splat(1.0) / self
    }
    #[inline(always)]
    fn rsqrt(self) -> Self {
        Self::splat(1.0) / self.sqrt()
    }
    /// `1 / (1 + exp(-x))`.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        let one = Self::splat(1.0);
        one / (one + (-self).exp())
    }
    /// The normal distribution's cumulative function: its error is a few units of the last place of one, however small
    /// the value, as it is of `(1 + erf(x / sqrt(2))) / 2`.
    #[inline(always)]
    fn normal_cdf(self) -> Self {
        let half = Self::splat(0.5);
        half.fma((self * Self::splat(std::f64::consts::FRAC_1_SQRT_2)).erf(), half)
    }
    #[inline(always)]
    fn is_inf(self) -> Self::Mask {
        self.abs().eq(Self::splat(f64::INFINITY))
    }
    #[inline(always)]
    fn is_finite(self) -> Self::Mask {
        self.abs().lt(Self::splat(f64::INFINITY))
    }
}
