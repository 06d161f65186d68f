//! A multiply-add on one register of each instruction set: as much as a micro-kernel needs.

use std::marker::PhantomData;

/// A vector register type with a multiply-add from packed elements `P` into accumulators `A`.
///
/// # Safety
/// Implementations use instructions of their tier: call them only inside a function compiled for it.
pub(crate) unsafe trait MulAdd {
    /// A packed element; for `vdpbf16ps` two consecutive k of one row or column.
    type P: Copy;
    /// What sums are kept in.
    type A: Copy;
    /// A register of packed elements.
    type VP: Copy;
    /// A register of accumulators.
    type V: Copy;
    const LANES: usize;
    unsafe fn zero() -> Self::V;
    unsafe fn splat(p: *const Self::P) -> Self::VP;
    unsafe fn load(p: *const Self::P) -> Self::VP;
    unsafe fn madd(a: Self::VP, b: Self::VP, c: Self::V) -> Self::V;
    /// `*c = alpha * v`, plus what the pointers that are there point to, in order.
    unsafe fn update(c: *mut Self::A, v: Self::V, alpha: Self::A, plus: [Option<*const Self::A>; 2]);
}

/// Plain arrays of four, which the compiler turns into whatever the build targets.
pub(crate) struct Portable<T>(PhantomData<T>);

