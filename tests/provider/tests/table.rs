//! The whole op table on a device the framework has never heard of: what it gives is what the CPU gives, values and
//! gradients; what has no kernel and no composition says so by name, and is listed. Planted faults at the end show that the checks can fail.

use oneflow_base::{Arg, Attrs, DType, Device, DeviceType, Error, ErrorKind, Result};
use oneflow_core::{
    BoundSample, Call, Dest, Generator, Grad, Kernel, OpDef, Outs, Tensor, Ty, Wanted, copy_into, copy_to_host,
    dispatch,
};
use oneflow_kernels_prim as prim;
use oneflow_kernels_prim::{KernelFn, Launch};
use oneflow_ops::TensorOps;
use oneflow_test_provider::cells::{Args, Val};
use oneflow_test_provider::{Toy, kernels, register};

type Check = std::result::Result<(), String>;

/// The primitives that this device leaves out and that no composition of others stands in for.
static LEFT_OUT: &[(&[&prim::Primitive], &str)] = &[
    (
        &[
            &prim::CHOLESKY,
            &prim::EIG,
            &prim::EIGH,
            &prim::GEQRF,
            &prim::HOUSEHOLDER_PRODUCT,
            &prim::LU_FACTOR,
            &prim::LU_PERMUTATION,
            &prim::MATRIX_EXP,
            &prim::SVD,
            &prim::TRIANGULAR_SOLVE,
        ],
        "decompositions come from a library for each device type; a plain one would differ by rounding and sign",
    ),
    (&[&prim::FFT], "transforms come from a library for each device type"),
    (&[&prim::CTC_LOSS, &prim::CTC_LOSS_BACKWARD], "a recursion over states, each step by the one before it"),
    (&[&prim::RANDOM_BY], "numbers drawn by rejection: how many each element takes depends on its parameters"),
];

/// The device computes in doubles and whole numbers: no kernel of it takes complex numbers.
const NO_COMPLEX: &str = "no kernel of this provider takes complex";

/// Whether an op was refused for want of a listed primitive or of complex numbers.
fn is_left_out(e: &Error) -> bool {
    let lacks = |p: &&prim::Primitive| e.text().contains(&format!(" {}: no kernel for device type", p.name));
    let left_out = || e.text().contains(NO_COMPLEX) || LEFT_OUT.iter().any(|(p, _)| p.iter().any(lacks));
    e.kind() == ErrorKind::NotImplemented && left_out()
}

fn setup() -> Device {
    oneflow_kernels::register_all();
    oneflow_ops::register();
    oneflow_autograd::register();
    Device::new(register("toy", kernels()).unwrap(), 0)
}

fn text<T>(r: Result<T>) -> std::result::Result<T, String> {
    r.map_err(|e| e.to_string())
}

fn run(c: &Call<'_>) -> Result<Vec<Tensor>> {
    let mut outs = Outs::new();
    dispatch(c, &mut outs)?;
    Ok(outs.into_tensors().into_vec())
}

fn values(t: &Tensor) -> Vec<f64> {
    let wide = Tensor::empty(DType::F64, Device::CPU, t.sizes()).unwrap();
    copy_into(&wide, &copy_to_host(t).unwrap()).unwrap();
    // SAFETY: the tensor is contiguous and holds `numel` doubles.
    unsafe { std::slice::from_raw_parts(wide.data_ptr().cast::<f64>(), wide.numel() as usize) }.to_vec()
}

/// float32 by f64 against float32 sums: some units in the last place.
fn same(have: &Tensor, want: &Tensor) -> Check {
    if have.dtype() != want.dtype() || have.sizes() != want.sizes() || have.strides() != want.strides() {
        return Err(format!(
            "{have:?} with strides {:?} against {want:?} with strides {:?}",
            have.strides(),
            want.strides()
        ));
    }
    let tolerance = match want.dtype() {
        DType::F32 => 2e-5,
        DType::F64 => 1e-9,
        _ => 0.0,
    };
    let (have, want) = (values(have), values(want));
    let close = |x: &f64, y: &f64| x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= tolerance * (1.0 + y.abs());
    match have.iter().zip(&want).all(|(x, y)| close(x, y)) {
        true => Ok(()),
        false => Err(format!("values {have:?} against {want:?}")),
    }
}

