//! The socket backend, over threads where that is enough and over real processes where death matters.

mod common;
#[path = "common/ranks.rs"]
mod ranks;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{MIXED_ROOTS, ROOTED, check_all, with_root};
use oneflow_base::{DType, Result};
use oneflow_comm::rendezvous::{self, Launch};
use oneflow_comm::store::{MemoryStore, Store};
use oneflow_comm::{ProcessGroup, ReduceOp, tcp, world};
use ranks::{HERE, LONG, ROLE, all_well, on_hosts, server, site, spawn, statuses};

/// As `on_hosts`, of ranks that share memory.
fn threads<R: Send>(
    n: usize,
    timeout: Duration,
    f: impl Fn(Arc<dyn ProcessGroup>) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    on_hosts(&vec![HERE; n], timeout, f)
}

#[test]
fn every_operation_on_one_and_four_ranks() {
    check_all(&*tcp::single("alone", LONG).unwrap()).unwrap();
    let there = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    // In memory, and half in memory and half by sockets.
    for hosts in [[HERE; 4], [HERE, there, HERE, there]] {
        for (rank, result) in on_hosts(&hosts, LONG, |group| check_all(&*group)).into_iter().enumerate() {
            result.unwrap_or_else(|e| panic!("rank {rank} of {hosts:?}: {e}"));
        }
    }
}

#[test]
fn ranks_that_name_different_roots_are_told() {
    for (kind, roots) in ROOTED.into_iter().flat_map(|kind| MIXED_ROOTS.map(|roots| (kind, roots))) {
        let start = Instant::now();
        let results = threads(roots.len(), LONG, |group| {
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
    let results = threads(2, LONG, |group| match group.rank() {
        0 => group.all_reduce(&mut [0; 8], DType::F32, ReduceOp::Sum),
        // The sender learns of it with its next operation.
        _ => group.broadcast(&mut [0; 8], DType::I64, 1).and_then(|()| group.barrier()),
    });
    for (rank, result) in results.into_iter().enumerate() {
        let text = result.unwrap_err().to_string();
        assert!(text.contains("desync"), "{text}");
        assert!(text.contains("rank 0 is in #0 all_reduce(float32, 2 elements, sum)"), "{text}");
        assert!(rank == 1 || text.contains("rank 1 is in #0 broadcast(int64, 1 elements, root 1)"), "{text}");
    }
    // Equal stamps, unequal pieces: only the lengths tell.
    let results = threads(2, LONG, |group| {
        let n = 1 + group.rank();
        group.all_to_all(&mut vec![0; 2 * n], &vec![0; 2 * n], DType::U8)
    });
    assert!(results.iter().all(|r| r.as_ref().unwrap_err().text().contains("expects")), "{results:?}");
    // A message that is not the one which the receiver waits for.
    let results = threads(2, LONG, |group| match group.rank() {
        0 => group.send(&[0; 4], DType::F32, 1, 0).and_then(|()| group.barrier()),
        _ => group.recv(&mut [0; 8], DType::F32, 0, 0),
    });
    let text = results[1].as_ref().unwrap_err().to_string();
    assert!(text.contains("recv(float32, 2 elements, tag 0)") && text.contains("send(float32, 1 elements"), "{text}");
    assert!(results[0].is_err());
}

#[test]
fn deadlines_aborts_and_goodbyes() {
    let hold = std::sync::Barrier::new(2);
    let results = threads(2, Duration::from_millis(200), |group| {
        let result = if group.rank() == 0 { group.barrier() } else { Ok(()) };
        hold.wait();
        // The other rank learns of it, though it was doing nothing.
        let later = group.barrier().unwrap_err();
        assert!(group.failure().is_some());
        if group.rank() == 1 {
            assert!(later.text().contains("rank 0 aborted"), "{later}");
        }
        result
    });
    let text = results[0].as_ref().unwrap_err().to_string();
    assert!(text.contains("timed out waiting for rank(s) [1]"), "{text}");

    let results = threads(2, Duration::from_millis(200), |group| {
        let result = if group.rank() == 0 { group.recv(&mut [0; 4], DType::F32, 1, 3) } else { Ok(()) };
        hold.wait();
        result
    });
    let text = results[0].as_ref().unwrap_err().to_string();
    assert!(text.contains("from rank 1 on rank 0 of group 'world' timed out"), "{text}");

    // Nobody leaves before all have heard: rank 0's goodbye could reach rank 2 ahead of rank 1's abort.
    let all = std::sync::Barrier::new(3);
    let results = threads(3, LONG, |group| {
        let mut data = [0; 4];
        let result = match group.rank() {
            0 => group.all_reduce(&mut data, DType::F32, ReduceOp::Sum),
            1 => {
                group.abort("bad input");
                Ok(())
            }
            _ => group.recv(&mut data, DType::F32, 0, 0),
        };
        all.wait();
        result
    });
    for rank in [0, 2] {
        let text = results[rank].as_ref().unwrap_err().to_string();
        assert!(text.contains("rank 1 aborted: bad input"), "{text}");
    }

    let results = threads(3, LONG, |group| match group.rank() {
        0 => Ok(()),
        1 => group.recv(&mut [0; 4], DType::F32, 0, 0),
        _ => group.barrier(),
    });
    let text = results[1].as_ref().unwrap_err().to_string();
    assert!(text.contains("tag 0) from rank 0 on rank 1 of group 'world': rank 0 has left the group"), "{text}");
    assert!(results[2].is_err());

    // Closing says the same while handles live on.
    let results = threads(2, LONG, |group| {
        let result = if group.rank() == 0 { Ok(()) } else { group.barrier() };
        group.close();
        hold.wait();
        assert!(group.barrier().unwrap_err().text().contains("was closed"));
        assert!(group.new_group(&[0], true).is_err());
        result
    });
    assert!(results[0].is_ok());
    assert!(results[1].as_ref().unwrap_err().text().contains("rank 0 has left the group"), "{results:?}");
}

#[test]
fn who_has_left_does_not_disturb_the_others() {
    let results = threads(3, LONG, |group| {
        let pair = group.new_group(&[1, 2], true)?;
        group.barrier()?;
        let Some(pair) = pair else { return Ok(()) };
        drop(group);
        for _ in 0..100 {
            pair.barrier()?;
        }
        Ok(())
    });
    results.into_iter().for_each(|result| result.unwrap());
}

#[test]
fn large_unexpected_messages_wait_on_the_sender_s_side() {
    let size = 70 << 20;
    let body = |group: Arc<dyn ProcessGroup>| {
        if group.rank() == 0 {
            group.send(&vec![5; size], DType::U8, 1, 1)?;
            return group.barrier();
        }
        // The message is longer than what is kept unasked.
        std::thread::sleep(Duration::from_millis(50));
        let mut data = vec![0; size];
        group.recv(&mut data, DType::U8, 0, 1)?;
        assert!(data.iter().all(|&b| b == 5));
        group.barrier()
    };
    let there = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    for hosts in [[HERE, HERE], [HERE, there]] {
        on_hosts(&hosts, LONG, body).into_iter().for_each(|result| result.unwrap());
    }
}

#[test]
fn missing_and_outdated_ranks_are_named() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Duration::from_millis(300)));
    let error = tcp::join(site(&store, HERE, 1), "world", 0, 3, LONG, LONG).err().unwrap();
    assert!(error.text().contains("waiting for rank(s) [1, 2] to connect"), "{error}");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Duration::from_millis(300)));
    let error = tcp::join(site(&store, HERE, 1), "world", 1, 3, LONG, LONG).err().unwrap();
    assert!(error.text().contains("rank 0 did not come"), "{error}");

    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Duration::from_secs(2)));
    std::thread::scope(|scope| {
        let old = scope.spawn(|| tcp::join(site(&store, HERE, 1), "world", 0, 2, LONG, LONG).err().unwrap());
        let new = scope.spawn(|| tcp::join(site(&store, HERE, 2), "world", 1, 2, LONG, LONG).err().unwrap());
        let error = new.join().unwrap();
        assert!(error.text().contains("it is of generation 1, this process of 2"), "{error}");
        assert!(old.join().unwrap().text().contains("[1] to connect"));
    });
}

