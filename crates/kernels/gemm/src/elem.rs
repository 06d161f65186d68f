//! The element types: what is stored, and what it accumulates in.

use std::ops::{Add, Mul};

use oneflow_base::{bf16, f16};

/// The type sums are kept in: f32 or f64.
pub(crate) trait Acc:
    Copy + Add<Output = Self> + Mul<Output = Self> + PartialEq + Send + Sync + 'static
{
    const ZERO: Self;
    const ONE: Self;
    fn of(v: f64) -> Self;
    fn relu(self) -> Self;
    fn gelu_erf(self) -> Self;
    fn gelu_tanh(self) -> Self;
    fn silu(self) -> Self;
}

/// A stored float type. Conversions are branch-free so that loops over them vectorise.
pub(crate) trait Elem: Copy + Send + Sync + 'static {
    type Acc: Acc;
    fn widen(self) -> Self::Acc;
    fn narrow(v: Self::Acc) -> Self;
}

impl Elem for f32 {
    type Acc = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(v: f32) -> f32 {
        v
    }
}

impl Elem for f64 {
    type Acc = f64;
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(v: f64) -> f64 {
        v
    }
}

impl Elem for bf16 {
    type Acc = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }
    #[inline(always)]
    fn narrow(v: f32) -> bf16 {
        let bits = v.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        // A NaN must not round up to infinity.
        let nan = (bits >> 16) | 0x40;
        bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded } as u16)
    }
}

impl Elem for f16 {
    type Acc = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = self.to_bits() as u32;
        let sign = (bits & 0x8000) << 16;
        let magnitude = (bits & 0x7fff) << 13;
        // Moves the exponent by multiplication, which handles subnormals; infinity and NaN get the top exponent.
        let scaled = f32::from_bits(magnitude) * f32::from_bits((254 - 15) << 23);
        let top = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
        f32::from_bits(scaled.to_bits() | top | sign)
    }
    #[inline(always)]
    fn narrow(v: f32) -> f16 {
        let bits = v.to_bits();
        let sign = bits & 0x8000_0000;
        let magnitude = bits ^ sign;
        // Subnormal halves: adding this constant rounds to nearest even at their spacing.
        const MAGIC: u32 = ((127 - 15) + (23 - 10) + 1) << 23;
        let subnormal = (f32::from_bits(magnitude) + f32::from_bits(MAGIC)).to_bits().wrapping_sub(MAGIC);
        let odd = (magnitude >> 13) & 1;
        let normal =
            magnitude.wrapping_add((15u32.wrapping_sub(127) << 23).wrapping_add(0xfff)).wrapping_add(odd) >> 13;
        let special = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
        let finite = if magnitude < (113 << 23) { subnormal } else { normal };
        let half = if magnitude >= (127 + 16) << 23 { special } else { finite };
        f16::from_bits((half | (sign >> 16)) as u16)
    }
}
