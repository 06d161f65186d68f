//! Programs of several ranks whose collectives run beside the compute stream: the bits of the same program in line, no
//! deadlock, whatever collectives stand where; and an error of one rank ends the collectives that it has under way.

mod common;

use common::*;
use oneflow_base::{DeviceType, Error, Placement, Result, Sbp};
use oneflow_core::Tensor;
use oneflow_global::{Spread, spread, to_global, to_local};
use oneflow_graph::{Compiled, Config, Straighten, Tracer, compile};
use oneflow_ops::TensorOps;
use oneflow_runtime::Work;
use oneflow_testing::Draw;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn ranks<R: Send>(n: usize, f: impl Fn(usize) -> Result<R> + Sync) -> Vec<Result<R>> {
    setup();
    oneflow_global::register();
    oneflow_comm::fake::run_ranks(n, Duration::from_secs(60), |group| {
        oneflow_core::set_thread_generator(Some(oneflow_core::Generator::new()));
        f(group.rank())
    })
}

const N: i64 = 6;

/// One of the layouts of a matrix that do not need it to be a sum; with `sums`, one of all.
fn layout(d: &mut Draw, axes: usize, sums: bool) -> Vec<Sbp> {
    let all = [Sbp::B, Sbp::S(0), Sbp::S(1), Sbp::P_SUM];
    (0..axes).map(|_| all[d.below(if sums { 4 } else { 3 })]).collect()
}

struct Job {
    hierarchy: Vec<i64>,
    /// Parameters in their layouts, which a program reads and some of which it updates.
    state: Vec<Tensor>,
}

impl Job {
    fn new(seed: u64, n: usize) -> Result<Job> {
        let mut d = Draw::seeded(seed ^ 5);
        let hierarchy = if n == 4 && d.below(2) == 0 { vec![2, 2] } else { vec![n as i64] };
        let mut job = Job { hierarchy, state: Vec::new() };
        for k in 0..3 + d.below(4) as u64 {
            let to = job.spread(&layout(&mut d, job.hierarchy.len(), false))?;
            let whole = to_global(&tensor(&[N, N], seed ^ (k + 1)), Spread::broadcast(to.placement_id)?)?;
            job.state.push(to_global(&whole, to)?.clone_contiguous()?);
        }
        Ok(job)
    }

    fn spread(&self, sbp: &[Sbp]) -> Result<Spread> {
        let n: i64 = self.hierarchy.iter().product();
        spread(Placement::new(DeviceType::CPU, (0..n as u32).collect(), &self.hierarchy)?.id(), sbp)
    }

    /// Products and sums of global tensors, changes of layout anywhere, updates of parameters, results on every rank.
    fn program(&self, seed: u64) -> Result<Vec<Tensor>> {
        let mut d = Draw::seeded(seed);
        let mut have = self.state.clone();
        for _ in 0..6 + d.below(24) {
            let (a, b) = (have[d.below(have.len())].clone(), have[d.below(have.len())].clone());
            let made = match d.below(10) {
                0 => a.add(&b)?,
                1 => a.mul(&b)?,
                2 => a.tanh()?,
                3 | 4 => a.matmul(&b)?.mul(0.2)?,
                5..=7 => to_global(&a, self.spread(&layout(&mut d, self.hierarchy.len(), true))?)?,
                8 => {
                    // A gradient, as it is reduced and applied.
                    let at = d.below(self.state.len());
                    let to = oneflow_global::global_of(&self.state[at]).map(|g| g.spread);
                    let grad = to_global(&a.matmul(&b)?, to.ok_or_else(|| Error::runtime("not global"))?)?;
                    self.state[at].add_(&grad.mul(0.1)?)?;
                    grad
                }
                _ => a.sub(&b)?.relu()?,
            };
            have.push(made);
        }
        let whole = self.spread(&vec![Sbp::B; self.hierarchy.len()])?;
        let n = have.len();
        let result = |d: &mut Draw| to_local(&to_global(&have[d.below(n)], whole)?);
        (0..1 + d.below(3)).map(|_| result(&mut d)).collect()
    }

