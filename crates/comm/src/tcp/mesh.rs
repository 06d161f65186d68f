//! The collective lane: one exchange of messages at a time, all its sends and receives progressing together.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};

use super::connections::Connections;
use super::form::{self, Site};
use super::lane::{In, Lane, Out, Trouble};
use super::monitor::Monitor;
use super::shm::{DATA, FUTEX, ROOM};
use super::spin::Spin;
use super::streams::Streams;
use crate::engine::comm_id;
use crate::flight::Members;
use crate::interrupt;
use crate::request::{Kind, Stamp};
use crate::sockets::timespec;
use crate::transport::{Flow, PointToPoint, Transport};
use crate::waits::{self, Key};
use crate::work::Drive;

/// Puts messages in the place of those that are through, and returns whether it did.
type Next<'n, 'a, 'b> = dyn FnMut(&mut Vec<Out<'a>>, &mut Vec<In<'a, 'b>>) -> Result<bool, String> + 'n;

/// The connections of this rank with the others of one group.
pub(crate) struct Mesh {
    rank: usize,
    members: Members,
    /// How waits for this group's collectives are known.
    key: Key,
    spin: Spin,
    monitor: Arc<Monitor>,
    /// `None` in a world of one, where no sub-group needs a peer either.
    site: Option<Arc<Site>>,
    /// The group of all ranks of the job.
    is_world: bool,
    /// How long a rank may take to answer to a greeting.
    patience: Duration,
}

impl Mesh {
    pub(super) fn form(
        site: Option<Arc<Site>>,
        name: &str,
        rank: usize,
        ranks: Vec<usize>,
        timeout: Duration,
    ) -> Result<Mesh> {
        let (size, key) = (ranks.len(), (comm_id(name), rank));
        let (connections, door) = match &site {
            Some(site) if size > 1 => form::connect(site, name, rank, size, timeout)?,
            _ => (Connections::none(size), None),
        };
        let ring = door.is_some().then(|| [(rank + 1) % size, (rank + size - 1) % size]);
        let monitor = Monitor::start(name, key, connections, door)?;
        let members = Members { name: name.to_owned(), rank, ranks };
        let (spin, is_world) = (Spin::default(), name == "world");
        let mesh = Mesh { rank, members, key, spin, monitor, site, is_world, patience: timeout };
        // The neighbours show each other that they run.
        if let Some(ring) = ring
            && let Err(cause) = mesh.reach_all(&ring, Instant::now() + timeout, &mut |_| {})
        {
            let cause = format!("cannot form group '{name}' on rank {rank}: {cause}");
            mesh.monitor.fail(&cause);
            mesh.monitor.close();
            return Err(Error::runtime(cause));
        }
        Ok(mesh)
    }

    fn stop(&self) -> Option<String> {
        self.monitor.failure()
    }

