//! CPU kernels of convolution and pooling over one to three spatial dimensions, for any strides.
//!
//! A convolution is a matrix product that gathers its rows from the image block by block, through the micro-kernels of the
//! matrix product; the unfolded image never exists. Square windows with many channels go by Winograd's algorithm, single taps
//! are the matrix product itself, groups of few channels are summed directly, and the gradient for an image of few channels
//! is spread from products. Half types compute in f32. Work is split over threads so that no result depends on their number.
//! Knows no tensor and no op.

mod algorithm;
mod avg_pool;
mod avg_pool_backward;
mod bf16_pairs;
mod col2im;
mod columns;
mod conv;
mod depthwise;
mod direct_weight_grad;
mod element;
mod geometry;
mod implicit_gemm;
mod max_pool;
mod merged_groups;
mod output;
mod packed_weights;
mod pool;
mod pool_backward;
mod prepared;
mod region;
mod sliding_window;
mod tiles;
mod weight_grad;
mod winograd;

/// What tests try by itself; not for other crates.
#[doc(hidden)]
pub mod parts {
    pub use crate::geometry::{Block, Blocks, Image};
    pub use crate::pool::{Axis, Span};
    pub use crate::winograd::{Data, Outputs, Taps, Transform};
}

use oneflow_base::DeviceType;
use oneflow_kernels_prim as prim;

/// Puts the CPU implementations into their primitives' slots.
pub fn register() {
    let table: [(&prim::Primitive, prim::KernelFn); 10] = [
        (&prim::CONV, conv::forward),
        (&prim::CONV_ACTIVATION, conv::forward_activation),
        (&prim::CONV_PREPARE, prepared::prepare),
        (&prim::CONV_PREPARED, prepared::forward),
        (&prim::CONV_BACKWARD_INPUT, conv::backward_input),
        (&prim::CONV_BACKWARD_WEIGHT, conv::backward_weight),
        (&prim::MAX_POOL, max_pool::forward),
        (&prim::MAX_POOL_BACKWARD, max_pool::backward),
        (&prim::AVG_POOL, avg_pool::forward),
        (&prim::AVG_POOL_BACKWARD, avg_pool::backward),
    ];
    for (primitive, f) in table {
        primitive.provide(DeviceType::CPU, f);
    }
}
