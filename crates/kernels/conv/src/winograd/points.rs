//! Winograd's transforms: polynomials given by numbers, and their values at the six points.
//!
//! With data d and taps g the outputs are `Outputs(Taps(g) * Data(d))`; the sum over channels lies between. Each transform
//! is linear and works on registers of channels.

use super::IN;
use oneflow_kernels_prim::{Acc, Register, Simd, WithSimd, dispatch, isa};
use std::marker::PhantomData;

/// The finite points beside zero are ±P and ±Q.
const P: f64 = 0.75;
const Q: f64 = 1.5;

/// `a * b + c`; machines without the instruction round twice.
#[inline(always)]
fn fma<R: Register>(a: R, b: f64, c: R) -> R {
    if R::WIDTH == 1 { a * R::splat(b) + c } else { a.fma(R::splat(b), c) }
}

/// A linear map of `I` registers to `O`. A trait, not closures: their calls would not be compiled for the registers' tier.
pub trait Transform<const I: usize, const O: usize> {
    fn apply<R: Register>(v: [R; I]) -> [R; O];
}

/// Six neighbours in the basis in which windows are products.
pub struct Data;

impl Transform<IN, IN> for Data {
    #[inline(always)]
    fn apply<R: Register>(d: [R; IN]) -> [R; IN] {
        let (pp, qq) = (P * P, Q * Q);
        let (even_p, odd_p) = (fma(d[2], -qq, d[4]), fma(d[1], -qq, d[3]));
        let (even_q, odd_q) = (fma(d[2], -pp, d[4]), fma(d[1], -pp, d[3]));
        [
            fma(d[0], pp * qq, fma(d[2], -(pp + qq), d[4])),
            fma(odd_p, P, even_p),
            fma(odd_p, -P, even_p),
            fma(odd_q, Q, even_q),
            fma(odd_q, -Q, even_q),
            fma(d[1], pp * qq, fma(d[3], -(pp + qq), d[5])),
        ]
    }
}

/// Two to five taps at the points.
pub struct Taps;

/// At `p` and `-p`; `other` is the other finite pair.
#[inline(always)]
fn at_pair<R: Register, const N: usize>(g: [R; N], p: f64, other: f64) -> [R; 2] {
    let scale = 1.0 / (2.0 * p * p * (p * p - other * other));
    let (mut even, mut odd) = (g[0] * R::splat(scale), g[1] * R::splat(p * scale));
    let mut power = p * p * scale;
    for (i, g) in g.into_iter().enumerate().skip(2) {
        let sum = if i % 2 == 0 { &mut even } else { &mut odd };
        *sum = fma(g, power, *sum);
        power *= p;
    }
    [even + odd, even - odd]
}

impl<const N: usize> Transform<N, IN> for Taps {
    #[inline(always)]
    fn apply<R: Register>(g: [R; N]) -> [R; IN] {
        let ([a, b], [c, d]) = (at_pair(g, P, Q), at_pair(g, Q, P));
        [g[0] * R::splat(1.0 / (P * P * Q * Q)), a, b, c, d, g[N - 1]]
    }
}

/// Two to five outputs from products at the points.
pub struct Outputs;

impl<const N: usize> Transform<IN, N> for Outputs {
    #[inline(always)]
    fn apply<R: Register>(m: [R; IN]) -> [R; N] {
        let (even_p, odd_p) = (m[1] + m[2], m[1] - m[2]);
        let (even_q, odd_q) = (m[3] + m[4], m[3] - m[4]);
        let mut y = [m[0] + (even_p + even_q); N];
        let (mut p, mut q) = (P, Q);
        for (i, y) in y.iter_mut().enumerate().skip(1) {
            *y = match i % 2 {
                0 => fma(even_q, q, even_p * R::splat(p)),
                _ => fma(odd_q, q, odd_p * R::splat(p)),
            };
            (p, q) = (p * P, q * Q);
        }
        y[N - 1] = y[N - 1] + m[5];
        y
    }
}

