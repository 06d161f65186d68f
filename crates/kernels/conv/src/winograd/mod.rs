//! Convolutions with square windows of 2 x 2 to 5 x 5 and stride one by Winograd's algorithm: tiles of 6 x 6 inputs, from which
//! windows of 3 x 3 make 4 x 4 outputs with 36 products a pair of channels where the sum takes 144, and those of 5 x 5 make
//! 2 x 2 outputs where it takes 100.
//!
//! The points are 0, ±3/4, ±3/2 and infinity: with the usual 0, ±1, ±2 the rounding error is twice as large. So it is about
//! twice that of the plain sum (three times with two taps, a third more with five), which the sum over fewer terms in a row
//! makes up for in part. An infinity or a NaN in a tile reaches all outputs of the tile, not of its window alone. f64 never
//! comes here.

mod correlate;
mod points;
mod weight_grad;

pub use correlate::{Winograd, panel_at_points};
pub use points::{Data, Outputs, Taps, Transform};
pub use weight_grad::WinogradGrad;

use crate::implicit_gemm::pairs;
use crate::tiles;
use oneflow_kernels_gemm::micro::GemmFloat;
use std::ops::Range;

/// Positions that a tile is computed from along a dimension, and points in the plane.
const IN: usize = 6;
pub const POINTS: usize = IN * IN;

/// Outputs of a tile along a dimension, for windows of `taps`.
fn outputs(taps: usize) -> Option<usize> {
    (2..=5).contains(&taps).then(|| IN + 1 - taps)
}

/// The share of the sum's multiply-adds up to which Winograd's gain. The sum may go in pairs, where it is `in_pairs`; his
/// products cannot, since values at the points need more digits: beside tiles, which multiply pairs, they never gain.
fn worth<T: GemmFloat>(in_pairs: f64) -> f64 {
    match pairs::<T>() {
        Some(_) if tiles::used() => 0.0,
        Some(_) => in_pairs,
        None => 0.9,
    }
}

/// Part `i` of `0..n` cut into all but equal parts of at most `most`.
pub fn part(n: usize, most: usize, i: usize) -> Range<usize> {
    let parts = n.div_ceil(most);
    i * n / parts..(i + 1) * n / parts
}
