//! Times of attention forward and backward, causal, as microseconds and multiply-adds a nanosecond.
//!
//! `cargo run --release -p oneflow-kernels-attention --example bench_attention [bf16]`

use oneflow_base::{DType, Device, DeviceType};
use oneflow_ep::Queue;
use oneflow_kernels_prim::{ATTENTION, ATTENTION_BACKWARD, Launch, Primitive, View, Word};
use std::io::Write;
use std::time::Instant;

fn launch(p: &Primitive, outs: &[Option<View>], ins: &[Option<View>], params: &[Word]) {
    let queue = Queue { device: Device::CPU, raw: std::ptr::null_mut() };
    let f = p.on(DeviceType::CPU).expect("registered");
    // SAFETY: the views are those of live vectors.
    unsafe { f(&Launch { outs, ins, params, expr: None, queue }) }.expect("runs");
}

fn median(mut f: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..31)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    oneflow_kernels_attention::register();
    let dtype = if std::env::args().any(|a| a == "bf16") { DType::BF16 } else { DType::F32 };
    // Both halves are the number as bfloat16, near enough to it as a whole.
    let number = |x: f32| f32::from_bits(x.to_bits() >> 16 << 16 | x.to_bits() >> 16);
    for (b, h, t, d) in
        [(8, 6, 256, 64), (16, 6, 256, 64), (8, 4, 64, 32), (16, 4, 64, 32), (2, 12, 1024, 64), (1, 8, 512, 128)]
    {
        // Memory order is batch, row, head, column, as models have it.
        let sizes = [b, h, t, d];
        let strides = [t * h * d, d, h * d, 1];
        let n = (b * h * t * d) as usize;
        let mut data: Vec<Vec<f32>> = (0..8)
            .map(|s| (0..n).map(|i| number(((i * 7919 + s * 31) % 1000) as f32 / 500.0 - 1.0)).collect())
            .collect();
        let mut stats = vec![0f32; (b * h * t) as usize];
        let stat_sizes = [b, h, t];
        let stat_strides = [h * t, t, 1];
        let views: Vec<Option<View>> = data
            .iter_mut()
            .map(|v| Some(View { ptr: v.as_mut_ptr().cast(), dtype, sizes: &sizes, strides: &strides }))
            .collect();
        let stat = Some(View {
            ptr: stats.as_mut_ptr().cast(),
            dtype: DType::F32,
            sizes: &stat_sizes,
            strides: &stat_strides,
        });
        let params: Vec<Word> =
            vec![(1.0 / (d as f64).sqrt()).into(), true.into(), 0.0.into(), 0i64.into(), 0i64.into(), 0i64.into()];
        let [q, k, v, out, g, dq, dk, dv] = views[..] else { unreachable!() };
        let forward = median(|| launch(&ATTENTION, &[out, stat], &[q, k, v, None], &params));
        let backward =
            median(|| launch(&ATTENTION_BACKWARD, &[dq, dk, dv, None], &[g, q, k, v, None, out, stat], &params));
        let half = (b * h * t * t * d) as f64 / 2.0;
        let text = format!(
            "{sizes:?}: forward {forward:.0} us ({:.0}), backward {backward:.0} us ({:.0})\n",
            2e-3 * half / forward,
            5e-3 * half / backward
        );
        std::io::stdout().write_all(text.as_bytes()).expect("a terminal");
    }
}
