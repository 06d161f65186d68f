//! CUDA kernels of every primitive: texts that are compiled for the device at run time, and cuBLASLt for matrix products.
//!
//! A family is a Rust file that plans and launches, and a template in `text/`. Values that are wrong (an index out of
//! range) are reported to the host's next synchronisation instead of being checked before the launch. Knows no tensor and
//! no op; elementwise meaning comes from `Expr`.

mod attention;
pub mod attention_cudnn;
mod attention_mma;
mod attention_problem;
mod chain;
mod channel_norm;
mod chunks;
mod concat;
mod conv;
pub mod conv_cudnn;
mod conv_geometry;
mod conv_mma;
mod ctc;
mod elementwise;
mod fft;
pub mod host;
pub mod host_check;
mod index;
mod launch;
mod matmul;
mod nest;
mod nn;
mod norms;
mod optimizer;
mod pad;
mod per_queue;
mod pool;
mod random;
mod reduce;
mod resample;
mod rnn;
pub mod rnn_cudnn;
mod row;
mod rows;
mod solver;
mod sort;
mod sources;
mod text;

pub use oneflow_ep::cuda::Text;
pub use random::PHILOX;
pub use sources::{all_sources, expr_sources};

use oneflow_base::{DeviceType, ErrorKind};
use oneflow_kernels_prim as prim;

/// A slot's function: the kernel, or the host for complex numbers that it does not take; a vendor's library, or the host for all that
/// it does not take and where it is missing; without either, the host.
macro_rules! slot {
    ($primitive:ident) => {
        // SAFETY: by the contract of the slot.
        (&prim::$primitive, |l| unsafe { host::run(&prim::$primitive, l) })
    };
    ($primitive:ident, $kernel:path) => {
        // SAFETY: by the contract of the slot.
        (&prim::$primitive, |l| match unsafe { $kernel(l) } {
            // SAFETY: as above; what a kernel does not take it says before it launches anything.
            Err(e) if e.kind() == ErrorKind::NotImplemented && host::is_complex(l) => unsafe {
                host::run(&prim::$primitive, l)
            },
            done => done,
        })
    };
    ($primitive:ident, $kernel:path, or host) => {
        // SAFETY: by the contract of the slot.
        (&prim::$primitive, |l| match unsafe { $kernel(l) } {
            // SAFETY: as above.
            Err(e) if e.kind() == ErrorKind::NotImplemented => unsafe {
                host::run_because(&prim::$primitive, l, e.text())
            },
            done => done,
        })
    };
}

