//! Plans for many sizes: one plan runs at sizes that it was not made for, sizes that do not fit are refused by name, memory that
//! overflows is refused, and no formula, whatever it says, leads a kernel out of its buffers.

mod guarded;

use guarded::Guarded;
use oneflow_base::{Dims, contiguous_strides};
use oneflow_runtime::{
    Arena, Asked, Buffer, DType, Device, Dynamic, ErrorKind, Formula, Guard, Home, Input, Instr, Meta, NamedDim,
    Operand, Output, Plan, Polynomial, Pool, Port, Read, Ref, Register, Session, Step, Task, Tensor, Term, Variable,
    Work, numbers, tensor,
};
use oneflow_testing::Draw;
use std::sync::Arc;

const WIDTH: i64 = 4;
/// The rows that the plan itself is for.
const ROWS: i64 = 3;

fn term(factor: i64, dims: &[u8]) -> Term {
    Term { factor, dims: dims.to_vec() }
}

fn rows() -> Formula {
    Formula::Value(Polynomial { terms: vec![term(1, &[0])], denominator: 1 })
}

fn operand(buffer: u32, sizes: &[i64]) -> Operand {
    let strides = contiguous_strides(sizes);
    Operand { buffer, offset: 0, dtype: DType::F32, sizes: Dims::from_slice(sizes), strides }
}

/// `x @ w @ w` for `x` of any number of rows.
fn plan() -> Plan {
    oneflow_runtime::register();
    let (wide, square) = ([ROWS, WIDTH], [WIDTH, WIDTH]);
    let bytes = |sizes: &[i64]| sizes.iter().product::<i64>() as u64 * 4;
    let buffer = |sizes: &[i64], home| Buffer { device: Device::CPU, bytes: bytes(sizes), home };
    let meta = |sizes: &[i64]| Meta::contiguous(DType::F32, Device::CPU, sizes);
    let product = |from: u32, to: u32| Instr {
        steps: vec![Step {
            op: "matmul".into(),
            args: vec![],
            ins: vec![Some(Ref::In(0)), Some(Ref::In(1))],
            outs: vec![Ref::Out(0)],
        }],
        ins: vec![operand(from, &wide), operand(1, &square)],
        outs: vec![operand(to, &wide)],
        origin: format!("product to {to}"),
    };
    let port = |register| vec![Port { register, pieces: 1 }];
    let register = |name: &str| Register { name: name.into(), device: Device::CPU, bytes: 0, slots: 1 };
    let task =
        |name: &str, stream, work, consumes, produces| Task { name: name.into(), stream, work, consumes, produces };
    let read = Some(Read { input: 0, axis: 0, factor: 1, constant: 0 });
    let dim = NamedDim { name: "rows".into(), min: 1, max: i64::MAX, step: 1, start: 1, read };
    // An input has two sizes; an operand two, two strides and an offset. The order is input, result, instructions.
    let numbers = [0, 2, 7, 17, 22, 32].map(|at| (at, rows())).to_vec();
    Plan {
        name: "products".into(),
        arenas: vec![Arena { device: Device::CPU, bytes: 64 }],
        buffers: vec![
            buffer(&wide, Home::Input(0)),
            buffer(&square, Home::Variable(0)),
            buffer(&wide, Home::Arena { arena: 0, offset: 0 }),
            buffer(&wide, Home::Output(0)),
        ],
        inputs: vec![Input { buffer: 0, meta: meta(&wide) }],
        variables: vec![Variable { name: "w".into(), buffer: 1, meta: meta(&square) }],
        outputs: vec![Output { operand: operand(3, &wide) }],
        registers: vec![register("run"), register("result")],
        tasks: vec![
            task("caller", 0, Work::HostIn, vec![], port(0)),
            task("compute", 1, Work::Compute(vec![product(0, 2), product(2, 3)]), port(0), port(1)),
            task("receiver", 0, Work::HostOut, port(1), vec![]),
        ],
        input_names: vec!["x".into()],
        dynamic: Some(Arc::new(Dynamic { dims: vec![dim], numbers, guards: Vec::new() })),
        ..Plan::default()
    }
}

/// Twice the identity.
fn weight() -> Tensor {
    let w: Vec<f32> = (0..WIDTH * WIDTH).map(|i| if i % (WIDTH + 1) == 0 { 2.0 } else { 0.0 }).collect();
    tensor(&w, &[WIDTH, WIDTH]).unwrap()
}

