//! Random programs: for each, the compiled step returns what eager execution does, its plan passes the checks of plans (no two
//! live buffers on the same bytes, enough credits), and damaged plan files are errors.

mod common;

use common::*;
use oneflow_core::Tensor;
use oneflow_graph::{Config, Effort, Straighten, Tracer, compile};
use oneflow_ops::TensorOps;
use oneflow_runtime::{Plan, Session};
use oneflow_testing::Draw;

const N: i64 = 6;

/// One random program over square matrices: views, writes to views and variables, products, sums, chains, dead ends.
fn program(seed: u64, x: &[Tensor], state: &Tensor) -> Vec<Tensor> {
    let mut d = Draw::seeded(seed);
    let mut have: Vec<Tensor> = x.to_vec();
    let written = x.len() + 1;
    have.push(state.clone());
    for _ in 0..4 + d.below(24) {
        let a = have[d.below(have.len())].clone();
        let b = have[d.below(have.len())].clone();
        let made = match d.below(16) {
            0 => a.add(&b),
            1 => a.mul(&b),
            2 => a.sub(&b.t().unwrap()),
            3 => a.tanh(),
            4 => a.matmul(&b).and_then(|y| y.mul(0.2)),
            5 => a.t().unwrap().matmul(&b).and_then(|y| y.tanh()),
            6 => a.matmul(&b).and_then(|y| y.add(&a)).and_then(|y| y.tanh()),
            7 => a.sum(&[0], true).and_then(|y| y.tanh()).and_then(|y| y.add(&b)),
            8 => a.narrow(0, 1, N - 1).and_then(|y| y.matmul(&b)).and_then(|y| y.tanh()).and_then(|y| {
                let first = b.narrow(0, 0, 1).unwrap();
                oneflow_ops::f::cat([&first, &y], 0)
            }),
            9 => a.softmax(1, None),
            10 => a.exp().and_then(|y| y.add(1.0)).and_then(|y| b.div(&y)),
            11 => a.transpose(0, 1).and_then(|y| y.contiguous()),
            12 => a.relu(),
            13 => a.neg().and_then(|y| y.matmul(&b)).and_then(|y| b.add(&y)).and_then(|y| y.tanh()),
            14 => {
                // A write to part of a value made here, or of the state.
                let to = if d.coin() { have[written - 1].clone() } else { a.mul(1.0).unwrap() };
                to.narrow(d.below(2) as i64, d.below(3) as i64, 2).unwrap().mul_(0.5).unwrap();
                Ok(to)
            }
            _ => {
                let to = have[written - 1].clone();
                to.add_(&a.tanh().unwrap()).unwrap();
                a.add(&to)
            }
        };
        have.push(made.unwrap());
    }
    let n = have.len();
    (0..1 + d.below(3)).map(|_| have[written + d.below(n - written)].clone()).collect()
}

fn config(d: &mut Draw, fuse: bool) -> Config {
    let modes = [Straighten::Disable, Straighten::MemoryFirst, Straighten::SpeedFirst, Straighten::DelayShortGpu];
    Config {
        fuse,
        fuse_add: d.coin(),
        straighten: modes[d.below(4)],
        memory: Effort { orders: d.coin(), compress: d.coin() },
        outputs: 1 + d.below(3) as u32,
        ..Config::default()
    }
}

/// Values and final state of an eager and a compiled run.
fn both(seed: u64, fuse: bool) -> (Vec<Vec<f32>>, Vec<Vec<f32>>, Session) {
    let x: Vec<Tensor> = (0..2).map(|i| tensor(&[N, N], seed ^ (i + 1))).collect();
    let (eager_state, traced_state) = (tensor(&[N, N], seed ^ 9), tensor(&[N, N], seed ^ 9));
    let mut d = Draw(seed | 1);
    let tracer = Tracer::begin("random", None).unwrap();
    let inputs: Vec<Tensor> = x.iter().map(|t| tracer.input(t).unwrap()).collect();
    let outputs = program(seed, &inputs, &traced_state);
    let traced = tracer.finish(&outputs).unwrap();
    let mut c = compile(traced, &config(&mut d, fuse)).unwrap_or_else(|e| panic!("program {seed}: {e}"));
    let (mut want, mut have) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        want.extend(program(seed, &x, &eager_state).iter().map(floats));
        have.extend(c.run(&x, &mut || Ok(())).unwrap_or_else(|e| panic!("program {seed}: {e}")).iter().map(floats));
        want.push(floats(&eager_state));
        have.push(floats(&traced_state));
    }
    (want, have, c.session)
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.iter()
        .zip(b)
        .all(|(x, y)| (x - y).abs() <= 1e-3 * (1.0 + x.abs()) || x.to_bits() == y.to_bits() || !x.is_finite())
}

#[test]
fn random_programs_give_what_eager_gives() {
    setup();
    for seed in 0..1500 {
        let (want, have, _) = both(seed, false);
        let same = want.iter().zip(&have).all(|(a, b)| a.iter().zip(b).all(|(x, y)| x.to_bits() == y.to_bits()));
        assert!(same, "program {seed} without fusion: {want:?} {have:?}");
    }
    for seed in 1500..3000 {
        let (want, have, _) = both(seed, true);
        assert!(want.iter().zip(&have).all(|(a, b)| close(a, b)), "program {seed} with fusion: {want:?} {have:?}");
    }
}

#[test]
fn damaged_files_of_random_plans_are_errors_or_plans() {
    setup();
    let mut d = Draw(77);
    let (mut refused, mut n) = (0, 0);
    for seed in 0..20 {
        let (_, _, session) = both(seed, true);
        let bytes = session.plan().to_bytes();
        for _ in 0..100 {
            let mut bad = bytes.clone();
            match d.below(4) {
                0 => bad.truncate(d.below(bytes.len())),
                1 => {
                    let at = d.below(bad.len());
                    bad[at] ^= 1 << d.below(8);
                }
                2 => {
                    let (at, word) = (d.below(bad.len().saturating_sub(8)), [0xffu8, 0x7f, 0x80, 0][d.below(4)]);
                    bad[at..at + 8].fill(word);
                }
                _ => {
                    let (a, b) = (d.below(bad.len()), d.below(bad.len()));
                    bad.swap(a, b);
                }
            }
            n += 1;
            match Plan::from_bytes(&bad).and_then(|p| p.check().map(|()| p)) {
                Err(_) => refused += 1,
                // What passes the checks may be asked to run: its variables are given anew.
                Ok(p) if p.variables.len() == session.plan().variables.len() => {
                    let _ = session.sharing(p);
                }
                Ok(_) => {}
            }
        }
    }
    assert!(refused * 2 > n, "{refused} of {n} damaged files were refused");
}
