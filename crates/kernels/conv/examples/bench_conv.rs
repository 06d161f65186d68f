//! GFLOP/s of the convolutions of a ResNet, forward and both gradients, on one thread:
//! `bench_conv [last] [bf16] [one] [text in a name]`; `one` is a batch of one image. Of float32 in one group also the forward by
//! weights that were prepared, in panels and at Winograd's points: the same ones again, and ones that no cache holds any more.
#![allow(clippy::print_stdout)]

use oneflow_base::{DType, Device, DeviceType, contiguous_strides};
use oneflow_ep::Queue;
use oneflow_ep::cpu::set_num_threads;
use oneflow_kernels_prim::*;

struct Buf {
    sizes: Vec<i64>,
    strides: Vec<i64>,
    data: Vec<f32>,
}

impl Buf {
    fn new(sizes: &[i64], last: bool) -> Buf {
        let n = sizes.iter().product::<i64>() as usize;
        let mut strides = contiguous_strides(sizes).to_vec();
        if last {
            let mut step = 1;
            for d in [1, 3, 2, 0] {
                strides[d] = step;
                step *= sizes[d];
            }
        }
        // Both halves are the number as bfloat16, near enough to it as a whole.
        let number = |i: usize| {
            let bits = ((i % 97) as f32 / 97.0 - 0.5).to_bits() >> 16;
            f32::from_bits(bits << 16 | bits)
        };
        Buf { sizes: sizes.to_vec(), strides, data: (0..n).map(number).collect() }
    }
    fn view(&self, dtype: DType) -> View<'_> {
        View { ptr: self.data.as_ptr() as *mut u8, dtype, sizes: &self.sizes, strides: &self.strides }
    }
}

/// Processor time of this thread: the machine may be busy.
fn thread_seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn time(p: &Primitive, dtype: DType, out: &Buf, ins: &[&Buf], params: &[Word]) -> f64 {
    time_by_turns(p, dtype, out, &[ins], params)
}

/// The least seconds of a call, of calls that take their inputs by turns.
fn time_by_turns(p: &Primitive, dtype: DType, out: &Buf, turns: &[&[&Buf]], params: &[Word]) -> f64 {
    let f = p.on(DeviceType::CPU).expect("registered");
    let queue = Queue { device: Device::CPU, raw: std::ptr::null_mut() };
    let outs = [Some(out.view(dtype))];
    let mut best = f64::MAX;
    for ins in turns.iter().cycle().take(turns.len().max(5)) {
        let mut all: Vec<_> = ins.iter().map(|b| Some(b.view(dtype))).collect();
        all.push(None);
        let l = Launch { outs: &outs, ins: &all, params, expr: None, queue };
        let t = thread_seconds();
        // SAFETY: the views are those of live buffers.
        unsafe { f(&l) }.expect("runs");
        best = best.min(thread_seconds() - t);
    }
    best
}

/// Channels of a picture, which a network is given channels first in whichever layout it runs.
const PICTURE: i64 = 3;

/// Bytes that no cache holds.
const FAR: usize = 1 << 28;

/// Milliseconds of the forward by a prepared weight, and by ones that come from memory; none for what has no such form.
fn prepared(x: &Buf, w: &Buf, y: &Buf, conv: &[Word], at_points: bool) -> Option<[f64; 2]> {
    let weight = PreparedWeight { sizes: w.sizes.clone().try_into().ok()?, at_points };
    let stride_one = conv[2] == Word::from(1i64);
    let panels =
        Buf::new(&[weight.numbers().filter(|_| conv[1] == Word::from(1i64) && (stride_one || !at_points))?], false);
    time(&CONV_PREPARE, DType::F32, &panels, &[w], &[Word::from(at_points as i64)]);
    let mut params = vec![Word::from(0i64)];
    params.extend(weight.sizes.map(Word::from));
    params.push(Word::from(at_points as i64));
    params.extend(conv);
    let n_copies = FAR.div_ceil(4 * panels.data.len());
    let copies: Vec<_> =
        (0..n_copies).map(|_| Buf { data: panels.data.clone(), ..Buf::new(&panels.sizes, false) }).collect();
    let pairs: Vec<_> = copies.iter().map(|copy| [x, copy]).collect();
    let turns: Vec<&[&Buf]> = pairs.iter().map(|pair| &pair[..]).collect();
    let near = time(&CONV_PREPARED, DType::F32, y, &[x, &panels], &params);
    Some([near, time_by_turns(&CONV_PREPARED, DType::F32, y, &turns, &params)].map(|seconds| 1e3 * seconds))
}