fn session(plan: Plan) -> oneflow_runtime::Result<Session> {
    Session::new(plan, vec![weight().storage().unwrap().clone()])
}

fn input(n: i64) -> Tensor {
    tensor(&(0..n * WIDTH).map(|i| i as f32).collect::<Vec<_>>(), &[n, WIDTH]).unwrap()
}

fn expected(n: i64) -> Vec<f32> {
    (0..n * WIDTH).map(|i| i as f32 * 4.0).collect()
}

fn dims(plan: &mut Plan, change: impl FnOnce(&mut Dynamic)) {
    let mut dynamic = plan.dynamic.as_deref().unwrap().clone();
    change(&mut dynamic);
    plan.dynamic = Some(Arc::new(dynamic));
}

#[test]
fn one_plan_runs_at_any_size() {
    let mut s = session(plan()).unwrap();
    // More sizes than are kept, larger and smaller ones, and each once more.
    for n in (1..40).chain([1000, 2]).chain(1..40) {
        let y = s.run(&[input(n)]).unwrap();
        assert_eq!((y[0].sizes(), numbers::<f32>(&y[0]).unwrap()), ([n, WIDTH].as_slice(), expected(n)), "{n} rows");
    }
    assert_eq!(s.plan().input_shape(0), ["rows", "4"]);
    assert_eq!(s.plan().output_shape(0), ["rows", "4"]);
}

#[test]
fn results_of_one_size_outlive_runs_of_others() {
    let mut s = session(plan()).unwrap();
    let kept: Vec<Tensor> = (1..20).map(|n| s.run(&[input(n)]).unwrap().remove(0)).collect();
    for (n, y) in (1..20).zip(&kept) {
        assert_eq!(numbers::<f32>(y).unwrap(), expected(n));
    }
}

