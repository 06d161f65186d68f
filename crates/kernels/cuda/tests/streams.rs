//! What depends on the order of streams, on the emulated driver, which does work late and in an order that a seed chooses. Each
//! mistake is planted as well, and found.

mod common;

use common::emulator;
use oneflow_base::{Device, DeviceType};
use oneflow_ep::cuda::{self, Cuda};
use oneflow_ep::queues::{Chosen, choose, switch};
use oneflow_ep::{Block, Copy, Provider, Queue};
use std::sync::MutexGuard;

fn start() -> Option<(&'static Cuda, MutexGuard<'static, ()>)> {
    let alone = emulator::alone()?;
    Some((cuda::provider().unwrap(), alone))
}

const BYTES: usize = 4096;
const SEEDS: i64 = 12;

fn fill(cuda: &Cuda, queue: Queue, block: Block, value: u8) {
    // SAFETY: the block holds the bytes.
    unsafe { cuda.memset(queue, block.ptr, value, BYTES).unwrap() }
}

fn copy(cuda: &Cuda, queue: Queue, to: Block, from: Block) {
    // SAFETY: both blocks hold the bytes.
    unsafe { cuda.copy(queue, Copy::DeviceToDevice, to.ptr, from.ptr, BYTES).unwrap() }
}

/// The one value of all bytes; `None` where they differ.
fn read(cuda: &Cuda, queue: Queue, block: Block) -> Option<u8> {
    let mut bytes = vec![0u8; BYTES];
    // SAFETY: the block and the vector hold the bytes.
    unsafe { cuda.copy(queue, Copy::DeviceToHost, bytes.as_mut_ptr(), block.ptr, BYTES).unwrap() }
    bytes.iter().all(|b| *b == bytes[0]).then_some(bytes[0])
}

/// Runs a scenario with several seeds and returns how often it came out right.
fn right(scenario: impl Fn() -> bool) -> i64 {
    (1..=SEEDS)
        .filter(|seed| {
            emulator::reseed(*seed);
            scenario()
        })
        .count() as i64
}

#[test]
fn a_block_that_another_stream_reads_is_kept_for_it() {
    let Some((cuda, _alone)) = start() else { return };
    let (own, side) = (cuda.own_queue(0), cuda.new_queue(0).unwrap());
    let scenario = |recorded: bool| {
        let (x, y) = (cuda.alloc(0, BYTES).unwrap(), cuda.alloc_on(side, BYTES).unwrap());
        fill(cuda, own, x, 7);
        cuda.order(own, side).unwrap();
        copy(cuda, side, y, x);
        if recorded {
            cuda.record_use(0, x, side);
        }
        cuda.free_on(own, x);
        // Whoever gets the memory next writes to it at once.
        let z = cuda.alloc(0, BYTES).unwrap();
        fill(cuda, own, z, 9);
        cuda.synchronize_queue(own).unwrap();
        let seen = read(cuda, side, y);
        cuda.free_on(own, z);
        cuda.free_on(side, y);
        cuda.synchronize(0).unwrap();
        seen == Some(7)
    };
    assert_eq!(right(|| scenario(true)), SEEDS);
    assert!(right(|| scenario(false)) < SEEDS, "a use that nobody recorded was not found");
}

#[test]
fn a_block_freed_on_another_stream_leaves_when_that_is_done() {
    let Some((cuda, _alone)) = start() else { return };
    let (own, side) = (cuda.own_queue(0), cuda.new_queue(0).unwrap());
    let scenario = || {
        let (x, y) = (cuda.alloc(0, BYTES).unwrap(), cuda.alloc_on(side, BYTES).unwrap());
        fill(cuda, own, x, 7);
        cuda.order(own, side).unwrap();
        copy(cuda, side, y, x);
        let before = cuda.memory(0).0;
        cuda.free_on(side, x);
        assert!(cuda.memory(0).0 < before, "counted as free at once");
        let z = cuda.alloc(0, BYTES).unwrap();
        fill(cuda, own, z, 9);
        cuda.synchronize_queue(own).unwrap();
        let seen = read(cuda, side, y);
        cuda.free_on(own, z);
        cuda.free_on(side, y);
        cuda.synchronize(0).unwrap();
        seen == Some(7)
    };
    assert_eq!(right(scenario), SEEDS);
    // What has left is handed out again.
    let held = cuda.memory(0).1;
    for _ in 0..2000 {
        let x = cuda.alloc(0, 1 << 19).unwrap();
        cuda.free_on(side, x);
        cuda.synchronize(0).unwrap();
    }
    assert!(cuda.memory(0).1 - held <= 4 << 20, "{} bytes more", cuda.memory(0).1 - held);
}

