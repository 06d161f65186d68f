//! The front of the kernels: one call puts every built-in implementation into its primitive's slot.
//!
//! Has no kernel of its own. Providers outside this repository fill slots of `oneflow_kernels_prim` the same way.

/// Which attention cuDNN takes on a GPU, and whether it has to give the same results in every run.
pub use oneflow_kernels_cuda::attention_cudnn::{
    Question as AttentionQuestion, refusal as attention_refusal, set_deterministic as set_attention_deterministic,
};
/// Whether convolutions on a GPU may go to cuDNN, and round float32 to TF32 there.
pub use oneflow_kernels_cuda::conv_cudnn::set as set_cudnn;
/// Who says that a primitive has no kernel on a GPU and runs on the host.
pub use oneflow_kernels_cuda::host::set_notice;
/// What a recurrent network on a GPU keeps for its backward, where cuDNN runs it.
pub use oneflow_kernels_cuda::rnn_cudnn::reserve as rnn_reserve;
pub use oneflow_kernels_prim as prim;
use std::sync::Once;

/// Registers the CPU kernels and, where a device is there, the CUDA kernels. Further calls do nothing.
pub fn register_all() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        oneflow_kernels_elementwise::register();
        oneflow_kernels_gemm::register();
        oneflow_kernels_attention::register();
        oneflow_kernels_rnn::register();
        oneflow_kernels_index::register();
        oneflow_kernels_linalg::register();
        oneflow_kernels_conv::register();
        oneflow_kernels_nn::register();
        oneflow_kernels_cuda::register();
    });
}