#[test]
fn saved_plans_run_at_any_size_and_old_ones_load() {
    let (bytes, weights) = session(plan()).unwrap().to_bytes().unwrap();
    let pool = Pool::new(Session::from_bytes(&bytes, &weights).unwrap(), 2);
    std::thread::scope(|scope| {
        for start in 1..4 {
            let pool = &pool;
            scope.spawn(move || {
                for n in (start..60).step_by(3) {
                    assert_eq!(numbers::<f32>(&pool.run(&[input(n)]).unwrap()[0]).unwrap(), expected(n));
                }
            });
        }
    });
    // A plan for one size is written as it was before there were others.
    let fixed = plan().at(&[5]).unwrap();
    let (old, weights) = session(fixed).unwrap().to_bytes().unwrap();
    assert_eq!((old[8], bytes[8]), (3, 4));
    let mut s = Session::from_bytes(&old, &weights).unwrap();
    assert_eq!(numbers::<f32>(&s.run(&[input(5)]).unwrap()[0]).unwrap(), expected(5));
    assert!(s.run(&[input(6)]).is_err());
    for version in [2, 6] {
        let mut other = bytes.clone();
        other[8] = version;
        assert!(Plan::from_bytes(&other).unwrap_err().text().contains("version"));
    }
    for end in (12..bytes.len()).step_by(7) {
        assert!(Plan::from_bytes(&bytes[..end]).is_err());
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused_by_name() {
    let mut limited = plan();
    dims(&mut limited, |d| {
        let dim = &mut d.dims[0];
        (dim.min, dim.max, dim.step, dim.start) = (2, 10, 2, 4);
    });
    let mut s = session(limited).unwrap();
    assert!(s.run(&[input(6)]).is_ok());
    let mut refused = |inputs: &[Tensor]| s.run(inputs).map(drop).unwrap_err();
    let ones = |sizes: &[i64]| tensor(&vec![1f32; sizes.iter().product::<i64>() as usize], sizes).unwrap();
    for (inputs, kind, text) in [
        (vec![input(1)], ErrorKind::Value, "rows is 1, it has to be at least 2 and at most 10"),
        (vec![input(12)], ErrorKind::Value, "rows is 12, it has to be at least 2 and at most 10"),
        (vec![input(5)], ErrorKind::Value, "rows is 5, it has to be a multiple of 2"),
        (vec![ones(&[4])], ErrorKind::Runtime, "\"x\" is float32[rows, 4]"),
        (vec![ones(&[4, 4, 1])], ErrorKind::Runtime, "\"x\" is float32[rows, 4]"),
        (vec![ones(&[4, 5])], ErrorKind::Runtime, "with rows=4, got float32[4, 5]"),
        (vec![ones(&[6, 5])], ErrorKind::Runtime, "with rows=6, got float32[6, 5]"),
        (vec![tensor(&[1i64; 16], &[4, 4]).unwrap()], ErrorKind::Runtime, "got int64[4, 4]"),
        (vec![], ErrorKind::Type, "takes 1 tensors, 0 were given"),
        (vec![input(4), input(4)], ErrorKind::Type, "takes 1 tensors, 2 were given"),
    ] {
        let e = refused(&inputs);
        assert!(e.kind() == kind && e.text().contains(text), "{e}, not {text}");
    }
    assert!(s.run(&[input(6)]).is_ok());
}

#[test]
fn memory_that_overflows_is_refused() {
    let p = plan();
    for n in [i64::MAX, i64::MAX / 4, 1 << 58, 1 << 50, 1 << 43] {
        let e = p.at(&[n]).unwrap_err();
        assert!(e.text().contains("memory") || e.text().contains("overflow") || e.text().contains("sizes"), "{n}: {e}");
    }
    // Powers that overflow on the way, and a size that is not whole.
    for terms in
        [vec![term(i64::MAX, &[0; 16])], vec![term(3, &[0; 9]), term(-3, &[0; 9])], vec![term(1, &[0]), term(1, &[])]]
    {
        let mut p = plan();
        dims(&mut p, |d| {
            d.numbers[1].1 = Formula::Value(Polynomial { terms, denominator: 2 });
        });
        assert!(p.at(&[1 << 20]).is_err());
    }
    assert!(p.at(&[]).is_err() && p.at(&[1, 1]).is_err() && p.at(&[0]).is_err() && p.at(&[-1]).is_err());
}

const QUESTIONS: [Asked; 10] =
    [Asked::Eq, Asked::Ne, Asked::Lt, Asked::Le, Asked::Gt, Asked::Ge, Asked::Mod, Asked::And, Asked::Or, Asked::Xor];

fn constant(n: i64) -> Polynomial {
    Polynomial { terms: vec![term(n, &[])], denominator: 1 }
}

fn guard(asked: Asked, a: Polynomial, b: i64, answer: i64) -> Guard {
    Guard { asked, a, b: constant(b), answer, place: "model.py:12".into() }
}

#[test]
fn sizes_that_break_a_guard_are_refused_by_question_and_line() {
    let mut p = plan();
    let Formula::Value(rows) = rows() else { unreachable!() };
    dims(&mut p, |d| {
        d.guards = vec![guard(Asked::Eq, rows.clone(), 7, 0), guard(Asked::Mod, rows.clone(), 2, 1)];
    });
    let read = Plan::from_bytes(&p.to_bytes()).unwrap();
    assert_eq!(read, p);
    let mut s = session(read).unwrap();
    for n in [1, 3, 5, 9, 41] {
        assert_eq!(numbers::<f32>(&s.run(&[input(n)]).unwrap()[0]).unwrap(), expected(n));
    }
    for (n, what) in [(7, "rows != 7"), (4, "rows % 2 == 1"), (0, "at least 1")] {
        let e = s.run(&[input(n)]).unwrap_err();
        assert!(e.kind() == ErrorKind::Value && e.text().contains(what), "{}", e.text());
        assert!(n == 0 || e.text().contains("model.py:12"), "{}", e.text());
        assert!(s.plan().check_run(&[input(n)]).is_err());
    }
    // A plan without guards is written as before there were any.
    let version = |p: &Plan| p.to_bytes()[8];
    assert_eq!((version(&plan()), version(&p)), (4, 5));
    // Guards that no program can have.
    for (a, k) in [(Polynomial { terms: vec![term(1, &[1])], denominator: 1 }, 0), (constant(1), 0), (constant(1), -1)]
    {
        let mut bad = plan();
        let a = Polynomial { denominator: if a.terms[0].dims.is_empty() { k } else { 1 }, ..a };
        dims(&mut bad, |d| d.guards = vec![guard(Asked::Lt, a, 3, 1)]);
        assert!(bad.check().is_err() && Plan::from_bytes(&bad.to_bytes()).is_err());
    }
}

#[test]
fn guards_are_certain_only_where_all_sizes_keep_them() {
    let (mut certain, mut open) = (0, 0);
    for seed in 0..20_000 {
        let mut d = Draw(seed);
        let dims: Vec<NamedDim> = (0..2)
            .map(|k| {
                let (min, step) = (d.below(5) as i64, d.of(&[1, 1, 2, 3]));
                let max = if d.one_in(3) { i64::MAX } else { min + d.below(9) as i64 };
                NamedDim { name: k.to_string(), min, max, step, start: min, read: None }
            })
            .collect();
        let mut polynomial = |n: usize| {
            let terms = (0..n).map(|_| {
                let dims: &[u8] = [&[][..], &[0], &[1], &[0, 1], &[0, 0]][d.below(5)];
                term(d.below(13) as i64 - 6, dims)
            });
            Polynomial { terms: terms.collect(), denominator: d.of(&[1, 1, 1, 2]) }
        };
        let (a, b) = (polynomial(2), polynomial(1));
        let asked = d.of(&QUESTIONS);
        // An answer that some size gives.
        let at = |n: i64, k: usize| dims[k].min + n * dims[k].step;
        let (Ok(x), Ok(y)) = (a.at(&[at(0, 0), at(0, 1)]), b.at(&[at(0, 0), at(0, 1)])) else { continue };
        let Some(answer) = asked.of(x, y) else { continue };
        let g = Guard { asked, a, b, answer, place: String::new() };
        if !g.is_certain(&dims) {
            open += 1;
            continue;
        }
        certain += 1;
        for (i, j) in (0..400).map(|k| (k % 20, k / 20)) {
            let sizes = [at(i, 0), at(j, 1)];
            let in_range = sizes.iter().zip(&dims).all(|(n, d)| *n <= d.max);
            if in_range && g.a.at(&sizes).is_ok() && g.b.at(&sizes).is_ok() {
                assert!(g.holds(&sizes), "seed {seed}: {g:?} breaks at {sizes:?}");
            }
        }
    }
    assert!(certain > 1000 && open > 1000, "{certain} certain, {open} not");
}

#[test]
fn questions_are_answered_as_python_does() {
    for (a, b, rest) in [(7, 3, 1), (-7, 3, 2), (7, -3, -2), (-7, -3, -1), (6, -3, 0), (i64::MIN, 10, 2)] {
        assert_eq!(Asked::Mod.of(a, b), Some(rest));
    }
    assert_eq!((Asked::Mod.of(1, 0), Asked::Mod.of(i64::MIN, -1)), (None, None));
    assert_eq!(QUESTIONS.map(|q| Asked::parse(q.sign())), QUESTIONS.map(Some));
    assert_eq!(Asked::parse("**"), None);
    // A guard that overflows is broken.
    let wide = Polynomial { terms: vec![term(i64::MAX, &[0, 0])], denominator: 1 };
    assert!(!guard(Asked::Gt, wide, 0, 1).holds(&[i64::MAX]));
}

#[test]
fn formulas_of_what_does_not_exist_are_refused() {
    let changes: [fn(&mut Dynamic); 12] = [
        |d| d.numbers.push((1 << 20, rows())),
        |d| d.numbers.swap(0, 1),
        |d| d.numbers[0] = d.numbers[1].clone(),
        |d| d.numbers[0].1 = Formula::Value(Polynomial { terms: vec![term(1, &[1])], denominator: 1 }),
        |d| d.numbers[0].1 = Formula::Value(Polynomial { terms: vec![term(1, &[0])], denominator: 0 }),
        |d| d.numbers[0].1 = Formula::Value(Polynomial { terms: vec![term(1, &[0; 99])], denominator: 1 }),
        |d| d.dims[0].step = 0,
        |d| d.dims[0].min = -1,
        |d| d.dims[0].max = 0,
        |d| d.dims[0].read = Some(Read { input: 1, axis: 0, factor: 1, constant: 0 }),
        |d| d.dims[0].read = Some(Read { input: 0, axis: 2, factor: 1, constant: 0 }),
        |d| d.dims[0].read = Some(Read { input: 0, axis: 0, factor: 0, constant: 0 }),
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let mut p = plan();
        dims(&mut p, change);
        assert!(p.check().is_err(), "change {i}");
        assert!(Plan::from_bytes(&p.to_bytes()).is_err(), "change {i}");
    }
}

/// Changes one of everything that a dynamic plan says.
fn distort(d: &mut Draw, p: &mut Plan) {
    let ints = [-1, 0, 1, 2, 3, 4, 7, 64, 1 << 20, i64::MAX, i64::MIN];
    dims(p, |dynamic| match d.below(9) {
        0 => {
            let dim = &mut dynamic.dims[0];
            let field = [&mut dim.min, &mut dim.max, &mut dim.step, &mut dim.start];
            let k = d.below(4);
            *field.into_iter().nth(k).unwrap() = d.of(&ints);
        }
        1 => {
            let (factor, constant) = (d.of(&ints), d.of(&ints));
            dynamic.dims[0].read = Some(Read { input: d.below(2) as u32, axis: d.below(3) as u32, factor, constant });
        }
        2 => dynamic.dims[0].read = None,
        8 => {
            let a = Polynomial { terms: vec![term(d.of(&ints), &[0])], denominator: d.of(&[1, 1, 2, 0]) };
            dynamic.guards.push(guard(d.of(&QUESTIONS), a, d.of(&ints), d.of(&[0, 1])));
        }
        3 => drop(dynamic.numbers.remove(d.below(dynamic.numbers.len()))),
        4 => {
            let at = d.below(40) as u32;
            let polynomial = Polynomial { terms: vec![term(d.of(&ints), &[0])], denominator: 1 };
            dynamic.numbers.retain(|n| n.0 != at);
            dynamic.numbers.push((at, Formula::Value(polynomial)));
            dynamic.numbers.sort_by_key(|n| n.0);
        }
        _ => {
            let k = d.below(dynamic.numbers.len());
            if let Formula::Value(p) = &mut dynamic.numbers[k].1 {
                match d.below(4) {
                    0 => p.denominator = d.of(&ints),
                    1 => p.terms.push(term(d.of(&ints), if d.one_in(2) { &[] } else { &[0] })),
                    2 => p.terms[0].factor = d.of(&ints),
                    _ => p.terms[0].dims = vec![0; d.below(4)],
                }
            }
        }
    });
    if d.one_in(3) {
        let k = d.below(40);
        let (mut at, other) = (0, d.of(&ints));
        p.numbers(&mut |n| {
            if let (oneflow_runtime::PlanNumber::Int(n), true) = (n, at == k) {
                *n = other;
            }
            at += 1;
        });
    }
}

#[test]
fn no_formula_leads_out_of_the_buffers() {
    let (mut refused, mut failed, mut ran) = (0, 0, 0);
    for seed in 0..3000 {
        let mut d = Draw(seed);
        let mut p = plan();
        for _ in 0..1 + d.below(3) {
            distort(&mut d, &mut p);
        }
        // As it would be read from a file.
        let Ok(p) = Plan::from_bytes(&p.to_bytes()) else {
            refused += 1;
            continue;
        };
        let at_end = d.one_in(2);
        let memory = |n: i64| {
            let s = Guarded::storage((n * 4) as usize, at_end);
            // SAFETY: the storage's own bytes.
            unsafe { std::slice::from_raw_parts_mut(s.ptr(), s.bytes()) }.fill(0);
            s
        };
        let Ok(mut s) = Session::new(p.clone(), vec![memory(WIDTH * WIDTH)]) else {
            refused += 1;
            continue;
        };
        for n in [0, 1, 2, 3, 5, 8, 33, 200] {
            let sizes = Dims::from_slice(&[n, WIDTH]);
            let x = Tensor::from_storage(memory(n * WIDTH), DType::F32, sizes.clone(), contiguous_strides(&sizes), 0);
            // Memory for what the plan asks for, unless it is absurd.
            if p.sizes_of(&[x.clone().unwrap()])
                .and_then(|sizes| p.at(&sizes))
                .is_ok_and(|p| p.buffers.iter().any(|b| b.bytes > 1 << 24))
            {
                continue;
            }
            match s.run(&[x.unwrap()]) {
                Ok(_) => ran += 1,
                Err(_) => failed += 1,
            }
        }
    }
    assert!(refused > 100 && failed > 100 && ran > 100, "{refused} refused, {failed} failed, {ran} ran");
}
