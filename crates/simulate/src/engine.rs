//! The events: own work ends, transfers start and end. Between them ranks go as far as their plans let them.
//!
//! Each rank has the runtime's own counters (`Progress`), so that actors run when they would. A collective begins when the
//! last of its ranks has come; a message leaves when it is sent, if that of the step before has arrived.

use crate::cluster::Cluster;
use crate::flows::{End, Flows, Use};
use crate::outcome::{Outcome, Rank, Span, SpanKind};
use crate::program::{Collective, Item, Move, Program};
use crate::ranks::{Blocked, Meeting, MeetingKey, Message, MessageKey, RankState, StreamState, after_work, stuck};
use oneflow_base::{Error, Result};
use oneflow_runtime::Work;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

/// What is simulated: programs of one catalog, and which of them each rank runs.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    pub cluster: &'a Cluster,
    pub programs: &'a [Program],
    pub of_rank: &'a [u32],
}

/// How it goes.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub steps: u64,
    /// Ranks that take so many times as long for their own work.
    pub slow: Vec<(u32, f64)>,
    /// A rank that does nothing any more from this second on.
    pub lost: Option<(u32, f64)>,
    /// Ranks whose spans of the last step are kept.
    pub watch: Vec<u32>,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario { steps: 2, slow: Vec::new(), lost: None, watch: Vec::new() }
    }
}

/// Runs the job.
///
/// # Errors
/// ValueError: ranks, programs and cluster do not fit each other. RuntimeError: ranks of a group call different collectives.
pub fn simulate(job: &Job<'_>, scenario: &Scenario) -> Result<Outcome> {
    job.cluster.check()?;
    let (n, devices) = (job.of_rank.len(), job.cluster.n_devices());
    if n == 0 || n > devices {
        return Err(Error::value(format!("a job of {n} ranks on a cluster of {devices} devices")));
    }
    if let Some(p) = job.of_rank.iter().find(|p| **p as usize >= job.programs.len()) {
        return Err(Error::value(format!("there is no program {p}")));
    }
    let named = scenario.slow.iter().map(|s| s.0).chain(scenario.lost.map(|l| l.0)).chain(scenario.watch.clone());
    if let Some(r) = named.into_iter().find(|r| *r as usize >= n) {
        return Err(Error::value(format!("the job has {n} ranks, and no rank {r}")));
    }
    if let Some((r, by)) = scenario.slow.iter().find(|(_, by)| !by.is_finite() || *by <= 0.0) {
        return Err(Error::value(format!("rank {r} cannot be slower by a factor of {by}")));
    }
    if scenario.steps == 0 {
        return Err(Error::value("a simulation of no step"));
    }
    let mut sim = Sim::new(job, scenario);
    sim.run()?;
    Ok(sim.outcome())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    /// Own work of a stream is done.
    Done {
        rank: u32,
        stream: u32,
    },
    /// A caller has begun a step.
    Called {
        rank: u32,
        task: u32,
    },
    /// The latency of a transfer is over.
    Leave(u32),
    Arrive(End),
}

struct Entry {
    time: f64,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    /// The earliest is the greatest: a heap gives it first. Events of one time come in the order in which they were made.
    fn cmp(&self, other: &Entry) -> Ordering {
        other.time.total_cmp(&self.time).then(other.number.cmp(&self.number))
    }
}

/// Whose transfer it is.
#[derive(Clone, Copy, Debug)]
enum Owner {
    Meeting(MeetingKey),
    Message(MessageKey),
    /// Own work on cores that ranks share: the items from its stream's present one up to `end`, alone so many seconds.
    Work {
        rank: u32,
        stream: u32,
        start: f64,
        end: usize,
        seconds: f64,
    },
}

struct Transfer {
    owner: Owner,
    bytes: f64,
    links: Vec<Use>,
    /// The most bytes a second, whatever the links have.
    most: f64,
}

