//! Inverse trigonometric, hyperbolic and complementary error functions on any register, within three ulp (erfc four).
//!
//! As in `math`: the same operations on every register, near-minimax polynomials computed to sixty digits.

use super::Register;
use super::math::{exp, expm1, log, log1p, poly, sin_cos};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, PI};

/// What the head of pi / 2 lacks in the register's precision.
#[inline(always)]
fn half_pi_low<R: Register>() -> R {
    R::splat(if R::DOUBLE { 6.123233995736766e-17 } else { -4.371139000186241e-8 })
}

#[inline(always)]
pub fn tan<R: Register>(x: R, scalar: fn(R::Elem) -> R::Elem) -> R {
    match sin_cos(x) {
        Some((s, c)) => s / c,
        None => x.map(scalar),
    }
}

#[inline(always)]
pub fn atan<R: Register>(x: R) -> R {
    let (zero, one) = (R::splat(0.0), R::splat(1.0));
    let a = x.abs();
    // tan(3 pi / 8) and tan(pi / 8).
    let far = R::splat(2.414213562373095).lt(a);
    let mid = R::splat(0.4142135623730951).lt(a);
    let r = R::select(far, -one / a, R::select(mid, (a - one) / (a + one), a));
    let base = R::select(far, R::splat(FRAC_PI_2), R::select(mid, R::splat(FRAC_PI_4), zero));
    let low = half_pi_low::<R>();
    let low = R::select(far, low, R::select(mid, low * R::splat(0.5), zero));
    let z = r * r;
    let p = if R::DOUBLE { poly(z, &ATAN) } else { poly(z, &ATAN_SINGLE) };
    let y = base + ((r * z).fma(p, low) + r);
    R::select(x.is_nan(), x, y.copysign(x))
}

#[inline(always)]
pub fn atan2<R: Register>(y: R, x: R) -> R {
    let (zero, one, inf) = (R::splat(0.0), R::splat(1.0), R::splat(f64::INFINITY));
    let (a, b) = (y.abs(), x.abs());
    let both = a.eq(inf) & b.eq(inf);
    let q = R::select(both, one, R::select(a.eq(zero), zero, a / b));
    let t = atan(q);
    let left = one.copysign(x).lt(zero);
    let t = R::select(left, (R::splat(PI) - t) + half_pi_low::<R>() * R::splat(2.0), t);
    R::select(x.is_nan() | y.is_nan(), x + y, t.copysign(y))
}

/// `asin(r) - r` for `r * r = z`, 0 <= z <= 1/4.
#[inline(always)]
fn asin_tail<R: Register>(r: R, z: R) -> R {
    r * z * if R::DOUBLE { poly(z, &ASIN) } else { poly(z, &ASIN_SINGLE) }
}

/// What rounding took from a square root.
#[inline(always)]
fn root_low<R: Register>(rooted: R::Mask, r: R, z: R) -> R {
    let zero = R::splat(0.0);
    R::select(rooted & r.ne(zero), (-r).fma(r, z) / (r + r), zero)
}

#[inline(always)]
pub fn asin<R: Register>(x: R) -> R {
    let (one, half) = (R::splat(1.0), R::splat(0.5));
    let a = x.abs();
    let outer = half.lt(a);
    let z = R::select(outer, (one - a) * half, a * a);
    let r = R::select(outer, z.sqrt(), a);
    let t = r + (asin_tail(r, z) + root_low(outer, r, z));
    let y = R::select(outer, R::splat(FRAC_PI_2) - (t + t - half_pi_low::<R>()), t);
    R::select(one.lt(a), R::splat(f64::NAN), y.copysign(x))
}

#[inline(always)]
pub fn acos<R: Register>(x: R) -> R {
    let (zero, one, half) = (R::splat(0.0), R::splat(1.0), R::splat(0.5));
    let a = x.abs();
    let outer = half.lt(a);
    let z = R::select(outer, (one - a) * half, a * a);
    let r = R::select(outer, z.sqrt(), a);
    let t = r + (asin_tail(r, z) + root_low(outer, r, z));
    let (low, left) = (half_pi_low::<R>(), x.lt(zero));
    let middle = R::splat(FRAC_PI_2) - (R::select(left, -t, t) - low);
    let edge = R::select(left, R::splat(PI) - (t + t - (low + low)), t + t);
    let y = R::select(outer, edge, middle);
    R::select(one.lt(a), R::splat(f64::NAN), R::select(x.is_nan(), x, y))
}

