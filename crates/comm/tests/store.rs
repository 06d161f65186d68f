//! Both stores, the protocol's edges, and hostile peers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflow_comm::store::{FileStore, MemoryStore, PrefixStore, Server, Store, TcpStore};
use oneflow_comm::{Access, Secret, Security};

const LONG: Duration = Duration::from_secs(60);

fn check_all(store: &Arc<dyn Store>) {
    let start = store.num_keys().unwrap();
    store.set("a", b"1").unwrap();
    assert_eq!(store.get("a").unwrap(), b"1");
    store.set("a", b"").unwrap();
    assert_eq!(store.get("a").unwrap(), b"");
    assert_eq!(store.add("n", 5).unwrap(), 5);
    assert_eq!(store.add("n", -7).unwrap(), -2);
    assert_eq!(store.get("n").unwrap(), b"-2");
    assert_eq!(store.compare_set("c", b"x", b"y").unwrap(), b"x");
    assert!(!store.check(&["c"]).unwrap());
    assert_eq!(store.compare_set("c", b"", b"y").unwrap(), b"y");
    assert_eq!(store.compare_set("c", b"z", b"w").unwrap(), b"y");
    assert_eq!(store.compare_set("c", b"y", b"w").unwrap(), b"w");
    store.append("l", b"ab").unwrap();
    store.append("l", b"cd").unwrap();
    assert_eq!(store.get("l").unwrap(), b"abcd");
    assert!(store.check(&["a", "n"]).unwrap() && !store.check(&["a", "nope"]).unwrap());
    assert!(store.check(&[]).unwrap());
    assert_eq!(store.num_keys().unwrap(), start + 4);
    assert!(store.delete("a").unwrap() && !store.delete("a").unwrap());
    let big = vec![7; 3 << 20];
    store.set("big", &big).unwrap();
    assert!(store.get("big").unwrap() == big);

    let error = store.wait(&["n", "late", "later"], Duration::from_millis(50)).unwrap_err();
    assert!(error.text().contains(r#"late", ""#) && error.text().contains(r#"later"]"#), "{error}");
    let setter = store.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        setter.set("late", b"!").unwrap();
        setter.set("later", b"?").unwrap();
    });
    store.wait(&["late", "later"], LONG).unwrap();
    assert_eq!(store.get("late").unwrap(), b"!");
    thread.join().unwrap();

    assert!(store.add("late", 1).unwrap_err().text().contains("add '"));
    assert!(store.set("k", &vec![0; 9 << 20]).is_err());
    // The store is alive after every error.
    assert_eq!(store.add("n", 0).unwrap(), -2);
    let mut keys = store.list_keys().unwrap();
    keys.sort();
    assert_eq!(keys, ["big", "c", "l", "late", "later", "n"]);
    if store.queue_len("q").is_ok() {
        check_queues(store);
    }
}

fn check_queues(store: &Arc<dyn Store>) {
    let start = store.num_keys().unwrap();
    assert_eq!((store.queue_len("q").unwrap(), store.queue_pop("q", None).unwrap()), (0, None));
    store.queue_push("q", b"a").unwrap();
    store.queue_push("q", b"").unwrap();
    assert!(store.check(&["q", "n"]).unwrap());
    assert_eq!((store.queue_len("q").unwrap(), store.num_keys().unwrap()), (2, start));
    assert_eq!(store.queue_pop("q", Some(LONG)).unwrap().unwrap(), b"a");
    assert_eq!(store.queue_pop("q", None).unwrap().unwrap(), b"");
    assert!(!store.check(&["q"]).unwrap());
    let error = store.queue_pop("q", Some(Duration::from_millis(20))).unwrap_err();
    assert!(error.text().contains("timed out") && error.text().contains('q'), "{error}");
    // Each value is for one of those who wait, and none of them is told of a value that another one takes.
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            std::thread::spawn(move || store.queue_pop("q", Some(LONG)).unwrap().unwrap())
        })
        .collect();
    for i in 0..4 {
        store.queue_push("q", &[i]).unwrap();
    }
    let mut got: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    got.sort();
    assert_eq!((got, store.queue_len("q").unwrap()), (vec![0, 1, 2, 3], 0));
    assert!(store.queue_push("q", &vec![0; 9 << 20]).is_err());
}

#[test]
fn memory_store() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(LONG));
    check_all(&store);
    check_all(&(Arc::new(PrefixStore::new("p/q", store)) as _));
}

