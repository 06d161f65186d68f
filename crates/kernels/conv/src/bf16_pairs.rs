//! Weights and regions of bfloat16 in pairs of channels, as `vdpbf16ps` reads them: a pair is made where the numbers lie side by
//! side in memory, and then transposed like one number of f32.

use crate::element::Seg;
use crate::geometry::{Image, Three};
use crate::implicit_gemm::{Operands, pairs};
use crate::packed_weights::Weight;
use crate::region::{Region, SPARE, TILE};
use crate::tiles::{self, Gathered};
use oneflow_base::bf16;
use oneflow_kernels_gemm::micro::{Bf16Pairs, F32, Kernels, Mode, Panel, Slot, Strip, with_scratch};
use oneflow_kernels_gemm::{Parallel, Pool};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{self as prim, Isa, Simd, WithSimd, dispatch};
use std::ops::Range;

/// Two channels of bfloat16 side by side.
pub struct Pairs;

impl Operands<bf16> for Pairs {
    type P = u32;
    const TOGETHER: usize = 2;
    fn kernels(isa: Isa) -> &'static Kernels<u32, f32> {
        Bf16Pairs::kernels(isa)
    }
    fn along_k(n: usize) -> usize {
        tiles::padded_pairs(n)
    }
    #[cfg(target_arch = "x86_64")]
    unsafe fn gathered(all: &Gathered<'_, u32, f32>) -> bool {
        // SAFETY: the contract is the same; the machine has the tiles, or nobody would ask.
        unsafe { all.multiply() };
        true
    }
    fn may_gather(weights: &[u32]) -> bool {
        /// The bits of an exponent.
        const EXPONENT: u32 = 0x7f80;
        let finite = |w: &u32| w & EXPONENT != EXPONENT && w >> 16 & EXPONENT != EXPONENT;
        tiles::used() && weights.chunks(4096).all(|some| some.iter().fold(true, |all, w| all & finite(w)))
    }
    unsafe fn weights(weight: &Weight<'_>, isa: Isa, dst: Shared<u32>) {
        let Some(ker) = pairs::<bf16>() else { return };
        let n_pairs = weight.taps.len() * weight.channels.div_ceil(2);
        let rows = Self::along_k(n_pairs);
        let panel = |i: usize| {
            let n = ker.nr.min(weight.n - i * ker.nr);
            let ptr = weight.ptr.cast::<bf16>().wrapping_offset((i * ker.nr) as isize * weight.n_stride).cast();
            let panel = Weight { ptr, n, ..*weight };
            let (width, dst) = (n.next_multiple_of(ker.lanes), dst.at((i * ker.nr * rows) as isize));
            // SAFETY: the caller's weight; panels have their own parts.
            unsafe {
                pack(&panel, isa, width, dst);
                dst.add(n_pairs * width).write_bytes(0, (rows - n_pairs) * width);
            }
        };
        let panels = weight.n.div_ceil(ker.nr);
        match weight.k() * weight.n < 1 << 15 {
            true => (0..panels).for_each(panel),
            false => Pool.run(panels, &panel),
        }
    }
    unsafe fn region(
        region: &Region,
        isa: Isa,
        (src, channels, first, start): (&Image, Range<usize>, usize, Three),
        dst: *mut u32,
        _: *mut f32,
    ) {
        let n_pairs = region.channels.div_ceil(2);
        with_scratch(Slot::C, n_pairs * TILE * size_of::<u32>() + SPARE, |rows| {
            let line = |at: *const bf16, width: usize, to: *mut u32| {
                // SAFETY: the line lies in the image, and in the region.
                unsafe { line(region, isa, src, at, width, (rows.cast(), to)) }
            };
            // SAFETY: by the caller.
            unsafe { region.lines::<bf16, u32>(src, (channels.start, first, start), dst, region.ld / 2, line) }
        })
    }
}

