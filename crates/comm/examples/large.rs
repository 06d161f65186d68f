//! Times long collectives over the ranks of a job, on memory of huge pages or, with the word `small`, of small ones.
//!
//! ```text
//! torchrun --nproc-per-node 2 --no-python target/release/examples/large [small]
//! ```

use std::io::Write;
use std::time::Instant;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use oneflow_base::{DType, Error, Result};
use oneflow_comm::{DEFAULT_TIMEOUT, ProcessGroup, ReduceOp, rendezvous, store, world};

const SAMPLES: usize = 15;

fn main() -> Result<()> {
    let launch = rendezvous::Launch::from_env()?;
    rendezvous::init(&launch, store::DEFAULT_TIMEOUT, DEFAULT_TIMEOUT)?;
    let result = measure(&*world());
    world().close();
    result
}

fn measure(group: &dyn ProcessGroup) -> Result<()> {
    let huge = std::env::args().nth(1).as_deref() != Some("small");
    for bytes in [1usize << 20, 8 << 20, 64 << 20] {
        let (data, input, output) = (memory(bytes, huge)?, memory(bytes, huge)?, memory(group.size() * bytes, huge)?);
        let mut row = format!("{:>3} MB", bytes >> 20);
        for name in ["all_reduce", "all_to_all", "broadcast", "all_gather", "reduce_scatter"] {
            let mut times = Vec::new();
            for _ in 0..SAMPLES {
                group.barrier()?;
                let start = Instant::now();
                let part = bytes / group.size();
                match name {
                    "all_reduce" => group.all_reduce(data, DType::F32, ReduceOp::Max)?,
                    "all_to_all" => group.all_to_all(data, input, DType::F32)?,
                    "broadcast" => group.broadcast(data, DType::F32, 0)?,
                    "all_gather" => group.all_gather(output, input, DType::F32)?,
                    _ => group.reduce_scatter(&mut output[..part], input, DType::F32, ReduceOp::Max)?,
                }
                times.push(start.elapsed());
            }
            times.sort_unstable();
            row += &format!("  {name} {:.2?} (least {:.2?})", times[SAMPLES / 2], times[0]);
        }
        if group.rank() == 0 {
            writeln!(std::io::stdout(), "{row}").map_err(failed)?;
        }
    }
    Ok(())
}

/// Memory as tensors have it, on huge pages, or on small ones. Stays until the end.
fn memory(bytes: usize, huge: bool) -> Result<&'static mut [u8]> {
    const PAGE: usize = 2 << 20;
    let (room, access) = (bytes.next_multiple_of(PAGE) + PAGE, ProtFlags::READ | ProtFlags::WRITE);
    let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
    // SAFETY: a fresh mapping at an address of the system's choice; the slice lies in it and nobody else has it.
    unsafe {
        let at = mmap_anonymous(std::ptr::null_mut(), room, access, MapFlags::PRIVATE).map_err(failed)?.cast::<u8>();
        let at = at.add(at.align_offset(PAGE));
        madvise(at.cast(), room - PAGE, advice).map_err(failed)?;
        let data = std::slice::from_raw_parts_mut(at, bytes);
        data.fill(1);
        Ok(data)
    }
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::runtime(e.to_string())
}
