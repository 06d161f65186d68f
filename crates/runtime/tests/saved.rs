//! Programs in files: the same program again, from many threads, its inputs and results by name; and every fault of a file
//! is reported, with the place, before anything runs.

use oneflow_base::{Dims, contiguous_strides};
use oneflow_core::Storage;
use oneflow_runtime::{
    Buffer, DType, Device, ErrorKind, Home, Input, Instr, Meta, Operand, Output, Plan, PlanArg, Pool, Port, Ref,
    Register, Session, Step, Task, Tensor, Variable, Work, numbers, tensor,
};
use std::path::PathBuf;

const ROWS: i64 = 4;
const WIDTH: i64 = 3;

/// `row = table[index]`, the table a variable.
fn lookup() -> Session {
    oneflow_runtime::register();
    let operand = |buffer: u32, dtype, sizes: &[i64]| Operand {
        buffer,
        offset: 0,
        dtype,
        sizes: Dims::from_slice(sizes),
        strides: contiguous_strides(sizes),
    };
    let buffer = |bytes: i64, home| Buffer { device: Device::CPU, bytes: bytes as u64, home };
    let meta = |dtype, sizes: &[i64]| Meta::contiguous(dtype, Device::CPU, sizes);
    let step = Step {
        op: "embedding".into(),
        args: vec![PlanArg::Int(-1), PlanArg::Bool(false), PlanArg::Bool(false), PlanArg::Int(0), PlanArg::Int(-1)],
        ins: vec![Some(Ref::In(0)), Some(Ref::In(1))],
        outs: vec![Ref::Out(0)],
    };
    let instr = Instr {
        steps: vec![step],
        ins: vec![operand(0, DType::F32, &[ROWS, WIDTH]), operand(1, DType::I64, &[1])],
        outs: vec![operand(2, DType::F32, &[1, WIDTH])],
        origin: "rows of the table".into(),
    };
    let port = |register| vec![Port { register, pieces: 1 }];
    let register = |name: &str| Register { name: name.into(), device: Device::CPU, bytes: 0, slots: 1 };
    let task =
        |name: &str, stream, work, consumes, produces| Task { name: name.into(), stream, work, consumes, produces };
    let plan = Plan {
        name: "lookup".into(),
        buffers: vec![
            buffer(ROWS * WIDTH * 4, Home::Variable(0)),
            buffer(8, Home::Input(0)),
            buffer(WIDTH * 4, Home::Output(0)),
        ],
        inputs: vec![Input { buffer: 1, meta: meta(DType::I64, &[1]) }],
        variables: vec![Variable { name: "table".into(), buffer: 0, meta: meta(DType::F32, &[ROWS, WIDTH]) }],
        outputs: vec![Output { operand: operand(2, DType::F32, &[1, WIDTH]) }],
        registers: vec![register("run"), register("result")],
        tasks: vec![
            task("caller", 0, Work::HostIn, vec![], port(0)),
            task("compute", 1, Work::Compute(vec![instr]), port(0), port(1)),
            task("receiver", 0, Work::HostOut, port(1), vec![]),
        ],
        input_names: vec!["index".into()],
        ..Plan::default()
    };
    Session::new(plan, vec![table()]).unwrap()
}

fn table() -> Storage {
    let t = tensor(&(0..ROWS * WIDTH).map(|i| i as f32).collect::<Vec<_>>(), &[ROWS, WIDTH]).unwrap();
    t.storage().unwrap().clone()
}

fn index(i: i64) -> Tensor {
    tensor(&[i], &[1]).unwrap()
}

fn row(i: i64) -> Vec<f32> {
    (i * WIDTH..(i + 1) * WIDTH).map(|x| x as f32).collect()
}

