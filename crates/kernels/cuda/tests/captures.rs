//! Captured graphs on the emulated driver: what they replay, what a capture forbids, and where their memory comes from. A graph's
//! nodes run in any order that their dependencies allow, so what nobody ordered shows.

mod common;

use common::emulator;
use oneflow_ep::cuda::graph::{Capture, Graph, Mode};
use oneflow_ep::cuda::{self, Cuda};
use oneflow_ep::{Block, Copy, Provider, Queue};
use std::sync::MutexGuard;

const BYTES: usize = 4096;
const SEEDS: i64 = 12;
const STILL: Option<[u64; 3]> = None;

fn start() -> Option<(&'static Cuda, MutexGuard<'static, ()>)> {
    let alone = emulator::alone()?;
    Some((cuda::provider().unwrap(), alone))
}

fn fill(cuda: &Cuda, queue: Queue, block: Block, value: u8) {
    // SAFETY: the block holds the bytes.
    unsafe { cuda.memset(queue, block.ptr, value, BYTES).unwrap() }
}

fn copy(cuda: &Cuda, queue: Queue, to: Block, from: Block) {
    // SAFETY: both blocks hold the bytes.
    unsafe { cuda.copy(queue, Copy::DeviceToDevice, to.ptr, from.ptr, BYTES).unwrap() }
}

fn read(cuda: &Cuda, queue: Queue, block: Block) -> u8 {
    let mut bytes = vec![0u8; BYTES];
    // SAFETY: the block and the vector hold the bytes.
    unsafe { cuda.copy(queue, Copy::DeviceToHost, bytes.as_mut_ptr(), block.ptr, BYTES).unwrap() }
    assert!(bytes.iter().all(|b| *b == bytes[0]));
    bytes[0]
}

fn begin(cuda: &'static Cuda, queue: Queue) -> Capture {
    cuda.begin_capture(queue, cuda.new_private_pool(), Mode::Global, None).unwrap()
}

#[test]
fn a_graph_does_its_work_when_it_is_launched_and_as_often() {
    let Some((cuda, _alone)) = start() else { return };
    let (own, side) = (cuda.own_queue(0), cuda.new_queue(0).unwrap());
    let (x, y) = (cuda.alloc_on(side, BYTES).unwrap(), cuda.alloc_on(side, BYTES).unwrap());
    for seed in 1..=SEEDS {
        emulator::reseed(seed);
        fill(cuda, side, y, 0);
        cuda.synchronize(0).unwrap();
        let capture = begin(cuda, side);
        copy(cuda, side, y, x);
        let mut graph = capture.end().unwrap();
        fill(cuda, side, x, 7);
        assert_eq!((read(cuda, side, y), graph.n_nodes().unwrap(), graph.draws()), (0, 1, false));
        let before = emulator::launches();
        for value in [7, 8] {
            fill(cuda, own, x, value);
            graph.launch(own, STILL).unwrap();
            assert_eq!(read(cuda, own, y), value);
        }
        assert_eq!(emulator::launches() - before, 2);
        cuda.synchronize(0).unwrap();
    }
}

/// A fork to another stream and back; without the second order the graph would read what nobody has written yet.
fn forked(cuda: &'static Cuda, ordered: bool) -> Option<Graph> {
    let (side, other) = (cuda.new_queue(0).unwrap(), cuda.new_queue(0).unwrap());
    let [x, y, z] = [(); 3].map(|()| cuda.alloc_on(side, BYTES).unwrap());
    fill(cuda, side, x, 7);
    fill(cuda, side, y, 1);
    cuda.synchronize(0).unwrap();
    let capture = begin(cuda, side);
    cuda.order(side, other).unwrap();
    copy(cuda, other, y, x);
    if ordered {
        cuda.order(other, side).unwrap();
    }
    copy(cuda, side, z, y);
    if !ordered {
        cuda.order(other, side).unwrap();
    }
    let mut graph = capture.end().unwrap();
    graph.launch(side, STILL).unwrap();
    let seen = read(cuda, side, z);
    cuda.synchronize(0).unwrap();
    (seen == 7).then_some(graph)
}

