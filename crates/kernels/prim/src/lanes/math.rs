//! Transcendental functions on any register, from fused multiply-adds.
//!
//! Cody-Waite reductions and polynomials (near-minimax, computed to sixty digits) for both precisions, two ulp or better
//! everywhere (`tests/lanes.rs` measures it). The same operations in the same order on every register, so results do not
//! depend on the ISA. Where a reduction would need more than a few words the whole register falls back to the scalar function.

use super::{Lanes, Num, Register};

/// `c[0] + x (c[1] + x (c[2] + ..))`.
#[inline(always)]
pub(super) fn poly<R: Lanes>(x: R, c: &[f64]) -> R {
    let mut acc = R::splat(c[c.len() - 1]);
    let mut i = c.len() - 1;
    while i > 0 {
        i -= 1;
        acc = acc.fma(x, R::splat(c[i]));
    }
    acc
}

const LN2: [f64; 2] = [0.6931471824645996, -1.904654212e-9];
const LN2_DOUBLE: [f64; 2] = [std::f64::consts::LN_2, 2.3190468138462996e-17];
const LOG2_E: f64 = std::f64::consts::LOG2_E;

/// The high and low word of ln 2 in the register's precision.
#[inline(always)]
fn ln2<R: Register>() -> (R, R) {
    let [hi, lo] = if R::DOUBLE { LN2_DOUBLE } else { LN2 };
    (R::splat(hi), R::splat(lo))
}

/// `v` within [lo, hi]; NaN stays.
#[inline(always)]
fn clamp<R: Register>(v: R, lo: f64, hi: f64) -> R {
    v.clamp(R::splat(lo), R::splat(hi))
}

/// `exp(r) - 1` for |r| <= ln 2 / 2.
#[inline(always)]
fn expm1_core<R: Register>(r: R) -> R {
    let q = if R::DOUBLE {
        poly(
            r,
            &[
                0.5000000000000001,
                0.16666666666666669,
                0.04166666666662413,
                0.008333333333330062,
                0.0013888888917213717,
                0.00019841269863053618,
                2.4801521295954376e-05,
                2.7557268459997064e-06,
                2.7620088445409746e-07,
                2.510038549551032e-08,
            ],
        )
    } else {
        poly(r, &[0.5, 0.16666576, 0.041666556, 0.008363179, 0.0013926184])
    };
    (r * r).fma(q, r)
}

/// `x = n ln 2 + r`.
#[inline(always)]
fn reduce_ln2<R: Register>(x: R) -> (R, R) {
    let (hi, lo) = ln2::<R>();
    let n = (x * R::splat(LOG2_E)).round();
    let r = (-n).fma(hi, x);
    (n, (-n).fma(lo, r))
}

#[inline(always)]
pub fn exp<R: Register>(x: R) -> R {
    let x = if R::DOUBLE { clamp(x, -746.0, 710.0) } else { clamp(x, -104.0, 89.0) };
    let (n, r) = reduce_ln2(x);
    (expm1_core(r) + R::splat(1.0)).scale(n)
}

#[inline(always)]
pub fn exp2<R: Register>(x: R) -> R {
    let x = if R::DOUBLE { clamp(x, -1080.0, 1025.0) } else { clamp(x, -152.0, 129.0) };
    let n = x.round();
    let r = (x - n) * R::splat(std::f64::consts::LN_2);
    (expm1_core(r) + R::splat(1.0)).scale(n)
}

#[inline(always)]
pub fn expm1<R: Register>(x: R) -> R {
    let v = if R::DOUBLE { clamp(x, -40.0, 710.0) } else { clamp(x, -20.0, 89.0) };
    let (n, r) = reduce_ln2(v);
    // 2^n q + (2^n - 1), halved so that the largest exponent does not overflow too early.
    let half = R::splat(0.5);
    let s = (n - R::splat(1.0)).pow2();
    let y = s.fma(expm1_core(r), s - half);
    (y + y).copysign(x)
}

/// What every logarithm starts with: `x = 2^e (1 + f)` with 1 + f in [sqrt(1/2), sqrt(2)].
#[inline(always)]
fn split<R: Register>(x: R) -> (R, R) {
    // Denormals are brought into the normal range first.
    let (tiny, up, shift) = if R::DOUBLE {
        (f64::MIN_POSITIVE, 18014398509481984.0, 54.0)
    } else {
        (f32::MIN_POSITIVE as f64, 33554432.0, 25.0)
    };
    let small = x.lt(R::splat(tiny));
    let x = R::select(small, x * R::splat(up), x);
    let e = x.exponent() - R::select(small, R::splat(shift), R::splat(0.0));
    let m = x.mantissa();
    let big = R::splat(std::f64::consts::SQRT_2).lt(m);
    let m = R::select(big, m * R::splat(0.5), m);
    (R::select(big, e + R::splat(1.0), e), m - R::splat(1.0))
}

