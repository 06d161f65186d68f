//! Builds and opens the emulated driver and libraries, and runs ranks as threads on its devices.

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use oneflow_base::{Device, DeviceType};
use oneflow_comm::{ProcessGroup, fake, on_device};
use oneflow_ep::cuda::{self, Cuda};
use oneflow_ep::{Block, Copy, Provider};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::time::Duration;

pub const BYTES: usize = 4096;
pub const SEEDS: i64 = 10;

/// The emulator for one test at a time; `None` where there is no C++ compiler.
pub fn alone() -> Option<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::new(());
    static ONCE: Once = Once::new();
    let guard = ONE.lock().unwrap_or_else(|e| e.into_inner());
    ONCE.call_once(|| {
        if Command::new("g++").arg("--version").output().is_err() {
            return;
        }
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulator");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels/cuda/tests/emulator/build.sh");
        let done = Command::new("bash").arg(script).arg(&dir).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        // SAFETY: done once, before any other thread reads the environment.
        unsafe {
            std::env::set_var("ONEFLOW_CUDA_LIB_DIRS", &dir);
            std::env::set_var("EMULATOR_DEVICES", "2");
            // Opened by its path first, it is what the name libcuda.so.1 leads to.
            std::mem::forget(Library::open(Some(dir.join("libcuda.so.1")), RTLD_NOW | RTLD_GLOBAL).unwrap());
        }
        oneflow_nccl::register();
    });
    if let Some(reason) = cuda::unavailable_reason() {
        eprintln!("not run: {reason}");
        return None;
    }
    assert_eq!(oneflow_nccl::version().unwrap(), (2, 27, 5));
    Some(guard)
}

/// Another order of everything that nobody ordered.
pub fn reseed(seed: i64) {
    type Reseed = unsafe extern "C" fn(i64);
    // SAFETY: the library is open already, and the emulated driver has this function.
    unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW).unwrap().get::<Reseed>(b"emulator_reseed").unwrap()(seed) }
}

/// One rank, a thread.
pub struct Rank {
    pub rank: usize,
    pub device: Device,
    pub cuda: &'static Cuda,
    pub host: Arc<dyn ProcessGroup>,
    pub group: Arc<dyn ProcessGroup>,
}

/// Runs ranks on devices of their own.
pub fn on_ranks<R: Send>(n: usize, f: impl Fn(&Rank) -> R + Sync) -> Vec<R> {
    on_devices(&(0..n as u16).collect::<Vec<_>>(), f)
}

pub fn on_devices<R: Send>(devices: &[u16], f: impl Fn(&Rank) -> R + Sync) -> Vec<R> {
    let groups = fake::groups(devices.len(), Duration::from_secs(60));
    std::thread::scope(|scope| {
        let start = |(rank, host): (usize, Arc<dyn ProcessGroup>)| {
            let (f, device) = (&f, Device::new(DeviceType::CUDA, devices[rank]));
            scope.spawn(move || {
                let cuda = cuda::provider().unwrap();
                let group = on_device(&host, device).unwrap();
                let rank = Rank { rank, device, cuda, host, group };
                let result = f(&rank);
                rank.host.close();
                result
            })
        };
        let threads: Vec<_> = groups.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

impl Rank {
    pub fn upload(&self, bytes: &[u8]) -> Block {
        let block = self.cuda.alloc(self.device.index, bytes.len().max(1)).unwrap();
        let queue = self.cuda.queue(self.device.index);
        // SAFETY: the block holds the bytes.
        unsafe { self.cuda.copy(queue, Copy::HostToDevice, block.ptr, bytes.as_ptr(), bytes.len()).unwrap() }
        block
    }

    pub fn download(&self, block: Block, n: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; n];
        let queue = self.cuda.queue(self.device.index);
        // SAFETY: the block holds the bytes.
        unsafe { self.cuda.copy(queue, Copy::DeviceToHost, bytes.as_mut_ptr(), block.ptr, n).unwrap() }
        bytes
    }

    pub fn filled(&self, value: u8) -> Block {
        let block = self.cuda.alloc(self.device.index, BYTES).unwrap();
        self.fill(block, value);
        block
    }

    pub fn fill(&self, block: Block, value: u8) {
        // SAFETY: the block holds the bytes.
        unsafe { self.cuda.memset(self.cuda.queue(self.device.index), block.ptr, value, BYTES).unwrap() }
    }

    /// The one value of all bytes; `None` where they differ.
    pub fn read(&self, block: Block) -> Option<u8> {
        let bytes = self.download(block, BYTES);
        bytes.iter().all(|b| *b == bytes[0]).then_some(bytes[0])
    }

    pub fn free(&self, block: Block) {
        self.cuda.free_on(self.cuda.queue(self.device.index), block);
    }
}
