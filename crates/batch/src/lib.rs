//! Batched tensors: `vmap` as a layer. A tensor of one sample represents the tensors of all samples of a batch.
//!
//! Below autograd, so that gradients are taken of samples, and above tracing and global tensors, so that it works on both.
//! Most rules follow from an op's entry in the table (elementwise, a view, a reduction, independent along other axes); the
//! rest runs sample by sample. No kernel, and no gradient of any op.

mod layer;
mod levels;
mod products;
mod tensor;

pub use levels::{Randomness, enter, leave};
pub use tensor::{batch_in, batch_out, is_in, shown};

/// Installs the layer, and tells autograd how gradients leave a batch.
pub fn register() {
    oneflow_core::register_layer(oneflow_core::bit::BATCH, layer::batch);
    oneflow_autograd::set_edge_rule(tensor::lifted);
}
