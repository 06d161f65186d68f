//! Many tensors in one launch: each is cut into chunks, a block a chunk, by a table in the launch's parameters (`text/chunks.cu`).

use crate::launch::{Argument, ceil_div};
use oneflow_base::{Error, Result};
use oneflow_ep::cuda::Grid;
use oneflow_kernels_prim::View;

/// Tensors a launch takes: its tables stay below the four kilobytes of parameters.
pub const MAX_TENSORS: usize = 64;
/// Elements of a block. What a block prepares costs little beside them, and a step of a large model has blocks for every device.
pub const CHUNK: i64 = 8192;
/// The text that finds a block's tensor.
pub const CHUNKS: &str = include_str!("text/chunks.cu");

/// Every tensor's first block, and behind the last tensor the number of blocks.
#[repr(C)]
pub struct Chunks {
    pub first: [u32; MAX_TENSORS + 1],
    pub n_tensors: i32,
}

impl Chunks {
    pub fn new(sizes: impl Iterator<Item = i64>) -> Result<Chunks> {
        let mut chunks = Chunks { first: [0; MAX_TENSORS + 1], n_tensors: 0 };
        for n in sizes {
            let k = chunks.n_tensors as usize;
            // A grid has at most 2^31 - 1 blocks.
            let next = chunks.first[k] as i64 + ceil_div(n, CHUNK);
            if next > i32::MAX as i64 {
                return Err(Error::not_implemented("CUDA kernels take at most 2^44 elements of tensors at once"));
            }
            chunks.first[k + 1] = next as u32;
            chunks.n_tensors += 1;
        }
        Ok(chunks)
    }

    pub fn grid(&self) -> Grid {
        Grid::linear(self.first[self.n_tensors as usize], 256)
    }
}

/// Runs of memory, as templates of one operand read them.
#[repr(C)]
pub struct Runs {
    p: [*mut u8; MAX_TENSORS],
    n: [i64; MAX_TENSORS],
    pub chunks: Chunks,
}
impl Argument for Runs {}

impl Runs {
    /// Of dense views, at most as many as a launch takes.
    pub fn of(views: &[View<'_>]) -> Result<Runs> {
        let chunks = Chunks::new(views.iter().map(|v| v.numel() as i64))?;
        let mut table = Runs { p: [std::ptr::null_mut(); MAX_TENSORS], n: [0; MAX_TENSORS], chunks };
        for (i, v) in views.iter().enumerate() {
            (table.p[i], table.n[i]) = (v.ptr, v.numel() as i64);
        }
        Ok(table)
    }
}

/// Whether a view fills one run of memory without gaps or overlaps.
pub fn is_dense(v: &View<'_>) -> bool {
    let mut dims: Vec<(i64, i64)> =
        v.strides.iter().copied().zip(v.sizes.iter().copied()).filter(|d| d.1 != 1).collect();
    dims.sort_unstable();
    dims.iter().try_fold(1, |next, (stride, size)| (*stride == next).then_some(next * size)).is_some()
}