/// The same call on another device: its tensors moved, its device argument replaced.
fn on(b: &BoundSample, device: Device) -> Result<BoundSample> {
    let moved = |t: &Tensor| t.to_copy_with(None, Some(device));
    let ins = b.ins.iter().map(|t| t.as_ref().map(moved).transpose()).collect::<Result<Vec<_>>>()?;
    let mut args = b.attrs.args();
    for (a, p) in args.iter_mut().zip(b.op.sig.params().iter().filter(|p| p.is_arg())) {
        if p.ty == Ty::Device {
            *a = Arg::Device(device);
        }
    }
    Ok(BoundSample { op: b.op, ins, attrs: Attrs::new(&args) })
}

/// Runs a check over every sample of every op; collects what failed.
fn over_table(make: fn(Wanted<'_>) -> Result<Tensor>, mut check: impl FnMut(&BoundSample) -> Check) {
    let (mut failed, mut n) = (Vec::new(), 0);
    for op in oneflow_core::ops() {
        for (i, s) in (op.samples)().iter().enumerate() {
            n += 1;
            let bound = text(BoundSample::new(op, s, &mut |w| make(w)));
            if let Err(e) = bound.and_then(|b| check(&b)) {
                failed.push(format!("{} sample {i}: {e}", op.name()));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {n} failed:\n{}", failed.len(), failed.join("\n"));
    assert!(n > 300, "{n}");
}

/// Values are promised.
fn is_defined(op: &OpDef) -> bool {
    !matches!(op.sig.name, "empty" | "empty_like" | "new_empty")
}

fn results_are_the_cpus(b: &BoundSample, device: Device) -> Check {
    let have = match on(b, device).and_then(|o| o.with(run)) {
        Err(e) if is_left_out(&e) => return Ok(()),
        have => text(have)?,
    };
    let want = text(b.with(run))?;
    if have.len() != want.len() {
        return Err(format!("{} results against {}", have.len(), want.len()));
    }
    for (h, w) in have.iter().zip(&want) {
        if h.device() != device && b.op.name() != "to_copy" {
            return Err(format!("a result on {}", h.device()));
        }
        if is_defined(b.op) {
            same(h, w)?;
        }
    }
    Ok(())
}

#[test]
fn what_is_left_out_is_not_there() {
    let provided = kernels();
    for p in LEFT_OUT.iter().flat_map(|(p, _)| p.iter()) {
        assert!(provided.iter().all(|(q, _)| !std::ptr::eq(*p, *q)), "{} has a kernel", p.name);
    }
}

#[test]
fn every_op_gives_what_the_cpu_gives() {
    let toy = setup();
    over_table(BoundSample::fill, |b| results_are_the_cpus(b, toy));
    assert_eq!(Toy::of(toy.kind).unwrap().n_broken_guards(), 0);
}

/// The same call on inputs that lie column by column.
fn turned(b: &BoundSample) -> Result<BoundSample> {
    let turn = |t: &Tensor| match t.ndim() {
        0 | 1 => Ok(t.clone()),
        n => t.transpose(0, n as i64 - 1)?.contiguous()?.transpose(0, n as i64 - 1),
    };
    let ins = b.ins.iter().map(|t| t.as_ref().map(turn).transpose()).collect::<Result<Vec<_>>>()?;
    Ok(BoundSample { op: b.op, ins, attrs: b.attrs.clone() })
}

#[test]
fn strides_do_not_matter() {
    let toy = setup();
    // Ops that speak of the layout itself refuse some, on every device alike.
    over_table(BoundSample::fill, |b| {
        match (on(b, toy).and_then(|o| turned(&o)?.with(run)), turned(b).and_then(|o| o.with(run))) {
            (Ok(have), Ok(want)) if is_defined(b.op) => have.iter().zip(&want).try_for_each(|(h, w)| same(h, w)),
            (Ok(_), Ok(_)) => Ok(()),
            (Err(have), Err(want)) if have.kind() == want.kind() => Ok(()),
            (Err(have), _) if is_left_out(&have) => Ok(()),
            (have, want) => Err(format!("{have:?} against {want:?}")),
        }
    });
    assert_eq!(Toy::of(toy.kind).unwrap().n_broken_guards(), 0);
}

fn wide((d, s, l, h, i): Wanted<'_>) -> Result<Tensor> {
    BoundSample::fill((if d == DType::F32 { DType::F64 } else { d }, s, l, h, i))
}

/// Gradients of a weighted sum of all differentiable results.
fn gradients(b: &BoundSample) -> Result<Vec<Option<Tensor>>> {
    let leaves: Vec<Tensor> = b.ins.iter().flatten().filter(|t| t.dtype() == DType::F64).cloned().collect();
    for t in &leaves {
        oneflow_autograd::set_requires_grad(t, true)?;
    }
    let outs = b.with(run)?;
    let mut roots = Vec::new();
    for (k, t) in outs.iter().enumerate().filter(|(k, _)| b.op.differentiable.has(*k)) {
        if oneflow_autograd::requires_grad(t) {
            let w = BoundSample::fill((t.dtype(), t.sizes(), 0.5, 1.5, 100 + k))?;
            roots.push(t.mul(&w.to_copy_with(None, Some(t.device()))?)?.sum(None, false)?);
        }
    }
    match roots.is_empty() || leaves.is_empty() {
        true => Ok(Vec::new()),
        false => oneflow_autograd::grad_of(&roots, &leaves, &vec![None; roots.len()], false, false),
    }
}

fn gradients_are_the_cpus(b: &BoundSample, device: Device) -> Check {
    if matches!(b.op.grad, Grad::Never) || !is_defined(b.op) {
        return Ok(());
    }
    let there = text(on(b, device))?;
    let (have, want) = match (gradients(&there), gradients(b)) {
        (Err(e), _) if is_left_out(&e) => return Ok(()),
        // An op without this derivative says so alike on every device.
        (Err(have), Err(want)) if have.text() == want.text() => return Ok(()),
        (have, want) => (text(have)?, text(want)?),
    };
    if have.len() != want.len() {
        return Err(format!("{} gradients against {}", have.len(), want.len()));
    }
    have.iter().zip(&want).try_for_each(|(h, w)| match (h, w) {
        (Some(h), Some(w)) if h.device() == device => same(h, w),
        (None, None) => Ok(()),
        _ => Err(format!("gradients {have:?} against {want:?}")),
    })
}

#[test]
fn every_gradient_is_the_cpus() {
    let toy = setup();
    over_table(wide, |b| gradients_are_the_cpus(b, toy));
}

/// A device type with memory and no kernel at all.
#[test]
fn a_missing_kernel_is_an_error_with_names() {
    setup();
    let bare = Device::new(register("bare", Vec::new()).unwrap(), 0);
    let mut n_refused = 0;
    over_table(BoundSample::fill, |b| {
        let ins: Result<Vec<_>> = b.ins.iter().map(|t| t.as_ref().map(|t| raw_copy(t, bare)).transpose()).collect();
        let mut there = text(on(&BoundSample { op: b.op, ins: Vec::new(), attrs: b.attrs.clone() }, bare))?;
        there.ins = text(ins)?;
        match there.with(run) {
            Ok(_) => Ok(()),
            Err(e) if e.kind() != ErrorKind::NotImplemented => Err(format!("{:?}: {e}", e.kind())),
            Err(e) => {
                n_refused += 1;
                let (direct, says) = (b.op.compose.is_none() && !matches!(b.op.kernel, Kernel::Host(_)), e.to_string());
                let named = says.contains("bare") && (!direct || says.contains(b.op.name()));
                if named { Ok(()) } else { Err(format!("the error names not both: {says}")) }
            }
        }
    });
    assert!(n_refused > 200, "{n_refused}");
}

/// Moves a dense tensor without a kernel, as the provider's own copy does.
fn raw_copy(t: &Tensor, device: Device) -> Result<Tensor> {
    let out = Tensor::empty(t.dtype(), device, t.sizes())?;
    let p = oneflow_ep::provider(device.kind)?;
    let bytes = t.numel() as usize * t.dtype().size();
    // SAFETY: both tensors are dense and hold these bytes.
    unsafe { p.copy(p.queue(0), oneflow_ep::Copy::HostToDevice, out.data_ptr(), t.data_ptr(), bytes)? };
    Ok(out)
}

#[test]
fn strided_tensors_cross_devices() {
    let toy = setup();
    let x = BoundSample::fill((DType::F32, &[3, 4], -1.0, 1.0, 0)).unwrap();
    let turned = x.transpose(0, 1).unwrap();
    let there = turned.to_copy_with(None, Some(toy)).unwrap();
    // A copy lies as its source does, as far as that is dense.
    same(&there, &turned).unwrap();
    let back = x.to_copy_with(None, Some(toy)).unwrap().transpose(0, 1).unwrap();
    same(&back.to_copy_with(None, Some(Device::CPU)).unwrap().contiguous().unwrap(), &turned.contiguous().unwrap())
        .unwrap();
    // Into a part of a tensor there, broadcast on the way, from a strided tensor here.
    let part = there.narrow(1, 1, 2).unwrap();
    part.copy_(&turned.narrow(1, 0, 1).unwrap(), false).unwrap();
    let want = turned.narrow(1, 0, 1).unwrap().expand(&[4, 2]).unwrap().contiguous().unwrap();
    same(&part.contiguous().unwrap(), &want).unwrap();
    // In place, with a number of the host.
    let one = BoundSample::fill((DType::F32, &[], 1.0, 1.0, 0)).unwrap();
    part.add_(&one).unwrap();
    same(&part.contiguous().unwrap(), &want.add(&one).unwrap()).unwrap();
    let mixed = there.add(&turned).unwrap_err().to_string();
    assert!(mixed.contains("toy:0") && mixed.contains("cpu"), "{mixed}");
    assert_eq!(Toy::of(toy.kind).unwrap().n_broken_guards(), 0);
}

#[test]
fn memory_is_counted_and_given_back() {
    setup();
    let kind = register("counted", kernels()).unwrap();
    let p = oneflow_ep::provider(kind).unwrap();
    let before = p.n_allocs(0);
    {
        let x = Tensor::empty(DType::F32, Device::new(kind, 0), &[100]).unwrap();
        x.fill_(2.0).unwrap();
        let y = x.mul(&x).unwrap();
        assert_eq!((p.memory(0).0, p.n_allocs(0) - before), (800, 2));
        assert_eq!(values(&y), vec![4.0; 100]);
    }
    assert_eq!((p.memory(0).0, p.peak_memory(0, true), p.peak_memory(0, false)), (0, 800, 0));
}

/// The optimizers have no samples: a step of each on both devices.
#[test]
fn updates_are_the_cpus() {
    let toy = setup();
    let step = |device: Device, name: &str, args: &[Arg<'_>], n_lists: usize| -> Vec<Tensor> {
        let op = *oneflow_core::overloads(name).first().unwrap();
        let make = |i: usize| BoundSample::fill((DType::F32, &[2, 3], 0.1, 1.0, i)).unwrap();
        let number = |v: f64| BoundSample::fill((DType::F64, &[], v, v, 0)).unwrap();
        let mut ins: Vec<Tensor> = (0..2 * n_lists).map(make).collect();
        ins.push(number(0.1));
        if n_lists == 4 {
            ins.push(number(3.0));
        }
        let ins: Vec<Tensor> = ins.iter().map(|t| t.to_copy_with(None, Some(device)).unwrap()).collect();
        let mut operands: Vec<Option<&Tensor>> = ins.iter().map(Some).collect();
        operands.extend([None, None]);
        dispatch(&Call { op, ins: &operands, args, dest: Dest::Fresh }, &mut Outs::new()).unwrap();
        ins
    };
    let (two, f) = (Arg::Len(2), Arg::Float);
    let adam = [two, two, two, two, f(0.9), f(0.99), f(0.1), f(1e-8), Arg::Bool(false)];
    let sgd = [two, two, two, f(0.9), f(0.1), f(0.01), Arg::Bool(true), Arg::Bool(true), Arg::Bool(false)];
    for (name, args, n) in [("_fused_adamw_", &adam, 4), ("_fused_adam_", &adam, 4), ("_fused_sgd_", &sgd, 3)] {
        let (have, want) = (step(toy, name, args, n), step(Device::CPU, name, args, n));
        let untouched = BoundSample::fill((DType::F32, &[2, 3], 0.1, 1.0, 0)).unwrap();
        assert!(same(&want[0], &untouched).is_err(), "{name} changed nothing");
        have.iter().zip(&want).for_each(|(h, w)| same(h, w).unwrap_or_else(|e| panic!("{name}: {e}")));
    }
}

/// A random window gives a shard the numbers of the whole.
#[test]
fn a_shard_draws_its_part() {
    let toy = setup();
    let draw = |device: Device| {
        let g = Generator::new();
        let x = Tensor::empty(DType::F32, device, &[3, 5]).unwrap();
        x.normal_with_(0.0, 1.0, Some(&g)).unwrap();
        x
    };
    same(&draw(toy), &draw(Device::CPU)).unwrap();
}

/// The device with one kernel replaced by a wrong one.
fn broken(name: &'static str, primitive: &'static prim::Primitive, wrong: KernelFn) -> Device {
    setup();
    let kind: DeviceType = register(name, kernels()).unwrap();
    primitive.provide(kind, wrong);
    Device::new(kind, 0)
}

fn caught(op: &str, make: fn(Wanted<'_>) -> Result<Tensor>, check: impl Fn(&BoundSample) -> Check) -> bool {
    oneflow_core::overloads(op)
        .iter()
        .any(|op| (op.samples)().iter().any(|s| check(&BoundSample::new(op, s, &mut |w| make(w)).unwrap()).is_err()))
}

#[test]
fn planted_faults_are_found() {
    unsafe fn halved(l: &Launch<'_>) -> Result<()> {
        // SAFETY: the launch's own contract.
        let a = unsafe { Args::new(l) };
        a.output(0)?.write(a.input(0)?.vals().into_iter().map(|v| Val::F(v.f() / 2.0)));
        Ok(())
    }
    unsafe fn nothing(_: &Launch<'_>) -> Result<()> {
        Ok(())
    }
    let wrong = broken("wrong", &prim::SOFTMAX_BACKWARD, halved);
    prim::TRIANGLE.provide(wrong.kind, halved);
    prim::REDUCE.provide(wrong.kind, nothing);
    assert!(!caught("softmax", wide, |b| results_are_the_cpus(b, wrong)));
    assert!(caught("softmax", wide, |b| gradients_are_the_cpus(b, wrong)), "a wrong gradient");
    assert!(caught("tril", BoundSample::fill, |b| results_are_the_cpus(b, wrong)), "a wrong value");
    assert!(caught("sum", BoundSample::fill, |b| results_are_the_cpus(b, wrong)), "a result that was not written");
}
