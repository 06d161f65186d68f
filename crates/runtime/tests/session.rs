//! Sessions without Python: runs that overlap, their order, their errors, and sessions dropped in the middle.

use oneflow_base::{DType, Device, Dims, Meta, Result};
use oneflow_core::{Tensor, copy_to_host};
use oneflow_runtime::{
    Buffer, Home, Input, Instr, Operand, Output, Plan, PlanArg, Port, Ref, Register, Session, Step, Task, Work,
};

const ROWS: i64 = 4;
const WIDTH: i64 = 2;

fn setup() {
    oneflow_kernels::register_all();
    oneflow_ops::register();
}

fn poll() -> Result<()> {
    Ok(())
}

/// `rows = table[index]`, with as many slots for results as are never collected. An index out of range fails in the kernel.
fn lookup(results: u32) -> Session {
    setup();
    let operand = |buffer: u32, dtype, sizes: &[i64]| Operand {
        buffer,
        offset: 0,
        dtype,
        sizes: Dims::from_slice(sizes),
        strides: oneflow_base::contiguous_strides(sizes),
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
    let register = |name: &str, slots| Register { name: name.into(), device: Device::CPU, bytes: 0, slots };
    let task =
        |name: &str, stream, work, consumes, produces| Task { name: name.into(), stream, work, consumes, produces };
    let plan = Plan {
        name: "lookup".into(),
        buffers: vec![
            buffer(ROWS * WIDTH * 4, Home::Input(0)),
            buffer(8, Home::Input(1)),
            buffer(WIDTH * 4, Home::Output(0)),
        ],
        inputs: vec![
            Input { buffer: 0, meta: meta(DType::F32, &[ROWS, WIDTH]) },
            Input { buffer: 1, meta: meta(DType::I64, &[1]) },
        ],
        outputs: vec![Output { operand: operand(2, DType::F32, &[1, WIDTH]) }],
        registers: vec![register("run", 1), register("result", results)],
        tasks: vec![
            task("caller", 0, Work::HostIn, vec![], port(0)),
            task("compute", 1, Work::Compute(vec![instr]), port(0), port(1)),
            task("receiver", 0, Work::HostOut, port(1), vec![]),
        ],
        ..Plan::default()
    };
    Session::new(plan, Vec::new()).unwrap()
}

fn inputs(row: i64) -> [Tensor; 2] {
    let table: Vec<f32> = (0..ROWS * WIDTH).map(|i| i as f32).collect();
    // SAFETY: f32 and i64 are the Rust types of F32 and I64.
    unsafe {
        [
            Tensor::from_host(&table, DType::F32, &[ROWS, WIDTH]).unwrap(),
            Tensor::from_host(&[row], DType::I64, &[1]).unwrap(),
        ]
    }
}

/// The first number of a row identifies it.
fn row_of(results: &[Tensor]) -> i64 {
    let t = copy_to_host(&results[0]).unwrap();
    // SAFETY: the copy is contiguous and holds floats.
    unsafe { *t.data_ptr().cast::<f32>() as i64 / WIDTH }
}

#[test]
fn results_come_in_the_order_of_their_runs_and_stay() {
    let mut s = lookup(3);
    // The inputs are dropped at once: the session keeps them until their run is collected.
    (0..3).for_each(|i| s.submit(&inputs(i), &mut poll).unwrap());
    let first = s.collect(&mut poll).unwrap();
    s.submit(&inputs(3), &mut poll).unwrap();
    let rest: Vec<Vec<Tensor>> = (0..3).map(|_| s.collect(&mut poll).unwrap()).collect();
    assert_eq!(row_of(&first), 0);
    assert_eq!(rest.iter().map(|r| row_of(r)).collect::<Vec<_>>(), [1, 2, 3]);
    // Memory of a result that is held is not used again.
    for i in (0..4).chain(0..4) {
        assert_eq!(row_of(&s.run(&inputs(i)).unwrap()), i);
    }
    assert_eq!(row_of(&first), 0);
}

#[test]
fn too_many_runs_and_too_few_are_errors() {
    let mut s = lookup(2);
    let none = s.collect(&mut poll).unwrap_err().to_string();
    assert!(none.contains("no run is under way"), "{none}");
    (0..2).for_each(|i| s.submit(&inputs(i), &mut poll).unwrap());
    let full = s.submit(&inputs(2), &mut poll).unwrap_err().to_string();
    assert!(full.contains("2 runs are under way"), "{full}");
    let mixed = s.run(&inputs(2)).unwrap_err().to_string();
    assert!(mixed.contains("were not collected"), "{mixed}");
    let [table, _] = inputs(0);
    s.collect(&mut poll).unwrap();
    let few = s.submit(std::slice::from_ref(&table), &mut poll).unwrap_err().to_string();
    assert!(few.contains("takes 2 tensors, 1 were given"), "{few}");
    let wrong = s.submit(&[table.clone(), table], &mut poll).unwrap_err().to_string();
    assert!(wrong.contains("input 1 was compiled as"), "{wrong}");
    // None of it touched the run that is under way.
    assert_eq!(row_of(&s.collect(&mut poll).unwrap()), 1);
}

#[test]
fn a_failure_comes_after_the_results_before_it_and_the_session_goes_on() {
    let mut s = lookup(3);
    s.submit(&inputs(1), &mut poll).unwrap();
    s.submit(&inputs(ROWS + 7), &mut poll).unwrap();
    assert_eq!(row_of(&s.collect(&mut poll).unwrap()), 1);
    let e = s.collect(&mut poll).unwrap_err().to_string();
    assert!(e.contains("rows of the table"), "{e}");
    // What was under way behind it is gone; the next run starts anew.
    assert!(s.collect(&mut poll).unwrap_err().to_string().contains("no run is under way"));
    assert_eq!(row_of(&s.run(&inputs(2)).unwrap()), 2);
}

#[test]
fn a_session_is_dropped_with_runs_under_way() {
    for collected in 0..3 {
        let mut s = lookup(3);
        (0..3).for_each(|i| s.submit(&inputs(i), &mut poll).unwrap());
        let kept: Vec<_> = (0..collected).map(|_| s.collect(&mut poll).unwrap()).collect();
        drop(s);
        let rows: Vec<i64> = kept.iter().map(|r| row_of(r)).collect();
        assert_eq!(rows, (0..collected).collect::<Vec<i64>>());
    }
}
