//! The arithmetic an elementwise formula is written in, generic over what computes it.

/// A register of numbers, one number, or a symbol.
pub trait Lanes: Clone {
    fn splat(v: f64) -> Self;
}
