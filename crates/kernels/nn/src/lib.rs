//! oneflow-kernels-nn.
