//! Messages between ranks, in shared memory and by sockets: random programs, faults in the middle of a message, memory that stays.

#[path = "common/ranks.rs"]
mod ranks;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflow_base::{DType, Result};
use oneflow_comm::rendezvous;
use oneflow_comm::store::{Store, TcpStore};
use oneflow_comm::{ANY_RANK, ProcessGroup, Request, Span, Work, world};
use ranks::{HERE, LONG, ROLE, all_well, on_hosts, server, spawn, statuses};

const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// xorshift: the same on every rank.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// One message of a program, which all ranks know.
#[derive(Clone, Debug)]
struct Message {
    id: usize,
    src: usize,
    dst: usize,
    tag: u32,
    bytes: usize,
    /// Received from whichever rank.
    any: bool,
}

/// Tags from here on are received from any rank, and their messages have one size.
const ANY_TAGS: u32 = 100;

fn program(n: usize, n_messages: usize, random: &mut Random) -> Vec<Message> {
    const EDGES: [usize; 12] =
        [0, 1, 3, 47, 48, 4096, 65_487, 65_488, (1 << 20) - 49, (1 << 20) - 48, (1 << 20) + 1, 3 << 20];
    let message = |id| {
        let (src, other) = (random.below(n), random.below(n - 1));
        let dst = if other >= src { other + 1 } else { other };
        let any = random.one_in(4);
        let bytes = match any {
            true => 3000,
            false if random.one_in(3) => EDGES[random.below(EDGES.len())],
            false if random.one_in(8) => random.below(2 << 20),
            false => random.below(5000),
        };
        let tag = random.below(3) as u32 + if any { ANY_TAGS } else { 0 };
        Message { id, src, dst, tag, bytes, any }
    };
    (0..n_messages).map(message).collect()
}

/// The bytes of a message; the first say which it is.
fn payload(message: &Message) -> Vec<u8> {
    let mut data: Vec<u8> = (0..message.bytes).map(|i| (i ^ (i >> 8) ^ (message.id * 37)) as u8).collect();
    for (byte, word) in data.iter_mut().zip((message.id as u64).to_le_bytes()) {
        *byte = word;
    }
    data
}

/// Does this rank's part of a program, partly blocking and partly not, receives partly long before their messages. Tags are
/// shifted by `shift`, so that several programs may run at once.
fn run(group: &dyn ProcessGroup, program: &[Message], shift: u32, random: &mut Random) -> Result<()> {
    let rank = group.rank();
    let mut steps: Vec<(&Message, bool)> =
        program.iter().filter(|m| m.src == rank || m.dst == rank).map(|m| (m, random.one_in(2))).collect();
    // A receive that does not block may be posted earlier, but not before another one that could take its message.
    for i in 1..steps.len() {
        let (message, blocks) = steps[i];
        if message.dst != rank || blocks {
            continue;
        }
        let rival = |other: &Message| {
            other.dst == rank && other.tag == message.tag && (message.any || other.src == message.src)
        };
        let after = steps[..i].iter().rposition(|(other, _)| rival(other)).map_or(0, |at| at + 1);
        let at = after + random.below(i - after + 1);
        steps[at..=i].rotate_right(1);
    }
    let mut works: Vec<(Work, usize)> = Vec::new();
    let mut buffers: Vec<Vec<u8>> = steps
        .iter()
        .map(|(message, _)| if message.src == rank { payload(message) } else { vec![0xee; message.bytes] })
        .collect();
    let mut sources = vec![None; steps.len()];
    for (at, ((message, blocks), buffer)) in steps.iter().zip(&mut buffers).enumerate() {
        let (data, dtype, tag) = (Span::of_mut(buffer), DType::U8, message.tag + shift);
        let src = if message.any { ANY_RANK } else { message.src };
        let request = match message.src == rank {
            true => Request::Send { data, dtype, dst: message.dst, tag },
            false => Request::Recv { data, dtype, src, tag },
        };
        // Where the source is to be known, there must be a work.
        if *blocks && !message.any {
            // SAFETY: each buffer is used by its own operation until it is complete.
            unsafe { group.run(request) }?;
            continue;
        }
        // SAFETY: as above.
        let work = unsafe { group.issue(request) }?;
        if *blocks {
            work.wait(None)?;
            sources[at] = work.source();
        } else {
            works.push((work, at));
        }
        if random.one_in(5) && !works.is_empty() {
            // Some are asked and not waited for.
            let _ = works[random.below(works.len())].0.test();
        }
    }
    for (work, at) in &works {
        work.wait(None)?;
        sources[*at] = work.source();
    }
    let mut last: HashMap<(u32, usize), u64> = HashMap::new();
    for (((message, _), buffer), source) in
        steps.iter().zip(&buffers).zip(sources).filter(|((s, _), _)| s.0.dst == rank)
    {
        if !message.any {
            assert!(*buffer == payload(message), "{message:?} on rank {rank}");
            continue;
        }
        // Which message it was, it says itself; those of one rank come in their order.
        let id = u64::from_le_bytes(buffer[..8].try_into().unwrap());
        let found = &program[id as usize];
        assert!(
            *buffer == payload(found) && found.tag == message.tag && found.dst == rank,
            "{found:?} for {message:?}"
        );
        assert_eq!(source, Some(found.src));
        let before = last.insert((message.tag, found.src), id);
        assert!(before.is_none_or(|before| before < id), "{before:?} then {id}");
    }
    Ok(())
}

