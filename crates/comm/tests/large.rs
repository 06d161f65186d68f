//! Groups of more ranks than are all connected with each other: every operation, the connections that they take, and what
//! the others learn of a rank that fails or never comes.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use oneflow_base::{DType, Error, Result, bf16};
use oneflow_comm::store::{MemoryStore, Server, Store, TcpStore};
use oneflow_comm::{ANY_RANK, Access, ProcessGroup, ReduceOp, Request, Span, fake, rendezvous, tcp};

const LONG: Duration = Duration::from_secs(60);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn words(values: impl IntoIterator<Item = i64>) -> Vec<u8> {
    values.into_iter().flat_map(i64::to_le_bytes).collect()
}

fn value(rank: usize, i: usize) -> i64 {
    ((i * 7919 + rank * 104_729) % 1_000_003) as i64 - 500_000
}

fn floats(raw: &[u8]) -> Vec<f32> {
    raw.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Every operation on integers, which know no rounding. Counts lie on both sides of each threshold.
fn check(group: &dyn ProcessGroup, counts: &[usize]) -> Result<()> {
    let (n, rank) = (group.size(), group.rank());
    let dtype = DType::I64;
    for &count in counts {
        let mine = words((0..count).map(|i| value(rank, i)));
        let sum = |i: usize| (0..n).map(|r| value(r, i)).sum::<i64>();
        let everyone = words((0..n).flat_map(|r| (0..count).map(move |i| value(r, i))));
        let mut data = mine.clone();
        group.all_reduce(&mut data, dtype, ReduceOp::Sum)?;
        assert!(data == words((0..count).map(sum)), "all_reduce of {count}");
        let mut data = mine.clone();
        group.all_reduce(&mut data, dtype, ReduceOp::Min)?;
        assert!(data == words((0..count).map(|i| (0..n).map(|r| value(r, i)).min().unwrap())), "minimum of {count}");
        let mut data = vec![0; count * n * 8];
        group.all_gather(&mut data, &mine, dtype)?;
        assert!(data == everyone, "all_gather of {count}");
        let mut part = vec![0; count * 8];
        group.reduce_scatter(&mut part, &words((0..count * n).map(|i| value(rank, i))), dtype, ReduceOp::Sum)?;
        assert!(part == words((0..count).map(|i| sum(rank * count + i))), "reduce_scatter of {count}");
        for root in [0, n / 3, n - 1] {
            let at_root = rank == root;
            let mut data = if at_root { mine.clone() } else { vec![1; count * 8] };
            group.broadcast(&mut data, dtype, root)?;
            assert!(data == words((0..count).map(|i| value(root, i))), "broadcast of {count} from {root}");
            let mut data = mine.clone();
            group.reduce(&mut data, dtype, ReduceOp::Sum, root)?;
            assert!(data == if at_root { words((0..count).map(sum)) } else { mine.clone() }, "reduce of {count}");
            let mut output = vec![0; if at_root { count * n * 8 } else { 0 }];
            group.gather(&mut output, &mine, dtype, root)?;
            assert!(!at_root || output == everyone, "gather of {count} to {root}");
            let mut output = vec![0; count * 8];
            group.scatter(&mut output, if at_root { &everyone } else { &[] }, dtype, root)?;
            assert!(output == mine, "scatter of {count} from {root}");
        }
    }
    // Uneven pieces, some of them empty.
    let counts: Vec<usize> = (0..n).map(|r| r * 5 % 7).collect();
    let total: usize = counts.iter().sum();
    let block = |r: usize| words((0..counts[r]).map(|i| value(r, i)));
    let mut output = vec![0; total * 8];
    group.all_gather_v(&mut output, &block(rank), &counts, dtype)?;
    assert_eq!(output, (0..n).flat_map(block).collect::<Vec<_>>());
    let mut output = vec![0; counts[rank] * 8];
    let input = words((0..total).map(|i| value(rank, i)));
    group.reduce_scatter_v(&mut output, &input, &counts, dtype, ReduceOp::Sum)?;
    let start: usize = counts[..rank].iter().sum();
    assert_eq!(output, words((start..start + counts[rank]).map(|i| (0..n).map(|r| value(r, i)).sum::<i64>())));
    // An average of what does not divide, and rounding: once a step.
    let mut data: Vec<u8> = (0..50).flat_map(|i| (rank as f32 + i as f32 / 3.0).to_le_bytes()).collect();
    group.all_reduce(&mut data, DType::F32, ReduceOp::Avg)?;
    for (i, got) in floats(&data).into_iter().enumerate() {
        assert!((got - ((n - 1) as f32 / 2.0 + i as f32 / 3.0)).abs() < 1e-4 * n as f32, "{got}");
    }
    let mut everyones = vec![0; data.len() * n];
    group.all_gather(&mut everyones, &data, DType::F32)?;
    assert!(everyones.chunks_exact(data.len()).all(|theirs| theirs == data), "ranks got different bits");
    let mut data: Vec<u8> = bf16::from_f32(1.0 + rank as f32 / 64.0).to_bits().to_le_bytes().repeat(20_000);
    group.all_reduce(&mut data, DType::BF16, ReduceOp::Sum)?;
    let exact: f32 = (0..n).map(|r| bf16::from_f32(1.0 + r as f32 / 64.0).to_f32()).sum();
    let got = bf16::from_bits(u16::from_le_bytes([data[0], data[1]])).to_f32();
    assert!((got - exact).abs() <= exact / 256.0 * (n.ilog2() + 2) as f32, "{got} for {exact}");
    group.barrier()
}

fn every_pair(group: &dyn ProcessGroup) -> Result<()> {
    let (n, rank) = (group.size(), group.rank());
    let input = words((0..n).map(|to| (rank * n + to) as i64));
    let mut output = vec![0; n * 8];
    group.all_to_all(&mut output, &input, DType::I64)?;
    assert_eq!(output, words((0..n).map(|from| (from * n + rank) as i64)));
    Ok(())
}

/// Messages between ranks that share no collective step, in both directions at once, and to one that awaits anybody.
fn messages(group: &dyn ProcessGroup) -> Result<()> {
    let (n, rank) = (group.size(), group.rank());
    let far = (rank + n / 2 + 1) % n;
    let near = (rank + n - (n / 2 + 1)) % n;
    let (out, mut into) = ([rank as u8; 5], [0u8; 5]);
    // SAFETY: the buffers outlive the waits and are not touched before.
    let works = unsafe {
        [
            group.issue(Request::Send { data: Span::of(&out), dtype: DType::U8, dst: far, tag: 3 })?,
            group.issue(Request::Recv { data: Span::of_mut(&mut into), dtype: DType::U8, src: near, tag: 3 })?,
        ]
    };
    works.iter().try_for_each(|work| work.wait(None))?;
    assert_eq!(into, [near as u8; 5]);
    if rank == 0 {
        let mut seen = vec![false; n];
        for _ in 1..n {
            let mut from = [0u8];
            group.recv(&mut from, DType::U8, ANY_RANK, 4)?;
            assert!(!std::mem::replace(&mut seen[usize::from(from[0])], true));
        }
    } else {
        group.send(&[rank as u8], DType::U8, 0, 4)?;
    }
    Ok(())
}

fn site(store: &Arc<dyn Store>) -> tcp::Site {
    tcp::Site { store: store.clone(), local_ip: HERE, generation: 1, security: Access::OneHost.into() }
}

/// Runs `f` on `n` threads, each a rank with its own sockets.
fn threads<R: Send>(
    n: usize,
    meeting: Duration,
    f: impl Fn(usize, Result<Arc<dyn ProcessGroup>>) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(LONG));
    std::thread::scope(|scope| {
        let (f, store) = (&f, &store);
        let rank = |rank| scope.spawn(move || f(rank, tcp::join(site(store), "world", rank, n, meeting, LONG)));
        let threads: Vec<_> = (0..n).map(rank).collect();
        let results =
            threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(Error::runtime("panicked")))).collect();
        assert!(!store.check(&["group/world/0"]).unwrap() && !store.check(&["group/world/all"]).unwrap());
        results
    })
}

