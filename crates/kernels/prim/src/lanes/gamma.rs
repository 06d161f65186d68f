//! The logarithm of the gamma function in registers. Single precision is computed in double, where the sums that cancel near
//! the zeros keep enough digits; double precision is within 4 ulp of positive arguments.

use super::Register;
use super::special::polynomial;
use std::f64::consts::{FRAC_1_PI, PI};

#[inline(always)]
pub fn lgamma<R: Register>(x: R) -> R {
    let [low, high] = x.halves();
    let low = wide(low, R::DOUBLE);
    R::of_halves([low, if R::DOUBLE { low } else { wide(high, R::DOUBLE) }])
}

/// In double precision, or to the last place of a single one.
#[inline(always)]
fn wide<R: Register>(x: R, full: bool) -> R {
    let (zero, half, one, two) = (R::splat(0.0), R::splat(0.5), R::splat(1.0), R::splat(2.0));
    let a = x.abs();
    // Below eight: steps of one to 2 + z with |z| <= 1/2, whose factors give a logarithm.
    let (tiny, small) = (a.lt(half), a.lt(R::splat(1.5)));
    let mut z = R::select(tiny, a, R::select(small, a - one, a - two));
    let mut factors = R::select(tiny, a * (a + one), R::select(small, a, one));
    let mut i = 0;
    while i < 6 {
        let above = half.le(z);
        z = R::select(above, z - one, z);
        factors = R::select(above, factors * (z + two), factors);
        i += 1;
    }
    let sum = z * polynomial(z, if full { &BY_TWO[..] } else { &BY_TWO_SHORT[..] });
    // From eight on: Stirling's series.
    let far = R::splat(8.0).le(a);
    let stirling = |log: R| {
        let inverse = one / a;
        let series = inverse * polynomial(inverse * inverse, if full { &STIRLING[..] } else { &STIRLING[..3] });
        (a - half).fma(log - one, series + R::splat(HALF_LOG_TAU - 0.5))
    };
    let negative = x.lt(zero);
    if !R::any(negative) {
        let log = R::select(far, a, factors).log();
        let near = sum + R::select(small, -log, log);
        return if R::any(far) { R::select(far, stirling(log), near) } else { near };
    }
    // lgamma(-a) = -log(a |sin(pi a)| / pi) - lgamma(a): below eight the logarithms of the two join.
    let sine = ((a - a.round()) * R::splat(PI)).sin().abs() * R::splat(FRAC_1_PI);
    let joined = sine * R::select(small, a / factors, a * factors);
    let log = R::select(negative, joined, factors).log();
    let near = R::select(negative, -(sum + log), sum + R::select(small, -log, log));
    if !R::any(far) {
        return near;
    }
    let positive = stirling(a.log());
    let reflected = R::select(a.is_inf(), a, -(sine * a).log() - positive);
    R::select(far, R::select(negative, reflected, positive), near)
}

/// `log(2 pi) / 2`.
const HALF_LOG_TAU: f64 = 0.9189385332046728;
/// `B(2k) / (2k (2k - 1))`.
const STIRLING: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360360.0,
    1.0 / 156.0,
    -3617.0 / 122400.0,
];

/// `lgamma(2 + z) / z` on [-1/2, 1/2]: for single precision, computed in double.
const BY_TWO_SHORT: [f64; 11] = [
    0.42278433509846713,
    0.3224670336740658,
    -0.06735230116846887,
    0.02058078848508634,
    -0.0073855418319890166,
    0.0028909539767244677,
    -0.0011929584843006534,
    0.0005056692566204219,
    -0.00022131048050323795,
    0.00011498248215687683,
    -5.208118739066028e-05,
];

/// The same for double precision.
const BY_TWO: [f64; 20] = [
    0.42278433509846713,
    0.3224670334241132,
    -0.06735230105319814,
    0.02058080842778457,
    -0.0073855510286681535,
    0.002890510330738737,
    -0.0011927539120010226,
    0.0005096695248853096,
    -0.00022315475074520367,
    9.945750909889392e-05,
    -4.4926351103833334e-05,
    2.050726741605779e-05,
    -9.438458716242811e-06,
    4.374374916915131e-06,
    -2.0449201467015115e-06,
    9.578663334114758e-07,
    -4.303558760359961e-07,
    2.0304806751615227e-07,
    -1.3412819758517287e-07,
    6.379047507619774e-08,
];
