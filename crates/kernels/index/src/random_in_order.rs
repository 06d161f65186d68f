//! RANDOM and RANDOM_BY with an engine that draws one number after the other: PyTorch's algorithms on a CPU, element by
//! element as they lie in memory, on the calling thread. See `prim::mt19937`.

use crate::num::Real;
use crate::random_by::{self, Numbers};
use oneflow_base::{DType, Error, Result, by_dtype};
use oneflow_kernels_prim::mt19937::{Engine, each_in_order, engine, normal_16, normal_16_f64};
use oneflow_kernels_prim::{Launch, RandomByKind, RandomKind, View, Word};

/// From this many elements on, contiguous normal numbers are made sixteen at a time.
const VECTOR: usize = 16;
/// Ranges of integers from here on take two words.
const WIDE: u64 = 1 << 28;

pub unsafe fn random(out: &View, kind: RandomKind, id: u64, a: Word, b: Word) -> Result<()> {
    let registered = engine(id)?;
    let mut e = registered.lock();
    let e = &mut *e;
    let dtype = out.dtype;
    let (x, y) = (a.f64(), b.f64());
    by_dtype!(dtype, reals, T => {
        let p = out.ptr.cast::<T>();
        let mut fill = |f: &mut dyn FnMut(&mut Engine) -> T| {
            each_in_order(out.sizes, [out.strides], |[at]| {
                let drawn = f(e);
                // SAFETY: the offsets are those of the view's elements.
                unsafe { *p.offset(at) = drawn };
            });
        };
        match kind {
            // Products and sums are fused where PyTorch's compiler fuses them.
            RandomKind::Uniform if dtype == DType::F64 => fill(&mut |e| T::of_f64(e.uniform_f64().mul_add(y - x, x))),
            RandomKind::Uniform => {
                let (x, y) = (x as f32, y as f32);
                let (from, end) = (T::of_f32(x), T::of_f32(y));
                fill(&mut |e| {
                    let v = T::of_f32(e.uniform_f32().mul_add(y - x, x));
                    // What rounds to the open end becomes the closed one.
                    if from.key() < end.key() && v.key() >= end.key() { from } else { v }
                })
            }
            RandomKind::Normal => {
                let n = out.sizes.iter().product::<i64>() as usize;
                if n < VECTOR || !is_contiguous(out) {
                    fill(&mut |e| rounded::<T>(e.normal_f64().mul_add(y, x), dtype))
                } else {
                    // SAFETY: a contiguous view holds n elements.
                    let all = unsafe { std::slice::from_raw_parts_mut(p, n) };
                    normals(all, dtype, e, x, y)
                }
            }
            RandomKind::Bernoulli => fill(&mut |e| T::of_f64((e.uniform_f64() < x) as u8 as f64)),
            RandomKind::Exponential => fill(&mut |e| rounded::<T>(-1.0 / x * (-e.uniform_f64()).ln_1p(), dtype)),
            RandomKind::Integers => {
                let (low, span) = (a.i64(), b.i64().wrapping_sub(a.i64()) as u64);
                if span == 0 {
                    return Err(Error::runtime("random: there is no integer to draw"));
                }
                fill(&mut |e| T::of_i64(low.wrapping_add(if span < WIDE { e.u32() as u64 % span } else { e.u64() % span } as i64)))
            }
            RandomKind::AnyInteger => {
                let (is_wide, n) = integers_of(dtype);
                fill(&mut |e| T::of_i64((if is_wide { e.u64() } else { e.u32() as u64 } % n) as i64))
            }
            RandomKind::LogNormal => fill(&mut |e| rounded::<T>(e.normal_f64().mul_add(y, x).exp(), dtype)),
            RandomKind::Cauchy => {
                fill(&mut |e| rounded::<T>(x + y * (std::f64::consts::PI * (e.uniform_f64() - 0.5)).tan(), dtype))
            }
            RandomKind::Geometric => {
                fill(&mut |e| rounded::<T>((e.uniform_f64().ln() / (-x).ln_1p()).ceil(), dtype))
            }
            RandomKind::Permutation => {
                let mut offsets = Vec::new();
                each_in_order(out.sizes, [out.strides], |[at]| offsets.push(at));
                let n = offsets.len();
                // SAFETY: the offsets are those of the view's elements.
                unsafe {
                    offsets.iter().enumerate().for_each(|(i, at)| *p.offset(*at) = T::of_i64(i as i64));
                    for i in 0..n.saturating_sub(1) {
                        let k = i + (if n as u64 >= 1 << 32 { e.u64() } else { e.u32() as u64 } % (n - i) as u64) as usize;
                        std::ptr::swap(p.offset(offsets[i]), p.offset(offsets[k]));
                    }
                }
            }
        }
    }, _ => return Err(Error::not_implemented(format!("random: {kind:?} is not defined for {dtype}"))));
    Ok(())
}

/// A double in the dtype, by way of float for the halves.
fn rounded<T: Real>(v: f64, dtype: DType) -> T {
    if dtype.is_float() && dtype.size() < 4 { T::of_f32(v as f32) } else { T::of_f64(v) }
}

