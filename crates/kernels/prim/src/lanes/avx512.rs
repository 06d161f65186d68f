//! AVX-512 registers: sixteen f32, eight f64.

use super::x86::x86_float;
use super::{HalfRegister, Lanes, Num, Register, erfinv, gamma, inverse, math};
use std::arch::x86_64::*;
use std::ops::{BitAnd, BitOr, BitXor, Not};

#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct F32x16(pub __m512);
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct F64x8(pub __m512d);
#[derive(Clone, Copy, Debug)]
pub struct Mask16(pub __mmask16);
#[derive(Clone, Copy, Debug)]
pub struct Mask8(pub __mmask8);

macro_rules! masks {
    ($($m:ident)*) => {$(
        impl BitAnd for $m {
            type Output = Self;
            #[inline(always)]
            fn bitand(self, o: Self) -> Self {
                Self(self.0 & o.0)
            }
        }
        impl BitOr for $m {
            type Output = Self;
            #[inline(always)]
            fn bitor(self, o: Self) -> Self {
                Self(self.0 | o.0)
            }
        }
        impl BitXor for $m {
            type Output = Self;
            #[inline(always)]
            fn bitxor(self, o: Self) -> Self {
                Self(self.0 ^ o.0)
            }
        }
        impl Not for $m {
            type Output = Self;
            #[inline(always)]
            fn not(self) -> Self {
                Self(!self.0)
            }
        }
        impl $m {
            #[inline(always)]
            fn any(self) -> bool {
                self.0 != 0
            }
        }
    )*};
}
masks!(Mask16 Mask8);

/// What AVX-512 does in its own way.
macro_rules! bits {
    (
        $reg:ident of $elem:ident mask $mask:ident($mask_raw:ident),
        blend $blend:ident, maskz_load $maskz_load:ident, mask_load $mask_load:ident, mask_store $mask_store:ident,
        reduce_add $reduce_add:ident, reduce_max $reduce_max:ident,
        getexp $getexp:ident, getmant $getmant:ident, scalef $scalef:ident
    ) => {
        // SAFETY (of every intrinsic below): registers of this type are made only by code compiled for AVX-512, which runs
        // only where the machine has it.
        impl $reg {
            #[inline(always)]
            fn blend(self, m: $mask, other: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $blend(m.0, other.0, self.0) })
            }
            #[inline(always)]
            unsafe fn masked_load(p: *const $elem, n: usize) -> Self {
                // SAFETY: masked lanes are not read.
                Self(unsafe { $maskz_load(((1u32 << n) - 1) as $mask_raw, p) })
            }
            #[inline(always)]
            unsafe fn masked_load_or(p: *const $elem, n: usize, fill: Self) -> Self {
                // SAFETY: masked lanes are not read.
                Self(unsafe { $mask_load(fill.0, ((1u32 << n) - 1) as $mask_raw, p) })
            }
            #[inline(always)]
            unsafe fn masked_store(self, p: *mut $elem, n: usize) {
                // SAFETY: masked lanes are not written.
                unsafe { $mask_store(p, ((1u32 << n) - 1) as $mask_raw, self.0) }
            }
            #[inline(always)]
            fn sum_lanes(self) -> $elem {
                // SAFETY: see above.
                unsafe { $reduce_add(self.0) }
            }
            #[inline(always)]
            fn max_lanes(self) -> $elem {
                // SAFETY: see above.
                unsafe { $reduce_max(self.0) }
            }
            #[inline(always)]
            fn scale_bits(self, n: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $scalef(self.0, n.0) })
            }
            #[inline(always)]
            fn exponent_bits(self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $getexp(self.0) })
            }
            #[inline(always)]
            fn mantissa_bits(self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $getmant::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_SRC>(self.0) })
            }
        }
    };
}

bits!(F32x16 of f32 mask Mask16(__mmask16),
    blend _mm512_mask_blend_ps, maskz_load _mm512_maskz_loadu_ps, mask_load _mm512_mask_loadu_ps, mask_store _mm512_mask_storeu_ps,
    reduce_add _mm512_reduce_add_ps, reduce_max _mm512_reduce_max_ps,
    getexp _mm512_getexp_ps, getmant _mm512_getmant_ps, scalef _mm512_scalef_ps);
