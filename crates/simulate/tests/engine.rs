//! Small programs whose times are known: work, collectives, messages, shared links, and what never ends.

use oneflow_base::Device;
use oneflow_runtime::{Plan, Port, Register, Task, Work};
use oneflow_simulate::{
    Catalog, Cluster, Collective, Item, Job, Link, Memory, Move, Outcome, Program, Scenario, SpanKind, simulate,
};
use std::collections::HashMap;
use std::sync::Arc;

fn cluster(shared: bool, latency: f64) -> Cluster {
    let link = Link { latency, bandwidth: 1.0, shared };
    Cluster {
        hosts: 1,
        devices_per_host: 4,
        flops: 1.0,
        memory_bandwidth: 1.0,
        launch: 0.0,
        call: 0.0,
        memory: 1e9,
        inside: link,
        between: link,
        cores: 0.0,
        disk: 0.0,
        host_link: Link { bandwidth: 0.0, ..link },
    }
}

fn work(seconds: f64) -> (String, Item) {
    ("work".into(), Item::Compute { seconds })
}

/// Messages as (source, target, bytes).
fn moved(number: u32, messages: &[(u32, u32, u64)]) -> (String, Item) {
    ("move".into(), Item::Move { seconds: 0.0, what: Arc::new(Move::new(number, messages.iter().copied())) })
}

fn collective(catalog: &mut Catalog, label: &str, ranks: &[u32], rounds: f64, bytes: u64) -> (String, Item) {
    let groups = catalog.groups((ranks[0], ranks.len()), || vec![ranks.to_vec()]);
    let collective = Collective { groups, label: label.into(), rounds, ring: true, sent: vec![bytes; ranks.len()] };
    ("collective".into(), Item::Collective { seconds: 0.0, collective: Arc::new(collective) })
}

fn run(c: &Cluster, rows: Vec<Vec<(String, Item)>>, scenario: Scenario) -> Outcome {
    let programs: Vec<Program> = rows.into_iter().map(Program::of_items).collect();
    let of_rank: Vec<u32> = (0..programs.len() as u32).collect();
    simulate(&Job { cluster: c, programs: &programs, of_rank: &of_rank }, &scenario).unwrap()
}

#[test]
fn a_collective_waits_for_its_last_rank_and_takes_its_bytes() {
    let mut catalog = Catalog::default();
    let mut row = |seconds| vec![work(seconds), collective(&mut catalog, "sum", &[0, 1], 2.0, 6), work(1.0)];
    let rows = vec![row(3.0), row(5.0)];
    let found = run(&cluster(false, 0.5), rows.clone(), Scenario::default());
    // Two latencies and six bytes after the slower rank.
    assert_eq!((found.step, found.first_step), (13.0, 13.0));
    let [a, b] = found.ranks.as_slice() else { panic!("two ranks") };
    assert_eq!((a.compute, a.wait_collective, a.communication, a.bubble), (4.0, 2.0, 7.0, 2.0));
    assert_eq!((b.compute, b.wait_collective, b.communication, b.sent), (6.0, 0.0, 7.0, 6));
    assert_eq!(found.links.len(), 2);
    // The same link carries what both send.
    assert_eq!(run(&cluster(true, 0.5), rows.clone(), Scenario::default()).step, 19.0);
    let slow = Scenario { slow: vec![(0, 2.0)], ..Scenario::default() };
    assert_eq!(run(&cluster(false, 0.5), rows, slow).step, 15.0);
}

#[test]
fn a_ring_leaves_each_host_once() {
    let links = |shared| Cluster {
        hosts: 2,
        devices_per_host: 2,
        inside: Link { latency: 0.0, bandwidth: 100.0, shared: false },
        between: Link { latency: 0.0, bandwidth: 1.0, shared },
        ..cluster(false, 0.0)
    };
    let mut catalog = Catalog::default();
    let mut ring = |ranks: &[u32], label: &str| collective(&mut catalog, label, ranks, 2.0, 8);
    // One ring over both hosts: one rank of each host sends through what the host's ranks share.
    let all = [0, 1, 2, 3];
    let rows = all.map(|_| vec![ring(&all, "all")]);
    assert_eq!(run(&links(true), rows.clone().into(), Scenario::default()).step, 8.0);
    // Where each rank has its own link, the bytes go in two rings, one through each.
    let found = run(&links(false), rows.into(), Scenario::default());
    assert_eq!((found.step, found.ranks[0].sent, found.links.len()), (4.0, 8, 8));
    assert!(found.links.iter().all(|(_, bytes)| *bytes == 4));
    // Two rings, each with a rank of each host: they share it.
    let rows = [[0, 2], [1, 3], [0, 2], [1, 3]].map(|own| vec![ring(&own, "pair")]);
    assert_eq!(run(&links(true), rows.clone().into(), Scenario::default()).step, 16.0);
    assert_eq!(run(&links(false), rows.into(), Scenario::default()).step, 8.0);
}

