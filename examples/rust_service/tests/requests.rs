//! The service answers many at once, each with its own numbers, says what is wrong with a request, and ends without cutting
//! an answer short.

use oneflow_base::{DType, Device};
use oneflow_core::Tensor;
use oneflow_graph::{Config, Points, Tracer, compile, compile_at_sizes};
use oneflow_ops::TensorOps;
use oneflow_runtime::{NamedDim, Pool, Read as SizeOf, Session, register};
use oneflow_rust_service::{Limits, Service};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn session(f: impl FnOnce(&Tracer) -> Tensor) -> Session {
    register();
    oneflow_autograd::register();
    let tracer = Tracer::begin("served", None).unwrap();
    let y = f(&tracer);
    compile(tracer.finish(&[y]).unwrap(), &Config::default()).unwrap().session
}

/// `y = relu(x @ w)` with a known weight, four rows at a time.
fn product() -> Session {
    // SAFETY: f32 is the Rust type of F32.
    let w = unsafe { Tensor::from_host(&[1f32, -1.0, 2.0, 0.5, 0.0, -3.0], DType::F32, &[3, 2]) }.unwrap();
    session(|tracer| {
        let x = tracer.input(&Tensor::empty(DType::F32, Device::CPU, &[4, 3]).unwrap()).unwrap();
        x.matmul(&w).unwrap().relu().unwrap()
    })
}

/// The same for any number of rows.
fn product_of_any_batch() -> Session {
    // SAFETY: f32 is the Rust type of F32.
    let w = unsafe { Tensor::from_host(&[1f32, -1.0, 2.0, 0.5, 0.0, -3.0], DType::F32, &[3, 2]) }.unwrap();
    register();
    oneflow_autograd::register();
    let sizes = [5, 7, 11, 17];
    let traced = sizes.map(|n| {
        let tracer = Tracer::begin("served", None).unwrap();
        let x = tracer.input(&Tensor::empty(DType::F32, Device::CPU, &[n, 3]).unwrap()).unwrap();
        let y = x.matmul(&w).unwrap().relu().unwrap();
        tracer.finish(&[y]).unwrap()
    });
    let read = Some(SizeOf { input: 0, axis: 0, factor: 1, constant: 0 });
    let dim = NamedDim { name: "batch".into(), min: 1, max: i64::MAX, step: 1, start: 1, read };
    let points = Points { dims: vec![dim], sizes: sizes.map(|n| vec![n]).to_vec() };
    compile_at_sizes(traced.into(), &[], &points, Vec::new(), &Config::default()).unwrap().session
}

/// The likeliest next byte is the last one plus one.
fn alphabet() -> Session {
    let next: Vec<f32> = (0..256 * 256).map(|k| if (k / 256 + 1) % 256 == k % 256 { 9.0 } else { 0.0 }).collect();
    // SAFETY: f32 is the Rust type of F32.
    let table = unsafe { Tensor::from_host(&next, DType::F32, &[256, 256]) }.unwrap();
    session(|tracer| {
        let tokens = tracer.input(&Tensor::empty(DType::I64, Device::CPU, &[2, 8]).unwrap()).unwrap();
        let last = tracer.input(&Tensor::empty(DType::I64, Device::CPU, &[2]).unwrap()).unwrap();
        let byte = tokens.gather(1, &last.unsqueeze(1).unwrap()).unwrap().squeeze_dim(&[1]).unwrap();
        table.index_select(0, &byte).unwrap()
    })
}

const GRACE: Duration = Duration::from_secs(20);

fn served(session: Session, runners: usize) -> (Service, SocketAddr) {
    let limits = Limits { runners, wait: Duration::from_millis(2), queue: 1024 };
    let service = Service::start(Pool::new(session, runners), "127.0.0.1:0", limits).unwrap();
    let at = service.address();
    (service, at)
}

fn ask(at: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut s = TcpStream::connect(at).unwrap();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    s.write_all((head + body).as_bytes()).unwrap();
    let mut text = String::new();
    s.read_to_string(&mut text).unwrap();
    let status = text[9..12].parse().unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1;
    // Short answers may come in chunks: the JSON stands between the first and the last brace.
    let json = &body[body.find('{').unwrap()..=body.rfind('}').unwrap()];
    (status, serde_json::from_str(json).unwrap())
}