/// Where `exp(x)` is too large for its half to be formed after it.
#[inline(always)]
fn is_huge<R: Register>(a: R) -> R::Mask {
    R::splat(if R::DOUBLE { 709.0 } else { 88.0 }).lt(a)
}

/// `exp(a) / 2` for the largest arguments.
#[inline(always)]
fn half_exp<R: Register>(a: R) -> R {
    let h = exp(a * R::splat(0.5));
    h * R::splat(0.5) * h
}

#[inline(always)]
pub fn sinh<R: Register>(x: R) -> R {
    let (one, a) = (R::splat(1.0), x.abs());
    let t = expm1(a);
    let y = (t + t / (t + one)) * R::splat(0.5);
    R::select(x.is_nan(), x, R::select(is_huge(a), half_exp(a), y).copysign(x))
}

#[inline(always)]
pub fn cosh<R: Register>(x: R) -> R {
    let a = x.abs();
    let e = exp(a);
    let y = (e + R::splat(1.0) / e) * R::splat(0.5);
    R::select(is_huge(a), half_exp(a), y)
}

#[inline(always)]
pub fn asinh<R: Register>(x: R) -> R {
    let (one, a) = (R::splat(1.0), x.abs());
    let z = a * a;
    let near = log1p(a + z / (one + (z + one).sqrt()));
    let y = R::select(R::splat(1e8).lt(a), log(a) + R::splat(LN_2), near);
    R::select(x.is_nan(), x, y.copysign(x))
}

#[inline(always)]
pub fn acosh<R: Register>(x: R) -> R {
    let one = R::splat(1.0);
    let t = x - one;
    let near = log1p(t + (t * t + t + t).sqrt());
    let y = R::select(R::splat(1e8).lt(x), log(x) + R::splat(LN_2), near);
    R::select(x.lt(one), R::splat(f64::NAN), y)
}

#[inline(always)]
pub fn atanh<R: Register>(x: R) -> R {
    let (one, a) = (R::splat(1.0), x.abs());
    let y = R::splat(0.5) * log1p((a + a) / (one - a));
    R::select(one.lt(a), R::splat(f64::NAN), R::select(x.is_nan(), x, y.copysign(x)))
}

/// `exp(-a * a)`: the square in two words.
#[inline(always)]
fn exp_minus_square<R: Register>(a: R) -> R {
    let z = a * a;
    let low = a.fma(a, -z);
    let e = exp(-z);
    e - e * low
}

#[inline(always)]
pub fn erfc<R: Register>(x: R) -> R {
    let (one, a) = (R::splat(1.0), x.abs());
    let near = one - super::math::erf(x);
    // Beyond the limit it is zero, and the square of infinity less itself is none.
    let limit = R::splat(if R::DOUBLE { 28.0 } else { 11.0 });
    let b = R::select(limit.lt(a), limit, a);
    let tail = exp_minus_square(b) * super::special::erfcx_tail(b);
    let far = R::select(x.lt(R::splat(0.0)), R::splat(2.0) - tail, tail);
    R::select(x.is_nan(), x, R::select(a.lt(R::splat(0.5)), near, far))
}

/// `(atan(r) / r - 1) / r^2` in r^2, |r| <= tan(pi / 8).
const ATAN: [f64; 11] = [
    -0.3333333333333333,
    0.19999999999995643,
    -0.14285714284690054,
    0.11111111016993042,
    -0.09090904643318888,
    0.07692184597340589,
    -0.06664529928267222,
    0.058582992548110675,
    -0.05086189029096897,
    0.039251789809503355,
    -0.019200190093082433,
];
/// The same for single precision.
const ATAN_SINGLE: [f64; 5] = [-0.3333333, 0.1999955, -0.14264223, 0.107462, -0.06459047];
/// `(asin(r) / r - 1) / r^2` in r^2, |r| <= 1/2.
const ASIN: [f64; 12] = [
    0.16666666666666646,
    0.07500000000021978,
    0.04464285710146497,
    0.030381947490254527,
    0.022372043664706378,
    0.017355334434132383,
    0.013928781847841392,
    0.011882032645784928,
    0.0077714397645414456,
    0.016129764409156828,
    -0.010908304349000406,
    0.028285381520428275,
];
/// The same for single precision.
const ASIN_SINGLE: [f64; 6] = [0.16666666, 0.07500099, 0.04459803, 0.031116156, 0.01707786, 0.033805747];