#[test]
fn ranks_of_a_host_share_its_cores() {
    let shared = |cores| Cluster { cores, ..cluster(false, 0.0) };
    let mut catalog = Catalog::default();
    let mut row = |seconds| vec![work(seconds), collective(&mut catalog, "sum", &[0, 1, 2], 2.0, 6), work(1.0)];
    let rows = vec![row(2.0), row(2.0), row(5.0)];
    // Alone each rank works at once, and the last comes after five seconds.
    for cores in [0.0, 3.0, 4.0] {
        assert_eq!(run(&shared(cores), rows.clone(), Scenario::default()).step, 12.0);
    }
    // On one core two ranks have worked after 6 seconds, the last after 9; what follows takes 3 on it.
    let scenario = Scenario { steps: 1, watch: vec![0, 2], ..Scenario::default() };
    let found = run(&shared(1.0), rows.clone(), scenario);
    assert_eq!(found.step, 9.0 + 6.0 + 3.0);
    assert_eq!((found.ranks[0].compute, found.ranks[0].wait_collective), (6.0 + 3.0, 3.0));
    let first: Vec<_> = found.spans.iter().filter(|s| s.start == 0.0).map(|s| (s.rank, s.end)).collect();
    assert_eq!(first, [(0, 6.0), (2, 9.0)]);
    // Two cores: three ranks have two thirds each until 3, when two have worked, and the last has its own from there.
    assert_eq!(run(&shared(2.0), rows, Scenario::default()).first_step, 6.0 + 6.0 + 1.5);
    // Ranks of other hosts have cores of their own.
    let apart = Cluster { hosts: 2, devices_per_host: 2, ..shared(1.0) };
    let all = |n| (0..n).map(|_| vec![work(3.0)]).collect::<Vec<_>>();
    assert_eq!(run(&apart, all(4), Scenario::default()).step, 6.0);
    assert_eq!(run(&shared(1.0), all(4), Scenario::default()).step, 12.0);
}

#[test]
fn bytes_between_ranks_that_share_cores_are_copied_by_them() {
    let shared = |cores| Cluster { cores, ..cluster(false, 0.0) };
    let m = || moved(1, &[(0, 1, 6)]);
    // Alone a message takes what its link takes, on one core and on two; beside work on the only core it shares that.
    let rows = |seconds| vec![vec![m()], vec![m()], vec![work(seconds)]];
    let time = |cores, seconds| run(&shared(cores), rows(seconds), Scenario { steps: 1, ..Scenario::default() }).step;
    assert_eq!((time(1.0, 0.0), time(2.0, 0.0)), (6.0, 6.0));
    // Both have half of the core until the work's four seconds are done at 8; of the message two seconds are left.
    assert_eq!(time(1.0, 4.0), 10.0);
    assert_eq!((time(3.0, 4.0), time(0.0, 4.0)), (6.0, 6.0));
    let mut catalog = Catalog::default();
    let mut row = || vec![collective(&mut catalog, "sum", &[0, 1, 2], 2.0, 6)];
    let rows = vec![row(), row(), row(), vec![work(3.0)]];
    // Three ranks were measured on this core together.
    assert_eq!(run(&shared(1.0), rows, Scenario { steps: 1, ..Scenario::default() }).step, 9.0);
}

#[test]
fn programs_take_time_between_steps() {
    let c = Cluster { call: 0.5, ..cluster(false, 0.0) };
    let found = run(&c, vec![vec![work(2.0)], vec![work(1.0)]], Scenario { steps: 3, ..Scenario::default() });
    assert_eq!((found.first_step, found.step), (2.5, 2.5));
    assert_eq!((found.ranks[0].start, found.ranks[0].end, found.ranks[0].compute), (5.0, 7.5, 2.0));
    assert!(found.stuck.is_empty());
}