#[test]
fn file_store() {
    let path = std::env::temp_dir().join(format!("comm-store-{}", std::process::id()));
    let open = || Arc::new(FileStore::open(&path, LONG).unwrap()) as Arc<dyn Store>;
    check_all(&open());
    // What a writer left unfinished is cut off, and others read what was written before.
    let whole = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&[3, 0, 0, 0, 9, 0, 0, 0, b'k']).unwrap();
    let store = open();
    store.set("after", b"v").unwrap();
    assert_eq!(open().get("after").unwrap(), b"v");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), whole + 14);
    std::fs::write(&path, [0xff; 64]).unwrap();
    let error = open().check(&["k"]).unwrap_err();
    assert!(error.text().contains("it is no store"), "{error}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn tcp_store_and_its_prefix() {
    let server: Arc<dyn Store> = Arc::new(TcpStore::host("127.0.0.1", 0, LONG).unwrap());
    check_all(&server);
    check_all(&(Arc::new(PrefixStore::new("p", server)) as _));
}

#[test]
fn clients_share_one_server() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    assert!(server.address().ip().is_loopback());
    let port = server.address().port();
    let threads: Vec<_> = (0..8)
        .map(|i| {
            std::thread::spawn(move || {
                let store = TcpStore::connect("localhost", port, LONG).unwrap();
                assert!(store.local_ip().unwrap().is_loopback());
                store.set(&format!("k{i}"), &[i]).unwrap();
                assert_eq!(store.get(&format!("k{}", (i + 1) % 8)).unwrap(), [(i + 1) % 8]);
                for _ in 0..100 {
                    store.add("sum", 1).unwrap();
                }
                // Threads of one client do not wait for each other's waits.
                let store = Arc::new(store);
                let waiting = store.clone();
                let waiter = std::thread::spawn(move || waiting.get(&format!("w{i}")).unwrap());
                store.set(&format!("w{i}"), b"go").unwrap();
                assert_eq!(waiter.join().unwrap(), b"go");
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let store = TcpStore::connect("127.0.0.1", port, LONG).unwrap();
    assert_eq!(store.add("sum", 0).unwrap(), 800);
    drop(server);
    let error = store.get("sum").unwrap_err();
    assert!(error.text().contains("store at 127.0.0.1"), "{error}");
    let error = TcpStore::connect("127.0.0.1", port, Duration::from_millis(50)).err().unwrap();
    assert!(error.text().contains("cannot connect") && error.text().contains("rank 0"), "{error}");
}

#[test]
fn a_busy_port_is_an_error_that_says_what_to_do() {
    let first = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = Server::bind(first.address()).err().unwrap();
    assert!(error.text().contains("MASTER_PORT"), "{error}");
}

fn raw(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

fn secret(text: &str) -> Security {
    Access::Secret(Secret::new(text).unwrap()).into()
}

#[test]
fn a_server_with_a_secret_serves_those_who_know_it() {
    let job = secret("the secret of this job");
    let server = Server::bind_as("127.0.0.1:0".parse().unwrap(), job.clone()).unwrap();
    let port = server.address().port();
    let connect = |security: &Security| TcpStore::connect_as("127.0.0.1", port, LONG, security);
    let store = connect(&job).unwrap();
    store.set("k", b"v").unwrap();
    check_all(&(Arc::new(PrefixStore::new("p", Arc::new(connect(&job).unwrap()))) as _));
    // Others are told why, at once, and get nothing.
    let start = Instant::now();
    let no_secret = TcpStore::connect("127.0.0.1", port, LONG).err().unwrap();
    assert!(no_secret.text().contains("it refused this process, which has no job secret"), "{no_secret}");
    let wrong = connect(&secret("the secret of that job")).err().unwrap();
    assert!(
        wrong.text().contains("their job secrets differ") && wrong.text().contains("ONEFLOW_JOB_SECRET"),
        "{wrong}"
    );
    assert!(start.elapsed() < LONG / 4);
    let said = server.refusals();
    assert!(said.contains("from 127.0.0.1 with another job secret") && said.contains("without a job secret"), "{said}");
    // A client that wants this job's store is served by no other one, unless it says so.
    let open = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = open.address().port();
    let error = TcpStore::connect_as("127.0.0.1", port, Duration::from_millis(200), &job).err().unwrap();
    assert!(error.text().contains("it asks for no job secret"), "{error}");
    TcpStore::connect_to_any("127.0.0.1", port, LONG, &job).unwrap().set("k", b"v").unwrap();
}

#[test]
fn a_crowd_at_a_guarded_server_disturbs_nobody() {
    let job = secret("the secret of this job");
    let server = Server::bind_as("127.0.0.1:0".parse().unwrap(), job.clone()).unwrap();
    let port = server.address().port();
    let store = TcpStore::connect_as("127.0.0.1", port, LONG, &job).unwrap();
    store.set("k", b"v").unwrap();
    let silent: Vec<_> = (0..300).map(|_| raw(&server, &[])).collect();
    // Operations without a proof, endless input, a proof of another number, sizes beyond all measure.
    let prove = [&[0x7a][..], &[5; 32]].concat();
    let attacks = [
        HELLO.to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        [&prove[..], &[0xff; 32]].concat(),
        vec![0xff; 4 << 20],
        [&[0x01][..], &u64::MAX.to_le_bytes()].concat(),
    ];
    for attack in attacks {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        // The server may hang up at any time.
        let _ = stream.write_all(&attack);
        let mut rest = Vec::new();
        if let Err(e) = stream.read_to_end(&mut rest) {
            assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset);
        }
        assert!(rest.len() <= 65 && !rest.ends_with(b"v"));
    }
    assert_eq!(store.get("k").unwrap(), b"v");
    TcpStore::connect_as("127.0.0.1", port, LONG, &job).unwrap().set("late", b"v").unwrap();
    drop(silent);
}

#[test]
fn a_server_listens_on_one_interface() {
    let any = "0.0.0.0:0".parse().unwrap();
    assert!(Server::bind(any).unwrap().address().ip().is_loopback());
    let error = Server::bind_as(any, Access::Anybody.into()).err().unwrap();
    assert!(error.text().contains("every interface"), "{error}");
}

const HELLO: [u8; 10] = [0x00, 0xce, 0xf7, 0x85, 0x3c, 0x0d, 1, 2, 3, 4];

#[test]
fn the_wire_is_torch_s() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let mut stream = raw(&server, &HELLO);
    let mut answer = |request: &[&[u8]], n: usize| {
        stream.write_all(&request.concat()).unwrap();
        let mut buf = vec![0; n];
        stream.read_exact(&mut buf).unwrap();
        buf
    };
    let str = |s: &str| [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat();
    assert_eq!(answer(&[], 4), [1, 2, 3, 4]);
    // set has no answer; get returns length and data.
    let set = [&[1u8][..], &str("/k"), &str("abc")].concat();
    assert_eq!(answer(&[&set, &[3], &str("/k")], 11), [&[3, 0, 0, 0, 0, 0, 0, 0][..], b"abc"].concat());
    assert_eq!(answer(&[&[4], &str("/n"), &7i64.to_le_bytes()], 8), 7i64.to_le_bytes());
    let two = |op: u8| [&[op][..], &2u64.to_le_bytes(), &str("/k"), &str("/n")].concat();
    assert_eq!(answer(&[&two(5)], 1), [0]);
    assert_eq!(answer(&[&two(6)], 1), [0]);
    assert_eq!(answer(&[&two(0x0a)], 8 + 3 + 8 + 1), [&str("abc")[..], &str("7")].concat());
    assert_eq!(answer(&[&[5], &1u64.to_le_bytes(), &str("/no")], 1), [1]);
    // A wait that is cancelled answers 1.
    assert_eq!(answer(&[&[6], &1u64.to_le_bytes(), &str("/no"), &[0x0c]], 1), [1]);
    assert_eq!(answer(&[&[0x0b], &1u64.to_le_bytes(), &str("/m"), &str("v"), &[7]], 8), 3i64.to_le_bytes());
    assert_eq!(answer(&[&[8], &str("/m")], 8), 1i64.to_le_bytes());
    // Queues and the list of keys; push has no answer.
    let push = [&[0x0e][..], &str("/q"), &str("ab")].concat();
    assert_eq!(answer(&[&push, &[0x10], &str("/q")], 8), 1i64.to_le_bytes());
    assert_eq!(answer(&[&[0x0f], &str("/q")], 18), [&1i64.to_le_bytes()[..], &str("ab")].concat());
    assert_eq!(answer(&[&[0x0f], &str("/q")], 8), 0i64.to_le_bytes());
    assert_eq!(answer(&[&[0x11]], 8 + 2 * 10)[..8], 2i64.to_le_bytes());
    // A barrier of one, and of two with another client.
    assert_eq!(answer(&[&[0x12], &str("/b"), &1i64.to_le_bytes()], 1), [0]);
    let other = raw(&server, &[&HELLO[..], &[0x12], &str("/b2"), &2i64.to_le_bytes()].concat());
    assert_eq!(answer(&[&[0x12], &str("/b2"), &2i64.to_le_bytes()], 1), [0]);
    drop(other);
    // A value of a queue wakes one client; when that one leaves without it, the next.
    let wait = [&[6][..], &1u64.to_le_bytes(), &str("/w")].concat();
    let mut first = raw(&server, &[&HELLO[..], &wait].concat());
    first.read_exact(&mut [0; 4]).unwrap();
    let mut second = raw(&server, &[&HELLO[..], &wait].concat());
    second.read_exact(&mut [0; 4]).unwrap();
    assert_eq!(answer(&[&[0x0e], &str("/w"), &str("v"), &[0x10], &str("/w")], 8), 1i64.to_le_bytes());
    first.read_exact(&mut [0; 1]).unwrap();
    second.set_nonblocking(true).unwrap();
    assert_eq!(second.read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    second.set_nonblocking(false).unwrap();
    drop(first);
    second.read_exact(&mut [0; 1]).unwrap();
    assert_eq!(answer(&[&[8], &str("/b")], 8), 1i64.to_le_bytes());
    assert_eq!(answer(&[&[8], &str("/b2")], 8), 1i64.to_le_bytes());
    // Byte by byte is as good as at once.
    let bytes = [&[4u8][..], &str("/n"), &1i64.to_le_bytes()].concat();
    bytes.iter().for_each(|&byte| drop(answer(&[&[byte]], 0)));
    assert_eq!(answer(&[], 8), 8i64.to_le_bytes());
    // A client that sets a value and is gone has set it.
    drop(raw(&server, &[&HELLO[..], &[1], &str("/last"), &str("word")].concat()));
    assert_eq!(answer(&[&[6], &1u64.to_le_bytes(), &str("/last"), &[3], &str("/last")], 13)[9..], *b"word");
}

#[test]
fn hostile_clients_lose_their_connection_and_nothing_else() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let good = TcpStore::connect("127.0.0.1", server.address().port(), LONG).unwrap();
    let huge = u64::MAX.to_le_bytes();
    let with_hello = |rest: &[&[u8]]| [&HELLO[..], &rest.concat()].concat();
    let attacks: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0, 1, 2, 3, 4],
        vec![7],
        with_hello(&[&[0x77]]),
        with_hello(&[&[1], &huge]),
        with_hello(&[&[1], &1u64.to_le_bytes(), b"k", &huge]),
        with_hello(&[&[5], &huge]),
        with_hello(&[&[0x0b], &(1u64 << 40).to_le_bytes()]),
        with_hello(&[&[3], &1u64.to_le_bytes(), b"q"]),
        with_hello(&[&[0], &[0xce, 0xf7, 0x85, 0x3c]]),
    ];
    for attack in attacks {
        let mut stream = raw(&server, &attack);
        let mut rest = Vec::new();
        // Closed by the server: the end of the stream or a reset, but no timeout.
        if let Err(e) = stream.read_to_end(&mut rest) {
            assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset, "{attack:?}");
        }
    }
    // A client that says nothing, or half a request, disturbs nobody.
    let _silent = raw(&server, &[]);
    let _half = raw(&server, &with_hello(&[&[1, 5, 0]]));
    assert_eq!(good.add("n", 1).unwrap(), 1);
}

#[test]
fn a_hostile_server_cannot_make_the_client_allocate_or_hang() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = [0; 10];
        stream.read_exact(&mut hello).unwrap();
        stream.write_all(&hello[6..]).unwrap();
        let mut buf = [0; 1024];
        // Answers the wait with yes, the get with an absurd length.
        assert!(stream.read(&mut buf).unwrap() > 0);
        stream.write_all(&[0]).unwrap();
        assert!(stream.read(&mut buf).unwrap() > 0);
        stream.write_all(&u64::MAX.to_le_bytes()).unwrap();
        // Then accepts and never answers.
        let silent = listener.accept().unwrap();
        let mut end = Vec::new();
        let _ = (&silent.0).read_to_end(&mut end);
    });
    let store = TcpStore::connect("127.0.0.1", port, LONG).unwrap();
    let error = store.get("x").unwrap_err();
    assert!(error.text().contains("announces a value of 18446744073709551615 bytes"), "{error}");
    let start = Instant::now();
    let error = TcpStore::connect("127.0.0.1", port, Duration::from_millis(100)).err().unwrap();
    assert!(error.text().contains("cannot connect"), "{error}");
    assert!(start.elapsed() < LONG);
    thread.join().unwrap();
}