/// Three programs at once: two of the group's threads, and one in another group of the same ranks in another order.
fn run_all(group: &Arc<dyn ProcessGroup>, seed: u64, n_messages: usize) -> Result<()> {
    let n = group.size();
    let order: Vec<usize> = (0..n).rev().collect();
    let other = group.new_group(&order, true)?.expect("every rank is a member");
    let programs: Vec<Vec<Message>> = (0..3)
        .map(|i| program(n, n_messages, &mut Random((seed * 3 + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))))
        .collect();
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = programs
            .iter()
            .enumerate()
            .map(|(i, program)| {
                let group = if i == 2 { &other } else { group };
                let mut random =
                    Random((seed * 7 + i as u64 + 1).wrapping_mul(0x2545_f491_4f6c_dd1d) + group.rank() as u64);
                scope.spawn(move || run(&**group, program, 10 * i as u32, &mut random))
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    group.barrier()
}

#[test]
fn random_programs_between_threads() {
    for (seed, hosts) in [&[HERE, HERE][..], &[HERE; 4], &[HERE, THERE, HERE, THERE]].into_iter().enumerate() {
        for (rank, result) in on_hosts(hosts, LONG, |group| run_all(&group, seed as u64, 60)).into_iter().enumerate() {
            result.unwrap_or_else(|e| panic!("rank {rank} of {hosts:?}: {e}"));
        }
    }
}

#[test]
fn random_programs_between_processes() {
    for n in [2, 4] {
        let server = server();
        all_well(spawn("random", n, server.address().port(), true));
    }
}

/// Both ranks send far more than is kept before either receives: each takes what the other one has no room for.
#[test]
fn long_messages_cross() {
    let size = 20 << 20;
    for hosts in [[HERE, HERE], [HERE, THERE]] {
        let results = on_hosts(&hosts, LONG, |group| {
            let (peer, mine) = (1 - group.rank(), vec![group.rank() as u8 + 1; size]);
            group.send(&mine, DType::U8, peer, 0)?;
            let mut theirs = vec![0; size];
            group.recv(&mut theirs, DType::U8, peer, 0)?;
            assert!(theirs.iter().all(|&b| b == peer as u8 + 1));
            group.barrier()
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

/// What was sent before a goodbye is received after it, and then there is no more.
#[test]
fn messages_outlive_their_senders() {
    for hosts in [[HERE, HERE], [HERE, THERE]] {
        let gone = std::sync::Barrier::new(2);
        let results = on_hosts(&hosts, LONG, |group| {
            if group.rank() == 0 {
                (1..4).try_for_each(|tag| group.send(&[tag as u8; 1000], DType::U8, 1, tag))?;
                group.close();
                gone.wait();
                return Ok(());
            }
            gone.wait();
            for tag in [2, 1, 3] {
                let mut data = [0; 1000];
                group.recv(&mut data, DType::U8, if tag == 1 { ANY_RANK } else { 0 }, tag)?;
                assert_eq!(data, [tag as u8; 1000]);
            }
            let error = group.recv(&mut [0; 4], DType::U8, 0, 0).unwrap_err();
            assert!(error.text().contains("rank 0 has left the group"), "{error}");
            let error = group.recv(&mut [0; 4], DType::U8, ANY_RANK, 0).unwrap_err();
            assert!(error.text().contains("all other ranks have left"), "{error}");
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

/// Whether the receive or the message is there first, and whomever it is from.
#[test]
fn messages_of_other_sizes_and_dtypes_end_the_group_on_both_sides() {
    for (case, hosts) in (0..8).flat_map(|case| [[HERE, HERE], [HERE, THERE]].map(|hosts| (case, hosts))) {
        let (first, any, dtype) = (case & 1 == 0, case & 2 == 0, case & 4 == 0);
        let turn = std::sync::Barrier::new(2);
        let results = on_hosts(&hosts, LONG, |group| {
            if group.rank() == 0 {
                if !first {
                    turn.wait();
                }
                group.send(&[0; 4], if dtype { DType::I32 } else { DType::F32 }, 1, 0)?;
                if first {
                    turn.wait();
                }
                // Who only sends learns of it later.
                return group.recv(&mut [0; 4], DType::F32, 1, 0);
            }
            if first {
                turn.wait();
            }
            let (mut data, src) = (vec![0; if dtype { 4 } else { 8 }], if any { ANY_RANK } else { 0 });
            let (data, dtype) = (Span::of_mut(&mut data), DType::F32);
            // SAFETY: the data outlive the wait.
            let work = unsafe { group.issue(Request::Recv { data, dtype, src, tag: 0 }) }?;
            if !first {
                turn.wait();
            }
            work.wait(None)
        });
        let text = results[1].as_ref().unwrap_err().to_string();
        assert!(text.contains("desync") && text.contains("rank 0 is in #0 send("), "case {case}: {text}");
        let text = results[0].as_ref().unwrap_err().to_string();
        assert!(text.contains("rank 1 aborted") && text.contains("desync"), "case {case}: {text}");
    }
}

/// Several threads of a rank wait for the same one: each hears of its own message, whoever moved it.
#[test]
fn threads_that_wait_for_one_rank_wake_each_other() {
    for (case, hosts) in (0..4).flat_map(|case| [[HERE, HERE], [HERE, THERE]].map(|hosts| (case, hosts))) {
        let results = on_hosts(&hosts, LONG, |group| {
            let n_threads = 4;
            for round in 0..50u8 {
                if group.rank() == 0 {
                    // In an order that is not the threads'; some come while all sleep.
                    for tag in [2, 0, 3, 1] {
                        if (round + tag) % 8 == case {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        group.send(&[round + tag; 2000], DType::U8, 1, tag.into())?;
                    }
                    group.recv(&mut [0; 1], DType::U8, 1, 9)?;
                    continue;
                }
                std::thread::scope(|scope| {
                    for tag in 0..n_threads {
                        let group = &group;
                        scope.spawn(move || {
                            let mut data = [0; 2000];
                            group.recv(&mut data, DType::U8, 0, tag).unwrap();
                            assert_eq!(data, [round + tag as u8; 2000]);
                        });
                    }
                });
                group.send(&[0], DType::U8, 0, 9)?;
            }
            Ok(())
        });
        results.into_iter().for_each(|result| result.unwrap());
    }
}

/// A wait sleeps: it takes next to no time of the processor.
#[test]
fn a_rank_that_waits_for_a_message_sleeps() {
    let processor = || {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
    };
    let results = on_hosts(&[HERE, HERE], LONG, |group| {
        if group.rank() == 0 {
            std::thread::sleep(Duration::from_secs(1));
            return group.send(&[1], DType::U8, 1, 0);
        }
        let before = processor();
        group.recv(&mut [0], DType::U8, 0, 0)?;
        assert!(processor() - before < Duration::from_millis(250), "{:?}", processor() - before);
        Ok(())
    });
    results.into_iter().for_each(|result| result.unwrap());
}

/// Sends and receives long messages until that fails.
fn until_it_fails(group: &dyn ProcessGroup, peer: usize, sends: bool) -> oneflow_base::Error {
    let (mut data, start) = (vec![7; 8 << 20], Instant::now());
    loop {
        assert!(start.elapsed() < LONG);
        let result = match sends {
            true => group.send(&data, DType::U8, peer, 0),
            false => group.recv(&mut data, DType::U8, peer, 0),
        };
        if let Err(error) = result {
            return error;
        }
    }
}

/// A key in the store: rank 1 sends and receives.
const UNDER_WAY: &str = "under way";

/// Lanes that this process has mapped.
fn n_mapped() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().matches("oneflow lane").count()
}

#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let launch = rendezvous::Launch::from_env().unwrap();
    rendezvous::init(&launch, LONG, LONG).unwrap();
    let group = world();
    match role.as_str() {
        "random" => {
            let before = n_mapped();
            assert_eq!(before, launch.world_size - 1);
            for seed in 10..13 {
                run_all(&group, seed, 50).unwrap();
                assert_eq!(n_mapped(), before, "a group that is gone has left memory");
            }
        }
        // Rank 1 is killed or stopped: while it sends to rank 0 and receives from rank 2.
        "dies" | "stops" => {
            group.barrier().unwrap();
            let error = match launch.rank {
                1 => std::thread::scope(|scope| {
                    scope.spawn(|| {
                        let port = std::env::var("MASTER_PORT").unwrap().parse().unwrap();
                        group.send(&[0; 4], DType::U8, 0, 1).unwrap();
                        TcpStore::connect("127.0.0.1", port, LONG).unwrap().set(UNDER_WAY, b"1").unwrap();
                    });
                    scope.spawn(|| until_it_fails(&*group, 2, false));
                    until_it_fails(&*group, 0, true)
                }),
                0 => {
                    group.recv(&mut [0; 4], DType::U8, 1, 1).unwrap();
                    until_it_fails(&*group, 1, false)
                }
                2 => until_it_fails(&*group, 1, true),
                // Waits for nobody in particular.
                _ => until_it_fails(&*group, ANY_RANK, false),
            };
            let words = if role == "dies" { "rank 1 died" } else { "rank 1 does not answer" };
            assert!(error.text().contains(words), "{error}");
            // A message says who had it, as a collective does.
            let place = format!(" on rank {} of group 'world'", group.rank());
            assert!(error.text().contains(&place), "{error}");
        }
        other => panic!("no role '{other}'"),
    }
    group.close();
}

fn lose_rank_1(role: &str, signal: rustix::process::Signal) {
    let server = server();
    let port = server.address().port();
    let mut children = spawn(role, 4, port, true);
    let store = TcpStore::connect("127.0.0.1", port, LONG).unwrap();
    store.wait(&[UNDER_WAY], LONG).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let pid = rustix::process::Pid::from_child(&children[1]);
    rustix::process::kill_process(pid, signal).unwrap();
    let mut lost = children.remove(1);
    let statuses = statuses(children);
    lost.kill().unwrap();
    lost.wait().unwrap();
    assert!(statuses.iter().all(|status| status.success()), "{statuses:?}");
}

#[test]
fn a_process_killed_in_a_message_is_named_by_all_others() {
    lose_rank_1("dies", rustix::process::Signal::KILL);
}

#[test]
fn a_process_stopped_in_a_message_is_named_by_all_others() {
    lose_rank_1("stops", rustix::process::Signal::STOP);
}
