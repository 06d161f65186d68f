//! Times of the index kernels: `cargo run --release -p oneflow-kernels-index --example bench_index [threads]`.
#![allow(clippy::print_stdout)]

use oneflow_base::{DType, Device, DeviceType, contiguous_strides};
use oneflow_ep::Queue;
use oneflow_kernels_prim::*;
use std::time::Instant;

/// Buffers begin at cache lines, as the allocator's do.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u64; 8]);

struct T {
    dtype: DType,
    sizes: Vec<i64>,
    strides: Vec<i64>,
    data: Vec<Line>,
}

impl T {
    fn new(dtype: DType, sizes: &[i64]) -> T {
        let n: i64 = sizes.iter().product();
        let bytes = n as usize * dtype.size();
        let mut t = T {
            dtype,
            sizes: sizes.to_vec(),
            strides: contiguous_strides(sizes).to_vec(),
            data: vec![Line([0; 8]); bytes / 64 + 1],
        };
        let mut z = 1u32;
        let next = || {
            z = z.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (z >> 8) as f32 / 16_777_216.0
        };
        if dtype == DType::F32 {
            // SAFETY: the buffer holds n numbers.
            let s = unsafe { std::slice::from_raw_parts_mut(t.data.as_mut_ptr().cast::<f32>(), n as usize) };
            s.iter_mut().zip(std::iter::repeat_with(next)).for_each(|(v, r)| *v = r);
        }
        t
    }
    fn ints(n: i64, bound: i64) -> T {
        let mut t = T::new(DType::I64, &[n]);
        // SAFETY: the buffer holds n integers.
        let s = unsafe { std::slice::from_raw_parts_mut(t.data.as_mut_ptr().cast::<i64>(), n as usize) };
        s.iter_mut().enumerate().for_each(|(i, v)| *v = (i as i64 * 7919) % bound);
        t
    }
    fn view(&self) -> Option<View<'_>> {
        let ptr = self.data.as_ptr() as *mut u8;
        Some(View { ptr, dtype: self.dtype, sizes: &self.sizes, strides: &self.strides })
    }
}

/// Prints the least time, and the rate over `bytes` moved and `n` elements.
fn bench(name: &str, p: &Primitive, outs: &[Option<View>], ins: &[Option<View>], params: &[Word], bytes: f64, n: f64) {
    let queue = Queue { device: Device::CPU, raw: std::ptr::null_mut() };
    let f = p.on(DeviceType::CPU).expect("registered");
    let launch = Launch { outs, ins, params, expr: None, queue };
    let mut times = vec![];
    let start = Instant::now();
    while times.len() < 5 || (start.elapsed().as_millis() < 400 && times.len() < 20_000) {
        let t = Instant::now();
        // SAFETY: the views are those of live buffers.
        unsafe { f(&launch) }.expect("runs");
        times.push(t.elapsed().as_nanos() as f64);
    }
    times.sort_by(f64::total_cmp);
    let t = times[0];
    println!("{name:44} {:12.1} us  {:7.3} ns/element  {:6.1} GB/s", t / 1e3, t / n, bytes / t);
}

