//! Special functions by formulas on any number: polynomials, series and a few steps of Halley's method.
//!
//! They are exact to single precision, and to some 1e-14 in double. Unlike `Lanes`' own functions they are no intrinsic of any
//! device, so a symbol writes them out. Infinities and poles are those of SciPy.

use super::{Cx, Lanes};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI, SQRT_2};

/// The Chebyshev series `c` at `t` in [-1, 1] (Clenshaw).
#[inline(always)]
pub fn chebyshev<L: Lanes>(t: L, c: &[f64]) -> L {
    let two = t + t;
    let (mut a, mut b) = (L::splat(0.0), L::splat(0.0));
    let mut i = c.len() - 1;
    while i > 0 {
        let next = two.fma(a, L::splat(c[i]) - b);
        (a, b) = (next, a);
        i -= 1;
    }
    t.fma(a, L::splat(c[0]) - b)
}

/// `c[0] + x (c[1] + x (c[2] + ..))`.
#[inline(always)]
pub fn polynomial<L: Lanes>(x: L, c: &[f64]) -> L {
    let mut acc = L::splat(c[c.len() - 1]);
    let mut i = c.len() - 1;
    while i > 0 {
        i -= 1;
        acc = acc.fma(x, L::splat(c[i]));
    }
    acc
}

/// `exp(x^2) erfc(x)` for x >= 0.
#[inline(always)]
pub fn erfcx_tail<L: Lanes>(x: L) -> L {
    let (four, one) = (L::splat(4.0), L::splat(1.0));
    let t = (x - four) / (x + four);
    let t = L::select(x.is_inf(), one, t);
    chebyshev(t, &ERFCX) / (one + x + x)
}

/// `exp(x^2) erfc(x)`.
#[inline(always)]
pub fn erfcx<L: Lanes>(x: L) -> L {
    let tail = erfcx_tail(x.abs());
    let y = L::select(x.lt(L::splat(0.0)), L::splat(2.0) * (x * x).exp() - tail, tail);
    L::select(x.is_nan(), x, y)
}

/// The inverse of erf.
#[inline(always)]
pub fn erfinv<L: Lanes>(y: L) -> L {
    let (zero, one, half) = (L::splat(0.0), L::splat(1.0), L::splat(0.5));
    let a = y.abs();
    // Giles, "Approximating the erfinv function", 2010: the start.
    let w = -((one - a) * (one + a)).log();
    let near = polynomial(w - L::splat(2.5), &GILES_NEAR);
    let far = polynomial(w.sqrt() - L::splat(3.0), &GILES_FAR);
    let mut x = L::select(w.lt(L::splat(5.0)), near, far) * a;
    let mut i = 0;
    while i < 2 {
        let r = L::select(a.lt(half), x.erf() - a, (one - a) - x.erfc());
        let u = r / (L::splat(std::f64::consts::FRAC_2_SQRT_PI) * (-x * x).exp());
        x = x - u / (one + x * u);
        i += 1;
    }
    let x = L::select(a.eq(zero), zero, x);
    let x = L::select(a.eq(one), L::splat(f64::INFINITY), x);
    L::select(one.lt(a) | y.is_nan(), L::splat(f64::NAN), x.copysign(y))
}

/// The standard normal distribution below x.
#[inline(always)]
pub fn ndtr<L: Lanes>(x: L) -> L {
    (x * L::splat(-FRAC_1_SQRT_2)).erfc() * L::splat(0.5)
}

/// The logarithm of `ndtr`.
#[inline(always)]
pub fn log_ndtr<L: Lanes>(x: L) -> L {
    let t = x * L::splat(FRAC_1_SQRT_2);
    let low = (erfcx_tail(t.abs()) * L::splat(0.5)).log() - t * t;
    let high = (t.erfc() * L::splat(-0.5)).log1p();
    L::select(x.lt(L::splat(-1.0)), low, high)
}

