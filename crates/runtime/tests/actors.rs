//! The actor protocol on networks of bodies: back-pressure, one register read twice, rates, errors, faults.

use oneflow_base::{Device, Error, Result};
use oneflow_runtime::{Act, Body, Network, Piece, Plan, Port, Register, RunArgs, Task, Work};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A body that is a function of numbers: the first word of every item.
struct Fun<F>(F);

impl<F: FnMut(&[Vec<u64>]) -> Result<u64> + Send> Body for Fun<F> {
    fn act(&mut self, act: &mut Act<'_>) -> Result<()> {
        // SAFETY: pieces of these tests are one aligned word, given to this actor by the protocol.
        let read = |p: &Piece| unsafe { *p.ptr.cast::<u64>() };
        let values: Vec<Vec<u64>> = act.ins.iter().map(|r| r.iter().map(read).collect()).collect();
        let y = (self.0)(&values)?;
        for p in act.outs.iter().flatten() {
            // SAFETY: as above.
            unsafe { *p.ptr.cast::<u64>() = y };
        }
        Ok(())
    }
}

fn body<F: FnMut(&[Vec<u64>]) -> Result<u64> + Send + 'static>(f: F) -> Option<Box<dyn Body>> {
    Some(Box::new(Fun(f)))
}

fn ports(p: &[(u32, u32)]) -> Vec<Port> {
    p.iter().map(|&(register, pieces)| Port { register, pieces }).collect()
}

/// Name, stream, and (register, items) consumed and produced.
type Actor<'a> = (&'a str, u32, &'a [(u32, u32)], &'a [(u32, u32)]);

fn plan(slots: &[u32], tasks: &[Actor<'_>]) -> Plan {
    let task = |&(name, stream, consumes, produces): &Actor<'_>| Task {
        name: name.into(),
        stream,
        work: if name == "receiver" { Work::HostOut } else { Work::Compute(Vec::new()) },
        consumes: ports(consumes),
        produces: ports(produces),
    };
    Plan {
        registers: slots
            .iter()
            .enumerate()
            .map(|(i, s)| Register { name: format!("r{i}"), device: Device::CPU, bytes: 8, slots: *s })
            .collect(),
        tasks: tasks.iter().map(task).collect(),
        ..Plan::default()
    }
}

fn start(p: &Plan, bodies: Vec<Option<Box<dyn Body>>>) -> Result<Network> {
    Network::start(p, bodies, Arc::new(AtomicBool::new(false)))
}

fn first(pieces: &[Vec<Piece>]) -> u64 {
    // SAFETY: one aligned word, this side's until it is given back.
    unsafe { *pieces[0][0].ptr.cast::<u64>() }
}

fn no_poll() -> Result<()> {
    Ok(())
}

/// source -> square -> (double, join), double -> join; join takes two items at a time of both.
fn four(slots: &[u32], streams: [u32; 4]) -> Plan {
    plan(
        slots,
        &[
            ("source", streams[0], &[], &[(0, 1)]),
            ("square", streams[1], &[(0, 1)], &[(1, 1)]),
            ("double", streams[2], &[(1, 1)], &[(2, 1)]),
            ("join", streams[3], &[(1, 2), (2, 2)], &[(3, 1)]),
            ("receiver", 0, &[(3, 1)], &[]),
        ],
    )
}

#[test]
fn four_actors_with_one_register_read_twice() {
    for streams in [[1, 2, 3, 4], [1, 1, 1, 1], [1, 2, 2, 1]] {
        let p = four(&[1, 2, 2, 2], streams);
        p.check().unwrap();
        let mut next = 0;
        let made = Arc::new(AtomicU64::new(0));
        let count = made.clone();
        let mut n = start(
            &p,
            vec![
                body(move |_| {
                    next += 1;
                    count.store(next, Ordering::SeqCst);
                    Ok(next)
                }),
                body(|x| Ok(x[0][0] * x[0][0])),
                body(|x| Ok(2 * x[0][0])),
                body(|x| Ok(x.iter().flatten().sum())),
                None,
            ],
        )
        .unwrap();
        for i in 0..500u64 {
            let (a, b) = (2 * i + 1, 2 * i + 2);
            let mut got = 0;
            n.collect(&mut no_poll, &mut |p| {
                got = first(p);
                Ok(())
            })
            .unwrap();
            assert_eq!(got, 3 * (a * a + b * b));
            // Nobody runs further ahead than the slots allow: 2 results, 2 + 2 inside join's registers, 1 at the source, and
            // what actors hold in their hands.
            assert!(made.load(Ordering::SeqCst) <= 2 * (i + 1) + 4 + 2 + 2 + 1 + 2);
        }
    }
}

