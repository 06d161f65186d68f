//! Transforms of lines, complex and real, through rustfft. A line that lies in one piece is used where it lies; others go
//! through a buffer, several side by side, so that memory is read by whole cache lines.

pub use rustfft::FftNum;
use rustfft::num_complex::Complex;
use rustfft::num_traits::Zero;
use rustfft::{Fft, FftDirection, FftPlanner};
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A real type with transforms.
pub trait Line: FftNum {
    /// Runs a pass over some of its lines.
    ///
    /// # Safety
    /// The lines lie in the source and the destination of the pass, and nobody else writes those of the destination.
    unsafe fn lines(pass: &Pass<'_, Self>, range: Range<usize>);
}
macro_rules! lines {
    ($($t:ty)*) => {$(
        impl Line for $t {
            unsafe fn lines(pass: &Pass<'_, $t>, range: Range<usize>) {
                lines(pass, range)
            }
        }
    )*};
}
lines!(f32 f64);

/// How lines of one length are transformed.
#[derive(Clone)]
struct Plan<R: FftNum> {
    fft: Arc<dyn Fft<R>>,
    /// Of real lines of even length, whose transform is a complex one of half the length: what its parts are told apart
    /// with, `-i / 2 exp(-2 pi i k / n)`. Empty otherwise.
    turns: Arc<[Complex<R>]>,
}

/// The plans of one thread, kept for every length met: by length, direction, and whether lines are real.
struct Plans<R: FftNum>(FftPlanner<R>, HashMap<(usize, bool, bool), Plan<R>>);

thread_local! {
    static PLANS: RefCell<HashMap<TypeId, Box<dyn Any>>> = RefCell::default();
}

fn plan<R: FftNum>(n: usize, inverse: bool, real: bool) -> Option<Plan<R>> {
    PLANS.with_borrow_mut(|all| {
        let plans =
            all.entry(TypeId::of::<R>()).or_insert_with(|| Box::new(Plans::<R>(FftPlanner::new(), HashMap::new())));
        let Plans(planner, known) = plans.downcast_mut::<Plans<R>>()?;
        let make = || {
            let halved = real && n.is_multiple_of(2);
            let len = if halved { n / 2 } else { n };
            let turn = |k: usize| {
                let (sin, cos) = (std::f64::consts::TAU * k as f64 / n as f64).sin_cos();
                let of = |v: f64| R::from_f64(v).unwrap_or_else(R::zero);
                Complex::new(of(-0.5 * sin), of(-0.5 * cos))
            };
            let direction = if inverse { FftDirection::Inverse } else { FftDirection::Forward };
            let turns = (0..if halved { len / 2 + 1 } else { 0 }).map(turn).collect();
            Plan { fft: planner.plan_fft(len, direction), turns }
        };
        Some(known.entry((n, inverse, real)).or_insert_with(make).clone())
    })
}

/// What is done to each line.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Complex {
        inverse: bool,
    },
    /// The first half of a real line's transform, or all of it.
    RealToComplex,
    ComplexToReal,
}

/// One pass over the lines of a dimension.
#[derive(Clone, Copy)]
pub struct Pass<'a, R> {
    pub kind: Kind,
    pub dim: usize,
    pub src: *const u8,
    pub src_strides: &'a [i64],
    pub n_src: usize,
    pub dst: *mut u8,
    pub dst_strides: &'a [i64],
    pub n_dst: usize,
    /// Of the other dimensions; those of `dim` are not read.
    pub sizes: &'a [i64],
    pub scale: R,
    pub conjugate: bool,
}

// SAFETY: tasks read and write lines of their own.
unsafe impl<R: Sync> Sync for Pass<'_, R> {}

/// Element offset of a line.
fn offset(pass_sizes: &[i64], dim: usize, strides: &[i64], line: usize) -> isize {
    let mut rest = line as i64;
    let mut at = 0;
    for d in (0..pass_sizes.len()).rev() {
        if d != dim {
            at += rest % pass_sizes[d] * strides[d];
            rest /= pass_sizes[d];
        }
    }
    at as isize
}

