//! Every function an expression can call: CUDA text compiled for the host against the reference.

use oneflow_kernels_cuda::host_check::compare;
use oneflow_kernels_prim::{Expr, expr};
use std::path::{Path, PathBuf};

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("host-{name}-{}", std::process::id()))
}

macro_rules! exprs {
    ($($kind:ident |$($x:ident),+ $(; $p:ident)?| $body:expr;)*) => {
        &[$({
            static E: Expr = expr!($kind "host_check", |$($x),+ $(; $p)?| $body);
            &E
        }),*]
    };
}

#[test]
fn texts_mean_what_the_formulas_mean() {
    if std::process::Command::new("g++").arg("--version").output().is_err() {
        eprintln!("not run: no g++");
        return;
    }
    let exprs: &[&'static Expr] = exprs! {
        num |x, y; p| x + p[0] * y - p[1];
        num |x, y| L::select(x.lt(y) & !x.eq(y), x.abs(), -y);
        num |x, y| x.maximum(y).minimum(x * x);
        num |x, y| L::from_mask(x.le(y) ^ x.is_nan());
        num |x, y| x.div_floor(y);
        num |x, y| x.div_trunc(y);
        num |x, y| x.rem_floor(y);
        num |x, y| x.rem_trunc(y);
        num |x, y| x.pow(y);
        int |x, y| x.bit_and(y).bit_or(x.bit_xor(y.bit_not()));
        int |x, y| x.shl(y);
        int |x, y| x.shr(y);
        float |x, y, z| x.fma(y, z);
        float |x, y| x / y;
        float |x| x.sqrt();
        float |x| x.round() + x.floor() + x.ceil() + x.trunc();
        float |x, y| x.copysign(y);
        float |x| x.exp();
        float |x| x.exp2();
        float |x| x.expm1();
        float |x| x.log();
        float |x| x.log2();
        float |x| x.log10();
        float |x| x.log1p();
        float |x| x.sin() + x.cos();
        float |x| x.tan();
        float |x| x.asin();
        float |x| x.acos();
        float |x| x.atan();
        float |x, y| x.atan2(y);
        float |x| x.sinh();
        float |x| x.cosh();
        float |x| x.tanh();
        float |x| x.asinh();
        float |x| x.abs().acosh();
        float |x| x.atanh();
        float |x| x.erf();
        float |x| x.erfc();
        float |x| x.lgamma();
        float |x| x.sigmoid();
        float |x| x.recip() + x.rsqrt();
        float |x| L::from_mask(x.is_inf() | x.is_finite()) + L::splat(f64::INFINITY).recip();
    };
    let n = compare(exprs, &directory("right"), |s| s).unwrap();
    assert!(n > 20_000, "{n}");
}

#[test]
fn a_planted_fault_is_found() {
    if std::process::Command::new("g++").arg("--version").output().is_err() {
        return;
    }
    static GELU: Expr = expr!(float "planted_gelu", |x| x * (L::splat(1.0) + x.erf()));
    let wrong = |s: String| {
        assert!(s.contains("erff("));
        s.replace("erff(", "tanhf(")
    };
    let e = compare(&[&GELU], &directory("wrong"), wrong).unwrap_err();
    assert!(e.text().contains("planted_gelu in float32"), "{e}");
}