#[test]
fn one_credit_too_few_is_refused() {
    assert!(four(&[1, 2, 2, 1], [1, 2, 3, 4]).check().is_ok());
    for slots in [[1, 1, 2, 1], [1, 2, 1, 1], [0, 2, 2, 1]] {
        let e = four(&slots, [1, 2, 3, 4]).check().unwrap_err();
        assert!(e.text().contains("too few credits"), "{e}");
        assert!(e.text().contains("waits for"), "{e}");
    }
    // Slots for each of them, but not for both: two pieces are there, a third is awaited, and two more find no room.
    let p = plan(&[3], &[("a", 1, &[], &[(0, 2)]), ("b", 1, &[(0, 3)], &[])]);
    let e = p.check().unwrap_err();
    assert!(e.text().contains("b waits for \"r0\" (2 of 3 pieces)"), "{e}");
    // Rates that contradict each other never come round.
    let p = plan(&[4, 4], &[("a", 1, &[], &[(0, 1), (1, 1)]), ("b", 1, &[(0, 1), (1, 2)], &[])]);
    assert!(p.check().unwrap_err().text().contains("contradict"));
}

#[test]
fn random_networks_that_pass_the_check_run() {
    let mut seed = 12345u64;
    let mut rnd = |n: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % n
    };
    let mut ran = 0;
    for _ in 0..1000 {
        // A chain of stages, each reading the one before it and some earlier one.
        let n = 2 + rnd(5) as usize;
        let slots: Vec<u32> = (0..=n).map(|_| 1 + rnd(3) as u32).collect();
        let mut names: Vec<String> = Vec::new();
        let mut reads: Vec<Vec<(u32, u32)>> = Vec::new();
        for i in 0..n {
            names.push(format!("t{i}"));
            let mut r = Vec::new();
            if i > 0 {
                r.push((i as u32 - 1, 1));
                if i > 1 && rnd(2) == 0 {
                    r.push((rnd(i as u64 - 1) as u32, 1));
                }
            }
            reads.push(r);
        }
        let makes: Vec<[(u32, u32); 1]> = (0..n).map(|i| [(i as u32, 1)]).collect();
        let mut tasks: Vec<Actor<'_>> =
            (0..n).map(|i| (names[i].as_str(), 1 + rnd(3) as u32, reads[i].as_slice(), makes[i].as_slice())).collect();
        let last = [(n as u32 - 1, 1)];
        tasks.push(("receiver", 0, &last, &[]));
        let p = plan(&slots[..n], &tasks);
        if p.check().is_err() {
            continue;
        }
        ran += 1;
        let mut bodies: Vec<Option<Box<dyn Body>>> = Vec::new();
        for i in 0..n {
            let mut k = 0;
            bodies.push(if i == 0 {
                body(move |_| {
                    k += 1;
                    Ok(k)
                })
            } else {
                body(|x| Ok(x.iter().flatten().sum()))
            });
        }
        // The same in plain order.
        let expect = |k: u64| {
            let mut v = vec![k];
            for r in reads.iter().skip(1) {
                v.push(r.iter().map(|(j, _)| v[*j as usize]).sum());
            }
            v[n - 1]
        };
        let mut net = start(&p, bodies).unwrap();
        for k in 1..=8 {
            let mut got = 0;
            net.collect(&mut no_poll, &mut |p| {
                got = first(p);
                Ok(())
            })
            .unwrap();
            assert_eq!(got, expect(k));
        }
    }
    assert!(ran > 300, "{ran}");
}

#[test]
fn an_error_stops_the_plan_and_surfaces_once() {
    let p = four(&[2, 2, 2, 2], [1, 2, 3, 4]);
    let mut next = 0;
    let mut n = start(
        &p,
        vec![
            body(move |_| {
                next += 1;
                Ok(next)
            }),
            body(|x| if x[0][0] == 7 { Err(Error::index("seven")) } else { Ok(x[0][0]) }),
            body(|x| Ok(x[0][0])),
            body(|x| Ok(x.iter().flatten().sum())),
            None,
        ],
    )
    .unwrap();
    let mut errors = Vec::new();
    for _ in 0..6 {
        if let Err(e) = n.collect(&mut no_poll, &mut |_| Ok(())) {
            errors.push(e.to_string());
        }
    }
    assert_eq!(errors[0], "actor square: seven");
    assert!(errors[1..].iter().all(|e| e.starts_with("the plan has stopped after an error")), "{errors:?}");
}

