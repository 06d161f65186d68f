//! Builds and opens the emulated driver, compiler and cuBLASLt: the provider and every launch run for real, on the host.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, Once};

/// Opens the emulator in place of a driver; false where there is no C++ compiler. CPU and CUDA kernels are registered.
pub fn start() -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some(dir) = build() else { return };
        // SAFETY: done once, before any other thread reads the environment.
        unsafe {
            std::env::set_var("ONEFLOW_CUDA_LIB_DIRS", &dir);
            std::env::set_var("EMULATOR_DEVICES", "2");
            std::env::set_var("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join(cache()));
            // Opened by its path first, it is what the name libcuda.so.1 leads to.
            std::mem::forget(Library::open(Some(dir.join("libcuda.so.1")), RTLD_NOW | RTLD_GLOBAL).unwrap());
        }
        oneflow_kernels_elementwise::register();
        oneflow_kernels_gemm::register();
        oneflow_kernels_nn::register();
        oneflow_kernels_index::register();
        oneflow_kernels_conv::register();
        oneflow_kernels_attention::register();
        oneflow_kernels_rnn::register();
        oneflow_kernels_linalg::register();
        oneflow_kernels_cuda::register();
        // Results are compared to all digits of float32.
        oneflow_kernels_cuda::conv_cudnn::set(true, false);
    });
    let opened = oneflow_ep::cuda::is_available();
    if !opened {
        eprintln!("not run: {}", oneflow_ep::cuda::unavailable_reason().unwrap_or_default());
    }
    opened
}

/// The name of the folder for emulated code, another one when the words that it holds change.
fn cache() -> String {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulator");
    let mut hash = DefaultHasher::new();
    for name in ["shim.h", "warp.h", "nvrtc.cpp"] {
        std::fs::read(from.join(name)).unwrap().hash(&mut hash);
    }
    format!("emulator-cache-{:016x}", hash.finish())
}

/// The emulator for one test at a time: for those that choose orders or count launches.
pub fn alone() -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(|e| e.into_inner());
    start().then_some(guard)
}

/// Another order of everything that nobody ordered.
pub fn reseed(seed: i64) {
    type Reseed = unsafe extern "C" fn(i64);
    // SAFETY: the emulated driver has this function.
    unsafe { driver().get::<Reseed>(b"emulator_reseed").unwrap()(seed) }
}

/// Launches so far.
pub fn launches() -> i64 {
    // SAFETY: the emulated driver has this function.
    unsafe { driver().get::<unsafe extern "C" fn() -> i64>(b"emulator_launches").unwrap()() }
}

/// Bytes of dynamic shared memory that all launches so far asked for.
pub fn shared_bytes() -> i64 {
    // SAFETY: the emulated driver has this function.
    unsafe { driver().get::<unsafe extern "C" fn() -> i64>(b"emulator_shared").unwrap()() }
}

fn driver() -> Library {
    // SAFETY: the library is open already.
    unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW).unwrap() }
}

fn build() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulator");
    Command::new("g++").arg("--version").output().ok()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulator/build.sh");
    let done = Command::new("bash").arg(script).arg(&dir).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(dir)
}
