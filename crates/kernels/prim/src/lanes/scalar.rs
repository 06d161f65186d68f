//! One number at a time: the reference of every formula, and the whole of the baseline ISA.

use super::{Ints, Lanes, Num, Register};
use std::ops::{Add, Mul, Neg, Sub};

/// An integer of a tile: its layout is that of `Elem`.
pub trait IntLane: Ints {
    type Elem: Copy;
    fn of(v: Self::Elem) -> Self;
}

/// Integers whose arithmetic wraps. `$trunc` is the quotient rounded towards zero of a divisor that is not zero.
macro_rules! int_scalar {
    ($(#[$doc:meta] $name:ident $t:ident, |$a:ident, $b:ident| $trunc:expr;)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(pub $t);

        impl Add for $name {
            type Output = Self;
            #[inline(always)]
            fn add(self, o: Self) -> Self {
                $name(self.0.wrapping_add(o.0))
            }
        }
        impl Sub for $name {
            type Output = Self;
            #[inline(always)]
            fn sub(self, o: Self) -> Self {
                $name(self.0.wrapping_sub(o.0))
            }
        }
        impl Mul for $name {
            type Output = Self;
            #[inline(always)]
            fn mul(self, o: Self) -> Self {
                $name(self.0.wrapping_mul(o.0))
            }
        }
        impl Neg for $name {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                $name(self.0.wrapping_neg())
            }
        }

        impl $name {
            const ZERO: $t = 0;
            #[inline(always)]
            fn is_negative(self) -> bool {
                self.0 < Self::ZERO
            }
        }

        impl IntLane for $name {
            type Elem = $t;
            #[inline(always)]
            fn of(v: $t) -> Self {
                $name(v)
            }
        }

        impl Num for $name {
            type Mask = bool;
            #[inline(always)]
            fn splat(v: f64) -> Self {
                $name(v as i64 as $t)
            }
            #[inline(always)]
            fn eq(self, o: Self) -> bool {
                self.0 == o.0
            }
            #[inline(always)]
            fn lt(self, o: Self) -> bool {
                self.0 < o.0
            }
            #[inline(always)]
            fn le(self, o: Self) -> bool {
                self.0 <= o.0
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn select(m: bool, a: Self, b: Self) -> Self {
                if m { a } else { b }
            }
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                self * a + b
            }
            #[inline(always)]
            fn abs(self) -> Self {
                if self.is_negative() { -self } else { self }
            }
            #[inline(always)]
            fn maximum(self, o: Self) -> Self {
                $name(self.0.max(o.0))
            }
            #[inline(always)]
            fn minimum(self, o: Self) -> Self {
                $name(self.0.min(o.0))
            }
            #[inline(always)]
            fn div_floor(self, o: Self) -> Self {
                let q = self.div_trunc(o);
                let r = self - q * o;
                let down = o.0 != 0 && r.0 != 0 && r.is_negative() != o.is_negative();
                if down { q - $name(1) } else { q }
            }
            #[inline(always)]
            fn div_trunc(self, o: Self) -> Self {
                let ($a, $b) = (self.0, o.0);
                $name(if o.0 == 0 { 0 } else { $trunc })
            }
            #[inline(always)]
            fn rem_floor(self, o: Self) -> Self {
                let r = self.rem_trunc(o);
                if r.0 != 0 && r.is_negative() != o.is_negative() { r + o } else { r }
            }
            #[inline(always)]
            fn rem_trunc(self, o: Self) -> Self {
                if o.0 == 0 { $name(0) } else { self - self.div_trunc(o) * o }
            }
            #[inline(always)]
            fn pow(self, e: Self) -> Self {
                if e.is_negative() {
                    return match self.0 {
                        1 => $name(1),
                        v if v == Self::ZERO.wrapping_sub(1) => $name(if e.0 & 1 == 1 { v } else { 1 }),
                        _ => $name(0),
                    };
                }
                let (mut base, mut e, mut acc) = (self.0, e.0, $name(1).0);
                while e != 0 {
                    if e & 1 == 1 {
                        acc = acc.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    e >>= 1;
                }
                $name(acc)
            }
        }

        impl Ints for $name {
            #[inline(always)]
            fn gcd(self, o: Self) -> Self {
                let (mut a, mut b) = (self.0, o.0);
                while b != 0 {
                    (a, b) = (b, a.wrapping_rem(b));
                }
                $name(a).abs()
            }
            #[inline(always)]
            fn bit_and(self, o: Self) -> Self {
                $name(self.0 & o.0)
            }
            #[inline(always)]
            fn bit_or(self, o: Self) -> Self {
                $name(self.0 | o.0)
            }
            #[inline(always)]
            fn bit_xor(self, o: Self) -> Self {
                $name(self.0 ^ o.0)
            }
            #[inline(always)]
            fn bit_not(self) -> Self {
                $name(!self.0)
            }
            #[inline(always)]
            fn shl(self, o: Self) -> Self {
                $name(if (o.0 as u64) < $t::BITS as u64 { self.0 << o.0 } else { 0 })
            }
            #[inline(always)]
            fn shr(self, o: Self) -> Self {
                let far = (o.0 as u64) >= $t::BITS as u64;
                $name(if far { if self.is_negative() { !0 } else { 0 } } else { self.0 >> o.0 })
            }
        }
    )*};
}

