//! Copies a strip of an operand into the order the micro-kernel reads it: all of the strip's width for one k, then
//! the next k. Converts half types on the way and transposes in registers where memory runs along k.

use oneflow_base::{bf16, f16};

use crate::kernel::{Kernels, bf16_kernels, f32_kernels, f64_kernels, prefetch};
use crate::transpose;
use oneflow_kernels_prim::{Float, Isa, Reg, Register, Simd, WithSimd, dispatch};

/// A strip of an operand: `width` rows of A or columns of B, `k` long.
#[derive(Clone, Copy)]
pub struct Strip<S> {
    pub src: *const S,
    /// Distance between neighbours across the width.
    pub ws: isize,
    /// Distance between neighbours along k.
    pub ks: isize,
    pub width: usize,
    pub k: usize,
}

impl<S> Strip<S> {
    /// # Safety
    /// The element lies in the strip.
    #[inline(always)]
    pub unsafe fn at(&self, i: usize, p: usize) -> *const S {
        // SAFETY: the caller stays inside the strip.
        unsafe { self.src.offset(i as isize * self.ws + p as isize * self.ks) }
    }
}

/// Where a part of a wide strip goes: columns `at..at + width` of it, as `Mode::pack` lays them.
pub struct Panel<P> {
    pub at: usize,
    pub width: usize,
    pub dst: *mut P,
    pub dst_width: usize,
}

/// Packed elements that panels of a width that is no whole register lie apart: what is written past one stays there.
pub const GAP: usize = 16;

/// How one stored type reaches one family of micro-kernels.
pub trait Mode: 'static {
    type S: Float;
    type P: Copy + 'static;
    /// Elements of k in one packed element.
    const KU: usize;
    /// Whether a kernel may read the operands where they lie: a packed element is a stored one.
    const DIRECT: bool;
    fn kernels(isa: Isa) -> &'static Kernels<Self::P, <Self::S as Float>::Acc>;
    /// Fills `dst[p * dst_width + i]` from the strip, with zeros for `i >= width`. May write up to 63 bytes past the
    /// end, so panels are packed in the order they lie.
    ///
    /// # Safety
    /// The strip lies in memory, and the panel with what is written past it.
    unsafe fn pack(isa: Isa, strip: Strip<Self::S>, dst: *mut Self::P, dst_width: usize);

    /// Packs the parts of a wide strip. Panels of whole registers may touch, others lie `GAP` apart.
    ///
    /// # Safety
    /// As of `pack`, for every panel.
    unsafe fn pack_panels(isa: Isa, s: Strip<Self::S>, panels: &[Panel<Self::P>]) {
        for p in panels {
            let src = s.src.wrapping_offset(p.at as isize * s.ws);
            // SAFETY: the caller's contract.
            unsafe { Self::pack(isa, Strip { src, width: p.width, ..s }, p.dst, p.dst_width) };
        }
    }
}

/// `pack_panels` of a mode that packs the compute type.
unsafe fn panels_of<M: Mode<P = <<M as Mode>::S as Float>::Acc>>(isa: Isa, s: Strip<M::S>, panels: &[Panel<M::P>]) {
    if s.ws == 1 && panels.len() > 1 {
        return dispatch(isa.lanes(), SideBySide::<M::S> { s, panels });
    }
    for p in panels {
        let src = s.src.wrapping_offset(p.at as isize * s.ws);
        // SAFETY: the caller's contract.
        unsafe { M::pack(isa, Strip { src, width: p.width, ..s }, p.dst, p.dst_width) };
    }
}

pub struct F32;
pub struct F64;
pub struct Bf16Pairs;
pub struct Bf16Widened;
pub struct F16Widened;

impl Mode for F32 {
    type S = f32;
    type P = f32;
    const KU: usize = 1;
    const DIRECT: bool = true;
    fn kernels(isa: Isa) -> &'static Kernels<f32, f32> {
        f32_kernels(isa)
    }
    unsafe fn pack_panels(isa: Isa, s: Strip<Self::S>, panels: &[Panel<Self::P>]) {
        // SAFETY: the caller's contract is the same.
        unsafe { panels_of::<Self>(isa, s, panels) }
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
    unsafe fn pack_panels(isa: Isa, s: Strip<Self::S>, panels: &[Panel<Self::P>]) {
        // SAFETY: the caller's contract is the same.
        unsafe { panels_of::<Self>(isa, s, panels) }
    }
    #[inline]
    unsafe fn pack(isa: Isa, s: Strip<f64>, dst: *mut f64, dst_width: usize) {
        #[cfg(target_arch = "x86_64")]
        if s.ks == 1 && isa >= Isa::Avx2 {
            // SAFETY: the tier is available; the contract is the same.
            return unsafe {
                if isa == Isa::Avx2 {
                    transpose::f64_avx2(s, dst, dst_width)
                } else {
                    transpose::f64_avx512(s, dst, dst_width)
                }
            };
        }
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
    unsafe fn pack_panels(isa: Isa, s: Strip<Self::S>, panels: &[Panel<Self::P>]) {
        // SAFETY: the caller's contract is the same.
        unsafe { panels_of::<Self>(isa, s, panels) }
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
    unsafe fn pack_panels(isa: Isa, s: Strip<Self::S>, panels: &[Panel<Self::P>]) {
        // SAFETY: the caller's contract is the same.
        unsafe { panels_of::<Self>(isa, s, panels) }
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
    #[cfg(target_arch = "x86_64")]
    unsafe fn pack_panels(isa: Isa, s: Strip<bf16>, panels: &[Panel<u32>]) {
        // SAFETY: these kernels run on one tier, which has the instructions; the caller's contract covers the rest.
        unsafe {
            if s.ws == 1 {
                return pairs_side_by_side(s, panels);
            }
            for p in panels {
                let src = s.src.wrapping_offset(p.at as isize * s.ws);
                Self::pack(isa, Strip { src, width: p.width, ..s }, p.dst, p.dst_width);
            }
        }
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
struct Plain<S: Float> {
    s: Strip<S>,
    dst: *mut S::Acc,
    dst_width: usize,
}

impl<E: Float> WithSimd for Plain<E> {
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
                    let v = match s.ws {
                        1 if n == lanes => E::load::<S>(src),
                        1 => E::load_partial::<S>(src, n),
                        stride => E::gather::<S>(src, stride, n),
                    };
                    v.store(dst.add(p * dst_width + i));
                }
            }
        }
    }
}

/// Some steps of all panels, then the next: memory that runs along the width is read once, in order.
struct SideBySide<'a, E: Float> {
    s: Strip<E>,
    panels: &'a [Panel<E::Acc>],
}