#[test]
fn strangers_at_the_door_disturb_nobody() {
    use std::io::Write;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(LONG));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| tcp::join(site(&store, HERE, 1), "world", 0, 2, LONG, LONG).unwrap());
        let text = String::from_utf8(store.get("group/world/0").unwrap()).unwrap();
        let address = text.split(' ').next().unwrap().to_owned();
        let _silent = std::net::TcpStream::connect(&address).unwrap();
        let mut noisy = std::net::TcpStream::connect(&address).unwrap();
        noisy.write_all(&[0xff; 4096]).unwrap();
        let second = tcp::join(site(&store, HERE, 1), "world", 1, 2, LONG, LONG).unwrap();
        let first = first.join().unwrap();
        scope.spawn(move || first.barrier().unwrap());
        second.barrier().unwrap();
    });
}

#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let launch = rendezvous::Launch::from_env().unwrap();
    rendezvous::init(&launch, LONG, LONG).unwrap();
    let group = world();
    assert_eq!((group.rank(), group.size()), (launch.rank, launch.world_size));
    let start = Instant::now();
    match role.as_str() {
        "all" => check_all(&*group).unwrap(),
        "dies in silence" => {
            group.barrier().unwrap();
            if launch.rank == 1 {
                // The others may still be in the barrier.
                std::thread::sleep(Duration::from_millis(300));
                std::process::abort();
            }
            // One rank waits in a collective, the other (if any) does nothing and finds out.
            let error = match launch.rank {
                0 => group.all_reduce(&mut [0; 4000], DType::F32, ReduceOp::Sum).unwrap_err(),
                _ => loop {
                    match group.failure() {
                        Some(error) => break error,
                        None => std::thread::sleep(Duration::from_millis(5)),
                    }
                    assert!(start.elapsed() < LONG);
                },
            };
            assert!(error.text().contains("rank 1 died"), "{error}");
        }
        "is killed" => {
            group.barrier().unwrap();
            // Until the parent kills rank 1, in the middle of this.
            let error = loop {
                if let Err(error) = group.all_reduce(&mut vec![0; 1 << 20], DType::F32, ReduceOp::Sum) {
                    break error;
                }
                assert!(start.elapsed() < LONG);
            };
            assert!(error.text().contains("rank 1 died"), "{error}");
        }
        "crosses groups" => {
            // Three groups of two, each rank begins with the other one of its two.
            let n = launch.world_size;
            let groups: Vec<_> = (0..n).map(|r| group.new_group(&[r, (r + 1) % n], true).unwrap()).collect();
            let (mine, before) = (&groups[launch.rank], &groups[(launch.rank + n - 1) % n]);
            let start = Instant::now();
            let crossed = mine.as_ref().unwrap().barrier().and_then(|()| before.as_ref().unwrap().barrier());
            let error = crossed.unwrap_err();
            assert!(error.text().contains("deadlock, the ranks use groups in different orders"), "{error}");
            for rank in 0..n {
                assert!(
                    error.text().contains(&format!("rank {rank} waits in #0 barrier() of group 'world/")),
                    "{error}"
                );
            }
            assert!(start.elapsed() < LONG / 4);
            // All are through before one of them leaves.
            group.barrier().unwrap();
        }
        "is late" => {
            if launch.rank == 1 {
                std::thread::sleep(Duration::from_millis(2500));
            }
            // A question that is asked meanwhile finds a rank that is not stuck.
            group.barrier().unwrap();
            let mut works = Vec::new();
            let mut data = [0; 4];
            // SAFETY: the data outlive the waits below.
            works.extend((launch.rank == 0).then(|| unsafe {
                let data = oneflow_comm::Span::of_mut(&mut data);
                group.issue(oneflow_comm::Request::AllReduce { data, dtype: DType::F32, op: ReduceOp::Sum }).unwrap()
            }));
            if launch.rank == 1 {
                std::thread::sleep(Duration::from_millis(1500));
                group.all_reduce(&mut [0; 4], DType::F32, ReduceOp::Sum).unwrap();
            }
            works.iter().for_each(|work| work.wait(None).unwrap());
        }
        other => panic!("no role '{other}'"),
    }
    group.close();
}

