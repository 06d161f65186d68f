//! The credit protocol under a scheduler that tries many orders of its threads' steps, on the types that ship.
//!
//! Networks are drawn at random: chains, forks and joins with other rates and slots on several streams. In every order
//! each actor sees the items it should, in sequence, nothing deadlocks, and a failure is reported once, after what was
//! produced before it. `make model` tries many more orders than the tests do.

use crate::actor::{Act, Body, Network, RunArgs};
use crate::plan::{Plan, Port, Register, Task, Work};
use crate::progress::Piece;
use crate::sync::sync::Arc;
use crate::sync::sync::atomic::AtomicBool;
use oneflow_base::{Device, Error, Result};
use oneflow_testing::Draw;

/// Numbers each item it produces, and checks the numbers of those it reads.
struct Count {
    executions: u64,
    /// Registers that carry numbers come after the caller's.
    first: usize,
    fails_at: Option<u64>,
}

impl Body for Count {
    fn act(&mut self, act: &mut Act<'_>) -> Result<()> {
        if self.fails_at == Some(self.executions) {
            return Err(Error::runtime("planted"));
        }
        let at = |v: &[Piece], k: usize| self.executions * v.len() as u64 + k as u64;
        for pieces in &act.ins[self.first..] {
            for (k, p) in pieces.iter().enumerate() {
                // SAFETY: every piece is a word that this actor holds now.
                let seen = unsafe { *p.ptr.cast::<u64>() };
                assert_eq!(seen, at(pieces, k), "a piece was overwritten, or read too early");
            }
        }
        for pieces in act.outs {
            for (k, p) in pieces.iter().enumerate() {
                // SAFETY: as above.
                unsafe { *p.ptr.cast::<u64>() = at(pieces, k) };
            }
        }
        self.executions += 1;
        Ok(())
    }
}

/// A network that the caller drives: `caller -> compute -> receiver`, with sources and stages of other streams before it.
fn network(seed: u64) -> Plan {
    let mut d = Draw::seeded(seed);
    let mut p = Plan::default();
    let register = |p: &mut Plan, slots: usize| {
        let name = format!("r{}", p.registers.len());
        p.registers.push(Register { name, device: Device::CPU, bytes: 8, slots: slots as u32 });
        p.registers.len() as u32 - 1
    };
    let task =
        |name: &str, stream, work, consumes, produces| Task { name: name.into(), stream, work, consumes, produces };
    let port = |register| Port { register, pieces: 1 };
    let (run, result) = (register(&mut p, 1 + d.below(2)), register(&mut p, 1 + d.below(2)));
    let mut reads = vec![port(run)];
    let n_sources = d.below(3);
    for s in 0..n_sources {
        let made = 1 + d.below(2);
        let mut last = register(&mut p, made + d.below(2));
        let source = Work::Source { kind: "count".into(), config: Vec::new() };
        let out = Port { register: last, pieces: made as u32 };
        p.tasks.push(task("source", 10 + s as u32, source, vec![], vec![out]));
        for k in 0..d.below(2) {
            let next = register(&mut p, 1 + d.below(2));
            let taken = Port { register: last, pieces: 1 };
            let stream = if d.below(2) == 0 { 10 + s as u32 } else { 20 + k as u32 };
            p.tasks.push(task("stage", stream, Work::Compute(vec![]), vec![taken], vec![port(next)]));
            last = next;
        }
        reads.push(port(last));
    }
    p.tasks.push(task("caller", 0, Work::HostIn, vec![], vec![port(run)]));
    p.tasks.push(task("compute", 1, Work::Compute(vec![]), reads, vec![port(result)]));
    p.tasks.push(task("receiver", 0, Work::HostOut, vec![port(result)], vec![]));
    p
}

/// A step cut into segments, and collectives beside it on one or two streams: each is issued behind one segment and joined
/// before a later one, and the last segment gives back the run.
fn segments(seed: u64) -> Plan {
    let mut d = Draw::seeded(seed);
    let register = |name: String, slots| Register { name, device: Device::CPU, bytes: 8, slots };
    let port = |register: usize| Port { register: register as u32, pieces: 1 };
    let (n, n_beside, n_streams) = (2 + d.below(3), 1 + d.below(3), 1 + d.below(2));
    let mut beside: Vec<(usize, usize, usize)> = (0..n_beside)
        .map(|_| {
            let from = d.below(n - 1);
            (from, from + 1 + d.below(n - from - 1), d.below(n_streams))
        })
        .collect();
    beside.sort_unstable();
    // Register 0 is the run, 1 the result, then what segments pass on, then what collectives do.
    let mut registers = vec![register("run".into(), 1), register("result".into(), 1 + d.below(2) as u32)];
    registers.extend((1..n).map(|k| register(format!("segment {k}"), 1)));
    registers.extend((0..n_beside).map(|k| register(format!("collective {k}"), 1)));
    let task =
        |name: &str, stream, work, consumes, produces| Task { name: name.into(), stream, work, consumes, produces };
    let mut tasks = vec![task("caller", 0, Work::HostIn, vec![], vec![port(0)])];
    for k in 0..n {
        let mut reads = if k == 0 || k == n - 1 { vec![port(0)] } else { vec![] };
        reads.extend((k > 0).then(|| port(1 + k)));
        reads.extend((0..n_beside).filter(|i| beside[*i].1 == k).map(|i| port(1 + n + i)));
        let out = port(if k == n - 1 { 1 } else { 2 + k });
        tasks.push(task("segment", 1, Work::Compute(vec![]), reads, vec![out]));
        for i in (0..n_beside).filter(|i| beside[*i].0 == k) {
            let last = (0..i).rev().find(|j| beside[*j].2 == beside[i].2).map(|j| port(1 + n + j));
            let reads = std::iter::once(port(2 + k)).chain(last).collect();
            tasks.push(task("beside", 2 + beside[i].2 as u32, Work::Compute(vec![]), reads, vec![port(1 + n + i)]));
        }
    }
    tasks.push(task("receiver", 0, Work::HostOut, vec![port(1)], vec![]));
    Plan { registers, tasks, ..Plan::default() }
}

