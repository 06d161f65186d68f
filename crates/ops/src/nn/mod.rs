//! Ops of neural networks with kernels of their own.

pub mod softmax;
