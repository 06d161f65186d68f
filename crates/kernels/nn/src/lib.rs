//! CPU kernels of neural networks: softmax, normalisation, loss, embedding, dropout and the optimizers' updates.
//!
//! Each is written once over SIMD registers, for one row or one run of elements; half types compute in f32. Rows and runs
//! are split over threads so that no result depends on their number. Knows no tensor and no op.

mod batch_norm;
mod channel_rows;
mod cross_entropy;
mod ctc;
mod dropout;
mod embedding;
mod embedding_bag;
mod grid_sample;
mod group_norm;
mod layer_norm;
mod mem;
mod pair_distances;
mod resample;
mod row;
mod softmax;
mod update;

use oneflow_base::DeviceType;
use oneflow_kernels_prim as prim;

/// Puts the CPU implementations into their primitives' slots.
pub fn register() {
    let table: &[(&prim::Primitive, prim::KernelFn)] = &[
        (&prim::SOFTMAX, softmax::forward),
        (&prim::SOFTMAX_BACKWARD, softmax::backward),
        (&prim::LAYER_NORM, layer_norm::forward),
        (&prim::LAYER_NORM_BACKWARD, layer_norm::backward),
        (&prim::BATCH_NORM, batch_norm::forward),
        (&prim::BATCH_NORM_BACKWARD, batch_norm::backward),
        (&prim::CROSS_ENTROPY, cross_entropy::forward),
        (&prim::CROSS_ENTROPY_BACKWARD, cross_entropy::backward),
        (&prim::CROSS_ENTROPY_REDUCED, cross_entropy::forward_reduced),
        (&prim::CTC_LOSS, ctc::forward),
        (&prim::CTC_LOSS_BACKWARD, ctc::backward),
        (&prim::GROUP_NORM, group_norm::forward),
        (&prim::GROUP_NORM_BACKWARD, group_norm::backward),
        (&prim::PAIR_DISTANCES, pair_distances::pair_distances),
        (&prim::GRID_SAMPLE, grid_sample::forward),
        (&prim::GRID_SAMPLE_BACKWARD, grid_sample::backward),
        (&prim::RESAMPLE, resample::resample),
        (&prim::EMBEDDING, embedding::forward),
        (&prim::EMBEDDING_BACKWARD, embedding::backward),
        (&prim::EMBEDDING_BAG, embedding_bag::forward),
        (&prim::DROPOUT, dropout::dropout),
        (&prim::UPDATE, update::update),
        (&prim::UNSCALE, update::unscale),
    ];
    for (primitive, f) in table {
        primitive.provide_with_extras(DeviceType::CPU, *f);
    }
}