#[test]
fn processes_do_every_operation_with_a_launcher_s_store_twice() {
    let server = server();
    let port = server.address().port();
    all_well(spawn("all", 2, port, true));
    // A restart finds the keys of the first attempt.
    all_well(spawn("all", 3, port, true));
}

#[test]
fn processes_meet_at_rank_0() {
    // A port that was free a moment ago; rank 0 binds it.
    let port = server().address().port();
    all_well(spawn("all", 2, port, false));
}

#[test]
fn a_dead_process_is_named_by_all_others() {
    for n in [2, 3] {
        let server = server();
        let statuses = statuses(spawn("dies in silence", n, server.address().port(), true));
        for (rank, status) in statuses.iter().enumerate() {
            assert_eq!(status.success(), rank != 1, "rank {rank} of {n}: {status}");
        }
    }
}

#[test]
fn a_process_killed_in_a_collective_is_named_by_all_others() {
    let server = server();
    let port = server.address().port();
    let mut children = spawn("is killed", 3, port, true);
    let store = oneflow_comm::store::TcpStore::connect("127.0.0.1", port, LONG).unwrap();
    store.wait(&["oneflow/none/go/1"], LONG).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    children[1].kill().unwrap();
    let statuses = statuses(children);
    assert!(statuses[0].success() && statuses[2].success() && !statuses[1].success(), "{statuses:?}");
}

#[test]
fn groups_used_in_different_orders_are_named_and_a_late_rank_is_waited_for() {
    // Two use one group in different orders with three in a circle; a circle of two is the same code.
    let (server, other) = (server(), server());
    let children = spawn("crosses groups", 3, server.address().port(), true);
    let late = spawn("is late", 2, other.address().port(), true);
    all_well(children);
    all_well(late);
}

#[test]
fn a_process_alone_needs_no_launcher() {
    let launch = Launch::from_vars(|_| None).unwrap();
    let group = launch.connect(LONG, LONG).unwrap();
    assert_eq!((group.size(), group.backend()), (1, "tcp"));
    group.barrier().unwrap();
}
