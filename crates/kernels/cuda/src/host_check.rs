//! For tests: an expression's CUDA text, compiled by the host's C++ compiler, against the expression's own reference.
//!
//! The text is the one the GPU gets; only the mathematical functions are the host's.

use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::{Expr, MAX_PARAMS};
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Largest difference, relative to the larger of one and the value: a few ulp, amplified by an expression's cancellation.
const TOLERANCE_F32: f64 = 2e-5;
const TOLERANCE_F64: f64 = 1e-12;
const SAMPLES: usize = 400;

/// A C++ file with one function an expression and compute dtype: `extern "C" T f{i}_{dtype}(const T* x, const T* p)`.
pub fn source(exprs: &[&Expr]) -> String {
    let mut out = String::from("#include <math.h>\n");
    for (i, e) in exprs.iter().enumerate() {
        for (dtype, t) in [(DType::F32, "float"), (DType::F64, "double"), (DType::I64, "long long")] {
            let Some(body) = e.cuda_text(dtype) else { continue };
            let formals = (0..e.arity).map(|k| format!("{t} x{k}")).chain((0..MAX_PARAMS).map(|k| format!("{t} p{k}")));
            let actuals = (0..e.arity).map(|k| format!("x[{k}]")).chain((0..MAX_PARAMS).map(|k| format!("p[{k}]")));
            let (formals, actuals) = (formals.collect::<Vec<_>>().join(", "), actuals.collect::<Vec<_>>().join(", "));
            let _ = writeln!(out, "// {}\nstatic {t} g{i}_{dtype}({formals}) {{\n{body}\n}}", e.name);
            let _ = writeln!(
                out,
                "extern \"C\" {t} f{i}_{dtype}(const {t}* x, const {t}* p) {{ return g{i}_{dtype}({actuals}); }}"
            );
        }
    }
    out
}

/// Compiles and compares; gives the number of values compared, or what differs. `text` may change the source first.
pub fn compare(exprs: &[&'static Expr], directory: &Path, text: impl Fn(String) -> String) -> Result<usize> {
    let fail = |what: String| Error::runtime(format!("host check: {what}"));
    std::fs::create_dir_all(directory).map_err(|e| fail(e.to_string()))?;
    let (cpp, so) = (directory.join("exprs.cpp"), directory.join("exprs.so"));
    std::fs::write(&cpp, text(source(exprs))).map_err(|e| fail(e.to_string()))?;
    let done = Command::new("g++")
        .args(["-std=c++17", "-O1", "-w", "-fwrapv", "-ffp-contract=off", "-shared", "-fPIC", "-o"])
        .args([&so, &cpp])
        .output()
        .map_err(|e| fail(format!("g++: {e}")))?;
    if !done.status.success() {
        return Err(fail(String::from_utf8_lossy(&done.stderr).into_owned()));
    }
    // SAFETY: the library was just made and has no initialisers.
    let lib = unsafe { libloading::Library::new(&so) }.map_err(|e| fail(e.to_string()))?;
    let mut n = 0;
    for (i, e) in exprs.iter().enumerate() {
        macro_rules! check {
            ($t:ty, $dtype:ident, $eval:ident, $tolerance:expr, $sample:expr) => {
                if e.computes_in(DType::$dtype) {
                    let name = format!("f{i}_{}\0", DType::$dtype);
                    // SAFETY: `source` declares the function so.
                    let f = unsafe { lib.get::<unsafe extern "C" fn(*const $t, *const $t) -> $t>(name.as_bytes()) };
                    let f = f.map_err(|e| fail(e.to_string()))?;
                    for s in 0..SAMPLES {
                        let x: Vec<$t> = (0..e.arity).map(|k| $sample(s, k)).collect();
                        let p: Vec<$t> = (0..MAX_PARAMS).map(|k| $sample(s / 7 + 3, k + 9)).collect();
                        if e.nonzero.is_some_and(|k| x[k] == 0 as $t) && DType::$dtype == DType::I64 {
                            continue;
                        }
                        let Some(want) = e.$eval(&x, &p) else { return Err(fail(format!("{}: no reference", e.name))) };
                        // SAFETY: the arrays hold arity and MAX_PARAMS numbers.
                        let got = unsafe { f(x.as_ptr(), p.as_ptr()) };
                        if !near(want as f64, got as f64, $tolerance) {
                            return Err(fail(format!(
                                "{} in {}: f({x:?}, {p:?}) is {got:?} by the text and {want:?} by the reference:\n{}",
                                e.name,
                                DType::$dtype,
                                e.cuda_text(DType::$dtype).unwrap_or_default()
                            )));
                        }
                        n += 1;
                    }
                }
            };
        }
        check!(f32, F32, eval_f32, TOLERANCE_F32, |s, k| real(s, k) as f32);
        check!(f64, F64, eval_f64, TOLERANCE_F64, real);
        check!(i64, I64, eval_i64, 0.0, integer);
    }
    Ok(n)
}

fn near(want: f64, got: f64, tolerance: f64) -> bool {
    want == got || (want.is_nan() && got.is_nan()) || (want - got).abs() <= tolerance * want.abs().max(1.0)
}

fn hash(s: usize, k: usize) -> u64 {
    let mut h = (s as u64 * 31 + k as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^= h >> 29;
    h = h.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h ^ (h >> 32)
}

/// Numbers of every magnitude that matters, and the edges.
fn real(s: usize, k: usize) -> f64 {
    const EDGES: [f64; 12] =
        [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e-5, 90.0, -90.0];
    let h = hash(s, k);
    let unit = (h >> 40) as f64 / (1u64 << 23) as f64 - 1.0;
    match h % 4 {
        0 => EDGES[(h >> 8) as usize % EDGES.len()],
        1 => unit,
        2 => unit * 4.0,
        // Integral: what remainders, powers and shifts branch on.
        _ => (unit * 6.0).round(),
    }
}

fn integer(s: usize, k: usize) -> i64 {
    const EDGES: [i64; 8] = [0, 1, -1, 2, i64::MAX, i64::MIN, 63, 64];
    let h = hash(s, k);
    if h.is_multiple_of(4) { EDGES[(h >> 8) as usize % EDGES.len()] } else { (h >> 40) as i64 % 21 - 10 }
}