fn closed(at: SocketAddr) {
    // The listener's own thread closes the port a moment later.
    let deadline = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect(at).is_ok() {
        assert!(Instant::now() < deadline, "the port is still open");
        std::thread::yield_now();
    }
}

#[test]
fn concurrent_requests_get_their_own_answers() {
    for (session, batch, runners) in [
        (product(), json!(4), 1),
        (product(), json!(4), 3),
        (product_of_any_batch(), json!("batch"), 1),
        (product_of_any_batch(), json!("batch"), 3),
    ] {
        let (service, at) = served(session, runners);
        let (status, about) = ask(at, "GET", "/", "");
        assert_eq!(
            (status, &about["inputs"][0]),
            (200, &json!({ "name": "input0", "dtype": "float32", "shape": [3], "batch": batch }))
        );
        std::thread::scope(|scope| {
            for k in 0..8 {
                scope.spawn(move || {
                    for i in 0..25 {
                        let (a, b, c) = ((k * 100 + i) as f64, i as f64, k as f64);
                        let (status, y) = ask(at, "POST", "/run", &json!({ "inputs": [[a, b, c]] }).to_string());
                        let want = [(a + 2.0 * b).max(0.0), (-a + 0.5 * b - 3.0 * c).max(0.0)];
                        assert_eq!((status, &y["outputs"][0]), (200, &json!(want)));
                    }
                });
            }
        });
        assert!(service.shut_down(GRACE));
        closed(at);
    }
}

#[test]
fn wrong_requests_are_told_what_is_wrong() {
    let (_service, at) = served(product(), 1);
    for (path, body, says) in [
        ("/run", "{\"inputs\": [[1, 2]]}", "expected 3 numbers"),
        ("/run", "{\"inputs\": []}", "takes 1 inputs"),
        ("/run", "{\"inputs\": [[1, 2, 3], [4]]}", "takes 1 inputs, 2 were given"),
        ("/run", "{\"inputs\": [[1, 2, \"x\"]]}", "numbers of float32"),
        ("/run", "{}", "expected {\"inputs\""),
        ("/run", "nonsense", "not JSON"),
        ("/run", "{\"inputs\": [[1, 2, NaN]]}", "not JSON"),
        ("/run", "{\"inputs\": [[1, 2, 1e999]]}", "not JSON"),
        ("/run", "{\"inputs\": [[1, null, 2]]}", "numbers of float32"),
        ("/run", "{\"inputs\": {\"x\": [1, 2, 3]}}", "input \"input0\" is missing"),
        ("/generate", "{\"prompt\": \"x\"}", "does not predict bytes"),
    ] {
        let (status, e) = ask(at, "POST", path, body);
        assert_eq!(status, 400);
        assert!(e["error"].as_str().unwrap().contains(says), "{e}");
    }
    // One byte more than is read, of many.
    let mut long = TcpStream::connect(at).unwrap();
    long.write_all(b"POST /run HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 99999999999\r\n\r\n")
        .unwrap();
    long.write_all(&[b' '; (64 << 10) + 32 * 3 + 1]).unwrap();
    let mut text = String::new();
    long.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 413") && text.contains("limit"), "{text}");
    let (status, y) = ask(at, "POST", "/run", "{\"inputs\": {\"input0\": [1, 2, 3]}}");
    assert_eq!((status, &y["outputs"][0]), (200, &json!([5.0, 0.0])));
    for (method, path, status) in [("POST", "/other", 404), ("GET", "/run", 405), ("GET", "/health?now", 200)] {
        assert_eq!(ask(at, method, path, "").0, status);
    }
}