#[test]
fn a_panic_is_an_error_and_a_poll_can_leave() {
    let p = plan(&[1], &[("bad", 1, &[], &[(0, 1)]), ("receiver", 0, &[(0, 1)], &[])]);
    let mut n = start(&p, vec![body(|_| panic!("planted")), None]).unwrap();
    assert!(n.collect(&mut no_poll, &mut |_| Ok(())).unwrap_err().text().contains("panicked"));
    // An actor that takes its time: the caller is asked meanwhile, and its answer ends the wait.
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let slow = body(move |_| {
        while !seen.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(0)
    });
    let mut n = start(&p, vec![slow, None]).unwrap();
    let e = n.collect(&mut || Err(Error::runtime("interrupted")), &mut |_| Ok(())).unwrap_err();
    assert_eq!(e.text(), "interrupted");
    assert!(n.report().contains("receiver"), "{}", n.report());
    stop.store(true, Ordering::Relaxed);
}

/// Fault: a source that is stuck in a call. It returns when everybody has left, and then writes its item.
#[test]
fn a_source_that_does_not_come_back_is_left_behind() {
    let mut p = plan(&[1], &[("stuck", 1, &[], &[(0, 1)]), ("receiver", 0, &[(0, 1)], &[])]);
    p.tasks[0].work = Work::Source { kind: "stuck".into(), config: Vec::new() };
    for asks in [false, true] {
        let (back, token) = (Arc::new(AtomicBool::new(false)), Arc::new(()));
        let (comes, held) = (back.clone(), token.clone());
        let stuck = body(move |_| {
            let _held = &held;
            while !comes.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(7)
        });
        let mut n = start(&p, vec![stuck, None]).unwrap();
        let e = n.collect(&mut || Err(Error::runtime("interrupted")), &mut |_| Ok(())).unwrap_err();
        assert_eq!(e.text(), "interrupted");
        if asks {
            assert_eq!(n.stop(None, &mut || Err(Error::runtime("enough"))).unwrap_err().text(), "enough");
        }
        drop(n);
        assert_eq!(Arc::strong_count(&token), 2, "its thread has what it needs");
        back.store(true, Ordering::Relaxed);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while Arc::strong_count(&token) > 1 {
            assert!(std::time::Instant::now() < deadline, "the thread ends when the source comes back");
            std::thread::yield_now();
        }
    }
}

#[test]
fn who_waits_for_data_is_told_of_failures_too() {
    let mut p = plan(
        &[1, 2, 1],
        &[
            ("caller", 0, &[], &[(0, 1)]),
            ("source", 1, &[], &[(1, 1)]),
            ("compute", 2, &[(0, 1), (1, 1)], &[(2, 1)]),
            ("receiver", 0, &[(2, 1)], &[]),
        ],
    );
    (p.tasks[0].work, p.tasks[1].work) = (Work::HostIn, Work::Source { kind: "source".into(), config: Vec::new() });
    let mut next = 0;
    let source = body(move |_| {
        next += 1;
        if next < 4 { Ok(next) } else { Err(Error::value("no more")) }
    });
    let mut n = start(&p, vec![None, source, body(|x| Ok(10 * x[1][0])), None]).unwrap();
    for k in 1..4 {
        n.wait_for_data(&mut no_poll).unwrap();
        n.submit(RunArgs::default(), &mut no_poll).unwrap();
        let mut got = 0;
        n.collect(&mut no_poll, &mut |p| {
            got = first(p);
            Ok(())
        })
        .unwrap();
        assert_eq!(got, 10 * k);
    }
    assert_eq!(n.wait_for_data(&mut no_poll).unwrap_err().to_string(), "actor source: no more");
}

/// Fault: a receiver that never takes its item. The report names the tasks that wait, and for what.
#[test]
fn a_held_credit_is_named() {
    let p = plan(&[1, 1], &[("a", 1, &[], &[(0, 1)]), ("b", 2, &[(0, 1)], &[(1, 1)]), ("receiver", 0, &[(1, 1)], &[])]);
    let n = start(&p, vec![body(|_| Ok(1)), body(|x| Ok(x[0][0])), None]).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    // b has made its one piece, and a the next one: both stand still, once the messages on their way have arrived.
    let waits = [
        "b (after 1 steps) waits for receiver to give \"r1\" back",
        "a (after 2 steps) waits for b to give \"r0\" back",
    ];
    while !waits.iter().all(|w| n.report().contains(w)) {
        assert!(std::time::Instant::now() < deadline, "{}", n.report());
        std::thread::yield_now();
    }
}