/// The inverse of `ndtr`.
#[inline(always)]
pub fn ndtri<L: Lanes>(p: L) -> L {
    let (zero, one, half) = (L::splat(0.0), L::splat(1.0), L::splat(0.5));
    let upper = half.lt(p);
    let q = L::select(upper, one - p, p);
    // Abramowitz and Stegun 26.2.23: the start.
    let t = (q.log() * L::splat(-2.0)).sqrt();
    let top = polynomial(t, &[2.515517, 0.802853, 0.010328]);
    let bottom = polynomial(t, &[1.0, 1.432788, 0.189269, 0.001308]);
    let mut z = (t - top / bottom) * L::splat(FRAC_1_SQRT_2);
    let mut i = 0;
    while i < 3 {
        // erfc(z) = 2 q, both divided by exp(-z^2).
        let e = (z * z).exp() * (q + q);
        let u = (erfcx(z) - e) * L::splat(0.886226925452758);
        z = z + u / (one - z * u);
        i += 1;
    }
    let x = z * L::splat(SQRT_2);
    let x = L::select(q.eq(half), zero, x);
    let x = L::select(upper, x, -x);
    let inf = L::splat(f64::INFINITY);
    let x = L::select(p.eq(zero), -inf, L::select(p.eq(one), inf, x));
    L::select(p.lt(zero) | one.lt(p) | p.is_nan(), L::splat(f64::NAN), x)
}

/// The logarithmic derivative of the gamma function.
#[inline(always)]
pub fn digamma<L: Lanes>(x: L) -> L {
    let (zero, one, half) = (L::splat(0.0), L::splat(1.0), L::splat(0.5));
    let reflected = x.lt(zero);
    // psi(1 - x) - pi / tan(pi x) = psi(x). From the nearest integer, where the tangent is accurate.
    let fraction = x - x.round();
    let turn = L::splat(PI) / (fraction * L::splat(PI)).tan();
    let mut a = L::select(reflected, one - x, x);
    let mut sum = zero;
    let mut i = 0;
    while i < 10 {
        let low = a.lt(L::splat(10.0));
        sum = sum + L::select(low, one / a, zero);
        a = L::select(low, a + one, a);
        i += 1;
    }
    let z = one / (a * a);
    let y = a.log() - half / a - z * polynomial(z, &DIGAMMA) - sum;
    let y = L::select(reflected, y - turn, y);
    let pole = reflected & fraction.eq(zero);
    let y = L::select(pole, L::splat(f64::NAN), y);
    L::select(x.eq(zero), L::splat(f64::NEG_INFINITY).copysign(-x), y)
}

/// Hurwitz's zeta function: the sum of `(q + k)^-x`. The terms whose base is negative, for which `x` is an integer, are those
/// of positive bases but for their sign: they stand as the difference of two sums.
#[inline(always)]
pub fn zeta<L: Lanes>(x: L, q: L) -> L {
    let (zero, one) = (L::splat(0.0), L::splat(1.0));
    let is_negative = q.lt(zero);
    let fraction = q - q.floor();
    let y = zeta_of_positive(x, L::select(is_negative, fraction, q));
    let below = zeta_of_positive(x, one - fraction) - zeta_of_positive(x, one - q);
    let half = x * L::splat(0.5);
    let y = L::select(is_negative, y + L::select(half.floor().eq(half), below, -below), y);
    let inf = L::splat(f64::INFINITY);
    let y = L::select(q.le(zero) & q.floor().eq(q), inf, y);
    let y = L::select(is_negative & q.floor().ne(q) & x.floor().ne(x), L::splat(f64::NAN), y);
    let y = L::select(x.eq(one), inf, y);
    L::select(x.lt(one) | x.is_nan() | q.is_nan(), L::splat(f64::NAN), y)
}

