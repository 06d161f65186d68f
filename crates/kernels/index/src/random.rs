//! RANDOM: every value is a function of (seed, offset, global element index); see `prim::philox`.
//!
//! A block of words becomes numbers of the compute dtype in a small buffer, the buffer is stored as the output's dtype.

use crate::num::Real;
use crate::random_in_order;
use oneflow_base::{DType, Error, Result, by_dtype};
use oneflow_kernels_prim::philox::{self, Window};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{Isa, Launch, RandomKind, RandomParams, Simd, View, WithSimd, Word, dispatch, isa, mt19937};

/// Elements drawn at a time.
const LANES: usize = 16;
/// Elements a buffer holds.
const BUFFER: usize = 512;

#[derive(Clone, Copy)]
pub struct Draw {
    pub kind: RandomKind,
    pub seed: u64,
    pub offset: u64,
    pub a: Word,
    pub b: Word,
    /// Random bits of a uniform value: as many as the dtype holds, so that rounding cannot reach the upper end.
    pub digits: u32,
}

pub unsafe fn random(l: &Launch<'_>) -> Result<()> {
    let out = l.output(0)?;
    let RandomParams { kind, seed, offset, a, b, shard } = l.read()?;
    let digits = match out.dtype {
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    };
    let d = Draw { kind, seed, offset, a, b, digits };
    let window = Window::new(&shard, out.sizes)?;
    if out.dtype.is_complex() || !(kind.is_of_integers() || out.dtype.is_float()) {
        return Err(Error::not_implemented(format!("random: {kind:?} is not defined for {}", out.dtype)));
    }
    if d.offset == mt19937::IN_ORDER {
        if !window.is_whole() {
            return Err(mt19937::only_in_order("random", "a shard of a global tensor"));
        }
        // SAFETY: the view is valid by the launch's contract.
        return unsafe { random_in_order::random(&out, kind, d.seed, d.a, d.b) };
    }
    if kind == RandomKind::Permutation {
        if !window.is_whole() {
            return Err(Error::runtime("random: a permutation is one order over all elements"));
        }
        // SAFETY: the view is valid by the launch's contract.
        return unsafe { permutation(&out, d.seed, d.offset) };
    }
    if kind.is_in_order_only() {
        return Err(Error::runtime(format!("random: {kind:?} is drawn in order alone")));
    }
    let mut grid = Grid::new(out.sizes, [out.strides, window.strides()]);
    let (n, [step, index_step]) = grid.pop_inner();
    let blocks = n.div_ceil(BUFFER);
    let isa = isa();
    by_dtype!(out.dtype, reals, T => {
        let p = Shared::<T>::new(out.ptr);
        split(grid.len() * blocks, n.min(BUFFER) as f64 * 1.5, &|r| {
            for u in r {
                let (row, from) = (u / blocks, u % blocks * BUFFER);
                let len = (n - from).min(BUFFER);
                grid.each(row..row + 1, |_, [off, index]| {
                    let first = window.first().wrapping_add(index as u64).wrapping_add(from as u64 * index_step as u64);
                    let o = p.at(off + from as isize * step);
                    // SAFETY: the block lies inside the output; tasks own whole blocks.
                    unsafe { d.store::<T>(isa, out.dtype, first, index_step as u64, o, step, len) }
                });
            }
        });
    }, _ => ());
    Ok(())
}

/// The words of `LANES` blocks.
struct Blocks(u64, u64, u64);
impl WithSimd for Blocks {
    type Output = [[u32; LANES]; 4];
    #[inline(always)]
    fn run<S: Simd>(self) -> [[u32; LANES]; 4] {
        philox::words::<LANES>(self.0, self.1, self.2)
    }
}

/// 0 .. n-1 shuffled (Fisher and Yates): step i takes its partner from words 2 (i % 2) and the next of block i / 2.
unsafe fn permutation(out: &View, seed: u64, offset: u64) -> Result<()> {
    let n = out.numel();
    let mut order: Vec<u32> =
        (0..u32::try_from(n).map_err(|_| Error::not_implemented("random: a permutation of 2^32"))?).collect();
    let isa = isa();
    for (group, from) in (0..n).step_by(2 * LANES).enumerate() {
        let w = dispatch(isa, Blocks(seed, offset, (group * LANES) as u64));
        let word = |half: usize, block: usize| w[half][block] as u64 | (w[half + 1][block] as u64) << 32;
        let words: [u64; 2 * LANES] = std::array::from_fn(|k| word(k % 2 * 2, k / 2));
        for (x, i) in words.into_iter().zip(from..n) {
            let j = i + ((x as u128 * (n - i) as u128) >> 64) as usize;
            order.swap(i, j);
        }
    }
    let mut grid = Grid::new(out.sizes, [out.strides]);
    let (inner, [step]) = grid.pop_inner();
    by_dtype!(out.dtype, reals, T => {
        let p = Shared::<T>::new(out.ptr);
        grid.each(0..grid.len(), |row, [at]| {
            for (k, v) in order[row * inner..][..inner].iter().enumerate() {
                // SAFETY: the offset is that of an element of the view.
                unsafe { *p.at(at + k as isize * step) = T::of_i64(*v as i64) };
            }
        });
    }, _ => ());
    Ok(())
}

