//! The activations an epilogue can apply. Branch-free in f32, so that the loops over them vectorise.

use crate::elem::Acc;

/// e^x to about one unit in the last place, saturating outside the range of f32.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // NaN passes through both comparisons unchanged.
    let x = if x > 88.7 { 88.7 } else { x };
    let x = if x < -87.3 { -87.3 } else { x };
    const ROUND: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5] {
        p = p * r + c;
    }
    let value = p * r * r + r + 1.0;
    // The low bits of `shifted` hold n; 2^n is built from them. n = 128 would overflow the exponent, hence two factors.
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    let pow2 = |e: i32| f32::from_bits((e.wrapping_add(127) as u32) << 23);
    value * pow2(half) * pow2(n.wrapping_sub(half))
}

/// erf(x) to about one unit in the last place.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let t = x.abs();
    let s = x * x;
    let mut far = -1.728_534_7e-5 * t + 3.831_972e-4;
    let u = -3.883_964_4e-3 * t + 2.425_462_2e-2;
    far = far * s + u;
    far = far * t + -0.106_777_88;
    far = far * t + -0.634_846_7;
    far = far * t + -0.128_717_51;
    far = far * t - t;
    let far = (1.0 - exp(far)).copysign(x);
    let mut near = -5.967_617e-4;
    for c in [4.991_194e-3, -2.676_813_5e-2, 0.112_819_93, -0.376_125_34, 0.128_379_17] {
        near = near * s + c;
    }
    let near = near * x + x;
    if t > 0.927_734_4 { far } else { near }
}

impl Acc for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    #[inline(always)]
    fn of(v: f64) -> f32 {
        v as f32
    }
    #[inline(always)]
    fn relu(self) -> f32 {
        // Written so that NaN stays NaN.
        if self < 0.0 { 0.0 } else { self }
    }
    #[inline(always)]
    fn gelu_erf(self) -> f32 {
        0.5 * self * (1.0 + erf(self * std::f32::consts::FRAC_1_SQRT_2))
    }
    #[inline(always)]
    fn gelu_tanh(self) -> f32 {
        // 0.5 * (1 + tanh(u)) = sigmoid(2 u)
        let u = 1.595_769_1 * (self + 0.044_715 * self * self * self);
        self / (1.0 + exp(-u))
    }
    #[inline(always)]
    fn silu(self) -> f32 {
        self / (1.0 + exp(-self))
    }
}

#[allow(non_snake_case)]
mod libm {
    unsafe extern "C" {
        /// The C library's erf; std has none.
        pub fn erf(x: f64) -> f64;
    }
}

impl Acc for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    #[inline(always)]
    fn of(v: f64) -> f64 {
        v
    }
    #[inline(always)]
    fn relu(self) -> f64 {
        if self < 0.0 { 0.0 } else { self }
    }
    #[inline(always)]
    fn gelu_erf(self) -> f64 {
        // SAFETY: a pure function of the C library, which std links already.
        0.5 * self * (1.0 + unsafe { libm::erf(self * std::f64::consts::FRAC_1_SQRT_2) })
    }
    #[inline(always)]
    fn gelu_tanh(self) -> f64 {
        let u = 0.797_884_560_802_865_4 * (self + 0.044_715 * self * self * self);
        0.5 * self * (1.0 + u.tanh())
    }
    #[inline(always)]
    fn silu(self) -> f64 {
        self / (1.0 + (-self).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_match_f64() {
        for i in -4000..4000 {
            let x = i as f32 * 0.0123;
            let close = |got: f32, want: f64| {
                assert!((got as f64 - want).abs() <= 3e-7 * want.abs().max(1.0), "{x}: {got} {want}")
            };
            close(x.silu(), (x as f64).silu());
            close(x.gelu_erf(), (x as f64).gelu_erf());
            close(x.gelu_tanh(), (x as f64).gelu_tanh());
        }
        assert!(f32::NAN.relu().is_nan() && f32::NAN.gelu_erf().is_nan() && f32::NAN.silu().is_nan());
        assert_eq!(f32::INFINITY.silu(), f32::INFINITY);
    }
}