#[test]
fn texts_that_are_written_at_the_same_time_do_not_mix() {
    let (_service, at) = served(alphabet(), 1);
    std::thread::scope(|scope| {
        for (prompt, want) in [
            ("a", "abcdef"),
            ("0123", "012345678"),
            ("many more bytes than are looked at: J", "many more bytes than are looked at: JKLMNO"),
        ] {
            scope.spawn(move || {
                let wish = json!({ "prompt": prompt, "bytes": want.len() - prompt.len(), "temperature": 0 });
                let (status, y) = ask(at, "POST", "/generate", &wish.to_string());
                assert_eq!((status, y["text"].as_str()), (200, Some(want)));
            });
        }
    });
    let text =
        |seed| ask(at, "POST", "/generate", &json!({ "prompt": "a", "temperature": 5, "seed": seed }).to_string()).1;
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
    let (status, e) = ask(at, "POST", "/generate", "{\"prompt\": \"\"}");
    assert!(status == 400 && e["error"].as_str().unwrap().contains("prompt"));
}

#[test]
fn programs_without_a_batch_are_refused() {
    let s = session(|tracer| {
        let x = tracer.input(&Tensor::empty(DType::F32, Device::CPU, &[4, 3]).unwrap()).unwrap();
        x.sum(None, false).unwrap()
    });
    let limits = Limits { runners: 1, wait: Duration::ZERO, queue: 0 };
    let e = Service::start(Pool::new(s, 1), "127.0.0.1:0", limits).err().unwrap();
    assert!(e.text().contains("do not share their first size"), "{e}");
}

#[test]
fn a_program_that_writes_its_variables_runs_one_at_a_time() {
    // SAFETY: f32 is the Rust type of F32.
    let n = unsafe { Tensor::from_host(&[0f32], DType::F32, &[1]) }.unwrap();
    let counter = session(|tracer| {
        let x = tracer.input(&Tensor::empty(DType::F32, Device::CPU, &[1]).unwrap()).unwrap();
        n.add_(&x).unwrap();
        n.mul(1.0).unwrap()
    });
    assert!(counter.replica().err().unwrap().text().contains("writes"));
    let (_service, at) = served(counter, 4);
    let mut seen: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let one =
                        || ask(at, "POST", "/run", "{\"inputs\": [[1]]}").1["outputs"][0][0].as_f64().unwrap() as i64;
                    (0..5).map(|_| one()).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    seen.sort();
    assert_eq!(seen, (1..=20).collect::<Vec<_>>());
}

/// The binary, asked while it is told to end: whoever was let in gets an answer.
#[test]
fn a_signal_ends_the_service_after_the_last_answer() {
    let dir = std::env::temp_dir().join(format!("oneflow-service-{}", std::process::id()));
    alphabet().save(&dir).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_rust_service"))
        .args([dir.to_str().unwrap(), "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let at: SocketAddr = first.rsplit_once("http://").unwrap().1.parse().unwrap();
    assert_eq!(ask(at, "GET", "/health", "").0, 200);
    let wish = json!({ "prompt": "a", "bytes": 2000, "temperature": 0 }).to_string();
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| ask(at, "POST", "/generate", &wish))).collect();
        std::thread::sleep(Duration::from_millis(50));
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        threads.into_iter().map(|t| t.join().unwrap().0).collect()
    });
    assert_eq!(answers, [200; 4]);
    assert_eq!(lines.next().unwrap().unwrap(), "ended");
    assert!(child.wait().unwrap().success());
    closed(at);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_row_that_the_program_refuses_fails_alone() {
    let table = oneflow_runtime::tensor(&[1f32, 2.0, 3.0], &[3, 1]).unwrap();
    let s = session(|tracer| {
        let index = tracer.input(&Tensor::empty(DType::I64, Device::CPU, &[4]).unwrap()).unwrap();
        table.index_select(0, &index).unwrap()
    });
    let limits = Limits { runners: 1, wait: Duration::from_millis(300), queue: 0 };
    let service = Service::start(Pool::new(s, 1), "127.0.0.1:0", limits).unwrap();
    let at = service.address();
    std::thread::scope(|scope| {
        for k in [0, 1, 2, 7] {
            scope.spawn(move || {
                let (status, y) = ask(at, "POST", "/run", &json!({ "inputs": [[k]] }).to_string());
                match k {
                    7 => assert!(status == 400 && y["error"].as_str().unwrap().contains("index"), "{status} {y}"),
                    _ => assert_eq!((status, &y["outputs"][0]), (200, &json!([k as f64 + 1.0]))),
                }
            });
        }
    });
}

