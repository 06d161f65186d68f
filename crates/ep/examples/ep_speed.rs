//! Prints the cost of an allocation and of a fork-join region. Run with `--release`.

use oneflow_base::DeviceType;
use std::time::Instant;

fn nanos(n: u32, mut f: impl FnMut()) -> f64 {
    (0..7)
        .map(|_| {
            let t = Instant::now();
            (0..n).for_each(|_| f());
            t.elapsed().as_nanos() as f64 / n as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn main() {
    let cpu = oneflow_ep::provider(DeviceType::CPU).expect("the CPU provider is always there");
    let mut out = String::new();
    for bytes in [64usize, 4096, 65536, 1 << 20] {
        let t = nanos(100_000, || {
            let b = cpu.alloc(0, std::hint::black_box(bytes)).expect("memory");
            // SAFETY: the block was just allocated.
            unsafe { cpu.free(0, b) };
        });
        out += &format!("alloc + free of {bytes:>8} bytes: {t:7.1} ns\n");
    }
    for threads in [1, 2] {
        oneflow_ep::cpu::set_num_threads(threads);
        let t = nanos(20_000, || {
            oneflow_ep::cpu::parallel_for(threads * 2, &|i| {
                std::hint::black_box(i);
            })
        });
        out += &format!("empty region, {threads} threads: {t:7.1} ns\n");
    }
    use std::io::Write;
    let _ = std::io::stdout().write_all(out.as_bytes());
}
