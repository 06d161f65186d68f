//! Groups over GPUs on the emulated device, with the emulated NCCL: ranks are threads, each with a device of its own. Streams run
//! late and in an order that a seed chooses. Mistakes are planted as well, and found.

mod common;

use common::{BYTES, Rank, SEEDS, alone, on_ranks, reseed};
use oneflow_base::DType;
use oneflow_comm::{ReduceOp, Request, Span};
use oneflow_ep::queues::choose;
use oneflow_ep::{Copy, Provider};
use std::time::Duration;

/// The elements of a rank, small whole numbers of the dtype, so that every order of additions gives the same.
fn elements(dtype: DType, n: usize, rank: usize) -> Vec<u8> {
    let at = |i: usize| (i * 7 + rank * 3) % 5 + 1;
    let mut out = Vec::new();
    for i in 0..n {
        let x = at(i) as f32;
        match dtype {
            DType::F64 => out.extend(f64::from(x).to_le_bytes()),
            DType::F32 => out.extend(x.to_le_bytes()),
            DType::C64 => out.extend([x.to_le_bytes(), (x + 1.0).to_le_bytes()].concat()),
            DType::BF16 => out.extend(((x.to_bits() >> 16) as u16).to_le_bytes()),
            DType::I64 => out.extend((at(i) as i64).to_le_bytes()),
            DType::I32 => out.extend((at(i) as i32).to_le_bytes()),
            DType::Bool => out.push((at(i) % 2) as u8),
            _ => out.push(at(i) as u8),
        }
    }
    out
}

/// Runs a request over copies of `data` on the device, and over `data` on the host; both must end alike.
fn same_on_both(rank: &Rank, data: &[Vec<u8>], request: impl Fn(&[Span]) -> Request) {
    let mut here: Vec<Vec<u8>> = data.to_vec();
    let blocks: Vec<_> = data.iter().map(|bytes| rank.upload(bytes)).collect();
    let there: Vec<Span> = blocks.iter().zip(data).map(|(b, bytes)| Span { ptr: b.ptr, len: bytes.len() }).collect();
    // SAFETY: the blocks live until the queue that waits for the operation was read below.
    unsafe { rank.group.run(request(&there)).unwrap() };
    let spans: Vec<Span> = here.iter_mut().map(|bytes| Span::of_mut(bytes)).collect();
    let text = format!("{:?}", request(&spans));
    // SAFETY: the vectors live until the blocking call returns.
    unsafe { rank.host.run(request(&spans)).unwrap() };
    for (i, block) in blocks.into_iter().enumerate() {
        assert_eq!(rank.download(block, data[i].len()), here[i], "rank {}: {text}", rank.rank);
        rank.free(block);
    }
}

#[test]
fn collectives_are_those_of_the_host() {
    let Some(_alone) = alone() else { return };
    for seed in 1..=3 {
        reseed(seed);
        on_ranks(2, |rank| {
            use ReduceOp::*;
            let me = rank.rank;
            for dtype in [DType::F32, DType::F64, DType::BF16, DType::I64, DType::I32, DType::I8, DType::U8, DType::C64]
            {
                for op in [Sum, Avg, Product, Min, Max] {
                    if dtype == DType::C64 && matches!(op, Product | Min | Max) {
                        continue;
                    }
                    let data = [elements(dtype, 9, me)];
                    same_on_both(rank, &data, |s| Request::AllReduce { data: s[0], dtype, op });
                }
            }
            for op in [Sum, Product, Min, Max, BitAnd, BitOr] {
                let data = [elements(DType::Bool, 9, me)];
                same_on_both(rank, &data, |s| Request::AllReduce { data: s[0], dtype: DType::Bool, op });
            }
            let dtype = DType::F32;
            for root in 0..2 {
                let data = [elements(dtype, 5, me)];
                same_on_both(rank, &data, |s| Request::Broadcast { data: s[0], dtype, root });
                same_on_both(rank, &data, |s| Request::Reduce { data: s[0], dtype, op: Sum, root });
                let whole = |mine: bool| vec![0u8; if mine { 40 } else { 0 }];
                let data = [whole(me == root), elements(dtype, 5, me)];
                same_on_both(rank, &data, |s| Request::Gather { output: s[0], input: s[1], dtype, root });
                let all = if me == root { elements(dtype, 10, me) } else { Vec::new() };
                let data = [vec![0u8; 20], all];
                same_on_both(rank, &data, |s| Request::Scatter { output: s[0], input: s[1], dtype, root });
            }
            for counts in [[3, 3], [4, 1], [0, 2]] {
                let data = [vec![0u8; 4 * (counts[0] + counts[1])], elements(dtype, counts[me], me)];
                let counts = counts.to_vec();
                let gather = |s: &[Span]| (s[0], s[1], counts.clone());
                same_on_both(rank, &data, |s| {
                    let (output, input, counts) = gather(s);
                    Request::AllGather { output, input, counts, dtype }
                });
                let data = [vec![0u8; 4 * counts[me]], elements(dtype, counts[0] + counts[1], me)];
                same_on_both(rank, &data, |s| {
                    let (output, input, counts) = gather(s);
                    Request::ReduceScatter { output, input, counts, dtype, op: Sum }
                });
            }
            // Rank 0 sends 1 and 3 elements, rank 1 sends 0 and 2.
            let sent = [[1, 3], [0, 2]];
            let (send_counts, recv_counts) = (sent[me].to_vec(), vec![sent[0][me], sent[1][me]]);
            let data =
                [vec![0u8; 4 * recv_counts.iter().sum::<usize>()], elements(dtype, send_counts.iter().sum(), me)];
            same_on_both(rank, &data, |s| Request::AllToAll {
                output: s[0],
                recv_counts: recv_counts.clone(),
                input: s[1],
                send_counts: send_counts.clone(),
                dtype,
            });
            let data = [elements(dtype, 6, me)];
            same_on_both(rank, &data, |s| match me {
                0 => Request::Send { data: s[0], dtype, dst: 1, tag: 0 },
                _ => Request::Recv { data: s[0], dtype, src: 0, tag: 0 },
            });
            rank.group.barrier().unwrap();
        });
    }
}