    /// Makes the connections that an operation needs in which each of these ranks needs this one, too: the higher one of two
    /// makes it. `waits` hears now and then who has not come.
    fn reach_all(&self, peers: &[usize], deadline: Instant, waits: &mut dyn FnMut(&[usize])) -> Result<(), String> {
        let connections = self.monitor.connections();
        for &peer in peers.iter().filter(|&&peer| peer < self.rank) {
            self.call(peer, deadline)?;
        }
        let mut missing = peers.to_vec();
        loop {
            missing.retain(|&peer| connections.lane(peer).is_none());
            if missing.is_empty() {
                return Ok(());
            }
            if let Some(cause) = self.stop() {
                return Err(cause);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("timed out waiting for rank(s) {missing:?}"));
            }
            if !connections.await_any(&missing, left.min(interrupt::PERIOD)).is_empty() {
                if interrupt::interrupted() {
                    return Err(interrupt::CAUSE.to_owned());
                }
                waits(&missing);
            }
        }
    }

    /// Begins a connection, unless there is one or the peer makes it.
    fn call(&self, peer: usize, deadline: Instant) -> Result<(), String> {
        let connections = self.monitor.connections();
        if connections.lane(peer).is_some() {
            return Ok(());
        }
        match connections.call(peer, deadline, &|| self.stop()) {
            Ok(made) => {
                if made {
                    self.monitor.joined(peer);
                }
                Ok(())
            }
            // Who is not there may have been the first to hear of the end.
            Err(cause) => Err(self.monitor.reason().unwrap_or(cause)),
        }
    }

    /// The connection with a rank that may know nothing of this.
    fn reach(&self, peer: usize) -> Result<(), String> {
        let deadline = Instant::now() + self.patience;
        self.call(peer, deadline)?;
        self.reach_all(&[peer], deadline, &mut |_| {})
    }

    /// The connections of an operation with all of these.
    fn meet(
        &self,
        stamp: &Stamp,
        peers: &[usize],
        deadline: Instant,
        blocked: &mut Option<Blocked>,
    ) -> Result<(), String> {
        self.reach_all(peers, deadline, &mut |missing| {
            self.waits(stamp, missing.to_vec(), blocked.get_or_insert_with(Blocked::new));
        })
    }

    /// An operation waits for `missing`, and has for a while.
    fn waits(&self, stamp: &Stamp, missing: Vec<usize>, blocked: &mut Blocked) {
        let elapsed = blocked.since.elapsed();
        if elapsed < waits::PATIENCE * (blocked.asked + 1) {
            return;
        }
        blocked.asked += 1;
        let named: Vec<usize> = missing.iter().map(|&peer| self.members.world_rank(peer)).collect();
        let ranks = match named[..] {
            [rank] => format!("rank {rank}"),
            _ => format!("ranks {named:?}"),
        };
        let (here, name) = (self.members.world_rank(self.rank), &self.members.name);
        let words = format!("rank {here} waits in {stamp} of group '{name}' for {ranks}");
        if !blocked.said && waits::late().is_some_and(|late| elapsed >= late) {
            blocked.said = true;
            let seconds = elapsed.as_secs();
            tracing::warn!("oneflow.distributed: {words}, for {seconds} s now: they run, but have not come");
        }
        waits::stuck(self.key, stamp.seq, words, missing, self.monitor.clone());
        blocked.key = Some(self.key);
    }

    /// After a sleep of an exchange that had looked into shared memory since `quiet`.
    fn awake(&self, dozing: &mut bool, quiet: &mut Option<Instant>) {
        *dozing = false;
        if let Some(since) = quiet.take() {
            self.spin.slept(since.elapsed());
        }
    }

    /// Moves messages until all are through, and with them those that `next` puts in the place of others: it returns whether there
    /// is one that has not begun.
    fn carry<'a, 'b>(
        &'a self,
        stamp: &Stamp,
        (mut outs, mut ins): (Vec<Out<'a>>, Vec<In<'a, 'b>>),
        deadline: Instant,
        mut blocked: Option<Blocked>,
        next: &mut Next<'_, 'a, 'b>,
    ) -> Result<(), String> {
        let (mut moved, mut quiet_since, mut dozing) = (0, None, false);
        loop {
            for out in outs.iter_mut().filter(|out| !out.done()) {
                out.progress().map_err(|e| self.why(out.peer, Trouble::of(out.peer, &e)))?;
            }
            for incoming in ins.iter_mut().filter(|incoming| !incoming.done()) {
                incoming.progress(stamp, self.rank).map_err(|trouble| self.why(incoming.peer, trouble))?;
            }
            if next(&mut outs, &mut ins)? {
                continue;
            }
            let waiting = || {
                let sends = outs.iter().filter(|o| !o.done()).map(|o| (o.peer, o.lane, PollFlags::OUT));
                sends.chain(ins.iter().filter(|i| !i.done()).map(|i| (i.peer, i.lane, PollFlags::IN)))
            };
            if waiting().next().is_none() {
                return Ok(());
            }
            // After the attempt: what a peer sent before it failed still counts.
            if let Some(cause) = self.monitor.failure() {
                return Err(cause);
            }
            let missing = || {
                let mut missing: Vec<usize> = waiting().map(|(peer, ..)| peer).collect();
                missing.sort_unstable();
                missing.dedup();
                missing
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("timed out waiting for rank(s) {:?}", missing()));
            }
            if waiting().any(|(_, lane, _)| lane.shm.is_some()) {
                let now = outs.iter().map(|o| o.at).sum::<usize>() + ins.iter().map(|i| i.at).sum::<usize>();
                if std::mem::replace(&mut moved, now) != now {
                    if quiet_since.take().is_some() && !dozing {
                        self.spin.paid_off();
                    }
                    dozing = false;
                    continue;
                }
                // Nothing was left in memory of what it wrote.
                if let Some((peer, ..)) = waiting().find(|(_, lane, _)| lane.closed.load(Ordering::Relaxed)) {
                    return Err(self.monitor.why_lost(peer));
                }
                let quiet: &Instant = quiet_since.get_or_insert_with(Instant::now);
                if !dozing && quiet.elapsed() < self.spin.window() {
                    std::hint::spin_loop();
                    continue;
                }
                // A single lane is slept on in its memory. What else may come, wakes there or is found after a while.
                let shm = only(waiting().map(|(_, lane, _)| lane)).and_then(|lane| lane.shm.as_ref());
                let said = DATA | ROOM | if shm.is_some() { FUTEX } else { 0 };
                if !std::mem::replace(&mut dozing, true) {
                    self.spin.was_in_vain();
                    let shared = waiting().filter_map(|(_, lane, _)| lane.shm.as_ref());
                    shared.for_each(|shm| shm.fall_asleep(said));
                    continue;
                }
                if let Some(shm) = shm {
                    let since = Instant::now();
                    shm.sleep(said, left.min(interrupt::PERIOD));
                    self.awake(&mut dozing, &mut quiet_since);
                    waiting().for_each(|(_, lane, _)| lane.wake_up());
                    if since.elapsed() >= interrupt::PERIOD {
                        self.waits(stamp, missing(), blocked.get_or_insert_with(Blocked::new));
                    }
                    if interrupt::interrupted() {
                        return Err(interrupt::CAUSE.to_owned());
                    }
                    continue;
                }
            }
            let wake = self.monitor.lane_wake();
            let mut fds = vec![PollFd::new(&wake, PollFlags::IN)];
            fds.extend(waiting().map(|(_, lane, flags)| {
                // In shared memory room, too, is announced by a ring.
                PollFd::new(&lane.stream, if lane.shm.is_some() { PollFlags::IN } else { flags })
            }));
            let blocked = blocked.get_or_insert_with(Blocked::new);
            match poll(&mut fds, Some(&timespec(left.min(interrupt::PERIOD)))) {
                Ok(n) if n > 0 => {}
                Ok(_) | Err(rustix::io::Errno::INTR) => {
                    self.waits(stamp, missing(), blocked);
                    if interrupt::interrupted() {
                        return Err(interrupt::CAUSE.to_owned());
                    }
                }
                Err(e) => return Err(format!("poll: {e}")),
            }
            self.awake(&mut dozing, &mut quiet_since);
            waiting().for_each(|(_, lane, _)| lane.wake_up());
        }
    }

    fn why(&self, peer: usize, trouble: Trouble) -> String {
        match trouble {
            Trouble::Lost => self.monitor.why_lost(peer),
            Trouble::Known(text) => text,
        }
    }

    fn lane(&self, peer: usize) -> Result<&Lane, String> {
        self.monitor.connections().lane(peer).ok_or_else(|| format!("no connection to rank {peer}"))
    }
}