fn sockets() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))).count()
}

#[test]
fn every_operation_on_threads() {
    for n in [17, 24, 33] {
        let counts = if n == 24 { &[0, 1, 3, 700, 5000, 70_000][..] } else { &[2, 700, 5000] };
        for (rank, result) in fake::run_ranks(n, LONG, |group| check(&*group, counts)).into_iter().enumerate() {
            result.unwrap_or_else(|e| panic!("rank {rank} of {n}: {e}"));
        }
    }
}

#[test]
fn every_operation_on_sockets() {
    for (rank, result) in threads(20, LONG, |_, group| {
        let group = group?;
        messages(&*group)?;
        check(&*group, &[3, 700, 5000])?;
        every_pair(&*group)?;
        let half = group.split(Some(group.rank() as u64 % 2), 0)?.unwrap();
        half.barrier()?;
        messages(&*group)
    })
    .into_iter()
    .enumerate()
    {
        result.unwrap_or_else(|e| panic!("rank {rank}: {e}"));
    }
}

#[test]
fn who_fails_and_who_never_comes_is_told_to_all() {
    let start = Instant::now();
    // A send to a rank that has left is that operation's error alone.
    let left = Barrier::new(20);
    for (rank, result) in threads(20, LONG, |rank, group| {
        let group = group?;
        group.barrier()?;
        if rank == 9 {
            drop(group);
            left.wait();
            return Ok(());
        }
        left.wait();
        match rank {
            3 => group.send(&[1], DType::U8, 9, 0),
            _ => Ok(()),
        }
    })
    .into_iter()
    .enumerate()
    {
        assert_eq!(result.is_err(), rank == 3, "{rank}: {result:?}");
        let _ = result.map_err(|error| assert!(error.text().contains("rank 9"), "{error}"));
    }
    let results = threads(20, LONG, |rank, group| {
        let group = group?;
        group.barrier()?;
        match rank {
            7 => {
                group.abort("bad input");
                Err(Error::runtime("bad input"))
            }
            _ => group.barrier().and_then(|()| group.barrier()),
        }
    });
    for (rank, result) in results.into_iter().enumerate() {
        let error = result.unwrap_err();
        assert!(rank == 7 || error.text().contains("rank 7 aborted: bad input"), "rank {rank}: {error}");
    }
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(LONG));
    std::thread::scope(|scope| {
        let come = |rank| {
            let store = &store;
            scope.spawn(move || {
                tcp::join(site(store), "world", rank, 18, Duration::from_millis(500), LONG).err().unwrap()
            })
        };
        let threads: Vec<_> = (0..18).filter(|&rank| rank != 5 && rank != 9).map(come).collect();
        for thread in threads {
            let error = thread.join().unwrap();
            assert!(error.text().contains("rank(s) [5, 9] did not come"), "{error}");
        }
    });
    assert!(start.elapsed() < LONG);
}

