//! The connections of one rank of a group. A small group has all of them from the start, a large one makes each when it is
//! first used: a rank of 1,024 then holds those of its partners in collectives and of whom it sends messages to.
//!
//! Either end may begin. If both do at once, the connection of the higher rank counts and the other one is told so. Waits
//! for answers of a peer's monitor thread alone, which never waits for anybody.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::form::{self, Place};
use super::greeting::{Arrival, BUSY, Found, Hello};
use super::lane::Lane;
use super::monitor::Link;
use crate::stream::Credentials;

pub(super) struct Connections {
    lanes: Vec<OnceLock<Lane>>,
    links: Vec<OnceLock<Link>>,
    /// How those are made that are missing; `None` where none will ever come.
    directory: Option<Directory>,
    book: Mutex<Book>,
    changed: Condvar,
    ranks_per_host: Option<usize>,
    is_one_host: bool,
}

/// Where the ranks of a large group are.
pub(super) struct Directory {
    /// What this rank says of itself; `to` is its own place.
    pub me: Hello,
    pub credentials: Credentials,
    pub here: IpAddr,
    pub places: Vec<Place>,
}

impl Directory {
    fn rank(&self) -> usize {
        self.me.to
    }
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    /// This rank is making it.
    Calling,
    /// The peer is making it.
    Expected,
    There,
}

#[derive(Default)]
struct Book {
    states: HashMap<usize, State>,
    /// What has come of connections that peers are making.
    partial: HashMap<usize, Found>,
}

impl Book {
    fn state(&self, peer: usize) -> State {
        self.states.get(&peer).copied().unwrap_or(State::Absent)
    }
}

impl Connections {
    /// All that a group will ever have. Nothing stands at this rank's own place but its host.
    pub fn complete(found: Vec<Found>) -> Result<Connections, String> {
        let hosts: Vec<u64> = found.iter().map(|found| found.host).collect();
        let is_one_host = hosts.iter().all(|host| *host == hosts[0]);
        let all = Connections { ranks_per_host: per_host(&hosts), is_one_host, ..Connections::new(found.len(), None) };
        for (peer, found) in found.into_iter().enumerate() {
            if found.streams.iter().all(Option::is_some) {
                all.adopt(peer, found)?;
            }
        }
        Ok(all)
    }

    /// Of a rank that is alone.
    pub fn none(n: usize) -> Connections {
        Connections::new(n, None)
    }

    /// None yet.
    pub fn on_demand(directory: Directory) -> Connections {
        Connections::new(directory.places.len(), Some(directory))
    }

    fn new(n: usize, directory: Option<Directory>) -> Connections {
        let (lanes, links) = ((0..n).map(|_| OnceLock::new()).collect(), (0..n).map(|_| OnceLock::new()).collect());
        let (book, changed) = (Mutex::default(), Condvar::new());
        Connections { lanes, links, directory, book, changed, ranks_per_host: None, is_one_host: false }
    }

    pub fn size(&self) -> usize {
        self.lanes.len()
    }

    pub fn ranks_per_host(&self) -> Option<usize> {
        self.ranks_per_host
    }

    pub fn is_one_host(&self) -> bool {
        self.is_one_host
    }

    pub fn is_on_demand(&self) -> bool {
        self.directory.is_some()
    }

    pub fn lane(&self, peer: usize) -> Option<&Lane> {
        self.lanes[peer].get()
    }

    pub fn link(&self, peer: usize) -> Option<&Link> {
        self.links[peer].get()
    }