/// The lane that all of these are.
fn only<'a>(mut lanes: impl Iterator<Item = &'a Lane>) -> Option<&'a Lane> {
    let first = lanes.next()?;
    lanes.all(|lane| std::ptr::eq(lane, first)).then_some(first)
}

/// What a long wait has done about it.
struct Blocked {
    since: Instant,
    asked: u32,
    said: bool,
    key: Option<Key>,
}

impl Blocked {
    fn new() -> Blocked {
        Blocked { since: Instant::now(), asked: 0, said: false, key: None }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.key.into_iter().for_each(waits::unstuck);
    }
}

impl Transport for Mesh {
    const NAME: &'static str = "tcp";

    fn exchange(
        &self,
        stamp: &Stamp,
        sends: &[(usize, &[u8])],
        recvs: &mut [(usize, &mut [u8])],
        deadline: Instant,
    ) -> Result<(), String> {
        let mut blocked: Option<Blocked> = None;
        if self.monitor.connections().is_on_demand() {
            let peers: Vec<usize> = sends.iter().map(|(p, _)| *p).chain(recvs.iter().map(|(p, _)| *p)).collect();
            self.meet(stamp, &peers, deadline, &mut blocked)?;
        }
        // Where bytes go one way to one rank, the ring shares the work between both; else each reads its own.
        let may_be_read = sends.len() > 1 || !recvs.is_empty();
        let mut outs = Vec::with_capacity(sends.len());
        for &(peer, data) in sends {
            outs.push(Out::new(peer, self.lane(peer)?, stamp, data, may_be_read));
        }
        let mut ins = Vec::with_capacity(recvs.len());
        for (peer, data) in recvs {
            ins.push(In::new(*peer, self.lane(*peer)?, data));
        }
        self.carry(stamp, (outs, ins), deadline, blocked, &mut |_, _| Ok(false))
    }