#[test]
fn a_crowd_forms_quickly_with_few_sockets() {
    // In a process of its own, whose sockets are counted.
    let exe = std::env::current_exe().unwrap();
    let done = std::process::Command::new(exe).args(["--exact", "child", "--nocapture"]).env(CHILD, "1").output();
    let done = done.unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    eprint!("{said}");
}

const CHILD: &str = "COMM_TEST_LARGE";

#[test]
fn child() {
    if std::env::var(CHILD).is_ok() {
        crowd();
    }
}

/// Forms a job over a store that is a server, and uses every collective but all-to-all.
fn crowd() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // `make test-clusters` has 256.
    let n: usize = std::env::var("ONEFLOW_TEST_RANKS").map_or(32, |n| n.parse().unwrap());
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let server = Server::bind((HERE, 0).into()).unwrap();
    let port = server.address().port();
    let (start, before, all) = (Instant::now(), sockets(), Barrier::new(n));
    let seen = Mutex::new((Duration::ZERO, 0));
    std::thread::scope(|scope| {
        for rank in 0..n {
            let (seen, all) = (&seen, &all);
            let run = move || -> Result<()> {
                let store: Arc<dyn Store> = Arc::new(TcpStore::connect("127.0.0.1", port, LONG)?);
                rendezvous::agree(&*store, rank, n, None, LONG)?;
                let group = tcp::join(site(&store), "world", rank, n, LONG, LONG)?;
                group.barrier()?;
                let formed = start.elapsed();
                check(&*group, &[2])?;
                all.wait();
                if rank == 0 {
                    *seen.lock().unwrap() = (formed, sockets() - before);
                }
                all.wait();
                Ok(())
            };
            let thread = std::thread::Builder::new().stack_size(1 << 20);
            thread.spawn_scoped(scope, move || run().unwrap_or_else(|e| panic!("rank {rank}: {e}"))).unwrap();
        }
    });
    let (formed, open) = seen.into_inner().unwrap();
    // The store's ends are in this process, too.
    let each = (open as f64 - n as f64) / n as f64;
    let most = 3.0 * (n as f64).log2() + 8.0;
    eprintln!("{n} ranks formed in {formed:?} and have {each:.1} sockets each; at most {most:.1} are allowed");
    assert!(each <= most, "{each} sockets a rank, more than {most}");
    assert!(formed < Duration::from_secs(10), "{n} ranks took {formed:?} to form");
    let keys = TcpStore::connect("127.0.0.1", port, LONG).unwrap().num_keys().unwrap();
    assert!(keys <= 3 * n as i64, "{keys} keys are left in the store");
}
