//! The fake backend: ranks are threads.

mod common;

use std::time::{Duration, Instant};

use common::{MIXED_ROOTS, ROOTED, check_all, with_root};
use oneflow_base::{DType, Error};
use oneflow_comm::fake::{groups, run_ranks, single};
use oneflow_comm::{ANY_RANK, Purpose, ReduceOp, Request, Span, world};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn every_operation_on_one_to_four_ranks() {
    for n in 1..=4 {
        for (rank, result) in run_ranks(n, LONG, |group| check_all(&*group)).into_iter().enumerate() {
            result.unwrap_or_else(|e| panic!("rank {rank} of {n}: {e}"));
        }
    }
}

#[test]
fn the_world_is_the_thread_s_group() {
    assert_eq!((world().rank(), world().size()), (0, 1));
    let ranks = run_ranks(3, LONG, |group| {
        assert_eq!(world().size(), 3);
        assert_eq!(world().rank(), group.rank());
        world().barrier()?;
        Ok(world().rank())
    });
    assert_eq!(ranks.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(world().size(), 1);
    let mut data = [3u8, 5];
    single(LONG).all_reduce(&mut data, DType::U8, ReduceOp::Avg).unwrap();
    assert_eq!(data, [3, 5]);
}

#[test]
fn a_rank_that_fails_or_panics_wakes_the_others_and_is_named() {
    for panics in [false, true] {
        let start = Instant::now();
        let results = run_ranks(3, LONG, |group| {
            if group.rank() == 1 {
                assert!(!panics, "on purpose");
                return Err(Error::value("bad input"));
            }
            // Rank 0 waits in a collective, rank 2 in a receive.
            let mut data = [0; 4];
            match group.rank() {
                0 => group.all_reduce(&mut data, DType::F32, ReduceOp::Sum),
                _ => group.recv(&mut data, DType::F32, 0, 0),
            }
        });
        for rank in [0, 2] {
            let text = results[rank].as_ref().unwrap_err().to_string();
            let cause = if panics { "rank 1 aborted: its thread panicked" } else { "rank 1 aborted: bad input" };
            assert!(text.contains(cause), "{text}");
        }
        assert!(start.elapsed() < LONG);
    }
}

#[test]
fn a_rank_that_left_is_named() {
    // Rank 0 leaves when the last handle goes with its thread; the others need it in every possible way.
    for way in 0..4 {
        let results = run_ranks(2, LONG, |group| match (group.rank(), way) {
            (0, _) => Ok(()),
            (_, 0) => group.barrier(),
            (_, 1) => group.broadcast(&mut [0; 4], DType::F32, 1),
            (_, 2) => group.gather(&mut [], &[0; 4], DType::F32, 0),
            _ => group.recv(&mut [0; 4], DType::F32, 0, 0),
        });
        let text = results[1].as_ref().unwrap_err().to_string();
        assert!(text.contains(" on rank 1 of group 'world': rank 0 has left the group"), "{text}");
    }
}

#[test]
fn ranks_that_name_different_roots_are_told() {
    for (kind, roots) in ROOTED.into_iter().flat_map(|kind| MIXED_ROOTS.map(|roots| (kind, roots))) {
        let start = Instant::now();
        let results = run_ranks(roots.len(), LONG, |group| {
            // A rank that only sends may be through before the others find out: it is told in its next operation.
            with_root(&*group, kind, roots[group.rank()]).and_then(|()| group.barrier())
        });
        for (rank, result) in results.into_iter().enumerate() {
            let error = result.unwrap_err();
            assert!(error.text().contains("root"), "{kind} with roots {roots:?} on rank {rank}: {error}");
        }
        assert!(start.elapsed() < LONG / 2);
    }
}

#[test]
fn ranks_out_of_step_name_both_operations() {
    let results = run_ranks(2, LONG, |group| match group.rank() {
        0 => group.all_reduce(&mut [0; 8], DType::F32, ReduceOp::Sum),
        _ => group.all_reduce(&mut [0; 8], DType::I64, ReduceOp::Max),
    });
    for result in results {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("desync"), "{text}");
        assert!(text.contains("#0 all_reduce(float32, 2 elements, sum)"), "{text}");
        assert!(text.contains("#0 all_reduce(int64, 1 elements, max)"), "{text}");
    }
}

