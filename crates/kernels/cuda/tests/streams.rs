//! What depends on the order of streams, on the emulated driver, which does work late and in an order that a seed chooses. Each
//! mistake is planted as well, and found.

mod common;

use common::emulator;
use oneflow_base::{Device, DeviceType};
use oneflow_ep::cuda::{self, BlockState, Cuda, Kind, SegmentInfo};
use oneflow_ep::queues::{Chosen, choose, switch};
use oneflow_ep::{Block, Copy, Pinned, Provider, Queue};
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

/// A buffer of pinned memory.
fn pinned(cuda: &Cuda) -> Pinned {
    cuda.pinned(BYTES).unwrap()
}

/// Writes a buffer of the host.
fn write(buffer: &Pinned, value: u8) {
    // SAFETY: the buffer holds the bytes.
    unsafe { std::ptr::write_bytes(buffer.ptr, value, BYTES) }
}

fn send(cuda: &Cuda, queue: Queue, to: Block, from: *const u8) {
    // SAFETY: both hold the bytes.
    unsafe { cuda.copy_async(queue, Copy::HostToDevice, to.ptr, from, BYTES).unwrap() }
}

#[test]
fn copies_from_pinned_memory_are_done_later_and_the_buffer_is_kept_for_them() {
    let Some((cuda, _alone)) = start() else { return };
    let own = cuda.own_queue(0);
    let x = cuda.alloc(0, BYTES).unwrap();
    let scenario = |kept: bool| {
        let buffer = pinned(cuda);
        write(&buffer, 7);
        send(cuda, own, x, buffer.ptr);
        // Whoever asks for a buffer gets one at once, and writes to it; the planted mistake writes to the one that is being read.
        let next = if kept {
            drop(buffer);
            pinned(cuda)
        } else {
            buffer
        };
        write(&next, 9);
        read(cuda, own, x) == Some(7)
    };
    assert_eq!(right(|| scenario(true)), SEEDS);
    let n = right(|| scenario(false));
    assert!(n < SEEDS, "a buffer that was used again too early was not found");
    // What is free again is handed out again: the pool does not grow.
    let held = cuda.pinned_bytes().0;
    for _ in 0..100 {
        let buffer = pinned(cuda);
        send(cuda, own, x, buffer.ptr);
        drop(buffer);
        cuda.synchronize(0).unwrap();
    }
    assert_eq!(cuda.pinned_bytes().0, held);
    cuda.trim(0);
    assert!(cuda.pinned_bytes().0 < held);
}

#[test]
fn copies_of_pageable_memory_are_done_when_they_return() {
    let Some((cuda, _alone)) = start() else { return };
    let own = cuda.own_queue(0);
    let x = cuda.alloc(0, BYTES).unwrap();
    let scenario = || {
        let mut bytes = vec![7u8; BYTES];
        send(cuda, own, x, bytes.as_ptr());
        bytes.fill(9);
        let there = read(cuda, own, x) == Some(7);
        // SAFETY: both hold the bytes.
        unsafe { cuda.copy_async(own, Copy::DeviceToHost, bytes.as_mut_ptr(), x.ptr, BYTES).unwrap() };
        there && bytes.iter().all(|b| *b == 7)
    };
    assert_eq!(right(scenario), SEEDS);
}

#[test]
fn copies_to_pinned_memory_are_there_after_a_wait_alone() {
    let Some((cuda, _alone)) = start() else { return };
    let own = cuda.own_queue(0);
    let x = cuda.alloc(0, BYTES).unwrap();
    let scenario = |waits: bool| {
        let buffer = pinned(cuda);
        assert!(cuda.is_pinned(buffer.ptr) && !cuda.is_pinned((&raw const waits).cast()));
        write(&buffer, 1);
        fill(cuda, own, x, 7);
        // SAFETY: both hold the bytes.
        unsafe { cuda.copy_async(own, Copy::DeviceToHost, buffer.ptr, x.ptr, BYTES).unwrap() };
        if waits {
            cuda.synchronize_queue(own).unwrap();
        }
        // SAFETY: as above.
        let seen = unsafe { std::slice::from_raw_parts(buffer.ptr, BYTES) }.iter().all(|b| *b == 7);
        cuda.synchronize(0).unwrap();
        seen
    };
    assert_eq!(right(|| scenario(true)), SEEDS);
    assert!(right(|| scenario(false)) < SEEDS, "a read before the copy was done was not found");
}

