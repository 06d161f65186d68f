//! What the AVX2 and AVX-512 registers share: everything for which the two sets have the same instruction under two names.

/// Implements operators, `Num` and `Lanes` of an x86 float register. The literals name intrinsics; `math` has the rest.
macro_rules! x86_float {
    (
        $reg:ident($raw:ident) of $elem:ident x $width:literal mask $mask:ident wide $wide:ident,
        add $add:ident, sub $sub:ident, mul $mul:ident, div $div:ident, fma $fma:ident, sqrt $sqrt:ident,
        cmp $cmp:ident, max $max:ident, min $min:ident, round $round:ident,
        xor $xor:ident, and $and:ident, andnot $andnot:ident, or $or:ident,
        set1 $set1:ident, load $load:ident, store $store:ident, stream $stream:ident
    ) => {
        // SAFETY (of every intrinsic below): registers of this type are made only by code compiled for their instruction
        // set, which runs only where the machine has it.
        impl $reg {
            /// The greater; `o` where either is NaN.
            #[inline(always)]
            fn max_or_second(self, o: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $max(self.0, o.0) })
            }
            /// The lesser; `o` where either is NaN.
            #[inline(always)]
            fn min_or_second(self, o: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $min(self.0, o.0) })
            }
            #[inline(always)]
            fn without_bits(self, o: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $andnot(o.0, self.0) })
            }
        }
        impl std::ops::Add for $reg {
            type Output = Self;
            #[inline(always)]
            fn add(self, o: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $add(self.0, o.0) })
            }
        }
        impl std::ops::Sub for $reg {
            type Output = Self;
            #[inline(always)]
            fn sub(self, o: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $sub(self.0, o.0) })
            }
        }
        impl std::ops::Mul for $reg {
            type Output = Self;
            #[inline(always)]
            fn mul(self, o: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $mul(self.0, o.0) })
            }
        }
        impl std::ops::Div for $reg {
            type Output = Self;
            #[inline(always)]
            fn div(self, o: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $div(self.0, o.0) })
            }
        }
        impl std::ops::Neg for $reg {
            type Output = Self;
            #[inline(always)]
            fn neg(self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $xor(self.0, Self::all_of(-0.0).0) })
            }
        }

        impl Num for $reg {
            type Mask = $mask;
            #[inline(always)]
            fn splat(v: f64) -> Self {
                Self::all_of(v as $elem)
            }
            #[inline(always)]
            fn eq(self, o: Self) -> $mask {
                // SAFETY: see above.
                $mask(unsafe { $cmp::<_CMP_EQ_OQ>(self.0, o.0) })
            }
            #[inline(always)]
            fn lt(self, o: Self) -> $mask {
                // SAFETY: see above.
                $mask(unsafe { $cmp::<_CMP_LT_OQ>(self.0, o.0) })
            }
            #[inline(always)]
            fn le(self, o: Self) -> $mask {
                // SAFETY: see above.
                $mask(unsafe { $cmp::<_CMP_LE_OQ>(self.0, o.0) })
            }
            #[inline(always)]
            fn is_nan(self) -> $mask {
                // SAFETY: see above.
                $mask(unsafe { $cmp::<_CMP_UNORD_Q>(self.0, self.0) })
            }
            #[inline(always)]
            fn select(m: $mask, a: Self, b: Self) -> Self {
                a.blend(m, b)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.without_bits(Self::all_of(-0.0))
            }
            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                self.fma(a, b)
            }
            #[inline(always)]
            fn maximum(self, o: Self) -> Self {
                // Right for a NaN in `o`.
                Self::select(self.is_nan(), self, self.max_or_second(o))
            }
            #[inline(always)]
            fn minimum(self, o: Self) -> Self {
                Self::select(self.is_nan(), self, self.min_or_second(o))
            }
            #[inline(always)]
            fn div_floor(self, o: Self) -> Self {
                math::div_floor(self, o)
            }
            #[inline(always)]
            fn div_trunc(self, o: Self) -> Self {
                (self / o).trunc()
            }
            #[inline(always)]
            fn rem_floor(self, o: Self) -> Self {
                math::rem_floor(self, o)
            }
            #[inline(always)]
            fn rem_trunc(self, o: Self) -> Self {
                math::fmod(self, o, |a, b| a % b)
            }
            #[inline(always)]
            fn pow(self, e: Self) -> Self {
                math::pow(self, e)
            }
        }

        impl Lanes for $reg {
            #[inline(always)]
            fn fma(self, a: Self, b: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $fma(self.0, a.0, b.0) })
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $sqrt(self.0) })
            }
            #[inline(always)]
            fn round(self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $round::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
            }
            #[inline(always)]
            fn floor(self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $round::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(self.0) })
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $round::<{ _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC }>(self.0) })
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $round::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(self.0) })
            }
            #[inline(always)]
            fn copysign(self, s: Self) -> Self {
                let sign = Self::all_of(-0.0);
                // SAFETY: see above.
                Self(unsafe { $or(self.without_bits(sign).0, $and(s.0, sign.0)) })
            }
            #[inline(always)]
            fn ldexp(self, n: Self) -> Self {
                math::ldexp(self, n)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                math::exp(self)
            }
            #[inline(always)]
            fn exp2(self) -> Self {
                math::exp2(self)
            }
            #[inline(always)]
            fn expm1(self) -> Self {
                math::expm1(self)
            }
            #[inline(always)]
            fn log(self) -> Self {
                math::log(self)
            }
            #[inline(always)]
            fn log2(self) -> Self {
                math::log2(self)
            }
            #[inline(always)]
            fn log10(self) -> Self {
                math::log10(self)
            }
            #[inline(always)]
            fn log1p(self) -> Self {
                math::log1p(self)
            }
            #[inline(always)]
            fn sin(self) -> Self {
                math::sin(self, <$elem as Lanes>::sin)
            }
            #[inline(always)]
            fn cos(self) -> Self {
                math::cos(self, <$elem as Lanes>::cos)
            }
            #[inline(always)]
            fn tan(self) -> Self {
                inverse::tan(self, <$elem as Lanes>::tan)
            }
            #[inline(always)]
            fn asin(self) -> Self {
                inverse::asin(self)
            }
            #[inline(always)]
            fn acos(self) -> Self {
                inverse::acos(self)
            }
            #[inline(always)]
            fn atan(self) -> Self {
                inverse::atan(self)
            }
            #[inline(always)]
            fn atan2(self, x: Self) -> Self {
                inverse::atan2(self, x)
            }
            #[inline(always)]
            fn sinh(self) -> Self {
                inverse::sinh(self)
            }
            #[inline(always)]
            fn cosh(self) -> Self {
                inverse::cosh(self)
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                math::tanh(self)
            }
            #[inline(always)]
            fn asinh(self) -> Self {
                inverse::asinh(self)
            }
            #[inline(always)]
            fn acosh(self) -> Self {
                inverse::acosh(self)
            }
            #[inline(always)]
            fn atanh(self) -> Self {
                inverse::atanh(self)
            }
            #[inline(always)]
            fn erf(self) -> Self {
                math::erf(self)
            }
            #[inline(always)]
            fn erfc(self) -> Self {
                inverse::erfc(self)
            }
            #[inline(always)]
            fn normal_cdf(self) -> Self {
                math::normal_cdf(self)
            }
            #[inline(always)]
            fn erfinv(self) -> Self {
                erfinv::erfinv(self)
            }
            #[inline(always)]
            fn next_after(self, o: Self) -> Self {
                self.map2(o, <$elem as Lanes>::next_after)
            }
            #[inline(always)]
            fn lgamma(self) -> Self {
                gamma::lgamma(self)
            }
        }

        impl Register for $reg {
            type Elem = $elem;
            const WIDTH: usize = $width;
            const DOUBLE: bool = std::mem::size_of::<$elem>() == 8;
            type Wide = $wide;
            #[inline(always)]
            fn halves(self) -> [$wide; 2] {
                self.wide_halves()
            }
            #[inline(always)]
            fn of_halves(halves: [$wide; 2]) -> Self {
                Self::of_wide_halves(halves)
            }
            #[inline(always)]
            unsafe fn load(p: *const $elem) -> Self {
                // SAFETY: the caller's pointer is valid for a register.
                Self(unsafe { $load(p) })
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $elem) {
                // SAFETY: the caller's pointer is valid for a register.
                unsafe { $store(p, self.0) }
            }
            #[inline(always)]
            unsafe fn load_partial(p: *const $elem, n: usize) -> Self {
                // SAFETY: the caller's pointer is valid for `n` elements; masked lanes are not touched.
                unsafe { Self::masked_load(p, n) }
            }
            #[inline(always)]
            unsafe fn load_partial_or(p: *const $elem, n: usize, fill: Self) -> Self {
                // SAFETY: the caller's pointer is valid for `n` elements; masked lanes are not touched.
                unsafe { Self::masked_load_or(p, n, fill) }
            }
            #[inline(always)]
            unsafe fn store_partial(self, p: *mut $elem, n: usize) {
                // SAFETY: as for `load_partial`.
                unsafe { self.masked_store(p, n) }
            }
            #[inline(always)]
            unsafe fn stream(self, p: *mut $elem) {
                // SAFETY: the caller's pointer is valid and aligned.
                unsafe { $stream(p as *mut _, self.0) }
            }
            #[inline(always)]
            fn all_of(v: $elem) -> Self {
                // SAFETY: see above.
                Self(unsafe { $set1(v) })
            }
            #[inline(always)]
            fn any(m: $mask) -> bool {
                m.any()
            }
            #[inline(always)]
            fn sum(self) -> $elem {
                self.sum_lanes()
            }
            #[inline(always)]
            fn clamp(self, lo: Self, hi: Self) -> Self {
                hi.min_or_second(lo.max_or_second(self))
            }
            #[inline(always)]
            fn max_of(self) -> $elem {
                if self.is_nan().any() { <$elem>::NAN } else { self.max_lanes() }
            }
            #[inline(always)]
            fn min_of(self) -> $elem {
                if self.is_nan().any() { <$elem>::NAN } else { -(-self).max_lanes() }
            }
            #[inline(always)]
            fn exponent(self) -> Self {
                self.exponent_bits()
            }
            #[inline(always)]
            fn mantissa(self) -> Self {
                self.mantissa_bits()
            }
            #[inline(always)]
            fn pow2(self) -> Self {
                self.exponent_to_float()
            }
            #[inline(always)]
            fn scale(self, n: Self) -> Self {
                self.scale_bits(n)
            }
        }
    };
}
pub(super) use x86_float;