/// `f - log(1 + f)` split as `half_square - correction`: log(1 + f) = f - (h - c).
#[inline(always)]
fn log1p_core<R: Register>(f: R) -> (R, R) {
    let s = f / (f + R::splat(2.0));
    let z = s * s;
    let r = if R::DOUBLE {
        poly(
            z,
            &[
                0.666666666666667,
                0.3999999999989889,
                0.28571428626253836,
                0.22222211089379496,
                0.1818289243253687,
                0.15331611722055008,
                0.14617807153417325,
            ],
        )
    } else {
        poly(z, &[0.6666667, 0.40000123, 0.2855078, 0.23331614])
    } * z;
    let h = R::splat(0.5) * f * f;
    (h, s * (h + r))
}

/// The values of a logarithm where the argument is not positive and finite.
#[inline(always)]
fn log_edges<R: Register>(x: R, y: R) -> R {
    let zero = R::splat(0.0);
    let y = R::select(x.lt(R::splat(f64::INFINITY)), y, x);
    let y = R::select(x.lt(zero), R::splat(f64::NAN), y);
    R::select(x.eq(zero), R::splat(f64::NEG_INFINITY), y)
}

/// `log(x) + low` for positive finite `x`.
#[inline(always)]
fn log_core<R: Register>(x: R, low: R) -> R {
    let (hi, lo) = ln2::<R>();
    let (e, f) = split(x);
    let (h, c) = log1p_core(f);
    e.fma(hi, f - (h - (c + e.fma(lo, low))))
}

#[inline(always)]
pub fn log<R: Register>(x: R) -> R {
    log_edges(x, log_core(x, R::splat(0.0)))
}

#[inline(always)]
pub fn log1p<R: Register>(x: R) -> R {
    let one = R::splat(1.0);
    let u = one + x;
    // What rounding took from u.
    let lost = R::select(one.lt(x), one - (u - x), x - (u - one));
    let y = log_edges(u, log_core(u, lost / u));
    // Where u is one (or x is -0) the answer is x itself.
    R::select(u.eq(one), x, y)
}

/// A logarithm to another base: `e * unit + log(1 + f) * scale`, with two words each.
#[inline(always)]
fn log_scaled<R: Register>(x: R, unit: [f64; 2], scale: [f64; 2]) -> R {
    let (e, f) = split(x);
    let (h, c) = log1p_core(f);
    // log(1 + f) in two words.
    let head = f - h;
    let tail = ((f - head) - h) + c;
    let hi = head * R::splat(scale[0]);
    let err = head.fma(R::splat(scale[0]), -hi);
    let low = err + head.fma(R::splat(scale[1]), tail * R::splat(scale[0])) + e * R::splat(unit[1]);
    let big = e * R::splat(unit[0]);
    let sum = big + hi;
    let lost = R::select(hi.abs().lt(big.abs()), (big - sum) + hi, (hi - sum) + big);
    log_edges(x, sum + (lost + low))
}

#[inline(always)]
pub fn log2<R: Register>(x: R) -> R {
    let scale = if R::DOUBLE {
        [std::f64::consts::LOG2_E, 2.0355273740931033e-17]
    } else {
        [1.4426950216293335, 1.925963033500011e-08]
    };
    log_scaled(x, [1.0, 0.0], scale)
}

#[inline(always)]
pub fn log10<R: Register>(x: R) -> R {
    if R::DOUBLE {
        // The head of log10(2) has so few bits that its product with an exponent is exact.
        log_scaled(x, [0.30102999560767785, 5.630334806675098e-11], [std::f64::consts::LOG10_E, 1.098319650216765e-17])
    } else {
        log_scaled(x, [0.301025390625, 4.605038981195214e-6], [0.4342944920063019, -1.0103049952192578e-08])
    }
}

