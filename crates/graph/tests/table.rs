//! Traced = eager, bit for bit: every op of the table from its samples, and programs that write in place through views. The
//! comparison is itself tested by planted faults.

mod common;

use common::*;
use oneflow_base::{Arg, Attrs, Result};
use oneflow_core::{BoundSample, Call, Dest, Kernel, OpDef, Outs, ShapeOf, Tensor, default_generator, dispatch};
use oneflow_graph::{Config, Tracer, compile};
use oneflow_ops::{TensorOps, f};
use std::sync::Mutex;

static ALONE: Mutex<()> = Mutex::new(());

/// The results of a program, and its inputs afterwards.
type Outcome = Vec<Vec<u8>>;

fn eager(ins: &[Tensor], program: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Outcome> {
    let out = program(ins)?;
    Ok(out.iter().chain(ins).map(bytes).collect())
}

/// Traces with the inputs as placeholders (or captured as variables), and runs twice on fresh copies.
fn traced(
    ins: &[Tensor],
    captured: bool,
    fuse: bool,
    program: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Outcome> {
    let tracer = Tracer::begin("test", None)?;
    let copies = copies(ins);
    let placed: Vec<Tensor> =
        if captured { copies.clone() } else { ins.iter().map(|t| tracer.input(t)).collect::<Result<_>>()? };
    let out = program(&placed)?;
    let mut c = compile(tracer.finish(&out)?, &Config { fuse, ..Config::default() })?;
    let given: &[Tensor] = if captured { &[] } else { &copies };
    let results = c.run(given, &mut || Ok(()))?;
    Ok(results.iter().chain(&copies).map(bytes).collect())
}

/// Copies that no trace records.
fn copies(ins: &[Tensor]) -> Vec<Tensor> {
    ins.iter()
        .map(|t| {
            let c = Tensor::empty(t.dtype(), t.device(), t.sizes()).unwrap();
            oneflow_core::copy_into(&c, t).unwrap();
            c
        })
        .collect()
}

fn compare(name: &str, want: Result<Outcome>, have: Result<Outcome>) -> Option<String> {
    match (want, have) {
        (Ok(a), Ok(b)) if a == b => None,
        (Ok(_), Ok(_)) => Some(format!("{name}: the results differ")),
        (Err(a), Err(b)) if a.kind() == b.kind() => None,
        (Err(a), Ok(_)) => Some(format!("{name}: eager fails ({a}), traced does not")),
        (a, Err(b)) => {
            Some(format!("{name}: traced fails: {b} (eager: {})", a.map_or_else(|e| e.to_string(), |_| "fine".into())))
        }
    }
}

/// One sample in place of the op's own arguments: random ops take the next position of the default generator.
fn call_of(b: &BoundSample, ins: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut attrs: Attrs = b.attrs.clone();
    for i in 0..attrs.len() {
        let random = matches!(attrs.args()[i], Arg::Rng { .. });
        if random {
            let (seed, offset) = default_generator().take(1);
            attrs = attrs.with(i, Arg::Rng { seed, offset });
        }
    }
    let mut next = ins.iter();
    let refs: Vec<Option<&Tensor>> = b.ins.iter().map(|t| t.as_ref().and_then(|_| next.next())).collect();
    let args = attrs.args();
    let mut outs = Outs::new();
    dispatch(&Call { op: b.op, ins: &refs, args: &args, dest: Dest::Fresh }, &mut outs)?;
    Ok(outs.into_tensors().into_vec())
}

/// The call's results and the gradients of all its inputs that can have one, as far as the op has gradients.
fn with_gradients(b: &BoundSample, ins: &[Tensor]) -> Result<Vec<Tensor>> {
    let wanted = |t: &&Tensor| t.dtype().is_float() || t.dtype().is_complex();
    let leaves: Vec<Tensor> = ins.iter().filter(wanted).cloned().collect();
    leaves.iter().try_for_each(|t| oneflow_autograd::set_requires_grad(t, true))?;
    let mut results = call_of(b, ins)?;
    let roots: Vec<Tensor> = results.iter().filter(|t| oneflow_autograd::requires_grad(t)).cloned().collect();
    if !roots.is_empty() {
        // No two numbers alike: a gradient that lies in another order shows.
        let number = |t: &Tensor| tensor(t.sizes(), 21).to_copy_with(Some(t.dtype()), None).map(Some);
        let given: Vec<Option<Tensor>> = roots.iter().map(number).collect::<Result<_>>()?;
        results.extend(oneflow_autograd::grad_of(&roots, &leaves, &given, false, false)?.into_iter().flatten());
    }
    leaves.iter().try_for_each(|t| oneflow_autograd::set_requires_grad(t, false))?;
    Ok(results)
}

/// The operation applied to a sample.
type Use = fn(&BoundSample, &[Tensor]) -> Result<Vec<Tensor>>;

fn check_op(op: &'static OpDef, fuse: bool, program: Use, failed: &mut Vec<String>) -> usize {
    let samples = (op.samples)();
    for (i, s) in samples.iter().enumerate() {
        let b = match BoundSample::new(op, s, &mut BoundSample::fill) {
            Ok(b) => b,
            Err(e) => {
                failed.push(format!("{} sample {i}: {e}", op.name()));
                continue;
            }
        };
        let ins: Vec<Tensor> = b.ins.iter().flatten().cloned().collect();
        for captured in [false, true] {
            default_generator().manual_seed(11);
            let mine = copies(&ins);
            let have = traced(&mine, captured, fuse, &|x| program(&b, x));
            default_generator().manual_seed(11);
            let want = eager(&mine, &|x| program(&b, x));
            // Work on the host may read values, which a trace refuses by the op's name.
            let refused = |e: &oneflow_base::Error| {
                e.text().starts_with(&format!("{}(): ", op.sig.name)) && e.text().contains("data-dependent")
            };
            if matches!(op.kernel, Kernel::Host(_)) && have.as_ref().is_err_and(refused) {
                continue;
            }
            failed.extend(compare(&format!("{} sample {i} captured {captured}", op.name()), want, have));
        }
    }
    samples.len()
}

fn check_table(program: Use) {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    setup();
    let mut failed = Vec::new();
    let mut n = 0;
    for op in oneflow_core::ops() {
        if op.shape == ShapeOf::Data || op.name().starts_with("empty") {
            continue;
        }
        n += check_op(op, false, program, &mut failed);
    }
    assert!(failed.is_empty(), "{} of {n} failed:\n{}", failed.len(), failed.join("\n"));
    assert!(n > 100);
}

#[test]
fn every_op_traced_is_eager() {
    check_table(call_of);
}

#[test]
fn gradients_of_every_op_traced_are_those_of_eager() {
    check_table(with_gradients);
}

#[test]
fn ops_whose_size_depends_on_data_are_refused_by_name() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    setup();
    for op in oneflow_core::ops().into_iter().filter(|o| o.shape == ShapeOf::Data) {
        for s in (op.samples)() {
            let b = BoundSample::new(op, &s, &mut BoundSample::fill).unwrap();
            let ins: Vec<Tensor> = b.ins.iter().flatten().cloned().collect();
            let e = traced(&ins, false, false, &|x| call_of(&b, x)).unwrap_err();
            assert!(e.text().contains(op.sig.name) && e.text().contains("nn.Graph"), "{e}");
        }
    }
    let e = traced(&[tensor(&[2], 1)], false, false, &|x| {
        oneflow_core::copy_to_host(&x[0])?;
        Ok(Vec::new())
    });
    assert!(e.unwrap_err().text().contains("nn.Graph"));
}

type Program = fn(&[Tensor]) -> Result<Vec<Tensor>>;

/// Programs on x: [4, 6] and y: [4, 6] that write in place, through views and across them.
const PROGRAMS: &[(&str, Program)] = &[
    ("write whole", |t| {
        t[0].mul_(&t[1])?;
        Ok(vec![t[0].add(1.0)?])
    }),
    ("write a row, read all", |t| {
        t[0].select(0, 1)?.add_(2.0)?;
        Ok(vec![t[0].mul(2.0)?])
    }),
    ("view of a view", |t| {
        let v = t[0].transpose(0, 1)?.slice(0, Some(1), Some(5), 2)?;
        v.mul_(3.0)?;
        let w = t[0].view(&[2, 12])?;
        w.select(0, 1)?.sub_(1.0)?;
        Ok(vec![v.add(0.0)?, w.add(0.0)?, t[0].add(0.0)?])
    }),
    ("old view sees a later write", |t| {
        let v = t[0].select(1, 2)?;
        t[0].zero_()?;
        Ok(vec![v.add(1.0)?])
    }),
    ("old value stays", |t| {
        let old = t[0].mul(1.0)?;
        t[0].add_(&old)?;
        Ok(vec![old, t[0].sub(&t[1])?])
    }),
    ("intermediate memory", |t| {
        let h = t[0].add(&t[1])?;
        let v = h.select(0, 0)?;
        v.copy_(&t[1].select(0, 3)?, false)?;
        h.select(0, 2)?.add_(&v)?;
        h.exp_()?;
        Ok(vec![h, v])
    }),
    ("transposed memory", |t| {
        let h = t[0].transpose(0, 1)?.mul(2.0)?;
        h.select(0, 1)?.fill_(7.0)?;
        h.slice(1, Some(0), Some(2), 1)?.neg_()?;
        Ok(vec![h.contiguous()?, h])
    }),
    ("swap", |t| {
        let old = t[0].mul(1.0)?;
        t[0].copy_(&t[1], false)?;
        t[1].copy_(&old, false)?;
        Ok(vec![t[0].sub(&t[1])?])
    }),
    ("returns its inputs and views of them", |t| {
        t[1].select(0, 0)?.add_(1.0)?;
        Ok(vec![t[0].clone(), t[1].clone(), t[1].select(0, 0)?])
    }),
    ("same result twice", |t| {
        let h = t[0].mul(&t[1])?;
        Ok(vec![h.clone(), h.transpose(0, 1)?, h])
    }),
    ("casts on writing", |t| {
        let k = f::zeros_with(&[4, 6], Some(oneflow_base::DType::F64), None, false)?;
        k.copy_(&t[0], false)?;
        k.add_(&t[1])?;
        t[0].copy_(&k, false)?;
        Ok(vec![k])
    }),
    ("broadcast of itself", |t| {
        let h = t[0].mul(1.0)?;
        let first = h.select(0, 0)?;
        let g = h.add(&first)?;
        h.select(0, 0)?.mul_(2.0)?;
        Ok(vec![g.add(&h)?, first])
    }),
    ("overlapping windows", |t| {
        let h = t[0].mul(1.0)?;
        let a = h.slice(1, Some(0), Some(5), 1)?;
        let b = h.slice(1, Some(1), Some(6), 1)?;
        let sum = a.add(&b)?;
        a.copy_(&sum, false)?;
        Ok(vec![b.mul(1.0)?, h])
    }),
    ("gradients through views", |t| {
        let w = t[0].mul(1.0)?;
        oneflow_autograd::set_requires_grad(&w, true)?;
        let h = w.mul(&t[1])?;
        h.select(0, 1)?.mul_(3.0)?;
        let loss = h.square()?.sum(None, false)?;
        let g = oneflow_autograd::grad_of(&[loss], &[w], &[None], false, false)?;
        Ok(g.into_iter().flatten().collect())
    }),
    ("the same thing twice", |t| {
        let (a, b) = (t[0].mul(&t[1])?, t[0].mul(&t[1])?);
        // One of the two equal values is overwritten, the other is not.
        a.select(0, 1)?.add_(1.0)?;
        let (c, d) = (t[0].exp()?, t[0].exp()?);
        t[1].copy_(&b.select(0, 0)?, false)?;
        Ok(vec![a.add(&b)?, c, d, b.transpose(0, 1)?.transpose(0, 1)?])
    }),
    ("random numbers", |t| {
        let r = t[0].rand_like()?;
        let [d, _] = t[1].native_dropout(0.5)?;
        Ok(vec![r.add(&t[0].randn_like()?)?, d])
    }),
];

fn run_programs(fuse: bool) -> Vec<String> {
    setup();
    let mut failed = Vec::new();
    for (name, program) in PROGRAMS {
        for captured in [false, true] {
            let ins = [tensor(&[4, 6], 5), tensor(&[4, 6], 6)];
            default_generator().manual_seed(5);
            let have = traced(&ins, captured, fuse, program);
            default_generator().manual_seed(5);
            let want = eager(&copies(&ins), program);
            failed.extend(compare(&format!("{name}, captured {captured}, fused {fuse}"), want, have));
        }
    }
    failed
}

#[test]
fn programs_with_in_place_on_views() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    for fuse in [false, true] {
        let failed = run_programs(fuse);
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }
}

