//! Every function of `Lanes` on every ISA of this machine against libm in f64, and the edges against the scalar functions.

use oneflow_kernels_prim::{Expr, Isa, MAX_PARAMS, expr};

fn run_f32(e: &Expr, isa: Isa, ins: &[&[f32]]) -> Vec<f32> {
    let mut out = vec![0.0; ins[0].len()];
    let ptrs: Vec<_> = ins.iter().map(|x| x.as_ptr()).collect();
    let steps: Vec<usize> = ins.iter().map(|x| (x.len() > 1) as usize).collect();
    // SAFETY: inputs hold as many numbers as the output (one where the step is 0).
    unsafe {
        e.tile_f32(isa).unwrap()(out.len(), ptrs.as_ptr(), steps.as_ptr(), out.as_mut_ptr(), [0.0; MAX_PARAMS].as_ptr())
    };
    out
}

fn run_f64(e: &Expr, isa: Isa, ins: &[&[f64]]) -> Vec<f64> {
    let mut out = vec![0.0; ins[0].len()];
    let ptrs: Vec<_> = ins.iter().map(|x| x.as_ptr()).collect();
    let steps: Vec<usize> = ins.iter().map(|x| (x.len() > 1) as usize).collect();
    // SAFETY: as above.
    unsafe {
        e.tile_f64(isa).unwrap()(out.len(), ptrs.as_ptr(), steps.as_ptr(), out.as_mut_ptr(), [0.0; MAX_PARAMS].as_ptr())
    };
    out
}

/// Distance in units of the last place of the expected number.
fn ulps(got: f64, want: f64, digits: i32, least: f64) -> f64 {
    if got == want || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !want.is_finite() {
        return f64::INFINITY;
    }
    let e = libm::ilogb(want).max(-1100);
    (got - want).abs() / libm::scalbn(1.0, e - digits).max(least)
}

fn ulps32(got: f32, want: f64) -> f64 {
    // Beyond the range the rounded value decides.
    if (want as f32).is_infinite() || want.is_nan() {
        return ulps(got as f64, want as f32 as f64, 23, 0.0);
    }
    ulps(got as f64, want, 23, 1.401298464324817e-45)
}

fn ulps64(got: f64, want: f64) -> f64 {
    ulps(got, want, 52, 5e-324)
}

/// Points over [lo, hi], evenly and by magnitude, both signs where the range has them.
fn points(lo: f64, hi: f64) -> Vec<f64> {
    let mut v: Vec<f64> = (0..=20_000).map(|i| lo + (hi - lo) * i as f64 / 20_000.0).collect();
    for i in 0..=4000 {
        let m = libm::exp2(-140.0 + 268.0 * i as f64 / 4000.0) * (1.0 + (i % 7) as f64 / 11.0);
        v.extend([m, -m].into_iter().filter(|m| *m >= lo && *m <= hi));
    }
    v
}

const EDGES: [f64; 17] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-40,
    -1e-40,
    3e38,
    -3e38,
    1e-5,
];

fn unary(e: &Expr, name: &str, reference: fn(f64) -> f64, lo: f64, hi: f64, bound: f64) {
    let mut xs = points(lo, hi);
    xs.extend(EDGES);
    let x32: Vec<f32> = xs.iter().map(|x| *x as f32).collect();
    for &isa in Isa::available() {
        let (mut worst, mut at) = (0.0, 0.0);
        for (x, y) in x32.iter().zip(run_f32(e, isa, &[&x32])) {
            let u = ulps32(y, reference(*x as f64));
            if u > worst || u.is_nan() {
                (worst, at) = (u, *x);
            }
        }
        assert!(worst <= bound, "{} f32 {isa:?}: {worst} ulp at {at:e}", name);
        let (mut worst64, mut at) = (0.0, 0.0);
        for (x, y) in xs.iter().zip(run_f64(e, isa, &[&xs])) {
            let u = ulps64(y, reference(*x));
            if u > worst64 || u.is_nan() {
                (worst64, at) = (u, *x);
            }
        }
        // The reference itself is off by up to one.
        assert!(worst64 <= bound + 1.0, "{} f64 {isa:?}: {worst64} ulp at {at:e}", name);
        eprintln!("{:8} {isa:?}: f32 {worst:.2} f64 {worst64:.2}", name);
    }
}