    /// Those that there are.
    pub fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter_map(OnceLock::get)
    }

    pub fn links(&self) -> impl Iterator<Item = (usize, &Link)> {
        self.links.iter().enumerate().filter_map(|(peer, link)| Some((peer, link.get()?)))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects with `peer`, unless that is done or under way; true if it is there now.
    pub fn call(&self, peer: usize, deadline: Instant, stop: &dyn Fn() -> Option<String>) -> Result<bool, String> {
        let directory = self.directory.as_ref().ok_or_else(|| format!("no connection to rank {peer}"))?;
        {
            let mut book = self.book();
            match book.state(peer) {
                State::Absent => book.states.insert(peer, State::Calling),
                state => return Ok(state == State::There),
            };
        }
        let Directory { me, credentials, here, places } = directory;
        match form::call(me, *here, peer, &places[peer], credentials, deadline, stop) {
            Ok(Some(found)) => self.adopt(peer, found).map(|()| true),
            Ok(None) => {
                let mut book = self.book();
                if book.state(peer) == State::Calling {
                    book.states.insert(peer, State::Expected);
                }
                Ok(book.state(peer) == State::There)
            }
            Err(cause) => {
                let mut book = self.book();
                if book.state(peer) == State::Calling {
                    book.states.remove(&peer);
                }
                Err(format!("cannot connect with rank {peer} at {}: {cause}", places[peer].address))
            }
        }
    }

    /// Whether a connection that `peer` makes may come in, or how it is refused.
    pub fn admit(&self, peer: usize) -> Result<(), u8> {
        let mut book = self.book();
        let higher = self.directory.as_ref().is_some_and(|directory| peer > directory.rank());
        match book.state(peer) {
            State::There => return Err(BUSY),
            State::Calling if !higher => return Err(BUSY),
            _ => book.states.insert(peer, State::Expected),
        };
        Ok(())
    }

    /// Takes in what has come; the peer, once all of it is there.
    pub fn arrive(&self, arrival: Arrival) -> Result<Option<usize>, String> {
        let Arrival { from, lane, stream, shm, .. } = arrival;
        let mut book = self.book();
        let found = book.partial.entry(from).or_default();
        found.streams[lane] = Some(stream);
        found.shm = found.shm.take().or(shm);
        if found.streams.iter().any(Option::is_none) {
            return Ok(None);
        }
        let found = book.partial.remove(&from).unwrap_or_default();
        drop(book);
        self.adopt(from, found).map(|()| Some(from))
    }

    fn adopt(&self, peer: usize, found: Found) -> Result<(), String> {
        let [Some(data), Some(p2p), Some(control)] = found.streams else {
            return Err(format!("the connection to rank {peer} is not complete"));
        };
        for stream in [&data, &p2p, &control] {
            form::tune(stream.socket()).map_err(|e| format!("connection to rank {peer}: {e}"))?;
        }
        // The link first: who finds a lane may rely on the other connections.
        let (collectives, messages) = found.shm.map(|shm| (shm.collectives, shm.messages)).unzip();
        let _ = self.links[peer].set(Link { p2p: Lane::new(p2p, messages), control });
        let _ = self.lanes[peer].set(Lane::new(data, collectives));
        self.book().states.insert(peer, State::There);
        self.changed.notify_all();
        Ok(())
    }

    /// Waits for connections that others make; which of them are still missing after `patience`.
    pub fn await_any(&self, peers: &[usize], patience: Duration) -> Vec<usize> {
        let missing = |_: &Book| -> Vec<usize> { peers.iter().copied().filter(|&p| self.lane(p).is_none()).collect() };
        let book = self.book();
        if missing(&book).is_empty() {
            return Vec::new();
        }
        let book = self.changed.wait_timeout(book, patience).unwrap_or_else(PoisonError::into_inner).0;
        missing(&book)
    }
}

/// How many ranks each of several hosts has, if equally many follow each other on each.
fn per_host(hosts: &[u64]) -> Option<usize> {
    let n = hosts.iter().take_while(|&host| host == &hosts[0]).count();
    let is_even = n > 0 && n < hosts.len() && hosts.len().is_multiple_of(n);
    let is_one = |ranks: &[u64]| ranks.iter().all(|host| host == &ranks[0]);
    let blocks: Vec<&[u64]> = hosts.chunks(n.max(1)).collect();
    let are_distinct = || (1..blocks.len()).all(|i| !blocks[..i].iter().any(|block| block[0] == blocks[i][0]));
    (is_even && blocks.iter().all(|ranks| is_one(ranks)) && are_distinct()).then_some(n)
}

#[cfg(test)]
mod tests {
    use super::per_host;

    #[test]
    fn hosts_count_where_they_have_equally_many_consecutive_ranks() {
        let cases: [(&[u64], Option<usize>); 8] = [
            (&[], None),
            (&[7, 7], None),
            (&[7, 8], Some(1)),
            (&[7, 7, 8, 8], Some(2)),
            (&[7, 8, 7, 8], None),
            (&[7, 7, 8], None),
            (&[7, 7, 8, 9], None),
            (&[7, 7, 8, 8, 7, 7], None),
        ];
        for (hosts, expected) in cases {
            assert_eq!(per_host(hosts), expected, "{hosts:?}");
        }
    }
}
