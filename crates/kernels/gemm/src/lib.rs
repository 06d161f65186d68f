//! oneflow-kernels-gemm.
