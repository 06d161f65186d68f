//! The exponential of a matrix: scaling and squaring around the Padé approximant of degree 13 (Higham, "The scaling and
//! squaring method for the matrix exponential revisited", 2005).

use crate::{Field, Real};
use faer::linalg::matmul::matmul;
use faer::linalg::solvers::Solve;
use faer::traits::math_utils::{abs, from_f64, imag, nan, one, real, sqrt, zero};
use faer::{Accum, Mat, MatMut, MatRef, Par};

/// `W` is `T` with the parts of f64: squaring a result many times takes its exactness.
pub(crate) fn matrix_exp<T: Field, W: Field>(a: MatRef<'_, T>, mut out: MatMut<'_, T>) {
    if !a.is_all_finite() {
        return out.fill(nan());
    }
    let n = a.nrows();
    let result = exponential(Mat::from_fn(n, n, |i, j| convert::<T, W>(a[(i, j)])).as_ref());
    (0..n).for_each(|j| (0..n).for_each(|i| out[(i, j)] = convert::<W, T>(result[(i, j)])));
}

/// The same number in parts of another width. Real types have no imaginary part to lose.
fn convert<A: Field, B: Field>(v: A) -> B {
    let part = |r: A::Real| from_f64::<B>(r.to_f64());
    match A::IS_REAL {
        true => part(real(&v)),
        false => part(real(&v)) + part(imag(&v)) * imaginary_unit::<B>(),
    }
}

fn imaginary_unit<B: Field>() -> B {
    sqrt(&from_f64::<B>(-1.0))
}

const PADE: [f64; 14] = [
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
];
/// Up to this norm the approximant is as exact as f64.
const THETA: f64 = 5.371920351148152;

fn exponential<T: Field>(a: MatRef<'_, T>) -> Mat<T> {
    let n = a.nrows();
    let norm = (0..n).map(|j| (0..n).map(|i| abs(&a[(i, j)]).to_f64()).sum::<f64>()).fold(0.0, f64::max);
    // Beyond the exponents of f64 nothing is left to halve, and a norm may overflow.
    let squarings = if norm > THETA { (norm / THETA).log2().ceil().min(1100.0) as i32 } else { 0 };
    let a = scaled(a, 0.5f64.powi(squarings));
    let times = |x: &Mat<T>, y: &Mat<T>| {
        let mut out = Mat::<T>::zeros(n, n);
        matmul(out.as_mut(), Accum::Replace, x.as_ref(), y.as_ref(), one::<T>(), Par::Seq);
        out
    };
    // sum of c[k] * powers[k]; the first power is the identity.
    let a2 = times(&a, &a);
    let a4 = times(&a2, &a2);
    let a6 = times(&a4, &a2);
    let combine = |c: [f64; 4], with_identity: bool| {
        Mat::<T>::from_fn(n, n, |i, j| {
            let unit: T = if with_identity && i == j { from_f64(c[0]) } else { zero() };
            let term = |m: &Mat<T>, c: f64| m[(i, j)] * from_f64::<T>(c);
            unit + term(&a2, c[1]) + term(&a4, c[2]) + term(&a6, c[3])
        })
    };
    let p = &PADE;
    let odd = times(&a6, &combine([0.0, p[9], p[11], p[13]], false)) + combine([p[1], p[3], p[5], p[7]], true);
    let odd = times(&a, &odd);
    let even = times(&a6, &combine([0.0, p[8], p[10], p[12]], false)) + combine([p[0], p[2], p[4], p[6]], true);
    let mut out = (&even - &odd).partial_piv_lu().solve(&even + &odd);
    for _ in 0..squarings {
        out = times(&out, &out);
    }
    out
}

fn scaled<T: Field>(a: MatRef<'_, T>, factor: f64) -> Mat<T> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] * from_f64::<T>(factor))
}