macro_rules! check {
    ($name:ident in $lo:expr, $hi:expr; $bound:expr) => {
        check!($name in $lo, $hi; $bound, libm::$name)
    };
    ($name:ident in $lo:expr, $hi:expr; $bound:expr, $reference:expr) => {{
        static E: Expr = expr!(float "", |x| x.$name());
        unary(&E, stringify!($name), $reference, $lo, $hi, $bound);
    }};
}

#[test]
fn exponentials() {
    check!(exp in -800.0, 800.0; 1.5);
    check!(exp2 in -1100.0, 1100.0; 1.5);
    check!(expm1 in -50.0, 100.0; 1.5);
    check!(tanh in -25.0, 25.0; 2.0);
    check!(sigmoid in -80.0, 80.0; 3.0, |x| 1.0 / (1.0 + libm::exp(-x)));
}

#[test]
fn the_normal_cdf_is_near_and_ends_at_zero_and_one() {
    static E: Expr = expr!(float "", |x| x.normal_cdf());
    let xs = points(-40.0, 40.0);
    let narrow: Vec<f32> = xs.iter().map(|x| *x as f32).collect();
    let want = |x: f64| 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    for &isa in Isa::available() {
        for (x, y) in narrow.iter().zip(run_f32(&E, isa, &[&narrow])) {
            assert!((y as f64 - want(*x as f64)).abs() < 2e-7, "{isa:?} {x}: {y}");
            assert!(x.abs() < 6.0 || y == if *x < 0.0 { 0.0 } else { 1.0 }, "{isa:?} {x}: {y}");
        }
        for (x, y) in xs.iter().zip(run_f64(&E, isa, &[&xs])) {
            assert!((y - want(*x)).abs() < 4e-16, "{isa:?} {x}: {y}");
        }
        assert!(run_f32(&E, isa, &[&[f32::NAN]])[0].is_nan());
    }
}

#[test]
fn logarithms() {
    check!(log in 1e-300, 1e30; 1.5);
    check!(log in 0.5, 2.0; 1.5);
    check!(log2 in 0.1, 4.0; 1.5);
    check!(log2 in 1e-300, 1e30; 1.5);
    check!(log10 in 0.1, 40.0; 1.5);
    check!(log10 in 1e-300, 1e30; 1.5);
    check!(log1p in -0.99, 3.0; 1.5);
    check!(log1p in -1.0, 1e30; 1.5);
}

#[test]
fn trigonometry() {
    check!(sin in -30.0, 30.0; 1.5);
    check!(cos in -30.0, 30.0; 1.5);
    check!(sin in -1e5, 1e5; 1.5);
    check!(cos in -1e30, 1e30; 1.5);
    check!(tan in -30.0, 30.0; 3.0);
    check!(atan in -30.0, 30.0; 2.0);
    check!(asin in -1.0, 1.0; 2.0);
    check!(acos in -1.0, 1.0; 2.0);
    check!(sinh in -100.0, 100.0; 3.0);
    check!(cosh in -100.0, 100.0; 3.0);
    check!(asinh in -1e30, 1e30; 3.0);
    check!(acosh in 1.0, 1e30; 3.0, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) });
    check!(atanh in -1.0, 1.0; 3.0);
}

#[test]
fn error_functions_and_gamma() {
    check!(erf in -7.0, 7.0; 2.0);
    check!(erfc in -7.0, 7.0; 4.0);
    check!(lgamma in 0.1, 50.0; 4.0);
    check!(lgamma in 0.0, 1e30; 4.0);
    check!(erfinv in -1.0, 1.0; 3.0, inverse_erf);
    check!(erfinv in 0.999, 1.0; 3.0, inverse_erf);
}

/// From the generic formula, improved by a step of Newton's method where the error function is not flat.
fn inverse_erf(y: f64) -> f64 {
    let x = oneflow_kernels_prim::special::erfinv(y);
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    let a = x.abs();
    let rest = if a < 0.5 { libm::erf(a) - y.abs() } else { (1.0 - y.abs()) - libm::erfc(a) };
    (a - rest * libm::exp(a * a) / std::f64::consts::FRAC_2_SQRT_PI).copysign(x)
}

