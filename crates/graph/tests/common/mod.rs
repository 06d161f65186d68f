//! Helpers of the graph's tests: tensors from numbers, values back, bits compared.
#![allow(dead_code)]

use oneflow_base::{DType, Device};
use oneflow_core::{Tensor, copy_to_host};

pub fn setup() {
    oneflow_kernels::register_all();
    oneflow_ops::register();
    oneflow_autograd::register();
    oneflow_graph::register();
}

/// Numbers in [-1, 1) that depend on the seed alone.
pub fn numbers(n: usize, seed: u64) -> Vec<f32> {
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (s >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

pub fn tensor(sizes: &[i64], seed: u64) -> Tensor {
    setup();
    let n = sizes.iter().product::<i64>() as usize;
    // SAFETY: f32 is the Rust type of F32.
    unsafe { Tensor::from_host(&numbers(n, seed), DType::F32, sizes) }.unwrap()
}

pub fn leaf(sizes: &[i64], seed: u64) -> Tensor {
    let t = tensor(sizes, seed);
    oneflow_autograd::set_requires_grad(&t, true).unwrap();
    t
}

pub fn zeros(sizes: &[i64]) -> Tensor {
    setup();
    let t = Tensor::empty(DType::F32, Device::CPU, sizes).unwrap();
    // SAFETY: the memory is the tensor's own.
    unsafe { std::ptr::write_bytes(t.data_ptr(), 0, t.numel() as usize * 4) };
    t
}

pub fn scalar(v: f64) -> Tensor {
    setup();
    // SAFETY: f64 is the Rust type of F64.
    unsafe { Tensor::from_host(&[v], DType::F64, &[]) }.unwrap()
}

/// The bytes of the elements, row-major.
pub fn bytes(t: &Tensor) -> Vec<u8> {
    let h = copy_to_host(t).unwrap();
    // SAFETY: the copy is contiguous.
    unsafe { std::slice::from_raw_parts(h.data_ptr(), h.numel() as usize * h.dtype().size()) }.to_vec()
}

pub fn floats(t: &Tensor) -> Vec<f32> {
    bytes(t).chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
