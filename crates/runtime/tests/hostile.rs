//! Plans that no compiler produced: whatever an instruction states about its op's operands and arguments, it is refused
//! when the plan is loaded, or it stays inside its buffers when it runs.
//!
//! Samples of every op are distorted: sizes, strides, dtypes, arguments, values, operands on the same memory. Each buffer ends,
//! or begins, at a page that nobody may touch, so a kernel that reads one element too far ends its process: a child, which says
//! in a file where it is. `ONEFLOW_HOSTILE_CASES` is the number of distortions a sample (tests: few; by hand: thousands).

mod guarded;

use guarded::Guarded;
use oneflow_base::{DType, Device, Meta, contiguous_strides};
use oneflow_core::{BoundSample, Call, Kernel, OpDef, Outs, Storage, Tensor, Traits};
use oneflow_runtime::{
    Buffer, Home, Instr, Operand, Plan, PlanArg, Port, Ref, Register, Session, Step, Task, Variable, Work, shell,
};
use oneflow_testing::Draw;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

/// Bytes of one buffer, at most.
const MOST: u64 = 1 << 20;
/// A child that has been at one case for longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);

const DTYPES: [DType; 12] = [
    DType::F32,
    DType::F64,
    DType::I64,
    DType::I32,
    DType::U8,
    DType::Bool,
    DType::BF16,
    DType::F16,
    DType::C64,
    DType::I8,
    DType::I16,
    DType::C128,
];
const INTS: [i64; 14] = [-1, 0, 1, 2, 3, 4, 7, 8, 64, -2, -7, 1000, i64::MAX, i64::MIN];
const FLOATS: [f64; 8] = [0.0, 1.0, -1.0, 0.5, f64::NAN, f64::INFINITY, 1e-30, 1e30];
const WORDS: [&str; 9] = ["none", "mean", "sum", "reflect", "zeros", "replicate", "circular", "tanh", ""];

fn distort_meta(d: &mut Draw, m: &mut Meta, n_dims: usize) {
    match d.below(8) {
        0 | 1 if !m.sizes.is_empty() => {
            let (i, n) = (d.below(m.sizes.len()), m.sizes.clone());
            m.sizes[i] = d.of(&[0, 1, 2, 3, 5, 17, n[i] + 1, n[i] - 1, n[i] * 2, 130]).max(0);
        }
        2 if !m.sizes.is_empty() => {
            m.sizes.remove(d.below(m.sizes.len()));
        }
        3 if m.sizes.len() <= n_dims + 1 => m.sizes.insert(d.below(m.sizes.len() + 1), d.of(&[0, 1, 2, 3])),
        4 => m.dtype = d.of(&DTYPES),
        5 if m.sizes.len() > 1 => {
            let (i, j) = (d.below(m.sizes.len()), d.below(m.sizes.len()));
            m.sizes.swap(i, j);
        }
        _ => {}
    }
    m.strides = contiguous_strides(&m.sizes);
    match d.below(6) {
        0 if !m.strides.is_empty() => m.strides[d.below(m.sizes.len())] = 0,
        1 if m.sizes.len() > 1 => {
            let (i, j) = (d.below(m.sizes.len()), d.below(m.sizes.len()));
            let mut order: Vec<i64> = m.sizes.to_vec();
            order.swap(i, j);
            m.strides = contiguous_strides(&order);
            m.strides.swap(i, j);
        }
        2 => m.strides.iter_mut().for_each(|s| *s *= 2),
        _ => {}
    }
}

