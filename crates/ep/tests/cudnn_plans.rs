//! Plans of NVIDIA's cuDNN for GPUs that are described and not there: its heuristics and compilers take the graphs of convolutions and
//! of attention. A driver that does nothing stands for the missing one, so nothing is launched and no number is seen.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use oneflow_base::DType::{self, BF16, F16, F32};
use oneflow_ep::cuda::cudnn::{Convolution, Cudnn, Handle, Layout, Part, cudnn};
use oneflow_ep::cuda::cudnn_attention::{Attention, Backward};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// Name, capability times a hundred, multiprocessors, the most shared memory of a block.
const GPUS: [(&str, i64, i64, i64); 3] =
    [("A100", 800, 108, 166_912), ("H100", 900, 132, 232_448), ("B200", 1000, 148, 232_448)];

fn properties((name, capability, processors, shared): (&str, i64, i64, i64)) -> String {
    format!(
        r#"{{"deviceName":"{name}","deviceVer":{capability},"multiProcessorCount":{processors},
        "maxSharedMemoryPerBlockOptin":{shared},"maxSharedMemoryPerBlock":49152,"oversizedSharedMemoryPerBlock":0,
        "reservedSharedMemoryPerBlock":1024,"cudaDeviceId":0,"pciDeviceId":0,"driverVer":13000,"isTccDriver":0,
        "l2CacheSize":52428800,"maxCtasPerSM":32,"maxRegistersPerSM":65536,"regsPerBlock":65536,"maxThreadsPerBlock":1024,
        "maxThreadsPerSM":2048,"memClockRateKHz":2619000,"smClockRateKHz":1980000,"smCountOrigin":0,"supportCoopLaunch":1,
        "totalGlobalMem":85899345920,"warpSize":32,"maxBlockSize":[1024,1024,64],"maxGridSize":[2147483647,65535,65535]}}"#
    )
}

/// The libraries of the environment, whose names begin so.
fn libraries(start: &str) -> Vec<PathBuf> {
    let dirs = std::env::var("ONEFLOW_CUDA_LIB_DIRS").unwrap_or_default();
    let files = dirs.split(':').filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten().map(|f| f.path());
    files.filter(|f| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with(start))).collect()
}

/// NVIDIA's library with a driver that does nothing; `None` where it is not installed.
fn library() -> Option<&'static Cudnn> {
    static FOUND: OnceLock<Option<&'static Cudnn>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let driver = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver").join("libcuda.so.1");
        std::fs::create_dir_all(driver.parent().unwrap()).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cudnn_plans.c");
        let new = driver.with_extension(std::process::id().to_string());
        let mut compiler = Command::new("gcc");
        compiler.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"]).arg(&new).arg(source);
        if libraries("libcudnn.so").is_empty() || !compiler.status().is_ok_and(|status| status.success()) {
            eprintln!("not run: cuDNN is not installed, or there is no C compiler");
            return None;
        }
        std::fs::rename(&new, &driver).unwrap();
        // The library looks for the driver and the compiler by their names.
        for path in std::iter::once(driver).chain(libraries("libnvrtc-builtins")).chain(libraries("libnvrtc.so")) {
            // SAFETY: the first is this test's, the others are NVIDIA's.
            std::mem::forget(unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) }.unwrap());
        }
        let found = cudnn().unwrap();
        if found.version() < 90800 {
            eprintln!("not run: cuDNN {} makes no plans for GPUs that are not there", found.version());
            return None;
        }
        Some(found)
    })
}

/// Calls `run` with a handle for each GPU.
fn on_each(run: impl Fn(&mut Handle, &str)) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let Some(cudnn) = library() else { return };
    for gpu in GPUS {
        run(&mut cudnn.described(&properties(gpu)).unwrap(), gpu.0);
    }
}

/// [batch, heads, rows, width] in order, or with heads inside rows.
fn rows([b, h, n, e]: [i64; 4], heads_inside: bool) -> Layout {
    let strides = if heads_inside { [n * h * e, e, h * e, 1] } else { [h * n * e, n * e, e, 1] };
    Layout { sizes: vec![b, h, n, e], strides: strides.to_vec() }
}

#[derive(Clone, Copy, Default)]
struct Options {
    causal: bool,
    heads_inside: bool,
    drops: bool,
    bias: Option<(DType, [i64; 3])>,
}

/// Batch, heads, heads of key and value, rows, keys, width.
fn attention(dtype: DType, [b, h, g, n, m, e]: [i64; 6], o: Options, trains: bool, grad_bias: bool) -> Attention {
    let q = || rows([b, h, n, e], o.heads_inside);
    let k = || rows([b, g, m, e], o.heads_inside);
    let bias = o.bias.map(|(dtype, [b, h, n])| (dtype, rows([b, h, n, m], false)));
    let backward = Backward { grad_out: q(), grad_query: q(), grad_key: k(), grad_value: k(), grad_bias };
    Attention {
        dtype,
        causal: o.causal,
        query: q(),
        key: k(),
        value: k(),
        out: q(),
        bias,
        drops: o.drops,
        backward: trains.then_some(backward),
    }
}

#[test]
fn attention_has_plans() {
    const PLAIN: Options = Options { causal: false, heads_inside: false, drops: false, bias: None };
    let cases: &[(DType, [i64; 6], Options)] = &[
        (BF16, [2, 12, 12, 1024, 1024, 64], Options { causal: true, heads_inside: true, ..PLAIN }),
        (F16, [1, 8, 2, 512, 512, 128], Options { causal: true, ..PLAIN }),
        (BF16, [2, 4, 4, 100, 77, 64], Options { bias: Some((BF16, [1, 1, 100])), ..PLAIN }),
        (BF16, [2, 4, 2, 64, 77, 64], Options { bias: Some((F32, [2, 1, 1])), causal: true, ..PLAIN }),
        (F16, [1, 2, 2, 1, 65, 40], PLAIN),
        (BF16, [2, 4, 4, 256, 256, 64], Options { drops: true, causal: true, ..PLAIN }),
        (F16, [1, 4, 1, 50, 70, 128], Options { drops: true, bias: Some((F16, [1, 4, 50])), ..PLAIN }),
    ];
    on_each(|handle, gpu| {
        for (n, (dtype, shape, o)) in cases.iter().enumerate() {
            for (trains, grad_bias) in [(false, false), (true, n % 2 == 1)] {
                let planned = handle.attention(&attention(*dtype, *shape, *o, trains, grad_bias)).unwrap();
                assert!(planned.is_ok(), "{gpu}, case {n}, trains {trains} {grad_bias}: {}", planned.err().unwrap());
            }
        }
    });
}

#[test]
fn convolutions_have_plans() {
    let last = |sizes: [i64; 4]| {
        let [n, c, h, w] = sizes;
        Layout { sizes: vec![n, c, h, w], strides: vec![h * w * c, 1, w * c, c] }
    };
    on_each(|handle, gpu| {
        for part in [Part::Forward, Part::Input, Part::Weight] {
            for dtype in [BF16, F16] {
                let problem = Convolution {
                    part,
                    dtype,
                    tf32: false,
                    x: last([8, 64, 56, 56]),
                    w: last([128, 64, 3, 3]),
                    y: last([8, 128, 28, 28]),
                    stride: vec![2, 2],
                    padding: vec![1, 1],
                    dilation: vec![1, 1],
                };
                assert!(handle.plan(&problem).unwrap().is_some(), "{gpu}: {part:?} {dtype}");
            }
        }
    });
}
