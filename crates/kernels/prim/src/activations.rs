//! The activations that stand both in ops and in the epilogues of products, written once so that their bits agree.

use crate::lanes::Lanes;

/// `x * Phi(x)`, Phi the normal distribution's cumulative function.
#[inline(always)]
pub fn gelu<L: Lanes>(x: L) -> L {
    x * x.normal_cdf()
}

/// The form with a hyperbolic tangent: `x (1 + tanh(t)) / 2` is `x sigmoid(2 t)`.
#[inline(always)]
pub fn gelu_tanh<L: Lanes>(x: L) -> L {
    let cubic = (x * x * x).fma(L::splat(GELU_CUBE), x);
    x * (L::splat(2.0 * SQRT_2_PI) * cubic).sigmoid()
}

#[inline(always)]
pub fn silu<L: Lanes>(x: L) -> L {
    x * x.sigmoid()
}

/// The square root of 2 / pi.
pub const SQRT_2_PI: f64 = 0.797_884_560_802_865_4;
/// The factor of the cube in gelu's form with a hyperbolic tangent.
pub const GELU_CUBE: f64 = 0.044715;