impl<E: Float> WithSimd for SideBySide<'_, E> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let lanes = Reg::<S, E>::WIDTH;
        for first in (0..self.s.k).step_by(STEPS) {
            for panel in self.panels {
                // What is read of the next panel falls into what is written past this one.
                let registers = panel.dst_width.div_ceil(lanes);
                let whole = panel.width == panel.dst_width && panel.at + registers * lanes <= self.s.width;
                // SAFETY: whole registers lie in the strip, and in the panel and its gap.
                unsafe {
                    match registers {
                        1 if whole => self.copy::<S, 1>(panel, first),
                        2 if whole => self.copy::<S, 2>(panel, first),
                        _ => self.copy_part::<S>(panel, first),
                    }
                }
            }
        }
    }
}

/// Steps that are copied before the next panel's: few enough that lines a power of two apart stay in the first cache.
const STEPS: usize = 4;
/// How many steps ahead memory is asked for: no processor guesses that a short piece of the next row follows.
const AHEAD: isize = 8;

impl<E: Float> SideBySide<'_, E> {
    #[inline(always)]
    unsafe fn copy<S: Simd, const REGISTERS: usize>(&self, panel: &Panel<E::Acc>, first: usize) {
        let (s, lanes) = (&self.s, Reg::<S, E>::WIDTH);
        for p in first..(first + STEPS).min(s.k) {
            // SAFETY: by the caller.
            unsafe {
                let (src, dst) = (s.at(panel.at, p), panel.dst.add(p * panel.dst_width));
                let ahead = src.wrapping_offset(AHEAD * s.ks);
                for line in 0..(REGISTERS * lanes * size_of::<E>()).div_ceil(64) {
                    prefetch(ahead.wrapping_byte_add(64 * line));
                }
                for i in 0..REGISTERS {
                    E::load::<S>(src.add(i * lanes)).store(dst.add(i * lanes));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn copy_part<S: Simd>(&self, panel: &Panel<E::Acc>, first: usize) {
        let (s, lanes) = (&self.s, Reg::<S, E>::WIDTH);
        for p in first..(first + STEPS).min(s.k) {
            for i in (0..panel.dst_width).step_by(lanes) {
                let n = panel.width.saturating_sub(i).min(lanes);
                // SAFETY: `n` elements from there lie in the strip; a whole register in the panel and its gap.
                unsafe {
                    let src = s.at(panel.at + i, p);
                    let v = if n == lanes { E::load::<S>(src) } else { E::load_partial::<S>(src, n) };
                    v.store(panel.dst.add(p * panel.dst_width + i));
                }
            }
        }
    }
}

/// Pairs of steps of all panels, as `SideBySide`; an odd last step has zeros beside it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pairs_side_by_side(s: Strip<bf16>, panels: &[Panel<u32>]) {
    use std::arch::x86_64::*;
    let pairs = s.k.div_ceil(2);
    for first in (0..pairs).step_by(STEPS) {
        for panel in panels {
            for p in first..(first + STEPS).min(pairs) {
                for i in (0..panel.dst_width).step_by(16) {
                    let mask = ((1u32 << panel.width.saturating_sub(i).min(16)) - 1) as u16;
                    let high_mask = if 2 * p + 1 < s.k { mask } else { 0 };
                    // SAFETY: the masks keep the loads inside the strip; a whole register fits the panel and its gap.
                    unsafe {
                        let low = s.at(panel.at + i, 2 * p);
                        let high = low.wrapping_offset(s.ks);
                        prefetch(low.wrapping_offset(AHEAD * s.ks));
                        prefetch(high.wrapping_offset(AHEAD * s.ks));
                        let wide = |mask, from: *const oneflow_base::bf16| {
                            _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from.cast()))
                        };
                        let pair = _mm512_or_si512(wide(mask, low), _mm512_slli_epi32::<16>(wide(high_mask, high)));
                        _mm512_storeu_si512(panel.dst.add(p * panel.dst_width + i).cast(), pair);
                    }
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
                for i in 0..s.width {
                    let at = i as isize * s.ws;
                    *out.add(i) = (*low.offset(at)).to_bits() as u32 | ((*high.offset(at)).to_bits() as u32) << 16;
                }
                for i in s.width..dst_width {
                    *out.add(i) = 0;
                }
            }
        }
    }
}

/// Along k: widens 64 steps of up to 16 rows at a time and transposes those; else converts while copying.
unsafe fn pack_widened<S: Float<Acc = f32>>(isa: Isa, s: Strip<S>, dst: *mut f32, dst_width: usize) {
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
            _ if dst_width <= 4 && isa >= Isa::Avx2 => transpose::u32_narrow(s, dst, dst_width),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => transpose::u32_avx512(s, dst, dst_width),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => transpose::u32_avx2(s, dst, dst_width),
            _ => transpose::plain(s, 0, dst, dst_width),
        }
    }
}