/// Runs a program's plan after a fault was planted in it; the comparison must notice, or the plan be refused.
fn with_fault(plant: fn(&mut oneflow_runtime::Plan) -> bool) -> std::result::Result<(), String> {
    setup();
    let program: Program = |t| {
        let (a, b) = (t[0].add(1.0)?, t[1].mul(3.0)?);
        let (c, d) = (a.exp()?, b.sin()?);
        Ok(vec![a.mul(&d)?.add(&c.mul(&b)?)?])
    };
    let ins = [tensor(&[4, 6], 5), tensor(&[4, 6], 6)];
    let want = eager(&copies(&ins), &program).map_err(|e| e.to_string())?;
    let tracer = Tracer::begin("fault", None).map_err(|e| e.to_string())?;
    let placed: Vec<Tensor> = ins.iter().map(|t| tracer.input(t).unwrap()).collect();
    let out = program(&placed).map_err(|e| e.to_string())?;
    let (mut plan, _) = oneflow_graph::lower(&tracer.finish(&out).unwrap().graph, &oneflow_graph::Config::default())
        .map_err(|e| e.to_string())?;
    assert!(plant(&mut plan), "the fault was planted");
    let mut s = oneflow_runtime::Session::new(plan, Vec::new()).map_err(|e| e.to_string())?;
    let have: Outcome = s.run(&ins).map_err(|e| e.to_string())?.iter().chain(&ins).map(bytes).collect();
    if have == want { Ok(()) } else { Err("the results differ".into()) }
}

