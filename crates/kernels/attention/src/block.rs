//! Sizes of the blocks that are worked on together.

use oneflow_kernels_gemm::micro::Kernels;

/// Rows that are worked on together, a few tiles high, and keys: scores of that size stay in the second cache.
pub fn row_block<P, A>(kernels: &Kernels<P, A>) -> usize {
    64 / kernels.mr * kernels.mr
}
pub const KEY_BLOCK: usize = 256;
/// Distance between rows of scores: not a power of two, so that columns do not share a cache set.
pub const SCORE_STRIDE: usize = KEY_BLOCK + 16;
