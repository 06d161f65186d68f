//! Jobs under TLS: all operations, what somebody in between can read and change, and who is refused.

#[allow(dead_code)]
mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::check_all;
use oneflow_base::{DType, Error, Result};
use oneflow_comm::store::{MemoryStore, Server, Store, TcpStore};
use oneflow_comm::{ProcessGroup, ReduceOp, Security, tcp};

const LONG: Duration = Duration::from_secs(60);
const SECRET: &str = "the secret of this job";

fn host(n: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, n).into()
}

fn security(vars: &[(&str, &str)]) -> Security {
    Security::from_vars(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string())).unwrap()
}

fn plain() -> Security {
    security(&[("ONEFLOW_JOB_SECRET", SECRET)])
}

/// Encrypted, with a key of this process's own.
fn with_secret(secret: &str) -> Security {
    security(&[("ONEFLOW_TLS", "1"), ("ONEFLOW_JOB_SECRET", secret)])
}

/// Encrypted, with a certificate of `tests/certificates`.
fn with_certificate(authority: &str, name: &str) -> Security {
    static N: AtomicUsize = AtomicUsize::new(0);
    let file = |name: String| format!("{}/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"));
    let n = N.fetch_add(1, Ordering::Relaxed);
    let key = std::env::temp_dir().join(format!("comm-tls-{}-{n}", std::process::id()));
    let _ = std::fs::remove_file(&key);
    let mut copy = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&key).unwrap();
    copy.write_all(&std::fs::read(file(format!("{name}.key"))).unwrap()).unwrap();
    let found = security(&[
        ("ONEFLOW_TLS", "1"),
        ("ONEFLOW_TLS_CA", &file(format!("{authority}.pem"))),
        ("ONEFLOW_TLS_CERT", &file(format!("{name}.pem"))),
        ("ONEFLOW_TLS_KEY", key.to_str().unwrap()),
    ]);
    std::fs::remove_file(key).unwrap();
    found
}

/// Runs `f` on a thread for each rank, which has an address, a store and its own idea of security.
fn run<R: Send>(
    ranks: &[(IpAddr, Arc<dyn Store>, Security)],
    f: impl Fn(Arc<dyn ProcessGroup>) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    std::thread::scope(|scope| {
        let f = &f;
        let threads: Vec<_> = ranks
            .iter()
            .enumerate()
            .map(|(rank, (local_ip, store, security))| {
                scope.spawn(move || {
                    let (store, local_ip, security) = (store.clone(), *local_ip, security.clone());
                    let site = tcp::Site { store, local_ip, generation: 1, security };
                    f(tcp::join(site, "world", rank, ranks.len(), LONG / 6, LONG)?)
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(Error::runtime("panicked")))).collect()
    })
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(LONG))
}

/// `n` ranks on one address for each, so that nothing goes through memory, or all on one.
fn ranks(n: usize, is_apart: bool, security: &Security) -> Vec<(IpAddr, Arc<dyn Store>, Security)> {
    let store = memory();
    let address = |rank: usize| host(if is_apart { 10 + rank as u8 } else { 1 });
    (0..n).map(|rank| (address(rank), store.clone(), security.clone())).collect()
}

#[test]
fn every_operation_over_tls() {
    for (security, is_apart) in [
        (with_secret(SECRET), true),
        (with_certificate("authority", "rank"), true),
        // Tensors go through memory; the sockets, which wake, are under TLS.
        (with_secret(SECRET), false),
    ] {
        for (rank, result) in run(&ranks(4, is_apart, &security), |group| check_all(&*group)).into_iter().enumerate() {
            result.unwrap_or_else(|e| panic!("rank {rank}: {e}"));
        }
    }
}

#[test]
fn connections_made_on_demand_are_encrypted_too() {
    let n = 19;
    let results = run(&ranks(n, true, &with_secret(SECRET)), |group| {
        let (rank, mut sum) = (group.rank(), vec![group.rank() as u8 & 1; 100_000]);
        group.all_reduce(&mut sum, DType::U8, ReduceOp::Sum)?;
        assert!(sum.iter().all(|&x| usize::from(x) == n / 2), "{}", sum[0]);
        let (right, left, mut heard) = ((rank + 7) % n, (rank + n - 7) % n, vec![0; 50_000]);
        // SAFETY: the buffer outlives the wait.
        let work = unsafe {
            use oneflow_comm::{Request::Recv, Span};
            group.issue(Recv { data: Span::of_mut(&mut heard), dtype: DType::U8, src: left, tag: 0 })?
        };
        group.send(&vec![rank as u8; 50_000], DType::U8, right, 0)?;
        work.wait(None)?;
        assert!(heard.iter().all(|&x| usize::from(x) == left));
        group.barrier()
    });
    results.into_iter().enumerate().for_each(|(rank, result)| result.unwrap_or_else(|e| panic!("rank {rank}: {e}")));
}

/// Somebody in between: a store that tells other addresses than the ranks', behind which everything is passed on and kept.
struct Spy {
    store: Arc<dyn Store>,
    heard: Arc<Mutex<Vec<u8>>>,
    /// Changes a bit of whatever comes from now on.
    meddles: Arc<AtomicBool>,
}

impl Spy {
    fn new(store: Arc<dyn Store>) -> Spy {
        Spy { store, heard: Arc::default(), meddles: Arc::default() }
    }

    /// An address that leads to another one.
    fn lead(&self, to: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.99:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, meddles) = (self.heard.clone(), self.meddles.clone());
        std::thread::spawn(move || {
            while let Ok((one, _)) = listener.accept() {
                let Ok(other) = TcpStream::connect(to) else { continue };
                for (from, to) in [(one.try_clone(), other.try_clone()), (Ok(other), Ok(one))] {
                    let (from, to, heard, meddles) = (from.unwrap(), to.unwrap(), heard.clone(), meddles.clone());
                    std::thread::spawn(move || pass(from, to, &heard, &meddles));
                }
            }
        });
        address
    }

    fn has_heard(&self, words: &[u8]) -> bool {
        self.heard.lock().unwrap().windows(words.len()).any(|window| window == words)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, heard: &Mutex<Vec<u8>>, meddles: &AtomicBool) {
    let mut buf = [0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut buf) {
        heard.lock().unwrap().extend_from_slice(&buf[..n]);
        if meddles.load(Ordering::SeqCst) {
            buf[n / 2] ^= 4;
        }
        if to.write_all(&buf[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

impl Store for Spy {
    fn timeout(&self) -> Duration {
        self.store.timeout()
    }
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        // What a rank says of itself begins with its address.
        let text = String::from_utf8_lossy(value).into_owned();
        match text.split_once(' ').and_then(|(address, rest)| Some((address.parse().ok()?, rest))) {
            Some((address, rest)) if key.starts_with("group/") => {
                self.store.set(key, format!("{} {rest}", self.lead(address)).as_bytes())
            }
            _ => self.store.set(key, value),
        }
    }
    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.store.get(key)
    }
    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        self.store.add(key, amount)
    }
    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        self.store.compare_set(key, expected, desired)
    }
    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.append(key, value)
    }
    fn check(&self, keys: &[&str]) -> Result<bool> {
        self.store.check(keys)
    }
    fn wait(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        self.store.wait(keys, timeout)
    }
    fn delete(&self, key: &str) -> Result<bool> {
        self.store.delete(key)
    }
    fn num_keys(&self) -> Result<i64> {
        self.store.num_keys()
    }
}

