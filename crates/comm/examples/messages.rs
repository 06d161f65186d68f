//! Times messages that two ranks send to and fro, in samples with pauses between them, and counts how often a thread slept.
//!
//! ```text
//! torchrun --nproc-per-node 2 --no-python target/release/examples/messages
//! ```

use std::io::Write;
use std::time::{Duration, Instant};

use oneflow_base::{DType, Error, Result};
use oneflow_comm::{DEFAULT_TIMEOUT, ProcessGroup, rendezvous, store, world};

const SAMPLES: usize = 20;
/// Between two samples, so that each begins with threads that sleep.
const PAUSE: Duration = Duration::from_millis(5);

fn main() -> Result<()> {
    let launch = rendezvous::Launch::from_env()?;
    rendezvous::init(&launch, store::DEFAULT_TIMEOUT, DEFAULT_TIMEOUT)?;
    let result = measure(&*world());
    world().close();
    result
}

fn measure(group: &dyn ProcessGroup) -> Result<()> {
    let (rank, peer) = (group.rank(), 1 - group.rank());
    for bytes in [64usize, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20, 64 << 20] {
        let mut data = vec![1u8; bytes];
        let n = ((8 << 20) / bytes).clamp(3, 500);
        let (mut times, slept) = (Vec::new(), sleeps());
        for _ in 0..SAMPLES {
            std::thread::sleep(PAUSE);
            group.barrier()?;
            let start = Instant::now();
            for _ in 0..n {
                for turn in 0..2 {
                    match turn == rank {
                        true => group.send(&data, DType::U8, peer, 0)?,
                        false => group.recv(&mut data, DType::U8, peer, 0)?,
                    }
                }
            }
            times.push(start.elapsed() / n as u32);
        }
        times.sort_unstable();
        let slept = (sleeps() - slept) as f64 / (SAMPLES * n) as f64;
        if rank == 0 {
            let (least, median, most) = (times[0], times[SAMPLES / 2], times[SAMPLES - 1]);
            let line = format!("{bytes:>9} bytes  least {least:>9.1?}  median {median:>9.1?}  most {most:>9.1?}");
            writeln!(std::io::stdout(), "{line}  {slept:.2} sleeps a round trip").map_err(failed)?;
        }
    }
    Ok(())
}

fn failed(e: std::io::Error) -> Error {
    Error::runtime(e.to_string())
}

/// Voluntary context switches of all threads of this process so far.
fn sleeps() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |thread: std::fs::DirEntry| {
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    threads.filter_map(of).sum()
}