    fn compile(&self, seed: u64, config: &Config) -> Result<Compiled> {
        let tracer = Tracer::begin("random", None)?;
        let outputs = self.program(seed)?;
        compile(tracer.finish(&outputs)?, config)
    }

    fn shards(&self) -> Result<Vec<Vec<u8>>> {
        self.state.iter().map(|t| Ok(bytes(&to_local(t)?))).collect()
    }
}

fn inline(seed: u64) -> Config {
    let mut d = Draw::seeded(seed ^ 77);
    let modes = [Straighten::Disable, Straighten::MemoryFirst, Straighten::SpeedFirst];
    Config { straighten: modes[d.below(3)], streams: 0, ..Config::default() }
}

fn beside(seed: u64) -> Config {
    let mut d = Draw::seeded(seed ^ 99);
    let streams = 1 + d.below(3) as u32;
    Config { streams, least_hidden: 0.0, bucket_bytes: [0, 300, 1 << 20][d.below(3)], ..inline(seed) }
}

/// What three steps give and leave behind, and how many collectives run beside the compute stream.
fn play(seed: u64, n: usize, config: &Config) -> Result<(Vec<Vec<u8>>, usize, usize)> {
    let job = Job::new(seed, n)?;
    let mut c = job.compile(seed, config)?;
    let mut found = Vec::new();
    for _ in 0..3 {
        found.extend(c.run(&[], &mut || Ok(()))?.iter().map(bytes));
        found.extend(job.shards()?);
    }
    let plan = c.session.plan();
    let streams: BTreeSet<u32> = plan.tasks.iter().map(|t| t.stream).collect();
    let beside = plan.tasks.iter().filter(|t| t.stream > 1 && matches!(t.work, Work::Compute(_))).count();
    Ok((found, beside, streams.len()))
}

#[test]
fn random_programs_give_the_same_bits_beside_and_in_line() {
    let count: u64 = std::env::var("ONEFLOW_STREAM_PROGRAMS").ok().and_then(|s| s.parse().ok()).unwrap_or(120);
    for n in [2, 3, 4] {
        let played = ranks(n, |rank| {
            let (mut beside_count, mut most) = (0, 0);
            for seed in 0..count {
                let seed = seed * 7 + n as u64;
                let said = |e: Error| e.context(format_args!("program {seed} of {n} ranks: "));
                let (want, none, _) = play(seed, n, &inline(seed)).map_err(said)?;
                let (have, some, streams) = play(seed, n, &beside(seed)).map_err(said)?;
                if want != have || none != 0 {
                    return Err(Error::runtime(format!("program {seed} of {n} ranks differs on rank {rank}")));
                }
                beside_count += some;
                most = most.max(streams);
            }
            Ok((beside_count, most))
        });
        let played: Vec<_> = played.into_iter().map(|r| r.unwrap_or_else(|e| panic!("{e}"))).collect();
        assert!(
            played.iter().all(|p| p.0 as u64 > 2 * count && p.1 > 2),
            "few collectives left the stream: {played:?}"
        );
    }
}

/// Layers in data parallel.
struct Layers {
    replicated: Spread,
    weights: Vec<Tensor>,
    rows: Tensor,
}

impl Layers {
    fn new(n: usize, layers: usize) -> Result<Layers> {
        let p = Placement::new(DeviceType::CPU, (0..n as u32).collect(), &[n as i64])?.id();
        let (replicated, s0) = (spread(p, &[Sbp::B])?, spread(p, &[Sbp::S(0)])?);
        let weights = (0..layers).map(|k| to_global(&tensor(&[N, N], k as u64 + 1), replicated));
        let rows = to_global(&to_global(&tensor(&[2 * N, N], 99), replicated)?, s0)?;
        Ok(Layers { replicated, weights: weights.collect::<Result<_>>()?, rows })
    }

