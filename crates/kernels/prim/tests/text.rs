//! The text of every method, compiled by the host's C++ compiler and compared with the scalar reference.

use oneflow_base::DType;
use oneflow_kernels_prim::{Expr, expr};
use std::process::Command;

macro_rules! all {
    ($($kind:ident $name:literal |$($x:ident),+ $(; $p:ident)?| $body:expr;)*) => {
        [$({
            static E: Expr = expr!($kind $name, |$($x),+ $(; $p)?| $body);
            &E
        }),*]
    };
}

fn every_method() -> Vec<&'static Expr> {
    let mut v: Vec<&Expr> = all! {
        num "add" |x, y; p| x + p[0] * y;
        num "sub" |x, y| x - y - L::splat(-3.0);
        num "neg" |x| -x;
        num "neg_constant" |x| x * -L::splat(-2.0);
        num "abs" |x| x.abs();
        num "maximum" |x, y| x.maximum(y);
        num "minimum" |x, y| x.minimum(y);
        num "compare" |x, y| L::from_mask(x.lt(y) ^ x.le(y) | x.eq(y) & !x.ne(y) | x.gt(y) & x.ge(y));
        num "select" |x, y| L::select(x.is_true(), y, x + y);
        num "is_nan" |x| L::from_mask(x.is_nan());
        num "div_floor" |x, y| x.div_floor(y);
        num "div_trunc" |x, y| x.div_trunc(y);
        num "rem_floor" |x, y| x.rem_floor(y);
        num "rem_trunc" |x, y| x.rem_trunc(y);
        num "square" |x| x.square() + x.square();
        num "clamp" |x; p| x.maximum(p[0]).minimum(p[1]);
        num "infinite" |x| L::select(x.lt(L::splat(f64::INFINITY)), x, L::splat(f64::NEG_INFINITY));
    }
    .to_vec();
    v.extend(all! {
        int "pow" |x, y| x.pow(y);
        int "and" |x, y| x.bit_and(y);
        int "or" |x, y| x.bit_or(y);
        int "xor" |x, y| x.bit_xor(y);
        int "not" |x| x.bit_not();
        int "shl" |x, y| x.shl(y);
        int "shr" |x, y| x.shr(y);
        float "powf" |x, y| x.pow(y);
        float "div" |x, y| x / y;
        float "fma" |x, y| x.fma(y, y);
        float "sqrt" |x| x.sqrt();
        float "round" |x| x.round();
        float "floor" |x| x.floor();
        float "ceil" |x| x.ceil();
        float "trunc" |x| x.trunc();
        float "copysign" |x, y| x.copysign(y);
        float "ldexp" |x, y| x.ldexp(y.round());
        float "exp" |x| x.exp() + x.exp2() + x.expm1();
        float "log" |x| x.abs().log() + x.abs().log2() + x.abs().log10() + x.abs().log1p();
        float "sin" |x| x.sin() + x.cos();
        float "tan" |x| x.tan();
        float "arc" |x| x.atan() + (x * L::splat(0.01)).asin() + (x * L::splat(0.01)).acos();
        float "atan2" |x, y| x.atan2(y);
        float "hyperbolic" |x| x.sinh() + x.cosh() + x.tanh();
        float "area" |x| x.asinh() + (x.abs() + L::splat(1.0)).acosh() + (x * L::splat(0.01)).atanh();
        float "erf" |x| x.erf() + x.erfc();
        float "lgamma" |x| x.lgamma();
        float "recip" |x| x.recip() + x.abs().rsqrt();
        float "sigmoid" |x| x.sigmoid();
        float "is_inf" |x| L::from_mask(x.is_inf()) - L::from_mask(x.is_finite());
        float "nan" |x| L::select(x.lt(L::splat(0.0)), L::splat(f64::NAN), x);
    });
    v
}

const P: [f64; 2] = [-2.0, 3.0];
const X: [f64; 16] = [0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 7.0, -7.0, 12.0, 40.0, -40.0, 0.5, -0.25, 2.75, -5.5];

#[test]
fn compiled_text_is_the_formula() {
    if Command::new("c++").arg("--version").output().is_err() {
        eprintln!("no C++ compiler: nothing to compare with");
        return;
    }
    let exprs = every_method();
    let mut source = String::from("#include <cmath>\n#include <cstdio>\nusing namespace std;\n");
    let mut main = String::from("int main() {\n");
    for (i, e) in exprs.iter().enumerate() {
        for (dtype, t) in [(DType::F32, "float"), (DType::F64, "double"), (DType::I64, "long long")] {
            let Some(body) = e.cuda_text(dtype) else { continue };
            let args: Vec<String> = (0..e.arity)
                .map(|k| format!("{t} x{k}"))
                .chain((0..e.n_params()).map(|k| format!("{t} p{k}")))
                .collect();
            source += &format!("static inline {t} f{i}_{}({}) {{ {body} }}\n", dtype.name(), args.join(", "));
            let scalars: String = P[..e.n_params()].iter().map(|p| format!(", ({t}){p:?}")).collect();
            let pairs: Vec<String> =
                X.iter().flat_map(|x| X.iter().map(move |y| format!("{{{x:?}, {y:?}}}"))).collect();
            let call = if e.arity == 1 { "(T)v[0]" } else { "(T)v[0], (T)v[1]" }.replace('T', t);
            main += &format!(
                "for (auto& v : (double[][2]){{{}}}) printf(\"%.17g\\n\", (double)f{i}_{}({call}{scalars}));\n",
                pairs.join(","),
                dtype.name(),
            );
        }
    }
    source += &main;
    source += "}\n";
    let dir = std::env::temp_dir().join(format!("oneflow-text-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (cpp, exe) = (dir.join("text.cpp"), dir.join("text"));
    std::fs::write(&cpp, source).unwrap();
    let built = Command::new("c++")
        .args(["-std=c++17", "-O1", "-fwrapv", "-ffp-contract=off", "-o"])
        .arg(&exe)
        .arg(&cpp)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let run = Command::new(&exe).output().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(run.status.success(), "the compiled text crashed");
    let text = String::from_utf8(run.stdout).unwrap();
    let mut lines = text.lines();
    for e in exprs {
        for dtype in [DType::F32, DType::F64, DType::I64] {
            if !e.computes_in(dtype) {
                continue;
            }
            for x in X {
                for y in X {
                    let got: f64 = lines.next().unwrap().parse().unwrap();
                    let v = &[x, y][..e.arity];
                    let want = match dtype {
                        DType::F32 => e
                            .eval_f32(&v.iter().map(|x| *x as f32).collect::<Vec<_>>(), &P.map(|p| p as f32))
                            .unwrap() as f64,
                        DType::F64 => e.eval_f64(v, &P).unwrap(),
                        _ => {
                            e.eval_i64(&v.iter().map(|x| *x as i64).collect::<Vec<_>>(), &P.map(|p| p as i64)).unwrap()
                                as f64
                        }
                    };
                    let close = (got - want).abs() <= 2e-6 * (1.0 + want.abs());
                    assert!(
                        got == want || (got.is_nan() && want.is_nan()) || close,
                        "{} {dtype} {v:?}: {got} {want}",
                        e.name
                    );
                }
            }
        }
    }
    assert!(lines.next().is_none());
}
