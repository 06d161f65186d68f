//! Transposes a strip whose memory runs along k, in registers: `dst[p * dst_width + i] = src[i * ws + p]`, zeros for
//! `i >= width`. Element types are only sizes here.
//!
//! Whole registers are stored: lanes beyond the width land where the next k is written afterwards, or in the spare bytes
//! behind the buffer.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::pack::Strip;

/// From step `from` on, one element at a time.
pub(crate) unsafe fn plain<T: Copy + Default>(s: Strip<T>, from: usize, dst: *mut T, dst_width: usize) {
    for p in from..s.k {
        for i in 0..dst_width {
            // SAFETY: inside the strip and the panel.
            unsafe {
                *dst.add(p * dst_width + i) = if i < s.width { s.at(i, p).read_unaligned() } else { T::default() };
            }
        }
    }
}

/// The columns of a narrow panel, as the channels of a picture: 4 rows of 4 at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn u32_narrow(s: Strip<u32>, dst: *mut u32, dst_width: usize) {
    let whole = s.k / 4 * 4;
    for p in (0..whole).step_by(4) {
        let mut r = [_mm_setzero_ps(); 4];
        for (i, r) in r.iter_mut().enumerate() {
            if i < s.width {
                // SAFETY: four steps from p are inside the strip's row.
                *r = unsafe { _mm_loadu_ps(s.at(i, p).cast()) };
            }
        }
        let (a, b) = (_mm_unpacklo_ps(r[0], r[1]), _mm_unpackhi_ps(r[0], r[1]));
        let (c, d) = (_mm_unpacklo_ps(r[2], r[3]), _mm_unpackhi_ps(r[2], r[3]));
        let columns = [_mm_movelh_ps(a, c), _mm_movehl_ps(c, a), _mm_movelh_ps(b, d), _mm_movehl_ps(d, b)];
        for (q, t) in columns.into_iter().enumerate() {
            // SAFETY: inside the panel, but for the spill described above.
            unsafe { _mm_storeu_ps(dst.add((p + q) * dst_width).cast(), t) };
        }
    }
    // SAFETY: the caller's contract.
    unsafe { plain(s, whole, dst, dst_width) };
}