/// A directory of this test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("oneflow-saved-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_program_in_a_directory_runs_from_many_threads() {
    let folder = Folder::new("threads");
    lookup().save(&folder.0).unwrap();
    let pool = Pool::load(&folder.0, 3).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for i in (0..ROWS).cycle().take(100) {
                    assert_eq!(numbers::<f32>(&pool.run(&[index(i)]).unwrap()[0]).unwrap(), row(i));
                }
            });
        }
    });
}

#[test]
fn what_goes_from_thread_to_thread() {
    fn may_move<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    may_move::<Session>();
    is_shared::<Pool>();
    is_shared::<Tensor>();
    is_shared::<oneflow_runtime::Error>();
}

#[test]
fn ends_have_names() {
    let mut s = lookup();
    assert_eq!(s.inputs(), [("index".to_owned(), Meta::contiguous(DType::I64, Device::CPU, &[1]))]);
    assert_eq!(s.outputs()[0].0, "output0");
    let results = s.run_by_name(&[("index", index(2))]).unwrap();
    assert_eq!((results[0].0.as_str(), numbers::<f32>(&results[0].1).unwrap()), ("output0", row(2)));
    for wrong in [&[][..], &[("other", index(0))], &[("index", index(0)), ("index", index(1))]] {
        let e = s.run_by_name(wrong).unwrap_err();
        assert!(e.kind() == ErrorKind::Type && e.text().contains("\"index\""), "{e}");
    }
    let names = |n: &[&str]| n.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    assert!(s.name_ends(names(&["a", "b"]), vec![]).is_err());
    s.name_ends(names(&["a"]), names(&["row"])).unwrap();
    let (plan, weights) = s.to_bytes().unwrap();
    let again = Session::from_bytes(&plan, &weights).unwrap();
    assert_eq!((again.inputs()[0].0.as_str(), again.outputs()[0].0.as_str()), ("a", "row"));
}

/// Loads, and runs what can be loaded: nothing but an error may come of it.
fn survive(plan: &[u8], weights: &[u8]) -> Option<String> {
    match Session::from_bytes(plan, weights) {
        Err(e) => Some(e.text().to_owned()),
        Ok(mut s) => {
            let inputs = s.inputs();
            let small = inputs.iter().all(|(_, m)| m.bytes() < 1 << 20);
            let given = inputs.iter().filter(|_| small).map(|(_, m)| Tensor::empty(m.dtype, m.device, &m.sizes));
            let given: Vec<Tensor> = given.map(Result::unwrap).collect();
            given.iter().for_each(|t| {
                // SAFETY: the tensor's own memory.
                unsafe { t.data_ptr().write_bytes(0, t.numel() as usize * t.dtype().size()) }
            });
            let _ = s.run(&given);
            None
        }
    }
}

#[test]
fn files_that_end_too_early_are_errors_with_a_place() {
    let (plan, weights) = lookup().to_bytes().unwrap();
    for n in 0..plan.len() {
        let text = survive(&plan[..n], &weights).unwrap_or_else(|| panic!("{n} bytes of a plan"));
        assert!(n < 12 && text.contains("does not begin") || text.contains("before byte"), "{n}: {text}");
    }
    let text = survive(&plan[..plan.len() - 30], &weights).unwrap();
    assert!(text.starts_with("plan.input_names") || text.starts_with("plan.n_rng"), "{text}");
    for n in 0..weights.len() {
        let text = survive(&plan, &weights[..n]).unwrap_or_else(|| panic!("{n} bytes of weights"));
        assert!(text.contains("weights"), "{text}");
    }
}

#[test]
fn files_with_a_flipped_bit_are_errors_or_programs() {
    let (plan, weights) = lookup().to_bytes().unwrap();
    let header = 8 + u64::from_le_bytes(weights[..8].try_into().unwrap()) as usize;
    let (mut refused, mut n) = (0, 0);
    for (whole, other, end) in [(&plan, &weights, plan.len()), (&weights, &plan, header)] {
        for bit in 0..end * 8 {
            let mut bad = whole.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let pair = if std::ptr::eq(whole, &plan) { (&bad, other) } else { (other, &bad) };
            refused += survive(pair.0, pair.1).is_some() as usize;
            n += 1;
        }
    }
    // What is left are letters of names and of texts, numbers that nothing reads, and other indices inside the table.
    assert!(n > 5000 && refused * 2 > n, "{refused} of {n} were refused");
}

