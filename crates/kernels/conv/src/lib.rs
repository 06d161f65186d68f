//! CPU kernels of convolution and pooling over one to three spatial dimensions, for any strides.
//!
//! A convolution is a matrix product that gathers its rows from the image block by block, through the micro-kernels of the
//! matrix product; the unfolded image never exists. Half types compute in f32. Work is split over threads so that no result
//! depends on their number. Knows no tensor and no op.

mod conv;
mod correlate;
mod geometry;
mod region;
mod stored;
mod weight_grad;
mod weights;

use oneflow_base::DeviceType;
use oneflow_kernels_prim as prim;

/// Puts the CPU implementations into their primitives' slots.
pub fn register() {
    let table: [(&prim::Primitive, prim::KernelFn); 3] = [
        (&prim::CONV, conv::forward),
        (&prim::CONV_BACKWARD_INPUT, conv::backward_input),
        (&prim::CONV_BACKWARD_WEIGHT, conv::backward_weight),
    ];
    for (primitive, f) in table {
        primitive.provide(DeviceType::CPU, f);
    }
}
