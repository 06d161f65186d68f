//! Times of single launches. Bare times: ratios against PyTorch are what `benches` measures.
#![allow(clippy::print_stdout)]

use crate::{Buf, Lay, noise, views};
use oneflow_base::{DType, Device, DeviceType};
use oneflow_ep::Queue;
use oneflow_ep::cpu::{num_threads, set_num_threads};
use oneflow_kernels_prim::{Launch, Primitive, Word, isa};
use std::time::Instant;

/// Takes the number of threads from the command line, and says what is measured.
pub fn begin() {
    if let Some(n) = std::env::args().nth(1).and_then(|a| a.parse().ok()) {
        set_num_threads(n);
    }
    println!("{:?}, {} threads", isa(), num_threads());
}

/// Numbers in [0, 1).
pub fn uniform(dtype: DType, sizes: &[i64]) -> Buf {
    let noise = noise(1);
    Buf::of(dtype, sizes, Lay::Plain, |i| (noise(i) + 1.0) / 2.0)
}

/// Scattered integers below `bound`.
pub fn indices(sizes: &[i64], bound: i64) -> Buf {
    Buf::of(DType::I64, sizes, Lay::Plain, |i| ((i as i64 * 7919) % bound) as f64)
}

/// Prints the least time, and the rate over `bytes` moved and `n` elements.
pub fn bench(
    name: &str,
    p: &Primitive,
    outs: &[Option<&Buf>],
    ins: &[Option<&Buf>],
    params: &[Word],
    bytes: f64,
    n: f64,
) {
    let f = p.on(DeviceType::CPU).expect("registered");
    let (outs, ins) = (views(outs), views(ins));
    let queue = Queue { device: Device::CPU, raw: std::ptr::null_mut() };
    let launch = Launch { outs: &outs, ins: &ins, params, expr: None, queue };
    let (mut least, mut runs) = (f64::MAX, 0);
    let start = Instant::now();
    while runs < 5 || (start.elapsed().as_millis() < 400 && runs < 20_000) {
        let t = Instant::now();
        // SAFETY: the views are those of live buffers.
        unsafe { f(&launch) }.expect("runs");
        least = least.min(t.elapsed().as_nanos() as f64);
        runs += 1;
    }
    println!("{name:44} {:12.1} us  {:7.3} ns/element  {:6.1} GB/s", least / 1e3, least / n, bytes / least);
}