fn distort_arg(d: &mut Draw, a: &mut PlanArg) {
    match a {
        PlanArg::Bool(b) => *b = !*b,
        PlanArg::Int(i) => {
            let other = d.of(&INTS);
            *i = d.of(&[other, i.wrapping_add(1), i.wrapping_sub(1)]);
        }
        PlanArg::Float(f) => *f = d.of(&FLOATS),
        PlanArg::DType(t) => *t = d.of(&DTYPES),
        PlanArg::Ints(v) => match d.below(3) {
            0 if !v.is_empty() => {
                let i = d.below(v.len());
                v[i] = d.of(&INTS);
            }
            1 if !v.is_empty() => drop(v.pop()),
            _ => v.push(d.of(&INTS)),
        },
        PlanArg::Floats(v) if !d.one_in(3) => v.push(d.of(&FLOATS)),
        PlanArg::Floats(v) => drop(v.pop()),
        PlanArg::Len(n) => *n = d.of(&[0, 1, 2, n.wrapping_sub(1), n.wrapping_add(1), u32::MAX]),
        PlanArg::Str(s) => *s = d.of(&WORDS).into(),
        PlanArg::None => {
            let int = PlanArg::Int(d.of(&INTS));
            *a = d.of(&[int, PlanArg::Bool(true), PlanArg::Float(0.5)]);
        }
        _ => {}
    }
    if d.one_in(12) {
        let other =
            [PlanArg::None, PlanArg::Int(1), PlanArg::Bool(true), PlanArg::Ints(vec![1, 2]), PlanArg::Float(1.0)];
        *a = d.of(&other);
    }
}

/// Numbers of all kinds: small ones of the dtype, bytes at random, all bits.
fn fill(d: &mut Draw, s: &Storage, dtype: DType, original: Option<&[u8]>) {
    // SAFETY: the storage's own bytes, which no one else has yet.
    let bytes = unsafe { std::slice::from_raw_parts_mut(s.ptr(), s.bytes()) };
    let kind = d.below(8);
    match original {
        Some(o) if kind < 4 && !o.is_empty() => bytes.iter_mut().zip(o.iter().cycle()).for_each(|(b, o)| *b = *o),
        _ => {
            for item in bytes.chunks_mut(dtype.size()) {
                let n = d.below(16) as i64 - 3;
                let word = match (kind, dtype) {
                    (0, _) => [0xff; 16],
                    (1, _) => std::array::from_fn(|_| d.below(256) as u8),
                    (_, DType::F32 | DType::C64) => repeat(&(n as f32 * 0.5).to_le_bytes()),
                    (_, DType::F64 | DType::C128) => repeat(&(n as f64 * 0.5).to_le_bytes()),
                    (_, DType::BF16 | DType::F16) => repeat(&(0x3c00 + n as i16).to_le_bytes()),
                    (2, _) => repeat(&(n << 40).to_le_bytes()),
                    _ => repeat(&n.to_le_bytes()),
                };
                item.copy_from_slice(&word[..item.len()]);
            }
        }
    }
    if dtype == DType::Bool {
        bytes.iter_mut().for_each(|b| *b &= 1);
    }
}

fn repeat(bytes: &[u8]) -> [u8; 16] {
    std::array::from_fn(|i| bytes[i % bytes.len()])
}

/// One instruction on buffers of its own.
fn plan(instr: Instr, bytes: &[u64]) -> Plan {
    let port = |register| vec![Port { register, pieces: 1 }];
    let register = |name: &str| Register { name: name.into(), device: Device::CPU, bytes: 0, slots: 1 };
    let task =
        |name: &str, stream, work, consumes, produces| Task { name: name.into(), stream, work, consumes, produces };
    let buffer =
        |(i, bytes): (usize, &u64)| Buffer { device: Device::CPU, bytes: *bytes, home: Home::Variable(i as u32) };
    let variable = |(i, bytes): (usize, &u64)| Variable {
        name: format!("v{i}"),
        buffer: i as u32,
        meta: Meta::contiguous(DType::U8, Device::CPU, &[*bytes as i64]),
    };
    Plan {
        name: "hostile".into(),
        buffers: bytes.iter().enumerate().map(buffer).collect(),
        variables: bytes.iter().enumerate().map(variable).collect(),
        registers: vec![register("run"), register("result")],
        tasks: vec![
            task("caller", 0, Work::HostIn, vec![], port(0)),
            task("compute", 1, Work::Compute(vec![instr]), port(0), port(1)),
            task("receiver", 0, Work::HostOut, port(1), vec![]),
        ],
        ..Plan::default()
    }
}

/// The outcome of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Skipped,
    Refused,
    Failed,
    Ran,
}