#[test]
fn lgamma_of_negative_numbers() {
    static E: Expr = expr!(float "", |x| x.lgamma());
    let mut xs: Vec<f64> = (1..40_000).map(|i| -0.00211 * i as f64).collect();
    xs.extend([-1e-300, -1e-30, -1e-10, -0.5, -2.5, -1e6 - 0.5, -1.0, -2.0, -100.0, -1e18]);
    let narrow: Vec<f32> = xs.iter().map(|x| *x as f32).collect();
    for &isa in Isa::available() {
        // Near the zeros between the poles it is the absolute error that is small.
        for (x, y) in xs.iter().zip(run_f64(&E, isa, &[&xs])) {
            let want = libm::lgamma(*x);
            assert!(y == want || (y - want).abs() <= 2e-15 * want.abs().max(4.0), "{isa:?} {x:e}: {y:e} {want:e}");
        }
        for (x, y) in narrow.iter().zip(run_f32(&E, isa, &[&narrow])) {
            let want = libm::lgamma(*x as f64);
            let bound = if isa == Isa::Baseline { 1e-6 * want.abs().max(4.0) } else { 6e-8 * want.abs() + 1e-14 };
            assert!(y as f64 == want || (y as f64 - want).abs() <= bound, "f32 {isa:?} {x:e}: {y:e} {want:e}");
        }
    }
}

#[test]
fn roundings_and_roots() {
    check!(sqrt in 0.0, 1e30; 0.51);
    check!(round in -10.0, 10.0; 0.0, libm::rint);
    check!(floor in -10.0, 10.0; 0.0);
    check!(ceil in -10.0, 10.0; 0.0);
    check!(trunc in -10.0, 10.0; 0.0);
    check!(abs in -10.0, 10.0; 0.0, libm::fabs);
}

fn binary(e: &Expr, reference: fn(f64, f64) -> f64, xs: &[f64], ys: &[f64], bound: f64) {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for x in xs {
        for y in ys {
            a.push(*x);
            b.push(*y);
        }
    }
    let (a32, b32): (Vec<f32>, Vec<f32>) =
        (a.iter().map(|x| *x as f32).collect(), b.iter().map(|x| *x as f32).collect());
    for &isa in Isa::available() {
        let (mut worst, mut worst64) = (0.0f64, 0.0f64);
        for (i, y) in run_f32(e, isa, &[&a32, &b32]).into_iter().enumerate() {
            let u = ulps32(y, reference(a32[i] as f64, b32[i] as f64));
            assert!(u <= bound, "{} f32 {isa:?} ({:e}, {:e}) = {y:e}: {u} ulp", e.name, a32[i], b32[i]);
            worst = worst.max(u);
        }
        for (i, y) in run_f64(e, isa, &[&a, &b]).into_iter().enumerate() {
            let u = ulps64(y, reference(a[i], b[i]));
            assert!(u <= bound + 1.0, "{} f64 {isa:?} ({:e}, {:e}) = {y:e}: {u} ulp", e.name, a[i], b[i]);
            worst64 = worst64.max(u);
        }
        eprintln!("{:8} {isa:?}: f32 {worst:.2} f64 {worst64:.2}", e.name);
    }
}

#[test]
fn powers() {
    static POW: Expr = expr!(num "pow", |x, y| x.pow(y));
    let xs: Vec<f64> =
        (1..400).map(|i| i as f64 * 0.037).chain((0..60).map(|i| libm::exp2(i as f64 * 2.0 - 60.0) * 1.3)).collect();
    let ys: Vec<f64> = (-100..100).map(|i| i as f64 * 0.31).collect();
    binary(&POW, libm::pow, &xs, &ys, 1.6);
    // Every edge with every edge, as C says; -1e-40 to an odd power and so on.
    let edges: Vec<f64> = EDGES.into_iter().filter(|x| *x == 0.0 || x.abs() > 1e-30 || x.is_nan()).collect();
    binary(&POW, libm::pow, &edges, &edges, 1.6);
    assert_eq!(POW.eval_i64(&[3, 4], &[]), Some(81));
    assert_eq!(POW.eval_i64(&[-1, -3], &[]), Some(-1));
    assert_eq!(POW.eval_i64(&[2, -3], &[]), Some(0));
}