const NUMBERS: &[u8] = b"numbers that nobody else shall read";

fn talk(group: &dyn ProcessGroup) -> Result<()> {
    let mut data = NUMBERS.repeat(1000);
    group.broadcast(&mut data, DType::U8, 0)?;
    assert_eq!(data, NUMBERS.repeat(1000));
    match group.rank() {
        0 => group.send(&data, DType::U8, 1, 3)?,
        _ => group.recv(&mut data, DType::U8, 0, 3)?,
    }
    group.barrier()
}

fn spied(security: &Security, f: impl Fn(&dyn ProcessGroup, &Spy) -> Result<()> + Sync) -> (Arc<Spy>, Vec<Result<()>>) {
    let spy = Arc::new(Spy::new(memory()));
    let seat = || (host(1), spy.clone() as Arc<dyn Store>, security.clone());
    let results = run(&[seat(), seat()], |group| f(&*group, &spy));
    (spy, results)
}

#[test]
fn somebody_in_between_reads_nothing() {
    for (security, is_read) in
        [(plain(), true), (with_secret(SECRET), false), (with_certificate("authority", "rank"), false)]
    {
        let (spy, results) = spied(&security, |group, _| talk(group));
        results.into_iter().for_each(|result| result.unwrap());
        assert_eq!(spy.has_heard(NUMBERS), is_read);
        // Nor what is said of operations.
        assert!(spy.heard.lock().unwrap().len() > 2 * 1000 * NUMBERS.len());
    }
}

#[test]
fn somebody_in_between_changes_nothing() {
    let ready = std::sync::Barrier::new(2);
    let (_, results) = spied(&with_secret(SECRET), |group, spy| {
        talk(group)?;
        ready.wait();
        spy.meddles.store(true, Ordering::SeqCst);
        ready.wait();
        let failed = talk(group).unwrap_err();
        assert!(group.failure().is_some());
        Err(failed)
    });
    let said: Vec<String> = results.into_iter().map(|result| result.unwrap_err().to_string()).collect();
    assert!(said.iter().any(|text| text.contains("changed on the way")), "{said:?}");
}

