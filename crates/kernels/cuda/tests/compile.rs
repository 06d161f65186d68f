//! Every kernel text compiles to machine code, without a GPU. Needs the compiler's library: `ONEFLOW_CUDA_LIB_DIRS` names
//! its directory; where that is unset and none is installed, the test says so and passes.

use oneflow_ep::cuda;
use oneflow_kernels_cuda::{Text, all_sources, expr_sources};
use oneflow_kernels_prim::{Expr, expr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static GELU: Expr = expr!(float "test_gelu", |x| {
    x * L::splat(0.5) * (L::splat(1.0) + (x * L::splat(std::f64::consts::FRAC_1_SQRT_2)).erf())
});
static ADD: Expr = expr!(num "test_add", |x, y; p| x + p[0] * y);
static POW: Expr = expr!(num "test_pow", |x, y| x.pow(y).maximum(x.rem_floor(y)));

fn compile_all(texts: &[Text], arch: &str) -> Vec<String> {
    let (next, errors) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while let Some(t) = texts.get(next.fetch_add(1, Relaxed)) {
                    match cuda::compile(t, arch) {
                        Ok(code) => assert!(code.starts_with(b"\x7fELF"), "{}", t.name),
                        Err(e) => errors.lock().unwrap().push(e.text().to_string()),
                    }
                }
            });
        }
    });
    errors.into_inner().unwrap()
}

#[test]
fn every_text_compiles_for_ampere_and_hopper() {
    let mut texts = all_sources().unwrap();
    for e in [&GELU, &ADD, &POW] {
        texts.extend(expr_sources(e).unwrap());
    }
    assert!(texts.len() > 250, "{}", texts.len());
    if let Err(e) = cuda::nvrtc() {
        assert!(std::env::var_os("ONEFLOW_CUDA_LIB_DIRS").is_none_or(|v| v.is_empty()), "{e}");
        eprintln!("not compiled: {e}");
        return;
    }
    for arch in ["sm_80", "sm_90a"] {
        let errors = compile_all(&texts, arch);
        assert!(errors.is_empty(), "{} of {} texts:\n{}", errors.len(), texts.len(), errors.join("\n---\n"));
    }
}

#[test]
fn a_planted_error_is_found() {
    if cuda::nvrtc().is_err() {
        return;
    }
    let mut t = all_sources().unwrap().swap_remove(0);
    t.source.push_str("D f32 planted() { return not_there; }");
    let errors = compile_all(&[t], "sm_80");
    assert!(errors.len() == 1 && errors[0].contains("not_there"));
}