/// Puts the CUDA implementations into their primitives' slots. Nothing is loaded or compiled before the first launch.
pub fn register() {
    let table: &[(&prim::Primitive, prim::KernelFn)] = &[
        slot!(ELEMENTWISE, elementwise::elementwise),
        slot!(ELEMENTWISE_CHAIN, chain::elementwise_chain),
        slot!(COPY, elementwise::copy),
        slot!(FILL, elementwise::fill),
        slot!(ARANGE, elementwise::arange),
        slot!(REDUCE, reduce::reduce),
        slot!(ARG_REDUCE, reduce::arg_reduce),
        slot!(SCAN, reduce::scan),
        slot!(MATMUL, matmul::matmul),
        slot!(MATMUL_ROW_SUMS, matmul::matmul_row_sums),
        slot!(MATMUL_ACCUMULATE, matmul::matmul_accumulate),
        slot!(SOFTMAX, nn::softmax),
        slot!(SOFTMAX_BACKWARD, nn::softmax_backward),
        slot!(LAYER_NORM, nn::layer_norm),
        slot!(CROSS_ENTROPY, nn::cross_entropy),
        slot!(CROSS_ENTROPY_BACKWARD, nn::cross_entropy_backward),
        slot!(EMBEDDING, nn::embedding),
        slot!(EMBEDDING_BACKWARD, nn::embedding_backward),
        slot!(RANDOM, random::random),
        slot!(DROPOUT, random::dropout),
        slot!(INDEX_SELECT, index::index_select),
        slot!(GATHER, index::gather),
        slot!(SCATTER, index::scatter),
        slot!(INDEX, index::index),
        slot!(INDEX_PUT, index::index_put),
        slot!(CONCAT, concat::concat),
        slot!(SORT, sort::sort),
        slot!(TOPK, sort::topk),
        slot!(COUNT_NONZERO, reduce::count_nonzero),
        slot!(NONZERO, sort::nonzero),
        slot!(TRIANGLE, elementwise::triangle),
        slot!(UPDATE, optimizer::update),
        slot!(UNSCALE, optimizer::unscale),
        slot!(NORMS, norms::norms),
        slot!(CONV, conv::conv),
        slot!(CONV_BACKWARD_INPUT, conv::conv_backward_input),
        slot!(CONV_BACKWARD_WEIGHT, conv::conv_backward_weight),
        slot!(MAX_POOL, pool::max_pool),
        slot!(MAX_POOL_BACKWARD, pool::max_pool_backward),
        slot!(AVG_POOL, pool::avg_pool),
        slot!(AVG_POOL_BACKWARD, pool::avg_pool_backward),
        slot!(BATCH_NORM, channel_norm::batch_norm),
        slot!(BATCH_NORM_BACKWARD, channel_norm::batch_norm_backward),
        slot!(GROUP_NORM, channel_norm::group_norm),
        slot!(GROUP_NORM_BACKWARD, channel_norm::group_norm_backward),
        slot!(ATTENTION, attention::attention),
        slot!(ATTENTION_BACKWARD, attention::attention_backward),
        slot!(RESAMPLE, resample::resample),
        slot!(PAD, pad::pad),
        slot!(PAD_BACKWARD, pad::pad_backward, or host),
        slot!(EMBEDDING_BAG, rows::embedding_bag),
        slot!(SEARCHSORTED, rows::searchsorted),
        slot!(LOGCUMSUMEXP, reduce::logcumsumexp),
        slot!(RANDOM_BY, rows::random_by),
        slot!(SQUARE_DEVIATIONS, rows::square_deviations),
        slot!(CROSS_ENTROPY_REDUCED, nn::cross_entropy_reduced),
        slot!(RNN, rnn::rnn),
        slot!(RNN_BACKWARD, rnn::rnn_backward),
        slot!(CTC_LOSS, ctc::ctc_loss, or host),
        slot!(CTC_LOSS_BACKWARD, ctc::ctc_loss_backward, or host),
        // By vendors' libraries.
        slot!(RNN_STACK, rnn_cudnn::rnn_stack),
        slot!(RNN_STACK_BACKWARD, rnn_cudnn::rnn_stack_backward),
        slot!(FFT, fft::fft, or host),
        slot!(CHOLESKY, solver::cholesky, or host),
        slot!(LU_FACTOR, solver::lu_factor, or host),
        slot!(LU_PERMUTATION, solver::lu_permutation),
        slot!(TRIANGULAR_SOLVE, solver::triangular_solve, or host),
        slot!(GEQRF, solver::geqrf, or host),
        slot!(HOUSEHOLDER_PRODUCT, solver::householder_product, or host),
        slot!(EIGH, solver::eigh, or host),
        slot!(SVD, solver::svd, or host),
        // By the host: rare, and made of few long steps that depend on each other.
        slot!(EIG),
        slot!(MATRIX_EXP),
    ];
    for (primitive, f) in table {
        primitive.provide(DeviceType::CUDA, *f);
    }
    let mixed: &[(&prim::Primitive, prim::KernelFn)] = &[slot!(LAYER_NORM_BACKWARD, nn::layer_norm_backward)];
    for (primitive, f) in mixed {
        primitive.provide_mixed(DeviceType::CUDA, *f);
    }
    prim::provide_question(DeviceType::CUDA, launch::ask);
}
