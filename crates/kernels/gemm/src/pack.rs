//! Copies a strip of an operand into the order the micro-kernel reads it: all of the strip's width for one k, then
//! the next k. Converts half types on the way and transposes in registers where memory runs along k.

use oneflow_base::{bf16, f16};

use crate::elem::{Elem, Reg};
use crate::isa::Isa;
use crate::kernel::{Kernels, bf16_kernels, f32_kernels, f64_kernels};
use oneflow_kernels_prim::{Register, Simd, WithSimd, dispatch};

/// A strip of an operand: `width` rows of A or columns of B, `k` long.
#[derive(Clone, Copy)]
pub(crate) struct Strip<S> {
    pub src: *const S,
    /// Distance between neighbours across the width.
    pub ws: isize,
    /// Distance between neighbours along k.
    pub ks: isize,
    pub width: usize,
    pub k: usize,
}

impl<S> Strip<S> {
    #[inline(always)]
    unsafe fn at(&self, i: usize, p: usize) -> *const S {
        // SAFETY: the caller stays inside the strip.
        unsafe { self.src.offset(i as isize * self.ws + p as isize * self.ks) }
    }
}

/// How one stored type reaches one family of micro-kernels.
pub(crate) trait Mode: 'static {
    type S: Elem;
    type P: Copy + 'static;
    /// Elements of k in one packed element.
    const KU: usize;
    /// Whether a kernel may read the operands where they lie: a packed element is a stored one.
    const DIRECT: bool;
    fn kernels(isa: Isa) -> &'static Kernels<Self::P, <Self::S as Elem>::Acc>;
    /// Fills `dst[p * dst_width + i]` from the strip, with zeros for `i >= width`. May write up to 63 bytes past the
    /// end, so panels are packed in the order they lie.
    unsafe fn pack(isa: Isa, strip: Strip<Self::S>, dst: *mut Self::P, dst_width: usize);
}

pub(crate) struct F32;
pub(crate) struct F64;
pub(crate) struct Bf16Pairs;
pub(crate) struct Bf16Widened;
pub(crate) struct F16Widened;

impl Mode for F32 {
    type S = f32;
    type P = f32;
    const KU: usize = 1;
    const DIRECT: bool = true;
    fn kernels(isa: Isa) -> &'static Kernels<f32, f32> {
        f32_kernels(isa)
    }
    #[inline]
    unsafe fn pack(isa: Isa, s: Strip<f32>, dst: *mut f32, dst_width: usize) {
        // SAFETY: the caller's contract is the same.
        unsafe {
            if s.ks == 1 {
                transpose32(
                    isa,
                    Strip { src: s.src.cast(), ws: s.ws, ks: 1, width: s.width, k: s.k },
                    dst.cast(),
                    dst_width,
                );
            } else {
                dispatch(isa.lanes(), Plain { s, dst, dst_width });
            }
        }
    }
}

impl Mode for F64 {
    type S = f64;
    type P = f64;
    const KU: usize = 1;
    const DIRECT: bool = true;
    fn kernels(isa: Isa) -> &'static Kernels<f64, f64> {
        f64_kernels(isa)
    }
    #[inline]
    unsafe fn pack(isa: Isa, s: Strip<f64>, dst: *mut f64, dst_width: usize) {
        dispatch(isa.lanes(), Plain { s, dst, dst_width })
    }
}

impl Mode for Bf16Widened {
    type S = bf16;
    type P = f32;
    const KU: usize = 1;
    const DIRECT: bool = false;
    fn kernels(isa: Isa) -> &'static Kernels<f32, f32> {
        f32_kernels(isa)
    }
    unsafe fn pack(isa: Isa, s: Strip<bf16>, dst: *mut f32, dst_width: usize) {
        // SAFETY: the caller's contract is the same.
        unsafe { pack_widened(isa, s, dst, dst_width) }
    }
}