#[test]
fn work_on_memory_of_the_host_takes_what_the_link_takes() {
    let with = |read, written| {
        let mut p = Program::of_items(vec![work(1.0), work(2.0), work(1.0)]);
        p.on_host.insert((1, 1), (read, written));
        p
    };
    let time = |shared, latency, n: usize, (read, written)| {
        let c = Cluster { host_link: Link { latency, bandwidth: 2.0, shared }, ..cluster(false, 0.0) };
        let of_rank: Vec<u32> = vec![0; n];
        let scenario = Scenario { watch: vec![0], ..Scenario::default() };
        let found = simulate(&Job { cluster: &c, programs: &[with(read, written)], of_rank: &of_rank }, &scenario);
        found.unwrap()
    };
    // The link hides behind the work, or the work behind the link; both ways at once.
    assert_eq!(time(false, 0.0, 1, (4, 0)).step, 4.0);
    assert_eq!(time(false, 0.0, 1, (8, 0)).step, 6.0);
    assert_eq!(time(false, 0.0, 1, (8, 8)).step, 6.0);
    assert_eq!(time(false, 0.0, 1, (2, 12)).step, 8.0);
    assert_eq!(time(false, 0.5, 1, (8, 0)).step, 6.5);
    assert_eq!(time(false, 0.0, 4, (8, 8)).step, 6.0);
    // Four devices of a host over one link.
    let found = time(true, 0.0, 4, (8, 4));
    assert_eq!(found.step, 2.0 + 16.0);
    let names = [("offload host 0 out".to_owned(), 16), ("offload host 0 in".to_owned(), 32)];
    assert_eq!((found.links.as_slice(), found.ranks[0].sent, found.ranks[0].compute), (&names[..], 0, 18.0));
}

#[test]
fn what_comes_into_a_host_shares_its_link() {
    let mut catalog = Catalog::default();
    let link = Link { latency: 0.0, bandwidth: 1.0, shared: true };
    let c = Cluster { hosts: 3, devices_per_host: 2, between: link, ..cluster(false, 0.0) };
    let m = || moved(1, &[(4, 1, 6)]);
    let mut ring = |b: u32| vec![collective(&mut catalog, "sum", &[0, b], 1.0, 6)];
    // Ranks 0 and 2 of two hosts exchange six bytes while rank 4 sends six to rank 1.
    let rows = vec![ring(2), vec![m()], ring(2), vec![], vec![m()]];
    assert_eq!(run(&c, rows, Scenario { steps: 1, ..Scenario::default() }).step, 12.0);
}

#[test]
fn a_message_leaves_when_it_is_sent_and_its_sender_goes_on() {
    let m = |n| moved(n, &[(0, 1, 4)]);
    let rows = vec![vec![work(1.0), m(1), work(10.0)], vec![m(1), work(2.0)]];
    let scenario = Scenario { steps: 1, watch: vec![1], ..Scenario::default() };
    let found = run(&cluster(false, 1.0), rows, scenario);
    assert_eq!((found.step, found.ranks[1].end), (11.0, 8.0));
    assert_eq!((found.ranks[1].wait_message, found.ranks[1].communication), (1.0, 5.0));
    let kinds: Vec<_> = found.spans.iter().map(|s| (s.kind, s.start, s.end)).collect();
    assert_eq!(kinds, [(SpanKind::Wait, 0.0, 1.0), (SpanKind::Communication, 1.0, 6.0), (SpanKind::Compute, 6.0, 8.0)]);
}

#[test]
fn a_send_has_the_credit_of_one_message() {
    // Rank 0 would be done after a second each step; its second message waits until the first has arrived.
    let m = |n| moved(n, &[(0, 1, 10)]);
    let rows = vec![vec![work(1.0), m(1)], vec![m(1)]];
    let found = run(&cluster(false, 0.0), rows, Scenario { steps: 3, ..Scenario::default() });
    assert_eq!((found.first_step, found.step), (11.0, 10.0));
}