    fn flows(&self) -> bool {
        true
    }

    unsafe fn flow(&self, stamp: &Stamp, flow: Flow<'_>, deadline: Instant) -> Result<(), String> {
        let mut blocked: Option<Blocked> = None;
        let mut peers: Vec<usize> = flow.sends.iter().chain(flow.recvs).map(|piece| piece.peer).collect();
        peers.sort_unstable();
        peers.dedup();
        self.meet(stamp, &peers, deadline, &mut blocked)?;
        // SAFETY: the caller's promise.
        let mut stream = unsafe { Streams::of(&peers, flow, stamp) };
        self.carry(stamp, Default::default(), deadline, blocked, &mut |outs, ins| {
            stream.advance(outs, ins, &|peer| self.lane(peer))
        })
    }

    fn is_one_host(&self) -> bool {
        self.monitor.connections().is_one_host()
    }

    fn ranks_per_host(&self) -> Option<usize> {
        self.monitor.connections().ranks_per_host()
    }

    unsafe fn post(&self, p2p: PointToPoint) {
        // A receiver waits for whoever comes, a sender comes.
        if p2p.stamp.kind == Kind::Send
            && let Err(cause) = self.reach(p2p.peer)
        {
            p2p.work.end(Err(cause));
            return;
        }
        // SAFETY: the same promise.
        unsafe { self.monitor.post(p2p) }
    }

    fn drive(&self) -> Option<Weak<dyn Drive>> {
        let monitor: Weak<Monitor> = Arc::downgrade(&self.monitor);
        Some(monitor)
    }

    fn fail(&self, cause: &str) {
        self.monitor.fail(cause);
    }

    fn failure(&self) -> Option<String> {
        self.monitor.failure()
    }

    fn close(&self) {
        self.monitor.close();
        // With the job's own group its meeting point goes, too: the next one may be on the same port.
        if let Some(site) = self.site.as_ref().filter(|_| self.is_world) {
            site.store.close();
        }
        // Peers that still wait for this rank see the end at once, even while handles of the group live on.
        self.monitor.connections().lanes().for_each(|lane| lane.stream.shutdown_write());
    }

