//! AVX2 registers (with FMA and F16C): eight f32, four f64.

use super::x86::x86_float;
use super::{HalfRegister, Lanes, Num, Register, erfinv, gamma, inverse, math};
use std::arch::x86_64::*;
use std::ops::{BitAnd, BitOr, BitXor, Not};

#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct F32x8(pub __m256);
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct F64x4(pub __m256d);
/// All ones in a lane is true.
#[derive(Clone, Copy, Debug)]
pub struct MaskPs(pub __m256);
#[derive(Clone, Copy, Debug)]
pub struct MaskPd(pub __m256d);

/// Lane masks for partial loads: eight entries from `8 - n` on have their first `n` set.
static EDGE: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

/// What AVX2 does in its own way. `$per`: 32-bit entries of a lane.
macro_rules! bits {
    (
        $reg:ident of $elem:ident x $per:literal mask $mask:ident,
        and $and:ident, or $or:ident, xor $xor:ident, movemask $movemask:ident, cast $cast:ident,
        blend $blend:ident, maskload $maskload:ident
    ) => {
        // SAFETY (of every intrinsic below): registers of this type are made only by code compiled for AVX2, which runs
        // only where the machine has it.
        impl BitAnd for $mask {
            type Output = Self;
            #[inline(always)]
            fn bitand(self, o: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $and(self.0, o.0) })
            }
        }
        impl BitOr for $mask {
            type Output = Self;
            #[inline(always)]
            fn bitor(self, o: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $or(self.0, o.0) })
            }
        }
        impl BitXor for $mask {
            type Output = Self;
            #[inline(always)]
            fn bitxor(self, o: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $xor(self.0, o.0) })
            }
        }
        impl Not for $mask {
            type Output = Self;
            #[inline(always)]
            fn not(self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $xor(self.0, $cast(_mm256_set1_epi32(-1))) })
            }
        }
        impl $mask {
            #[inline(always)]
            fn any(self) -> bool {
                // SAFETY: see above.
                unsafe { $movemask(self.0) != 0 }
            }
        }
        impl $reg {
            #[inline(always)]
            fn blend(self, m: $mask, other: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $blend(other.0, self.0, m.0) })
            }
            #[inline(always)]
            fn scale_bits(self, n: Self) -> Self {
                math::scale(self, n)
            }
            /// The first `n` lanes.
            #[inline(always)]
            unsafe fn edge(n: usize) -> __m256i {
                // SAFETY: `n` is at most the width, so eight entries follow.
                unsafe { _mm256_loadu_si256(EDGE.as_ptr().add(8 - n * $per).cast()) }
            }
            #[inline(always)]
            unsafe fn masked_load(p: *const $elem, n: usize) -> Self {
                // SAFETY: masked lanes are not read.
                Self(unsafe { $maskload(p, Self::edge(n)) })
            }
            #[inline(always)]
            unsafe fn masked_load_or(p: *const $elem, n: usize, fill: Self) -> Self {
                // SAFETY: masked lanes are not read.
                unsafe {
                    let edge = Self::edge(n);
                    Self($blend(fill.0, $maskload(p, edge), $cast(edge)))
                }
            }
        }
    };
}

bits!(F32x8 of f32 x 1 mask MaskPs,
    and _mm256_and_ps, or _mm256_or_ps, xor _mm256_xor_ps, movemask _mm256_movemask_ps, cast _mm256_castsi256_ps,
    blend _mm256_blendv_ps, maskload _mm256_maskload_ps);
bits!(F64x4 of f64 x 2 mask MaskPd,
    and _mm256_and_pd, or _mm256_or_pd, xor _mm256_xor_pd, movemask _mm256_movemask_pd, cast _mm256_castsi256_pd,
    blend _mm256_blendv_pd, maskload _mm256_maskload_pd);

// SAFETY (of the intrinsics below): a register exists, so the machine has AVX2.
impl F32x8 {
    /// In pieces of four, two and one: AMD's processors take some forty steps for a store with a mask.
    #[inline(always)]
    unsafe fn masked_store(self, mut p: *mut f32, n: usize) {
        // SAFETY: the pieces are `n` elements together.
        unsafe {
            if n >= 8 {
                return _mm256_storeu_ps(p, self.0);
            }
            let mut rest = _mm256_castps256_ps128(self.0);
            if n & 4 != 0 {
                _mm_storeu_ps(p, rest);
                p = p.add(4);
                rest = _mm256_extractf128_ps::<1>(self.0);
            }
            if n & 2 != 0 {
                _mm_storel_pd(p.cast(), _mm_castps_pd(rest));
                p = p.add(2);
                rest = _mm_movehl_ps(rest, rest);
            }
            if n & 1 != 0 {
                _mm_store_ss(p, rest);
            }
        }
    }
    #[inline(always)]
    fn wide_halves(self) -> [F64x4; 2] {
        // SAFETY: see above.
        unsafe {
            let (low, high) = (_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            [F64x4(_mm256_cvtps_pd(low)), F64x4(_mm256_cvtps_pd(high))]
        }
    }
    #[inline(always)]
    fn of_wide_halves([low, high]: [F64x4; 2]) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_set_m128(_mm256_cvtpd_ps(high.0), _mm256_cvtpd_ps(low.0)) })
    }
    #[inline(always)]
    fn sum_lanes(self) -> f32 {
        // SAFETY: see above.
        unsafe {
            let x = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps::<1>(x, x)))
        }
    }
    #[inline(always)]
    fn max_lanes(self) -> f32 {
        // SAFETY: see above.
        unsafe {
            let x = _mm_max_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps::<1>(x, x)))
        }
    }
    #[inline(always)]
    fn exponent_bits(self) -> Self {
        // SAFETY: see above.
        unsafe {
            let e = _mm256_srli_epi32::<24>(_mm256_slli_epi32::<1>(_mm256_castps_si256(self.0)));
            Self(_mm256_cvtepi32_ps(_mm256_sub_epi32(e, _mm256_set1_epi32(127))))
        }
    }
    #[inline(always)]
    fn mantissa_bits(self) -> Self {
        // SAFETY: see above.
        unsafe {
            let m = _mm256_and_si256(_mm256_castps_si256(self.0), _mm256_set1_epi32(0x7f_ffff));
            Self(_mm256_castsi256_ps(_mm256_or_si256(m, _mm256_set1_epi32(127 << 23))))
        }
    }
    #[inline(always)]
    fn exponent_to_float(self) -> Self {
        // SAFETY: see above.
        unsafe {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(self.0), _mm256_set1_epi32(127));
            Self(_mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
        }
    }
}
impl F64x4 {
    /// As of `F32x8`.
    #[inline(always)]
    unsafe fn masked_store(self, mut p: *mut f64, n: usize) {
        // SAFETY: the pieces are `n` elements together.
        unsafe {
            if n >= 4 {
                return _mm256_storeu_pd(p, self.0);
            }
            let mut rest = _mm256_castpd256_pd128(self.0);
            if n & 2 != 0 {
                _mm_storeu_pd(p, rest);
                p = p.add(2);
                rest = _mm256_extractf128_pd::<1>(self.0);
            }
            if n & 1 != 0 {
                _mm_storel_pd(p, rest);
            }
        }
    }
    #[inline(always)]
    fn wide_halves(self) -> [Self; 2] {
        [self; 2]
    }
    #[inline(always)]
    fn of_wide_halves([low, _]: [Self; 2]) -> Self {
        low
    }
    /// Adding it to a small integral double puts the integer into the low mantissa bits.
    const MAGIC: f64 = 6755399441055744.0;

