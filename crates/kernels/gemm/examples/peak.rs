//! Measures the machine's multiply-add peak with registers alone, then matrix products against it in the same run:
//! `cargo run --release -p oneflow-kernels-gemm --example peak [tier] [rounded]`; `rounded` lets products of float32 round to
//! bfloat16, beside the peak of those. One thread, in its processor time, so that other
//! processes disturb less.

use oneflow_base::DType;
use oneflow_kernels_gemm::*;

/// (m, k, n) and whether B is stored transposed.
const SHAPES: [(usize, usize, usize, bool); 8] = [
    (512, 512, 512, false),
    (1024, 1024, 1024, false),
    (2048, 2048, 2048, false),
    (2048, 384, 1152, true),
    (2048, 384, 384, true),
    (2048, 1536, 384, true),
    (768, 128, 512, true),
    (128, 784, 512, true),
];
/// Shapes outside the bar that are known to be awkward.
const OTHERS: [(usize, usize, usize, bool); 9] = [
    (32, 32, 32, false),
    (64, 64, 64, true),
    (128, 128, 128, false),
    (256, 256, 256, false),
    (2048, 384, 65, true),
    (2048, 65, 384, false),
    (256, 64, 256, true),
    (1, 1024, 1024, false),
    (1, 1024, 1024, true),
];

/// Seconds this thread has run.
fn now() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the result has a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Seconds of the fastest of several runs of `f`, each long enough to time.
fn best(mut f: impl FnMut()) -> f64 {
    f();
    let start = now();
    f();
    let repeats = (1e-3 / (now() - start).max(1e-9)).ceil() as usize;
    (0..25)
        .map(|_| {
            let start = now();
            (0..repeats).for_each(|_| f());
            (now() - start) / repeats as f64
        })
        .fold(f64::INFINITY, f64::min)
}

/// Of one core: registers of floats, or tiles where products go through them.
fn peak(isa: Isa, dtype: DType) -> f64 {
    let mut flops = 0.0;
    #[cfg(target_arch = "x86_64")]
    if isa == Isa::Amx && matches!(dtype, DType::BF16 | DType::I8) {
        let seconds = best(|| flops = measure::tile_peak(dtype == DType::I8, 100_000).unwrap_or(0.0));
        return flops / seconds;
    }
    let pairs = dtype == DType::BF16 && isa >= Isa::Avx512Bf16;
    let seconds = best(|| flops = measure::fma_peak(isa, pairs, 200_000));
    flops / seconds * if dtype == DType::F64 { 0.5 } else { 1.0 }
}

fn product(isa: Isa, dtype: DType, rounded: bool, (m, k, n, nt): (usize, usize, usize, bool), batch: usize) -> f64 {
    let one: &[u8] = match dtype {
        DType::F32 => &1f32.to_ne_bytes(),
        DType::F64 => &1f64.to_ne_bytes(),
        DType::BF16 => &[0x80, 0x3f],
        DType::I8 => &[3],
        _ => &[0x00, 0x3c],
    };
    // Numbers whose bits differ: on some processors products of equal numbers take less power, and the clock is higher.
    let matrix = |n: usize| {
        let mut bytes = one.repeat(n * batch);
        bytes.chunks_mut(one.len()).enumerate().for_each(|(i, x)| x[0] ^= (i * 37 % 128) as u8);
        bytes
    };
    let dtype_c = if dtype == DType::I8 { DType::I32 } else { dtype };
    let (a, b, mut c) = (matrix(m * k), matrix(k * n), vec![0u8; m * n * batch * dtype_c.size()]);
    let (rs, cs) = if nt { (1, k as isize) } else { (n as isize, 1) };
    let dims = [BatchDim {
        size: batch,
        a: (m * k) as isize,
        b: (k * n) as isize,
        c: (m * n) as isize,
        ..BatchDim::default()
    }];
    let args = GemmArgs {
        batch: &dims,
        dtype_c,
        rounded,
        ..GemmArgs::new(
            dtype,
            (m, n, k),
            Mat::new(a.as_ptr(), k as isize, 1),
            Mat::new(b.as_ptr(), rs, cs),
            Mat::new(c.as_mut_ptr(), n as isize, 1),
        )
    };
    // SAFETY: the three vectors hold the matrices.
    let seconds = best(|| unsafe { gemm_with_isa(&args, &Serial, isa) }.expect("a float dtype"));
    2.0 * (m * n * k * batch) as f64 / seconds
}

fn main() {
    let wanted = std::env::args().nth(1);
    let rounded = std::env::args().nth(2).is_some_and(|word| word == "rounded");
    let out = |line: String| {
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), "{line}");
    };
    for &isa in Isa::available() {
        if wanted.as_ref().is_some_and(|w| !format!("{isa:?}").eq_ignore_ascii_case(w)) {
            continue;
        }
        for dtype in [DType::F32].into_iter().filter(|_| rounded) {
            let top = peak(isa, DType::BF16);
            out(format!("{isa:?} rounded float32: peak {:.1} GFLOP/s", top / 1e9));
            for shape in SHAPES.into_iter().chain(OTHERS) {
                let (m, k, n, nt) = shape;
                let [plain, flops] = [false, true].map(|rounded| product(isa, dtype, rounded, shape, 1));
                let layout = if nt { "NT" } else { "NN" };
                let (plain, flops, gain) = (plain / 1e9, flops / 1e9, flops / plain);
                out(format!(
                    "  ({m:4},{k:4},{n:4}) {layout}  {plain:7.1}, rounded {flops:7.1} GFLOP/s, {gain:.2} times"
                ));
            }
        }
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I8].into_iter().filter(|_| !rounded) {
            // Elsewhere bytes are multiplied by other instructions than the peak's.
            let special = dtype == DType::BF16 || dtype == DType::I8 && isa == Isa::Amx;
            if !special && (dtype == DType::I8 || isa >= Isa::Avx512Bf16 && wanted.is_none()) {
                continue;
            }
            let top = peak(isa, dtype);
            out(format!("{isa:?} {}: peak {:.1} GFLOP/s", dtype.name(), top / 1e9));
            let mut product_of_ratios = 1.0;
            for (i, shape) in SHAPES.into_iter().chain(OTHERS).enumerate() {
                let (m, k, n, nt) = shape;
                // The clock moves: the peak beside each shape is the one that counts.
                let now = peak(isa, dtype);
                let flops = product(isa, dtype, false, shape, 1);
                let now = now.max(peak(isa, dtype));
                let ratio = flops / now;
                out(format!(
                    "  ({m:4},{k:4},{n:4}) {}  {:7.1} GFLOP/s  {ratio:.3} of peak",
                    if nt { "NT" } else { "NN" },
                    flops / 1e9
                ));
                if i < SHAPES.len() {
                    product_of_ratios *= ratio;
                }
                if i + 1 == SHAPES.len() {
                    out(format!("  geo-mean {:.3}", product_of_ratios.powf(1.0 / SHAPES.len() as f64)));
                }
            }
            let flops = product(isa, dtype, false, (256, 64, 256, true), 48);
            out(format!("  batch 48 x (256,64,256) NT {:7.1} GFLOP/s", flops / 1e9));
        }
    }
}
