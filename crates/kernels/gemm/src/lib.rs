//! Matrix multiplication on the CPU: one packed five-loop driver for every float type, with strided and batched
//! operands, an epilogue (bias, activation, residual) and run-time choice of instructions.
//!
//! Knows no tensor, allocates no result and never splits the sum over `k` between threads: the value of an element
//! depends on the problem and the instruction set alone, not on how many threads computed it.

mod args;
mod block;
mod byte_row;
mod bytes;
mod driver;
mod epilogue;
mod few_rows;
mod gemv;
mod integer;
mod kernel;
mod mul_add;
mod pack;
mod packed_b;
mod parallel;
mod primitive;
mod product;
mod rounded;
mod runs;
mod scratch;
mod sides;
mod tasks;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod transpose;

pub use args::{BatchDim, Epilogue, GemmArgs, Mat};
pub use driver::{gemm, gemm_with_isa};
pub use oneflow_kernels_prim::{Activation, Isa};
pub use packed_b::{FILLED, PANEL, PackedB, gemm_grouped, gemm_packed};
pub use parallel::{Parallel, Pool, Serial};
pub use primitive::register;

/// The micro-kernels, the float types they run on and the packing of strips, for kernels that pack their own panels
/// (convolution, attention).
pub mod micro {
    pub use crate::block::{Block, GemmFloat, Kit, Matrix, Packed, StoreRows, store_row, with_buffers};
    pub use crate::kernel::{Ahead, Gather, KernelFn, Kernels, Onto, Tile, bf16_kernels, f32_kernels, f64_kernels};
    pub use crate::pack::{Bf16Pairs, Bf16Widened, F16Widened, F32, F64, Mode, Panel, Strip};
    pub use crate::scratch::{Slot, with as with_scratch};
    #[cfg(target_arch = "x86_64")]
    pub use crate::tiles::{
        Bf16 as TileBf16, Block as TileBlock, LINE, Part as TilePart, SIDE, TILE, Tiles,
        panel_bytes as tile_panel_bytes,
    };
}

/// Building blocks that the peak-measuring example times, and tests try; not for other crates.
#[doc(hidden)]
pub mod measure {
    pub use crate::mul_add::fma_peak;
    pub use crate::rounded::RoundedPairs;
    #[cfg(target_arch = "x86_64")]
    pub use crate::tiles::tile_peak;
}