#[test]
fn a_client_that_never_finishes_does_not_hold_the_end_up() {
    let (service, at) = served(product(), 1);
    let mut slow = TcpStream::connect(at).unwrap();
    slow.write_all(b"POST /run HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n{\"inputs\":").unwrap();
    // The others are served meanwhile, and afterwards the request has been taken.
    for _ in 0..20 {
        assert_eq!(ask(at, "POST", "/run", "{\"inputs\": [[1, 2, 3]]}").0, 200);
    }
    let begun = Instant::now();
    assert!(!service.shut_down(Duration::from_millis(200)));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn many_slow_clients_keep_nobody_from_being_served() {
    let (service, at) = served(product(), 1);
    let slow: Vec<TcpStream> = (0..200)
        .map(|k| {
            let mut s = TcpStream::connect(at).unwrap();
            let text = if k % 2 == 0 {
                "POST /run HT"
            } else {
                "POST /run HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n{"
            };
            s.write_all(text.as_bytes()).unwrap();
            s
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(ask(at, "POST", "/run", "{\"inputs\": [[1, 2, 3]]}").0, 200);
    }
    drop(slow);
    assert!(service.shut_down(GRACE));
}

#[test]
fn more_rows_than_may_wait_are_turned_away_and_counted() {
    // The batch is never full, so each row waits; of those behind it only as many as a batch has find room.
    let limits = Limits { runners: 1, wait: Duration::from_millis(300), queue: 0 };
    let service = Service::start(Pool::new(alphabet(), 1), "127.0.0.1:0", limits).unwrap();
    let at = service.address();
    let row = json!({ "inputs": [[97, 0, 0, 0, 0, 0, 0, 0], [0]] }).to_string();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64).map(|_| scope.spawn(|| ask(at, "POST", "/run", &row).0)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let n = |status| statuses.iter().filter(|s| **s == status).count();
    assert!(n(200) > 0 && n(200) + n(503) == 64, "{statuses:?}");
    let mut s = TcpStream::connect(at).unwrap();
    s.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    s.read_to_string(&mut text).unwrap();
    for (name, n) in [("rows", n(200)), ("turned_away", n(503)), ("failed_runs", 0)] {
        assert!(text.contains(&format!("oneflow_service_{name}_total {n}\n")), "{text}");
    }
}

#[test]
fn inputs_that_are_rows_of_tables_are_given_by_ids_and_follow_deltas() {
    use oneflow_embedding::{Batch, Config as Rows, Initializer, Key, Options, Saved, Serving, Store};
    use oneflow_rust_service::{Follower, Tables};
    use std::collections::HashMap;
    use std::sync::Arc;

    let place = std::env::temp_dir().join(format!("oneflow-served-tables-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&place);
    let config = Rows {
        column_dims: vec![2],
        state_width: 1,
        tables: vec![vec![Initializer::Constant(0.25)], vec![Initializer::Constant(0.5)]],
        seed: 0,
    };
    let mut store = Store::open(&place.join("rows"), config, &Options::default()).unwrap();
    let set = |store: &mut Store, table: u32, id: u64, w: f32| {
        let batch = Batch::new([Some(Key { table, id })].into_iter()).unwrap();
        store.write(&batch, &[w, w, 0.0]).unwrap();
    };
    set(&mut store, 0, 7, 1.0);
    set(&mut store, 1, u64::MAX, 10.0);
    store.save_snapshot("first").unwrap();
    let serving = Arc::new(Serving::open(&[place.join("rows")], "first").unwrap());
    // Adds up the rows of two ids, one of each table.
    let session = session(|tracer| {
        let rows = tracer.input(&Tensor::empty(DType::F32, Device::CPU, &[4, 2, 2]).unwrap()).unwrap();
        rows.sum(&[1], false).unwrap()
    });
    let pool = Pool::new(session, 1);
    let input = pool.plan().input_name(0);
    let wrong = Tables::new(pool.plan(), HashMap::from([("nothing".to_owned(), serving.clone())]));
    assert!(wrong.err().unwrap().text().contains("nothing"));
    let tables = Tables::new(pool.plan(), HashMap::from([(input, serving.clone())])).unwrap();
    let limits = Limits { runners: 1, wait: Duration::from_millis(2), queue: 64 };
    let service = Service::start_with_tables(pool, tables, "127.0.0.1:0", limits).unwrap();
    let at = service.address();
    let run = |ids: &str| ask(at, "POST", "/run", &format!("{{\"inputs\": [{ids}]}}"));
    assert_eq!(run("[7, -1]"), (200, json!({ "outputs": [[11.0, 11.0]] })));
    // Ids without rows have their initial weights.
    assert_eq!(run("[8, 8]"), (200, json!({ "outputs": [[0.75, 0.75]] })));
    assert_eq!(run("[7]").0, 400);
    assert_eq!(run("[1.5, 2]").0, 400);
    let (_, about) = ask(at, "GET", "/", "");
    assert_eq!((&about["inputs"][0]["dtype"], &about["inputs"][0]["shape"]), (&json!("int64"), &json!([2])));

    // What the command line writes for the rows that changed.
    set(&mut store, 0, 7, 2.0);
    store.remove(&[Key { table: 1, id: u64::MAX }]).unwrap();
    store.save_snapshot("second").unwrap();
    let (mut older, mut newer) = (
        Saved::open(&place.join("rows"), Some("first")).unwrap(),
        Saved::open(&place.join("rows"), Some("second")).unwrap(),
    );
    let (changed, gone) = newer.since(&mut older).unwrap();
    let rows = newer.select(&changed).unwrap();
    let folder = place.join("deltas");
    std::fs::create_dir_all(&folder).unwrap();
    let words = |v: Vec<u64>| v.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
    let keys = |k: &[Key]| (words(k.iter().map(|k| k.table as u64).collect()), words(k.iter().map(|k| k.id).collect()));
    let ((tables, ids), (gone_tables, gone_ids)) = (keys(&rows.keys), keys(&gone));
    let (steps, counts) = (words(vec![1; rows.keys.len()]), words(vec![1; rows.keys.len()]));
    let values: Vec<u8> = rows.values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut head = serde_json::Map::new();
    let about = json!({
        "kind": "oneflow.one_embedding delta 1",
        "config": "{\"column_dims\": [2], \"n_tables\": 2, \"seed\": 0, \"state_width\": 1}",
        "since": older.epoch().to_string(),
        "epoch": newer.epoch().to_string(),
    });
    head.insert("__metadata__".into(), about);
    let mut data = Vec::new();
    let columns = [("tables", &tables), ("ids", &ids), ("steps", &steps), ("counts", &counts)];
    for (name, bytes) in columns.into_iter().chain([("gone_tables", &gone_tables), ("gone_ids", &gone_ids)]) {
        let range = [data.len(), data.len() + bytes.len()];
        head.insert(name.into(), json!({ "dtype": "I64", "shape": [bytes.len() / 8], "data_offsets": range }));
        data.extend_from_slice(bytes);
    }
    let range = [data.len(), data.len() + values.len()];
    head.insert("values".into(), json!({ "dtype": "F32", "shape": [rows.keys.len(), 3], "data_offsets": range }));
    data.extend_from_slice(&values);
    let head = Value::Object(head).to_string().into_bytes();
    let file = [&(head.len() as u64).to_le_bytes()[..], &head, &data].concat();
    let mut follower = Follower::new(&folder, serving);
    assert!(follower.look().is_empty());
    std::fs::write(folder.join("1.safetensors"), &file).unwrap();
    std::fs::write(folder.join("2.safetensors"), &file[..40]).unwrap();
    let done = follower.look();
    assert!(done.len() == 2 && done[0].1.is_ok() && done[1].1.is_err(), "{done:?}");
    assert!(follower.look().is_empty());
    assert_eq!(run("[7, -1]"), (200, json!({ "outputs": [[2.5, 2.5]] })));
    service.shut_down(GRACE);
    std::fs::remove_dir_all(place).unwrap();
}
