//! The flight recorder: the last operations of this process, kept in a ring and written to a file when a group fails.
//!
//! `python -m oneflow.distributed.flight` reads the files of all ranks. Recording is on at all times; nothing is written
//! unless `ONEFLOW_FLIGHT_DIR` names a folder. No statistics are made here.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::request::{ANY_RANK, Stamp};

const DIRECTORY: &str = "ONEFLOW_FLIGHT_DIR";
/// How many operations are kept; 0 switches the recorder off.
const RECORDS: &str = "ONEFLOW_FLIGHT_RECORDS";
const DEFAULT: usize = 1024;

static RECORDER: Mutex<Recorder> = Mutex::new(Recorder { first: 0, entries: VecDeque::new(), groups: BTreeMap::new() });

struct Recorder {
    /// The number of the oldest entry.
    first: u64,
    entries: VecDeque<Entry>,
    groups: BTreeMap<String, Arc<Members>>,
}

/// A group that this process is a member of.
#[derive(Debug)]
pub(crate) struct Members {
    pub name: String,
    /// This rank's place.
    pub rank: usize,
    /// World ranks.
    pub ranks: Vec<usize>,
}

impl Members {
    /// The place of a member among all ranks of the job.
    pub fn world_rank(&self, rank: usize) -> usize {
        self.ranks.get(rank).copied().unwrap_or(rank)
    }
}

struct Entry {
    group: Arc<Members>,
    stamp: Stamp,
    peer: Option<usize>,
    state: State,
    /// Microseconds since 1970, 0 for never.
    issued: u64,
    started: u64,
    ended: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Issued,
    Started,
    Completed,
    Failed,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            State::Issued => "issued",
            State::Started => "started",
            State::Completed => "completed",
            State::Failed => "failed",
        }
    }
}

/// The places in the ring of operations that were issued together, mostly of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    first: u64,
    n: u64,
}

fn recorder() -> MutexGuard<'static, Recorder> {
    RECORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn capacity() -> usize {
    static CAPACITY: OnceLock<usize> = OnceLock::new();
    *CAPACITY.get_or_init(|| match std::env::var(RECORDS) {
        Ok(text) => text.trim().parse().unwrap_or_else(|_| {
            tracing::warn!("{RECORDS} is '{text}', expected a whole number; {DEFAULT} operations are kept");
            DEFAULT
        }),
        Err(_) => DEFAULT,
    })
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// A group begins. Its name is that of a later one where a job starts anew in the same process.
pub(crate) fn group(name: &str, rank: usize, ranks: &[usize]) -> Arc<Members> {
    let members = Arc::new(Members { name: name.to_owned(), rank, ranks: ranks.to_vec() });
    recorder().groups.insert(name.to_owned(), members.clone());
    members
}

/// A group ends in peace.
pub(crate) fn leave(members: &Arc<Members>) {
    let groups = &mut recorder().groups;
    if groups.get(&members.name).is_some_and(|found| Arc::ptr_eq(found, members)) {
        groups.remove(&members.name);
    }
}

pub(crate) fn issued(group: &Arc<Members>, stamp: Stamp, peer: Option<usize>) -> Ticket {
    issued_together(group, std::iter::once((stamp, peer)))
}

/// Operations that start and end as one.
pub(crate) fn issued_together(
    group: &Arc<Members>,
    operations: impl Iterator<Item = (Stamp, Option<usize>)>,
) -> Ticket {
    let most = capacity();
    let mut recorder = recorder();
    if most == 0 {
        return Ticket { first: u64::MAX, n: 0 };
    }
    let first = recorder.first + recorder.entries.len() as u64;
    let mut n = 0;
    for (stamp, peer) in operations {
        while recorder.entries.len() >= most {
            recorder.entries.pop_front();
            recorder.first += 1;
        }
        let group = group.clone();
        let entry = Entry { group, stamp, peer, state: State::Issued, issued: now(), started: 0, ended: 0 };
        recorder.entries.push_back(entry);
        n += 1;
    }
    Ticket { first, n }
}

pub(crate) fn started(ticket: Ticket) {
    change(ticket, |entry| (entry.state, entry.started) = (State::Started, now()));
}

pub(crate) fn ended(ticket: Ticket, is_ok: bool) {
    let state = if is_ok { State::Completed } else { State::Failed };
    change(ticket, |entry| (entry.state, entry.ended) = (state, now()));
}

fn change(ticket: Ticket, f: impl Fn(&mut Entry)) {
    let mut recorder = recorder();
    for number in ticket.first..ticket.first.saturating_add(ticket.n) {
        // Long-running operations may have left the ring.
        let at = number.checked_sub(recorder.first).and_then(|at| usize::try_from(at).ok());
        if let Some(entry) = at.and_then(|at| recorder.entries.get_mut(at)) {
            f(entry);
        }
    }
}

/// The record as JSON: groups, and operations in the order in which they were issued.
pub fn snapshot(cause: &str) -> String {
    let recorder = recorder();
    let world = recorder.groups.get("world").cloned();
    let (rank, size) = world.as_ref().map_or((0, 1), |world| (world.rank, world.ranks.len()));
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "{{\"version\": 1, \"rank\": {rank}, \"world_size\": {size}, \"pid\": {}, \"time\": {}, \"cause\": {}, \"groups\": [",
        std::process::id(),
        now(),
        quoted(cause)
    );
    for (i, group) in recorder.groups.values().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let name = quoted(&group.name);
        let _ = write!(out, "{comma}{{\"name\": {name}, \"rank\": {}, \"ranks\": {:?}}}", group.rank, group.ranks);
    }
    out.push_str("],\n\"operations\": [");
    for (i, entry) in recorder.entries.iter().enumerate() {
        let comma = if i > 0 { ",\n" } else { "\n" };
        let peer = match entry.peer {
            None => "null".to_owned(),
            Some(ANY_RANK) => "\"any\"".to_owned(),
            Some(peer) => entry.group.world_rank(peer).to_string(),
        };
        let _ = write!(
            out,
            "{comma}{{\"group\": {}, \"seq\": {}, \"kind\": \"{}\", \"what\": {}, \"peer\": {peer}, \"state\": \"{}\", \
             \"issued\": {}, \"started\": {}, \"ended\": {}}}",
            quoted(&entry.group.name),
            entry.stamp.seq,
            entry.stamp.kind,
            quoted(&entry.stamp.to_string()),
            entry.state.name(),
            entry.issued,
            entry.started,
            entry.ended
        );
    }
    out.push_str("\n]}\n");
    out
}

