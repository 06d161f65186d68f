//! The cost of an actor: one message between actors of one thread, to a thread that spins, to a thread that sleeps; and one op
//! of a straight line beyond its kernel. A sleeping thread is woken by the operating system, as a bare pair of threads shows.
//!
//! `cargo bench -p oneflow-runtime --bench actors`
#![allow(clippy::print_stdout)]

use oneflow_base::{DType, Device, Dims, Result};
use oneflow_core::Tensor;
use oneflow_ep::provider;
use oneflow_kernels::prim::{Launch, MATMUL, Params, REDUCE, View, Word};
use oneflow_runtime::{
    Act, Body, Buffer, Home, Input, Instr, Network, Operand, Output, Plan, PlanArg, Port, Ref, Register, RunArgs,
    Session, Step, Task, Work,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Does nothing but note when, in nanoseconds after a start.
struct Note(Instant, Arc<AtomicU64>);

impl Body for Note {
    fn act(&mut self, _: &mut Act<'_>) -> Result<()> {
        self.1.store(self.0.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v[v.len() / 2]
}

/// `n` actors in a row after the caller's own, on these streams (1 is the caller's), and when the last one acted.
fn row(streams: &[u32]) -> (Network, Instant, Arc<AtomicU64>) {
    let (start, acted) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let register = |i: usize| Register { name: format!("r{i}"), device: Device::CPU, bytes: 0, slots: 2 };
    let port = |register: usize| vec![Port { register: register as u32, pieces: 1 }];
    let task =
        |name: &str, stream, work, consumes, produces| Task { name: name.into(), stream, work, consumes, produces };
    let mut p = Plan { registers: (0..=streams.len()).map(register).collect(), ..Plan::default() };
    p.tasks.push(task("caller", 0, Work::HostIn, vec![], port(0)));
    for (i, s) in streams.iter().enumerate() {
        p.tasks.push(task("actor", *s, Work::Compute(vec![]), port(i), port(i + 1)));
    }
    p.tasks.push(task("receiver", 0, Work::HostOut, port(streams.len()), vec![]));
    let body =
        |t: &Task| matches!(t.work, Work::Compute(_)).then(|| Box::new(Note(start, acted.clone())) as Box<dyn Body>);
    let bodies = p.tasks.iter().map(body).collect();
    (Network::start(&p, bodies, Arc::new(AtomicBool::new(false))).unwrap(), start, acted)
}

/// Nanoseconds of one run after a rest of the caller, and until its last actor acted.
fn run((n, start, acted): &mut (Network, Instant, Arc<AtomicU64>), rest: Duration) -> (f64, f64) {
    let mut no = || Ok(());
    std::thread::sleep(rest);
    let from = start.elapsed().as_nanos() as f64;
    n.submit(RunArgs::default(), &mut no).unwrap();
    n.collect(&mut no, &mut |_| Ok(())).unwrap();
    (start.elapsed().as_nanos() as f64 - from, acted.load(Ordering::Relaxed) as f64 - from)
}

/// Two bare threads: one parks, and wakes the thread that woke it.
struct Pair {
    start: Instant,
    state: Arc<(AtomicU64, AtomicBool)>,
    sleeper: JoinHandle<()>,
}

impl Pair {
    fn new() -> Pair {
        let (start, caller) = (Instant::now(), std::thread::current());
        let state = Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
        let inner = state.clone();
        let sleeper = std::thread::spawn(move || {
            while !inner.1.load(Ordering::Acquire) {
                std::thread::park();
                inner.0.store(start.elapsed().as_nanos() as u64, Ordering::Release);
                caller.unpark();
            }
        });
        Pair { start, state, sleeper }
    }

    /// Nanoseconds from `unpark` after a rest until the caller was woken in return, and until the sleeper ran.
    fn run(&self, rest: Duration) -> (f64, f64) {
        std::thread::sleep(rest);
        let before = self.state.0.load(Ordering::Acquire);
        let from = self.start.elapsed().as_nanos() as f64;
        self.sleeper.thread().unpark();
        while self.state.0.load(Ordering::Acquire) == before {
            std::thread::park();
        }
        (self.start.elapsed().as_nanos() as f64 - from, self.state.0.load(Ordering::Acquire) as f64 - from)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.state.1.store(true, Ordering::Release);
        self.sleeper.thread().unpark();
    }
}

/// Medians of many.
fn medians(times: usize, one: impl FnMut(usize) -> (f64, f64)) -> (f64, f64) {
    let (whole, there) = (0..times).map(one).unzip();
    (median(whole), median(there))
}

const SIZE: i64 = 4;

/// A plan of `n` ops that cannot fuse: a product, a sum over rows, and so on.
fn straight_line(n: usize) -> Plan {
    let matrix = SIZE * SIZE;
    let operand = |buffer: u32, sizes: &[i64]| Operand {
        buffer,
        offset: 0,
        dtype: DType::F32,
        sizes: Dims::from_slice(sizes),
        strides: oneflow_base::contiguous_strides(sizes),
    };
    let buffer = |bytes: i64, home| Buffer { device: Device::CPU, bytes: bytes as u64, home };
    let mut p = Plan { name: "line".into(), ..Plan::default() };
    p.buffers = vec![
        buffer(matrix * 4, Home::Input(0)),
        buffer(matrix * 4, Home::Arena { arena: 0, offset: 0 }),
        buffer(SIZE * 4, Home::Output(0)),
    ];
    p.arenas = vec![oneflow_runtime::Arena { device: Device::CPU, bytes: 64 }];
    let square = [SIZE, SIZE];
    let meta = oneflow_base::Meta::contiguous(DType::F32, Device::CPU, &square);
    p.inputs = vec![Input { buffer: 0, meta }];
    p.outputs = vec![Output { operand: operand(2, &[SIZE]) }];
    let step = |op: &str, args: Vec<PlanArg>, ins: u16| Step {
        op: op.into(),
        args,
        ins: (0..ins).map(|i| Some(Ref::In(i))).collect(),
        outs: vec![Ref::Out(0)],
    };
    let product = Instr {
        steps: vec![step(oneflow_ops::matmul::matmul::OP.name(), vec![], 2)],
        ins: vec![operand(0, &square), operand(0, &square)],
        outs: vec![operand(1, &square)],
        origin: "product".into(),
    };
    let sum = Instr {
        steps: vec![step(
            oneflow_ops::reduce::sum::OP.name(),
            vec![PlanArg::Ints(vec![0]), PlanArg::Bool(false), PlanArg::None],
            1,
        )],
        ins: vec![operand(1, &square)],
        outs: vec![operand(2, &[SIZE])],
        origin: "rows".into(),
    };
    let program = (0..n).map(|i| if i % 2 == 0 { product.clone() } else { sum.clone() }).collect();
    let port = |register| vec![Port { register, pieces: 1 }];
    let register = |name: &str| Register { name: name.into(), device: Device::CPU, bytes: 0, slots: 1 };
    p.registers = vec![register("run"), register("result")];
    let task =
        |name: &str, stream, work, consumes, produces| Task { name: name.into(), stream, work, consumes, produces };
    p.tasks = vec![
        task("caller", 0, Work::HostIn, vec![], port(0)),
        task("compute", 1, Work::Compute(program), port(0), port(1)),
        task("receiver", 0, Work::HostOut, port(1), vec![]),
    ];
    p
}

/// Median nanoseconds of one kernel of the straight line, called without a plan.
fn kernels_alone(n: usize) -> f64 {
    let (mut x, mut y, mut z) = ([0.5f32; 16], [0f32; 16], [0f32; 4]);
    let square = [SIZE, SIZE];
    let strides = [SIZE, 1];
    let view = |p: &mut [f32], sizes: &'static [i64], strides: &'static [i64]| {
        Some(View { ptr: p.as_mut_ptr().cast(), dtype: DType::F32, sizes, strides })
    };
    let (square, strides): (&'static [i64], &'static [i64]) = (Vec::from(square).leak(), Vec::from(strides).leak());
    let row: &'static [i64] = vec![1, SIZE].leak();
    let queue = provider(oneflow_base::DeviceType::CPU).unwrap().queue(0);
    let product_in = [view(&mut x, square, strides), view(&mut x, square, strides), None, None];
    let (product_out, sum_in) = ([view(&mut y, square, strides)], [view(&mut y, square, strides)]);
    let sum_out = [view(&mut z, row, strides)];
    let (product_params, sum_params) = (
        Params::from_iter([Word::from(0u64), Word::from(1.0f64)]),
        Params::from_iter([Word::from(oneflow_kernels::prim::ReduceKind::Sum as u64)]),
    );
    let product = Launch { outs: &product_out, ins: &product_in, params: &product_params, expr: None, queue };
    let sum = Launch { outs: &sum_out, ins: &sum_in, params: &sum_params, expr: None, queue };
    let (f, g) = (MATMUL.on(Device::CPU.kind).unwrap(), REDUCE.on(Device::CPU.kind).unwrap());
    let measure = |_| {
        let start = Instant::now();
        for i in 0..n {
            // SAFETY: the views lie in the arrays above, as the primitives' contracts say.
            unsafe { if i % 2 == 0 { f(&product).unwrap() } else { g(&sum).unwrap() } };
        }
        start.elapsed().as_nanos() as f64 / n as f64
    };
    median((0..301).map(measure).collect())
}

fn main() {
    oneflow_kernels::register_all();
    oneflow_ops::register();
    let whole = |streams: &[u32]| {
        let mut row = row(streams);
        medians(20_001, |_| run(&mut row, Duration::ZERO)).0
    };
    println!("one actor and its message, same thread: {:.0} ns", (whole(&[1; 36]) - whole(&[1; 4])) / 32.0);
    println!("one message to a thread that spins: {:.0} ns", (whole(&[1, 2]) - whole(&[1])) / 2.0);
    let (mut row, pair, rest) = (row(&[1, 2]), Pair::new(), Duration::from_millis(2));
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..401 {
        ours.push(run(&mut row, rest));
        bare.push(pair.run(rest));
    }
    for (what, times) in [("one message to a thread that sleeps", ours), ("the same with bare threads that park", bare)]
    {
        let (whole, there) = medians(times.len(), |i| times[i]);
        println!("{what}: {:.1} us, with the answer {:.1} us", there / 1000.0, whole / 1000.0);
    }
    let n = 1000;
    let mut s = Session::new(straight_line(n), Vec::new()).unwrap();
    // SAFETY: f32 is the Rust type of F32.
    let x = unsafe { Tensor::from_host(&[0.5f32; 16], DType::F32, &[SIZE, SIZE]) }.unwrap();
    let one = |s: &mut Session| {
        let start = Instant::now();
        s.run(std::slice::from_ref(&x)).unwrap();
        start.elapsed().as_nanos() as f64 / n as f64
    };
    let whole = median((0..301).map(|_| one(&mut s)).collect());
    let own = kernels_alone(n);
    println!("one op of a line of {n}: {whole:.0} ns, of which its kernel {own:.0} ns");
}
