//! The loops of tiles, each written once and compiled for every instruction set.
//!
//! Which tiles an expression has is said in `expr.rs`.

use super::{ComplexFormula, Formula, IntFormula, MAX_PARAMS, NumFormula, Tile};
use crate::lanes::{Cx, HalfRegister, IntLane, Ints, Lanes, Num, Register};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// One tile for each `Isa`.
pub(super) type Tiles<T, P = T> = [Tile<T, P>; 3];

/// The three kinds of formula as one: evaluation on a given number type.
pub(super) trait Eval<const N: usize, L> {
    fn call(x: [L; N], p: &[L]) -> L;
}
pub(super) struct AsFloat<F>(F);
pub(super) struct AsNum<F>(F);
pub(super) struct AsInt<F>(F);

impl<F: Formula<N>, const N: usize, L: Lanes> Eval<N, L> for AsFloat<F> {
    #[inline(always)]
    fn call(x: [L; N], p: &[L]) -> L {
        F::eval(x, p)
    }
}
impl<F: NumFormula<N>, const N: usize, L: Num> Eval<N, L> for AsNum<F> {
    #[inline(always)]
    fn call(x: [L; N], p: &[L]) -> L {
        F::eval(x, p)
    }
}
impl<F: IntFormula<N>, const N: usize, L: Ints> Eval<N, L> for AsInt<F> {
    #[inline(always)]
    fn call(x: [L; N], p: &[L]) -> L {
        F::eval(x, p)
    }
}

/// A tile's loop as a type.
trait Loop<T, P = T> {
    /// `#[inline(always)]` everywhere: its code becomes that of the instruction set around it.
    ///
    /// # Safety
    /// `Tile`'s contract.
    unsafe fn run(n: usize, ins: *const *const T, steps: *const usize, out: *mut T, p: *const P);
}