    fn form(&self, name: &str, ranks: &[usize], timeout: Duration) -> Result<Self> {
        let rank = ranks.iter().position(|&r| r == self.rank);
        let rank = rank.ok_or_else(|| Error::runtime(format!("rank {} is no member of {name}", self.rank)))?;
        let timeout = self.site.as_ref().map_or(timeout, |site| super::store_timeout(site, timeout));
        let world = ranks.iter().map(|&rank| self.members.world_rank(rank)).collect();
        Mesh::form(self.site.clone(), name, rank, world, timeout)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::super::direct::{LEAST, PIECE};
    use super::*;
    use crate::auth::Access;
    use crate::copy::LONG;
    use crate::store::{MemoryStore, Store};

    /// The meshes of ranks on hosts of these addresses, each with its thread.
    fn on_hosts<T: Send>(hosts: &[IpAddr], run: impl Fn(usize, Mesh) -> T + Sync) -> Vec<T> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let run = |rank: usize| {
            let site = Arc::new(Site {
                store: store.clone(),
                local_ip: hosts[rank],
                generation: 1,
                security: Access::OneHost.into(),
            });
            run(
                rank,
                Mesh::form(Some(site), "world", rank, (0..hosts.len()).collect(), Duration::from_secs(60)).unwrap(),
            )
        };
        std::thread::scope(|s| {
            let run = &run;
            let ranks: Vec<_> = (0..hosts.len()).map(|rank| s.spawn(move || run(rank))).collect();
            ranks.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }

    fn host(n: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(127, 0, 0, n))
    }

    fn stamp(seq: u64) -> Stamp {
        Stamp { comm: 1, seq, kind: Kind::Barrier, op: None, dtype: None, root: 0, tag: 0, elements: 0 }
    }

    #[test]
    fn long_and_short_messages_pass_each_other() {
        let lengths = [0, 1, LEAST - 1, LEAST, LEAST + 1, PIECE, PIECE + 1, 3 * PIECE + 17, LONG + 33];
        let byte = |rank: usize, i: usize| (i.wrapping_mul(2 * rank + 3) >> 3) as u8;
        on_hosts(&[host(1); 2], |rank, mesh| {
            let reads = || mesh.lane(1 - rank).unwrap().shm.as_ref().map(|shm| shm.own().taken());
            let pairs = lengths.iter().flat_map(|a| lengths.iter().map(move |b| [*a, *b]));
            let (deadline, mut n_far) = (Instant::now() + Duration::from_secs(60), 0);
            for (seq, lengths) in pairs.enumerate() {
                let sent: Vec<u8> = (0..lengths[rank]).map(|i| byte(rank, i)).collect();
                let mut got = vec![0; lengths[1 - rank]];
                mesh.exchange(&stamp(seq as u64), &[(1 - rank, &sent)], &mut [(1 - rank, &mut got)], deadline).unwrap();
                assert!(got.iter().enumerate().all(|(i, b)| *b == byte(1 - rank, i)), "{lengths:?}");
                n_far += u64::from(got.len() >= LEAST);
            }
            // None where the system does not allow it, and not all where it is slow.
            assert!(reads().is_some_and(|n| n <= n_far), "{:?} of {n_far}", reads());
        });
    }

    #[test]
    fn whoever_reads_a_message_that_was_given_up_fails() {
        let results = on_hosts(&[host(1); 2], |rank, mesh| {
            let (data, mut got) = (vec![1; 4 * PIECE], vec![0; 4 * PIECE]);
            if rank == 1 {
                std::thread::sleep(Duration::from_millis(300));
            }
            let limit = Duration::from_millis(if rank == 0 { 50 } else { 5_000 });
            mesh.exchange(&stamp(0), &[(1 - rank, &data)], &mut [(1 - rank, &mut got)], Instant::now() + limit)
        });
        // Through the ring a part would come.
        assert!(results.iter().all(Result::is_err), "{results:?}");
    }

    #[test]
    fn ranks_of_one_host_share_memory() {
        let hosts = [host(1), host(2), host(1)];
        on_hosts(&hosts, |rank, mesh| {
            for (peer, _) in hosts.iter().enumerate() {
                let shared = mesh.monitor.connections().lane(peer).map(|lane| lane.shm.is_some());
                assert_eq!(shared, (peer != rank).then(|| hosts[peer] == hosts[rank]), "{rank} and {peer}");
            }
        });
    }
}