/// The first terms, and the formula of Euler and Maclaurin for the rest, whose bases are above nine.
#[inline(always)]
fn zeta_of_positive<L: Lanes>(x: L, q: L) -> L {
    let one = L::splat(1.0);
    let mut a = q;
    let mut s = q.pow(-x);
    let mut i = 0;
    while i < 9 {
        a = a + one;
        s = s + a.pow(-x);
        i += 1;
    }
    let b = a.pow(-x);
    let mut y = s + b * a / (x - one) - b * L::splat(0.5);
    let (mut factor, mut power) = (one, b);
    let mut k = 0;
    while k < 12 {
        factor = factor * (x + L::splat(2.0 * k as f64));
        power = power / a;
        y = y + factor * power * L::splat(1.0 / EULER_MACLAURIN[k]);
        factor = factor * (x + L::splat(2.0 * k as f64 + 1.0));
        power = power / a;
        k += 1;
    }
    // Where the head has converged the tail of infinite terms is none.
    L::select(y.is_finite(), y, s)
}

/// The derivative of `digamma`.
#[inline(always)]
pub fn trigamma<L: Lanes>(x: L) -> L {
    let (zero, one, half) = (L::splat(0.0), L::splat(1.0), L::splat(0.5));
    let reflected = x.lt(half);
    let s = ((x - x.round()) * L::splat(PI)).sin();
    let turn = L::splat(PI * PI) / (s * s);
    let mut a = L::select(reflected, one - x, x);
    let mut sum = zero;
    let mut i = 0;
    while i < 10 {
        let low = a.lt(L::splat(10.0));
        sum = sum + L::select(low, one / (a * a), zero);
        a = L::select(low, a + one, a);
        i += 1;
    }
    let z = one / (a * a);
    let y = sum + (one + half / a + z * polynomial(z, &TRIGAMMA)) / a;
    L::select(reflected, turn - y, y)
}

/// `exp(-|x|) I0(x)`.
#[inline(always)]
pub fn i0e<L: Lanes>(x: L) -> L {
    let (a, one, eight) = (x.abs(), L::splat(1.0), L::splat(8.0));
    let near = chebyshev(a * L::splat(0.25) - one, &I0E_NEAR);
    let far = chebyshev(L::splat(16.0) / a - one, &I0E_FAR) / a.sqrt();
    L::select(a.le(eight), near, far)
}

/// `exp(-|x|) I1(x)`.
#[inline(always)]
pub fn i1e<L: Lanes>(x: L) -> L {
    let (a, one, eight) = (x.abs(), L::splat(1.0), L::splat(8.0));
    let near = chebyshev(a * L::splat(0.25) - one, &I1E_NEAR) * a;
    let far = chebyshev(L::splat(16.0) / a - one, &I1E_FAR) / a.sqrt();
    let y = L::select(a.le(eight), near, far);
    L::select(x.lt(L::splat(0.0)), -y, y)
}

/// The modified Bessel function of the first kind of order zero, and of order one.
#[inline(always)]
pub fn i0<L: Lanes>(x: L) -> L {
    x.abs().exp() * i0e(x)
}
#[inline(always)]
pub fn i1<L: Lanes>(x: L) -> L {
    x.abs().exp() * i1e(x)
}

/// `sin(pi x) / (pi x)`.
#[inline(always)]
pub fn sinc<L: Lanes>(x: L) -> L {
    let t = x * L::splat(PI);
    L::select(x.eq(L::splat(0.0)), L::splat(1.0), t.sin() / t)
}

/// `log(exp(a) + exp(b))`.
#[inline(always)]
pub fn logaddexp<L: Lanes>(a: L, b: L) -> L {
    let m = a.maximum(b);
    let y = m + (-(a - b).abs()).exp().log1p();
    L::select(a.is_inf() & a.eq(b), a, y)
}

/// The same of complex numbers, from the one with the greater real part; its branch is that number's.
#[inline(always)]
pub fn logaddexp_complex<L: Lanes>(a: Cx<L>, b: Cx<L>) -> Cx<L> {
    let is_less = a.re.lt(b.re);
    let (top, low) = (Cx::select(is_less, b, a), Cx::select(is_less, a, b));
    let y = top + (low - top).exp().log1p();
    // Equal infinities have no difference: of two zeros the logarithm is that of one.
    let infinite = a.re.is_inf() & a.re.eq(b.re);
    let at_infinity = Cx::select(a.re.lt(L::splat(0.0)), low, (a.exp() + b.exp()).log());
    let nan = L::splat(f64::NAN);
    Cx::select(a.is_nan() | b.is_nan(), Cx::new(nan, nan), Cx::select(infinite, at_infinity, y))
}

