//! Every expression of the op table as CUDA text: it means what the CPU computes, and it compiles for real GPUs. No GPU is
//! needed; a C++ compiler and NVRTC are, which is an error under CI and said elsewhere.

use oneflow_base::{Arg, DType, Device};
use oneflow_core::{BoundSample, Kernel, Lowered, Outs, Tensor, Ty};
use oneflow_ep::cuda;
use oneflow_kernels_cuda::{Text, all_sources, expr_sources, host_check};
use oneflow_kernels_prim::{Expr, Params, register_expr};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

/// Everything that elementwise ops lower to: for their samples, in every dtype class, with tensors and with numbers.
fn expressions() -> &'static [&'static Expr] {
    static ALL: OnceLock<Vec<&'static Expr>> = OnceLock::new();
    ALL.get_or_init(|| {
        oneflow_ops::register();
        let mut found: Vec<&'static Expr> = Vec::new();
        for op in oneflow_core::ops() {
            let mut n = 0;
            for sample in (op.samples)() {
                for dtype in [None, Some(DType::F32), Some(DType::I64), Some(DType::Bool)] {
                    let retype = |d: DType| if d == DType::F32 { dtype.unwrap_or(d) } else { d };
                    // Metas are enough: nothing is launched.
                    let bound = BoundSample::new(op, &sample, &mut |(d, sizes, ..)| {
                        Tensor::empty(retype(d), Device::CPU, sizes)
                    });
                    let Ok(bound) = bound else { continue };
                    for number in [None, Some(Arg::Float(1.5)), Some(Arg::Int(2))] {
                        if let Some(e) = lowered(&bound, number) {
                            n += 1;
                            if !found.iter().any(|f| std::ptr::eq(*f, e)) {
                                found.push(e);
                            }
                        }
                    }
                }
            }
            assert!(n > 0 || !matches!(op.kernel, Kernel::Elementwise(_)), "{}: no sample is lowered", op.name());
        }
        found.iter().for_each(|e| {
            register_expr(e);
        });
        found
    })
}

/// The expression of a call, with `number` for each operand that may be one.
fn lowered(b: &BoundSample, number: Option<Arg<'_>>) -> Option<&'static Expr> {
    b.with(|c| {
        let (mut ins, mut args) = (c.ins.to_vec(), c.args.to_vec());
        if let Some(number) = number {
            let params = c.op.sig.params();
            let either = params.iter().position(|p| p.ty == Ty::TensorOrScalar)?;
            // Only single tensors stand before it in the signatures at hand.
            let (input, arg) = (
                params[..either].iter().filter(|p| p.is_input()).count(),
                params[..either].iter().filter(|p| p.is_arg()).count(),
            );
            *ins.get_mut(input)? = None;
            *args.get_mut(arg)? = number;
        }
        let c = oneflow_core::Call { ins: &ins, args: &args, ..*c };
        let mut outs = Outs::new();
        (c.op.infer)(&c, &mut outs).ok()?;
        match c.op.kernel {
            Kernel::Elementwise(lower) => lower(&c, &outs, &mut Params::new()).ok(),
            Kernel::Prim { prim, lower } => {
                let mut l = Lowered::new(prim);
                lower(&c, &outs, &mut l).ok()?;
                l.expr
            }
            _ => None,
        }
    })
}

/// Whether the test may be left out because a tool is missing: never under CI.
fn may_skip(what: &str) -> bool {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{what}");
    eprintln!("not run: {what}");
    true
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("expressions-{name}-{}", std::process::id()))
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = expressions().iter().map(|e| e.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|w| w[0] != w[1]), "{names:?}");
    assert!(names.len() > 70, "{}", names.len());
}

#[test]
fn texts_mean_what_the_cpu_computes() {
    if std::process::Command::new("g++").arg("--version").output().is_err() && may_skip("no g++") {
        return;
    }
    let n = host_check::compare(expressions(), &directory("right"), |t| t).unwrap();
    assert!(n > 20_000, "{n}");
    // Planted: one function of one expression is another.
    let wrong = host_check::compare(expressions(), &directory("wrong"), |t| t.replacen("tanhf(", "sinhf(", 1));
    assert!(wrong.unwrap_err().to_string().contains("by the text and"));
    for d in ["right", "wrong"] {
        let _ = std::fs::remove_dir_all(directory(d));
    }
}

/// What the compiler says of texts, on two threads.
fn errors(texts: &[Text], arch: &str) -> Vec<String> {
    let (next, errors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while let Some(t) = texts.get(next.fetch_add(1, Relaxed)) {
                    let e = match cuda::compile(t, arch) {
                        Ok(code) if code.starts_with(b"\x7fELF") => continue,
                        Ok(_) => format!("{}: no machine code", t.name),
                        Err(e) => e.text().to_string(),
                    };
                    errors.lock().unwrap_or_else(|e| e.into_inner()).push(e);
                }
            });
        }
    });
    errors.into_inner().unwrap_or_else(|e| e.into_inner())
}

#[test]
fn texts_compile_for_ampere_and_hopper() {
    if let Err(e) = cuda::nvrtc()
        && may_skip(&e.to_string())
    {
        return;
    }
    // The templates of the families are compiled by the tests of their own crate; `all_sources` knows the registered expressions.
    let of_table: Vec<Text> = expressions().iter().flat_map(|e| expr_sources(e).unwrap()).collect();
    let all = all_sources().unwrap();
    assert!(of_table.iter().all(|t| all.iter().any(|a| a.source == t.source)));
    let mut seen = HashSet::new();
    let texts: Vec<Text> = of_table.into_iter().filter(|t| seen.insert(t.source.clone())).collect();
    assert!(texts.len() > 200, "{}", texts.len());
    for arch in ["sm_80", "sm_90a"] {
        let errors = errors(&texts, arch);
        assert!(errors.is_empty(), "{} of {} texts:\n{}", errors.len(), texts.len(), errors.join("\n---\n"));
    }
}
