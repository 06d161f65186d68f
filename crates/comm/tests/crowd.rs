//! A store with more clients than this process can serve: each case in its own process, whose limits and
//! memory are looked at.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use oneflow_comm::store::{Server, Store, TcpStore};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LONG: Duration = Duration::from_secs(60);
const CASE: &str = "COMM_TEST_CROWD";

/// Runs the test `child` of this binary as the process of one case.
fn in_child(case: &str) {
    let exe = std::env::current_exe().unwrap();
    let done = Command::new(exe).args(["--exact", "child", "--nocapture"]).env(CASE, case).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_store_without_descriptors_sleeps_until_there_are_some() {
    in_child("descriptors");
}

#[test]
fn unfinished_requests_of_many_clients_hold_bounded_memory() {
    in_child("memory");
}

#[test]
fn child() {
    match std::env::var(CASE).as_deref() {
        Ok("descriptors") => descriptors(),
        Ok("memory") => memory(),
        _ => {}
    }
}

fn descriptors() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let store = TcpStore::connect("127.0.0.1", server.address().port(), LONG).unwrap();
    store.set("k", b"v").unwrap();
    // Opened while descriptors are there.
    let mut times = File::open("/proc/self/stat").unwrap();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..before }).unwrap();
    // Both ends of a connection are in this process: at some point no descriptor is left for the server's.
    let mut knocking = Vec::new();
    while let Ok(stream) = TcpStream::connect(server.address()) {
        knocking.push(stream);
    }
    let start = processor_seconds(&mut times);
    std::thread::sleep(Duration::from_millis(1000));
    let spent = processor_seconds(&mut times) - start;
    assert!(spent < 0.3, "the store used {spent} s of a second while it could let nobody in");
    assert_eq!(store.get("k").unwrap(), b"v");
    knocking.truncate(4);
    let late = TcpStore::connect("127.0.0.1", server.address().port(), LONG).unwrap();
    assert_eq!(late.get("k").unwrap(), b"v");
}

fn memory() {
    const STRANGERS: usize = 20;
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let store = TcpStore::connect("127.0.0.1", server.address().port(), LONG).unwrap();
    store.set("k", b"v").unwrap();
    // The hello, and a request to set very many keys of which the last never comes.
    let hello = [0x00, 0xce, 0xf7, 0x85, 0x3c];
    let value = vec![7u8; 1 << 20];
    let strangers: Vec<_> = (0..STRANGERS)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
            let value = value.clone();
            std::thread::spawn(move || {
                let begin = [&hello[..], &[0x0b], &1000u64.to_le_bytes()].concat();
                let pair = [&1u64.to_le_bytes()[..], b"k", &(value.len() as u64).to_le_bytes(), &value].concat();
                // The server may hang up at any time.
                let _ = stream.write_all(&begin);
                for _ in 0..24 {
                    if stream.write_all(&pair).is_err() {
                        break;
                    }
                }
                stream
            })
        })
        .collect();
    let streams: Vec<_> = strangers.into_iter().map(|s| s.join().unwrap()).collect();
    assert_eq!(store.get("k").unwrap(), b"v");
    drop(streams);
    let peak = status("VmHWM");
    assert!(peak < 420, "{STRANGERS} strangers made the process hold {peak} MB");
}

/// A field of this process's status, in megabytes.
fn status(field: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() >> 10
}

/// Of the whole process, user and system.
fn processor_seconds(times: &mut File) -> f64 {
    let mut text = String::new();
    times.rewind().unwrap();
    times.read_to_string(&mut text).unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}