fn main() {
    oneflow_kernels_conv::register();
    set_num_threads(1);
    let [last, half, one] = ["last", "bf16", "one"].map(|word| std::env::args().any(|a| a == word));
    let dtype = if half { DType::BF16 } else { DType::F32 };
    for (n, c, o, h, k, s, g) in [
        (64, 3, 64, 32, 3, 1, 1),
        (64, 64, 64, 32, 3, 1, 1),
        (64, 128, 128, 16, 3, 1, 1),
        (64, 256, 256, 8, 3, 1, 1),
        (64, 512, 512, 4, 3, 1, 1),
        (64, 64, 128, 32, 3, 2, 1),
        (64, 64, 128, 32, 1, 2, 1),
        (64, 256, 512, 8, 3, 2, 1),
        (8, 3, 64, 224, 7, 2, 1),
        (8, 3, 16, 224, 3, 2, 1),
        (8, 3, 32, 224, 3, 2, 1),
        (4, 3, 384, 224, 16, 16, 1),
        (8, 64, 64, 56, 3, 1, 1),
        (8, 128, 128, 28, 3, 1, 1),
        (8, 256, 256, 14, 3, 1, 1),
        (8, 512, 512, 7, 3, 1, 1),
        (8, 256, 512, 14, 3, 2, 1),
        (8, 256, 1024, 14, 1, 1, 1),
        (8, 1024, 256, 14, 1, 1, 1),
        (8, 2048, 512, 7, 1, 1, 1),
        (2, 256, 64, 56, 1, 1, 1),
        (8, 64, 64, 28, 5, 1, 1),
        (8, 128, 64, 32, 4, 2, 1),
        (8, 96, 96, 56, 3, 1, 96),
        (8, 144, 144, 56, 3, 2, 144),
        (4, 96, 96, 56, 7, 1, 96),
        (8, 128, 128, 28, 3, 1, 32),
    ] {
        let n = if one { 1 } else { n };
        let name = format!("{n:3} {c:4} -> {o:4} {h:3}x{h:<3} k{k} s{s} g{g}");
        if !std::env::args().skip(1).all(|a| ["last", "bf16", "one"].contains(&a.as_str()) || name.contains(&a)) {
            continue;
        }
        let p = if s == k { 0 } else { k / 2 };
        let out = (h + 2 * p - k) / s + 1;
        let (x, w, y) = (
            Buf::new(&[n, c, h, h], last && c > PICTURE),
            Buf::new(&[o, c / g, k, k], false),
            Buf::new(&[n, o, out, out], last),
        );
        let (gx, gw) = (Buf::new(&[n, c, h, h], last), Buf::new(&[o, c / g, k, k], false));
        let params: Vec<Word> = [2, g, s, p, 1, s, p, 1].iter().map(|v| Word::from(*v)).collect();
        let flops = 2.0 * (y.data.len() as f64) * (c / g * k * k) as f64 / 1e9;
        let f = time(&CONV, dtype, &y, &[&x, &w], &params);
        let i = time(&CONV_BACKWARD_INPUT, dtype, &gx, &[&y, &w], &params);
        let b = time(&CONV_BACKWARD_WEIGHT, dtype, &gw, &[&y, &x], &params);
        println!(
            "{name}: fwd {:4.0} dx {:4.0} dw {:4.0} GF/s   {:6.1} {:6.1} {:6.1} ms",
            flops / f,
            flops / i,
            flops / b,
            f * 1e3,
            i * 1e3,
            b * 1e3
        );
        for at_points in [false, true] {
            if let Some([near, far]) = (!half).then(|| prepared(&x, &w, &y, &params, at_points)).flatten() {
                println!(
                    "    prepared{}: {near:.2} ms, {far:.2} from memory",
                    if at_points { " at points" } else { "" }
                );
            }
        }
    }
}