/// `width` positions of one line: a row of pairs a position.
unsafe fn line(
    region: &Region,
    isa: Isa,
    src: &Image,
    at: *const bf16,
    width: usize,
    (rows, to): (*mut u32, *mut u32),
) {
    let (cs, ws, ld, channels) = (src.strides[1], src.strides[4], region.ld / 2, region.channels);
    let n_pairs = channels.div_ceil(2);
    // SAFETY: by the caller; what is written behind a row is written again, or spare.
    unsafe {
        if cs == 1 && channels > 1 {
            for p in 0..width {
                let (from, row) = (at.offset(p as isize * ws), to.add(p * ld));
                *row.add(n_pairs - 1) = 0;
                std::ptr::copy_nonoverlapping(from, row.cast(), channels);
                std::ptr::write_bytes(row.add(n_pairs), 0, ld - n_pairs);
            }
            return;
        }
        for p in (0..width).step_by(TILE) {
            let n = TILE.min(width - p);
            for c in (0..channels).step_by(2) {
                let low = at.offset(c as isize * cs + p as isize * ws);
                let high = if c + 1 < channels { low.offset(cs) } else { std::ptr::null() };
                let row = rows.add(c / 2 * TILE);
                match ws {
                    1 => dispatch(prim::isa(), PairRun { low: low.cast(), high: high.cast(), n, to: row }),
                    _ => (0..n).for_each(|i| *row.add(i) = pair(low, high, i as isize * ws)),
                }
            }
            if n_pairs < 8 {
                for (q, c) in (0..n).flat_map(|q| (0..n_pairs).map(move |c| (q, c))) {
                    *to.add((p + q) * ld + c) = *rows.add(c * TILE + q);
                }
                continue;
            }
            let strip = Strip { src: rows.cast_const().cast(), ws: TILE as isize, ks: 1, width: n_pairs, k: n };
            F32::pack(isa, strip, to.add(p * ld).cast(), ld);
        }
    }
}

/// One pair; zero in the half that has no number.
#[inline(always)]
unsafe fn pair(low: *const bf16, high: *const bf16, at: isize) -> u32 {
    // SAFETY: the numbers lie in memory.
    unsafe {
        let high = if high.is_null() { 0 } else { (*high.offset(at)).to_bits() as u32 };
        (*low.offset(at)).to_bits() as u32 | high << 16
    }
}

/// `n` pairs of neighbours.
struct PairRun {
    low: *const u16,
    /// Null where there is none.
    high: *const u16,
    n: usize,
    to: *mut u32,
}

impl WithSimd for PairRun {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        // SAFETY: the numbers lie in memory, and the pairs elsewhere.
        unsafe {
            let low = std::slice::from_raw_parts(self.low, self.n);
            let to = std::slice::from_raw_parts_mut(self.to, self.n);
            if self.high.is_null() {
                return to.iter_mut().zip(low).for_each(|(to, l)| *to = *l as u32);
            }
            let high = std::slice::from_raw_parts(self.high, self.n);
            to.iter_mut().zip(low.iter().zip(high)).for_each(|(to, (l, h))| *to = *l as u32 | (*h as u32) << 16);
        }
    }
}

/// A panel of weights, [tap, pair of channels, output], rows of `padded`.
unsafe fn pack(weight: &Weight<'_>, isa: Isa, padded: usize, to: *mut u32) {
    let (n_pairs, src) = (weight.channels.div_ceil(2), weight.ptr.cast::<bf16>());
    let Some((first, span)) = weight.near_taps() else {
        for (t, tap) in weight.taps.iter().enumerate() {
            let src = src.wrapping_offset(tap.weight);
            let strip = Strip { src, ws: weight.n_stride, ks: weight.c_stride, width: weight.n, k: weight.channels };
            let dst = to.wrapping_add(t * n_pairs * padded);
            // SAFETY: the strip lies in the weight, the rows in the buffer.
            unsafe { Bf16Pairs::pack_panels(isa, strip, &[Panel { at: 0, width: weight.n, dst, dst_width: padded }]) };
        }
        return;
    };
    // Memory runs along the taps: the pairs of some channels are made there, transposed and brought to their rows.
    let together = (TILE / span).max(1);
    let ld = together * span + RUN;
    // Where whole runs may still be read: in front of the last one.
    let last = (weight.n as isize - 1) * weight.n_stride + (weight.channels as isize - 1) * weight.c_stride + first;
    let whole = if weight.n_stride > 0 && weight.c_stride > 0 { last } else { isize::MIN };
    with_scratch(Slot::C, (weight.n * ld + ld * padded) * size_of::<u32>() + SPARE, |room| {
        let rows: *mut u32 = room.cast();
        let turned = rows.wrapping_add(weight.n * ld);
        for c in (0..n_pairs).step_by(together) {
            let n = together.min(n_pairs - c);
            dispatch(prim::isa(), Stage { weight, first, span, c, n, whole, rows, ld });
            let strip = Strip { src: rows.cast_const().cast(), ws: ld as isize, ks: 1, width: weight.n, k: n * span };
            // SAFETY: the strip lies in the rows; the buffers hold what is packed and copied.
            unsafe {
                F32::pack(isa, strip, turned.cast(), padded);
                for i in 0..n {
                    for (t, tap) in weight.taps.iter().enumerate() {
                        let from = turned.add((i * span + (tap.weight - first) as usize) * padded);
                        std::ptr::copy_nonoverlapping(from, to.add((t * n_pairs + c + i) * padded), padded);
                    }
                }
            }
        }
    })
}