/// Lines that pass through the buffers together: their neighbours share cache lines.
const GROUP: usize = 8;

fn lines<R: FftNum>(p: &Pass<'_, R>, range: Range<usize>) {
    match p.kind {
        Kind::Complex { inverse } => {
            let Some(plan) = plan::<R>(p.n_src, inverse, false) else { return };
            let scratch = plan.fft.get_inplace_scratch_len().max(plan.fft.get_immutable_scratch_len());
            each::<Complex<R>, Complex<R>, R>(p, range, scratch, &|from, to, scratch| {
                match from {
                    Some(from) => plan.fft.process_immutable_with_scratch(from, to, scratch),
                    None => plan.fft.process_with_scratch(to, scratch),
                }
                scale(to, p.scale);
            });
        }
        Kind::RealToComplex => {
            let Some(plan) = plan::<R>(p.n_src, false, true) else { return };
            let scratch = plan.fft.get_inplace_scratch_len().max(plan.fft.get_immutable_scratch_len());
            each::<R, Complex<R>, R>(p, range, scratch, &|from, to, scratch| {
                forward(&plan, from.unwrap_or_default(), to, scratch);
                if p.conjugate {
                    to.iter_mut().for_each(|z| z.im = -z.im);
                }
                scale(to, p.scale);
            });
        }
        Kind::ComplexToReal => {
            let Some(plan) = plan::<R>(p.n_dst, true, true) else { return };
            let room = p.n_dst + 1;
            let scratch = room + plan.fft.get_inplace_scratch_len().max(plan.fft.get_outofplace_scratch_len());
            each::<Complex<R>, R, R>(p, range, scratch, &|from, to, scratch| {
                let (line, scratch) = scratch.split_at_mut(room);
                backward(&plan, from.unwrap_or_default(), p.conjugate, line, to, scratch);
                scale(to, p.scale);
            });
        }
    }
}

fn scale<T: Copy + std::ops::Mul<R, Output = T>, R: FftNum>(line: &mut [T], by: R) {
    if by != R::one() {
        line.iter_mut().for_each(|v| *v = *v * by);
    }
}

/// Transforms one line; without a source it is the destination's own.
type OneLine<'a, S, D, R> = &'a dyn Fn(Option<&[S]>, &mut [D], &mut [Complex<R>]);

/// Calls `f` for every line, where it lies or in buffers.
fn each<S, D, R>(p: &Pass<'_, R>, range: Range<usize>, scratch: usize, f: OneLine<'_, S, D, R>)
where
    S: Copy + Zero,
    D: Copy + Zero,
    R: FftNum,
{
    let stride = |s: &[i64]| s.get(p.dim).map_or(1, |&s| s as isize);
    let (src_step, dst_step) = (stride(p.src_strides), stride(p.dst_strides));
    let (from, to) = (p.src.cast::<S>(), p.dst.cast::<D>());
    let in_place = std::ptr::eq(p.src, p.dst);
    let src_direct = src_step == 1 || p.n_src == 1;
    let dst_direct = dst_step == 1 || p.n_dst == 1;
    let mut scratch = vec![Complex::new(R::zero(), R::zero()); scratch];
    let group = if src_direct && dst_direct { 1 } else { GROUP };
    let mut ins = vec![S::zero(); if src_direct { 0 } else { group * p.n_src }];
    let mut outs = vec![D::zero(); if dst_direct { 0 } else { group * p.n_dst }];
    for first in range.clone().step_by(group) {
        let n_lines = group.min(range.end - first);
        let mut at = [(0, 0); GROUP];
        for (i, at) in at[..n_lines].iter_mut().enumerate() {
            let place = |strides| offset(p.sizes, p.dim, strides, first + i);
            *at = (place(p.src_strides), place(p.dst_strides));
        }
        let at = &at[..n_lines];
        // SAFETY: lines lie in their views, and only this task touches those of the destination.
        unsafe {
            if !src_direct {
                for k in 0..p.n_src {
                    for (i, at) in at.iter().enumerate() {
                        *ins.as_mut_ptr().add(i * p.n_src + k) = *from.offset(at.0 + k as isize * src_step);
                    }
                }
            }
            for (i, at) in at.iter().enumerate() {
                let out = match dst_direct {
                    true => std::slice::from_raw_parts_mut(to.offset(at.1), p.n_dst),
                    false => &mut outs[i * p.n_dst..][..p.n_dst],
                };
                match src_direct {
                    true if in_place && dst_direct => f(None, out, &mut scratch),
                    true => f(Some(std::slice::from_raw_parts(from.offset(at.0), p.n_src)), out, &mut scratch),
                    false => f(Some(&ins[i * p.n_src..][..p.n_src]), out, &mut scratch),
                }
            }
            if !dst_direct {
                for k in 0..p.n_dst {
                    for (i, at) in at.iter().enumerate() {
                        *to.offset(at.1 + k as isize * dst_step) = *outs.as_ptr().add(i * p.n_dst + k);
                    }
                }
            }
        }
    }
}

