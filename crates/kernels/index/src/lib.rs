//! oneflow-kernels-index.