/// Pairs made at a time.
const RUN: usize = 16;

/// The pairs of channels from pair `c` on: a row an output, [pair, tap].
struct Stage<'a> {
    weight: &'a Weight<'a>,
    first: isize,
    span: usize,
    c: usize,
    n: usize,
    /// Whole runs that begin before this are in memory.
    whole: isize,
    rows: *mut u32,
    ld: usize,
}

impl WithSimd for Stage<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let (weight, span) = (self.weight, self.span);
        let src = weight.ptr.cast::<u16>();
        for (o, i) in (0..weight.n).flat_map(|o| (0..self.n).map(move |i| (o, i))) {
            let c = 2 * (self.c + i);
            let low = o as isize * weight.n_stride + c as isize * weight.c_stride + self.first;
            let high = low + weight.c_stride;
            let to = self.rows.wrapping_add(o * self.ld + i * span);
            // SAFETY: the numbers lie in the weight; a row has room for a run behind its end.
            unsafe {
                if c + 1 < weight.channels && high + ((span.next_multiple_of(RUN)) as isize) <= self.whole {
                    for at in (0..span).step_by(RUN) {
                        let [l, h] = [low, high].map(|p| src.offset(p).add(at).cast::<[u16; RUN]>().read_unaligned());
                        let mut run = [0; RUN];
                        for i in 0..RUN {
                            run[i] = l[i] as u32 | (h[i] as u32) << 16;
                        }
                        to.add(at).cast::<[u32; RUN]>().write_unaligned(run);
                    }
                    continue;
                }
                for at in 0..span {
                    let high = if c + 1 < weight.channels { *src.offset(high).add(at) as u32 } else { 0 };
                    *to.add(at) = *src.offset(low).add(at) as u32 | high << 16;
                }
            }
        }
    }
}

/// As `CopyRows`, of bfloat16 numbers in f32: two rows become one of pairs.
pub struct PairedRows<'a> {
    pub src: *const u32,
    pub offsets: &'a [isize],
    pub segs: &'a [Seg],
    pub dst: *mut u32,
    pub dst_rs: usize,
}

impl WithSimd for PairedRows<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for (i, rows) in self.offsets.chunks(2).enumerate() {
            for seg in self.segs {
                let low = self.src.wrapping_offset(rows[0] + seg.from);
                let high = rows.get(1).map(|at| self.src.wrapping_offset(at + seg.from));
                let to = self.dst.wrapping_add(i * self.dst_rs + seg.to);
                for at in (0..seg.len).step_by(RUN) {
                    // SAFETY: as of `CopyRows`.
                    unsafe {
                        let low = low.add(at).cast::<[u32; RUN]>().read_unaligned();
                        let high = high.map_or([0; RUN], |high| high.add(at).cast::<[u32; RUN]>().read_unaligned());
                        let mut run = [0; RUN];
                        for i in 0..RUN {
                            run[i] = low[i] >> 16 | high[i] & 0xffff_0000;
                        }
                        to.add(at).cast::<[u32; RUN]>().write_unaligned(run);
                    }
                }
            }
        }
    }
}