impl Mode for F16Widened {
    type S = f16;
    type P = f32;
    const KU: usize = 1;
    const DIRECT: bool = false;
    fn kernels(isa: Isa) -> &'static Kernels<f32, f32> {
        f32_kernels(isa)
    }
    unsafe fn pack(isa: Isa, s: Strip<f16>, dst: *mut f32, dst_width: usize) {
        // SAFETY: the caller's contract is the same.
        unsafe { pack_widened(isa, s, dst, dst_width) }
    }
}

impl Mode for Bf16Pairs {
    type S = bf16;
    type P = u32;
    const KU: usize = 2;
    const DIRECT: bool = false;
    fn kernels(isa: Isa) -> &'static Kernels<u32, f32> {
        // Chosen only where the kernels exist; `driver` asks first.
        bf16_kernels(isa).expect("bf16 kernels on this machine")
    }
    unsafe fn pack(isa: Isa, s: Strip<bf16>, dst: *mut u32, dst_width: usize) {
        let pairs = s.k / 2;
        // SAFETY: the caller's contract is the same; pair `p` covers k = 2p and 2p + 1.
        unsafe {
            if s.ks == 1 && s.ws % 2 == 0 {
                let strip = Strip { src: s.src.cast(), ws: s.ws / 2, ks: 1, width: s.width, k: pairs };
                transpose32(isa, strip, dst, dst_width);
            } else {
                let even = Strip { k: pairs, ..s };
                dispatch(isa.lanes(), Pairs { s: even, dst, dst_width });
            }
            if s.k % 2 == 1 {
                let last = dst.add(pairs * dst_width);
                for i in 0..dst_width {
                    *last.add(i) = if i < s.width { (*s.at(i, s.k - 1)).to_bits() as u32 } else { 0 };
                }
            }
        }
    }
}

/// Copies, widening. Whole registers are stored, as `Mode::pack` allows.
struct Plain<S: Elem> {
    s: Strip<S>,
    dst: *mut S::Acc,
    dst_width: usize,
}

impl<E: Elem> WithSimd for Plain<E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Plain { s, dst, dst_width } = self;
        let lanes = Reg::<S, E>::WIDTH;
        for p in 0..s.k {
            for i in (0..dst_width).step_by(lanes) {
                let n = s.width.saturating_sub(i).min(lanes);
                // SAFETY: `n` elements from i lie in the strip, and a register from there in the panel and its spill.
                unsafe {
                    let src = s.src.offset(i as isize * s.ws + p as isize * s.ks);
                    let v = if s.ws == 1 && n == lanes { E::load::<S>(src) } else { E::gather::<S>(src, s.ws, n) };
                    v.store(dst.add(p * dst_width + i));
                }
            }
        }
    }
}

/// Puts two consecutive k side by side; `s.k` counts pairs.
struct Pairs {
    s: Strip<bf16>,
    dst: *mut u32,
    dst_width: usize,
}

impl WithSimd for Pairs {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Pairs { s, dst, dst_width } = self;
        for p in 0..s.k {
            // SAFETY: reads stay in the strip, writes in k rows of `dst_width`.
            unsafe {
                let (low, high, out) = (s.at(0, 2 * p), s.at(0, 2 * p + 1), dst.add(p * dst_width));
                if s.ws == 1 {
                    for i in 0..s.width {
                        *out.add(i) = (*low.add(i)).to_bits() as u32 | ((*high.add(i)).to_bits() as u32) << 16;
                    }
                } else {
                    for i in 0..s.width {
                        let i_src = i as isize * s.ws;
                        *out.add(i) =
                            (*low.offset(i_src)).to_bits() as u32 | ((*high.offset(i_src)).to_bits() as u32) << 16;
                    }
                }
                for i in s.width..dst_width {
                    *out.add(i) = 0;
                }
            }
        }
    }
}