impl Draw {
    /// Draws `len <= BUFFER` elements whose indices start at `first` and are `index_step` apart.
    unsafe fn store<T: Real>(
        &self,
        isa: Isa,
        dtype: DType,
        first: u64,
        index_step: u64,
        out: *mut T,
        step: isize,
        len: usize,
    ) {
        if index_step != 1 && len > 1 {
            for i in 0..len {
                // SAFETY: a part of this call's elements.
                unsafe {
                    self.store(
                        isa,
                        dtype,
                        first.wrapping_add(i as u64 * index_step),
                        1,
                        out.offset(i as isize * step),
                        1,
                        1,
                    )
                };
            }
            return;
        }
        macro_rules! through {
            ($compute:ty, $of:ident) => {{
                let mut buffer = [0 as $compute; BUFFER];
                let whole = &mut buffer[..len.next_multiple_of(LANES)];
                dispatch(isa, Fill { draw: self, first, out: whole });
                for (i, v) in buffer[..len].iter().enumerate() {
                    // SAFETY: element i of this call.
                    unsafe { *out.offset(i as isize * step) = T::$of(*v) };
                }
                // A value that rounds to the open end becomes the closed one (also in the loops that draw).
                if self.kind == RandomKind::Uniform && self.digits < 24 {
                    let (a, b) = (T::of_f64(self.a.f64()), T::of_f64(self.b.f64()));
                    for i in (0..len).filter(|_| a.key() < b.key()) {
                        // SAFETY: element i of this call.
                        unsafe {
                            let o = out.offset(i as isize * step);
                            if (*o).key() >= b.key() {
                                *o = a;
                            }
                        }
                    }
                }
            }};
        }
        match (self.kind, dtype) {
            (RandomKind::Integers, _) => through!(i64, of_i64),
            (RandomKind::Bernoulli, _) => through!(f32, of_f32),
            (_, DType::F64) => through!(f64, of_f64),
            _ => through!(f32, of_f32),
        }
    }

    #[inline(always)]
    fn f32s(&self, first: u64, out: &mut [f32]) {
        let (a, b) = (self.a.f64() as f32, self.b.f64() as f32);
        let (shift, scale) = (32 - self.digits, 1.0 / (1u32 << self.digits) as f32);
        match self.kind {
            RandomKind::Uniform => {
                let span = b - a;
                let end = if a < b { b } else { f32::INFINITY };
                self.each(first, out, |w| {
                    let v = ((w[0] >> shift) as i32 as f32 * scale) * span + a;
                    if v >= end { a } else { v }
                })
            }
            RandomKind::Normal => self.each(first, out, |w| philox::normal_f32(w[0], w[1]) * b + a),
            RandomKind::Bernoulli => {
                let t = philox::threshold(self.a.f64());
                self.each(first, out, |w| if w[0] >> 8 < t { 1.0 } else { 0.0 })
            }
            RandomKind::Exponential => {
                self.each(first, out, |w| philox::ln_f32(philox::uniform_f32_above_zero(w[0])) * (-1.0 / a))
            }
            // Drawn as integers, or in order alone.
            _ => {}
        }
    }

    #[inline(always)]
    fn f64s(&self, first: u64, out: &mut [f64]) {
        let (a, b) = (self.a.f64(), self.b.f64());
        match self.kind {
            RandomKind::Uniform => {
                let end = if a < b { b } else { f64::INFINITY };
                self.each(first, out, |w| {
                    let v = philox::uniform_f64(w[0], w[1]) * (b - a) + a;
                    if v >= end { a } else { v }
                })
            }
            RandomKind::Normal => self.each(first, out, |w| philox::normal_f64(w) * b + a),
            RandomKind::Exponential => self.each(first, out, |w| (1.0 - philox::uniform_f64(w[0], w[1])).ln() / -a),
            _ => {}
        }
    }

    /// `low + high half of (word * span)`: no division, and a bias below 2^-32 for spans that fit 32 bits.
    #[inline(always)]
    fn i64s(&self, first: u64, out: &mut [i64]) {
        let (low, span) = (self.a.i64(), self.b.i64().wrapping_sub(self.a.i64()) as u64);
        self.each(first, out, |w| {
            let x = w[0] as u64 | (w[1] as u64) << 32;
            low.wrapping_add(((x as u128 * span as u128) >> 64) as i64)
        })
    }

    #[inline(always)]
    fn each<V>(&self, first: u64, out: &mut [V], f: impl Fn([u32; 4]) -> V) {
        for (b, chunk) in out.chunks_exact_mut(LANES).enumerate() {
            let w = philox::words::<LANES>(self.seed, self.offset, first.wrapping_add((b * LANES) as u64));
            for (i, v) in chunk.iter_mut().enumerate() {
                *v = f([w[0][i], w[1][i], w[2][i], w[3][i]]);
            }
        }
    }
}

/// Draws compiled for an instruction set. The loops are plain arithmetic: every set gives the same bits.
pub struct Fill<'a, V> {
    pub draw: &'a Draw,
    pub first: u64,
    pub out: &'a mut [V],
}

macro_rules! fill {
    ($($t:ty, $body:ident);*) => {$(
        impl WithSimd for Fill<'_, $t> {
            type Output = ();
            #[inline(always)]
            fn run<S: Simd>(self) {
                self.draw.$body(self.first, self.out)
            }
        }
    )*};
}
fill!(f32, f32s; f64, f64s; i64, i64s);