/// Sine and cosine of what is left of `x` after `n` quadrants, and `n`; `None` where the whole register needs the scalar
/// function.
#[inline(always)]
fn quadrants<R: Register>(x: R) -> Option<(R, R, R)> {
    let limit = if R::DOUBLE { 1e6 } else { 1e5 };
    if R::any(!x.abs().lt(R::splat(limit))) {
        return None;
    }
    let n = (x * R::splat(std::f64::consts::FRAC_2_PI)).round();
    let parts = if R::DOUBLE {
        [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33]
    } else {
        [1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15]
    };
    let m = -n;
    let r = m.fma(R::splat(parts[0]), x);
    let r = m.fma(R::splat(parts[1]), r);
    let r = m.fma(R::splat(parts[2]), r);
    let z = r * r;
    let (s, c) = if R::DOUBLE {
        (
            poly(
                z,
                &[
                    -0.16666666666666666,
                    0.008333333333333331,
                    -0.0001984126984126504,
                    2.755731921932058e-06,
                    -2.50521062259944e-08,
                    1.6058530596645953e-10,
                    -7.586636882825159e-13,
                ],
            ),
            poly(
                z,
                &[
                    0.041666666666666664,
                    -0.0013888888888888887,
                    2.4801587301584632e-05,
                    -2.755731922139249e-07,
                    2.0876755787492604e-09,
                    -1.1470460319209511e-11,
                    4.745838412531023e-14,
                ],
            ),
        )
    } else {
        (
            poly(z, &[-0.16666667, 0.008333332, -0.00019840084, 2.724962e-06]),
            poly(z, &[0.041666668, -0.0013888888, 2.4800598e-05, -2.7300703e-07]),
        )
    };
    let one = R::splat(1.0);
    // The reduction loses the sign of zero.
    let sine = R::select(x.eq(R::splat(0.0)), x, (z * r).fma(s, r));
    let half = R::splat(0.5) * z;
    let w = one - half;
    let cosine = w + (z * z).fma(c, (one - w) - half);
    Some((sine, cosine, n))
}

/// Sine (`shift` 0) or cosine (`shift` 1) by quadrants.
#[inline(always)]
fn sin_shifted<R: Register>(x: R, shift: f64, scalar: fn(R::Elem) -> R::Elem) -> R {
    let Some((sine, cosine, n)) = quadrants(x) else { return x.map(scalar) };
    let one = R::splat(1.0);
    let q = n + R::splat(shift);
    let q = q - (q * R::splat(0.25)).floor() * R::splat(4.0);
    let odd = q.eq(one) | q.eq(R::splat(3.0));
    let y = R::select(odd, cosine, sine);
    R::select(one.lt(q), -y, y)
}

/// Two numbers whose quotient is the tangent.
#[inline(always)]
pub(super) fn sin_cos<R: Register>(x: R) -> Option<(R, R)> {
    let (sine, cosine, n) = quadrants(x)?;
    let odd = (n * R::splat(0.5)).floor().ne(n * R::splat(0.5));
    Some((R::select(odd, -cosine, sine), R::select(odd, sine, cosine)))
}

#[inline(always)]
pub fn sin<R: Register>(x: R, scalar: fn(R::Elem) -> R::Elem) -> R {
    sin_shifted(x, 0.0, scalar)
}

#[inline(always)]
pub fn cos<R: Register>(x: R, scalar: fn(R::Elem) -> R::Elem) -> R {
    sin_shifted(x, 1.0, scalar)
}

#[inline(always)]
pub fn tanh<R: Register>(x: R) -> R {
    let a = x.abs();
    let a = R::select(R::splat(20.0).lt(a), R::splat(20.0), a);
    let t = expm1(a + a);
    (t / (t + R::splat(2.0))).copysign(x)
}

#[inline(always)]
pub fn erf<R: Register>(x: R) -> R {
    let one = R::splat(1.0);
    let a = x.abs();
    let z = a * a;
    // NaN stays on all the ways.
    let (near, far) = if R::DOUBLE {
        let a = a.clamp(R::splat(0.0), R::splat(6.0));
        // Far from zero erfc(a) = exp(-q(a)).
        (poly(z, &ERF_NEAR), one - exp(-poly(a - one, &ERF_FAR)))
    } else {
        let a = a.clamp(R::splat(0.0), R::splat(3.93));
        (poly(z, &ERF_NEAR_SINGLE), poly(a - R::splat(ERF_MIDDLE), &ERF_FAR_SINGLE))
    };
    R::select(a.lt(one), a.fma(near, a), far).copysign(x)
}

/// Half and an odd rational function; where the value rounds to zero or one the quotient is half exactly.
#[inline(always)]
pub fn normal_cdf<R: Register>(x: R) -> R {
    let half = R::splat(0.5);
    if R::DOUBLE {
        return half.fma(erf(x * R::splat(std::f64::consts::FRAC_1_SQRT_2)), half);
    }
    let x = clamp(x, -5.3, 5.3);
    let z = x * x;
    half + x * poly(z, &CDF_ABOVE) / poly(z, &CDF_BELOW)
}

