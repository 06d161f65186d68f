//! How the ranks of a group find and recognise each other.
//!
//! Every rank listens on a port of its own while the group forms and publishes it in the store together with a random
//! word. Higher ranks connect to lower ones and say who they are; whoever does not know the word, or belongs to another
//! generation, group or size, is refused.

use std::hash::{BuildHasher, Hasher};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};

use super::shm::Shm;
use crate::engine::comm_id;
use crate::interrupt;
use crate::sockets::timespec;
use crate::store::Store;

/// What sub-groups are formed with.
pub(super) struct Site {
    pub store: Arc<dyn Store>,
    pub local_ip: IpAddr,
    pub generation: u64,
}

/// The connections of one pair of ranks.
pub(super) struct Lanes {
    pub data: TcpStream,
    /// Carries what `data` would, where both ranks are on one host.
    pub shm: Option<Shm>,
    pub p2p: TcpStream,
    pub control: TcpStream,
}

const N_LANES: usize = 3;
const MAGIC: u32 = 0x3250_464f;
/// `0` keeps the ranks of one host on sockets.
const SWITCH: &str = "ONEFLOW_COMM_SHM";
/// Strangers that are connected but have not said who they are.
const MAX_STRANGERS: usize = 256;

/// Connects this rank with all others of the group; `None` stands at its own place.
pub(super) fn connect(
    site: &Site,
    name: &str,
    rank: usize,
    size: usize,
    timeout: Duration,
) -> Result<Vec<Option<Lanes>>> {
    let deadline = Instant::now() + timeout;
    let fail = |cause: String| Error::runtime(format!("cannot form group '{name}' on rank {rank}: {cause}"));
    let listener =
        TcpListener::bind((site.local_ip, 0)).map_err(|e| fail(format!("cannot listen on {}: {e}", site.local_ip)))?;
    let address = listener.local_addr().map_err(|e| fail(e.to_string()))?;
    let (generation, comm, secret) = (site.generation, comm_id(name), random());
    let me = Hello { generation, comm, secret, from: 0, to: rank, size, lane: 0, shm: (0, 0), shm_secret: 0 };
    let key = |r: usize| format!("group/{name}/{r}");
    site.store.set(&key(rank), format!("{address} {:016x}", me.secret).as_bytes()).map_err(|e| fail(e.to_string()))?;

    let mut found: Vec<Found> = (0..size).map(|_| Found::default()).collect();
    for (peer, found) in found.iter_mut().enumerate().take(rank) {
        let left = deadline.saturating_duration_since(Instant::now());
        let known = site.store.wait(&[&key(peer)], left).and_then(|()| site.store.get(&key(peer)));
        let known = known.map_err(|e| fail(format!("rank {peer} did not come: {e}")))?;
        let (address, secret) =
            parse_address(&known).ok_or_else(|| fail(format!("rank {peer} published a malformed address")))?;
        // Who listens on this rank's own address runs on its host. Without the memory the sockets serve as well.
        let here = address.ip() == site.local_ip && std::env::var(SWITCH).as_deref() != Ok("0");
        let offer = here.then(|| Shm::offer(size, random()).ok()).flatten();
        for (lane, slot) in found.streams.iter_mut().enumerate() {
            let mut hello = Hello { secret, from: rank, to: peer, lane, ..me };
            if let Some(offer) = offer.as_ref().filter(|_| lane == 0) {
                (hello.shm, hello.shm_secret) = (offer.place(), offer.secret);
            }
            let (stream, shared) = introduce(address, &hello, deadline)
                .map_err(|cause| fail(format!("rank {peer} at {address}: {cause}")))?;
            *slot = Some(stream);
            found.takes |= shared;
        }
        found.shm = offer.map(|offer| offer.lane).filter(|_| found.takes);
    }
    accept(&listener, &me, &mut found, deadline).map_err(fail)?;
    // Everybody who needed the address has used it.
    let _ = site.store.delete(&key(rank));

    let mut lanes = Vec::with_capacity(size);
    for (peer, found) in found.into_iter().enumerate() {
        let [Some(data), Some(p2p), Some(control)] = found.streams else {
            lanes.push(None);
            continue;
        };
        for stream in [&data, &p2p, &control] {
            tune(stream).map_err(|e| fail(format!("connection to rank {peer}: {e}")))?;
        }
        lanes.push(Some(Lanes { data, shm: found.shm, p2p, control }));
    }
    Ok(lanes)
}

