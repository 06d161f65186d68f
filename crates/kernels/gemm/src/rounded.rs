//! Float32 operands that are rounded to bfloat16 while they are packed, where the caller allows it
//! ([`GemmArgs::rounded`]) and the machine multiplies bfloat16. Sums and all that follows them stay float32.
//!
//! Here is when that is done, and how rounded panels are made for the register kernels; those of AMX tiles pack with
//! the same two instructions.

use crate::args::GemmArgs;
use crate::kernel::{Kernels, bf16_kernels};
use crate::pack::{Mode, Panel, Strip};
use oneflow_base::{DType, bf16};
use oneflow_kernels_prim::Isa;

/// Fewer rows or columns than this read the other operand too seldom for its conversion to pay.
const FEW: usize = 4;
/// Products of at most so many multiply-adds stay in float32.
const SMALL: usize = 16 * 16 * 16;

/// Whether a product is computed from rounded operands: a rule of its shape and the machine alone.
pub(crate) fn used(args: &GemmArgs, isa: Isa) -> bool {
    let floats = (args.dtype, args.dtype_c) == (DType::F32, DType::F32) && args.packed.is_none();
    let large = args.m.min(args.n) >= FEW && args.m.saturating_mul(args.n).saturating_mul(args.k) > SMALL;
    args.rounded && floats && large && bf16_kernels(isa).is_some()
}

/// Pairs of float32 numbers, rounded.
pub struct RoundedPairs;

impl Mode for RoundedPairs {
    type S = f32;
    type P = u32;
    const KU: usize = 2;
    const DIRECT: bool = false;
    fn kernels(isa: Isa) -> &'static Kernels<u32, f32> {
        // Chosen only where the kernels exist: `used` asks first.
        bf16_kernels(isa).expect("bf16 kernels on this machine")
    }
    unsafe fn pack_panels(_: Isa, s: Strip<f32>, panels: &[Panel<u32>]) {
        #[cfg(target_arch = "x86_64")]
        if s.ws == 1 {
            // SAFETY: these kernels run where the instructions are; the caller's contract covers the rest.
            return unsafe { x86::side_by_side(s, panels) };
        }
        for p in panels {
            let src = s.src.wrapping_offset(p.at as isize * s.ws);
            // SAFETY: the caller's contract.
            unsafe { Self::pack(Isa::best(), Strip { src, width: p.width, ..s }, p.dst, p.dst_width) };
        }
    }
    unsafe fn pack(_: Isa, s: Strip<f32>, dst: *mut u32, dst_width: usize) {
        #[cfg(target_arch = "x86_64")]
        if s.ks == 1 {
            // SAFETY: as above.
            return unsafe { x86::turned(s, dst, dst_width) };
        }
        for pair in 0..s.k.div_ceil(2) {
            for i in 0..dst_width {
                // SAFETY: reads stay in the strip, writes in rows of `dst_width`.
                unsafe {
                    let half = |p: usize| if p < s.k && i < s.width { rounded(*s.at(i, p)) } else { 0 };
                    *dst.add(pair * dst_width + i) = half(2 * pair) | half(2 * pair + 1) << 16;
                }
            }
        }
    }
}

/// The bits of a number's nearest bfloat16.
pub(crate) fn rounded(x: f32) -> u32 {
    bf16::from_f32(x).to_bits().into()
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::{Panel, Strip};
    use crate::kernel::prefetch;
    use crate::transpose::transpose16;
    use std::arch::x86_64::*;

    /// Pairs of steps that are packed before the next panel's, and how many steps ahead memory is asked for.
    const STEPS: usize = 4;
    const AHEAD: isize = 8;

    /// Up to 32 neighbours, with zeros behind the last of `n`.
    ///
    /// # Safety
    /// The machine has the instructions, and the numbers lie in memory.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    #[inline]
    pub unsafe fn line(src: *const f32, n: usize) -> __m512i {
        let mask = if n >= 32 { u32::MAX } else { (1 << n) - 1 };
        // SAFETY: the masks keep the loads inside the numbers; both types are 64 bytes.
        unsafe {
            let low = _mm512_maskz_loadu_ps(mask as u16, src);
            let high = _mm512_maskz_loadu_ps((mask >> 16) as u16, src.wrapping_add(16));
            std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low))
        }
    }

    /// 16 pairs, each of a number at `low` and one at `high`; zeros where a mask has no bit.
    ///
    /// # Safety
    /// The machine has the instructions, and the numbers lie in memory.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    #[inline]
    pub unsafe fn pairs((low, low_mask): (*const f32, u16), (high, high_mask): (*const f32, u16)) -> __m512i {
        #[rustfmt::skip]
        let woven = _mm512_set_epi16(
            31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
            23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0,
        );
        // SAFETY: the masks keep the loads inside the numbers; both types are 64 bytes.
        unsafe {
            let (low, high) = (_mm512_maskz_loadu_ps(low_mask, low), _mm512_maskz_loadu_ps(high_mask, high));
            let halves = std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low));
            _mm512_permutexvar_epi16(woven, halves)
        }
    }

    /// Pairs of steps of all panels of a strip whose memory runs along its width; an odd last step has zeros beside it.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub unsafe fn side_by_side(s: Strip<f32>, panels: &[Panel<u32>]) {
        let n_pairs = s.k.div_ceil(2);
        for first in (0..n_pairs).step_by(STEPS) {
            for panel in panels {
                for p in first..(first + STEPS).min(n_pairs) {
                    for i in (0..panel.dst_width).step_by(16) {
                        let mask = ((1u32 << panel.width.saturating_sub(i).min(16)) - 1) as u16;
                        let high_mask = if 2 * p + 1 < s.k { mask } else { 0 };
                        // SAFETY: the masks keep the loads inside the strip; a whole register fits the panel and its gap.
                        unsafe {
                            let low = s.at(panel.at + i, 2 * p);
                            let high = low.wrapping_offset(s.ks);
                            prefetch(low.wrapping_offset(AHEAD * s.ks));
                            prefetch(high.wrapping_offset(AHEAD * s.ks));
                            let to = panel.dst.add(p * panel.dst_width + i);
                            _mm512_storeu_si512(to.cast(), pairs((low, mask), (high, high_mask)));
                        }
                    }
                }
            }
        }
    }

    /// A strip whose memory runs along k: 16 rows of 16 pairs at a time. Whole registers are stored: what lies beyond the
    /// width lands where the next step is written afterwards, or in the spare bytes behind the buffer.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    pub unsafe fn turned(s: Strip<f32>, dst: *mut u32, dst_width: usize) {
        for group in (0..dst_width).step_by(16) {
            let rows = s.width.saturating_sub(group).min(16);
            for p in (0..s.k).step_by(32) {
                let n = (s.k - p).min(32);
                let mut r = [_mm512_setzero_ps(); 16];
                for (i, r) in r.iter_mut().enumerate().take(rows) {
                    // SAFETY: `n` numbers from there lie in the strip.
                    *r = _mm512_castsi512_ps(unsafe { line(s.at(group + i, p), n) });
                }
                for (q, r) in transpose16(r).into_iter().enumerate().take(n.div_ceil(2)) {
                    // SAFETY: inside the panel, but for the spill described above.
                    unsafe { _mm512_storeu_ps(dst.add((p / 2 + q) * dst_width + group).cast(), r) };
                }
            }
        }
    }
}
