//! Expandable segments on the emulated driver, whose virtual memory unmaps without waiting for anybody.

mod common;

use common::emulator;
use oneflow_ep::cuda::{self, Cuda, Kind};
use oneflow_ep::{Block, Copy, Provider, Queue};
use std::sync::MutexGuard;

const MIB: usize = 1 << 20;

fn start() -> Option<(&'static Cuda, MutexGuard<'static, ()>)> {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: before the provider is opened; every test of this file starts here, and the others wait.
    ONCE.call_once(|| unsafe { std::env::set_var("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True") });
    let alone = emulator::alone()?;
    emulator::reseed(3);
    Some((cuda::provider().unwrap(), alone))
}

/// Fills a block and reads it back.
fn works(cuda: &Cuda, queue: Queue, block: Block, bytes: usize, value: u8) {
    let mut seen = vec![0u8; bytes];
    // SAFETY: the block and the vector hold the bytes.
    unsafe {
        cuda.memset(queue, block.ptr, value, bytes).unwrap();
        cuda.copy(queue, Copy::DeviceToHost, seen.as_mut_ptr(), block.ptr, bytes).unwrap();
    }
    assert!(seen.iter().all(|b| *b == value));
}

#[test]
fn a_pool_grows_at_its_end_and_takes_the_free_end_along() {
    let Some((cuda, _alone)) = start() else { return };
    let own = cuda.own_queue(0);
    let mut first = None;
    for (step, mib) in [30, 50, 70, 90].into_iter().enumerate() {
        let x = cuda.alloc(0, mib * MIB).unwrap();
        assert_eq!(*first.get_or_insert(x.ptr), x.ptr);
        works(cuda, own, x, mib * MIB, step as u8);
        cuda.free_on(own, x);
    }
    // Whole granules of the largest size, where segments of their own would hold 240 MiB.
    assert_eq!(cuda.memory(0).1, 100 * MIB);
    let segments = cuda.memory_snapshot(0);
    assert!(segments.len() == 1 && segments[0].is_expandable);
    assert_eq!(cuda.memory_stats(0).all(Kind::Segment).current, 1);
    // What is in use keeps what lies before it.
    let (x, y) = (cuda.alloc(0, 30 * MIB).unwrap(), cuda.alloc(0, 30 * MIB).unwrap());
    cuda.free_on(own, x);
    cuda.trim(0);
    assert_eq!(cuda.memory(0).1, 60 * MIB);
    works(cuda, own, y, 30 * MIB, 7);
    cuda.free_on(own, y);
    cuda.trim(0);
    assert_eq!((cuda.memory(0), cuda.memory_snapshot(0).len()), ((0, 0), 0));
    let again = cuda.alloc(0, 10 * MIB).unwrap();
    works(cuda, own, again, 10 * MIB, 9);
    cuda.free_on(own, again);
    cuda.trim(0);
}

#[test]
fn memory_is_unmapped_when_the_work_that_uses_it_is_done() {
    let Some((cuda, _alone)) = start() else { return };
    let side = cuda.new_queue(0).unwrap();
    for seed in 1..=12 {
        emulator::reseed(seed);
        let x = cuda.alloc_on(side, 40 * MIB).unwrap();
        // SAFETY: the block holds the bytes.
        unsafe { cuda.memset(side, x.ptr, 1, 40 * MIB).unwrap() };
        cuda.free_on(side, x);
        // Work that came later than its memory's end would end the process.
        cuda.trim(0);
        cuda.synchronize(0).unwrap();
    }
    assert_eq!(cuda.memory(0).1, 0);
}

#[test]
fn pools_leave_memory_to_each_other_before_there_is_none() {
    let Some((cuda, _alone)) = start() else { return };
    let (own, side) = (cuda.own_queue(0), cuda.new_queue(0).unwrap());
    // Most of the emulated device's four gigabytes, on one stream and then on another.
    let x = cuda.alloc_on(own, 3 << 30).unwrap();
    cuda.free_on(own, x);
    let y = cuda.alloc_on(side, 3 << 30).unwrap();
    let refused = cuda.alloc_on(own, 2 << 30).unwrap_err();
    assert!(refused.text().contains("2.00 GiB"), "{}", refused.text());
    // What was mapped before the refusal was given back.
    let fits = cuda.alloc_on(own, 900 * MIB).unwrap();
    works(cuda, own, fits, MIB, 3);
    cuda.free_on(own, fits);
    cuda.free_on(side, y);
    cuda.trim(0);
    assert_eq!(cuda.memory(0), (0, 0));
}
