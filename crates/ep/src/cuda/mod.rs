//! The CUDA provider.