#[test]
fn numbers_that_claim_too_much_are_refused_before_memory_is_asked_for() {
    let (_, weights) = lookup().to_bytes().unwrap();
    let base = lookup().plan().clone();
    type Change = fn(&mut Plan);
    let changes: [(&str, Change); 12] = [
        ("tasks", |p| p.tasks = vec![p.tasks[0].clone(); 5000]),
        ("slots", |p| p.registers[0].slots = u32::MAX),
        ("bytes", |p| p.registers[0].bytes = u64::MAX),
        ("buffer", |p| p.buffers[2].bytes = u64::MAX),
        ("buffer", |p| p.buffers[1].home = Home::Arena { arena: 7, offset: 0 }),
        ("register", |p| p.tasks[1].consumes[0].register = 9),
        ("pieces", |p| p.tasks[1].consumes[0].pieces = 0),
        ("credits", |p| p.tasks[0].consumes = vec![Port { register: 1, pieces: 1 }]),
        ("no op", |p| step(p).op = "none_such".into()),
        ("operand", |p| step(p).ins[0] = Some(Ref::In(9))),
        ("lie outside", |p| p.outputs[0].operand.offset = 1 << 40),
        ("names", |p| p.output_names = vec!["a".into(), "a".into()]),
    ];
    for (says, change) in changes {
        let mut plan = base.clone();
        change(&mut plan);
        let text = survive(&plan.to_bytes(), &weights).unwrap_or_else(|| panic!("{says}"));
        assert!(text.contains(says), "{says}: {text}");
    }
}

fn step(p: &mut Plan) -> &mut Step {
    match &mut p.tasks[1].work {
        Work::Compute(instrs) => &mut instrs[0].steps[0],
        _ => unreachable!("the second task computes"),
    }
}

#[test]
fn weights_that_do_not_fit_are_named() {
    let (plan, weights) = lookup().to_bytes().unwrap();
    let text = |from: &str, to: &str| {
        let header = String::from_utf8(weights[8..].to_vec()).unwrap_or_default();
        let at = weights.windows(from.len()).position(|w| w == from.as_bytes()).unwrap_or_else(|| panic!("{header}"));
        let mut bad = weights.clone();
        bad[at..at + from.len()].copy_from_slice(to.as_bytes());
        survive(&plan, &bad).unwrap()
    };
    assert!(text("\"table\"", "\"tables").contains("weights"));
    for (from, to) in [("\"table\"", "\"other\""), ("F32", "I32"), ("[4,3]", "[3,4]")] {
        assert!(text(from, to).contains("\"table\""), "{from}");
    }
    let folder = Folder::new("missing");
    lookup().save(&folder.0).unwrap();
    std::fs::write(folder.0.join("weights.safetensors"), &weights[..40]).unwrap();
    let e = Session::load(&folder.0).err().unwrap().to_string();
    assert!(e.contains("oneflow-saved-missing") && e.contains("weights"), "{e}");
    std::fs::remove_file(folder.0.join("weights.safetensors")).unwrap();
    let e = Session::load(&folder.0).err().unwrap().to_string();
    assert!(e.contains("weights.safetensors"), "{e}");
    std::fs::write(folder.0.join("plan.bin"), &plan[..40]).unwrap();
    let e = Session::load(&folder.0).err().unwrap().to_string();
    assert!(e.contains("plan.bin: plan.") && e.contains("before byte"), "{e}");
    let mut newer = plan.clone();
    newer[8..12].copy_from_slice(&99u32.to_le_bytes());
    assert!(survive(&newer, &weights).unwrap().contains("version 99"));
}