fn is_contiguous(v: &View) -> bool {
    let mut step = 1;
    v.sizes.iter().zip(v.strides).rev().all(|(n, s)| {
        let fits = *n == 1 || *s == step;
        step *= n;
        fits
    })
}

/// How many integers from zero on a dtype draws from where no end is named, and whether that takes two words.
fn integers_of(dtype: DType) -> (bool, u64) {
    match dtype {
        DType::Bool => (false, 2),
        DType::U8 => (false, 1 << 8),
        DType::I8 => (false, 1 << 7),
        DType::I16 => (false, 1 << 15),
        DType::I32 => (false, 1 << 31),
        DType::I64 => (true, 1 << 63),
        DType::F16 => (false, (1 << 11) + 1),
        DType::BF16 => (false, (1 << 8) + 1),
        DType::F32 => (false, (1 << 24) + 1),
        _ => (true, (1 << 53) + 1),
    }
}

/// Sixteen or more normal numbers. Where sixteen does not divide their count, the last sixteen are drawn anew.
fn normals<T: Real>(all: &mut [T], dtype: DType, e: &mut Engine, mean: f64, std: f64) {
    let n = all.len();
    let whole = n / VECTOR * VECTOR;
    let starts = (0..whole).step_by(VECTOR).map(|at| (at, 0));
    // Floats and doubles draw for the rest first, halves do not.
    let skipped = if dtype.size() < 4 { 0 } else { n - whole };
    let rest = (n > whole).then_some((n - VECTOR, skipped));
    for (at, skipped) in starts.chain(rest) {
        let block = &mut all[at..at + VECTOR];
        if dtype == DType::F64 {
            for _ in 0..skipped {
                e.uniform_f64();
            }
            let mut u = [0.0; VECTOR];
            u.iter_mut().for_each(|u| *u = e.uniform_f64());
            normal_16_f64(&mut u, mean, std);
            block.iter_mut().zip(u).for_each(|(o, v)| *o = T::of_f64(v));
        } else {
            for _ in 0..skipped {
                e.uniform_f32();
            }
            let mut u = [0.0; VECTOR];
            u.iter_mut().for_each(|u| *u = e.uniform_f32());
            normal_16(&mut u, mean as f32, std as f32);
            block.iter_mut().zip(u).for_each(|(o, v)| *o = T::of_f32(v));
        }
    }
}

/// The numbers of an engine as RANDOM_BY's algorithms read them.
struct InOrder<'a>(&'a mut Engine);

impl Numbers for InOrder<'_> {
    fn uniform(&mut self) -> f64 {
        self.0.uniform_f64()
    }
    fn normal(&mut self) -> f64 {
        self.0.normal_f64()
    }
}

/// Marsaglia and Tsang's gamma numbers, with the draws in PyTorch's order.
fn gamma(e: &mut Engine, shape: f64) -> f64 {
    if shape.is_nan() || shape <= 0.0 {
        return if shape == 0.0 { 0.0 } else { f64::NAN };
    }
    let scale = if shape < 1.0 { (1.0 - e.uniform_f64()).powf(1.0 / shape) } else { 1.0 };
    let d = if shape < 1.0 { shape + 1.0 } else { shape } - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let (mut x, mut v) = (0.0, 0.0);
        while v <= 0.0 {
            x = e.normal_f64();
            v = 1.0 + c * x;
        }
        let v = v * v * v;
        let u = 1.0 - e.uniform_f64();
        if u.ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {
            return scale * d * v;
        }
    }
}

pub unsafe fn random_by(l: &Launch<'_>, kind: RandomByKind, id: u64) -> Result<()> {
    let (out, a) = (l.output(0)?, l.input(0)?);
    let b = if l.ins.len() > 1 { l.input(1)? } else { a };
    let registered = engine(id)?;
    let mut e = registered.lock();
    let (first, second, numbers) = (a.ptr.cast::<f64>(), b.ptr.cast::<f64>(), out.ptr.cast::<f64>());
    let mut wrong = false;
    each_in_order(out.sizes, [out.strides, a.strides], |[_, at]| {
        // SAFETY: both views hold doubles at these offsets, which the caller checked.
        let rate = unsafe { *first.offset(at) };
        wrong |= rate.is_nan() || rate < 0.0;
    });
    if wrong && kind == RandomByKind::Poisson {
        return Err(random_by::bad_rate());
    }
    each_in_order(out.sizes, [out.strides, a.strides, b.strides], |[o, i, j]| {
        // SAFETY: as above; the second view holds doubles too.
        unsafe {
            let (x, y) = (*first.offset(i), *second.offset(j));
            *numbers.offset(o) = match kind {
                RandomByKind::Poisson => random_by::poisson(&mut InOrder(&mut e), x),
                RandomByKind::Binomial => random_by::binomial(&mut InOrder(&mut e), x, y),
                RandomByKind::Gamma => gamma(&mut e, x),
            };
        }
    });
    Ok(())
}