#[test]
fn the_allocator_s_counts_agree_with_its_segments() {
    let Some((cuda, _alone)) = start() else { return };
    emulator::reseed(5);
    let (own, side) = (cuda.own_queue(0), cuda.new_queue(0).unwrap());
    let mut held: Vec<(Block, usize)> = Vec::new();
    let mut state = 1u64;
    let mut draw = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let before = cuda.memory_stats(0).all(Kind::RequestedBytes).current;
    for step in 0..600 {
        if held.is_empty() || draw(5) < 3 {
            let bytes = if draw(2) == 0 { draw(4000) + 1 } else { draw(24 << 20) + 1 };
            held.push((cuda.alloc_on(if draw(2) == 0 { own } else { side }, bytes).unwrap(), bytes));
        } else {
            let (block, _) = held.swap_remove(draw(held.len()));
            // Half of them leave by way of another stream.
            cuda.free_on(if draw(2) == 0 { own } else { side }, block);
        }
        if step % 50 != 0 {
            continue;
        }
        let (stats, segments) = (cuda.memory_stats(0), cuda.memory_snapshot(0));
        let blocks = || segments.iter().flat_map(|s| s.blocks.iter().map(move |b| (s, b)));
        let sum = |of: &dyn Fn(BlockState) -> bool, small: Option<bool>| -> (u64, u64) {
            let found = blocks().filter(|(s, b)| of(b.state) && small.is_none_or(|small| s.is_small == small));
            found.fold((0, 0), |(n, bytes), (_, b)| (n + 1, bytes + b.bytes as u64))
        };
        for (at, small) in [None, Some(true), Some(false)].into_iter().enumerate() {
            let now = |kind| stats.of(kind)[at].current;
            let pair = |n, bytes| (now(n), now(bytes));
            assert_eq!(pair(Kind::Allocation, Kind::AllocatedBytes), sum(&|s| s == BlockState::Allocated, small));
            assert_eq!(pair(Kind::Active, Kind::ActiveBytes), sum(&|s| s != BlockState::Free, small));
            let of = segments.iter().filter(|s| small.is_none_or(|small| s.is_small == small));
            let whole = |s: &SegmentInfo| s.blocks.iter().map(|b| b.bytes as u64).sum::<u64>();
            assert_eq!(
                pair(Kind::Segment, Kind::ReservedBytes),
                of.clone().fold((0, 0), |(n, b), s| (n + 1, b + whole(s)))
            );
            let splits = of.flat_map(|s| s.blocks.iter().filter(|b| s.blocks.len() > 1 && b.state == BlockState::Free));
            let expected = splits.fold((0, 0), |(n, bytes), b| (n + 1, bytes + b.bytes as u64));
            assert_eq!(pair(Kind::InactiveSplit, Kind::InactiveSplitBytes), expected);
        }
        for (_, s) in stats.table() {
            assert!(s.iter().all(|s| s.allocated - s.freed == s.current && s.peak >= s.current));
        }
        let asked: usize = held.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(stats.all(Kind::RequestedBytes).current - before, asked as u64);
    }
    held.into_iter().for_each(|(block, _)| cuda.free_on(own, block));
    cuda.synchronize(0).unwrap();
    cuda.reset_memory_stats(0, true, true);
    let stats = cuda.memory_stats(0);
    let n = stats.all(Kind::AllocatedBytes);
    assert!(n.peak == n.current && n.allocated == 0 && n.freed == 0);
}

#[test]
fn an_allocator_keeps_to_its_share_and_goes_on() {
    let Some((cuda, _alone)) = start() else { return };
    emulator::reseed(1);
    cuda.synchronize(0).unwrap();
    cuda.trim(0);
    cuda.set_memory_fraction(0, 0.5).unwrap();
    let n = cuda.memory_stats(0).n_out_of_memory;
    let refused = cuda.alloc(0, 3 << 30).unwrap_err();
    assert!(refused.text().contains("3.00 GiB") && refused.text().contains("at most 2.00 GiB"), "{}", refused.text());
    assert_eq!((cuda.memory_stats(0).n_out_of_memory, cuda.memory_fraction(0).unwrap()), (n + 1, 0.5));
    let fits = cuda.alloc(0, 1 << 30).unwrap();
    cuda.free_on(cuda.own_queue(0), fits);
    cuda.set_memory_fraction(0, 1.0).unwrap();
    let whole = cuda.alloc(0, 3 << 30).unwrap();
    cuda.free_on(cuda.own_queue(0), whole);
    cuda.trim(0);
}
