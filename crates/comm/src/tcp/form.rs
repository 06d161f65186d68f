//! How the ranks of a group find and recognise each other.
//!
//! Every rank listens on a port of its own and publishes it in the store together with a random word. In a small group
//! higher ranks connect to lower ones, prove that they know the job's secret and say who they are (`greeting`). In a large one
//! rank 0 makes a list of all addresses, and connections are made when they are needed (`connections`). What is read in the
//! store is not trusted: it only says where to knock.

use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use super::connections::{Connections, Directory};
use super::greeting::{Door, Found, Hello, N_LANES, accept, introduce};
use super::shm::{Lanes, Offer};
use crate::auth::{Access, HOW, host_name};
use crate::collective::DIRECT;
use crate::engine::comm_id;
use crate::security::Security;
use crate::store::Store;
use crate::stream::Credentials;

/// Where and with whom groups are formed.
pub struct Site {
    pub store: Arc<dyn Store>,
    /// Where the others can reach this process.
    pub local_ip: IpAddr,
    /// Changes when a job restarts over the same store: members of an earlier attempt are refused.
    pub generation: u64,
    /// The same on all ranks.
    pub security: Security,
}

impl Site {
    /// Where this rank listens. Without a secret nobody outside of this host is let near.
    fn listens_on(&self) -> Result<IpAddr, String> {
        match self.local_ip {
            ip if ip.is_loopback() => Ok(ip),
            ip if ip.is_unspecified() => Err(format!("{ip} stands for every interface; the ranks need one of them")),
            IpAddr::V4(_) if matches!(self.security.access, Access::OneHost) => Ok(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(_) if matches!(self.security.access, Access::OneHost) => Ok(Ipv6Addr::LOCALHOST.into()),
            ip => Ok(ip),
        }
    }
}

/// `0` keeps the ranks of one host on sockets.
const SWITCH: &str = "ONEFLOW_COMM_SHM";
/// In place of the ranks' addresses: what follows says who is missing.
const MISSED: &str = "!";
/// Bytes of it that are read: anybody may have written them.
const LONGEST: usize = 1000;
/// How much longer than rank 0 the others wait for all to come.
const SLACK: Duration = Duration::from_secs(5);

/// Connects this rank with all others of the group, or in a large group says where they are and opens the door at which they
/// may knock.
pub(super) fn connect(
    site: &Site,
    name: &str,
    rank: usize,
    size: usize,
    timeout: Duration,
) -> Result<(Connections, Option<Door>)> {
    let deadline = Instant::now() + timeout;
    let fail = |cause: String| Error::runtime(format!("cannot form group '{name}' on rank {rank}: {cause}"));
    let ip = site.listens_on().map_err(fail)?;
    let listener = TcpListener::bind((ip, 0)).map_err(|e| fail(format!("cannot listen on {ip}: {e}")))?;
    let address = listener.local_addr().map_err(|e| fail(e.to_string()))?;
    let (generation, comm, word) = (site.generation, comm_id(name), random());
    let credentials = site.security.credentials();
    let host = host_name();
    let me = Hello {
        generation,
        comm,
        word,
        from: 0,
        to: rank,
        size,
        lane: 0,
        shm: (0, 0),
        shm_word: 0,
        host: comm_id(&host),
    };
    let mut door = Door::open(listener, me, credentials.clone()).map_err(|e| fail(e.to_string()))?;
    let key = |r: usize| format!("group/{name}/{r}");
    site.store.set(&key(rank), format!("{address} {word:016x} {host}").as_bytes()).map_err(|e| fail(e.to_string()))?;
    let check = |peer: usize, place: &Place| match site.security.access {
        Access::OneHost => one_host(place, &host).map_err(|cause| format!("rank {peer} {cause}")),
        _ => Ok(()),
    };
    if size > DIRECT {
        let places = directory(&*site.store, &format!("group/{name}"), rank, size, deadline).map_err(fail)?;
        places.iter().enumerate().try_for_each(|(peer, place)| check(peer, place)).map_err(fail)?;
        return Ok((Connections::on_demand(Directory { me, credentials, here: ip, places }), Some(door)));
    }

    let mut found: Vec<Found> = (0..size).map(|_| Found::default()).collect();
    found[rank].host = me.host;
    for (peer, found) in found.iter_mut().enumerate().take(rank) {
        let left = deadline.saturating_duration_since(Instant::now());
        let known = site.store.wait(&[&key(peer)], left).and_then(|()| site.store.get(&key(peer)));
        let known = known.map_err(|e| fail(format!("rank {peer} did not come: {e}")))?;
        let place = parse_place(&known).ok_or_else(|| fail(format!("rank {peer} published a malformed address")))?;
        check(peer, &place).map_err(fail)?;
        let called = call(&me, ip, peer, &place, &credentials, deadline, &|| None);
        let called = called.map_err(|cause| fail(format!("rank {peer} at {}: {cause}", place.address)))?;
        *found = called.ok_or_else(|| fail(format!("rank {peer} takes this rank for connected")))?;
    }
    accept(&mut door, &mut found, deadline).map_err(fail)?;
    // Everybody who needed the address has used it.
    let _ = site.store.delete(&key(rank));
    Ok((Connections::complete(found).map_err(fail)?, None))
}

/// Connects with `peer`, as the rank `me.to` that listens on `here`. `None`: the peer is connecting to this rank.
pub(super) fn call(
    me: &Hello,
    here: IpAddr,
    peer: usize,
    place: &Place,
    credentials: &Credentials,
    deadline: Instant,
    stop: &dyn Fn() -> Option<String>,
) -> Result<Option<Found>, String> {
    // Who listens on this rank's own address runs on its host. Without the memory the sockets serve as well.
    let here = place.address.ip() == here && std::env::var(SWITCH).as_deref() != Ok("0");
    let offer = here.then(|| Lanes::offer(me.size, random()).ok()).flatten();
    let mut hellos = [0, 1, 2].map(|lane| Hello { word: place.word, from: me.to, to: peer, lane, ..*me });
    if let Some(offer) = &offer {
        (hellos[0].shm, hellos[0].shm_word) = (offer.place(), offer.secret);
    }
    let Some(mut found) = introduce(place.address, &hellos, credentials, deadline, stop)? else { return Ok(None) };
    found.shm = offer.filter(|_| found.takes).map(Offer::taken);
    found.host = comm_id(&place.host);
    Ok(Some(found))
}

/// The places of all ranks, which rank 0 puts together: each rank asks the store a few times, however many ranks there are, and
/// later needs it no more.
fn directory(
    store: &dyn Store,
    prefix: &str,
    rank: usize,
    size: usize,
    deadline: Instant,
) -> Result<Vec<Place>, String> {
    let (table, readers) = (format!("{prefix}/all"), format!("{prefix}/readers"));
    let left = || deadline.saturating_duration_since(Instant::now());
    if rank == 0 {
        let keys: Vec<String> = (0..size).map(|r| format!("{prefix}/{r}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let mut text = Vec::new();
        if let Err(e) = store.wait(&keys, left()) {
            let absent: Vec<usize> = (0..size).filter(|&r| !store.check(&[keys[r]]).unwrap_or(true)).collect();
            let cause = format!("rank(s) {absent:?} did not come: {e}");
            // The others hear whom they wait for in vain.
            let _ = store.set(&table, format!("{MISSED}{cause}").as_bytes());
            return Err(cause);
        }
        for key in keys {
            text.extend(store.get(key).map_err(|e| e.to_string())?);
            text.push(b'\n');
        }
        store.set(&table, &text).map_err(|e| e.to_string())?;
    }
    // Rank 0 gives up first, and says why.
    store.wait(&[&table], left() + SLACK).map_err(|e| format!("rank 0 did not come: {e}"))?;
    let text = store.get(&table).map_err(|e| e.to_string())?;
    let _ = store.delete(&format!("{prefix}/{rank}"));
    if store.add(&readers, 1).is_ok_and(|n| n == size as i64) {
        let _ = store.delete(&table);
        let _ = store.delete(&readers);
    }
    if let Some(cause) = text.strip_prefix(MISSED.as_bytes()) {
        return Err(String::from_utf8_lossy(&cause[..cause.len().min(LONGEST)]).into_owned());
    }
    let places: Option<Vec<Place>> =
        text.strip_suffix(b"\n").unwrap_or(&text).split(|&b| b == b'\n').map(parse_place).collect();
    places
        .filter(|places| places.len() == size)
        .ok_or_else(|| "the ranks' addresses in the store are malformed".to_owned())
}

const _: () = assert!(N_LANES == 3);

/// What a rank publishes: where it listens, its word, and its host's name.
pub(super) struct Place {
    pub address: SocketAddr,
    pub word: u64,
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

pub(super) fn tune(stream: &TcpStream) -> std::io::Result<()> {
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
            security: access.into(),
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