/// `(cdf(x) - 1/2) / x` in x^2, |x| <= 5.3; all terms are positive, so that none cancel.
const CDF_ABOVE: [f64; 6] = [
    0.39894211292266846,
    0.03389672189950943,
    0.004687723238021135,
    0.00017036672215908766,
    6.468178071372677e-06,
    2.338739157892178e-08,
];
const CDF_BELOW: [f64; 6] = [
    1.0,
    0.25163134932518005,
    0.02869156189262867,
    0.0018924851901829243,
    7.469933188986033e-05,
    1.224648030984099e-06,
];

/// `erf(x) / x - 1` in x^2, |x| <= 1.
const ERF_NEAR_SINGLE: [f64; 6] = [0.128379121, -0.37612325, 0.112801798, -0.0267113112, 0.00491755083, -0.00056314189];
const ERF_NEAR: [f64; 13] = [
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954879,
    -0.026866170645076792,
    0.0052239776248180145,
    -0.000854832698083379,
    0.0001205533111164271,
    -1.4925595266831182e-05,
    1.6461000484121368e-06,
    -1.6350312701054695e-07,
    1.4659775274047436e-08,
    -1.1372848856791674e-09,
    5.957176147748911e-11,
];
/// `erf(a)` in a - 2.465 on [1, 3.93], where it rounds to one.
const ERF_MIDDLE: f64 = 2.4649999141693115;
const ERF_FAR_SINGLE: [f64; 13] = [
    0.999509811,
    0.00259156292,
    -0.00638982281,
    0.00963666942,
    -0.00973554701,
    0.00670876587,
    -0.00294804247,
    0.000477822759,
    0.000378564815,
    -0.000299205218,
    5.26287768e-05,
    2.49007808e-05,
    -9.05526576e-06,
];
/// `-log(erfc(a))` in a - 1 on [1, 6].
const ERF_FAR: [f64; 25] = [
    1.8496055099332482,
    2.638967514234795,
    0.8431072563583275,
    0.04156109804938037,
    -0.010033825462634972,
    0.0019779031986228326,
    -0.00023732547115646525,
    -2.6267990577569252e-05,
    2.713550927299477e-05,
    -9.567176249351182e-06,
    2.0042076999507634e-06,
    -8.646472354339328e-08,
    -1.4152970860425964e-07,
    7.846484305037978e-08,
    -2.7148106745723257e-08,
    7.217267174036438e-09,
    -1.5518802262158816e-09,
    2.733640797285654e-10,
    -3.930970685424521e-11,
    4.550533230853445e-12,
    -4.139267766144228e-13,
    2.847812684810216e-14,
    -1.3920849232129402e-15,
    4.304840113498005e-17,
    -6.325520588718493e-19,
];

/// `x * 2^n` for any integral `n`: a third at a time stays in range.
#[inline(always)]
pub fn ldexp<R: Register>(x: R, n: R) -> R {
    let limit = if R::DOUBLE { 2200.0 } else { 300.0 };
    let n = clamp(n, -limit, limit);
    let third = (n * R::splat(1.0 / 3.0)).trunc();
    let p = third.pow2();
    x * p * p * (n - third - third).pow2()
}

/// `x * 2^n` for `|n|` below twice the largest exponent: two steps, of which only the second can round.
#[inline(always)]
pub fn scale<R: Register>(x: R, n: R) -> R {
    let half = (n * R::splat(0.5)).trunc();
    x * half.pow2() * (n - half).pow2()
}

/// `a - trunc(a / b) b`, exact. `scalar` takes over where the quotient has more digits than a float.
#[inline(always)]
pub fn fmod<R: Register>(a: R, b: R, scalar: fn(R::Elem, R::Elem) -> R::Elem) -> R {
    let (x, y) = (a.abs(), b.abs());
    let quotient = x / y;
    let limit = if R::DOUBLE { 4503599627370496.0 } else { 8388608.0 };
    if R::any(!quotient.lt(R::splat(limit)) | !y.lt(R::splat(f64::INFINITY))) {
        return a.map2(b, scalar);
    }
    let r = (-quotient.trunc()).fma(y, x);
    // Rounding of the quotient can have gone one too far.
    let r = R::select(r.lt(R::splat(0.0)), r + y, r);
    let r = R::select(y.le(r), r - y, r);
    r.copysign(a)
}

/// Python's `%` from C's.
#[inline(always)]
pub fn rem_floor<L: Num>(a: L, b: L) -> L {
    let zero = L::splat(0.0);
    let r = a.rem_trunc(b);
    L::select(r.ne(zero) & (r.lt(zero) ^ b.lt(zero)), r + b, r)
}