/// Whether the receive or the message is there first, and whomever it is from.
#[test]
fn messages_of_other_sizes_and_dtypes_end_the_group_on_both_sides() {
    for case in 0..8 {
        let (message_first, any, dtype) = (case & 1 == 0, case & 2 == 0, case & 4 == 0);
        let (turn, over) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let rank = |group: std::sync::Arc<dyn oneflow_comm::ProcessGroup>| {
            let result = if group.rank() == 0 {
                if !message_first {
                    turn.wait();
                }
                group.send(&[0; 4], if dtype { DType::I32 } else { DType::F32 }, 1, 0).unwrap();
                if message_first {
                    turn.wait();
                }
                // Who only sends learns of it later.
                group.recv(&mut [0; 4], DType::F32, 1, 0)
            } else {
                if message_first {
                    turn.wait();
                }
                let (mut data, src) = (vec![0; if dtype { 4 } else { 8 }], if any { ANY_RANK } else { 0 });
                let (data, dtype) = (Span::of_mut(&mut data), DType::F32);
                // SAFETY: the data outlive the wait.
                let work = unsafe { group.issue(Request::Recv { data, dtype, src, tag: 0 }) }.unwrap();
                if !message_first {
                    turn.wait();
                }
                work.wait(None)
            };
            // Nobody leaves before both know.
            over.wait();
            result.unwrap_err().to_string()
        };
        let texts: Vec<String> = std::thread::scope(|scope| {
            let rank = &rank;
            let threads: Vec<_> =
                groups(2, LONG / 3).into_iter().map(|group| scope.spawn(move || rank(group))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(texts[1].contains("desync") && texts[1].contains("rank 0 is in #0 send("), "case {case}: {texts:?}");
        assert!(texts[0].contains("rank 1 aborted") && texts[0].contains("desync"), "case {case}: {texts:?}");
    }
}

#[test]
fn deadlines_end_every_kind_of_wait() {
    let short = Duration::from_millis(100);
    let hold = std::sync::Barrier::new(2);
    let results = run_ranks(2, short, |group| {
        let result = match group.rank() {
            0 => group.barrier(),
            _ => Ok(()),
        };
        // Rank 1 stays in the group, doing nothing.
        hold.wait();
        result
    });
    let text = results[0].as_ref().unwrap_err().to_string();
    assert!(text.contains("timed out waiting for rank(s) [1]"), "{text}");

    let results = run_ranks(2, short, |group| {
        let result = if group.rank() == 0 { group.recv(&mut [0; 4], DType::F32, 1, 3) } else { Ok(()) };
        hold.wait();
        // The failure is final.
        assert!(group.barrier().is_err());
        result
    });
    let text = results[0].as_ref().unwrap_err().to_string();
    assert!(
        text.contains("#0 recv(float32, 1 elements, tag 3) from rank 1 on rank 0 of group 'world' timed out"),
        "{text}"
    );

    let results = run_ranks(2, LONG, |group| {
        let mut data = [0; 4];
        let result = if group.rank() == 0 {
            // SAFETY: `data` outlives the wait, which returns only when the work is complete.
            let work = unsafe {
                group.issue(Request::AllReduce {
                    data: Span::of_mut(&mut data),
                    dtype: DType::F32,
                    op: ReduceOp::Sum,
                })?
            };
            work.wait(Some(short))
        } else {
            Ok(())
        };
        hold.wait();
        result
    });
    let text = results[0].as_ref().unwrap_err().to_string();
    assert!(text.contains("was not complete after 100ms"), "{text}");
}

#[test]
fn groups_can_be_given_to_threads_by_hand() {
    let threads: Vec<_> = groups(2, LONG)
        .into_iter()
        .map(|group| {
            std::thread::spawn(move || {
                let mut all = [0; 2];
                group.all_gather(&mut all, &[group.rank() as u8 + 1], DType::U8).unwrap();
                all
            })
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), [1, 2]);
    }
}

#[test]
fn a_rank_that_fails_ends_every_group_it_is_part_of() {
    let start = Instant::now();
    let results = run_ranks(4, LONG, |world| {
        let before = world.new_group(&[0, 1], true)?;
        let apart = world.new_group(&[2, 3], true)?;
        let mut data = 1u32.to_le_bytes();
        let ended = match world.rank() {
            1 => return Err(Error::value("bad input")),
            // Waits in a group of a group.
            0 => before.unwrap().new_group(&[1, 0], true)?.unwrap().barrier(),
            // In one that is made after the failure.
            2 => {
                while world.failure().is_none() {
                    std::thread::yield_now();
                }
                world.new_group(&[1, 2], false)?.unwrap().barrier()
            }
            _ => Err(Error::value("")),
        };
        // Groups without rank 1 go on.
        if let Some(apart) = apart {
            apart.all_reduce(&mut data, DType::U8, ReduceOp::Sum)?;
            assert_eq!(data, [2, 0, 0, 0]);
        }
        Ok(ended.unwrap_err().to_string())
    });
    for (rank, group) in [(0, "world/1:0,1/1:1,0"), (2, "world/local1:1,2")] {
        let text = results[rank].as_ref().unwrap();
        assert!(text.contains(group) && text.contains("rank 0 aborted: bad input"), "{text}");
    }
    assert!(results[3].is_ok());
    assert!(start.elapsed() < LONG);
}

#[test]
fn ranks_whose_collectives_are_for_different_things_are_out_of_step() {
    let results = run_ranks(2, LONG, |group| {
        let mut data = [1u8];
        for words in ["the first layer", if group.rank() == 0 { "the second layer" } else { "the third layer" }] {
            let before = Purpose::of(words).enter();
            let ended = group.all_reduce(&mut data, DType::U8, ReduceOp::Sum);
            before.enter();
            ended?;
        }
        Ok(())
    });
    for (rank, result) in results.into_iter().enumerate() {
        let text = result.unwrap_err().to_string();
        let (mine, other) = if rank == 0 { ("second", "third") } else { ("third", "second") };
        assert!(
            text.starts_with(&format!("#1 all_reduce(uint8, 1 elements, sum) for the {mine} layer on rank")),
            "{text}"
        );
        assert!(text.contains("out of step") && text.contains(&format!("for the {other} layer")), "{text}");
    }
}