#[test]
fn messages_of_a_batch_do_not_wait_for_each_other() {
    let Some(_alone) = alone() else { return };
    reseed(4);
    on_ranks(2, |rank| {
        let (mine, got) = (rank.filled(rank.rank as u8 + 1), rank.filled(0));
        let (dtype, peer) = (DType::U8, 1 - rank.rank);
        let requests = vec![
            Request::Send { data: span(mine.ptr), dtype, dst: peer, tag: 0 },
            Request::Recv { data: span(got.ptr), dtype, src: peer, tag: 0 },
        ];
        // SAFETY: the blocks live until they are read.
        let works = unsafe { rank.group.issue_all(requests) }.unwrap();
        works.iter().for_each(|work| work.wait(None).unwrap());
        assert_eq!(rank.read(got), Some(peer as u8 + 1));
        // What the other side does not send in this way is named.
        let tagged = Request::Send { data: span(mine.ptr), dtype, dst: peer, tag: 3 };
        // SAFETY: as above.
        let error = unsafe { rank.group.run(tagged) }.unwrap_err();
        assert!(error.text().contains("no tags"), "{error}");
    });
}

fn span(ptr: *mut u8) -> Span {
    Span { ptr, len: BYTES }
}

fn all_reduce(ptr: *mut u8) -> Request {
    Request::AllReduce { data: span(ptr), dtype: DType::U8, op: ReduceOp::Sum }
}

/// Runs a scenario on both ranks with several seeds; returns how often both came out right.
fn right(scenario: impl Fn(&Rank) -> bool + Sync) -> i64 {
    (1..=SEEDS)
        .filter(|seed| {
            reseed(*seed);
            on_ranks(2, &scenario).into_iter().all(|right| right)
        })
        .count() as i64
}

#[test]
fn a_collective_waits_for_its_producer_and_its_consumer_for_it() {
    let Some(_alone) = alone() else { return };
    let scenario = |orders: bool, waits: bool| {
        move |rank: &Rank| {
            let (x, y) = (rank.filled(0), rank.filled(0));
            rank.cuda.synchronize(rank.device.index).unwrap();
            // The producer comes late in its queue.
            (0..64).for_each(|_| rank.fill(y, 1));
            rank.fill(x, 3);
            let side = rank.cuda.new_queue(rank.device.index).unwrap();
            // The mistake: another queue than the producer's is the one that the collective waits for.
            choose(rank.device, (!orders).then_some(side));
            // SAFETY: the block lives until the device has done everything.
            let work = unsafe { rank.group.issue(all_reduce(x.ptr)) }.unwrap();
            choose(rank.device, None);
            if waits {
                work.wait(None).unwrap();
            }
            let seen = rank.read(x);
            work.wait_here(None).unwrap();
            rank.cuda.synchronize(rank.device.index).unwrap();
            let at_last = rank.read(x);
            rank.free(x);
            rank.free(y);
            seen == Some(6) && at_last == Some(6)
        }
    };
    assert_eq!(right(scenario(true, true)), SEEDS);
    assert!(right(scenario(false, true)) < SEEDS, "a collective that did not wait for its producer was not found");
    assert!(right(scenario(true, false)) < SEEDS, "a consumer that did not wait for the collective was not found");
}

