//! Recurrent layers on the CPU: a whole sequence in one call, forward and backward.
//!
//! The weights are packed once for all steps; rows of the batch are independent and go to threads. The input's part of
//! the gates is one product outside, as are the gradients of the weights. Knows no tensor and no op.

mod backward;
mod forward;
mod layer;

use oneflow_base::DeviceType;
use oneflow_kernels_prim as prim;

/// Puts the CPU implementations into their primitives' slots.
pub fn register() {
    prim::RNN.provide(DeviceType::CPU, forward::rnn);
    prim::RNN_BACKWARD.provide(DeviceType::CPU, backward::rnn_backward);
}
