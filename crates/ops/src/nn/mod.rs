//! Ops of neural networks with kernels of their own.

pub mod cross_entropy;
pub mod embedding;
pub mod layer_norm;
pub mod loss;
pub mod softmax;