#[test]
fn memory_that_is_leaving_is_waited_for_before_there_is_none() {
    let Some((cuda, _alone)) = start() else { return };
    emulator::reseed(1);
    cuda.trim(0);
    let side = cuda.new_queue(0).unwrap();
    // Most of the emulated device's four gigabytes, twice.
    let x = cuda.alloc(0, 3 << 30).unwrap();
    fill(cuda, side, x, 1);
    cuda.free_on(side, x);
    let y = cuda.alloc(0, 3 << 30).unwrap();
    cuda.free_on(cuda.own_queue(0), y);
    cuda.trim(0);
    let too_much = cuda.alloc(0, 5 << 30).unwrap_err();
    assert!(too_much.text().contains("5.00 GiB"), "{}", too_much.text());
}

#[test]
fn copies_between_devices_wait_for_both() {
    let Some((cuda, _alone)) = start() else { return };
    let (a, b) = (cuda.own_queue(0), cuda.own_queue(1));
    let (x, y) = (cuda.alloc(0, BYTES).unwrap(), cuda.alloc(1, BYTES).unwrap());
    let scenario = || {
        fill(cuda, a, x, 1);
        cuda.synchronize(0).unwrap();
        fill(cuda, a, x, 7);
        copy(cuda, b, y, x);
        // Not before the copy.
        fill(cuda, a, x, 9);
        cuda.synchronize(0).unwrap();
        read(cuda, b, y) == Some(7)
    };
    assert_eq!(right(scenario), SEEDS);
    // The same copy on one device: between two of its streams nobody orders it.
    let side = cuda.new_queue(0).unwrap();
    let z = cuda.alloc(0, BYTES).unwrap();
    let planted = || {
        fill(cuda, a, x, 7);
        copy(cuda, side, z, x);
        fill(cuda, a, x, 9);
        cuda.synchronize(0).unwrap();
        read(cuda, side, z) == Some(7)
    };
    assert!(right(planted) < SEEDS, "a copy that did not wait was not found");
}

#[test]
fn a_switch_of_queues_keeps_the_order() {
    let Some((cuda, _alone)) = start() else { return };
    let device = Device::new(DeviceType::CUDA, 0);
    let side = cuda.new_queue(0).unwrap();
    let (x, y) = (cuda.alloc(0, BYTES).unwrap(), cuda.alloc(0, BYTES).unwrap());
    let none = Chosen::now();
    choose(device, Some(side));
    let on_side = Chosen::now();
    choose(device, None);
    let scenario = |ordered: bool| {
        fill(cuda, cuda.queue(0), x, 7);
        if ordered {
            switch(&on_side).unwrap()
        } else {
            choose(device, Some(side))
        }
        assert_eq!(cuda.queue(0).raw, side.raw);
        copy(cuda, cuda.queue(0), y, x);
        if ordered {
            switch(&none).unwrap()
        } else {
            choose(device, None)
        }
        fill(cuda, cuda.queue(0), x, 9);
        cuda.synchronize(0).unwrap();
        read(cuda, side, y) == Some(7)
    };
    assert_eq!(right(|| scenario(true)), SEEDS);
    assert!(right(|| scenario(false)) < SEEDS, "work that changed its stream unordered was not found");
}

#[test]
fn events_are_not_done_before_their_work() {
    let Some((cuda, _alone)) = start() else { return };
    let own = cuda.own_queue(0);
    let x = cuda.alloc(0, BYTES).unwrap();
    let mut early = 0;
    for seed in 1..=SEEDS {
        emulator::reseed(seed);
        fill(cuda, own, x, seed as u8);
        let event = cuda.record(own).unwrap();
        early += u32::from(!event.is_done().unwrap());
        // Whoever asks often enough sees it done.
        assert!((0..10_000).any(|_| event.is_done().unwrap()));
        assert_eq!(read(cuda, own, x), Some(seed as u8));
    }
    assert!(early > 0, "the emulated driver does work before anybody waits");
}