/// A real line's transform: the first half of it, or all where the destination has room.
fn forward<R: FftNum>(plan: &Plan<R>, x: &[R], y: &mut [Complex<R>], scratch: &mut [Complex<R>]) {
    let (n, h) = (x.len(), x.len() / 2);
    if plan.turns.is_empty() {
        let mut line: Vec<_> = x.iter().map(|&v| Complex::new(v, R::zero())).collect();
        plan.fft.process_with_scratch(&mut line, scratch);
        let len = y.len().min(n);
        return y[..len].copy_from_slice(&line[..len]);
    }
    // SAFETY: a complex number is two real ones, real part first, of their alignment.
    let pairs = unsafe { std::slice::from_raw_parts(x.as_ptr().cast::<Complex<R>>(), h) };
    plan.fft.process_immutable_with_scratch(pairs, &mut y[..h], scratch);
    let zero = y[0];
    untangle::<R, false>(&mut y[..h + 1], &plan.turns);
    y[0] = Complex::new(zero.re + zero.im, R::zero());
    y[h] = Complex::new(zero.re - zero.im, R::zero());
    // The other half mirrors the first.
    if let Some((first, rest)) = y.split_at_mut_checked(h + 1) {
        rest.iter_mut().zip(first[1..].iter().rev().skip(1)).for_each(|(z, m)| *z = m.conj());
    }
}

/// The real line whose transform begins with `x`; what is missing is zero, and imaginary parts that no real line has are
/// left out. `line` has room for the transform.
fn backward<R: FftNum>(
    plan: &Plan<R>,
    x: &[Complex<R>],
    conjugate: bool,
    line: &mut [Complex<R>],
    y: &mut [R],
    scratch: &mut [Complex<R>],
) {
    let (n, h) = (y.len(), y.len() / 2);
    let known = x.len().min(h + 1);
    line[..known].copy_from_slice(&x[..known]);
    line[known..].fill(Complex::new(R::zero(), R::zero()));
    if conjugate {
        line[..known].iter_mut().for_each(|z| z.im = -z.im);
    }
    line[0].im = R::zero();
    if plan.turns.is_empty() {
        for k in 1..=h {
            line[n - k] = line[k].conj();
        }
        plan.fft.process_with_scratch(&mut line[..n], scratch);
        return y.iter_mut().zip(line).for_each(|(y, z)| *y = z.re);
    }
    let (zero, last) = (line[0].re, line[h].re);
    untangle::<R, true>(&mut line[..h + 1], &plan.turns);
    line[0] = Complex::new(zero + last, zero - last);
    // SAFETY: as in `forward`.
    let pairs = unsafe { std::slice::from_raw_parts_mut(y.as_mut_ptr().cast::<Complex<R>>(), h) };
    plan.fft.process_outofplace_with_scratch(&mut line[..h], pairs, scratch);
}