#[test]
fn equal_nodes_become_one() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    setup();
    let tracer = Tracer::begin("equal", None).unwrap();
    let x = tracer.input(&tensor(&[3], 1)).unwrap();
    let (a, b) = (x.exp().unwrap().add(1.0).unwrap(), x.exp().unwrap().add(1.0).unwrap());
    let r = (x.rand_like().unwrap(), x.rand_like().unwrap());
    let y = a.mul(&b).unwrap().add(&r.0).unwrap().add(&r.1).unwrap();
    let c = compile(tracer.finish(&[y]).unwrap(), &Config { fuse: false, ..Config::default() }).unwrap();
    // exp, add, two draws, mul and two adds.
    assert_eq!((c.logical.nodes.len(), c.optimized.nodes.len()), (9, 7));
}

#[test]
fn planted_faults_are_noticed() {
    use oneflow_runtime::{Home, Work};
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    assert_eq!(with_fault(|_| true), Ok(()));
    // All buffers of the arena on the same bytes.
    let e = with_fault(|p| {
        p.buffers.iter_mut().for_each(|b| {
            if let Home::Arena { offset, .. } = &mut b.home {
                *offset = 0;
            }
        });
        true
    });
    assert!(e.unwrap_err().contains("same bytes"));
    // A register without a slot: its credit is lost.
    let e = with_fault(|p| {
        p.registers[0].slots = 0;
        true
    });
    assert!(e.unwrap_err().contains("too few credits"));
    // A wrong number in one instruction.
    let e = with_fault(|p| {
        p.tasks.iter_mut().any(|t| match &mut t.work {
            Work::Compute(is) => is.iter_mut().flat_map(|i| &mut i.steps).flat_map(|s| &mut s.args).any(|a| {
                let hit = *a == oneflow_runtime::PlanArg::Float(3.0);
                if hit {
                    *a = oneflow_runtime::PlanArg::Float(3.5);
                }
                hit
            }),
            _ => false,
        })
    });
    assert_eq!(e.unwrap_err(), "the results differ");
}