/// 16 rows of 16 at a time. Whole registers are stored: lanes beyond the width land where the next k is written
/// afterwards, or in the spare bytes behind the buffer.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn u32_avx512(s: Strip<u32>, dst: *mut u32, dst_width: usize) {
    for group in (0..dst_width).step_by(16) {
        let rows = s.width.saturating_sub(group).min(16);
        for p in (0..s.k).step_by(16) {
            let steps = (s.k - p).min(16);
            let mask = ((1u32 << steps) - 1) as __mmask16;
            let mut r = [_mm512_setzero_ps(); 16];
            for (i, r) in r.iter_mut().enumerate() {
                if i < rows {
                    // SAFETY: the mask keeps the load inside the strip's row.
                    *r = unsafe { _mm512_maskz_loadu_ps(mask, s.at(group + i, p).cast()) };
                }
            }
            let t = transpose16(r);
            for (q, t) in t.into_iter().enumerate() {
                if q < steps {
                    // SAFETY: inside the panel, but for the spill described above.
                    unsafe { _mm512_storeu_ps(dst.add((p + q) * dst_width + group).cast(), t) };
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
pub(crate) fn transpose16(r: [__m512; 16]) -> [__m512; 16] {
    let z = _mm512_setzero_ps();
    let (mut t, mut u) = ([z; 16], [z; 16]);
    for i in 0..8 {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    let lo = |a, b| _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    let hi = |a, b| _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    for i in 0..4 {
        let j = 4 * i;
        u[j] = lo(t[j], t[j + 2]);
        u[j + 1] = hi(t[j], t[j + 2]);
        u[j + 2] = lo(t[j + 1], t[j + 3]);
        u[j + 3] = hi(t[j + 1], t[j + 3]);
    }
    for i in 0..4 {
        t[i] = _mm512_shuffle_f32x4::<0x88>(u[i], u[i + 4]);
        t[i + 4] = _mm512_shuffle_f32x4::<0xdd>(u[i], u[i + 4]);
        t[i + 8] = _mm512_shuffle_f32x4::<0x88>(u[i + 8], u[i + 12]);
        t[i + 12] = _mm512_shuffle_f32x4::<0xdd>(u[i + 8], u[i + 12]);
    }
    for i in 0..8 {
        u[i] = _mm512_shuffle_f32x4::<0x88>(t[i], t[i + 8]);
        u[i + 8] = _mm512_shuffle_f32x4::<0xdd>(t[i], t[i + 8]);
    }
    u
}

/// 8 rows of 8 at a time; spills as the wider form does.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn u32_avx2(s: Strip<u32>, dst: *mut u32, dst_width: usize) {
    let whole = s.k / 8 * 8;
    for group in (0..dst_width).step_by(8) {
        let rows = s.width.saturating_sub(group).min(8);
        for p in (0..whole).step_by(8) {
            let mut r = [_mm256_setzero_ps(); 8];
            for (i, r) in r.iter_mut().enumerate() {
                if i < rows {
                    // SAFETY: eight steps from p are inside the strip's row.
                    *r = unsafe { _mm256_loadu_ps(s.at(group + i, p).cast()) };
                }
            }
            for (q, t) in transpose8(r).into_iter().enumerate() {
                // SAFETY: inside the panel, but for the spill described above.
                unsafe { _mm256_storeu_ps(dst.add((p + q) * dst_width + group).cast(), t) };
            }
        }
    }
    // SAFETY: the caller's contract.
    unsafe { plain(s, whole, dst, dst_width) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn transpose8(r: [__m256; 8]) -> [__m256; 8] {
    let z = _mm256_setzero_ps();
    let (mut t, mut u) = ([z; 8], [z; 8]);
    for i in 0..4 {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for i in 0..2 {
        let j = 4 * i;
        u[j] = _mm256_shuffle_ps::<0x44>(t[j], t[j + 2]);
        u[j + 1] = _mm256_shuffle_ps::<0xee>(t[j], t[j + 2]);
        u[j + 2] = _mm256_shuffle_ps::<0x44>(t[j + 1], t[j + 3]);
        u[j + 3] = _mm256_shuffle_ps::<0xee>(t[j + 1], t[j + 3]);
    }
    for i in 0..4 {
        t[i] = _mm256_permute2f128_ps::<0x20>(u[i], u[i + 4]);
        t[i + 4] = _mm256_permute2f128_ps::<0x31>(u[i], u[i + 4]);
    }
    t
}

/// 8 rows of 8 at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
pub(crate) unsafe fn f64_avx512(s: Strip<f64>, dst: *mut f64, dst_width: usize) {
    for p in (0..s.k).step_by(8) {
        let steps = (s.k - p).min(8);
        let mask = ((1u32 << steps) - 1) as __mmask8;
        let mut groups = [[_mm512_setzero_pd(); 8]; 2];
        for (i, r) in groups.as_flattened_mut().iter_mut().enumerate() {
            if i < s.width {
                // SAFETY: the mask keeps the load inside the strip's row.
                *r = unsafe { _mm512_maskz_loadu_pd(mask, s.at(i, p)) };
            }
        }
        let groups = groups.map(|r| f64_8x8(r));
        // Step by step, so that what one group spills is written afterwards.
        for q in 0..steps {
            for (group, t) in groups.iter().enumerate() {
                if 8 * group < dst_width {
                    // SAFETY: inside the panel, but for the spill.
                    unsafe { _mm512_storeu_pd(dst.add((p + q) * dst_width + 8 * group), t[q]) };
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
fn f64_8x8(r: [__m512d; 8]) -> [__m512d; 8] {
    let mut out = r;
    for odd in 0..2 {
        let pair = |i: usize| match odd {
            0 => _mm512_unpacklo_pd(r[2 * i], r[2 * i + 1]),
            _ => _mm512_unpackhi_pd(r[2 * i], r[2 * i + 1]),
        };
        let t = [pair(0), pair(1), pair(2), pair(3)];
        let (x, y) = (_mm512_shuffle_f64x2::<0x88>(t[0], t[1]), _mm512_shuffle_f64x2::<0xdd>(t[0], t[1]));
        let (z, w) = (_mm512_shuffle_f64x2::<0x88>(t[2], t[3]), _mm512_shuffle_f64x2::<0xdd>(t[2], t[3]));
        out[odd] = _mm512_shuffle_f64x2::<0x88>(x, z);
        out[odd + 2] = _mm512_shuffle_f64x2::<0x88>(y, w);
        out[odd + 4] = _mm512_shuffle_f64x2::<0xdd>(x, z);
        out[odd + 6] = _mm512_shuffle_f64x2::<0xdd>(y, w);
    }
    out
}

/// 4 rows of 4 at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn f64_avx2(s: Strip<f64>, dst: *mut f64, dst_width: usize) {
    let whole = s.k / 4 * 4;
    for p in (0..whole).step_by(4) {
        let mut groups = [[_mm256_setzero_pd(); 4]; 2];
        for (i, r) in groups.as_flattened_mut().iter_mut().enumerate() {
            if i < s.width {
                // SAFETY: four steps from p are inside the strip's row.
                *r = unsafe { _mm256_loadu_pd(s.at(i, p)) };
            }
        }
        let groups = groups.map(|r| f64_4x4(r));
        for q in 0..4 {
            for (group, t) in groups.iter().enumerate() {
                if 4 * group < dst_width {
                    // SAFETY: inside the panel, but for the spill.
                    unsafe { _mm256_storeu_pd(dst.add((p + q) * dst_width + 4 * group), t[q]) };
                }
            }
        }
    }
    // SAFETY: the caller's contract.
    unsafe { plain(s, whole, dst, dst_width) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn f64_4x4(r: [__m256d; 4]) -> [__m256d; 4] {
    let (a, b) = (_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1]));
    let (c, d) = (_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3]));
    [
        _mm256_permute2f128_pd::<0x20>(a, c),
        _mm256_permute2f128_pd::<0x20>(b, d),
        _mm256_permute2f128_pd::<0x31>(a, c),
        _mm256_permute2f128_pd::<0x31>(b, d),
    ]
}
