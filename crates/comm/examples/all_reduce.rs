//! Times all-reduce over the ranks of a job, or over threads when no launcher started it.
//!
//! ```text
//! torchrun --nproc-per-node 2 --no-python target/release/examples/all_reduce
//! target/release/examples/all_reduce fake 2
//! ```

use std::io::Write;
use std::time::{Duration, Instant};

use oneflow_base::{DType, Error, Result};
use oneflow_comm::{DEFAULT_TIMEOUT, ProcessGroup, ReduceOp, fake, rendezvous, store, world};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "fake") {
        let n = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(2);
        return fake::run_ranks(n, DEFAULT_TIMEOUT, |group| measure(&*group)).into_iter().collect();
    }
    let launch = rendezvous::Launch::from_env()?;
    rendezvous::init(&launch, store::DEFAULT_TIMEOUT, DEFAULT_TIMEOUT)?;
    say(&format!("rank {} of {}, from {}", launch.rank, launch.world_size, launch.source))?;
    let result = measure(&*world());
    world().close();
    result
}

fn measure(group: &dyn ProcessGroup) -> Result<()> {
    for bytes in [4usize, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20] {
        let mut data = vec![1u8; bytes];
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..(64 << 20 >> bytes.ilog2()).clamp(5, 500) {
            group.barrier()?;
            let start = Instant::now();
            group.all_reduce(&mut data, DType::F32, ReduceOp::Sum)?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        if group.rank() == 0 {
            say(&format!("{:>9} bytes  median {:>12.1?}  min {:>12.1?}", bytes, times[times.len() / 2], times[0]))?;
        }
    }
    Ok(())
}

fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{line}").map_err(|e| Error::runtime(e.to_string()))
}