/// What there is of the connections with one peer.
#[derive(Default)]
struct Found {
    streams: [Option<TcpStream>; N_LANES],
    shm: Option<Shm>,
    /// The peer has mapped what it was offered.
    takes: bool,
}

/// The first words of a connection.
#[derive(Clone, Copy)]
struct Hello {
    generation: u64,
    comm: u64,
    secret: u64,
    from: usize,
    to: usize,
    size: usize,
    lane: usize,
    /// Shared memory: the process and its descriptor, zeros for none.
    shm: (u32, u32),
    shm_secret: u64,
}

impl Hello {
    const LEN: usize = 60;

    fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        let words = [self.generation, self.comm, self.secret, self.shm_secret];
        words.iter().enumerate().for_each(|(i, w)| out[4 + 8 * i..12 + 8 * i].copy_from_slice(&w.to_le_bytes()));
        let halves = [self.from as u32, self.to as u32, self.size as u32, self.lane as u32, self.shm.0, self.shm.1];
        halves.iter().enumerate().for_each(|(i, h)| {
            out[36 + 4 * i..40 + 4 * i].copy_from_slice(&h.to_le_bytes());
        });
        out
    }

    fn decode(raw: &[u8; Self::LEN]) -> Option<Hello> {
        let at = |at: usize, n: usize| raw[at..at + n].iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
        let half = |i: usize| at(36 + 4 * i, 4) as usize;
        let (generation, comm, secret, shm_secret) = (at(4, 8), at(12, 8), at(20, 8), at(28, 8));
        let (from, to, size, lane) = (half(0), half(1), half(2), half(3));
        let shm = (half(4) as u32, half(5) as u32);
        let hello = Hello { generation, comm, secret, from, to, size, lane, shm, shm_secret };
        (at(0, 4) == u64::from(MAGIC)).then_some(hello)
    }
}

/// Answers to a greeting: a byte and the answering rank's generation.
const WELCOME: u8 = 0;
const WRONG_GENERATION: u8 = 1;
const WRONG_GROUP: u8 = 2;
/// Welcome, and the offered memory is mapped.
const WELCOME_SHARED: u8 = 3;
const ANSWER_LEN: usize = 9;

/// Connects and says who this is. Also tells whether the offered memory was taken.
fn introduce(address: SocketAddr, hello: &Hello, deadline: Instant) -> Result<(TcpStream, bool), String> {
    let left = || match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err("timed out".to_owned()),
        left => Ok(left),
    };
    let text = |e: std::io::Error| e.to_string();
    let mut stream = TcpStream::connect_timeout(&address, left()?).map_err(text)?;
    stream.set_write_timeout(Some(left()?)).map_err(text)?;
    stream.write_all(&hello.encode()).map_err(text)?;
    stream.set_read_timeout(Some(left()?)).map_err(text)?;
    let mut answer = [0; ANSWER_LEN];
    stream.read_exact(&mut answer).map_err(|e| format!("no answer to the greeting: {e}"))?;
    let theirs = answer[1..].iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
    match answer[0] {
        kind @ (WELCOME | WELCOME_SHARED) => Ok((stream, kind == WELCOME_SHARED)),
        WRONG_GENERATION => Err(format!("it is of generation {theirs}, this process of {}", hello.generation)),
        _ => Err("it refused the greeting: another job or another group answers there".to_owned()),
    }
}

