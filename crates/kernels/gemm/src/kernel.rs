//! The micro-kernels: a tile of C in registers, from packed panels or straight from the operands.
//!
//! A kernel sums over k in order, one chain per element, so a tile's height and width never change a value.

use crate::mul_add::*;
use oneflow_kernels_prim::Isa;

/// Where a tile's operands lie. `a` has `MR` rows `a_rs` apart (1 when packed) and steps by `a_cs`; `b` is contiguous
/// along its width and steps by `b_rs`.
pub struct Tile<P, A> {
    pub k: usize,
    pub a: *const P,
    pub a_rs: isize,
    pub a_cs: isize,
    pub b: *const P,
    pub b_rs: isize,
    pub c: *mut A,
    pub c_rs: isize,
    pub alpha: A,
    pub onto: Onto<A>,
    pub ahead: Ahead,
}

/// Memory that later tiles read, asked for an address a step.
#[derive(Clone, Copy)]
pub struct Ahead {
    pub at: *const u8,
    /// Bytes.
    pub step: isize,
}

impl Ahead {
    pub const NOTHING: Ahead = Ahead { at: std::ptr::null(), step: 0 };

    /// An address that is there costs less than none: no page table has to be walked in vain.
    #[inline(always)]
    fn or(self, at: *const u8) -> Ahead {
        if self.at.is_null() { Ahead { at, step: 0 } } else { self }
    }

    /// What the `i`-th of `n` tiles of so many steps asks for, where all of them together ask for `bytes` from `at` on.
    pub fn share<P>(at: *const P, bytes: usize, (i, n): (usize, usize), steps: usize) -> Ahead {
        let step = bytes / (n * steps).max(1);
        Ahead { at: at.cast::<u8>().wrapping_add(i * step * steps), step: step as isize }
    }
}

/// Lanes of the widest register.
const MOST_LANES: usize = 16;

/// What the sums of a tile are added to.
#[derive(Clone, Copy)]
pub enum Onto<A> {
    Nothing,
    C,
    /// The same numbers, one a column, for all rows.
    Row(*const A),
    /// The same numbers, one a row and so far apart, for all columns.
    Column(*const A, isize),
    /// Another matrix, its rows so far apart.
    Rows(*const A, isize),
    /// Both.
    RowAndRows(*const A, *const A, isize),
}

impl<A> Onto<A> {
    /// C where `add`.
    pub fn c(add: bool) -> Onto<A> {
        if add { Onto::C } else { Onto::Nothing }
    }
}

pub type KernelFn<P, A> = unsafe fn(&Tile<P, A>);

/// A tile whose rows lie anywhere: A and C by offsets a row, and k in runs of equal length that begin anywhere in both.
pub struct Gather<'a, P, A> {
    /// Offsets in A and B where runs begin.
    pub runs: &'a [[isize; 2]],
    /// Steps of a run; A's are neighbours.
    pub k: usize,
    pub a: *const P,
    pub b: *const P,
    pub b_rs: isize,
    pub c: *mut A,
    /// Offsets of the rows in A and C; as many as the kernel's height.
    pub rows: &'a [[isize; 2]],
    pub alpha: A,
    /// Add to C instead of replacing it.
    pub add: bool,
    pub ahead: Ahead,
}