macro_rules! portable {
    ($t:ty) => {
        // SAFETY: no special instructions.
        unsafe impl MulAdd for Portable<$t> {
            type P = $t;
            type A = $t;
            type VP = [$t; 4];
            type V = [$t; 4];
            const LANES: usize = 4;
            #[inline(always)]
            unsafe fn zero() -> [$t; 4] {
                [0.0; 4]
            }
            #[inline(always)]
            unsafe fn splat(p: *const $t) -> [$t; 4] {
                // SAFETY: the caller's pointer is readable.
                [unsafe { *p }; 4]
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> [$t; 4] {
                // SAFETY: the caller's pointer is readable for four elements.
                unsafe { p.cast::<[$t; 4]>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn madd(a: [$t; 4], b: [$t; 4], c: [$t; 4]) -> [$t; 4] {
                // Not mul_add: without FMA instructions that is a library call.
                std::array::from_fn(|i| a[i] * b[i] + c[i])
            }
            #[inline(always)]
            unsafe fn update(c: *mut $t, v: [$t; 4], alpha: $t, plus: [Option<*const $t>; 2]) {
                // SAFETY: the caller's pointers are writable and readable for four elements.
                unsafe {
                    let [a, b] = plus.map(|p| p.map_or([0.0; 4], |p| Self::load(p)));
                    c.cast::<[$t; 4]>().write_unaligned(std::array::from_fn(|i| alpha * v[i] + a[i] + b[i]));
                }
            }
        }
    };
}
portable!(f32);
portable!(f64);

/// Pairs of 16-bit whole numbers in plain arrays.
pub(crate) struct PortablePairs;

// SAFETY: no special instructions.
unsafe impl MulAdd for PortablePairs {
    type P = u32;
    type A = i32;
    type VP = [u32; 4];
    type V = [i32; 4];
    const LANES: usize = 4;
    #[inline(always)]
    unsafe fn zero() -> [i32; 4] {
        [0; 4]
    }
    #[inline(always)]
    unsafe fn splat(p: *const u32) -> [u32; 4] {
        // SAFETY: the caller's pointer is readable.
        [unsafe { *p }; 4]
    }
    #[inline(always)]
    unsafe fn load(p: *const u32) -> [u32; 4] {
        // SAFETY: the caller's pointer is readable for four words.
        unsafe { p.cast::<[u32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn madd(a: [u32; 4], b: [u32; 4], c: [i32; 4]) -> [i32; 4] {
        let product = |a: u32, b: u32| i32::from(a as i16) * i32::from(b as i16);
        std::array::from_fn(|i| c[i].wrapping_add(product(a[i], b[i])).wrapping_add(product(a[i] >> 16, b[i] >> 16)))
    }
    #[inline(always)]
    unsafe fn update(c: *mut i32, v: [i32; 4], alpha: i32, plus: [Option<*const i32>; 2]) {
        // SAFETY: the caller's pointers are writable and readable for four sums.
        unsafe {
            let [a, b] = plus.map(|p| p.map_or([0; 4], |p| p.cast::<[i32; 4]>().read_unaligned()));
            let new = std::array::from_fn(|i| alpha.wrapping_mul(v[i]).wrapping_add(a[i]).wrapping_add(b[i]));
            c.cast::<[i32; 4]>().write_unaligned(new);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::MulAdd;
    use std::arch::x86_64::*;

    pub(crate) struct Avx2F32;
    pub(crate) struct Avx2F64;
    pub(crate) struct Avx512F32;
    pub(crate) struct Avx512F64;
    /// `vdpbf16ps`: pairs of bf16 summed into f32.
    pub(crate) struct Avx512Bf16;

    macro_rules! x86_float {
        ($name:ident, $t:ty, $v:ty, $lanes:literal, $zero:ident, $set1:ident, $load:ident, $store:ident, $fma:ident, $mul:ident, $add:ident) => {
            // SAFETY: callers are compiled for the tier in the name.
            unsafe impl MulAdd for $name {
                type P = $t;
                type A = $t;
                type VP = $v;
                type V = $v;
                const LANES: usize = $lanes;
                #[inline(always)]
                unsafe fn zero() -> $v {
                    // SAFETY: the tier is there.
                    unsafe { $zero() }
                }
                #[inline(always)]
                unsafe fn splat(p: *const $t) -> $v {
                    // SAFETY: the tier is there and the pointer readable.
                    unsafe { $set1(*p) }
                }
                #[inline(always)]
                unsafe fn load(p: *const $t) -> $v {
                    // SAFETY: the tier is there and the pointer readable for a register.
                    unsafe { $load(p) }
                }
                #[inline(always)]
                unsafe fn madd(a: $v, b: $v, c: $v) -> $v {
                    // SAFETY: the tier is there.
                    unsafe { $fma(a, b, c) }
                }
                #[inline(always)]
                unsafe fn update(c: *mut $t, v: $v, alpha: $t, [a, b]: [Option<*const $t>; 2]) {
                    // SAFETY: the tier is there and the pointers valid for a register.
                    unsafe {
                        let alpha = $set1(alpha);
                        let sum = a.map_or_else(|| $mul(v, alpha), |p| $fma(v, alpha, $load(p)));
                        $store(c, b.map_or(sum, |p| $add(sum, $load(p))));
                    }
                }
            }
        };
    }
    x86_float!(
        Avx2F32,
        f32,
        __m256,
        8,
        _mm256_setzero_ps,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_fmadd_ps,
        _mm256_mul_ps,
        _mm256_add_ps
    );
    x86_float!(
        Avx2F64,
        f64,
        __m256d,
        4,
        _mm256_setzero_pd,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_fmadd_pd,
        _mm256_mul_pd,
        _mm256_add_pd
    );
    x86_float!(
        Avx512F32,
        f32,
        __m512,
        16,
        _mm512_setzero_ps,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_fmadd_ps,
        _mm512_mul_ps,
        _mm512_add_ps
    );
    x86_float!(
        Avx512F64,
        f64,
        __m512d,
        8,
        _mm512_setzero_pd,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_fmadd_pd,
        _mm512_mul_pd,
        _mm512_add_pd
    );

    /// Pairs of 16-bit whole numbers, summed in 32 bits.
    pub(crate) struct Avx2Pairs;
    pub(crate) struct Avx512Pairs;
    /// `vpdpbusd`: quads of bytes, the first operand's unsigned.
    pub(crate) struct Avx512Quads;

    macro_rules! x86_words {
        ($name:ident, $v:ty, $lanes:literal, $zero:ident, $set1:ident, $load:ident, $store:ident, $mul:ident, $add:ident,
         |$a:ident, $b:ident, $c:ident| $madd:expr) => {
            // SAFETY: callers are compiled for the tier in the name.
            unsafe impl MulAdd for $name {
                type P = u32;
                type A = i32;
                type VP = $v;
                type V = $v;
                const LANES: usize = $lanes;
                #[inline(always)]
                unsafe fn zero() -> $v {
                    // SAFETY: the tier is there.
                    unsafe { $zero() }
                }
                #[inline(always)]
                unsafe fn splat(p: *const u32) -> $v {
                    // SAFETY: the tier is there and the pointer readable.
                    unsafe { $set1(*p as i32) }
                }
                #[inline(always)]
                unsafe fn load(p: *const u32) -> $v {
                    // SAFETY: the tier is there and the pointer readable for a register.
                    unsafe { $load(p.cast()) }
                }
                #[inline(always)]
                unsafe fn madd($a: $v, $b: $v, $c: $v) -> $v {
                    // SAFETY: the tier is there.
                    unsafe { $madd }
                }
                #[inline(always)]
                unsafe fn update(c: *mut i32, v: $v, alpha: i32, plus: [Option<*const i32>; 2]) {
                    // SAFETY: the tier is there and the pointers valid for a register.
                    unsafe {
                        let add = |v, p: Option<*const i32>| p.map_or(v, |p| $add(v, $load(p.cast())));
                        $store(c.cast(), add(add($mul(v, $set1(alpha)), plus[0]), plus[1]));
                    }
                }
            }
        };
    }
    x86_words!(
        Avx2Pairs,
        __m256i,
        8,
        _mm256_setzero_si256,
        _mm256_set1_epi32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_mullo_epi32,
        _mm256_add_epi32,
        |a, b, c| _mm256_add_epi32(c, _mm256_madd_epi16(a, b))
    );
    x86_words!(
        Avx512Pairs,
        __m512i,
        16,
        _mm512_setzero_si512,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_mullo_epi32,
        _mm512_add_epi32,
        |a, b, c| _mm512_add_epi32(c, _mm512_madd_epi16(a, b))
    );
    x86_words!(
        Avx512Quads,
        __m512i,
        16,
        _mm512_setzero_si512,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_mullo_epi32,
        _mm512_add_epi32,
        |a, b, c| _mm512_dpbusd_epi32(c, a, b)
    );

    // SAFETY: callers are compiled for AVX-512 with BF16.
    unsafe impl MulAdd for Avx512Bf16 {
        type P = u32;
        type A = f32;
        type VP = __m512i;
        type V = __m512;
        const LANES: usize = 16;
        #[inline(always)]
        unsafe fn zero() -> __m512 {
            // SAFETY: the tier is there.
            unsafe { _mm512_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn splat(p: *const u32) -> __m512i {
            // SAFETY: the tier is there and the pointer readable.
            unsafe { _mm512_set1_epi32(*p as i32) }
        }
        #[inline(always)]
        unsafe fn load(p: *const u32) -> __m512i {
            // SAFETY: the tier is there and the pointer readable for a register.
            unsafe { _mm512_loadu_si512(p.cast()) }
        }
        #[inline(always)]
        unsafe fn madd(a: __m512i, b: __m512i, c: __m512) -> __m512 {
            // SAFETY: the tier is there; both types are 64 bytes of plain bits.
            unsafe {
                _mm512_dpbf16_ps(
                    c,
                    std::mem::transmute::<__m512i, __m512bh>(a),
                    std::mem::transmute::<__m512i, __m512bh>(b),
                )
            }
        }
        #[inline(always)]
        unsafe fn update(c: *mut f32, v: __m512, alpha: f32, plus: [Option<*const f32>; 2]) {
            // SAFETY: the caller's contract is the same.
            unsafe { Avx512F32::update(c, v, alpha, plus) }
        }
    }
}
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::*;

/// Multiply-adds `n` times on `CHAINS` independent registers that never leave the core; returns a value that depends
/// on all of them.
#[inline(always)]
unsafe fn chains<S: MulAdd, const CHAINS: usize>(n: usize, p: *const S::P, sink: *mut S::A, one: S::A) {
    // SAFETY: the caller gives a register's worth at both pointers and the tier is there.
    unsafe {
        let (a, b) = (S::load(p), S::splat(p));
        let mut acc = [S::zero(); CHAINS];
        for _ in 0..n {
            for c in &mut acc {
                *c = S::madd(a, b, *c);
            }
        }
        for c in acc {
            S::update(sink, c, one, [Some(sink.cast_const()), None]);
        }
    }
}

/// Runs `n` rounds of 12 independent multiply-adds of the widest register of `isa` and returns the floating-point
/// operations done, for measuring the machine's peak (f32; bf16 pairs when `bf16`).
#[doc(hidden)]
pub fn fma_peak(isa: oneflow_kernels_prim::Isa, bf16: bool, n: usize) -> f64 {
    use oneflow_kernels_prim::Isa;
    const CHAINS: usize = 12;
    let isa = isa.min(Isa::best());
    let data = [0u32; 16];
    let mut sink = [0f32; 16];
    let (p, s) = (data.as_ptr(), sink.as_mut_ptr());
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn run_bf16(n: usize, p: *const u32, s: *mut f32) {
        // SAFETY: compiled for the tier; pointers from the caller.
        unsafe { chains::<Avx512Bf16, CHAINS>(n, p, s, 1.0) }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn run_512(n: usize, p: *const u32, s: *mut f32) {
        // SAFETY: compiled for the tier; pointers from the caller.
        unsafe { chains::<Avx512F32, CHAINS>(n, p.cast(), s, 1.0) }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn run_256(n: usize, p: *const u32, s: *mut f32) {
        // SAFETY: compiled for the tier; pointers from the caller.
        unsafe { chains::<Avx2F32, CHAINS>(n, p.cast(), s, 1.0) }
    }
    // SAFETY: the tier is at most the detected one, and both arrays hold 64 bytes.
    let lanes = unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 | Isa::Amx if bf16 => {
                run_bf16(n, p, s);
                32
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx512Bf16 | Isa::Amx => {
                run_512(n, p, s);
                16
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                run_256(n, p, s);
                8
            }
            _ => {
                chains::<Portable<f32>, CHAINS>(n, p.cast(), s, 1.0);
                4
            }
        }
    };
    std::hint::black_box(sink);
    (n * CHAINS * lanes * 2) as f64
}