fn main() {
    oneflow_kernels_index::register();
    if let Some(n) = std::env::args().nth(1).and_then(|a| a.parse().ok()) {
        oneflow_ep::cpu::set_num_threads(n);
    }
    println!("{:?}, {} threads", isa(), oneflow_ep::cpu::num_threads());
    let w = |v: f64| Word::from(v);
    let i = |v: i64| Word::from(v);
    let f32s = |sizes: &[i64]| T::new(DType::F32, sizes);

    for n in [16 << 20, 4096i64] {
        let x = f32s(&[n]);
        for (name, kind, b) in
            [("uniform", 0, w(1.0)), ("normal", 1, w(1.0)), ("bernoulli", 2, w(0.0)), ("exponential", 4, w(0.0))]
        {
            let p = [i(kind), i(1), i(2), w(if kind == 1 { 0.0 } else { 0.5 }), b];
            bench(&format!("random {name} {n}"), &RANDOM, &[x.view()], &[], &p, 4.0 * n as f64, n as f64);
        }
        let x = T::new(DType::I64, &[n]);
        let p = [i(3), i(1), i(2), i(0), i(1000)];
        bench(&format!("random integers {n}"), &RANDOM, &[x.view()], &[], &p, 8.0 * n as f64, n as f64);
    }
    for (rows, n) in [(1i64, 1i64 << 20), (64, 50_304), (1024, 1024), (4096, 64)] {
        let (x, v, at) = (f32s(&[rows, n]), f32s(&[rows, n]), T::new(DType::I64, &[rows, n]));
        let size = (rows * n) as f64;
        bench(
            &format!("sort {rows}x{n}"),
            &SORT,
            &[v.view(), at.view()],
            &[x.view()],
            &[i(1), i(0)],
            16.0 * size,
            size,
        );
        for k in [5, 50] {
            let (v, at) = (f32s(&[rows, k]), T::new(DType::I64, &[rows, k]));
            let p = [i(k), i(1), i(1), i(1)];
            bench(&format!("  topk {k}"), &TOPK, &[v.view(), at.view()], &[x.view()], &p, 4.0 * size, size);
        }
    }
    {
        let (x, out, at) = (f32s(&[50_304, 384]), f32s(&[8192, 384]), T::ints(8192, 50_304));
        let size = (8192 * 384) as f64;
        bench(
            "index_select rows of 384",
            &INDEX_SELECT,
            &[out.view()],
            &[x.view(), at.view()],
            &[i(0)],
            8.0 * size,
            size,
        );
        bench(
            "index rows of 384",
            &INDEX,
            &[out.view()],
            &[x.view(), at.view(), None],
            &[i(0), i(1)],
            8.0 * size,
            size,
        );
        let p = [i(0), i(1), i(1)];
        bench("index_put accumulate", &INDEX_PUT, &[x.view()], &[out.view(), at.view(), None], &p, 12.0 * size, size);
        let at = T::ints(8192 * 384, 384);
        let at = T { sizes: vec![8192, 384], strides: vec![384, 1], ..at };
        bench("gather 8192x384 dim 1", &GATHER, &[out.view()], &[x.view(), at.view()], &[i(1)], 16.0 * size, size);
        bench("gather 8192x384 dim 0", &GATHER, &[out.view()], &[x.view(), at.view()], &[i(0)], 16.0 * size, size);
        bench("scatter add dim 1", &SCATTER, &[x.view()], &[at.view(), out.view()], &[i(1), i(1)], 16.0 * size, size);
    }
    {
        let (x, y, out) = (f32s(&[2048, 384]), f32s(&[2048, 384]), f32s(&[2048, 768]));
        let size = (2048 * 768) as f64;
        bench("concat 2048x384 twice, dim 1", &CONCAT, &[out.view()], &[x.view(), y.view()], &[i(1)], 8.0 * size, size);
        let (part, all) = (f32s(&[512, 1, 16]), f32s(&[512, 27, 16]));
        let n = 512.0 * 27.0 * 16.0;
        bench("stack 27 of 512x16", &CONCAT, &[all.view()], &[part.view(); 27], &[i(1)], 8.0 * n, n);
        let (n, at) = (T::new(DType::I64, &[]), T::new(DType::I64, &[2048 * 768, 2]));
        bench("count_nonzero", &COUNT_NONZERO, &[n.view()], &[out.view()], &[], 4.0 * size, size);
        bench("nonzero", &NONZERO, &[at.view()], &[out.view()], &[], 20.0 * size, size);
        let (x, at, o) = (f32s(&[1]), T::ints(1, 1), f32s(&[1]));
        bench("index_select of one", &INDEX_SELECT, &[o.view()], &[x.view(), at.view()], &[i(0)], 4.0, 1.0);
        bench("concat of two", &CONCAT, &[f32s(&[2]).view()], &[x.view(), o.view()], &[i(0)], 8.0, 1.0);
    }
}
