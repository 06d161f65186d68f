//! What a rank is doing: its counters, its streams, and what each waits for.

use crate::outcome::{Rank, Stuck};
use crate::program::{Collective, Program};
use oneflow_runtime::{Plan, Progress, Work};
use std::collections::HashMap;
use std::sync::Arc;

/// The number of a group, and of the collective among its collectives.
pub(crate) type MeetingKey = (u32, u64);
/// The number of a move, the step, source and target.
pub(crate) type MessageKey = (u32, u64, u32, u32);

/// A collective whose ranks are coming.
pub(crate) struct Meeting<'a> {
    pub collective: &'a Collective,
    pub group: u32,
    pub came: Vec<Came>,
    /// When the last one came.
    pub full: f64,
}

pub(crate) struct Came {
    pub rank: u32,
    pub stream: u32,
    pub at: f64,
}

pub(crate) fn after_work(rank: u32, stream: u32, at: f64) -> Came {
    Came { rank, stream, at }
}

#[derive(Default)]
pub(crate) struct Message {
    pub left: Option<f64>,
    pub arrived: bool,
    /// Streams that wait for it, and for its credit.
    pub receiver: Option<(u32, u32)>,
    pub sender: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Blocked {
    Meeting(MeetingKey),
    Messages { number: u32, since: f64 },
    Credit { target: u32, since: f64 },
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamState {
    pub task: Option<usize>,
    pub item: usize,
    /// The present item talks once its own work is done.
    pub talks: bool,
    pub blocked: Option<Blocked>,
}

/// What a rank does in a span of its time; where streams differ, the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Busy,
    Moving,
    Collective,
    Message,
}

/// Spans of each kind, which may overlap.
#[derive(Default)]
struct Times([Vec<(f64, f64)>; 4]);

impl Times {
    fn add(&mut self, when: When, start: f64, end: f64) {
        let spans = &mut self.0[when as usize];
        match spans.last_mut() {
            _ if end <= start => {}
            Some(last) if last.1 == start => last.1 = end,
            _ => spans.push((start, end)),
        }
    }

    /// Sums the seconds of each kind in which there is none before it, and those in which bytes move while it works.
    fn sums(&self, found: &mut Rank) {
        let mut events: Vec<(f64, usize, i32)> = Vec::new();
        for (kind, spans) in self.0.iter().enumerate() {
            spans.iter().for_each(|s| events.extend([(s.0, kind, 1), (s.1, kind, -1)]));
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (busy, n_open) = (&self.0[When::Busy as usize], &mut [0i32; 4]);
        let first = busy.iter().map(|s| s.0).fold(f64::INFINITY, f64::min);
        let end = busy.iter().map(|s| s.1).fold(f64::NEG_INFINITY, f64::max);
        found.compute = busy.iter().map(|s| s.1 - s.0).sum();
        for (k, (at, kind, change)) in events.iter().enumerate() {
            n_open[*kind] += change;
            let next = events.get(k + 1).map_or(*at, |e| e.0);
            let seconds = next - at;
            match n_open.iter().position(|n| *n > 0) {
                Some(0) if n_open[When::Moving as usize] > 0 => found.hidden += seconds,
                Some(0) => {}
                Some(1) => found.communication += seconds,
                Some(2) => found.wait_collective += seconds,
                Some(_) => found.wait_message += seconds,
                None => {}
            }
            let idle = n_open[When::Busy as usize] == 0 && n_open[When::Moving as usize] == 0;
            if idle && *at >= first && next <= end {
                found.bubble += seconds;
            }
        }
    }
}

pub(crate) struct RankState {
    pub progress: Progress,
    pub streams: Vec<StreamState>,
    /// By stream, its tasks, the caller's aside; whether they run in turn, and which of them is next then.
    tasks: Vec<Vec<usize>>,
    in_turn: Arc<[bool]>,
    turn: Vec<usize>,
    host_in: Option<usize>,
    host_out: Option<usize>,
    pub slower: f64,
    /// By group, its collectives so far.
    pub meetings: HashMap<u32, u64>,
    pub found: Rank,
    /// Whether the last step is under way, and what was done when in it.
    last: bool,
    times: Times,
}

impl RankState {
    /// `in_turn`: what `Plan::turns` says.
    pub fn new(plan: &Plan, in_turn: Arc<[bool]>) -> RankState {
        let progress = Progress::counters(plan);
        let mut tasks = vec![Vec::new(); progress.n_streams()];
        let own = (0..plan.tasks.len()).filter(|t| !matches!(plan.tasks[*t].work, Work::HostIn | Work::HostOut));
        own.for_each(|t| tasks[progress.stream_of(t as u32) as usize].push(t));
        let end = |w: Work| plan.tasks.iter().position(|t| t.work == w);
        RankState {
            streams: vec![StreamState::default(); tasks.len()],
            in_turn,
            turn: vec![0; tasks.len()],
            tasks,
            host_in: end(Work::HostIn),
            host_out: end(Work::HostOut),
            progress,
            slower: 1.0,
            meetings: HashMap::new(),
            found: Rank::default(),
            last: false,
            times: Times::default(),
        }
    }

