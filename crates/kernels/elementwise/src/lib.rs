//! oneflow-kernels-elementwise.
