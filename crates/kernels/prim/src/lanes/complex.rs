//! Complex numbers over anything that computes floats: a pair of numbers, registers or symbols.
//!
//! Formulas on complex numbers are written with `Cx` as those on reals are with `Lanes`. Branch cuts and signed zeros are
//! those of C99; inverse functions are Kahan's ("Branch cuts for complex elementary functions", 1987).

use super::Lanes;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// `re + i im`; same layout as a complex number in memory where `L` is a float.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[repr(C)]
pub struct Cx<L> {
    pub re: L,
    pub im: L,
}

impl<L: Lanes> Add for Cx<L> {
    type Output = Self;
    #[inline(always)]
    fn add(self, o: Self) -> Self {
        Cx::new(self.re + o.re, self.im + o.im)
    }
}
impl<L: Lanes> Sub for Cx<L> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, o: Self) -> Self {
        Cx::new(self.re - o.re, self.im - o.im)
    }
}
impl<L: Lanes> Mul for Cx<L> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, o: Self) -> Self {
        Cx::new(self.re * o.re - self.im * o.im, self.re * o.im + self.im * o.re)
    }
}
impl<L: Lanes> Neg for Cx<L> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Cx::new(-self.re, -self.im)
    }
}
impl<L: Lanes> Div for Cx<L> {
    type Output = Self;
    /// Smith's division: scaled by the divisor's larger part, so that squares do not overflow.
    #[inline(always)]
    fn div(self, o: Self) -> Self {
        let (zero, wide) = (L::splat(0.0), o.im.abs().le(o.re.abs()));
        let large = L::select(wide, o.re, o.im);
        let small = L::select(wide, o.im, o.re);
        // Of a zero divisor both parts are divided by it.
        let ratio = L::select(large.eq(zero), zero, small / large);
        let denominator = large + small * ratio;
        let im = L::select(wide, self.im - self.re * ratio, self.im * ratio - self.re);
        let re = L::select(wide, self.re + self.im * ratio, self.re * ratio + self.im);
        Cx::new(re / denominator, im / denominator)
    }
}

impl<L: Lanes> Cx<L> {
    #[inline(always)]
    pub fn new(re: L, im: L) -> Self {
        Cx { re, im }
    }
    /// A real constant.
    #[inline(always)]
    pub fn splat(v: f64) -> Self {
        Cx::new(L::splat(v), L::splat(0.0))
    }
    /// A real number.
    #[inline(always)]
    pub fn real(re: L) -> Self {
        Cx::new(re, L::splat(0.0))
    }
    #[inline(always)]
    pub fn from_mask(m: L::Mask) -> Self {
        Cx::real(L::from_mask(m))
    }
    #[inline(always)]
    pub fn select(m: L::Mask, a: Self, b: Self) -> Self {
        Cx::new(L::select(m, a.re, b.re), L::select(m, a.im, b.im))
    }
    #[inline(always)]
    pub fn eq(self, o: Self) -> L::Mask {
        self.re.eq(o.re) & self.im.eq(o.im)
    }
    #[inline(always)]
    pub fn is_true(self) -> L::Mask {
        self.re.is_true() | self.im.is_true()
    }
    #[inline(always)]
    pub fn is_nan(self) -> L::Mask {
        self.re.is_nan() | self.im.is_nan()
    }
    #[inline(always)]
    pub fn conj(self) -> Self {
        Cx::new(self.re, -self.im)
    }
    /// Where a part is infinite. The inverse functions have limits there that the formulas for finite numbers lose.
    #[inline(always)]
    fn is_far(self) -> L::Mask {
        self.re.is_inf() | self.im.is_inf()
    }
    /// `1 + z`: a zero of the imaginary part keeps its sign, which says on what side of a branch cut the number lies.
    #[inline(always)]
    fn one_plus(self) -> Self {
        Cx::new(L::splat(1.0) + self.re, self.im)
    }
    /// `1 - z`, as `one_plus`.
    #[inline(always)]
    fn one_minus(self) -> Self {
        Cx::new(L::splat(1.0) - self.re, -self.im)
    }
    /// `i z`.
    #[inline(always)]
    pub fn times_i(self) -> Self {
        Cx::new(-self.im, self.re)
    }
    /// `-i z`.
    #[inline(always)]
    pub fn over_i(self) -> Self {
        Cx::new(self.im, -self.re)
    }
    #[inline(always)]
    pub fn scale(self, v: L) -> Self {
        Cx::new(self.re * v, self.im * v)
    }
    /// The modulus, without overflow on the way; infinite where a part is.
    #[inline(always)]
    pub fn abs(self) -> L {
        let (a, b) = (self.re.abs(), self.im.abs());
        let swap = a.lt(b);
        let (big, small) = (L::select(swap, b, a), L::select(swap, a, b));
        // Beside a zero the other part is zero, or NaN.
        let ratio = L::select(big.eq(L::splat(0.0)), small, small / big);
        let m = big * ratio.fma(ratio, L::splat(1.0)).sqrt();
        L::select(a.is_inf() | b.is_inf(), L::splat(f64::INFINITY), m)
    }
    /// The angle.
    #[inline(always)]
    pub fn arg(self) -> L {
        self.im.atan2(self.re)
    }
    #[inline(always)]
    pub fn square(self) -> Self {
        self * self
    }
    #[inline(always)]
    pub fn recip(self) -> Self {
        Cx::splat(1.0) / self
    }