/// Along k: widens 64 steps of up to 16 rows at a time and transposes those; else converts while copying.
unsafe fn pack_widened<S: Elem<Acc = f32>>(isa: Isa, s: Strip<S>, dst: *mut f32, dst_width: usize) {
    const STEPS: usize = 64;
    const ROWS: usize = 32;
    // SAFETY: the caller's contract; the stage holds what is read from it.
    unsafe {
        if s.ks != 1 || s.width > ROWS {
            return dispatch(isa.lanes(), Plain { s, dst, dst_width });
        }
        let mut stage = [0f32; ROWS * STEPS + 16];
        for p in (0..s.k).step_by(STEPS) {
            let steps = STEPS.min(s.k - p);
            // "Width" and "k" swap: each row of the strip is copied as it lies.
            let rows = Strip { src: s.at(0, p), ws: 1, ks: s.ws, width: steps, k: s.width };
            dispatch(isa.lanes(), Plain { s: rows, dst: stage.as_mut_ptr(), dst_width: STEPS });
            let strip = Strip { src: stage.as_ptr().cast(), ws: STEPS as isize, ks: 1, width: s.width, k: steps };
            transpose32(isa, strip, dst.add(p * dst_width).cast(), dst_width);
        }
    }
}

/// `dst[p * dst_width + i] = src[i * ws + p]` for 4-byte elements, zeros for `i >= width`.
unsafe fn transpose32(isa: Isa, s: Strip<u32>, dst: *mut u32, dst_width: usize) {
    // SAFETY: the tier is available; the caller's contract covers the rest.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx512Bf16 => x86::transpose_avx512(s, dst, dst_width),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => x86::transpose_avx2(s, dst, dst_width),
            _ => transpose_plain(s, 0, dst, dst_width),
        }
    }
}

/// From step `from` on.
unsafe fn transpose_plain(s: Strip<u32>, from: usize, dst: *mut u32, dst_width: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        for p in from..s.k {
            for i in 0..dst_width {
                *dst.add(p * dst_width + i) = if i < s.width { s.at(i, p).read_unaligned() } else { 0 };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Strip, transpose_plain};
    use std::arch::x86_64::*;

    /// 16 rows of 16 at a time. Whole registers are stored: lanes beyond the width land where the next k is written
    /// afterwards, or in the spare bytes behind the buffer.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn transpose_avx512(s: Strip<u32>, dst: *mut u32, dst_width: usize) {
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

    #[target_feature(enable = "avx512f")]
    #[inline]
    fn transpose16(r: [__m512; 16]) -> [__m512; 16] {
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
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn transpose_avx2(s: Strip<u32>, dst: *mut u32, dst_width: usize) {
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
        unsafe { transpose_plain(s, whole, dst, dst_width) };
    }

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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_packs_alike() {
        for &isa in Isa::available() {
            let kernels = F32::kernels(isa);
            for (width, dst_width) in (1..=kernels.mr).map(|w| (w, w)).chain([
                (kernels.nr, kernels.nr),
                (1, kernels.lanes),
                (kernels.lanes + 1, kernels.nr),
            ]) {
                for k in [1, 5, 8, 16, 33] {
                    let src: Vec<f32> = (0..width * k * 3).map(|i| i as f32 + 1.0).collect();
                    for (ws, ks) in [(k, 1), (1, width), (3, 3 * width)] {
                        let strip = Strip { src: src.as_ptr(), ws: ws as isize, ks: ks as isize, width, k };
                        let mut dst = vec![-1f32; dst_width * k + 16];
                        // SAFETY: `src` holds the strip and `dst` the panel and its spill.
                        unsafe { F32::pack(isa, strip, dst.as_mut_ptr(), dst_width) };
                        for p in 0..k {
                            for i in 0..dst_width {
                                let want = if i < width { src[i * ws + p * ks] } else { 0.0 };
                                assert_eq!(dst[p * dst_width + i], want, "{isa:?} width {width} k {k} at {i},{p}");
                            }
                        }
                    }
                }
            }
        }
    }
}