int_scalar! {
    /// An integer as wide as tensors have them.
    I64 i64, |a, b| {
        // Floats divide several times faster, and hold numbers of this size and their rounded quotients exactly.
        const EXACT: u64 = 1 << 52;
        if a.unsigned_abs() < EXACT && b.unsigned_abs() < EXACT {
            // SAFETY: the quotient of such numbers is in range, and b is not zero.
            unsafe { (a as f64 / b as f64).to_int_unchecked::<i64>() }
        } else {
            a.wrapping_div(b)
        }
    };
    /// A narrow integer: what tensors of 32 bits compute in.
    I32 i32, |a, b| {
        if b == -1 { a.wrapping_neg() } else { (a as f64 / b as f64) as i32 }
    };
    /// The bits of a half type.
    U16 u16, |a, b| (a as f32 / b as f32) as u16;
    /// A byte without a sign, or a truth value.
    U8 u8, |a, b| (a as f32 / b as f32) as u8;
}

macro_rules! float_scalar {
    ($t:ident, $bits:ident, $exp_bits:literal, $mantissa_bits:literal, $($libm:ident => $method:ident),*) => {
        impl Num for $t {
            type Mask = bool;
            #[inline(always)]
            fn splat(v: f64) -> Self {
                v as $t
            }
            #[inline(always)]
            fn eq(self, o: Self) -> bool {
                self == o
            }
            #[inline(always)]
            fn lt(self, o: Self) -> bool {
                self < o
            }
            #[inline(always)]
            fn le(self, o: Self) -> bool {
                self <= o
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline(always)]
            fn select(m: bool, a: Self, b: Self) -> Self {
                if m { a } else { b }
            }
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                $t::mul_add(self, a, b)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $t::abs(self)
            }
            #[inline(always)]
            fn maximum(self, o: Self) -> Self {
                if self > o || self != self { self } else { o }
            }
            #[inline(always)]
            fn minimum(self, o: Self) -> Self {
                if self < o || self != self { self } else { o }
            }
            #[inline(always)]
            fn div_floor(self, o: Self) -> Self {
                super::math::div_floor(self, o)
            }
            #[inline(always)]
            fn div_trunc(self, o: Self) -> Self {
                (self / o).trunc()
            }
            #[inline(always)]
            fn rem_floor(self, o: Self) -> Self {
                super::math::rem_floor(self, o)
            }
            #[inline(always)]
            fn rem_trunc(self, o: Self) -> Self {
                self % o
            }
            #[inline(always)]
            fn pow(self, e: Self) -> Self {
                self.powf(e)
            }
        }

        impl Lanes for $t {
            #[inline(always)]
            fn fma(self, a: Self, b: Self) -> Self {
                $t::mul_add(self, a, b)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn round(self) -> Self {
                self.round_ties_even()
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $t::floor(self)
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                $t::ceil(self)
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                $t::trunc(self)
            }
            #[inline(always)]
            fn copysign(self, s: Self) -> Self {
                $t::copysign(self, s)
            }
            #[inline(always)]
            fn ldexp(self, n: Self) -> Self {
                libm::Libm::<$t>::ldexp(self, n as i32)
            }
            #[inline(always)]
            fn atan2(self, x: Self) -> Self {
                $t::atan2(self, x)
            }
            #[inline(always)]
            fn acosh(self) -> Self {
                if self < 1.0 { $t::NAN } else { libm::Libm::<$t>::acosh(self) }
            }
            #[inline(always)]
            fn next_after(self, o: Self) -> Self {
                if self.is_nan() || o.is_nan() {
                    return $t::NAN;
                }
                if self == o {
                    return o;
                }
                if self < o { self.next_up() } else { self.next_down() }
            }
            $(#[inline(always)]
            fn $method(self) -> Self {
                libm::Libm::<$t>::$libm(self)
            })*
        }

        impl Register for $t {
            type Elem = $t;
            const WIDTH: usize = 1;
            const DOUBLE: bool = std::mem::size_of::<$t>() == 8;
            type Wide = f64;
            #[inline(always)]
            fn halves(self) -> [f64; 2] {
                [self as f64; 2]
            }
            #[inline(always)]
            fn of_halves(halves: [f64; 2]) -> Self {
                halves[0] as $t
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: the caller's pointer is valid for one element.
                unsafe { p.read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: the caller's pointer is valid for one element.
                unsafe { p.write_unaligned(self) }
            }
            #[inline(always)]
            unsafe fn load_partial(p: *const $t, n: usize) -> Self {
                // SAFETY: read only where the caller's pointer is valid.
                if n > 0 { unsafe { p.read_unaligned() } } else { 0.0 }
            }
            #[inline(always)]
            unsafe fn load_partial_or(p: *const $t, n: usize, fill: Self) -> Self {
                // SAFETY: read only where the caller's pointer is valid.
                if n > 0 { unsafe { p.read_unaligned() } } else { fill }
            }
            #[inline(always)]
            unsafe fn store_partial(self, p: *mut $t, n: usize) {
                if n > 0 {
                    // SAFETY: the caller's pointer is valid for `n` elements.
                    unsafe { p.write_unaligned(self) }
                }
            }
            #[inline(always)]
            unsafe fn stream(self, p: *mut $t) {
                // SAFETY: as for `store`.
                unsafe { p.write(self) }
            }
            #[inline(always)]
            fn all_of(v: $t) -> Self {
                v
            }
            #[inline(always)]
            fn any(m: bool) -> bool {
                m
            }
            #[inline(always)]
            fn sum(self) -> $t {
                self
            }
            #[inline(always)]
            fn clamp(self, lo: Self, hi: Self) -> Self {
                $t::clamp(self, lo, hi)
            }
            #[inline(always)]
            fn max_of(self) -> $t {
                self
            }
            #[inline(always)]
            fn min_of(self) -> $t {
                self
            }
            #[inline(always)]
            fn exponent(self) -> Self {
                let bits = self.to_bits() >> $mantissa_bits;
                (bits & ((1 << $exp_bits) - 1)) as $t - ((1 << ($exp_bits - 1)) - 1) as $t
            }
            #[inline(always)]
            fn mantissa(self) -> Self {
                let bits = self.to_bits() & ((1 << $mantissa_bits) - 1);
                $t::from_bits(bits | (((1 << ($exp_bits - 1)) - 1) << $mantissa_bits))
            }
            #[inline(always)]
            fn pow2(self) -> Self {
                let biased = self as i64 + ((1 << ($exp_bits - 1)) - 1);
                $t::from_bits((biased as $bits) << $mantissa_bits)
            }
            #[inline(always)]
            fn scale(self, n: Self) -> Self {
                super::math::scale(self, n)
            }
        }
    };
}

float_scalar!(f32, u32, 8, 23,
    exp => exp, exp2 => exp2, expm1 => expm1, log => log, log2 => log2, log10 => log10, log1p => log1p, sin => sin,
    cos => cos, tan => tan, asin => asin, acos => acos, atan => atan, sinh => sinh, cosh => cosh, tanh => tanh,
    asinh => asinh, atanh => atanh, erf => erf, erfc => erfc, lgamma => lgamma);
float_scalar!(f64, u64, 11, 52,
    exp => exp, exp2 => exp2, expm1 => expm1, log => log, log2 => log2, log10 => log10, log1p => log1p, sin => sin,
    cos => cos, tan => tan, asin => asin, acos => acos, atan => atan, sinh => sinh, cosh => cosh, tanh => tanh,
    asinh => asinh, atanh => atanh, erf => erf, erfc => erfc, lgamma => lgamma);
