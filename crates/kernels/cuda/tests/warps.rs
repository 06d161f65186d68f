//! The emulated device finds what a kernel does wrong between threads: each mistake is planted in a small kernel, whose right form
//! passes with every order of threads.

mod common;

use common::emulator;
use oneflow_base::Result;
use oneflow_ep::cuda::{self, Grid, Text};
use oneflow_ep::{Copy, Provider, kernel_args};
use std::sync::atomic::{AtomicU64, Ordering};

const N: usize = 256;

/// Launches a kernel `entry(const int* in, int* out)` of one block over the numbers 0, 1, 2, ..
fn launch(body: &str) -> Result<Vec<i32>> {
    static KEY: AtomicU64 = AtomicU64::new(0);
    let cuda = cuda::provider().unwrap();
    // The texts that kernels begin with define T; here it is a number of 16 bits.
    let head = concat!(
        "#define MAX_DIMS 4\n",
        include_str!("../src/text/prelude.cu"),
        "typedef bf16 T;\n#define IS_BF16 1\n",
        include_str!("../src/text/warp.cu")
    );
    let source = format!("{head}\nextern \"C\" __global__ void entry(const int* in, int* out) {{\n{body}\n}}\n");
    let text = Text { name: "planted".into(), source, options: &[], shared: 0 };
    // Far from the keys of the crate's own kernels.
    let key = u128::MAX - KEY.fetch_add(1, Ordering::Relaxed) as u128;
    let f = cuda.function(0, key, || Ok(text))?;
    let queue = cuda.own_queue(0);
    let (from, to) = (cuda.alloc(0, N * 4)?, cuda.alloc(0, N * 4)?);
    let numbers: Vec<i32> = (0..N as i32).collect();
    let mut out = vec![0i32; N];
    // SAFETY: blocks and vectors hold N numbers; the arguments are the kernel's.
    let done = unsafe {
        cuda.copy(queue, Copy::HostToDevice, from.ptr, numbers.as_ptr().cast(), N * 4)?;
        let done = cuda.launch(f, queue, Grid::linear(1, N as u32), kernel_args![from.ptr, to.ptr]);
        done.and_then(|()| cuda.copy(queue, Copy::DeviceToHost, out.as_mut_ptr().cast(), to.ptr, N * 4))
    };
    cuda.free_on(queue, from);
    cuda.free_on(queue, to);
    done.map(|()| out)
}

/// How many of some orders of threads give what is expected.
fn right(body: &str, want: impl Fn(usize) -> i32) -> usize {
    let want: Vec<i32> = (0..N).map(want).collect();
    (1..=8)
        .filter(|seed| {
            emulator::reseed(*seed);
            launch(body).is_ok_and(|got| got == want)
        })
        .count()
}

/// The same body without a part of it.
fn without(body: &str, part: &str) -> String {
    assert!(body.contains(part));
    body.replacen(part, "", 1)
}

const THROUGH_SHARED: &str = "
    __shared__ int room[256];
    const int i = threadIdx.x;
    room[i] = in[i];
    __syncthreads();
    out[i] = room[255 - i];";

const ASYNC: &str = "
    __shared__ __align__(16) int room[256];
    const int i = threadIdx.x;
    if (i < 64) copy_async(room + 4 * i, in + 4 * i, true);
    copies_issued();
    wait_copies<0>();
    __syncthreads();
    out[i] = room[255 - i];";

#[test]
fn missing_barriers_and_waits_are_found() {
    let Some(_alone) = emulator::alone() else { return };
    for (body, parts) in
        [(THROUGH_SHARED, &["__syncthreads();"][..]), (ASYNC, &["__syncthreads();", "wait_copies<0>();"])]
    {
        assert_eq!(right(body, |i| 255 - i as i32), 8);
        for part in parts {
            let planted = without(body, part);
            assert!(right(&planted, |i| 255 - i as i32) < 8, "{planted}");
        }
    }
}

#[test]
fn lanes_exchange_what_they_have() {
    let Some(_alone) = emulator::alone() else { return };
    let sum = "
    int v = in[threadIdx.x];
    for (int s = 16; s > 0; s /= 2) v += __shfl_xor_sync(0xffffffffu, v, s);
    out[threadIdx.x] = v;";
    assert_eq!(right(sum, |i| (i as i32 / 32 * 32 * 32) + 31 * 16), 8);
    let quads = "out[threadIdx.x] = __shfl_down_sync(0xffffffffu, in[threadIdx.x], 1, 4);";
    assert_eq!(right(quads, |i| if i % 4 == 3 { i as i32 } else { i as i32 + 1 }), 8);
    let vote = "out[threadIdx.x] = (int)__ballot_sync(0xffffffffu, threadIdx.x % 3 == 0);";
    let bits = |i: usize| {
        (0..32).filter(|lane| (i / 32 * 32 + lane).is_multiple_of(3)).fold(0u32, |b, lane| b | 1 << lane) as i32
    };
    assert_eq!(right(vote, bits), 8);
}

#[test]
fn threads_that_do_not_meet_fail_the_launch() {
    let Some(_alone) = emulator::alone() else { return };
    for body in [
        "if (threadIdx.x < 100) __syncthreads();\n out[threadIdx.x] = 0;",
        "if (threadIdx.x % 2) out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);\n __syncthreads();",
        "out[threadIdx.x] = __shfl_xor_sync(0xffu, 1, 1);",
    ] {
        emulator::reseed(1);
        let error = launch(body).expect_err(body);
        assert!(error.text().contains("LAUNCH_FAILED"), "{}", error.text());
        // The device is lost, as it is on hardware.
        assert!(launch("out[threadIdx.x] = 0;").is_err());
    }
    emulator::reseed(1);
    assert!(launch("out[threadIdx.x] = 0;").is_ok());
}