pub type GatherFn<P, A> = unsafe fn(&Gather<'_, P, A>);

/// The micro-kernels of one instruction set and type.
pub struct Kernels<P: 'static, A: 'static> {
    /// Largest tile height.
    pub mr: usize,
    /// Largest tile width: `2 * lanes`.
    pub nr: usize,
    pub lanes: usize,
    /// `[direct A][height - 1][registers wide - 1]`
    pub table: [&'static [[KernelFn<P, A>; 2]]; 2],
    /// `[height - 1][registers wide - 1]`
    pub gather: &'static [[GatherFn<P, A>; 2]],
    /// Block sizes: k, rows of A and columns of B that are packed at a time.
    pub kc: usize,
    pub mc: usize,
    pub nc: usize,
}

#[inline(always)]
unsafe fn tile<S: MulAdd, const DIRECT_A: bool, const MR: usize, const NV: usize>(t: &Tile<S::P, S::A>) {
    // SAFETY: the caller's pointers cover k steps of the panels and the tile of C, and the tier is there.
    unsafe {
        let mut acc = [[S::zero(); NV]; MR];
        let (mut a, mut b) = (t.a, t.b);
        let a_rs = if DIRECT_A { t.a_rs } else { 1 };
        let a_cs = if DIRECT_A { t.a_cs } else { MR as isize };
        let mut left = t.k;
        if t.k >= PREFETCH_FROM {
            // The tile of C is needed at the end. A line or two a step leaves room for those of A and B.
            let mut row = t.c;
            for _ in 0..MR {
                for line in 0..(NV * S::LANES * size_of::<S::A>()).div_ceil(64) {
                    prefetch(row.wrapping_byte_add(64 * line));
                }
                prefetch(row.wrapping_add(NV * S::LANES - 1));
                row = row.wrapping_offset(t.c_rs);
                step::<S, MR, NV>(&mut acc, a, a_rs, b);
                (a, b) = (a.offset(a_cs), b.offset(t.b_rs));
            }
            left -= MR;
        }
        let Ahead { at: mut ahead, step: ahead_step } = t.ahead.or(t.a.cast());
        for _ in 0..left {
            prefetch_near(ahead);
            ahead = ahead.wrapping_byte_offset(ahead_step);
            step::<S, MR, NV>(&mut acc, a, a_rs, b);
            (a, b) = (a.offset(a_cs), b.offset(t.b_rs));
        }
        let row = |p: *const S::A, j: usize| p.wrapping_add(j * S::LANES);
        let rows = |p: *const S::A, rs: isize, i: usize, j: usize| row(p.wrapping_offset(i as isize * rs), j);
        match t.onto {
            Onto::Nothing => store::<S, MR, NV>(t, &acc, |_, _| [None; 2]),
            Onto::C => store::<S, MR, NV>(t, &acc, |i, j| [Some(rows(t.c, t.c_rs, i, j)), None]),
            Onto::Row(p) => store::<S, MR, NV>(t, &acc, |_, j| [Some(row(p, j)), None]),
            Onto::Column(p, rs) => {
                let spread: [[S::A; MOST_LANES]; MR] =
                    std::array::from_fn(|i| [*p.wrapping_offset(i as isize * rs); MOST_LANES]);
                store::<S, MR, NV>(t, &acc, |i, _| [Some(spread[i].as_ptr()), None])
            }
            Onto::Rows(m, rs) => store::<S, MR, NV>(t, &acc, |i, j| [Some(rows(m, rs, i, j)), None]),
            Onto::RowAndRows(p, m, rs) => {
                store::<S, MR, NV>(t, &acc, |i, j| [Some(row(p, j)), Some(rows(m, rs, i, j))])
            }
        }
    }
}

#[inline(always)]
unsafe fn step<S: MulAdd, const MR: usize, const NV: usize>(
    acc: &mut [[S::V; NV]; MR],
    a: *const S::P,
    a_rs: isize,
    b: *const S::P,
) {
    // SAFETY: the caller's pointers cover a step of the panels, and the tier is there.
    unsafe {
        let bv: [S::VP; NV] = std::array::from_fn(|j| S::load(b.add(j * S::LANES)));
        for (i, row) in acc.iter_mut().enumerate() {
            let av = S::splat(a.offset(i as isize * a_rs));
            for j in 0..NV {
                row[j] = S::madd(av, bv[j], row[j]);
            }
        }
    }
}

#[inline(always)]
unsafe fn store<S: MulAdd, const MR: usize, const NV: usize>(
    t: &Tile<S::P, S::A>,
    acc: &[[S::V; NV]; MR],
    plus: impl Fn(usize, usize) -> [Option<*const S::A>; 2],
) {
    for (i, row) in acc.iter().enumerate() {
        for (j, &v) in row.iter().enumerate() {
            // SAFETY: the caller's pointers cover the tile of C and what is added, and the tier is there.
            unsafe {
                let c = t.c.offset(i as isize * t.c_rs).add(j * S::LANES);
                S::update(c, v, t.alpha, plus(i, j));
            }
        }
    }
}

#[inline(always)]
unsafe fn gather<S: MulAdd, const MR: usize, const NV: usize>(t: &Gather<'_, S::P, S::A>) {
    let rows = &t.rows[..MR];
    // SAFETY: the caller's pointers and offsets cover the runs and the rows of C, and the tier is there.
    unsafe {
        let mut acc = [[S::zero(); NV]; MR];
        let Ahead { at: mut ahead, step } = t.ahead.or(t.a.cast());
        for run in t.runs {
            let a: [*const S::P; MR] = std::array::from_fn(|i| t.a.offset(run[0] + rows[i][0]));
            let mut b = t.b.offset(run[1]);
            for p in 0..t.k {
                prefetch_near(ahead);
                ahead = ahead.wrapping_byte_offset(step);
                let bv: [S::VP; NV] = std::array::from_fn(|j| S::load(b.add(j * S::LANES)));
                for (row, a) in acc.iter_mut().zip(a) {
                    let av = S::splat(a.add(p));
                    for j in 0..NV {
                        row[j] = S::madd(av, bv[j], row[j]);
                    }
                }
                b = b.offset(t.b_rs);
            }
        }
        for (row, at) in acc.iter().zip(rows) {
            for (j, &v) in row.iter().enumerate() {
                let c = t.c.offset(at[1]).add(j * S::LANES);
                S::update(c, v, t.alpha, [t.add.then_some(c.cast_const()), None]);
            }
        }
    }
}

/// Shorter sums come from small problems, whose C is near.
const PREFETCH_FROM: usize = 48;

#[inline(always)]
pub(crate) fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, valid for any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// As `prefetch`, into the second cache.
#[inline(always)]
fn prefetch_near<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, valid for any address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

macro_rules! kernels {
    ($features:literal, $simd:ty, [$($mr:literal)*]) => {{
        #[target_feature(enable = $features)]
        unsafe fn run<const DIRECT_A: bool, const MR: usize, const NV: usize>(t: &Tile<<$simd as MulAdd>::P, <$simd as MulAdd>::A>) {
            // SAFETY: compiled for the tier; the rest is the caller's contract.
            unsafe { tile::<$simd, DIRECT_A, MR, NV>(t) }
        }
        kernels!(@table run, [$($mr)*])
    }};
    (gather $features:literal, $simd:ty, [$($mr:literal)*]) => {{
        #[target_feature(enable = $features)]
        unsafe fn run<const MR: usize, const NV: usize>(t: &Gather<'_, <$simd as MulAdd>::P, <$simd as MulAdd>::A>) {
            // SAFETY: compiled for the tier; the rest is the caller's contract.
            unsafe { gather::<$simd, MR, NV>(t) }
        }
        &[$([run::<$mr, 1>, run::<$mr, 2>]),*]
    }};
    (portable gather $simd:ty, [$($mr:literal)*]) => {{
        unsafe fn run<const MR: usize, const NV: usize>(t: &Gather<'_, <$simd as MulAdd>::P, <$simd as MulAdd>::A>) {
            // SAFETY: the caller's contract is the same.
            unsafe { gather::<$simd, MR, NV>(t) }
        }
        &[$([run::<$mr, 1>, run::<$mr, 2>]),*]
    }};
    (portable $simd:ty, [$($mr:literal)*]) => {{
        unsafe fn run<const DIRECT_A: bool, const MR: usize, const NV: usize>(t: &Tile<<$simd as MulAdd>::P, <$simd as MulAdd>::A>) {
            // SAFETY: the caller's contract is the same.
            unsafe { tile::<$simd, DIRECT_A, MR, NV>(t) }
        }
        kernels!(@table run, [$($mr)*])
    }};
    (@table $run:ident, [$($mr:literal)*]) => {
        [&[$([$run::<false, $mr, 1>, $run::<false, $mr, 2>]),*], &[$([$run::<true, $mr, 1>, $run::<true, $mr, 2>]),*]]
    };
}

pub(crate) static PORTABLE_F32: Kernels<f32, f32> = Kernels {
    mr: 4,
    nr: 8,
    lanes: 4,
    table: kernels!(portable Portable<f32>, [1 2 3 4]),
    gather: kernels!(portable gather Portable<f32>, [1 2 3 4]),
    kc: 256,
    mc: 128,
    nc: 2048,
};
pub(crate) static PORTABLE_F64: Kernels<f64, f64> = Kernels {
    mr: 4,
    nr: 8,
    lanes: 4,
    table: kernels!(portable Portable<f64>, [1 2 3 4]),
    gather: kernels!(portable gather Portable<f64>, [1 2 3 4]),
    kc: 256,
    mc: 64,
    nc: 1024,
};

pub(crate) static PORTABLE_PAIRS: Kernels<u32, i32> = Kernels {
    mr: 4,
    nr: 8,
    lanes: 4,
    table: kernels!(portable PortablePairs, [1 2 3 4]),
    gather: &[],
    kc: 0,
    mc: 0,
    nc: 0,
};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    pub(super) static AVX2_F32: Kernels<f32, f32> = Kernels {
        mr: 6,
        nr: 16,
        lanes: 8,
        table: kernels!("avx2,fma", Avx2F32, [1 2 3 4 5 6]),
        gather: kernels!(gather "avx2,fma", Avx2F32, [1 2 3 4 5 6]),
        kc: 768,
        mc: 48,
        nc: 2048,
    };
    pub(super) static AVX2_F64: Kernels<f64, f64> = Kernels {
        mr: 6,
        nr: 8,
        lanes: 4,
        table: kernels!("avx2,fma", Avx2F64, [1 2 3 4 5 6]),
        gather: kernels!(gather "avx2,fma", Avx2F64, [1 2 3 4 5 6]),
        kc: 512,
        mc: 36,
        nc: 1024,
    };
    pub(super) static AVX512_F32: Kernels<f32, f32> = Kernels {
        mr: 14,
        nr: 32,
        lanes: 16,
        table: kernels!("avx512f", Avx512F32, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        gather: kernels!(gather "avx512f", Avx512F32, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        kc: 768,
        mc: 112,
        nc: 2048,
    };
    pub(super) static AVX512_F64: Kernels<f64, f64> = Kernels {
        mr: 14,
        nr: 16,
        lanes: 8,
        table: kernels!("avx512f", Avx512F64, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        gather: kernels!(gather "avx512f", Avx512F64, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        kc: 512,
        mc: 56,
        nc: 1024,
    };
    pub(super) static AVX2_PAIRS: Kernels<u32, i32> = Kernels {
        mr: 6,
        nr: 16,
        lanes: 8,
        table: kernels!("avx2", Avx2Pairs, [1 2 3 4 5 6]),
        gather: &[],
        kc: 0,
        mc: 0,
        nc: 0,
    };
    pub(super) static AVX512_PAIRS: Kernels<u32, i32> = Kernels {
        mr: 14,
        nr: 32,
        lanes: 16,
        table: kernels!("avx512f,avx512bw", Avx512Pairs, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        ..AVX2_PAIRS
    };
    pub(super) static AVX512_QUADS: Kernels<u32, i32> = Kernels {
        table: kernels!("avx512f,avx512vnni", Avx512Quads, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        ..AVX512_PAIRS
    };
    pub(super) static AVX512_BF16: Kernels<u32, f32> = Kernels {
        mr: 14,
        nr: 32,
        lanes: 16,
        table: kernels!("avx512f,avx512bf16", Avx512Bf16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        gather: kernels!(gather "avx512f,avx512bf16", Avx512Bf16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        kc: 768,
        mc: 112,
        nc: 2048,
    };
}
#[cfg(target_arch = "x86_64")]
use x86::*;

pub fn f32_kernels(isa: Isa) -> &'static Kernels<f32, f32> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => &AVX512_F32,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &AVX2_F32,
        _ => &PORTABLE_F32,
    }
}

pub fn f64_kernels(isa: Isa) -> &'static Kernels<f64, f64> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => &AVX512_F64,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &AVX2_F64,
        _ => &PORTABLE_F64,
    }
}

/// The kernels on pairs of bf16, where the machine has them.
pub fn bf16_kernels(isa: Isa) -> Option<&'static Kernels<u32, f32>> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Bf16 | Isa::Amx => Some(&AVX512_BF16),
        _ => None,
    }
}

/// The kernels on pairs of 16 bits: whole numbers, summed in 32 bits. Their caller chooses its own blocks.
pub(crate) fn pair_kernels(isa: Isa) -> &'static Kernels<u32, i32> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => &AVX512_PAIRS,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => &AVX2_PAIRS,
        _ => &PORTABLE_PAIRS,
    }
}

/// The kernels on quads of bytes, A's unsigned, where the machine has them.
pub(crate) fn quad_kernels(isa: Isa) -> Option<&'static Kernels<u32, i32>> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Bf16 | Isa::Amx => Some(&AVX512_QUADS),
        _ => None,
    }
}