#[test]
fn remainders() {
    static FMOD: Expr = expr!(num "fmod", |x, y| x.rem_trunc(y));
    static REM: Expr = expr!(num "remainder", |x, y| x.rem_floor(y));
    static DIV: Expr = expr!(num "floor_divide", |x, y| x.div_floor(y));
    let xs: Vec<f64> = (-200..200).map(|i| i as f64 * 0.37).chain(EDGES).chain([1e20, -1e20, 16777216.0]).collect();
    binary(&FMOD, libm::fmod, &xs, &xs, 0.0);
    let ys: Vec<f64> = (-200..200).map(|i| i as f64 * 0.5).collect();
    binary(
        &REM,
        |a, b| {
            let r = libm::fmod(a, b);
            if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
        },
        &ys,
        &ys[..150],
        0.51,
    );
    binary(&DIV, |a, b| libm::floor(a / b), &ys, &ys[..150], 0.0);
    for (a, b, q, r) in
        [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (5, 0, 0, 0), (i64::MIN, -1, i64::MIN, 0)]
    {
        assert_eq!((DIV.eval_i64(&[a, b], &[]), REM.eval_i64(&[a, b], &[])), (Some(q), Some(r)), "{a} {b}");
    }
}

#[test]
fn extremes_take_nan_and_masks_combine() {
    static MAX: Expr = expr!(num "maximum", |x, y| x.maximum(y));
    static MIN: Expr = expr!(num "minimum", |x, y| x.minimum(y));
    static BAND: Expr = expr!(num "band", |x, y| L::from_mask((x.lt(y) | x.eq(y)) & !(x.is_nan() ^ y.is_nan())));
    for &isa in Isa::available() {
        let (a, b) = ([1.0, f32::NAN, 2.0, -1.0], [2.0, 1.0, f32::NAN, -2.0]);
        let max = run_f32(&MAX, isa, &[&a, &b]);
        let min = run_f32(&MIN, isa, &[&a, &b]);
        assert!(max[0] == 2.0 && max[1].is_nan() && max[2].is_nan() && max[3] == -1.0, "{max:?}");
        assert!(min[0] == 1.0 && min[1].is_nan() && min[2].is_nan() && min[3] == -2.0, "{min:?}");
        assert_eq!(run_f32(&BAND, isa, &[&a, &b]), [1.0, 0.0, 0.0, 0.0]);
    }
}

#[test]
fn tails_steps_and_aliasing() {
    static F: Expr = expr!(float "f", |x, y, z; p| x.fma(y, z) + p[0] * p[1]);
    let p = [3.0f32, 0.5, 0.0, 0.0, 0.0, 0.0];
    for &isa in Isa::available() {
        for n in 0..70 {
            let mut x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let (y, z) = ([2.0f32], vec![1.0f32; n]);
            let ptrs = [x.as_ptr(), y.as_ptr(), z.as_ptr()];
            // SAFETY: three inputs, the second of one number; the output is exactly the first.
            unsafe { F.tile_f32(isa).unwrap()(n, ptrs.as_ptr(), [1, 0, 1].as_ptr(), x.as_mut_ptr(), p.as_ptr()) };
            for (i, v) in x.iter().enumerate() {
                assert_eq!(*v, 2.0 * i as f32 + 2.5);
            }
        }
    }
}

#[test]
fn text() {
    static GELU: Expr = expr!(float "gelu", |x| {
        let half = L::splat(0.5);
        half * x * (L::splat(1.0) + (x * L::splat(std::f64::consts::FRAC_1_SQRT_2)).erf())
    });
    static CLAMP: Expr = expr!(num "clamp", |x; p| x.maximum(p[0]).minimum(p[1]));
    static AND: Expr = expr!(int "bitwise_and", |x, y| x.bit_and(y));
    use oneflow_base::DType::{F32, F64, I64};
    assert_eq!(GELU.cuda_text(F32).unwrap(), "return (0.5f * x0) * (1.0f + erff((x0 * 0.70710677f)));");
    assert_eq!(GELU.cuda_text(I64), None);
    assert_eq!(AND.cuda_text(F64), None);
    assert_eq!(AND.cuda_text(I64).unwrap(), "return x0 & x1;");
    assert_eq!((GELU.n_params(), CLAMP.n_params(), AND.n_params()), (0, 2, 0));
    let clamp = CLAMP.cuda_text(F64).unwrap();
    assert!(clamp.starts_with("const double t") && clamp.contains("x0 > p0 || x0 != x0 ? x0 : p0"), "{clamp}");
    let id = oneflow_kernels_prim::register_expr(&GELU);
    assert_eq!(oneflow_kernels_prim::register_expr(&GELU), id);
    assert!(std::ptr::eq(Expr::by_name("gelu").unwrap(), Expr::by_id(id).unwrap()));
    assert_eq!(GELU.id(), Some(id));
}