    #[inline(always)]
    pub fn sqrt(self) -> Self {
        let (zero, half) = (L::splat(0.0), L::splat(0.5));
        let (a, b) = (self.re.abs(), self.im.abs());
        // Halved before they are added: the sum of the largest numbers would overflow.
        let t = (half * a + half * self.abs()).sqrt();
        let u = L::select(t.eq(zero), zero, half * b / t);
        let right = self.re.ge(zero);
        let y = Cx::new(L::select(right, t, u), L::select(right, u, t).copysign(self.im));
        Cx::select(b.is_inf(), Cx::new(L::splat(f64::INFINITY), self.im), y)
    }
    #[inline(always)]
    pub fn exp(self) -> Self {
        let (e, zero) = (self.re.exp(), L::splat(0.0));
        let y = Cx::new(e * self.im.cos(), e * self.im.sin());
        let y = Cx::new(y.re, L::select(self.im.eq(zero), self.im, y.im));
        // Of an infinite angle too.
        Cx::select(self.re.eq(L::splat(f64::NEG_INFINITY)) & self.im.is_inf(), Cx::splat(0.0), y)
    }
    #[inline(always)]
    pub fn expm1(self) -> Self {
        // exp(a) cos(b) - 1 = expm1(a) - 2 exp(a) sin(b / 2)^2.
        let half = (self.im * L::splat(0.5)).sin();
        let e = self.re.exp();
        Cx::new(self.re.expm1() - L::splat(2.0) * e * half * half, e * self.im.sin())
    }
    #[inline(always)]
    pub fn log(self) -> Self {
        let m = self.abs();
        // Near the unit circle log(m) = log1p(m^2 - 1) / 2 keeps its digits.
        let (a, b) = (self.re.abs(), self.im.abs());
        let (big, small) = (L::select(a.lt(b), b, a), L::select(a.lt(b), a, b));
        let one = L::splat(1.0);
        let near = (((big - one) * (big + one)) + small * small).log1p() * L::splat(0.5);
        let is_near = L::splat(0.5).lt(m) & m.lt(L::splat(2.0));
        Cx::new(L::select(is_near, near, m.log()), self.arg())
    }
    #[inline(always)]
    pub fn log1p(self) -> Self {
        // |1 + z|^2 - 1 = a (2 + a) + b^2.
        let one = L::splat(1.0);
        let u = Cx::new(self.re + one, self.im);
        let m2 = self.re * (L::splat(2.0) + self.re) + self.im * self.im;
        let small = m2.abs().lt(L::splat(0.5));
        Cx::new(L::select(small, m2.log1p() * L::splat(0.5), u.log().re), u.arg())
    }
    #[inline(always)]
    pub fn sin(self) -> Self {
        self.times_i().sinh().over_i()
    }
    #[inline(always)]
    pub fn cos(self) -> Self {
        self.times_i().cosh()
    }
    #[inline(always)]
    pub fn tan(self) -> Self {
        self.times_i().tanh().over_i()
    }
    #[inline(always)]
    pub fn sinh(self) -> Self {
        let (s, c) = (self.im.sin(), self.im.cos());
        // Of a real number the result is real, where the other factor is infinite too.
        let im = L::select(self.im.eq(L::splat(0.0)), self.im, self.re.cosh() * s);
        Cx::new(self.re.sinh() * c, im)
    }
    #[inline(always)]
    pub fn cosh(self) -> Self {
        let (s, c) = (self.im.sin(), self.im.cos());
        let zero = self.im * L::splat(1.0).copysign(self.re);
        let im = L::select(self.im.eq(L::splat(0.0)), zero, self.re.sinh() * s);
        Cx::new(self.re.cosh() * c, im)
    }
    #[inline(always)]
    pub fn tanh(self) -> Self {
        let (one, x) = (L::splat(1.0), self.re);
        let (t, s) = (self.im.tan(), x.sinh());
        let beta = one + t * t;
        let rho = (one + s * s).sqrt();
        let d = one + beta * s * s;
        let y = Cx::new(beta * rho * s / d, t / d);
        let far =
            Cx::new(one.copysign(x), L::splat(4.0) * self.im.sin() * self.im.cos() * (L::splat(-2.0) * x.abs()).exp());
        Cx::select(L::splat(20.0).lt(x.abs()), far, y)
    }
    #[inline(always)]
    pub fn asin(self) -> Self {
        let (a, b) = (self.one_minus().sqrt(), self.one_plus().sqrt());
        let y = Cx::new(self.re.atan2((a * b).re), (a.conj() * b).im.asinh());
        let far = Cx::new(self.re.atan2(self.im.abs()), L::splat(f64::INFINITY).copysign(self.im));
        Cx::select(self.is_far(), far, y)
    }
    #[inline(always)]
    pub fn acos(self) -> Self {
        let (a, b) = (self.one_minus().sqrt(), self.one_plus().sqrt());
        let y = Cx::new(L::splat(2.0) * a.re.atan2(b.re), (b.conj() * a).im.asinh());
        let far = Cx::new(self.im.abs().atan2(self.re), L::splat(f64::NEG_INFINITY).copysign(-self.im));
        Cx::select(self.is_far(), far, y)
    }
    #[inline(always)]
    pub fn atan(self) -> Self {
        self.times_i().atanh().over_i()
    }
    #[inline(always)]
    pub fn asinh(self) -> Self {
        self.times_i().asin().over_i()
    }
    #[inline(always)]
    pub fn acosh(self) -> Self {
        let (a, b) = ((-self.one_minus()).sqrt(), self.one_plus().sqrt());
        let y = Cx::new((a.conj() * b).re.asinh(), L::splat(2.0) * a.im.atan2(b.re));
        Cx::select(self.is_far(), Cx::new(L::splat(f64::INFINITY), self.arg()), y)
    }
    #[inline(always)]
    pub fn atanh(self) -> Self {
        let (one, x, y) = (L::splat(1.0), self.re, self.im);
        let d = one - x;
        let re = (L::splat(4.0) * x / (d * d + y * y)).log1p() * L::splat(0.25);
        let im = (y + y).atan2(d * (one + x) - y * y) * L::splat(0.5);
        let quarter = L::splat(std::f64::consts::FRAC_PI_2).copysign(y);
        let zero = L::splat(0.0).copysign(x);
        Cx::new(L::select(self.is_far(), zero, re), L::select(y.is_inf(), quarter, im))
    }
    #[inline(always)]
    pub fn sigmoid(self) -> Self {
        let one = Cx::splat(1.0);
        one / (one + (-self).exp())
    }
    #[inline(always)]
    pub fn pow(self, e: Self) -> Self {
        let (zero, one) = (Cx::splat(0.0), Cx::splat(1.0));
        let y = (e * self.log()).exp();
        let y = Cx::select(self.eq(zero), zero, y);
        Cx::select(e.eq(zero), one, y)
    }
}
