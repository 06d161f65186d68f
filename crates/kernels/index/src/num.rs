//! Element types as the kernels of this crate see them, and the switch of those that only move elements.

use oneflow_base::{Bool, bf16, f16};

/// Calls `$body` with `$T` as an integer of the dtype's size: for kernels that only move elements.
macro_rules! by_size {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            _ => {
                type $T = [u64; 2];
                $body
            }
        }
    };
}

pub(crate) use by_size;

/// What index kernels do with values. Addition and multiplication of integers wrap, of bools are or and and.
pub trait Num: Copy + Send + Sync + 'static {
    fn add(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn is_zero(self) -> bool;
}

/// Numbers with an order. NaN is the greatest, and wins `max` and `min`.
pub trait Real: Num {
    fn max(self, o: Self) -> Self;
    fn min(self, o: Self) -> Self;
    fn is_nan(self) -> bool;
    /// As numbers compare: no NaN is at least anything, or at most.
    fn at_least(self, o: Self) -> bool;
    fn at_most(self, o: Self) -> bool;
    /// An unsigned number in the order of the values; equal values have equal keys.
    fn key(self) -> u64;
    fn of_f64(v: f64) -> Self;
    fn of_f32(v: f32) -> Self;
    fn of_i64(v: i64) -> Self;
}

/// A complex number in memory.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Complex<F>(pub F, pub F);

impl Num for Bool {
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Bool(self.0 | o.0)
    }
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Bool((self.is_true() && o.is_true()) as u8)
    }
    #[inline(always)]
    fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Real for Bool {
    #[inline(always)]
    fn max(self, o: Self) -> Self {
        Bool(self.0 | o.0)
    }
    #[inline(always)]
    fn min(self, o: Self) -> Self {
        Bool((self.is_true() && o.is_true()) as u8)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
    #[inline(always)]
    fn at_least(self, o: Self) -> bool {
        self.is_true() >= o.is_true()
    }
    #[inline(always)]
    fn at_most(self, o: Self) -> bool {
        self.is_true() <= o.is_true()
    }
    #[inline(always)]
    fn key(self) -> u64 {
        self.is_true() as u64
    }
    fn of_f64(v: f64) -> Self {
        Bool((v != 0.0) as u8)
    }
    fn of_f32(v: f32) -> Self {
        Bool((v != 0.0) as u8)
    }
    fn of_i64(v: i64) -> Self {
        Bool((v != 0) as u8)
    }
}

macro_rules! int {
    ($($t:ty, $unsigned:ty, $sign:expr);*) => {$(
        impl Num for $t {
            #[inline(always)]
            fn add(self, o: Self) -> Self {
                self.wrapping_add(o)
            }
            #[inline(always)]
            fn mul(self, o: Self) -> Self {
                self.wrapping_mul(o)
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0
            }
        }
        impl Real for $t {
            #[inline(always)]
            fn max(self, o: Self) -> Self {
                Ord::max(self, o)
            }
            #[inline(always)]
            fn min(self, o: Self) -> Self {
                Ord::min(self, o)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
            #[inline(always)]
            fn at_least(self, o: Self) -> bool {
                self >= o
            }
            #[inline(always)]
            fn at_most(self, o: Self) -> bool {
                self <= o
            }
            #[inline(always)]
            fn key(self) -> u64 {
                (self as $unsigned ^ $sign) as u64
            }
            fn of_f64(v: f64) -> Self {
                v as $t
            }
            fn of_f32(v: f32) -> Self {
                v as $t
            }
            fn of_i64(v: i64) -> Self {
                v as $t
            }
        }
    )*};
}
int!(u8, u8, 0; i8, u8, 1 << 7; i16, u16, 1 << 15; i32, u32, 1 << 31; i64, u64, 1 << 63);

macro_rules! float {
    ($t:ty, $wide:ty, $bits:ty, $up:expr, $down:expr) => {
        impl Num for $t {
            #[inline(always)]
            fn add(self, o: Self) -> Self {
                $down($up(self) + $up(o))
            }
            #[inline(always)]
            fn mul(self, o: Self) -> Self {
                $down($up(self) * $up(o))
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                $up(self) == 0.0
            }
        }
        impl Real for $t {
            #[inline(always)]
            fn max(self, o: Self) -> Self {
                if $up(o) > $up(self) || $up(o).is_nan() { o } else { self }
            }
            #[inline(always)]
            fn min(self, o: Self) -> Self {
                if $up(o) < $up(self) || $up(o).is_nan() { o } else { self }
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $up(self).is_nan()
            }
            #[inline(always)]
            fn at_least(self, o: Self) -> bool {
                $up(self) >= $up(o)
            }
            #[inline(always)]
            fn at_most(self, o: Self) -> bool {
                $up(self) <= $up(o)
            }
            #[inline(always)]
            fn key(self) -> u64 {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                // Adding zero turns -0 into +0.
                let v: $wide = $up(self) + 0.0;
                let b = v.to_bits();
                let ordered = if b & SIGN != 0 { !b } else { b | SIGN };
                (if v.is_nan() { <$bits>::MAX } else { ordered }) as u64
            }
            #[inline(always)]
            fn of_f64(v: f64) -> Self {
                $down(v as $wide)
            }
            #[inline(always)]
            fn of_f32(v: f32) -> Self {
                $down(v as $wide)
            }
            #[inline(always)]
            fn of_i64(v: i64) -> Self {
                $down(v as $wide)
            }
        }
    };
}
float!(f32, f32, u32, std::convert::identity, std::convert::identity);
float!(f64, f64, u64, std::convert::identity, std::convert::identity);
float!(bf16, f32, u32, bf16::to_f32, bf16::from_f32);
float!(f16, f32, u32, f16::to_f32, f16::from_f32);

macro_rules! complex {
    ($($t:ty),*) => {$(
        impl Num for Complex<$t> {
            #[inline(always)]
            fn add(self, o: Self) -> Self {
                Complex(self.0 + o.0, self.1 + o.1)
            }
            #[inline(always)]
            fn mul(self, o: Self) -> Self {
                Complex(self.0 * o.0 - self.1 * o.1, self.0 * o.1 + self.1 * o.0)
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                self.0 == 0.0 && self.1 == 0.0
            }
        }
    )*};
}
complex!(f32, f64);