/// The transform along both dimensions of what lies at `src + i * step[0] + j * step[1]`; the result is transposed.
///
/// # Safety
/// Whole registers are readable there.
#[inline(always)]
pub unsafe fn plane<F: Transform<I, O>, R: Register, const I: usize, const O: usize>(
    src: *const R::Elem,
    step: [usize; 2],
) -> [[R; O]; O] {
    let zero = R::splat(0.0);
    let mut rows = [[zero; O]; I];
    for (i, row) in rows.iter_mut().enumerate() {
        let mut line = [zero; I];
        for (j, v) in line.iter_mut().enumerate() {
            // SAFETY: by the caller.
            *v = unsafe { R::load(src.add(i * step[0] + j * step[1])) };
        }
        *row = F::apply(line);
    }
    let mut out = [[zero; O]; O];
    for (j, to) in out.iter_mut().enumerate() {
        let mut line = [zero; I];
        for (i, v) in line.iter_mut().enumerate() {
            *v = rows[i][j];
        }
        *to = F::apply(line);
    }
    out
}

/// Channels of a plane at the points: `c` numbers at each of `I` x `I` positions become rows of the 36 points.
pub struct ToPoints<F, A, const I: usize> {
    pub src: *const A,
    /// Distances between rows and columns.
    pub step: [usize; 2],
    pub c: usize,
    pub dst: *mut A,
    /// Distance between points.
    pub point: usize,
    pub transform: PhantomData<F>,
}

impl<F: Transform<I, IN>, A: Acc, const I: usize> WithSimd for ToPoints<F, A, I> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for c in (0..self.c).step_by(<A::Reg<S> as Register>::WIDTH) {
            // SAFETY: the caller's positions and rows are whole registers.
            unsafe {
                let at = plane::<F, A::Reg<S>, I, IN>(self.src.add(c), self.step);
                for (i, v) in at.as_flattened().iter().enumerate() {
                    v.store(self.dst.add(i * self.point + c));
                }
            }
        }
    }
}

/// Rows of the 36 points, `c` numbers long, brought back to `rows` by `cols` of `O` x `O` positions.
struct FromPoints<A, const O: usize> {
    src: *const A,
    /// Distance between points.
    point: usize,
    c: usize,
    dst: *mut A,
    /// Distances between rows and columns.
    step: [usize; 2],
    rows: usize,
    cols: usize,
}

impl<A: Acc, const O: usize> WithSimd for FromPoints<A, O> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for c in (0..self.c).step_by(<A::Reg<S> as Register>::WIDTH) {
            // SAFETY: the caller's rows and positions are whole registers.
            unsafe {
                let step = [IN * self.point, self.point];
                let y = plane::<Outputs, A::Reg<S>, IN, O>(self.src.add(c), step);
                for (i, line) in y.iter().enumerate().take(self.rows) {
                    for (j, v) in line.iter().enumerate().take(self.cols) {
                        v.store(self.dst.add(i * self.step[0] + j * self.step[1] + c));
                    }
                }
            }
        }
    }
}

/// `ToPoints` of `n` taps along each dimension.
pub fn taps_to_points<A: Acc>(n: usize, (src, step): (*const A, [usize; 2]), c: usize, (dst, point): (*mut A, usize)) {
    macro_rules! of {
        ($n:literal) => {
            dispatch(isa(), ToPoints::<_, _, $n> { src, step, c, dst, point, transform: PhantomData::<Taps> })
        };
    }
    match n {
        2 => of!(2),
        3 => of!(3),
        4 => of!(4),
        _ => of!(5),
    }
}

/// `FromPoints` to `n` positions along each dimension, of which those of `rows` by `cols` are stored.
pub fn from_points<A: Acc>(
    n: usize,
    (src, point): (*const A, usize),
    c: usize,
    (dst, step): (*mut A, [usize; 2]),
    (rows, cols): (usize, usize),
) {
    macro_rules! of {
        ($n:literal) => {
            dispatch(isa(), FromPoints::<_, $n> { src, point, c, dst, step, rows, cols })
        };
    }
    match n {
        2 => of!(2),
        3 => of!(3),
        4 => of!(4),
        _ => of!(5),
    }
}