/// `log2(2^a + 2^b)`.
#[inline(always)]
pub fn logaddexp2<L: Lanes>(a: L, b: L) -> L {
    let m = a.maximum(b);
    let y = m + (-(a - b).abs()).exp2().log1p() * L::splat(1.0 / LN_2);
    L::select(a.is_inf() & a.eq(b), a, y)
}

/// The exponent of `x = m 2^e` with |m| in [1/2, 1), zero for what is zero, infinite or NaN.
#[inline(always)]
pub fn frexp_exponent<L: Lanes>(x: L) -> L {
    let (one, half) = (L::splat(1.0), L::splat(0.5));
    let a = x.abs();
    let e = a.log2().floor() + one;
    // The logarithm may have been rounded over a power of two.
    let m = a.ldexp(-e);
    let e = L::select(m.lt(half), e - one, L::select(one.le(m), e + one, e));
    L::select(a.eq(L::splat(0.0)) | !a.is_finite(), L::splat(0.0), e)
}

/// Giles' polynomials: in `w - 2.5` below 5, and in `sqrt(w) - 3` above.
const GILES_NEAR: [f64; 9] = [
    1.50140941,
    0.246640727,
    -0.00417768164,
    -0.00125372503,
    0.00021858087,
    -4.39150654e-06,
    -3.5233877e-06,
    3.43273939e-07,
    2.81022636e-08,
];
const GILES_FAR: [f64; 9] = [
    2.83297682,
    1.00167406,
    0.00943887047,
    -0.0076224613,
    0.00573950773,
    -0.00367342844,
    0.00134934322,
    0.000100950558,
    -0.000200214257,
];
/// `B(2k) / 2k`: the asymptotic series of digamma in `1 / x^2`.
const DIGAMMA: [f64; 8] =
    [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0, -3617.0 / 8160.0];
