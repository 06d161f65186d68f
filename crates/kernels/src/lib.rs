//! oneflow-kernels.