/// Writes the record, if there is a folder for it: `rank<number>.json`, whole or not at all.
pub(crate) fn failed(cause: &str) {
    let Some(folder) = std::env::var_os(DIRECTORY).filter(|folder| !folder.is_empty()) else { return };
    static WRITER: Mutex<()> = Mutex::new(());
    let _one = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    let rank = recorder().groups.get("world").map_or(0, |world| world.rank);
    let folder = PathBuf::from(folder);
    let (path, draft) =
        (folder.join(format!("rank{rank}.json")), folder.join(format!(".rank{rank}.{}", std::process::id())));
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&draft, snapshot(cause)))
        .and_then(|()| std::fs::rename(&draft, &path));
    if let Err(e) = written {
        let _ = std::fs::remove_file(&draft);
        tracing::warn!("cannot write the flight record {}: {e}", path.display());
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Request, Span};

    #[test]
    fn the_last_operations_are_kept_with_what_became_of_them() {
        let members = group("recorded", 1, &[4, 7]);
        let stamp = |seq| {
            let data = Span { len: 8, ..Span::EMPTY };
            let request = Request::Broadcast { data, dtype: oneflow_base::DType::F32, root: 1 };
            crate::request::Stamp { seq, ..request.stamp() }
        };
        let tickets: Vec<Ticket> = (0..3).map(|seq| issued(&members, stamp(seq), (seq == 2).then_some(0))).collect();
        started(tickets[0]);
        ended(tickets[0], true);
        started(tickets[1]);
        let text = snapshot("a \"cause\"\n");
        let of_group: Vec<&str> = text.lines().filter(|line| line.contains("\"group\": \"recorded\"")).collect();
        for (line, words) in of_group.iter().zip(["\"completed\"", "\"started\"", "\"peer\": 4, \"state\": \"issued\""])
        {
            assert!(line.contains(words), "{line}");
        }
        assert!(of_group[1].contains("#1 broadcast(float32, 2 elements, root 1)"));
        assert!(text.contains(r#""cause": "a \"cause\"\u000a""#) && text.contains(r#""ranks": [4, 7]"#), "{text}");
        leave(&members);
        assert!(!snapshot("").contains(r#""name": "recorded""#));
        // Other tests record here too: the ring holds no more than its size in any case.
        for seq in 0..2 * DEFAULT as u64 {
            issued(&members, stamp(seq), None);
        }
        assert_eq!(recorder().entries.len(), DEFAULT);
        ended(tickets[1], true);
        // Some that end as one.
        let both = issued_together(&members, (5..7).map(|seq| (stamp(seq), None)));
        ended(both, false);
        let states: Vec<State> = recorder().entries.iter().rev().take(3).map(|entry| entry.state).collect();
        assert!(states == [State::Failed, State::Failed, State::Issued]);
    }
}