#[test]
fn streams_of_a_plan_overlap_as_their_registers_allow() {
    let register = |name: &str| Register { name: name.into(), device: Device::CPU, bytes: 0, slots: 1 };
    let port = |register| Port { register, pieces: 1 };
    let task = |name: &str, stream, work, consumes: &[u32], produces: &[u32]| Task {
        name: name.into(),
        stream,
        work,
        consumes: consumes.iter().map(|r| port(*r)).collect(),
        produces: produces.iter().map(|r| port(*r)).collect(),
    };
    let program = |first: &[u32], second: &[u32]| {
        let compute = || Work::Compute(Vec::new());
        let plan = Plan {
            registers: ["run", "a", "b"].map(register).into(),
            tasks: vec![
                task("caller", 0, Work::HostIn, &[], &[0]),
                task("first", 1, compute(), first, &[1]),
                task("second", 2, compute(), second, &[2]),
                task("receiver", 0, Work::HostOut, &[1, 2], &[]),
            ],
            ..Plan::default()
        };
        plan.check_credits().unwrap();
        let items = [None, Some(3.0), Some(4.0), None];
        let items = items.map(|s| s.map(|seconds| Item::Compute { seconds }).into_iter().collect());
        Program {
            plan: Arc::new(plan),
            items: items.into(),
            on_host: HashMap::new(),
            flops: 0.0,
            product_flops: 0.0,
            memory: Memory::default(),
        }
    };
    let c = cluster(false, 0.0);
    for (second, step) in [(&[0][..], 4.0), (&[0, 1], 7.0)] {
        let programs = [program(&[0], second)];
        let job = Job { cluster: &c, programs: &programs, of_rank: &[0] };
        assert_eq!(simulate(&job, &Scenario::default()).unwrap().step, step);
    }
}

#[test]
fn ranks_that_wait_for_each_other_are_named() {
    let (ab, ba) = (|| moved(1, &[(0, 1, 1)]), || moved(2, &[(1, 0, 1)]));
    let rows = vec![vec![ba(), ab()], vec![ab(), ba()]];
    let found = run(&cluster(false, 0.0), rows, Scenario::default());
    let said: Vec<_> = found.stuck.iter().map(|s| (s.rank, s.origin.as_str(), s.reason.as_str())).collect();
    assert_eq!(said, [(0, "move", "waits for a message of rank 1"), (1, "move", "waits for a message of rank 0")]);
}

#[test]
fn a_lost_rank_is_waited_for() {
    let mut catalog = Catalog::default();
    let mut row = || vec![work(1.0), collective(&mut catalog, "sum", &[0, 1, 2], 0.0, 0), work(1.0)];
    let rows = vec![row(), row(), row()];
    let found = run(&cluster(false, 0.0), rows, Scenario { lost: Some((1, 2.5)), steps: 4, ..Scenario::default() });
    let said: Vec<_> = found.stuck.iter().map(|s| (s.rank, s.reason.as_str(), s.since)).collect();
    assert_eq!(said, [(0, "waits for rank 1 in sum", 3.0), (2, "waits for rank 1 in sum", 3.0)]);
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let mut catalog = Catalog::default();
    let one = collective(&mut catalog, "sum", &[0, 1], 0.0, 0);
    let other = collective(&mut catalog, "gather", &[0, 1], 0.0, 0);
    let c = cluster(false, 0.0);
    let try_ = |rows: Vec<Vec<(String, Item)>>, of_rank: &[u32], c: &Cluster, s: &Scenario| {
        let programs: Vec<Program> = rows.into_iter().map(Program::of_items).collect();
        simulate(&Job { cluster: c, programs: &programs, of_rank }, s).unwrap_err().text().to_owned()
    };
    let plain = Scenario::default();
    let said = try_(vec![vec![one], vec![other]], &[0, 1], &c, &plain);
    assert!(said.contains("rank 0 calls sum, and rank 1 gather"), "{said}");
    assert!(try_(vec![vec![]], &[0; 5], &c, &plain).contains("5 ranks on a cluster of 4"));
    assert!(try_(vec![vec![]], &[1], &c, &plain).contains("no program 1"));
    assert!(try_(vec![vec![]], &[0], &Cluster { flops: f64::NAN, ..c.clone() }, &plain).contains("flops is NaN"));
    let slow = Scenario { slow: vec![(0, -1.0)], ..plain.clone() };
    assert!(try_(vec![vec![]], &[0], &c, &slow).contains("slower by a factor of -1"));
    let lost = Scenario { lost: Some((7, 0.0)), ..plain };
    assert!(try_(vec![vec![]], &[0], &c, &lost).contains("no rank 7"));
}