    /// Gradients, then updates, from the last layer to the first.
    fn backward(&self) -> Result<Vec<Tensor>> {
        let mut g = self.rows.clone();
        for w in self.weights.iter().rev() {
            // A sum over the batch is partial; it is reduced as it is accumulated.
            let grad = to_global(&g.t()?.matmul(&g)?, self.replicated)?;
            g = g.matmul(w)?;
            w.sub_(&grad.mul(0.1)?)?;
        }
        Ok(vec![to_local(&g)?])
    }
}

#[test]
fn gradients_are_reduced_in_buckets_while_earlier_layers_compute() {
    let n_layers = 6;
    let shape = |layers: &Layers, config: Config| -> Result<Vec<(String, usize)>> {
        let tracer = Tracer::begin("backward", None)?;
        let outputs = layers.backward()?;
        let c = compile(tracer.finish(&outputs)?, &config)?;
        let collective = |t: &&oneflow_runtime::Task| t.stream > 1;
        let name = |t: &oneflow_runtime::Task| match &t.work {
            Work::Compute(p) => (p[0].steps[0].op.clone(), p[0].ins.len()),
            _ => (String::new(), 0),
        };
        Ok(c.session.plan().tasks.iter().filter(collective).map(name).collect())
    };
    let found = ranks(2, |_| {
        let layers = Layers::new(2, n_layers)?;
        let two = Config { least_hidden: 0.0, bucket_ops: 2, ..Config::default() };
        let alone = Config { least_hidden: 0.0, bucket_bytes: 0, ..Config::default() };
        Ok((shape(&layers, two)?, shape(&layers, alone)?))
    });
    for found in found {
        let (two, alone) = found.unwrap();
        // The gradient of the first layer comes last: there is nothing left to hide its bucket behind but the last product.
        assert!(two.iter().all(|c| *c == ("_box_axes".to_owned(), 2)) && two.len() + 1 >= n_layers / 2, "{two:?}");
        assert!(alone.iter().all(|c| *c == ("_box_axis".to_owned(), 1)) && alone.len() + 1 >= n_layers, "{alone:?}");
    }
}

#[test]
fn an_error_of_one_rank_ends_the_collective_that_it_has_under_way() {
    let began = Instant::now();
    let found = ranks(2, |rank| {
        let p = Placement::new(DeviceType::CPU, vec![0, 1], &[2])?.id();
        let (b, partial) = (spread(p, &[Sbp::B])?, spread(p, &[Sbp::P_SUM])?);
        let x = to_global(&to_global(&tensor(&[N, N], 1), b)?, partial)?;
        let rows = tensor(&[N, N], 2);
        // The indices are out of range on rank 0 alone: it fails before it reaches the second collective.
        let index = scalar(if rank == 0 { 100.0 } else { 1.0 }).to_copy_with(Some(oneflow_base::DType::I64), None)?;
        let index = index.reshape(&[1])?.clone_contiguous()?;
        let whole_rows = to_global(&rows, b)?;
        let tracer = Tracer::begin("fails", None)?;
        let sum = to_global(&x.matmul(&whole_rows)?, b)?;
        let mut taken = rows.index_select(0, &index)?;
        for _ in 0..4 {
            taken = taken.matmul(&rows)?.tanh()?;
        }
        let again = to_global(&to_global(&sum.tanh()?, partial)?, b)?;
        let outputs = [to_local(&again)?, taken];
        let config = Config { least_hidden: 0.0, straighten: Straighten::Disable, ..Config::default() };
        let mut c = compile(tracer.finish(&outputs)?, &config)?;
        c.run(&[], &mut || Ok(())).map(drop)
    });
    let said: Vec<String> = found.into_iter().map(|r| r.unwrap_err().to_string()).collect();
    assert!(said[0].contains("index"), "{said:?}");
    assert!(began.elapsed() < Duration::from_secs(40), "the others waited for the deadline of the group: {said:?}");
}
