//! RANDOM_BY: draws whose parameters are tensors. As in RANDOM, the value of an element is a function of (seed, offset, its
//! global index) and its parameters: rejected candidates take further blocks of the element's own stream.

use crate::num::Real;
use crate::random_in_order;
use oneflow_base::{DType, Error, Result, by_dtype};
use oneflow_kernels_prim::philox::{self, Window};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Lanes, Launch, RandomByKind, RandomByParams, mt19937};
use std::sync::atomic::{AtomicBool, Ordering};

/// Uniform numbers of (0, 1) or [0, 1), and normal ones.
pub trait Numbers {
    fn uniform(&mut self) -> f64;
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// The numbers of one element.
pub struct Stream {
    seed: u64,
    offset: u64,
    index: u64,
    words: [u32; 4],
    at: usize,
}

impl Stream {
    pub fn new(seed: u64, offset: u64, index: u64) -> Stream {
        Stream { seed, offset, index, words: [0; 4], at: 4 }
    }
}

impl Numbers for Stream {
    /// In (0, 1).
    fn uniform(&mut self) -> f64 {
        if self.at == 4 {
            self.words = philox::block(self.seed, self.offset, self.index);
            // Another key for the next block of this element.
            self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            self.at = 0;
        }
        let u = philox::uniform_f64(self.words[self.at], self.words[self.at + 1]);
        self.at += 2;
        u.max(f64::MIN_POSITIVE)
    }
}

/// Hörmann, "The transformed rejection method for generating Poisson random variables", 1993; below ten by products.
pub fn poisson(s: &mut impl Numbers, rate: f64) -> f64 {
    if rate.is_nan() || rate <= 0.0 {
        return if rate == 0.0 { 0.0 } else { f64::NAN };
    }
    if rate < 10.0 {
        let limit = (-rate).exp();
        let (mut k, mut product) = (0.0, s.uniform());
        while product > limit {
            k += 1.0;
            product *= s.uniform();
        }
        return k;
    }
    let log_rate = rate.ln();
    let b = 0.931 + 2.53 * rate.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let v_r = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = (s.uniform() - 0.5, s.uniform());
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + rate + 0.43).floor();
        if us >= 0.07 && v <= v_r {
            return k;
        }
        if k < 0.0 || us < 0.013 && v > us {
            continue;
        }
        if (v * inverse_alpha / (a / (us * us) + b)).ln() <= -rate + k * log_rate - Lanes::lgamma(k + 1.0) {
            return k;
        }
    }
}

/// Hörmann, "The generation of binomial random variates", 1993; few successes by the gaps between them.
pub fn binomial(s: &mut impl Numbers, n: f64, p: f64) -> f64 {
    if n.is_nan() || p.is_nan() {
        return f64::NAN;
    }
    if n <= 0.0 || p <= 0.0 {
        return 0.0;
    }
    if p >= 1.0 {
        return n;
    }
    if p > 0.5 {
        return n - binomial(s, n, 1.0 - p);
    }
    if n * p < 10.0 {
        let (mut k, mut trials) = (0.0, 0.0);
        loop {
            trials += (s.uniform().ln() / (-p).ln_1p()).ceil().max(1.0);
            if trials > n {
                return k;
            }
            k += 1.0;
        }
    }
    let spread = (n * p * (1.0 - p)).sqrt();
    let b = 1.15 + 2.53 * spread;
    let a = -0.0873 + 0.0248 * b + 0.01 * p;
    let c = n * p + 0.5;
    let v_r = 0.92 - 4.2 / b;
    let alpha = (2.83 + 5.1 / b) * spread;
    let (odds, mode) = (p / (1.0 - p), ((n + 1.0) * p).floor());
    let gamma = |x: f64| Lanes::lgamma(x + 1.0);
    loop {
        let (u, v) = (s.uniform() - 0.5, s.uniform());
        let us = 0.5 - u.abs();
        let k = ((2.0 * a / us + b) * u + c).floor();
        if us >= 0.07 && v <= v_r {
            return k;
        }
        if k < 0.0 || k > n {
            continue;
        }
        let v = (v * alpha / (a / (us * us) + b)).ln();
        if v <= gamma(mode) + gamma(n - mode) - gamma(k) - gamma(n - k) + (k - mode) * odds.ln() {
            return k;
        }
    }
}

/// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
pub fn gamma(s: &mut Stream, shape: f64) -> f64 {
    if shape.is_nan() || shape <= 0.0 {
        return if shape == 0.0 { 0.0 } else { f64::NAN };
    }
    if shape < 1.0 {
        return gamma(s, shape + 1.0) * s.uniform().powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = s.normal();
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        let u = s.uniform();
        if u.ln() < 0.5 * x * x + d * (1.0 - v + v.ln()) {
            return d * v;
        }
    }
}

pub fn bad_rate() -> Error {
    Error::runtime("poisson(): invalid Poisson rate, expected rate to be non-negative")
}

pub unsafe fn random_by(l: &Launch<'_>) -> Result<()> {
    let (out, a) = (l.output(0)?, l.input(0)?);
    let b = if l.ins.len() > 1 { l.input(1)? } else { a };
    let RandomByParams { kind, seed, offset, shard } = l.read()?;
    let window = Window::new(&shard, out.sizes)?;
    if a.dtype != DType::F64 || b.dtype != DType::F64 || out.dtype.is_complex() {
        return Err(Error::not_implemented(format!("random_by: {kind:?} of {} into {}", a.dtype, out.dtype)));
    }
    if offset == mt19937::IN_ORDER {
        if !window.is_whole() {
            return Err(mt19937::only_in_order("random_by", "a shard of a global tensor"));
        }
        if out.dtype != DType::F64 {
            return Err(Error::not_implemented(format!("random_by: {kind:?} into {}", out.dtype)));
        }
        // SAFETY: the views are valid by the launch's contract.
        return unsafe { random_in_order::random_by(l, kind, seed) };
    }
    let mut grid = Grid::new(out.sizes, [out.strides, window.strides(), a.strides, b.strides]);
    let (n, [step, index_step, a_step, b_step]) = grid.pop_inner();
    let (pa, pb) = (Shared::<f64>::new(a.ptr), Shared::<f64>::new(b.ptr));
    if kind == RandomByKind::Poisson {
        let wrong = AtomicBool::new(false);
        split(grid.len(), n as f64, &|r| {
            grid.each(r, |_, [_, _, at, _]| {
                // SAFETY: element i of this row lies in the view.
                if (0..n as isize).any(|i| !unsafe { *pa.at(at + i * a_step) >= 0.0 }) {
                    wrong.store(true, Ordering::Relaxed);
                }
            });
        });
        if wrong.into_inner() {
            return Err(bad_rate());
        }
    }
    by_dtype!(out.dtype, reals, T => {
        let p = Shared::<T>::new(out.ptr);
        split(grid.len(), n as f64 * 100.0, &|r| {
            grid.each(r, |_, [off, index, at_a, at_b]| {
                for i in 0..n as isize {
                    let place = window.first().wrapping_add(index as u64).wrapping_add((i * index_step) as u64);
                    let mut s = Stream::new(seed, offset, place);
                    // SAFETY: element i of this row lies in every view; tasks own whole rows.
                    unsafe {
                        let (x, y) = (*pa.at(at_a + i * a_step), *pb.at(at_b + i * b_step));
                        let v = match kind {
                            RandomByKind::Poisson => poisson(&mut s, x),
                            RandomByKind::Binomial => binomial(&mut s, x, y),
                            RandomByKind::Gamma => gamma(&mut s, x),
                        };
                        *p.at(off + i * step) = T::of_f64(v);
                    }
                }
            });
        });
    }, _ => ());
    Ok(())
}