/// Runs a network, and returns how many runs succeeded and the error, if there was one.
fn play(p: &Plan, runs: u64, fails: Option<(usize, u64)>) -> (u64, Option<String>) {
    let bodies = p.tasks.iter().enumerate().map(|(i, t)| {
        let fails_at = fails.filter(|f| f.0 == i).map(|f| f.1);
        // The caller's register is number 0 and carries no numbers.
        let first = t.consumes.iter().take_while(|p| p.register == 0).count();
        let body = || Box::new(Count { executions: 0, first, fails_at }) as Box<dyn Body>;
        (!matches!(t.work, Work::HostIn | Work::HostOut)).then(body)
    });
    let made = Network::start(p, bodies.collect(), Arc::new(AtomicBool::new(false)));
    let mut n = made.expect("a network with enough credits starts");
    let mut done = 0;
    let mut error = None;
    let mut no = || Ok(());
    for _ in 0..runs {
        // Every other run waits for its data first.
        let data = if done % 2 == 0 { n.wait_for_data(&mut no) } else { Ok(()) };
        let r = data.and_then(|()| n.submit(RunArgs::default(), &mut no));
        match r.and_then(|()| n.collect(&mut no, &mut |_| Ok(()))) {
            Ok(()) => done += 1,
            Err(e) => {
                error = Some(e.to_string());
                break;
            }
        }
    }
    drop(n);
    (done, error)
}

/// How many orders to try: a bounded number in the tests, as many as requested by `make model`.
fn orders(bounded: usize) -> usize {
    std::env::var("ONEFLOW_MODEL_ORDERS").ok().and_then(|s| s.parse().ok()).unwrap_or(bounded)
}

#[test]
fn no_order_of_steps_loses_a_piece_or_stands_still() {
    // Networks without a source have one thread: there is no order to choose.
    for p in (0..60).map(network).filter(|p| p.tasks.len() > 3) {
        p.check_credits().expect("every network drawn has enough credits");
        let check = move || assert_eq!(play(&p, 3, None), (3, None));
        let again = check.clone();
        shuttle::check_random(check, orders(25));
        shuttle::check_pct(again, orders(25), 3);
    }
}

#[test]
fn collectives_beside_the_compute_stream_pass_every_piece_on() {
    for p in (0..40).map(segments) {
        p.check_credits().expect("every network drawn has enough credits");
        assert!(p.turns().iter().all(|t| *t), "segments, and the collectives of a stream, run in turn");
        let check = move || assert_eq!(play(&p, 3, None), (3, None));
        let again = check.clone();
        shuttle::check_random(check, orders(25));
        shuttle::check_pct(again, orders(25), 3);
    }
}

#[test]
fn a_collective_that_fails_beside_the_compute_stream_ends_its_step() {
    for p in (0..8).map(segments) {
        let at = p.tasks.iter().position(|t| t.name == "beside").expect("there is one");
        let check = move || {
            let (done, error) = play(&p, 4, Some((at, 2)));
            assert_eq!(done, 2, "steps before it are done");
            assert!(error.is_some_and(|e| e.contains("planted")));
        };
        shuttle::check_random(check, orders(40));
    }
}

#[test]
fn a_failure_comes_out_once_after_what_was_made_before_it() {
    let with_source = (0..40).map(network).filter(|p| matches!(p.tasks[0].work, Work::Source { .. }));
    for p in with_source.take(8) {
        let made = p.tasks[0].produces[0].pieces as u64;
        let check = move || {
            let (done, error) = play(&p, 9, Some((0, 2)));
            assert_eq!(done, 2 * made, "runs whose data were there are done");
            assert!(error.is_some_and(|e| e.contains("planted")));
        };
        shuttle::check_random(check, orders(40));
    }
}

#[test]
fn stopping_in_any_order_ends_every_thread() {
    let p = network(4);
    shuttle::check_random(move || assert_eq!(play(&p, 0, None), (0, None)), orders(100));
}