#[test]
fn ranks_of_another_kind_are_refused_by_name() {
    let tls = || with_secret(SECRET);
    let certificate = || with_certificate("authority", "rank");
    // The higher rank connects.
    let cases = [
        (
            tls(),
            plain(),
            ["that uses no TLS, which this process demands", "it demands TLS, which this process does not use"],
        ),
        (
            plain(),
            tls(),
            ["with TLS, which this process does not use", "it does not use TLS, which this process demands"],
        ),
        (
            tls(),
            with_secret("the secret of that job"),
            ["with another job secret", "their job secrets differ, or somebody"],
        ),
        (
            certificate(),
            with_certificate("stranger", "of_stranger"),
            [
                "refuses this process, whose certificate is of another authority",
                "it has a certificate that ONEFLOW_TLS_CA has not signed",
            ],
        ),
        (certificate(), tls(), ["uses certificates where", "perhaps one of both has certificates"]),
    ];
    // Each waits for ranks that never come.
    std::thread::scope(|scope| {
        for (lower, higher, words) in cases {
            scope.spawn(move || {
                let store = memory();
                let seat = |security: Security| (host(1), store.clone(), security);
                let results = run(&[seat(lower), seat(higher)], |group| group.barrier());
                for (result, words) in results.into_iter().zip(words) {
                    let error = result.unwrap_err();
                    assert!(error.text().contains(words), "{error} lacks '{words}'");
                }
            });
        }
    });
}

#[test]
fn the_store_under_tls() {
    for job in [with_secret(SECRET), with_certificate("authority", "rank")] {
        let server = Server::bind_as("127.0.0.1:0".parse().unwrap(), job.clone()).unwrap();
        let spy = Spy::new(memory());
        let port = spy.lead(server.address()).port();
        let connect = |security: &Security| TcpStore::connect_as("127.0.0.99", port, LONG, security);
        let store = Arc::new(connect(&job).unwrap());
        // Larger than any buffer on the way, and odd.
        let long: Vec<u8> = NUMBERS.iter().copied().cycle().take(5_000_003).collect();
        store.set("key of the job", &long).unwrap();
        assert!(store.get("key of the job").unwrap() == long);
        let waiting = store.clone();
        let waiter = std::thread::spawn(move || waiting.get("later").unwrap());
        store.set("later", b"v").unwrap();
        assert_eq!(waiter.join().unwrap(), b"v");
        assert_eq!(store.add("sum", 41).unwrap() + 1, store.add("sum", 1).unwrap());
        assert!(!spy.has_heard(b"key of the job") && !spy.has_heard(NUMBERS));
        // Many clients at once, each with requests in flight.
        std::thread::scope(|scope| {
            for i in 0..8 {
                let job = &job;
                scope.spawn(move || {
                    let store = connect(job).unwrap();
                    (0..50).for_each(|_| assert!(store.add("count", 1).unwrap() > 0));
                    assert_eq!(store.get("later").unwrap(), b"v", "{i}");
                });
            }
        });
        assert_eq!(store.add("count", 0).unwrap(), 400);
        // Others are told why.
        for (other, words) in [
            (plain(), "it demands TLS, which this process does not use: set ONEFLOW_TLS=1"),
            (with_certificate("stranger", "of_stranger"), ""),
            (with_secret("the secret of that job"), ""),
        ] {
            let error = connect(&other).err().unwrap();
            assert!(error.text().contains(words), "{error}");
        }
        let error = TcpStore::connect("127.0.0.99", port, LONG).err().unwrap();
        assert!(error.text().contains("it demands TLS"), "{error}");
        assert!(server.refusals().contains("that uses no TLS, which this process demands"), "{}", server.refusals());
    }
}

#[test]
fn a_client_with_tls_never_falls_back() {
    let job = with_secret(SECRET);
    let open = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let locked = Server::bind_as("127.0.0.1:0".parse().unwrap(), plain()).unwrap();
    for server in [&open, &locked] {
        let port = server.address().port();
        for connect in [TcpStore::connect_as, TcpStore::connect_to_any] {
            let error = connect("127.0.0.1", port, LONG, &job).err().unwrap();
            assert!(error.text().contains("it does not use TLS, which this process demands"), "{error}");
        }
        assert!(server.refusals().contains("with TLS, which this process does not use"), "{}", server.refusals());
    }
    // Another program's, which hangs up at words that it does not know.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().for_each(|stream| drop(stream.map(|mut s| s.read(&mut [0; 8])))));
    let error = TcpStore::connect_to_any("127.0.0.1", port, LONG, &job).err().unwrap();
    assert!(error.text().contains("it hung up at the first words of TLS"), "{error}");
}

#[test]
fn encryption_without_knowing_with_whom_is_refused() {
    let of = |vars: &[(&str, &str)]| {
        Security::from_vars(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string()))
    };
    for vars in [&[("ONEFLOW_TLS", "1")][..], &[("ONEFLOW_TLS", "1"), ("ONEFLOW_INSECURE", "1")]] {
        let error = of(vars).unwrap_err();
        assert!(error.text().contains("ONEFLOW_TLS=1 needs a job secret or certificates"), "{error}");
    }
}
