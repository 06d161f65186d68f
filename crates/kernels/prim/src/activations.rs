//! The activations that stand both in ops and in the epilogues of products and convolutions, written once so that their bits
//! agree.

use crate::lanes::Lanes;
use crate::primitives::Activation;

/// The activation of an epilogue.
#[inline(always)]
pub fn activate<L: Lanes>(activation: Activation, x: L) -> L {
    match activation {
        Activation::None => x,
        Activation::Relu => x.maximum(L::splat(0.0)),
        Activation::Gelu => gelu(x),
        Activation::GeluTanh => gelu_tanh(x),
        Activation::Silu => silu(x),
        Activation::Hardswish => hardswish(x),
        Activation::Relu6 => x.maximum(L::splat(0.0)).minimum(L::splat(6.0)),
    }
}

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

/// `x * clamp(x + 3, 0, 6) / 6`, without a division, which takes longer than all the rest.
#[inline(always)]
pub fn hardswish<L: Lanes>(x: L) -> L {
    x * (x + L::splat(3.0)).maximum(L::splat(0.0)).minimum(L::splat(6.0)) * L::splat(1.0 / 6.0)
}

/// The square root of 2 / pi.
pub const SQRT_2_PI: f64 = 0.797_884_560_802_865_4;
/// The factor of the cube in gelu's form with a hyperbolic tangent.
pub const GELU_CUBE: f64 = 0.044715;
