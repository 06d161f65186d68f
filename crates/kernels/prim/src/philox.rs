//! The random bits of every device: Philox4x32-10, counted by call offset and global element index.
//!
//! key = seed, counter = (element index, call offset), low words first: each element owns one block of four words, so a
//! value depends on (seed, offset, index) alone, whatever the split over threads, shards and devices. Device text and
//! data sources follow the functions here word by word. Holds no generator state.

use crate::{Params, Shard, params};
use oneflow_base::{Dims, Error, Result, contiguous_strides};

pub const MUL: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
pub const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The four words of element `index`.
#[inline]
pub fn block(seed: u64, offset: u64, index: u64) -> [u32; 4] {
    words::<1>(seed, offset, index).map(|w| w[0])
}

/// The words of `N` consecutive elements, word by word. Lanes are kept in 64 bits, whose upper halves may hold garbage
/// between rounds: that is what a widening vector multiply reads and writes, so the loops become six instructions a round.
#[inline(always)]
pub fn words<const N: usize>(seed: u64, offset: u64, first: u64) -> [[u32; N]; 4] {
    const LOW: u64 = 0xFFFF_FFFF;
    let (mut c0, mut c1, mut c2, mut c3) = ([0u64; N], [0u64; N], [offset; N], [offset >> 32; N]);
    for i in 0..N {
        c0[i] = first.wrapping_add(i as u64);
        c1[i] = c0[i] >> 32;
    }
    let (mut k0, mut k1) = (seed as u32, (seed >> 32) as u32);
    for _ in 0..10 {
        for i in 0..N {
            let p0 = (c0[i] & LOW) * MUL[0] as u64;
            let p1 = (c2[i] & LOW) * MUL[1] as u64;
            c0[i] = (p1 >> 32) ^ c1[i] ^ k0 as u64;
            c1[i] = p1;
            c2[i] = (p0 >> 32) ^ c3[i] ^ k1 as u64;
            c3[i] = p0;
        }
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [c0.map(|v| v as u32), c1.map(|v| v as u32), c2.map(|v| v as u32), c3.map(|v| v as u32)]
}

/// The word of element `index` where four neighbours share a block, which is what dropout masks do: word `index % 4` of
/// block `index / 4`.
#[inline(always)]
pub fn packed(seed: u64, offset: u64, index: u64) -> u32 {
    block(seed, offset, index / 4)[(index % 4) as usize]
}

/// The packed words of 64 consecutive elements from `4 * first_block` on.
#[inline(always)]
pub fn packed_words(seed: u64, offset: u64, first_block: u64) -> [u32; 64] {
    let w = words::<16>(seed, offset, first_block);
    let mut out = [0u32; 64];
    for i in 0..16 {
        for k in 0..4 {
            out[4 * i + k] = w[k][i];
        }
    }
    out
}

/// [0, 1) in steps of 2^-24, from word 0.
#[inline(always)]
pub fn uniform_f32(w: u32) -> f32 {
    (w >> 8) as i32 as f32 * (1.0 / 16_777_216.0)
}

/// (0, 1] in steps of 2^-24: what a logarithm takes.
#[inline(always)]
pub fn uniform_f32_above_zero(w: u32) -> f32 {
    ((w >> 8) as i32 + 1) as f32 * (1.0 / 16_777_216.0)
}

/// [0, 1) in steps of 2^-53, from words 0 (low) and 1 (high).
#[inline(always)]
pub fn uniform_f64(low: u32, high: u32) -> f64 {
    ((((high as u64) << 32) | low as u64) >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// `uniform_f32(w) < p` is `w >> 8 < threshold(p)`: Bernoulli is true there, dropout drops there.
#[inline]
pub fn threshold(p: f64) -> u32 {
    ((p as f32 as f64) * 16_777_216.0).ceil().clamp(0.0, 16_777_216.0) as u32
}

/// Standard normal by Box-Muller: radius from word 0, angle from word 1. Plain arithmetic without fused operations: the
/// same bits on every instruction set.
#[inline(always)]
pub fn normal_f32(w0: u32, w1: u32) -> f32 {
    let radius = (-2.0 * ln_f32(uniform_f32_above_zero(w0))).sqrt();
    radius * cos_turns_f32(w1 >> 8)
}

/// Standard normal: radius from words 0 and 1, angle from words 2 and 3.
#[inline]
pub fn normal_f64(w: [u32; 4]) -> f64 {
    let u = 1.0 - uniform_f64(w[0], w[1]);
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * uniform_f64(w[2], w[3])).cos()
}

/// Natural logarithm on (0, 1], normal numbers only (Cephes' polynomial on [sqrt(1/2), sqrt(2)]).
#[inline(always)]
pub fn ln_f32(x: f32) -> f32 {
    // The exponent is taken so that the mantissa lies around one.
    let bits = x.to_bits() as i32;
    let e = (bits - 0x3f35_04f3) >> 23;
    let z = f32::from_bits((bits - (e << 23)) as u32) - 1.0;
    let z2 = z * z;
    let mut p = 7.037_683_6e-2f32;
    for c in [
        -1.151_461e-1f32,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        p = p * z + c;
    }
    let e = e as f32;
    let tail = z2 * z * p + e * -2.121_944_4e-4 - 0.5 * z2;
    z + tail + e * 0.693_359_4
}

/// cos(2 pi u / 2^24) of a 24-bit integer: the reduction to an eighth of a turn is exact.
#[inline(always)]
fn cos_turns_f32(u: u32) -> f32 {
    let quarter = (u.wrapping_add(1 << 21) >> 22) as i32;
    let x = (u as i32 - (quarter << 22)) as f32 * (std::f32::consts::TAU / 16_777_216.0);
    let x2 = x * x;
    let cos = 1.0 - 0.5 * x2 + x2 * x2 * (4.166_664_6e-2 + x2 * (-1.388_731_6e-3 + x2 * 2.443_315_7e-5));
    let sin = x + x * x2 * (-1.666_665_5e-1 + x2 * (8.332_161e-3 + x2 * -1.951_529_6e-4));
    let v = if quarter & 1 == 0 { cos } else { sin };
    // Quarters: cos, -sin, -cos, sin.
    let flip = ((quarter + 1) & 2) << 30;
    f32::from_bits(v.to_bits() ^ flip as u32)
}

/// Which part of the global tensor a local one is. Element indices are row-major in the global sizes.
pub struct Window {
    strides: Dims,
    first: u64,
    is_whole: bool,
}

impl Window {
    /// The part of the whole tensor that a tensor of these sizes fills; with an empty shard it is whole.
    pub fn new(shard: &Shard, sizes: &[i64]) -> Result<Window> {
        let n = shard.n_dims();
        if n == 0 {
            return Ok(Window { strides: contiguous_strides(sizes), first: 0, is_whole: true });
        }
        if n != sizes.len() {
            return Err(Error::runtime(format!("random window of {n} dimensions for a tensor of sizes {sizes:?}")));
        }
        let strides = contiguous_strides(shard.sizes());
        let first = (0..n).map(|d| shard.starts()[d] * strides[d]).sum::<i64>() as u64;
        Ok(Window { strides, first, is_whole: shard.sizes() == sizes })
    }

    /// Whether the local tensor is the whole one.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Element-index strides of the local tensor's dimensions.
    pub fn strides(&self) -> &[i64] {
        &self.strides
    }

    /// Element index of the local tensor's first element.
    pub fn first(&self) -> u64 {
        self.first
    }
}

/// The words of a shard, which end those of a random launch.
pub fn window_words(global: &[i64], starts: &[i64]) -> Params {
    params::words(&Shard::new(global, starts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The three vectors of Random123's kat_vectors, philox4x32 10.
        assert_eq!(block(0, 0, 0), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(block(u64::MAX, u64::MAX, u64::MAX), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        let (index, offset, seed) = (0x85a3_08d3_243f_6a88, 0x0370_7344_1319_8a2e, 0x299f_31d0_a409_3822);
        assert_eq!(block(seed, offset, index), [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
    }

    #[test]
    fn many_are_one_by_one() {
        let w = words::<16>(7, 9, u32::MAX as u64 - 3);
        for i in 0..16 {
            assert_eq!(w.map(|w| w[i]), block(7, 9, u32::MAX as u64 - 3 + i as u64));
        }
    }

    #[test]
    fn packed_words_are_one_by_one() {
        let w = packed_words(7, 9, u32::MAX as u64 - 3);
        for (i, w) in w.into_iter().enumerate() {
            assert_eq!(w, packed(7, 9, 4 * (u32::MAX as u64 - 3) + i as u64));
        }
    }

    #[test]
    fn logarithm_and_cosine_are_close() {
        for k in (1..=1u32 << 24).step_by(97).chain([1 << 24, (1 << 24) - 1]) {
            let u = k as f64 / 16_777_216.0;
            let e = (ln_f32(u as f32) as f64 - u.ln()).abs();
            assert!(e <= 1.5e-7 * u.ln().abs() + 1e-12, "ln({u}): {e}");
            let e = (cos_turns_f32(k & 0xff_ffff) as f64 - (std::f64::consts::TAU * u).cos()).abs();
            assert!(e < 2e-7, "cos({u}): {e}");
        }
    }

    #[test]
    fn window_of_a_shard() {
        let shard = Shard::new(&[6, 5], &[2, 3]);
        let p = Window::new(&shard, &[2, 2]).unwrap();
        assert_eq!((p.first(), p.strides()), (13, &[5i64, 1][..]));
        assert!(Window::new(&shard, &[2]).is_err());
    }
}