fn case(b: &BoundSample, d: &mut Draw, tell: bool) -> Fate {
    let mut metas: Vec<Option<Meta>> = b.ins.iter().map(|t| t.as_ref().map(Tensor::meta)).collect();
    let n_dims = metas.iter().flatten().map(|m| m.sizes.len()).max().unwrap_or(0);
    let mut args = PlanArg::keep(&b.attrs, 0).unwrap();
    for _ in 0..1 + d.below(3) {
        if !metas.is_empty() && (args.is_empty() || d.one_in(2)) {
            let k = d.below(metas.len());
            match &mut metas[k] {
                Some(m) if !d.one_in(30) => distort_meta(d, m, n_dims),
                m => *m = None,
            }
        } else if !args.is_empty() {
            let k = d.below(args.len());
            distort_arg(d, &mut args[k]);
        }
    }
    let shells = metas.iter().map(|m| m.as_ref().map(|m| shell(m, 0)).transpose()).collect::<Result<Vec<_>, _>>();
    let Ok(shells) = shells else { return Fate::Skipped };
    let refs: Vec<Option<&Tensor>> = shells.iter().map(Option::as_ref).collect();
    let words: Vec<_> = args.iter().map(|a| a.arg((1, 1))).collect();
    let infer = || {
        let mut outs = Outs::new();
        (b.op.infer)(&Call::new(b.op, &refs, &words), &mut outs).map(|()| outs)
    };
    let Ok(Ok(outs)) = catch_unwind(AssertUnwindSafe(infer)) else { return Fate::Refused };
    let mut outs: Vec<Meta> = outs.tensors().iter().map(Tensor::meta).collect();
    if d.one_in(20) && !outs.is_empty() {
        let k = d.below(outs.len());
        distort_meta(d, &mut outs[k], n_dims);
    }
    // Every operand has memory of its own, unless two are put on one.
    let (mut buffers, mut dtypes): (Vec<u64>, Vec<DType>) = (Vec::new(), Vec::new());
    let mut operand = |m: &Meta, d: &mut Draw| {
        let mut o = Operand {
            buffer: buffers.len() as u32,
            offset: if d.one_in(4) { d.below(4) as i64 } else { 0 },
            dtype: m.dtype,
            sizes: m.sizes.clone(),
            strides: m.strides.clone(),
        };
        let end = o.extent().map_or(0, |e| e.1);
        if d.one_in(12) && !buffers.is_empty() {
            o.buffer = d.below(buffers.len()) as u32;
            // Aligned for both.
            let b = &mut buffers[o.buffer as usize];
            *b = end.max(*b).next_multiple_of(16);
        } else {
            buffers.push(end);
            dtypes.push(m.dtype);
        }
        o
    };
    let ins: Vec<Operand> = metas.iter().flatten().map(|m| operand(m, d)).collect();
    let outs: Vec<Operand> = outs.iter().map(|m| operand(m, d)).collect();
    if buffers.iter().any(|n| *n > MOST) {
        return Fate::Skipped;
    }
    let mut next = 0u16;
    let step_ins = metas.iter().map(|m| {
        m.as_ref().map(|_| {
            next += 1;
            Ref::In(next - 1)
        })
    });
    let step = Step {
        op: b.op.name().into(),
        args,
        ins: step_ins.collect(),
        outs: (0..outs.len() as u16).map(Ref::Out).collect(),
    };
    if tell {
        eprintln!("{step:?}\n  ins {ins:?}\n  outs {outs:?}");
    }
    let plan = plan(Instr { steps: vec![step], ins, outs, origin: b.op.name().into() }, &buffers);
    let originals: Vec<&[u8]> = b.ins.iter().flatten().map(bytes_of).collect();
    let at_end = !d.one_in(3);
    let storages: Vec<Storage> = buffers.iter().map(|n| Guarded::storage(*n as usize, at_end)).collect();
    for (i, (s, dtype)) in storages.iter().zip(&dtypes).enumerate() {
        fill(d, s, *dtype, originals.get(i).copied());
    }
    match Session::new(plan, storages) {
        Err(_) => Fate::Refused,
        Ok(mut s) => s.run(&[]).map_or(Fate::Failed, |_| Fate::Ran),
    }
}