struct Sim<'a> {
    job: Job<'a>,
    scenario: &'a Scenario,
    queue: BinaryHeap<Entry>,
    n_events: u64,
    flows: Flows,
    /// Transfers whose latency is under way, and the owners of flows.
    leaving: HashMap<u32, Transfer>,
    n_transfers: u32,
    owners: HashMap<u32, Owner>,
    ranks: Vec<RankState>,
    meetings: HashMap<MeetingKey, Meeting<'a>>,
    messages: HashMap<MessageKey, Message>,
    link_bytes: Vec<u64>,
    /// By step, when its last rank had its results.
    ends: Vec<f64>,
    spans: Vec<Span>,
    watched: Vec<bool>,
    now: f64,
}

impl<'a> Sim<'a> {
    fn new(job: &Job<'a>, scenario: &'a Scenario) -> Sim<'a> {
        let resources = job.cluster.resources();
        let mut watched = vec![false; job.of_rank.len()];
        scenario.watch.iter().for_each(|r| watched[*r as usize] = true);
        let turns: Vec<Arc<[bool]>> = job.programs.iter().map(|p| p.plan.turns().into()).collect();
        let rank = |p: &u32| RankState::new(&job.programs[*p as usize].plan, turns[*p as usize].clone());
        let mut ranks: Vec<RankState> = job.of_rank.iter().map(rank).collect();
        scenario.slow.iter().for_each(|(r, by)| ranks[*r as usize].slower *= by);
        Sim {
            job: *job,
            scenario,
            queue: BinaryHeap::new(),
            n_events: 0,
            flows: Flows::new(resources.iter().map(|r| r.1)),
            leaving: HashMap::new(),
            n_transfers: 0,
            owners: HashMap::new(),
            ranks,
            meetings: HashMap::new(),
            messages: HashMap::new(),
            link_bytes: vec![0; resources.len()],
            ends: vec![0.0; scenario.steps as usize],
            spans: Vec::new(),
            watched,
            now: 0.0,
        }
    }

    fn push(&mut self, time: f64, event: Event) {
        self.n_events += 1;
        self.queue.push(Entry { time, number: self.n_events, event });
    }

    fn run(&mut self) -> Result<()> {
        for rank in 0..self.ranks.len() as u32 {
            self.wake(rank)?;
        }
        while let Some(Entry { time, event, .. }) = self.queue.pop() {
            self.now = time;
            match event {
                Event::Done { rank, stream } => self.done(rank, stream)?,
                Event::Called { rank, task } => {
                    self.ranks[rank as usize].streams[0].task = None;
                    self.executed(rank, task as usize, 0)?;
                    self.act(rank, 0)?;
                }
                Event::Leave(id) => {
                    if let Some(t) = self.leaving.remove(&id) {
                        self.leave(t)?;
                    }
                }
                Event::Arrive(end) => {
                    let mut ends = Vec::new();
                    if self.flows.end(end, &mut ends) {
                        let owner = self.owners.remove(&end.flow);
                        self.foretell(ends);
                        owner.map_or(Ok(()), |o| self.arrived(o))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn program(&self, rank: u32) -> &'a Program {
        &self.job.programs[self.job.of_rank[rank as usize] as usize]
    }

    fn foretell(&mut self, ends: Vec<End>) {
        ends.into_iter().for_each(|e| self.push(e.time, Event::Arrive(e)));
    }

    // ---- actors

    /// Lets every idle stream of a rank go on.
    fn wake(&mut self, rank: u32) -> Result<()> {
        for stream in 0..self.ranks[rank as usize].streams.len() as u32 {
            if self.ranks[rank as usize].streams[stream as usize].task.is_none() {
                self.act(rank, stream)?;
            }
        }
        Ok(())
    }

    /// Lets a stream without a task take what may run.
    fn act(&mut self, rank: u32, stream: u32) -> Result<()> {
        let plan = &self.program(rank).plan;
        loop {
            if self.is_lost(rank) {
                return Ok(());
            }
            let r = &mut self.ranks[rank as usize];
            let Some(task) = r.next(stream, self.scenario.steps) else { return Ok(()) };
            match plan.tasks[task].work {
                Work::Compute(_) => {
                    let s = &mut r.streams[stream as usize];
                    (s.task, s.item, s.talks) = (Some(task), 0, false);
                    return self.go_on(rank, stream);
                }
                Work::HostIn => {
                    r.begin(self.now, self.scenario.steps);
                    if self.job.cluster.call > 0.0 {
                        r.streams[stream as usize].task = Some(task);
                        self.push(self.now + self.job.cluster.call, Event::Called { rank, task: task as u32 });
                        return Ok(());
                    }
                    self.executed(rank, task, stream)?;
                }
                Work::HostOut => {
                    let step = r.progress.executions(task) as usize;
                    r.found.end = self.now;
                    self.ends[step] = self.ends[step].max(self.now);
                    self.executed(rank, task, stream)?;
                }
                Work::Source { .. } => self.executed(rank, task, stream)?,
            }
        }
    }

    /// Counts a step of a task; other streams may go on.
    fn executed(&mut self, rank: u32, task: usize, stream: u32) -> Result<()> {
        self.ranks[rank as usize].executed(task, stream);
        for other in 0..self.ranks[rank as usize].streams.len() as u32 {
            if other != stream && self.ranks[rank as usize].streams[other as usize].task.is_none() {
                self.act(rank, other)?;
            }
        }
        Ok(())
    }

    fn is_lost(&self, rank: u32) -> bool {
        self.scenario.lost.is_some_and(|(r, at)| r == rank && self.now >= at)
    }

    /// Goes on with the present task from its present item.
    fn go_on(&mut self, rank: u32, stream: u32) -> Result<()> {
        if self.is_lost(rank) {
            return Ok(());
        }
        let StreamState { task: Some(task), item, .. } = self.ranks[rank as usize].streams[stream as usize] else {
            return Ok(());
        };
        let items = &self.program(rank).items[task];
        let Some(first) = items.get(item) else {
            self.ranks[rank as usize].streams[stream as usize].task = None;
            self.executed(rank, task, stream)?;
            return self.act(rank, stream);
        };
        // Work of its own, up to the next item that talks, or moves bytes from and to the host.
        let slower = self.ranks[rank as usize].slower;
        let on_host = &self.program(rank).on_host;
        let is_alone = |at: usize| !matches!(items[at], Item::Compute { .. }) || on_host.contains_key(&(task, at));
        let (mut end, mut seconds) = (item, 0.0);
        while end < items.len() && (end == item || !is_alone(end)) {
            seconds += items[end].seconds() * slower;
            end += 1;
            if is_alone(end - 1) {
                break;
            }
        }
        let talks = !matches!(first, Item::Compute { .. });
        self.ranks[rank as usize].streams[stream as usize].talks = talks;
        if let Some(bytes) = on_host.get(&(task, item)) {
            return self.with_host(rank, stream, seconds, *bytes);
        }
        if let Some(cores) = self.job.cluster.cores_of(rank).filter(|_| seconds > 0.0) {
            let owner = Owner::Work { rank, stream, start: self.now, end, seconds };
            let mut ends = Vec::new();
            let flow = self.flows.start(self.now, seconds, vec![Use::of(cores, 1.0)], 1.0, &mut ends);
            self.owners.insert(flow, owner);
            self.foretell(ends);
            return Ok(());
        }
        self.worked(rank, stream, self.now, seconds, end, 1.0);
        self.push(self.now + seconds, Event::Done { rank, stream });
        Ok(())
    }

    /// An item that reads bytes from the host and writes bytes there while it works.
    fn with_host(&mut self, rank: u32, stream: u32, seconds: f64, (read, written): (u64, u64)) -> Result<()> {
        let (cluster, item) = (self.job.cluster, self.ranks[rank as usize].streams[stream as usize].item);
        // At least a moment, to measure by how much the link stretches it.
        let seconds = seconds.max(1e-12);
        let bytes = read.max(written) as f64;
        let mut links = Vec::new();
        for (n, reads) in [(written, false), (read, true)] {
            let at = cluster.to_host(rank, reads);
            self.ranks[rank as usize].offloads(n, &mut self.link_bytes[at as usize]);
            if n > 0 {
                links.push(Use::of(at, n as f64 / bytes));
            }
        }
        let owner = Owner::Work { rank, stream, start: self.now, end: item + 1, seconds };
        self.transfer(Transfer { owner, bytes, links, most: bytes / seconds }, cluster.host_link.latency)
    }

    /// Notes work of a stream up to item `end`, which began at `start` and took `stretch` times the seconds that it takes alone.
    fn worked(&mut self, rank: u32, stream: u32, start: f64, seconds: f64, end: usize, stretch: f64) {
        let StreamState { task: Some(task), item, talks, .. } = self.ranks[rank as usize].streams[stream as usize]
        else {
            return;
        };
        if self.ranks[rank as usize].counts() && self.watched[rank as usize] {
            let (mut at, slower) = (start, self.ranks[rank as usize].slower * stretch);
            for (k, x) in self.program(rank).items[task].iter().enumerate().take(end).skip(item) {
                let took = x.seconds() * slower;
                // A collective beside the compute stream packs its operands there.
                let beside = stream > 0 && !matches!(x, Item::Compute { .. });
                let kind = if beside { SpanKind::Communication } else { SpanKind::Compute };
                if took > 0.0 {
                    let (task, item) = (task as u32, k as u32);
                    self.spans.push(Span { rank, stream, start: at, end: at + took, kind, task, item });
                }
                at += took;
            }
        }
        let r = &mut self.ranks[rank as usize];
        r.work(start, start + seconds * stretch, stream > 0 && talks);
        if !talks {
            r.streams[stream as usize].item = end;
        }
    }

    fn done(&mut self, rank: u32, stream: u32) -> Result<()> {
        let s = &mut self.ranks[rank as usize].streams[stream as usize];
        let (talks, task, item) = (std::mem::take(&mut s.talks), s.task, s.item);
        if !talks {
            return self.go_on(rank, stream);
        }
        let (false, Some(task)) = (self.is_lost(rank), task) else { return Ok(()) };
        match &self.program(rank).items[task][item] {
            Item::Collective { collective, .. } => self.meet(rank, stream, collective),
            Item::Move { what, .. } => self.send(rank, stream, what),
            Item::Compute { .. } => self.next_item(rank, stream),
        }
    }

    fn next_item(&mut self, rank: u32, stream: u32) -> Result<()> {
        let s = &mut self.ranks[rank as usize].streams[stream as usize];
        (s.item, s.blocked) = (s.item + 1, None);
        self.go_on(rank, stream)
    }

    /// Ends a wait that began at `since`; from `moved` on bytes were on their way.
    fn waited(&mut self, rank: u32, stream: u32, since: f64, moved: f64, for_message: bool) {
        let now = self.now;
        let moved = moved.clamp(since, now);
        let r = &mut self.ranks[rank as usize];
        let StreamState { task, item, .. } = r.streams[stream as usize];
        r.wait(since, moved, now, for_message);
        if !self.watched[rank as usize] || !r.counts() {
            return;
        }
        let (task, item) = (task.unwrap_or(0) as u32, item as u32);
        for (start, end, kind) in [(since, moved, SpanKind::Wait), (moved, now, SpanKind::Communication)] {
            if end > start {
                self.spans.push(Span { rank, stream, start, end, kind, task, item });
            }
        }
    }

    // ---- collectives

    fn meet(&mut self, rank: u32, stream: u32, c: &'a Collective) -> Result<()> {
        let Some((group, _)) = c.groups.place(rank) else {
            return Err(Error::value(format!("rank {rank} is in no group of {}", c.label)));
        };
        let members = &c.groups.members[group as usize];
        let id = c.groups.first + group;
        let number = self.ranks[rank as usize].meetings.entry(id).or_insert(0);
        *number += 1;
        let key = (id, *number);
        let now = self.now;
        let meeting =
            self.meetings.entry(key).or_insert_with(|| Meeting { collective: c, group, came: Vec::new(), full: now });
        if meeting.collective.label != c.label {
            let (other, label) = (meeting.came[0].rank, &meeting.collective.label);
            return Err(Error::runtime(format!(
                "ranks {other} and {rank} are out of step: rank {other} calls {label}, and rank {rank} {}",
                c.label
            )));
        }
        meeting.came.push(after_work(rank, stream, now));
        let is_full = meeting.came.len() == members.len();
        if is_full {
            meeting.full = now;
        }
        self.ranks[rank as usize].streams[stream as usize].blocked = Some(Blocked::Meeting(key));
        if !is_full {
            return Ok(());
        }
        let cluster = self.job.cluster;
        let across = cluster.crosses_hosts(members);
        let mut links: Vec<Use> = Vec::with_capacity(members.len());
        let mut of_host: HashMap<usize, u64> = HashMap::new();
        members.iter().for_each(|r| *of_host.entry(cluster.host(*r)).or_default() += 1);
        for (place, r) in members.iter().enumerate() {
            // There are as many rings as ranks of a host; in each of them another one sends to the next host.
            let (rings, sent) = (if c.ring { of_host[&cluster.host(*r)] } else { 1 }, c.sent[place]);
            let leaving = if across { sent / rings } else { 0 };
            for (leaves, bytes, share) in [
                (true, leaving, if across { 1.0 / rings as f64 } else { 0.0 }),
                (false, sent - leaving, if across { 1.0 - 1.0 / rings as f64 } else { 1.0 }),
            ] {
                if share == 0.0 {
                    continue;
                }
                let at = cluster.resource(*r, leaves, false);
                self.ranks[*r as usize].sends(bytes, &mut self.link_bytes[at as usize]);
                // A rank gets as much as it sends. Where a host has one link, what comes in meets messages of others there.
                let comes = cluster.link(leaves).shared.then(|| cluster.resource(*r, leaves, true));
                for at in std::iter::once(at).chain(comes) {
                    match links.iter_mut().find(|l| l.link == at) {
                        Some(l) => l.load += share,
                        None => links.push(Use::of(at, share)),
                    }
                }
            }
        }
        self.copies(members, across, &mut links);
        let bytes = c.sent.iter().copied().max().unwrap_or(0) as f64;
        let latency = c.rounds * self.job.cluster.link(across).latency;
        self.transfer(Transfer { owner: Owner::Meeting(key), bytes, links, most: f64::INFINITY }, latency)
    }

    /// Where ranks share cores, bytes are copied by them: as many as ranks talk, at most all of a host. So what a link was measured
    /// to carry alone it carries alone, and less beside work.
    fn copies(&self, ranks: &[u32], across: bool, links: &mut Vec<Use>) {
        let carries = self.job.cluster.link(across).bandwidth;
        let first = links.len();
        for cores in ranks.iter().filter_map(|r| self.job.cluster.cores_of(*r)) {
            match links[first..].iter_mut().find(|l| l.link == cores) {
                Some(l) => l.load = (l.load + 1.0).min(self.job.cluster.cores),
                None => links.push(Use { link: cores, load: self.job.cluster.cores.min(1.0), carries }),
            }
        }
    }

    // ---- messages

    fn send(&mut self, rank: u32, stream: u32, m: &'a Move) -> Result<()> {
        let step = self.ranks[rank as usize].step();
        for (target, _) in m.sends.get(&rank).into_iter().flatten() {
            let before = (m.number, step.wrapping_sub(1), rank, *target);
            if let Some(open) = self.messages.get_mut(&before).filter(|_| step > 0)
                && !open.arrived
            {
                // Its credit is not back.
                open.sender = Some((rank, stream));
                let s = &mut self.ranks[rank as usize].streams[stream as usize];
                s.blocked = Some(Blocked::Credit { target: *target, since: self.now });
                return Ok(());
            }
        }
        for (target, bytes) in m.sends.get(&rank).into_iter().flatten() {
            let key = (m.number, step, rank, *target);
            let message = self.messages.entry(key).or_default();
            message.left = Some(self.now);
            let across = self.job.cluster.crosses_hosts(&[rank, *target]);
            let out = self.job.cluster.resource(rank, across, false);
            let into = self.job.cluster.resource(*target, across, true);
            self.ranks[rank as usize].sends(*bytes, &mut self.link_bytes[out as usize]);
            let mut links = vec![Use::of(out, 1.0), Use::of(into, 1.0)];
            self.copies(&[rank, *target], across, &mut links);
            let latency = self.job.cluster.link(across).latency;
            let most = f64::INFINITY;
            self.transfer(Transfer { owner: Owner::Message(key), bytes: *bytes as f64, links, most }, latency)?;
        }
        self.ranks[rank as usize].streams[stream as usize].blocked =
            Some(Blocked::Messages { number: m.number, since: self.now });
        self.receive(rank, stream, m)
    }

    /// Goes on if every message of a move has arrived.
    fn receive(&mut self, rank: u32, stream: u32, m: &'a Move) -> Result<()> {
        let step = self.ranks[rank as usize].step();
        let mut left = f64::NEG_INFINITY;
        for (source, _) in m.receives.get(&rank).into_iter().flatten() {
            let message = self.messages.entry((m.number, step, *source, rank)).or_default();
            if !message.arrived {
                message.receiver = Some((rank, stream));
                return Ok(());
            }
            left = left.max(message.left.unwrap_or(f64::NEG_INFINITY));
        }
        if let Some(Blocked::Messages { since, .. }) = self.ranks[rank as usize].streams[stream as usize].blocked {
            self.waited(rank, stream, since, left, true);
        }
        self.next_item(rank, stream)
    }

    // ---- transfers

    fn transfer(&mut self, t: Transfer, latency: f64) -> Result<()> {
        if latency <= 0.0 {
            return self.leave(t);
        }
        let id = self.n_transfers;
        self.n_transfers = self.n_transfers.wrapping_add(1);
        self.leaving.insert(id, t);
        self.push(self.now + latency, Event::Leave(id));
        Ok(())
    }

    fn leave(&mut self, t: Transfer) -> Result<()> {
        if t.bytes <= 0.0 {
            return self.arrived(t.owner);
        }
        let mut ends = Vec::new();
        let flow = self.flows.start(self.now, t.bytes, t.links, t.most, &mut ends);
        self.owners.insert(flow, t.owner);
        self.foretell(ends);
        Ok(())
    }

    fn arrived(&mut self, owner: Owner) -> Result<()> {
        match owner {
            Owner::Work { rank, stream, start, end, seconds } => {
                self.worked(rank, stream, start, seconds, end, (self.now - start) / seconds);
                self.done(rank, stream)
            }
            Owner::Meeting(key) => {
                let Some(m) = self.meetings.remove(&key) else { return Ok(()) };
                for came in m.came {
                    self.waited(came.rank, came.stream, came.at, m.full, false);
                    self.next_item(came.rank, came.stream)?;
                }
                Ok(())
            }
            Owner::Message(key) => {
                let message = self.messages.entry(key).or_default();
                message.arrived = true;
                let (receiver, sender) = (message.receiver.take(), message.sender.take());
                for (rank, stream) in [receiver, sender].into_iter().flatten() {
                    self.resume(rank, stream)?;
                }
                Ok(())
            }
        }
    }

    /// A stream that waits with a move looks again.
    fn resume(&mut self, rank: u32, stream: u32) -> Result<()> {
        let StreamState { task: Some(task), item, blocked, .. } = self.ranks[rank as usize].streams[stream as usize]
        else {
            return Ok(());
        };
        let Some(Item::Move { what, .. }) = self.program(rank).items[task].get(item) else { return Ok(()) };
        match blocked {
            Some(Blocked::Messages { .. }) => self.receive(rank, stream, what),
            Some(Blocked::Credit { since, .. }) => {
                self.waited(rank, stream, since, since, true);
                self.send(rank, stream, what)
            }
            _ => Ok(()),
        }
    }

    // ---- the result

    fn outcome(self) -> Outcome {
        let stuck = (0..self.ranks.len() as u32)
            .filter(|r| self.scenario.lost.is_none_or(|l| l.0 != *r))
            .filter_map(|r| {
                stuck(r, &self.ranks[r as usize], self.program(r), self.scenario.steps, &self.meetings, &self.messages)
            })
            .collect();
        let steps = self.ends.len();
        let (first, last) = (self.ends[0], self.ends[steps - 1]);
        let names = self.job.cluster.resources();
        let links = names.into_iter().zip(&self.link_bytes).filter(|(_, b)| **b > 0).map(|((n, _), b)| (n, *b));
        Outcome {
            step: if steps > 1 { (last - first) / (steps - 1) as f64 } else { first },
            first_step: first,
            links: links.collect(),
            ranks: self.ranks.iter().map(RankState::found).collect::<Vec<Rank>>(),
            spans: self.spans,
            stuck,
            n_events: self.n_events,
        }
    }
}
