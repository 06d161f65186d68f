//! oneflow-kernels-cuda.
