//! Convolutions with windows of 3 x 3 and stride one by Winograd's algorithm: tiles of 4 x 4 outputs from 6 x 6 inputs,
//! with 36 products a pair of channels where the sum takes 144.
//!
//! The points are 0, ±3/4, ±3/2 and infinity: with the usual 0, ±1, ±2 the rounding error is twice as large. So it is about
//! twice that of the plain sum, which the sum over fewer terms in a row makes up for in part. An infinity or a NaN in a tile
//! reaches all outputs of the tile, not of its window alone. f64 never comes here.

mod correlate;
mod points;
mod weight_grad;

pub use correlate::Winograd;
pub use weight_grad::WinogradGrad;

use std::ops::Range;

/// Positions of a tile along a dimension, those it is computed from, and points in the plane.
const OUT: usize = 4;
const IN: usize = 6;
const POINTS: usize = IN * IN;

/// Part `i` of `0..n` cut into all but equal parts of at most `most`.
pub fn part(n: usize, most: usize, i: usize) -> Range<usize> {
    let parts = n.div_ceil(most);
    i * n / parts..(i + 1) * n / parts
}