fn bytes_of(t: &Tensor) -> &[u8] {
    // SAFETY: a contiguous host tensor, which lives as long as the slice.
    unsafe { std::slice::from_raw_parts(t.data_ptr(), t.numel() as usize * t.dtype().size()) }
}

fn runs(op: &OpDef) -> bool {
    !matches!(op.kernel, Kernel::Layer(_) | Kernel::None) && !op.traits.has(Traits::COLLECTIVE)
}

fn wanted(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|v| v.parse().ok())
}

/// The work of a child: every case from a position on. The file holds the position.
#[test]
#[ignore = "a child of the test below"]
fn child() {
    let (Some(first), Ok(path)) = (wanted("ONEFLOW_HOSTILE_OP"), std::env::var("ONEFLOW_HOSTILE_FILE")) else { return };
    let (from, only) = (wanted("ONEFLOW_HOSTILE_FROM").unwrap_or(0), wanted("ONEFLOW_HOSTILE_ONLY"));
    let cases = wanted("ONEFLOW_HOSTILE_CASES").unwrap_or(8);
    let mut fates = counts(&std::fs::read(&path).unwrap())[2..].to_vec();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let say = |words: &[u64], at| {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        file.write_all_at(&bytes, at).unwrap();
    };
    oneflow_runtime::register();
    if only.is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    for (k, op) in oneflow_core::ops().into_iter().enumerate().skip(first as usize).filter(|(_, o)| runs(o)) {
        for (i, s) in (op.samples)().iter().enumerate() {
            let Ok(b) = BoundSample::new(op, s, &mut BoundSample::fill) else { continue };
            for c in 0..cases {
                let at = (i as u64) << 32 | c;
                if k as u64 == first && at < from || only.is_some_and(|o| o != at) {
                    continue;
                }
                say(&[k as u64, at], 0);
                let mut d = Draw((k as u64) << 48 ^ at.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                fates[case(&b, &mut d, only.is_some()) as usize] += 1;
                say(&fates, 16);
            }
        }
        if only.is_some() {
            break;
        }
    }
}

/// The file: which op, which case, and behind them how often each fate came.
fn counts(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|w| w.iter().rev().fold(0, |n, b| n << 8 | *b as u64)).collect()
}

#[test]
fn no_instruction_leaves_its_buffers() {
    oneflow_runtime::register();
    let path = std::env::temp_dir().join(format!("oneflow-hostile-{}", std::process::id()));
    std::fs::write(&path, [0; 48]).unwrap();
    let ops = oneflow_core::ops();
    let last = wanted("ONEFLOW_HOSTILE_LAST").map_or(ops.len(), |n| n as usize);
    let (mut op, mut from, mut here) = (wanted("ONEFLOW_HOSTILE_FIRST").unwrap_or(0), 0, 0);
    let mut failed = Vec::new();
    let words = || counts(&std::fs::read(&path).unwrap());
    while (op as usize) < last {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--nocapture", "-q"])
            .env("ONEFLOW_HOSTILE_OP", op.to_string())
            .env("ONEFLOW_HOSTILE_FROM", from.to_string())
            .env("ONEFLOW_HOSTILE_FILE", &path)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let (mut seen, mut since) = (words(), Instant::now());
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
            let now = words();
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > PATIENCE {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
        };
        let now = words();
        if status.is_some_and(|s| s.success()) {
            break;
        }
        let how = status.map_or("hangs".to_owned(), |s| s.to_string());
        failed.push(format!("{} (op {}, case {}): {how}", ops[now[0] as usize].name(), now[0], now[1]));
        // The next case; of an op that fails often the rest is left out.
        here = if now[0] == op { here + 1 } else { 1 };
        (op, from) = if here > 3 { (now[0] + 1, 0) } else { (now[0], now[1] + 1) };
    }
    let now = words();
    let _ = std::fs::remove_file(&path);
    let [_, _, skipped, refused, stopped, ran] = now[..] else { unreachable!("six words") };
    eprintln!("{skipped} too large, {refused} refused, {stopped} ended with an error, {ran} ran");
    assert!(failed.is_empty(), "{}:\n{}", failed.len(), failed.join("\n"));
}
