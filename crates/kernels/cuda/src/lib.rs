//! CUDA kernels of every primitive: texts that are compiled for the device at run time, and cuBLASLt for matrix products.
//!
//! A family is a Rust file that plans and launches, and a template in `text/`. Values that are wrong (an index out of
//! range) are reported to the host's next synchronisation instead of being checked before the launch. Knows no tensor and
//! no op; elementwise meaning comes from `Expr`.

mod chain;
mod elementwise;
pub mod host_check;
mod index;
mod launch;
mod matmul;
mod nest;
mod nn;
mod optimizer;
mod random;
mod reduce;
mod sort;
mod sources;
mod text;

pub use oneflow_ep::cuda::Text;
pub use random::PHILOX;
pub use sources::{all_sources, expr_sources};

use oneflow_base::DeviceType;
use oneflow_kernels_prim as prim;

/// Puts the CUDA implementations into their primitives' slots. Nothing is loaded or compiled before the first launch.
pub fn register() {
    let table: [(&prim::Primitive, prim::KernelFn); 32] = [
        (&prim::ELEMENTWISE, elementwise::elementwise),
        (&prim::ELEMENTWISE_CHAIN, chain::elementwise_chain),
        (&prim::COPY, elementwise::copy),
        (&prim::FILL, elementwise::fill),
        (&prim::ARANGE, elementwise::arange),
        (&prim::REDUCE, reduce::reduce),
        (&prim::ARG_REDUCE, reduce::arg_reduce),
        (&prim::SCAN, reduce::scan),
        (&prim::MATMUL, matmul::matmul),
        (&prim::SOFTMAX, nn::softmax),
        (&prim::SOFTMAX_BACKWARD, nn::softmax_backward),
        (&prim::LAYER_NORM, nn::layer_norm),
        (&prim::LAYER_NORM_BACKWARD, nn::layer_norm_backward),
        (&prim::CROSS_ENTROPY, nn::cross_entropy),
        (&prim::CROSS_ENTROPY_BACKWARD, nn::cross_entropy_backward),
        (&prim::EMBEDDING, nn::embedding),
        (&prim::EMBEDDING_BACKWARD, nn::embedding_backward),
        (&prim::RANDOM, random::random),
        (&prim::DROPOUT, random::dropout),
        (&prim::INDEX_SELECT, index::index_select),
        (&prim::GATHER, index::gather),
        (&prim::SCATTER, index::scatter),
        (&prim::INDEX, index::index),
        (&prim::INDEX_PUT, index::index_put),
        (&prim::CONCAT, index::concat),
        (&prim::SORT, sort::sort),
        (&prim::TOPK, sort::topk),
        (&prim::COUNT_NONZERO, reduce::count_nonzero),
        (&prim::NONZERO, sort::nonzero),
        (&prim::TRIANGLE, elementwise::triangle),
        (&prim::UPDATE, optimizer::update),
        (&prim::UNSCALE, optimizer::unscale),
    ];
    for (primitive, f) in table {
        primitive.provide(DeviceType::CUDA, f);
    }
}