/// Python's `//` on floats: the floor of the exact quotient, as NumPy and torch compute it.
#[inline(always)]
pub fn div_floor<L: Lanes>(a: L, b: L) -> L {
    let (zero, one) = (L::splat(0.0), L::splat(1.0));
    let quotient = a / b;
    let r = a.rem_trunc(b);
    let d = (a - r) / b;
    let d = L::select(r.ne(zero) & (r.lt(zero) ^ b.lt(zero)), d - one, d);
    let f = d.floor();
    let f = L::select(L::splat(0.5).lt(d - f), f + one, f);
    let f = L::select(d.eq(zero), zero.copysign(quotient), f);
    L::select(b.eq(zero), quotient, f)
}

/// `hi + lo` of a sum.
#[inline(always)]
fn two_sum<R: Register>(a: R, b: R) -> (R, R) {
    let s = a + b;
    let v = s - a;
    (s, (a - (s - v)) + (b - v))
}

/// `x^y`: the logarithm in two words, times `y`, exponentiated.
#[inline(always)]
pub fn pow<R: Register>(x: R, y: R) -> R {
    let (zero, one, inf) = (R::splat(0.0), R::splat(1.0), R::splat(f64::INFINITY));
    let a = x.abs();
    let (e, f) = split(a);
    // s = f / (2 + f) in two words; log(1 + f) = 2 s + s^3 (2/3 + s^2 p(s^2)).
    let d = f + R::splat(2.0);
    let d_low = f - (d - R::splat(2.0));
    let s = f / d;
    let s_low = ((-s).fma(d, f) - s * d_low) / d;
    let z = s * s;
    let z_low = s.fma(s, -z) + R::splat(2.0) * s * s_low;
    let (p, third) = if R::DOUBLE {
        (
            poly(
                z,
                &[
                    0.4000000000000003,
                    0.2857142857133801,
                    0.22222222271326808,
                    0.18181808210921882,
                    0.15385577463308145,
                    0.13285868837545742,
                    0.1291471218393509,
                ],
            ),
            [0.6666666666666666, 3.700743415417188e-17],
        )
    } else {
        (poly(z, &[0.40000015, 0.28562218, 0.23049003]), [0.6666666865348816, -1.9868215517249155e-08])
    };
    // t = 2/3 + z p, in two words; then w = s z t.
    let (t, t_low) = two_sum(R::splat(third[0]), z * p);
    let t_low = t_low + R::splat(third[1]);
    let u = z * t;
    let u_low = z.fma(t, -u) + z.fma(t_low, z_low * t);
    let w = s * u;
    let w_low = s.fma(u, -w) + s.fma(u_low, s_low * u);
    let (hi, lo) = ln2::<R>();
    let big = e * hi;
    let big_low = e.fma(hi, -big) + e * lo;
    let (l1, r1) = two_sum(big, s + s);
    let (l2, r2) = two_sum(l1, w);
    let tail = ((s_low + s_low) + w_low) + (r1 + r2) + big_low;
    let (l, l_low) = two_sum(l2, tail);
    // y log(a), clamped: beyond the range the low word would be noise.
    let v = l * y;
    let v_low = l.fma(y, -v) + l_low * y;
    let limit = if R::DOUBLE { 800.0 } else { 110.0 };
    let outside = R::splat(limit).lt(v.abs());
    let v = clamp(v, -limit, limit);
    let v_low = R::select(outside, zero, v_low);
    let n = (v * R::splat(LOG2_E)).round();
    let r = (-n).fma(hi, v);
    let r = r + (-n).fma(lo, v_low);
    let res = (expm1_core(r) + one).scale(n);

    // The edges, as C's `pow`.
    let integral = y.trunc().eq(y);
    let half = y * R::splat(0.5);
    let odd = integral & half.trunc().ne(half);
    let down = y.lt(zero);
    let res = R::select(a.eq(zero), R::select(down, inf, zero), res);
    let res = R::select(a.eq(inf), R::select(down, zero, inf), res);
    let grows = one.lt(a) ^ down;
    let res = R::select(y.abs().eq(inf), R::select(a.eq(one), one, R::select(grows, inf, zero)), res);
    let negative = one.copysign(x).lt(zero);
    let res = R::select(negative & odd, -res, res);
    let res = R::select(x.lt(zero) & !integral & x.abs().lt(inf), R::splat(f64::NAN), res);
    let res = R::select(x.is_nan() | y.is_nan(), x + y, res);
    R::select(y.eq(zero) | x.eq(one), one, res)
}