#[test]
fn streams_that_fork_and_join_are_captured_in_their_order() {
    let Some((cuda, _alone)) = start() else { return };
    let right = |ordered: bool| {
        (1..=SEEDS)
            .filter(|seed| {
                emulator::reseed(*seed);
                forked(cuda, ordered).is_some()
            })
            .count() as i64
    };
    assert_eq!(right(true), SEEDS);
    assert!(right(false) < SEEDS, "an order that the graph does not have was not found");
}

#[test]
fn what_a_capture_forbids_ends_it_and_is_named() {
    let Some((cuda, _alone)) = start() else { return };
    emulator::reseed(3);
    let (own, side) = (cuda.own_queue(0), cuda.new_queue(0).unwrap());
    let x = cuda.alloc_on(side, BYTES).unwrap();
    let outside = cuda.record(own).unwrap();
    type Forbidden<'a> = (&'a str, Box<dyn Fn() -> Result<(), oneflow_base::Error> + 'a>);
    let cases: [Forbidden<'_>; 5] = [
        ("synchronize", Box::new(|| cuda.synchronize_queue(side))),
        ("synchronize", Box::new(|| cuda.synchronize(0))),
        ("query event", Box::new(|| outside.is_done().map(|_| ()))),
        ("wait for event", Box::new(|| cuda.wait(side, &outside))),
        (
            "copy DeviceToHost",
            Box::new(|| {
                let mut bytes = vec![0u8; BYTES];
                // SAFETY: both hold the bytes.
                unsafe { cuda.copy(side, Copy::DeviceToHost, bytes.as_mut_ptr(), x.ptr, BYTES) }
            }),
        ),
    ];
    for (name, call) in &cases {
        let capture = begin(cuda, side);
        let refused = call().unwrap_err();
        assert!(refused.text().contains(name) && refused.text().contains("CAPTURE"), "{name}: {}", refused.text());
        let ended = capture.end().err().unwrap();
        assert!(ended.text().contains("end capture") && ended.text().contains(name), "{name}: {}", ended.text());
        // The stream and the device go on.
        fill(cuda, side, x, 5);
        assert_eq!(read(cuda, side, x), 5);
    }
    // A stream that never comes back.
    let capture = begin(cuda, side);
    let other = cuda.new_queue(0).unwrap();
    cuda.order(side, other).unwrap();
    fill(cuda, other, x, 1);
    assert!(capture.end().err().unwrap().text().contains("UNJOINED"));
    // The device's own stream, and a second capture of one that is captured.
    assert!(cuda.begin_capture(own, 0, Mode::Global, None).err().unwrap().text().contains("non-default stream"));
    let capture = begin(cuda, side);
    assert!(cuda.begin_capture(side, 0, Mode::Global, None).err().unwrap().text().contains("captured already"));
    drop(capture);
    assert!(!cuda.is_capturing(side));
}