    #[inline(always)]
    fn sum_lanes(self) -> f64 {
        // SAFETY: see above.
        unsafe {
            let x = _mm_add_pd(_mm256_castpd256_pd128(self.0), _mm256_extractf128_pd::<1>(self.0));
            _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)))
        }
    }
    #[inline(always)]
    fn max_lanes(self) -> f64 {
        // SAFETY: see above.
        unsafe {
            let x = _mm_max_pd(_mm256_castpd256_pd128(self.0), _mm256_extractf128_pd::<1>(self.0));
            _mm_cvtsd_f64(_mm_max_sd(x, _mm_unpackhi_pd(x, x)))
        }
    }
    #[inline(always)]
    fn exponent_bits(self) -> Self {
        // SAFETY: see above.
        unsafe {
            let e = _mm256_srli_epi64::<53>(_mm256_slli_epi64::<1>(_mm256_castpd_si256(self.0)));
            let shifted = _mm256_add_epi64(e, _mm256_castpd_si256(_mm256_set1_pd(Self::MAGIC)));
            Self(_mm256_castsi256_pd(shifted)) - Self::all_of(Self::MAGIC) - Self::all_of(1023.0)
        }
    }
    #[inline(always)]
    fn mantissa_bits(self) -> Self {
        // SAFETY: see above.
        unsafe {
            let m = _mm256_and_si256(_mm256_castpd_si256(self.0), _mm256_set1_epi64x((1 << 52) - 1));
            Self(_mm256_castsi256_pd(_mm256_or_si256(m, _mm256_set1_epi64x(1023 << 52))))
        }
    }
    #[inline(always)]
    fn exponent_to_float(self) -> Self {
        let shifted = self + Self::all_of(Self::MAGIC + 1023.0);
        // SAFETY: see above.
        unsafe { Self(_mm256_castsi256_pd(_mm256_slli_epi64::<52>(_mm256_castpd_si256(shifted.0)))) }
    }
}

x86_float!(F32x8(__m256) of f32 x 8 mask MaskPs wide F64x4,
    add _mm256_add_ps, sub _mm256_sub_ps, mul _mm256_mul_ps, div _mm256_div_ps, fma _mm256_fmadd_ps, sqrt _mm256_sqrt_ps,
    cmp _mm256_cmp_ps, max _mm256_max_ps, min _mm256_min_ps, round _mm256_round_ps,
    xor _mm256_xor_ps, and _mm256_and_ps, andnot _mm256_andnot_ps, or _mm256_or_ps,
    set1 _mm256_set1_ps, load _mm256_loadu_ps, store _mm256_storeu_ps, stream _mm256_stream_ps);
x86_float!(F64x4(__m256d) of f64 x 4 mask MaskPd wide F64x4,
    add _mm256_add_pd, sub _mm256_sub_pd, mul _mm256_mul_pd, div _mm256_div_pd, fma _mm256_fmadd_pd, sqrt _mm256_sqrt_pd,
    cmp _mm256_cmp_pd, max _mm256_max_pd, min _mm256_min_pd, round _mm256_round_pd,
    xor _mm256_xor_pd, and _mm256_and_pd, andnot _mm256_andnot_pd, or _mm256_or_pd,
    set1 _mm256_set1_pd, load _mm256_loadu_pd, store _mm256_storeu_pd, stream _mm256_stream_pd);

impl HalfRegister for F32x8 {
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: the caller's pointer is valid for eight numbers.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
            Self(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        // SAFETY: the caller's pointer is valid for eight numbers.
        unsafe {
            let bits = _mm256_castps_si256(self.0);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
            let nan = _mm256_castps_si256(self.is_nan().0);
            let rounded = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(up, quiet, nan));
            let packed = _mm256_packus_epi32(rounded, rounded);
            _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(packed)));
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: the caller's pointer is valid for eight numbers.
        Self(unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) })
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: the caller's pointer is valid for eight numbers.
        unsafe { _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
    }
}
