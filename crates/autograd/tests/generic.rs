//! Generic tests over the whole op table, fed from each op's samples. Each check is tested by planted faults at the end.

use oneflow_base::{DType, Device, Dims, ErrorKind, Meta, Result, contiguous_strides};
use oneflow_core::{
    BoundSample, Call, Grad, Kernel, OpDef, OutMask, Outs, ShapeOf, Tensor, copy_into, copy_to_host, dispatch,
};
use oneflow_ops::TensorOps;

fn setup() {
    oneflow_kernels::register_all();
    oneflow_ops::register();
    oneflow_autograd::register();
}

/// Samples with float32 widened to float64: what gradients are compared in.
fn wide(w: oneflow_core::Wanted<'_>) -> Result<Tensor> {
    let (d, s, l, h, i) = w;
    BoundSample::fill((if d == DType::F32 { DType::F64 } else { d }, s, l, h, i))
}

fn run(c: &Call<'_>) -> Result<Vec<Tensor>> {
    let mut outs = Outs::new();
    dispatch(c, &mut outs)?;
    Ok(outs.into_tensors().into_vec())
}

/// Elements row-major; both parts of complex ones.
fn values(t: &Tensor) -> Vec<f64> {
    let mut host = copy_to_host(t).unwrap();
    if host.dtype().is_complex() {
        host = host.view_as_real().unwrap();
    }
    let wide = Tensor::empty(DType::F64, Device::CPU, host.sizes()).unwrap();
    copy_into(&wide, &host).unwrap();
    // SAFETY: the tensor is contiguous and holds `numel` doubles.
    unsafe { std::slice::from_raw_parts(wide.data_ptr().cast::<f64>(), wide.numel() as usize) }.to_vec()
}

fn close(a: &[f64], b: &[f64], tol: f64) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|(x, y)| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tol * (1.0 + y.abs()))
}

/// float32 sums of a few dozen terms in another order differ by some units in the last place.
fn tolerance(t: &Tensor) -> f64 {
    match t.dtype() {
        DType::F32 | DType::C64 => 2e-5,
        DType::F64 | DType::C128 => 1e-10,
        _ => 0.0,
    }
}

fn same(a: &Tensor, b: &Tensor) -> std::result::Result<(), String> {
    if a.dtype() != b.dtype() || a.sizes() != b.sizes() {
        return Err(format!("{a:?} against {b:?}"));
    }
    if !close(&values(a), &values(b), tolerance(a)) {
        return Err(format!("values {:?} against {:?}", values(a), values(b)));
    }
    Ok(())
}