/// The loop as code of an instruction set, which only machines that have it may run.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<T, P, L: Loop<T, P>>(n: usize, ins: *const *const T, steps: *const usize, out: *mut T, p: *const P) {
    // SAFETY: the caller's.
    unsafe { L::run(n, ins, steps, out, p) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx512<T, P, L: Loop<T, P>>(n: usize, ins: *const *const T, steps: *const usize, out: *mut T, p: *const P) {
    // SAFETY: the caller's.
    unsafe { L::run(n, ins, steps, out, p) }
}

/// The float tiles of a formula. Only those that are named are compiled.
pub(super) trait FloatTiles<const N: usize> {
    const F32: Tiles<f32>;
    const F64: Tiles<f64>;
    const BF16: Tiles<u16, f32>;
    const F16: Tiles<u16, f32>;
}

#[cfg(target_arch = "x86_64")]
impl<F, const N: usize> FloatTiles<N> for F
where
    F: Eval<N, f32> + Eval<N, f64>,
    F: Eval<N, crate::F32x8> + Eval<N, crate::F64x4> + Eval<N, crate::F32x16> + Eval<N, crate::F64x8>,
{
    const F32: Tiles<f32> = [
        Floats::<f32, F, N>::run,
        avx2::<_, _, Floats<crate::F32x8, F, N>>,
        avx512::<_, _, Floats<crate::F32x16, F, N>>,
    ];
    const F64: Tiles<f64> = [
        Floats::<f64, F, N>::run,
        avx2::<_, _, Floats<crate::F64x4, F, N>>,
        avx512::<_, _, Floats<crate::F64x8, F, N>>,
    ];
    const BF16: Tiles<u16, f32> = [
        Halves::<f32, F, N, true>::run,
        avx2::<_, _, Halves<crate::F32x8, F, N, true>>,
        avx512::<_, _, Halves<crate::F32x16, F, N, true>>,
    ];
    const F16: Tiles<u16, f32> = [
        Halves::<f32, F, N, false>::run,
        avx2::<_, _, Halves<crate::F32x8, F, N, false>>,
        avx512::<_, _, Halves<crate::F32x16, F, N, false>>,
    ];
}
#[cfg(not(target_arch = "x86_64"))]
impl<F: Eval<N, f32> + Eval<N, f64>, const N: usize> FloatTiles<N> for F {
    const F32: Tiles<f32> = [Floats::<f32, F, N>::run; 3];
    const F64: Tiles<f64> = [Floats::<f64, F, N>::run; 3];
    const BF16: Tiles<u16, f32> = [Halves::<f32, F, N, true>::run; 3];
    const F16: Tiles<u16, f32> = [Halves::<f32, F, N, false>::run; 3];
}

/// The tiles of a formula on integers.
#[cfg(target_arch = "x86_64")]
pub(super) const fn int_tiles<L: IntLane, F: Eval<N, L>, const N: usize>() -> Tiles<L::Elem> {
    [Integers::<L, F, N>::run, avx2::<_, _, Integers<L, F, N>>, avx512::<_, _, Integers<L, F, N>>]
}
#[cfg(not(target_arch = "x86_64"))]
pub(super) const fn int_tiles<L: IntLane, F: Eval<N, L>, const N: usize>() -> Tiles<L::Elem> {
    [Integers::<L, F, N>::run; 3]
}

/// Registers of floats.
struct Floats<R, F, const N: usize>(PhantomData<(R, F)>);
impl<R: Register, F: Eval<N, R>, const N: usize> Loop<R::Elem> for Floats<R, F, N> {
    #[inline(always)]
    unsafe fn run(n: usize, ins: *const *const R::Elem, steps: *const usize, out: *mut R::Elem, p: *const R::Elem) {
        // SAFETY: `Tile`'s contract: `ins`, `steps` and `p` have that many entries, and what they point at is valid for the
        // elements touched: whole registers while they fit, then the rest by a partial load and store. A chunk is loaded from
        // every input before it is stored, so `out` may be an input.
        unsafe {
            let mut params = [R::splat(0.0); MAX_PARAMS];
            for (k, v) in params.iter_mut().enumerate() {
                *v = R::all_of(*p.add(k));
            }
            // An input with step zero is read from a register's worth of copies, so the loop has no branch.
            let mut spread = [R::splat(0.0); N];
            let mut at = [std::ptr::null::<R::Elem>(); N];
            let mut step = [0usize; N];
            for k in 0..N {
                at[k] = *ins.add(k);
                step[k] = *steps.add(k) * R::WIDTH;
                if step[k] == 0 && n > 0 {
                    spread[k] = R::all_of(*at[k]);
                    at[k] = (&raw const spread[k]).cast();
                }
            }
            let mut i = 0;
            while i + R::WIDTH <= n {
                let mut x = [R::splat(0.0); N];
                for k in 0..N {
                    x[k] = R::load(at[k]);
                    at[k] = at[k].add(step[k]);
                }
                F::call(x, &params).store(out.add(i));
                i += R::WIDTH;
            }
            if i < n {
                let mut x = [R::splat(0.0); N];
                for k in 0..N {
                    x[k] = R::load_partial(at[k], n - i);
                }
                F::call(x, &params).store_partial(out.add(i), n - i);
            }
        }
    }
}

/// Half types, computed in f32. `BF`: bfloat16.
struct Halves<R, F, const N: usize, const BF: bool>(PhantomData<(R, F)>);
impl<R: HalfRegister, F: Eval<N, R>, const N: usize, const BF: bool> Loop<u16, f32> for Halves<R, F, N, BF> {
    #[inline(always)]
    unsafe fn run(n: usize, ins: *const *const u16, steps: *const usize, out: *mut u16, p: *const f32) {
        // SAFETY: as for `Floats`; the rest of a run goes through padded copies.
        unsafe {
            let load = |p: *const u16| if BF { R::load_bf16(p) } else { R::load_f16(p) };
            let store = |v: R, p: *mut u16| if BF { v.store_bf16(p) } else { v.store_f16(p) };
            let params: [R; MAX_PARAMS] = std::array::from_fn(|k| R::all_of(*p.add(k)));
            let mut spread = [[0u16; 16]; N];
            let (mut at, mut step) = ([std::ptr::null::<u16>(); N], [0usize; N]);
            for k in 0..N {
                (at[k], step[k]) = (*ins.add(k), *steps.add(k) * R::WIDTH);
                if step[k] == 0 && n > 0 {
                    spread[k] = [*at[k]; 16];
                    at[k] = spread[k].as_ptr();
                }
            }
            let mut i = 0;
            while i + R::WIDTH <= n {
                let mut x = [R::splat(0.0); N];
                for k in 0..N {
                    x[k] = load(at[k]);
                    at[k] = at[k].add(step[k]);
                }
                store(F::call(x, &params), out.add(i));
                i += R::WIDTH;
            }
            if i < n {
                let mut x = [R::splat(0.0); N];
                for k in 0..N {
                    let mut rest = [0u16; 16];
                    std::ptr::copy_nonoverlapping(at[k], rest.as_mut_ptr(), n - i);
                    x[k] = load(rest.as_ptr());
                }
                let mut rest = [0u16; 16];
                store(F::call(x, &params), rest.as_mut_ptr());
                std::ptr::copy_nonoverlapping(rest.as_ptr(), out.add(i), n - i);
            }
        }
    }
}

/// Integers: chunks in local arrays, which the compiler vectorises.
struct Integers<L, F, const N: usize>(PhantomData<(L, F)>);
impl<L: IntLane, F: Eval<N, L>, const N: usize> Loop<L::Elem> for Integers<L, F, N> {
    #[inline(always)]
    unsafe fn run(n: usize, ins: *const *const L::Elem, steps: *const usize, out: *mut L::Elem, p: *const L::Elem) {
        /// Bytes of a chunk: enough for the loop around it not to count, few enough for the first cache.
        const BYTES: usize = 2048;
        let chunk = BYTES / size_of::<L>();
        // SAFETY: `Tile`'s contract, as for `Floats`. A lane has the layout of its element. Where the output is an input, results
        // go through a local array; of the arrays only entries that have been written are read.
        unsafe {
            let params: [L; MAX_PARAMS] = std::array::from_fn(|k| L::of(*p.add(k)));
            // An input with step zero is read from copies.
            let mut spread = [[MaybeUninit::<u64>::uninit(); BYTES / 8]; N];
            let mut res = [MaybeUninit::<u64>::uninit(); BYTES / 8];
            let res = res.as_mut_ptr().cast::<L>();
            let mut at = [std::ptr::null::<L>(); N];
            let mut step = [0usize; N];
            for k in 0..N {
                at[k] = (*ins.add(k)).cast();
                step[k] = *steps.add(k) * chunk;
                if step[k] == 0 && n > 0 {
                    let v = *at[k];
                    let copies = spread[k].as_mut_ptr().cast::<L>();
                    (0..n.min(chunk)).for_each(|j| copies.add(j).write(v));
                    at[k] = copies;
                }
            }
            let in_place = (0..N).any(|k| std::ptr::eq(*ins.add(k), out));
            let mut i = 0;
            while i < n {
                let m = chunk.min(n - i);
                let dst = if in_place { res } else { out.add(i).cast::<L>() };
                for j in 0..m {
                    let mut x = [params[0]; N];
                    for k in 0..N {
                        x[k] = at[k].add(j).read_unaligned();
                    }
                    dst.add(j).write_unaligned(F::call(x, &params));
                }
                if in_place {
                    std::ptr::copy_nonoverlapping(res.cast::<L::Elem>(), out.add(i), m);
                }
                for k in 0..N {
                    at[k] = at[k].wrapping_add(step[k]);
                }
                i += m;
            }
        }
    }
}

/// The tile of a complex formula: one number at a time, in every instruction set.
pub(super) unsafe fn complex_tile<T: Lanes + Default, F: ComplexFormula<N>, const N: usize>(
    n: usize,
    ins: *const *const Cx<T>,
    steps: *const usize,
    out: *mut Cx<T>,
    p: *const Cx<T>,
) {
    // SAFETY: `Tile`'s contract, as for `Floats`: every input is read before its place may be written.
    unsafe {
        let params: [Cx<T>; MAX_PARAMS] = std::array::from_fn(|k| *p.add(k));
        let at: [*const Cx<T>; N] = std::array::from_fn(|k| *ins.add(k));
        let step: [usize; N] = std::array::from_fn(|k| *steps.add(k));
        for i in 0..n {
            let x = std::array::from_fn(|k| at[k].add(i * step[k]).read_unaligned());
            out.add(i).write_unaligned(F::eval(x, &params));
        }
    }
}
