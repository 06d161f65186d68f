//! What a rank is doing: its counters, its streams, and what each waits for.

use crate::outcome::{Rank, Stuck};
use crate::program::{Collective, Program};
use oneflow_runtime::{Plan, Progress, Work};
use std::collections::HashMap;

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

pub(crate) struct RankState {
    pub progress: Progress,
    pub streams: Vec<StreamState>,
    /// By stream, its tasks.
    tasks: Vec<Vec<usize>>,
    host_in: Option<usize>,
    host_out: Option<usize>,
    pub slower: f64,
    /// By group, its collectives so far.
    pub meetings: HashMap<u32, u64>,
    pub found: Rank,
    /// Whether the last step is under way.
    last: bool,
    /// Seconds without work since the last item, if there was one.
    has_worked: bool,
    gap: f64,
}

impl RankState {
    pub fn new(plan: &Plan) -> RankState {
        let progress = Progress::counters(plan);
        let mut tasks = vec![Vec::new(); progress.n_streams()];
        (0..plan.tasks.len()).for_each(|t| tasks[progress.stream_of(t as u32) as usize].push(t));
        let end = |w: Work| plan.tasks.iter().position(|t| t.work == w);
        RankState {
            streams: vec![StreamState::default(); tasks.len()],
            tasks,
            host_in: end(Work::HostIn),
            host_out: end(Work::HostOut),
            progress,
            slower: 1.0,
            meetings: HashMap::new(),
            found: Rank::default(),
            last: false,
            has_worked: false,
            gap: 0.0,
        }
    }

    /// A task of a stream that may run. The caller starts a step when it has the results of the one before.
    pub fn next(&self, stream: u32, steps: u64) -> Option<usize> {
        let starts = |t: usize| {
            let begun = self.progress.executions(t);
            begun < steps && self.host_out.is_none_or(|o| self.progress.executions(o) == begun)
        };
        let free = |t: &&usize| (Some(**t) != self.host_in || starts(**t)) && self.progress.may_run(**t);
        self.tasks[stream as usize].iter().find(free).copied()
    }

    /// The caller starts a step.
    pub fn begin(&mut self, now: f64, steps: u64) {
        self.last = self.host_in.is_some_and(|t| self.progress.executions(t) + 1 == steps);
        self.found = Rank { start: now, ..Rank::default() };
        (self.has_worked, self.gap) = (false, 0.0);
    }

    /// Steps that its caller has got the results of.
    pub fn step(&self) -> u64 {
        self.host_out.map_or(0, |t| self.progress.executions(t))
    }

    /// Whether what happens now counts: it is of the last step.
    pub fn counts(&self) -> bool {
        self.last
    }

    pub fn work(&mut self, seconds: f64) {
        if seconds > 0.0 {
            self.found.bubble += if self.has_worked { self.gap } else { 0.0 };
            (self.has_worked, self.gap) = (true, 0.0);
            self.found.compute += seconds;
        }
    }

    pub fn wait(&mut self, waited: f64, moved: f64, for_message: bool) {
        *(if for_message { &mut self.found.wait_message } else { &mut self.found.wait_collective }) += waited;
        self.found.communication += moved;
        self.gap += waited;
    }

    pub fn sends(&mut self, bytes: u64, link: &mut u64) {
        if self.last {
            self.found.sent += bytes;
            *link += bytes;
        }
    }

    pub fn found(&self) -> Rank {
        self.found.clone()
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