#[test]
fn a_buffer_is_kept_until_the_collective_has_run() {
    let Some(_alone) = alone() else { return };
    let scenario = |kept: bool| {
        move |rank: &Rank| {
            let (x, y) = (rank.filled(1), rank.filled(0));
            let counts = vec![BYTES / 2; 2];
            let (input, output) = (Span { ptr: x.ptr, len: BYTES / 2 }, span(y.ptr));
            // SAFETY: the mistake is in the promise: the input is given back too early.
            let work =
                unsafe { rank.group.issue(Request::AllGather { output, input, counts, dtype: DType::U8 }) }.unwrap();
            if kept {
                work.wait(None).unwrap();
            }
            rank.free(x);
            // Whoever gets the memory next writes to it at once.
            let z = rank.filled(9);
            rank.cuda.synchronize_queue(rank.cuda.own_queue(rank.device.index)).unwrap();
            work.wait(None).unwrap();
            let seen = rank.read(y);
            rank.free(z);
            rank.free(y);
            seen == Some(1)
        }
    };
    assert_eq!(right(scenario(true)), SEEDS);
    assert!(right(scenario(false)) < SEEDS, "a buffer that was given back too early was not found");
}

#[test]
fn ranks_out_of_step_hear_which_operations() {
    let Some(_alone) = alone() else { return };
    reseed(5);
    let errors = on_ranks(2, |rank| {
        let x = rank.filled(1);
        let request = match rank.rank {
            0 => all_reduce(x.ptr),
            _ => Request::Broadcast { data: span(x.ptr), dtype: DType::U8, root: 0 },
        };
        // SAFETY: the block lives until the group has failed.
        let work = unsafe { rank.group.issue(request) }.unwrap();
        let error = work.wait_here(None).unwrap_err();
        // The failure is final, and who reads what the collective should have written hears of it.
        // SAFETY: as above.
        let later = unsafe { rank.group.issue(all_reduce(x.ptr)) }.err().unwrap();
        assert!(later.text().contains("#1 all_reduce"), "{later}");
        error.text().to_owned()
    });
    for (rank, kind) in ["all_reduce", "broadcast"].into_iter().enumerate() {
        let words = format!("#0 {kind}(uint8, {BYTES} elements");
        assert!(errors[rank].contains(&words) && errors[rank].contains(&format!("on rank {rank} of")), "{errors:?}");
    }
    assert!(errors.iter().any(|e| e.contains("AllReduce") && e.contains("Broadcast")), "{errors:?}");
}

#[test]
fn who_waits_in_vain_is_told_for_what() {
    let Some(_alone) = alone() else { return };
    reseed(6);
    let errors = on_ranks(2, |rank| {
        let x = rank.filled(1);
        rank.group.barrier().unwrap();
        if rank.rank == 1 {
            // Does not come. It hears of the failure when it issues something.
            while rank.host.failure().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }
            // SAFETY: the block lives until the group has failed.
            return unsafe { rank.group.issue(all_reduce(x.ptr)) }.err().unwrap().text().to_owned();
        }
        rank.host.set_timeout(Duration::from_millis(300));
        // SAFETY: as above.
        let work = unsafe { rank.group.issue(all_reduce(x.ptr)) }.unwrap();
        // Only the queue waits: the host goes on, and hears when it reads.
        work.wait(None).unwrap();
        let mut bytes = [0u8; 8];
        let queue = rank.cuda.own_queue(rank.device.index);
        // SAFETY: the block and the array hold the bytes.
        let read = unsafe { rank.cuda.copy(queue, Copy::DeviceToHost, bytes.as_mut_ptr(), x.ptr, 8) };
        let error = read.unwrap_err().text().to_owned();
        assert_eq!(work.test().unwrap().unwrap_err().text(), error);
        error
    });
    for error in &errors {
        assert!(error.contains("#1 all_reduce(uint8") && error.contains("on rank 0 of"), "{errors:?}");
        assert!(error.contains("timed out after"), "{errors:?}");
    }
    assert!(errors[1].contains("rank 0 aborted"), "{errors:?}");
}

#[test]
fn an_abort_ends_what_is_under_way() {
    let Some(_alone) = alone() else { return };
    reseed(7);
    on_ranks(2, |rank| {
        let x = rank.filled(1);
        rank.group.barrier().unwrap();
        if rank.rank == 0 {
            // SAFETY: the block lives until the group has failed.
            let work = unsafe { rank.group.issue(all_reduce(x.ptr)) }.unwrap();
            assert!(work.test().is_none());
            rank.group.abort("planted");
            let error = work.test().unwrap().unwrap_err();
            assert!(error.text().contains("#1 all_reduce") && error.text().contains("planted"), "{error}");
            // The device is not stuck: nobody's queue had waited for the operation.
            rank.cuda.synchronize(rank.device.index).unwrap();
        }
        while rank.host.failure().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn two_ranks_on_one_gpu_are_refused_by_name() {
    let Some(_alone) = alone() else { return };
    reseed(8);
    let errors = common::on_devices(&[0, 0], |rank| rank.group.barrier().unwrap_err().text().to_owned());
    for error in errors {
        assert!(error.contains("Duplicate GPU detected") && error.contains("set_device(local_rank)"), "{error}");
    }
}