/// `B(2k)`: that of trigamma.
const TRIGAMMA: [f64; 7] = [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0, 7.0 / 6.0];
/// `(2k)! / B(2k)` of the Euler-Maclaurin sum.
const EULER_MACLAURIN: [f64; 12] = [
    12.0,
    -720.0,
    30240.0,
    -1209600.0,
    47900160.0,
    -1307674368000.0 / 691.0,
    74724249600.0,
    -10670622842880000.0 / 3617.0,
    5109094217170944000.0 / 43867.0,
    -802857662698291200000.0 / 174611.0,
    14101100039391805440000.0 / 77683.0,
    -1693824136731743669452800000.0 / 236364091.0,
];
/// `(1 + 2x) exp(x^2) erfc(x)` as a Chebyshev series in `(x - 4) / (x + 4)`.
const ERFCX: [f64; 25] = [
    1.1774832005374487,
    -0.007260796620301901,
    -0.081265123236185,
    0.06009212804122225,
    -0.02875393558027666,
    0.01059566336347286,
    -0.003136927294554264,
    0.0007456494372536184,
    -0.0001369696503010054,
    1.7183861600300937e-05,
    -7.158364623450346e-07,
    -2.4261399442449534e-07,
    5.5765709395703566e-08,
    -2.1057869513809494e-09,
    -1.1717889351884957e-09,
    1.9098355172456688e-10,
    1.408871764208813e-11,
    -6.901108320480815e-12,
    9.167958364111294e-14,
    2.1454508286554553e-13,
    -1.4716575027010623e-14,
    -6.668675118770408e-15,
    7.504598509880083e-16,
    2.22009300666632e-16,
    -3.1704898956330886e-17,
];
/// `exp(-x) I0(x)` in `x / 4 - 1`, and `sqrt(x) exp(-x) I0(x)` in `16 / x - 1`.
const I0E_NEAR: [f64; 30] = [
    0.33839763720473803,
    -0.3046826723431984,
    0.17162090152220877,
    -0.09490109704804764,
    0.04930528423967071,
    -0.02373741480589947,
    0.010546460394594998,
    -0.004324309995050576,
    0.0016394756169413357,
    -0.0005763755745385824,
    0.00018850288509584165,
    -5.754195010082104e-05,
    1.6448448070728896e-05,
    -4.4167383584587505e-06,
    1.1173875391201037e-06,
    -2.670793853940612e-07,
    6.046995022541919e-08,
    -1.300025009986248e-08,
    2.6598237246823866e-09,
    -5.189795601635263e-10,
    9.675809035373237e-11,
    -1.726826291441556e-11,
    2.95505266312964e-12,
    -4.856446783111929e-13,
    7.676185498604936e-14,
    -1.1685332877993451e-14,
    1.715391285555133e-15,
    -2.431279846547955e-16,
    3.3307945188222384e-17,
    -4.4153416464793395e-18,
];
/// See above.
const I0E_FAR: [f64; 25] = [
    0.4022452055070544,
    0.0033691164782556943,
    6.889758346916825e-05,
    2.8913705208347567e-06,
    2.0489185894690638e-07,
    2.266668990498178e-08,
    3.3962320257083865e-09,
    4.94060238822497e-10,
    1.1889147107846439e-11,
    -3.1499165279632416e-11,
    -1.3215811840447713e-11,
    -1.7941785315068062e-12,
    7.180124451383666e-13,
    3.8527783827421426e-13,
    1.54008621752141e-14,
    -4.150569347287222e-14,
    -9.554846698828307e-15,
    3.8116806693526224e-15,
    1.7725601330565263e-15,
    -3.425485619677219e-16,
    -2.8276239805165836e-16,
    3.461222867697461e-17,
    4.46562142029676e-17,
    -4.830504485944182e-18,
    -7.233180487874754e-18,
];
/// `exp(-x) I1(x) / x` in `x / 4 - 1`, and `sqrt(x) exp(-x) I1(x)` in `16 / x - 1`.
const I1E_NEAR: [f64; 29] = [
    0.12629359322181682,
    -0.17641651835783406,
    0.1026436586898471,
    -0.05294598120809499,
    0.024726449030626516,
    -0.010564084894626197,
    0.004156422944312888,
    -0.0015135724506312532,
    0.0005122859561685758,
    -0.00016176081582589674,
    4.781565107550054e-05,
    -1.3273163656039436e-05,
    3.4702513081376785e-06,
    -8.568720264695455e-07,
    2.0032947535521353e-07,
    -4.445059128796328e-08,
    9.381537386495773e-09,
    -1.8872497517228294e-09,
    3.625590281552117e-10,
    -6.663489723502027e-11,
    1.1736186298890901e-11,
    -1.9839743977649436e-12,
    3.223793365945575e-13,
    -5.042185504727912e-14,
    7.600684294735408e-15,
    -1.1055969477353862e-15,
    1.5536319577362005e-16,
    -2.111421214358166e-17,
    2.7779141127610464e-18,
];
/// See above.
const I1E_FAR: [f64; 25] = [
    0.38928811750914005,
    -0.009761097491361469,
    -0.00011058893876262371,
    -3.882564808877691e-06,
    -2.512236237870209e-07,
    -2.6314688468895196e-08,
    -3.835380385964237e-09,
    -5.589743462196584e-10,
    -1.8974958123505413e-11,
    3.2526035830154884e-11,
    1.4125807436613782e-11,
    2.0356285441470896e-12,
    -7.198551776245908e-13,
    -4.0835511110921974e-13,
    -2.1015418427726643e-14,
    4.272440016711951e-14,
    1.0420276984128802e-14,
    -3.8144030724370075e-15,
    -1.8803547755107825e-15,
    3.3082023109209285e-16,
    2.96262899764595e-16,
    -3.209525921993424e-17,
    -4.6503053684893586e-17,
    4.414348323071708e-18,
    7.517296310842105e-18,
];
