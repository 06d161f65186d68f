//! How the ranks of a group find and recognise each other.
//!
//! Every rank listens on a port of its own while the group forms and publishes it in the store together with a random
//! word. Higher ranks connect to lower ones, prove that they know the job's secret and say who they are (`greeting`).
//! What is read in the store is not trusted: it only says where to knock.

use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use super::greeting::{Found, Hello, N_LANES, accept, introduce};
use super::shm::Shm;
use crate::auth::{Access, HOW, host_name};
use crate::engine::comm_id;
use crate::store::Store;

/// Where and with whom groups are formed.
pub struct Site {
    pub store: Arc<dyn Store>,
    /// Where the others can reach this process.
    pub local_ip: IpAddr,
    /// Changes when a job restarts over the same store: members of an earlier attempt are refused.
    pub generation: u64,
    /// The same on all ranks.
    pub access: Access,
}

impl Site {
    /// Where this rank listens. Without a secret nobody outside of this host is let near.
    fn listens_on(&self) -> Result<IpAddr, String> {
        match self.local_ip {
            ip if ip.is_loopback() => Ok(ip),
            ip if ip.is_unspecified() => Err(format!("{ip} stands for every interface; the ranks need one of them")),
            IpAddr::V4(_) if matches!(self.access, Access::OneHost) => Ok(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(_) if matches!(self.access, Access::OneHost) => Ok(Ipv6Addr::LOCALHOST.into()),
            ip => Ok(ip),
        }
    }
}

/// The connections of one pair of ranks.
pub(super) struct Lanes {
    pub data: TcpStream,
    /// Carries what `data` would, where both ranks are on one host.
    pub shm: Option<Shm>,
    pub p2p: TcpStream,
    pub control: TcpStream,
}

/// `0` keeps the ranks of one host on sockets.
const SWITCH: &str = "ONEFLOW_COMM_SHM";

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
    let ip = site.listens_on().map_err(fail)?;
    let listener = TcpListener::bind((ip, 0)).map_err(|e| fail(format!("cannot listen on {ip}: {e}")))?;
    let address = listener.local_addr().map_err(|e| fail(e.to_string()))?;
    let (generation, comm, word, proof) = (site.generation, comm_id(name), random(), site.access.key());
    let me = Hello { generation, comm, word, from: 0, to: rank, size, lane: 0, shm: (0, 0), shm_word: 0 };
    let key = |r: usize| format!("group/{name}/{r}");
    let host = host_name();
    site.store.set(&key(rank), format!("{address} {word:016x} {host}").as_bytes()).map_err(|e| fail(e.to_string()))?;

    let mut found: Vec<Found> = (0..size).map(|_| Found::default()).collect();
    for (peer, found) in found.iter_mut().enumerate().take(rank) {
        let left = deadline.saturating_duration_since(Instant::now());
        let known = site.store.wait(&[&key(peer)], left).and_then(|()| site.store.get(&key(peer)));
        let known = known.map_err(|e| fail(format!("rank {peer} did not come: {e}")))?;
        let place = parse_place(&known).ok_or_else(|| fail(format!("rank {peer} published a malformed address")))?;
        if matches!(site.access, Access::OneHost) {
            one_host(&place, &host).map_err(|cause| fail(format!("rank {peer} {cause}")))?;
        }
        let Place { address, word, .. } = place;
        // Who listens on this rank's own address runs on its host. Without the memory the sockets serve as well.
        let here = address.ip() == ip && std::env::var(SWITCH).as_deref() != Ok("0");
        let offer = here.then(|| Shm::offer(size, random()).ok()).flatten();
        let mut hellos = [0, 1, 2].map(|lane| Hello { word, from: rank, to: peer, lane, ..me });
        if let Some(offer) = &offer {
            (hellos[0].shm, hellos[0].shm_word) = (offer.place(), offer.secret);
        }
        *found = introduce(address, &hellos, &proof, deadline)
            .map_err(|cause| fail(format!("rank {peer} at {address}: {cause}")))?;
        found.shm = offer.map(|offer| offer.lane).filter(|_| found.takes);
    }
    accept(&listener, &me, &proof, &mut found, deadline).map_err(fail)?;
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

const _: () = assert!(N_LANES == 3);

/// What a rank publishes: where it listens, its word, and its host's name.
struct Place {
    address: SocketAddr,
    word: u64,
    host: String,
}

fn parse_place(text: &[u8]) -> Option<Place> {
    let mut words = std::str::from_utf8(text).ok()?.split(' ');
    let (address, word, host) = (words.next()?, words.next()?, words.next()?);
    let word = u64::from_str_radix(word, 16).ok()?;
    Some(Place { address: address.parse().ok()?, word, host: host.to_owned() })
}

/// Without a secret a rank connects to nothing but its own host, whatever the store says.
fn one_host(place: &Place, host: &str) -> Result<(), String> {
    if place.host != host {
        return Err(format!("is on another host or in another network, and the ranks have no job secret: {HOW}"));
    }
    match place.address.ip().is_loopback() {
        true => Ok(()),
        false => Err(format!("published the address {}, which is not on loopback: {HOW}", place.address)),
    }
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
    use crate::store::MemoryStore;

    #[test]
    fn without_a_secret_ranks_stay_on_loopback_of_one_host() {
        let site = |ip: &str, access: Access| Site {
            store: Arc::new(MemoryStore::default()),
            local_ip: ip.parse().unwrap(),
            generation: 1,
            access,
        };
        let listens = |ip: &str, access: Access| site(ip, access).listens_on().map(|ip| ip.to_string());
        assert_eq!(listens("10.1.2.3", Access::OneHost).unwrap(), "127.0.0.1");
        assert_eq!(listens("fd00::7", Access::OneHost).unwrap(), "::1");
        assert_eq!(listens("127.0.0.2", Access::OneHost).unwrap(), "127.0.0.2");
        assert_eq!(listens("10.1.2.3", Access::Anybody).unwrap(), "10.1.2.3");
        assert!(listens("0.0.0.0", Access::Anybody).unwrap_err().contains("every interface"));

        let place = |text: &str| parse_place(text.as_bytes());
        let here = host_name();
        let near = place(&format!("127.0.0.1:80 ff {here}")).unwrap();
        assert_eq!((near.word, one_host(&near, &here)), (255, Ok(())));
        let far = place("127.0.0.1:80 ff another").unwrap();
        assert!(one_host(&far, &here).unwrap_err().contains("is on another host"));
        // Somebody has written into the store.
        let away = place(&format!("10.1.2.3:80 ff {here}")).unwrap();
        assert!(one_host(&away, &here).unwrap_err().contains("10.1.2.3:80, which is not on loopback"));
        for bad in ["", "127.0.0.1:80", "127.0.0.1:80 ff", "127.0.0.1 ff h", "127.0.0.1:80 xx h", "\u{ff}"] {
            assert!(place(bad).is_none(), "{bad}");
        }
    }
}