/// Waits until all lanes of all higher ranks are there. Strangers are heard, refused, and cannot hold anything up.
fn accept(listener: &TcpListener, me: &Hello, found: &mut [Found], deadline: Instant) -> Result<(), String> {
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    let mut strangers: Vec<(TcpStream, Vec<u8>)> = Vec::new();
    loop {
        let absent = |r: &usize| found[*r].streams.iter().any(Option::is_none);
        let missing: Vec<usize> = (me.to + 1..me.size).filter(absent).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("timed out waiting for rank(s) {missing:?} to connect"));
        }
        let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
        fds.extend(strangers.iter().map(|(stream, _)| PollFd::new(stream, PollFlags::IN)));
        match poll(&mut fds, Some(&timespec(left.min(interrupt::PERIOD)))) {
            Ok(n) if n > 0 => {}
            Ok(_) | Err(rustix::io::Errno::INTR) => {
                if interrupt::interrupted() {
                    return Err(interrupt::CAUSE.to_owned());
                }
            }
            Err(e) => return Err(e.to_string()),
        }
        let mut waiting = Vec::new();
        for (mut stream, mut heard) in std::mem::take(&mut strangers) {
            let mut buf = [0; Hello::LEN];
            let wanted = Hello::LEN - heard.len();
            match stream.read(&mut buf[..wanted]) {
                Ok(0) => continue,
                Ok(n) => heard.extend_from_slice(&buf[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => continue,
            }
            let Ok(raw) = <[u8; Hello::LEN]>::try_from(&heard[..]) else {
                waiting.push((stream, heard));
                continue;
            };
            let hello = Hello::decode(&raw);
            let verdict = judge(me, hello.as_ref());
            let offered = hello.filter(|hello| verdict.is_ok() && hello.shm != (0, 0));
            let shm = offered.and_then(|h| Shm::accept(h.shm.0, h.shm.1, me.size, h.shm_secret).ok());
            let mut answer = [0; ANSWER_LEN];
            let welcome = if shm.is_some() { WELCOME_SHARED } else { WELCOME };
            answer[0] = verdict.map_or_else(|refusal| refusal, |_| welcome);
            answer[1..].copy_from_slice(&me.generation.to_le_bytes());
            // The answer fits any socket's empty buffer: no partial write.
            if stream.write_all(&answer).is_ok()
                && let Ok((from, lane)) = verdict
            {
                found[from].streams[lane] = Some(stream);
                found[from].shm = found[from].shm.take().or(shm);
            }
        }
        strangers = waiting;
        while let Ok((stream, _)) = listener.accept() {
            if strangers.len() < MAX_STRANGERS && stream.set_nonblocking(true).is_ok() {
                strangers.push((stream, Vec::new()));
            }
        }
    }
}

fn judge(me: &Hello, hello: Option<&Hello>) -> Result<(usize, usize), u8> {
    let hello = hello.ok_or(WRONG_GROUP)?;
    if hello.secret != me.secret || hello.comm != me.comm || hello.to != me.to || hello.size != me.size {
        return Err(WRONG_GROUP);
    }
    if hello.generation != me.generation {
        return Err(WRONG_GENERATION);
    }
    if hello.from <= me.to || hello.from >= me.size || hello.lane >= N_LANES {
        return Err(WRONG_GROUP);
    }
    Ok((hello.from, hello.lane))
}

fn parse_address(text: &[u8]) -> Option<(SocketAddr, u64)> {
    let (address, secret) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some((address.parse().ok()?, u64::from_str_radix(secret, 16).ok()?))
}

/// Unpredictable enough against accidents: the standard library seeds its hashers from the system.
pub(crate) fn random() -> u64 {
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

fn tune(stream: &TcpStream) -> std::io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    // A host that vanished without a word is noticed after about a minute.
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(15))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 6)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_members_of_this_very_group_are_let_in() {
        let (shm, shm_secret) = ((4321, 17), u64::MAX - 5);
        let me = Hello { generation: 3, comm: 5, secret: 7, from: 0, to: 1, size: 4, lane: 0, shm, shm_secret };
        let peer = Hello { from: 2, lane: 1, ..me };
        let sent = |hello: Hello| judge(&me, Hello::decode(&hello.encode()).as_ref());
        assert_eq!(sent(peer), Ok((2, 1)));
        let heard = Hello::decode(&peer.encode()).unwrap();
        assert_eq!((heard.shm, heard.shm_secret), (shm, shm_secret));
        assert_eq!(sent(Hello { generation: 2, ..peer }), Err(WRONG_GENERATION));
        for bad in [
            Hello { secret: 8, ..peer },
            Hello { comm: 6, ..peer },
            Hello { to: 0, ..peer },
            Hello { size: 5, ..peer },
            Hello { from: 1, ..peer },
            Hello { from: 4, ..peer },
            Hello { lane: 3, ..peer },
        ] {
            assert_eq!(sent(bad), Err(WRONG_GROUP));
        }
        assert!(Hello::decode(&[0; Hello::LEN]).is_none());
    }
}
