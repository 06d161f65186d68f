//! Fused attention on the CPU: scores, softmax and the weighted sum over tiles that stay in cache, and its backward.
//!
//! Built on the GEMM's micro-kernels; bfloat16 goes forward on AMX tiles where the machine has them. Every sum has one
//! order that follows from the problem and the instruction set, so that no result depends on the number of threads. Knows no
//! tensor and no op; never holds the weights of a whole head.

mod backward;
mod block;
mod forward;
mod problem;
mod softmax;
#[cfg(target_arch = "x86_64")]
mod tiles;

use oneflow_base::DeviceType;
use oneflow_kernels_prim as prim;

/// Puts the CPU implementations into their primitives' slots.
pub fn register() {
    prim::ATTENTION.provide(DeviceType::CPU, forward::attention);
    prim::ATTENTION_BACKWARD.provide(DeviceType::CPU, backward::attention_backward);
}