/// Runs a check over every sample of every op; collects what failed.
fn over_table(
    filter: impl Fn(&OpDef) -> bool,
    make: fn(oneflow_core::Wanted<'_>) -> Result<Tensor>,
    mut check: impl FnMut(&BoundSample) -> std::result::Result<(), String>,
) {
    setup();
    let mut failed = Vec::new();
    let mut n = 0;
    for op in oneflow_core::ops().into_iter().filter(|o| filter(o)) {
        for (i, s) in (op.samples)().iter().enumerate() {
            let bound = BoundSample::new(op, s, &mut |w| make(w));
            n += 1;
            if let Err(e) = bound.map_err(|e| e.to_string()).and_then(|b| check(&b)) {
                failed.push(format!("{} sample {i}: {e}", op.name()));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {n} failed:\n{}", failed.len(), failed.join("\n"));
    assert!(n > 0);
}

/// The kernel's results against the composition's.
fn kernel_is_compose(b: &BoundSample) -> std::result::Result<(), String> {
    b.with(|c| {
        let kernel = run(c).map_err(|e| e.to_string())?;
        let mut outs = Outs::new();
        match c.op.compose.ok_or("no composition")?(c, &mut outs) {
            // A composition for some arguments only (a cast of the index, a rounding) declines the others.
            Err(e) if e.kind() == ErrorKind::NotImplemented => return Ok(()),
            result => result.map_err(|e| e.to_string())?,
        }
        kernel.iter().zip(outs.tensors()).try_for_each(|(k, p)| same(k, p))
    })
}

#[test]
fn kernels_equal_their_compositions() {
    let both = |o: &OpDef| o.compose.is_some() && !matches!(o.kernel, Kernel::None) && o.shape == ShapeOf::Inputs;
    over_table(both, BoundSample::fill, kernel_is_compose);
}

/// Results have the meta that `infer` promised.
fn meta_is_real(b: &BoundSample) -> std::result::Result<(), String> {
    b.with(|c| {
        let mut shells = Outs::new();
        (c.op.infer)(c, &mut shells).map_err(|e| e.to_string())?;
        let real = run(c).map_err(|e| e.to_string())?;
        let metas = |ts: &[Tensor]| ts.iter().map(Tensor::meta).collect::<Vec<Meta>>();
        let (want, have) = (metas(shells.tensors()), metas(&real));
        if want != have {
            return Err(format!("promised {want:?}, got {have:?}"));
        }
        Ok(())
    })
}

#[test]
fn metas_are_what_infer_says() {
    let with_infer = |o: &OpDef| o.shape == ShapeOf::Inputs && !matches!(o.kernel, Kernel::None);
    over_table(with_infer, BoundSample::fill, meta_is_real);
}

/// The same values from transposed storage, offset storage and reversed memory order.
fn layouts(b: &BoundSample) -> std::result::Result<(), String> {
    let plain = b.with(run).map_err(|e| e.to_string())?;
    for kind in 0..2 {
        let ins = b.ins.iter().map(|t| t.as_ref().map(|t| relaid(t, kind)).transpose()).collect::<Result<Vec<_>>>();
        let other = BoundSample { op: b.op, ins: ins.map_err(|e| e.to_string())?, attrs: b.attrs.clone() };
        let got = other.with(run).map_err(|e| format!("layout {kind}: {e}"))?;
        for (g, p) in got.iter().zip(&plain) {
            same(g, p).map_err(|e| format!("layout {kind}: {e}"))?;
        }
    }
    Ok(())
}

fn relaid(t: &Tensor, kind: usize) -> Result<Tensor> {
    let n = t.ndim();
    let (sizes, strides): (Dims, Dims) = if kind == 0 {
        // Column-major.
        let turned: Dims = t.sizes().iter().rev().copied().collect();
        (Dims::from_slice(t.sizes()), contiguous_strides(&turned).into_iter().rev().collect())
    } else {
        // Every second element of every row, behind an offset.
        let mut wide = Dims::from_slice(t.sizes());
        if let Some(last) = wide.last_mut() {
            *last = *last * 2 + 1;
        }
        let mut s = contiguous_strides(&wide);
        if n > 0 {
            s[n - 1] = 2;
        }
        (Dims::from_slice(t.sizes()), s)
    };
    let span: i64 = 2 + sizes.iter().zip(&strides).map(|(n, s)| (n - 1).max(0) * s).sum::<i64>();
    let store = Tensor::empty(t.dtype(), Device::CPU, &[span + 1])?;
    let view = store.alias(sizes, strides, 1)?;
    copy_into(&view, t)?;
    Ok(view)
}

#[test]
fn strides_do_not_matter() {
    // These speak of the memory itself, or need it dense, as PyTorch's do.
    let views = ["view", "as_strided", "as_strided_copy", "as_strided_scatter", "take_along_dim", "view_as_complex"];
    let views = |o: &OpDef| views.contains(&o.sig.name.trim_start_matches('_'));
    over_table(|o| !views(o) && !o.name().starts_with("new_"), BoundSample::fill, layouts);
}

fn differentiable(b: &BoundSample) -> Vec<usize> {
    (0..b.ins.len()).filter(|i| b.ins[*i].as_ref().is_some_and(|t| t.dtype() == DType::F64)).collect()
}

/// One number out of all differentiable results, weighted so that no symmetry hides a fault.
fn loss(outs: &[Tensor], mask: OutMask) -> Result<Option<Tensor>> {
    let mut total: Option<Tensor> = None;
    for (k, t) in outs.iter().enumerate().filter(|(k, t)| t.dtype() == DType::F64 && mask.has(*k)) {
        let w = BoundSample::fill((DType::F64, t.sizes(), 0.5, 1.5, 100 + k))?;
        let part = t.mul(&w)?.sum(None, false)?;
        total = Some(match total {
            None => part,
            Some(s) => s.add(&part)?,
        });
    }
    Ok(total)
}

/// Gradients against central differences; `order` 2 differentiates the gradient.
fn gradcheck(b: &BoundSample, order: usize) -> std::result::Result<(), String> {
    let wrt = differentiable(b);
    if wrt.is_empty() {
        return Ok(());
    }
    let leaves: Vec<Tensor> = wrt.iter().filter_map(|i| b.ins[*i].clone()).collect();
    let objective = || -> Result<Option<Tensor>> {
        let y = loss(&b.with(run)?, b.op.differentiable)?;
        if order == 1 {
            return Ok(y);
        }
        let Some(y) = y.filter(oneflow_autograd::requires_grad) else { return Ok(None) };
        let grads = oneflow_autograd::grad_of(&[y], &leaves, &[None], false, true)?;
        loss(&grads.into_iter().flatten().collect::<Vec<_>>(), OutMask::ALL)
    };
    for t in &leaves {
        oneflow_autograd::set_requires_grad(t, true).map_err(|e| e.to_string())?;
    }
    let y = objective().map_err(|e| e.to_string())?;
    // What was not recorded claims to be constant, and is held to that.
    let grads = match y.filter(oneflow_autograd::requires_grad) {
        Some(y) => oneflow_autograd::grad_of(&[y], &leaves, &[None], false, false).map_err(|e| e.to_string())?,
        None => vec![None; leaves.len()],
    };
    let eps = 1e-5;
    for (k, leaf) in leaves.iter().enumerate() {
        let analytic = match &grads[k] {
            Some(g) => values(g),
            None => vec![0.0; leaf.numel() as usize],
        };
        let mut numeric = Vec::new();
        for i in 0..leaf.numel() as usize {
            let at = |delta: f64| -> std::result::Result<f64, String> {
                // SAFETY: the leaf is a contiguous host tensor of doubles, and i is below its length.
                unsafe {
                    let p = leaf.data_ptr().cast::<f64>().add(i);
                    let old = p.read();
                    p.write(old + delta);
                    let y = objective();
                    p.write(old);
                    Ok(y.map_err(|e| e.to_string())?.map_or(0.0, |y| values(&y)[0]))
                }
            };
            numeric.push((at(eps)? - at(-eps)?) / (2.0 * eps));
        }
        if !close(&analytic, &numeric, 2e-5) {
            return Err(format!("input {}: gradient {analytic:?}, differences {numeric:?}", wrt[k]));
        }
    }
    Ok(())
}

fn smooth(o: &OpDef) -> bool {
    // Values that jump where a difference is taken, random values, or results that are not functions of the inputs.
    let mut excluded =
        vec!["round", "floor", "ceil", "trunc", "sign", "floor_divide", "remainder", "empty_like", "new_empty"];
    // Draws are no functions of their parameters, and these say that a derivative is missing.
    excluded.extend(["normal", "binomial", "nextafter", "special_zeta", "zeta_pair"]);
    // Sample values repeat, so that large windows hold their greatest twice: differences then move one of two.
    excluded.extend(["max_pool3d", "max_pool3d_with_indices", "adaptive_max_pool3d", "native_max_pool"]);
    // Duplicate indices: the last write wins, and torch too defines the gradient of the source for unique indices only.
    if o.name() == "scatter.src" {
        return false;
    }

    !matches!(o.grad, Grad::Never) && o.shape == ShapeOf::Inputs && !excluded.contains(&o.sig.name)
}

#[test]
fn gradients_equal_differences() {
    over_table(smooth, wide, |b| gradcheck(b, 1));
}

#[test]
fn second_gradients_equal_differences() {
    // Known gap: the second derivative of logcumsumexp does not equal differences.
    over_table(|o| smooth(o) && o.sig.name != "logcumsumexp", wide, |b| gradcheck(b, 2));
}

/// Runs a check on a broken copy of an op and demands that it fails.
fn must_fail(name: &str, broken: OpDef, check: impl Fn(&BoundSample) -> std::result::Result<(), String>) {
    setup();
    let op: &'static OpDef = Box::leak(Box::new(broken));
    let caught = (op.samples)().iter().any(|s| {
        let b = BoundSample::new(op, s, &mut |w| wide(w)).unwrap();
        check(&b).is_err()
    });
    assert!(caught, "the planted fault in {name} was not found");
}

#[test]
fn planted_faults_are_found() {
    use oneflow_core::{At, Fix, In, Out, Save};
    use oneflow_ops::{elementwise, nn, reduce, view};
    let _ = (&nn::softmax::OP, &reduce::sum::OP);
    // A gradient with the wrong sign, a gradient that forgets a factor.
    let wrong = Grad::Rule {
        save: const { &[Save::out(Out::nth(0), &[In::nth(0)])] },
        fix: Fix::None,
        f: |c, out| out.set(In::nth(0), || c.g()?.mul(c.y(Out::nth(0))?)?.neg()),
    };
    must_fail("exp", OpDef { grad: wrong, ..clone_of(&elementwise::exp::OP) }, |b| gradcheck(b, 1));
    let lost = Grad::Rule { save: &[], fix: Fix::None, f: |c, out| out.set(In::nth(0), || Ok(c.g()?.clone())) };
    must_fail("tanh", OpDef { grad: lost, ..clone_of(&elementwise::tanh::OP) }, |b| gradcheck(b, 1));
    // A first gradient that is right while the one of the gradient is not.
    must_fail(
        "gelu",
        OpDef {
            grad: Grad::Rule {
                save: const { &[Save::of(In::nth(0), &[In::nth(0)])] },
                fix: Fix::None,
                f: |c, out| out.set(In::nth(0), || c.g()?.gelu_backward(&oneflow_autograd::detach(c.x(In::nth(0))?))),
            },
            ..clone_of(&elementwise::gelu::OP)
        },
        |b| gradcheck(b, 2),
    );
    // A composition of another value, a meta with the wrong dtype, a view with a wrong stride.
    must_fail(
        "gelu_backward",
        OpDef {
            compose: Some(|c, outs| {
                outs.give(c.t(In::nth(0))?.mul(c.t(In::nth(1))?)?);
                Ok(())
            }),
            ..clone_of(&elementwise::gelu::BACKWARD)
        },
        kernel_is_compose,
    );
    must_fail(
        "transpose",
        OpDef {
            infer: |c, outs| {
                let x = c.t(In::nth(0))?;
                outs.view(In::nth(0), x, Dims::from_slice(x.sizes()), Dims::from_slice(x.strides()), x.offset())
            },
            ..clone_of(&view::transpose::OP)
        },
        |b| {
            gradcheck(b, 1).and_then(|()| {
                let plain = b.with(run).map_err(|e| e.to_string())?;
                let (d0, d1) = b.with(|c| (c.int(At::nth(0)).unwrap(), c.int(At::nth(1)).unwrap()));
                let right = b.ins[0].as_ref().unwrap().transpose(d0, d1).map_err(|e| e.to_string())?;
                same(&plain[0], &right)
            })
        },
    );
}

fn clone_of(op: &'static OpDef) -> OpDef {
    // SAFETY: a definition is plain data without a destructor; both copies live for the whole test.
    unsafe { std::ptr::read(op) }
}