/// Between the transform `z` of a line's pairs as complex numbers and the line's own, but for the two ends. With
/// w = exp(-2 pi i k / n): `X[k] = (Z[k] + conj Z[h - k]) / 2 - i / 2 w (Z[k] - conj Z[h - k])`, and back, times two,
/// `Z[k] = X[k] + conj X[h - k] + i conj w (X[k] - conj X[h - k])`.
fn untangle<R: FftNum, const BACK: bool>(z: &mut [Complex<R>], turns: &[Complex<R>]) {
    let h = z.len() - 1;
    let (half, two) = (R::one() / (R::one() + R::one()), R::one() + R::one());
    let (front, back) = z.split_at_mut(h / 2 + 1);
    let n_pairs = (h - 1) / 2;
    let start = wide_untangle::<R, BACK>(front, back, turns, n_pairs);
    for k in start..=n_pairs {
        let (a, other) = (&mut front[k], &mut back[h - k - (h / 2 + 1)]);
        let b = other.conj();
        let (sum, difference) = (*a + b, *a - b);
        let (mean, turned) = match BACK {
            true => (sum, difference * turns[k].conj() * two),
            false => (sum * half, difference * turns[k]),
        };
        (*a, *other) = (mean + turned, (mean - turned).conj());
    }
    if h.is_multiple_of(2) {
        front[h / 2] = front[h / 2].conj() * if BACK { two } else { R::one() };
    }
}

/// The first pairs of single precision, four at a time, where the machine can; the first pair that is left.
fn wide_untangle<R: FftNum, const BACK: bool>(
    front: &mut [Complex<R>],
    back: &mut [Complex<R>],
    turns: &[Complex<R>],
    n_pairs: usize,
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if TypeId::of::<R>() == TypeId::of::<f32>() && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        let (front, back) = (front.as_mut_ptr().cast(), back.as_mut_ptr_range().end.cast());
        // SAFETY: the machine has the instructions, and R is f32. Pair k is front[k] and the one that stands k + 1 before
        // the end of the back, whose last element is no pair's.
        return unsafe { untangle_avx2::<BACK>(front, back, turns.as_ptr().cast(), n_pairs) };
    }
    let _ = (front, back, turns, n_pairs);
    1
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn untangle_avx2<const BACK: bool>(
    front: *mut f32,
    back_end: *mut f32,
    turns: *const f32,
    n_pairs: usize,
) -> usize {
    use std::arch::x86_64::*;
    let conj = _mm256_castsi256_ps(_mm256_set1_epi64x(1 << 63));
    let (mean, turn) =
        if BACK { (_mm256_set1_ps(1.0), _mm256_set1_ps(2.0)) } else { (_mm256_set1_ps(0.5), _mm256_set1_ps(1.0)) };
    let mirrored = |v| _mm256_castpd_ps(_mm256_permute4x64_pd::<0x1b>(_mm256_castps_pd(v)));
    let mut k = 1;
    while k + 3 <= n_pairs {
        // SAFETY: pairs k to k + 3 are below the last.
        unsafe {
            let (at, from) = (front.add(2 * k), back_end.sub(2 * (k + 4)));
            let (a, b) = (_mm256_loadu_ps(at), _mm256_xor_ps(mirrored(_mm256_loadu_ps(from)), conj));
            let w = _mm256_mul_ps(_mm256_loadu_ps(turns.add(2 * k)), turn);
            let w = if BACK { _mm256_xor_ps(w, conj) } else { w };
            let (sum, difference) = (_mm256_mul_ps(_mm256_add_ps(a, b), mean), _mm256_sub_ps(a, b));
            let crossed = _mm256_mul_ps(_mm256_permute_ps::<0xb1>(difference), _mm256_movehdup_ps(w));
            let turned = _mm256_fmaddsub_ps(difference, _mm256_moveldup_ps(w), crossed);
            _mm256_storeu_ps(at, _mm256_add_ps(sum, turned));
            _mm256_storeu_ps(from, mirrored(_mm256_xor_ps(_mm256_sub_ps(sum, turned), conj)));
        }
        k += 4;
    }
    k
}
