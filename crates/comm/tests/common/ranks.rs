//! Ranks as threads and as processes, over sockets and shared memory.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use oneflow_base::{Error, Result};
use oneflow_comm::store::{MemoryStore, Server, Store};
use oneflow_comm::{Access, ProcessGroup, tcp};

pub const LONG: Duration = Duration::from_secs(60);
pub const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub fn site(store: &Arc<dyn Store>, local_ip: IpAddr, generation: u64) -> tcp::Site {
    tcp::Site { store: store.clone(), local_ip, generation, security: Access::OneHost.into() }
}

/// Runs `f` on threads, each a rank with its own sockets and an address: ranks with one address share memory.
pub fn on_hosts<R: Send>(
    hosts: &[IpAddr],
    timeout: Duration,
    f: impl Fn(Arc<dyn ProcessGroup>) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let n = hosts.len();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(LONG));
    std::thread::scope(|scope| {
        let (f, store) = (&f, &store);
        let threads: Vec<_> = (0..n)
            .map(|rank| {
                scope.spawn(move || {
                    let group = tcp::join(site(store, hosts[rank], 1), "world", rank, n, LONG, LONG)?;
                    group.set_timeout(timeout);
                    f(group)
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(Error::runtime("panicked")))).collect()
    })
}

// Real processes: the test binary runs itself again, once per rank, with only the test `child`.

pub const ROLE: &str = "COMM_TEST_ROLE";

pub fn spawn(role: &str, n: usize, port: u16, agent: bool) -> Vec<Child> {
    let exe = std::env::current_exe().unwrap();
    (0..n)
        .map(|rank| {
            Command::new(&exe)
                .args(["--exact", "child", "--nocapture", "--test-threads=1"])
                .env(ROLE, role)
                .env("RANK", rank.to_string())
                .env("LOCAL_RANK", rank.to_string())
                .env("WORLD_SIZE", n.to_string())
                .env("MASTER_ADDR", "127.0.0.1")
                .env("MASTER_PORT", port.to_string())
                .env("TORCHELASTIC_USE_AGENT_STORE", if agent { "True" } else { "False" })
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect()
}

pub fn statuses(children: Vec<Child>) -> Vec<ExitStatus> {
    children.into_iter().map(|mut child| child.wait().unwrap()).collect()
}

pub fn all_well(children: Vec<Child>) {
    let statuses = statuses(children);
    assert!(statuses.iter().all(ExitStatus::success), "{statuses:?}");
}

pub fn server() -> Server {
    Server::bind((HERE, 0).into()).unwrap()
}