bits!(F64x8 of f64 mask Mask8(__mmask8),
    blend _mm512_mask_blend_pd, maskz_load _mm512_maskz_loadu_pd, mask_load _mm512_mask_loadu_pd, mask_store _mm512_mask_storeu_pd,
    reduce_add _mm512_reduce_add_pd, reduce_max _mm512_reduce_max_pd,
    getexp _mm512_getexp_pd, getmant _mm512_getmant_pd, scalef _mm512_scalef_pd);

impl F32x16 {
    #[inline(always)]
    fn wide_halves(self) -> [F64x8; 2] {
        // SAFETY: a register exists, so the machine has AVX-512.
        unsafe {
            let (low, high) = (_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0));
            [F64x8(_mm512_cvtps_pd(low)), F64x8(_mm512_cvtps_pd(high))]
        }
    }
    #[inline(always)]
    fn of_wide_halves([low, high]: [F64x8; 2]) -> Self {
        // SAFETY: as above.
        unsafe {
            let low = _mm512_castps256_ps512(_mm512_cvtpd_ps(low.0));
            Self(_mm512_insertf32x8::<1>(low, _mm512_cvtpd_ps(high.0)))
        }
    }
    #[inline(always)]
    fn exponent_to_float(self) -> Self {
        // SAFETY: a register exists, so the machine has AVX-512.
        unsafe {
            let biased = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(127));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased)))
        }
    }
}
impl F64x8 {
    #[inline(always)]
    fn wide_halves(self) -> [Self; 2] {
        [self; 2]
    }
    #[inline(always)]
    fn of_wide_halves([low, _]: [Self; 2]) -> Self {
        low
    }
    #[inline(always)]
    fn exponent_to_float(self) -> Self {
        // SAFETY: a register exists, so the machine has AVX-512.
        unsafe {
            let biased = _mm512_add_epi64(_mm512_cvtpd_epi64(self.0), _mm512_set1_epi64(1023));
            Self(_mm512_castsi512_pd(_mm512_slli_epi64::<52>(biased)))
        }
    }
}

x86_float!(F32x16(__m512) of f32 x 16 mask Mask16 wide F64x8,
    add _mm512_add_ps, sub _mm512_sub_ps, mul _mm512_mul_ps, div _mm512_div_ps, fma _mm512_fmadd_ps, sqrt _mm512_sqrt_ps,
    cmp _mm512_cmp_ps_mask, max _mm512_max_ps, min _mm512_min_ps, round _mm512_roundscale_ps,
    xor _mm512_xor_ps, and _mm512_and_ps, andnot _mm512_andnot_ps, or _mm512_or_ps,
    set1 _mm512_set1_ps, load _mm512_loadu_ps, store _mm512_storeu_ps, stream _mm512_stream_ps);
x86_float!(F64x8(__m512d) of f64 x 8 mask Mask8 wide F64x8,
    add _mm512_add_pd, sub _mm512_sub_pd, mul _mm512_mul_pd, div _mm512_div_pd, fma _mm512_fmadd_pd, sqrt _mm512_sqrt_pd,
    cmp _mm512_cmp_pd_mask, max _mm512_max_pd, min _mm512_min_pd, round _mm512_roundscale_pd,
    xor _mm512_xor_pd, and _mm512_and_pd, andnot _mm512_andnot_pd, or _mm512_or_pd,
    set1 _mm512_set1_pd, load _mm512_loadu_pd, store _mm512_storeu_pd, stream _mm512_stream_pd);

impl HalfRegister for F32x16 {
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: the caller's pointer is valid for sixteen numbers.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
            Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        // The AVX-512 BF16 instruction would flush denormals; this rounds as everyone else does.
        // SAFETY: the caller's pointer is valid for sixteen numbers.
        unsafe {
            let bits = _mm512_castps_si512(self.0);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
            let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x40_0000));
            let nan = self.is_nan();
            let rounded = _mm512_mask_blend_epi32(nan.0, up, quiet);
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded)));
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: the caller's pointer is valid for sixteen numbers.
        Self(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) })
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: the caller's pointer is valid for sixteen numbers.
        unsafe { _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)) }
    }
}