#[test]
fn memory_of_a_graph_is_its_own_until_it_is_gone() {
    let Some((cuda, _alone)) = start() else { return };
    emulator::reseed(2);
    let (own, side) = (cuda.own_queue(0), cuda.new_queue(0).unwrap());
    let bytes = 30 << 20;
    // A free block of the size lies ready, outside of the pool.
    let ready = cuda.alloc_on(side, bytes).unwrap();
    cuda.free_on(side, ready);
    let held = cuda.memory(0).1;
    let capture = begin(cuda, side);
    let inside = cuda.alloc_on(side, bytes).unwrap();
    assert_ne!(inside.ptr, ready.ptr);
    assert_eq!(cuda.alloc_on(own, 64).unwrap().bytes, 512, "other streams allocate as ever");
    // SAFETY: the block holds the bytes.
    unsafe { cuda.memset(side, inside.ptr, 7, bytes).unwrap() };
    cuda.free_on(side, inside);
    let again = cuda.alloc_on(side, bytes).unwrap();
    assert_eq!(again.ptr, inside.ptr, "the pool hands out what was freed in order");
    cuda.free_on(side, again);
    let mut graph = capture.end().unwrap();
    let after = cuda.alloc_on(side, bytes).unwrap();
    assert_eq!(after.ptr, ready.ptr, "after the capture the stream's own pool serves");
    cuda.trim(0);
    let pool = cuda.memory_snapshot(0).into_iter().find(|s| s.address == inside.ptr as usize).unwrap();
    assert!(pool.private_pool != 0 && !pool.is_small);
    graph.launch(side, STILL).unwrap();
    cuda.synchronize(0).unwrap();
    drop(graph);
    cuda.free_on(side, after);
    cuda.trim(0);
    assert!(cuda.memory_snapshot(0).iter().all(|s| s.private_pool == 0));
    assert!(cuda.memory(0).1 < held);
}

#[test]
fn a_block_that_another_stream_used_is_given_back_after_the_capture() {
    let Some((cuda, _alone)) = start() else { return };
    let (own, side) = (cuda.own_queue(0), cuda.new_queue(0).unwrap());
    for seed in 1..=SEEDS {
        emulator::reseed(seed);
        let x = cuda.alloc(0, BYTES).unwrap();
        fill(cuda, own, x, 1);
        cuda.record_use(0, x, side);
        let capture = begin(cuda, side);
        // No event may be recorded for the captured stream now.
        cuda.free_on(own, x);
        let y = cuda.alloc(0, BYTES).unwrap();
        assert_ne!(x.ptr, y.ptr);
        capture.end().unwrap();
        cuda.free_on(own, y);
        cuda.synchronize(0).unwrap();
        cuda.trim(0);
        let stats = cuda.memory_stats(0);
        assert_eq!(stats.all(cuda::Kind::Active).current, stats.all(cuda::Kind::Allocation).current);
    }
}

#[test]
fn kernels_of_a_graph_see_how_far_random_numbers_have_moved() {
    let Some((cuda, _alone)) = start() else { return };
    let (own, side) = (cuda.own_queue(0), cuda.new_queue(0).unwrap());
    let words = |block: Block| -> [u64; 3] {
        let mut words = [0u64; 3];
        // SAFETY: both hold three words.
        unsafe { cuda.copy(own, Copy::DeviceToHost, words.as_mut_ptr().cast(), block.ptr, 24).unwrap() };
        words
    };
    assert!(cuda.drawn(own).is_null());
    for seed in 1..=SEEDS {
        emulator::reseed(seed);
        let y = cuda.alloc(0, BYTES).unwrap();
        let read_words = |queue: Queue| {
            let from = cuda.drawn(queue);
            // SAFETY: the words are on the device, as the block is.
            unsafe { cuda.copy(queue, Copy::DeviceToDevice, y.ptr, from.cast(), 24).unwrap() };
        };
        let capture = begin(cuda, side);
        read_words(side);
        let drawn = capture.drawn().clone();
        let mut graph = capture.end().unwrap();
        assert!(graph.draws());
        // One that follows sees the words of the other's last launch.
        let capture = cuda.begin_capture(side, cuda.new_private_pool(), Mode::Global, Some(drawn)).unwrap();
        read_words(side);
        let mut follower = capture.end().unwrap();
        for k in 1..4 {
            graph.launch(own, Some([k, 5, 6])).unwrap();
            assert_eq!(words(y), [k, 5, 6], "seed {seed}");
            fill(cuda, own, y, 0);
            follower.launch(own, None).unwrap();
            assert_eq!(words(y), [k, 5, 6], "seed {seed}");
        }
        cuda.synchronize(0).unwrap();
        cuda.free_on(own, y);
    }
}
