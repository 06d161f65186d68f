//! Times of the row kernels and the optimizers: `cargo run --release -p oneflow-kernels-nn --example bench_nn [threads]`.
#![allow(clippy::print_stdout)]

use oneflow_base::{DType, Device, DeviceType, contiguous_strides};
use oneflow_ep::Queue;
use oneflow_kernels_prim::*;
use std::time::Instant;

/// Buffers begin at cache lines, as the allocator's do.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

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
    fn number(v: f32) -> T {
        let mut t = T::new(DType::F32, &[]);
        t.data[0].0[0] = v.to_bits() as u64;
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
    oneflow_kernels_nn::register();
    if let Some(n) = std::env::args().nth(1).and_then(|a| a.parse().ok()) {
        oneflow_ep::cpu::set_num_threads(n);
    }
    println!("{:?}, {} threads", isa(), oneflow_ep::cpu::num_threads());
    let w = |v: f64| Word::from(v);
    let i = |v: i64| Word::from(v);

    for (rows, n) in [(16_384i64, 1024i64), (64, 1024), (8, 32)] {
        let (x, y) = (T::new(DType::F32, &[rows, n]), T::new(DType::F32, &[rows, n]));
        let size = (rows * n) as f64;
        let p = [i(1), i(0)];
        bench(&format!("softmax {rows}x{n}"), &SOFTMAX, &[y.view()], &[x.view()], &p, 8.0 * size, size);
        let g = T::new(DType::F32, &[rows, n]);
        bench("  backward", &SOFTMAX_BACKWARD, &[g.view()], &[x.view(), y.view()], &p, 12.0 * size, size);
        let (x, y) = (T::new(DType::BF16, &[rows, n]), T::new(DType::BF16, &[rows, n]));
        bench("  bfloat16", &SOFTMAX, &[y.view()], &[x.view()], &p, 4.0 * size, size);
    }
    {
        let (x, y) = (T::new(DType::F32, &[64, 1024, 64]), T::new(DType::F32, &[64, 1024, 64]));
        let size = (64 * 1024 * 64) as f64;
        bench("softmax 64x1024x64 dim 1", &SOFTMAX, &[y.view()], &[x.view()], &[i(1), i(0)], 8.0 * size, size);
    }
    for (rows, n) in [(16_384i64, 768i64), (340, 768), (8, 32)] {
        let size = (rows * n) as f64;
        let new = || T::new(DType::F32, &[rows, n]);
        let (x, y, g, gx) = (new(), new(), new(), new());
        let (m, s) = (T::new(DType::F32, &[rows]), T::new(DType::F32, &[rows]));
        let of_n = || T::new(DType::F32, &[n]);
        let (wt, b, gw, gb) = (of_n(), of_n(), of_n(), of_n());
        let p = [i(1), w(1e-5), i(0)];
        let outs = [y.view(), m.view(), s.view()];
        bench(
            &format!("layer_norm {rows}x{n}"),
            &LAYER_NORM,
            &outs,
            &[x.view(), wt.view(), b.view()],
            &p,
            8.0 * size,
            size,
        );
        let ins = [g.view(), x.view(), m.view(), s.view(), wt.view()];
        bench("  backward", &LAYER_NORM_BACKWARD, &[gx.view(), gw.view(), gb.view()], &ins, &p, 12.0 * size, size);
        bench(
            "  rms",
            &LAYER_NORM,
            &[y.view(), None, s.view()],
            &[x.view(), wt.view(), None],
            &[i(1), w(1e-5), i(1)],
            8.0 * size,
            size,
        );
    }
    {
        let (n, c) = (2048i64, 50_304i64);
        let size = (n * c) as f64;
        let (x, gx) = (T::new(DType::F32, &[n, c]), T::new(DType::F32, &[n, c]));
        let (t, loss, lse) = (T::ints(n, c), T::new(DType::F32, &[n]), T::new(DType::F32, &[n]));
        let p = [i(-100), w(0.0)];
        let ins = [x.view(), t.view(), None];
        bench("cross_entropy 2048x50304", &CROSS_ENTROPY, &[loss.view(), lse.view()], &ins, &p, 4.0 * size, size);
        let ins = [loss.view(), x.view(), t.view(), None, lse.view()];
        bench("  backward", &CROSS_ENTROPY_BACKWARD, &[gx.view()], &ins, &p, 8.0 * size, size);
        let (wt, out) = (T::new(DType::F32, &[c, 384]), T::new(DType::F32, &[n, 384]));
        let size = (n * 384) as f64;
        bench(
            "embedding 2048 of 50304x384",
            &EMBEDDING,
            &[out.view()],
            &[wt.view(), t.view()],
            &[i(0), i(c)],
            8.0 * size,
            size,
        );
        let p = [i(0), i(c), i(-1)];
        let all = (c * 384) as f64;
        bench("  backward", &EMBEDDING_BACKWARD, &[wt.view()], &[out.view(), t.view()], &p, 4.0 * all, all);
    }
    for n in [16 << 20, 4096i64] {
        let (x, y, mask) = (T::new(DType::F32, &[n]), T::new(DType::F32, &[n]), T::new(DType::Bool, &[n]));
        let p = [w(0.1), i(1), i(2)];
        bench(&format!("dropout {n}"), &DROPOUT, &[y.view(), mask.view()], &[x.view()], &p, 9.0 * n as f64, n as f64);
    }
    for (name, sizes) in [("10M", vec![10_000_000i64]), ("6 tiny tensors", vec![784, 64, 64 * 8, 8, 8 * 8, 8])] {
        let all: f64 = sizes.iter().sum::<i64>() as f64;
        let make = || -> Vec<T> { sizes.iter().map(|n| T::new(DType::F32, &[*n])).collect() };
        let (p, g, m, v) = (make(), make(), make(), make());
        let outs: Vec<_> = p.iter().chain(&m).chain(&v).map(T::view).collect();
        let (lr, step) = (T::number(1e-3), T::number(3.0));
        let mut ins: Vec<_> = g.iter().map(T::view).collect();
        let n = sizes.len();
        ins.extend([lr.view(), step.view()]);
        register_rule(&ADAM);
        let params = [Word(ADAM.id()), i(n as i64), i(0), w(0.9), w(0.999), w(1e-8)];
        bench(&format!("adam {name}"), &UPDATE, &outs, &ins, &params, 28.0 * all, all);
    }
}

/// torch's Adam without weight decay.
static ADAM: Rule = {
    struct F;
    impl UpdateFormula for F {
        #[inline(always)]
        fn scalars<L: Lanes>(h: &[L], x: &[L]) -> [L; MAX_SCALARS] {
            let (mut c, one) = ([L::splat(0.0); MAX_SCALARS], L::splat(1.0));
            (c[0], c[1], c[2]) = (one - h[0], h[1], h[2]);
            (c[3], c[4]) = (-x[0] / (one - h[0].pow(x[1])), (one - h[1].pow(x[1])).rsqrt());
            c
        }
        #[inline(always)]
        fn step<L: Lanes>(p: L, g: L, [m, v, _]: [L; MAX_STATES], c: &[L]) -> (L, [L; MAX_STATES]) {
            let m = c[0].fma(g - m, m);
            let v = v * c[1] + (L::splat(1.0) - c[1]) * g * g;
            (c[3].fma(m / v.sqrt().fma(c[4], c[2]), p), [m, v, v])
        }
    }
    Rule::new::<F>("bench adam", 2, 3, 2)
};