    /// A task of a stream that may run. The caller starts a step when it has the results of the one before.
    pub fn next(&self, stream: u32, steps: u64) -> Option<usize> {
        let starts = |t: usize| {
            let begun = self.progress.executions(t);
            begun < steps && self.host_out.is_none_or(|o| self.progress.executions(o) == begun)
        };
        let free = |t: &&usize| self.progress.may_run(**t);
        if stream == 0 {
            let begins = self.host_in.filter(|t| starts(*t));
            if let Some(t) = begins.iter().chain(&self.host_out).find(free) {
                return Some(*t);
            }
        }
        let own = &self.tasks[stream as usize];
        if self.in_turn[stream as usize] {
            return own.get(self.turn[stream as usize]).filter(free).copied();
        }
        own.iter().find(free).copied()
    }

    /// A task of a stream has ended a step.
    pub fn executed(&mut self, task: usize, stream: u32) {
        self.progress.executed(task);
        if [self.host_in, self.host_out].contains(&Some(task)) {
            return;
        }
        let turn = &mut self.turn[stream as usize];
        *turn = (*turn + 1) % self.tasks[stream as usize].len().max(1);
    }

    /// The caller starts a step.
    pub fn begin(&mut self, now: f64, steps: u64) {
        self.last = self.host_in.is_some_and(|t| self.progress.executions(t) + 1 == steps);
        self.found = Rank { start: now, ..Rank::default() };
        self.times = Times::default();
    }

    /// Steps that its caller has got the results of.
    pub fn step(&self) -> u64 {
        self.host_out.map_or(0, |t| self.progress.executions(t))
    }

    /// Whether what happens now counts: it is of the last step.
    pub fn counts(&self) -> bool {
        self.last
    }

    /// Work of its own; that of collectives beside the compute stream is part of the communication.
    pub fn work(&mut self, start: f64, end: f64, beside: bool) {
        if self.last && end > start {
            self.times.add(if beside { When::Moving } else { When::Busy }, start, end);
        }
    }

    /// A wait from `since` on for ranks that have not come, and from `moved` on for bytes under way.
    pub fn wait(&mut self, since: f64, moved: f64, now: f64, for_message: bool) {
        if self.last {
            self.times.add(if for_message { When::Message } else { When::Collective }, since, moved);
            self.times.add(When::Moving, moved, now);
        }
    }

    pub fn sends(&mut self, bytes: u64, link: &mut u64) {
        if self.last {
            self.found.sent += bytes;
            *link += bytes;
        }
    }

    /// Bytes between its device and its host.
    pub fn offloads(&self, bytes: u64, link: &mut u64) {
        if self.last {
            *link += bytes;
        }
    }

    pub fn found(&self) -> Rank {
        let mut found = self.found.clone();
        self.times.sums(&mut found);
        found
    }
}

/// What a rank waits for that has not ended.
pub(crate) fn stuck(
    rank: u32,
    r: &RankState,
    program: &Program,
    steps: u64,
    meetings: &HashMap<MeetingKey, Meeting<'_>>,
    messages: &HashMap<MessageKey, Message>,
) -> Option<Stuck> {
    if r.step() >= steps {
        return None;
    }
    let busy = r.streams.iter().find(|s| s.blocked.is_some());
    let Some(StreamState { task: Some(task), item, blocked: Some(blocked), .. }) = busy else {
        let (task, origin) = (String::new(), String::new());
        return Some(Stuck { rank, task, origin, reason: r.progress.report(), since: r.found.start });
    };
    let (reason, since) = match blocked {
        Blocked::Meeting(key) => meetings.get(key).map_or_else(Default::default, |m| {
            let here = |r: &&u32| !m.came.iter().any(|c| c.rank == **r);
            let missing: Vec<u32> =
                m.collective.groups.members[m.group as usize].iter().filter(here).copied().collect();
            let at = m.came.iter().find(|c| c.rank == rank).map_or(0.0, |c| c.at);
            (format!("waits for {} in {}", ranks(&missing), m.collective.label), at)
        }),
        Blocked::Messages { number, since } => {
            let mut missing: Vec<u32> = messages
                .iter()
                .filter(|(k, m)| k.0 == *number && k.3 == rank && k.1 == r.step() && !m.arrived)
                .map(|(k, _)| k.2)
                .collect();
            missing.sort_unstable();
            (format!("waits for a message of {}", ranks(&missing)), *since)
        }
        Blocked::Credit { target, since } => {
            (format!("waits until its message of the step before has reached rank {target}"), *since)
        }
    };
    let origin = program.origin(*task, *item).into_owned();
    Some(Stuck { rank, task: program.plan.tasks[*task].name.clone(), origin, reason, since })
}

fn ranks(list: &[u32]) -> String {
    match list {
        [one] => format!("rank {one}"),
        many if many.len() > 8 => format!("ranks {:?} and {} more", &many[..8], many.len() - 8),
        many => format!("ranks {many:?}"),
    }
}
