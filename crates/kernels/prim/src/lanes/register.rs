//! What a SIMD register can do beyond arithmetic: memory, horizontal sums and the parts of a float.
//!
//! Kernels that are no elementwise formula (norms, softmax, reductions) are written against `Register`.

use super::Lanes;
use std::ops::Mul;

/// `WIDTH` floats of type `Elem`.
pub trait Register: Lanes {
    type Elem: Copy + Default + PartialOrd + Mul<Output = Self::Elem>;
    const WIDTH: usize;
    /// Whether `Elem` is `f64`.
    const DOUBLE: bool;

    /// Doubles in a register of the same size.
    type Wide: Register<Elem = f64>;
    /// The lower and the upper lanes in double precision; of doubles, twice the register itself.
    fn halves(self) -> [Self::Wide; 2];
    /// The other way round, rounding; doubles are those of the first.
    fn of_halves(halves: [Self::Wide; 2]) -> Self;

    /// # Safety
    /// `p` is valid for reads of `WIDTH` elements; it need not be aligned.
    unsafe fn load(p: *const Self::Elem) -> Self;
    /// # Safety
    /// `p` is valid for writes of `WIDTH` elements; it need not be aligned.
    unsafe fn store(self, p: *mut Self::Elem);
    /// The first `n <= WIDTH` elements, zero in the others.
    ///
    /// # Safety
    /// `p` is valid for reads of `n` elements.
    unsafe fn load_partial(p: *const Self::Elem, n: usize) -> Self;
    /// The first `n <= WIDTH` elements, `fill`'s in the others.
    ///
    /// # Safety
    /// `p` is valid for reads of `n` elements.
    unsafe fn load_partial_or(p: *const Self::Elem, n: usize, fill: Self) -> Self;
    /// Writes the first `n <= WIDTH` elements.
    ///
    /// # Safety
    /// `p` is valid for writes of `n` elements.
    unsafe fn store_partial(self, p: *mut Self::Elem, n: usize);
    /// As `load` or `load_partial`: whole registers without a mask, which some machines are slow at. A constant `n` folds.
    ///
    /// # Safety
    /// As of `load_partial`.
    #[inline(always)]
    unsafe fn load_n(p: *const Self::Elem, n: usize) -> Self {
        // SAFETY: by the caller.
        unsafe { if n == Self::WIDTH { Self::load(p) } else { Self::load_partial(p, n) } }
    }
    /// As `store` or `store_partial`.
    ///
    /// # Safety
    /// As of `store_partial`.
    #[inline(always)]
    unsafe fn store_n(self, p: *mut Self::Elem, n: usize) {
        // SAFETY: by the caller.
        unsafe { if n == Self::WIDTH { self.store(p) } else { self.store_partial(p, n) } }
    }
    /// The first `n` lanes, zeros behind them.
    ///
    /// # Safety
    /// `n` is at most `WIDTH`.
    #[inline(always)]
    unsafe fn first(self, n: usize) -> Self {
        let mut a = [Self::Elem::default(); 16];
        // SAFETY: no register is wider than sixteen lanes.
        unsafe {
            self.store(a.as_mut_ptr());
            Self::load_partial(a.as_ptr(), n)
        }
    }
    /// A store that goes past the caches.
    ///
    /// # Safety
    /// As `store`, and `p` is aligned to the register's size. A fence must follow before other threads read.
    unsafe fn stream(self, p: *mut Self::Elem);
    /// The same number in every lane.
    fn all_of(v: Self::Elem) -> Self;
    /// Whether the mask is true in some lane.
    fn any(m: Self::Mask) -> bool;
    /// Sum of the lanes, pairwise.
    fn sum(self) -> Self::Elem;
    /// Product of the lanes, pairwise.
    #[inline(always)]
    fn product(self) -> Self::Elem {
        let mut a = [Self::Elem::default(); 16];
        // SAFETY: no register is wider than sixteen lanes.
        unsafe { self.store(a.as_mut_ptr()) };
        let mut n = Self::WIDTH;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                a[i] = a[i] * a[i + n];
            }
        }
        a[0]
    }
    /// Within [lo, hi]; NaN stays.
    fn clamp(self, lo: Self, hi: Self) -> Self;
    /// Greatest lane; NaN if there is one.
    fn max_of(self) -> Self::Elem;
    /// Smallest lane; NaN if there is one.
    fn min_of(self) -> Self::Elem;

    /// The unbiased exponent of a normal number, as a float.
    fn exponent(self) -> Self;
    /// A positive normal number scaled into [1, 2).
    fn mantissa(self) -> Self;
    /// `2^self` for an integral exponent of a normal number.
    fn pow2(self) -> Self;
    /// `self * 2^n` for an integral `n` of at most twice the greatest exponent, rounded once.
    fn scale(self, n: Self) -> Self;

    /// Applies a scalar function lane by lane: for what is rare.
    #[inline(always)]
    fn map(self, f: fn(Self::Elem) -> Self::Elem) -> Self {
        let mut a = [Self::Elem::default(); 16];
        // SAFETY: no register is wider than 16 elements.
        unsafe {
            self.store(a.as_mut_ptr());
            for v in a.iter_mut().take(Self::WIDTH) {
                *v = f(*v);
            }
            Self::load(a.as_ptr())
        }
    }
    /// As `map` for two arguments.
    #[inline(always)]
    fn map2(self, o: Self, f: fn(Self::Elem, Self::Elem) -> Self::Elem) -> Self {
        let (mut a, mut b) = ([Self::Elem::default(); 16], [Self::Elem::default(); 16]);
        // SAFETY: no register is wider than 16 elements.
        unsafe {
            self.store(a.as_mut_ptr());
            o.store(b.as_mut_ptr());
            for (v, w) in a.iter_mut().zip(b).take(Self::WIDTH) {
                *v = f(*v, w);
            }
            Self::load(a.as_ptr())
        }
    }
}

/// An f32 register that loads and stores half types, rounding to nearest even.
pub trait HalfRegister: Register<Elem = f32> {
    /// # Safety
    /// `p` is valid for reads of `WIDTH` bfloat16 numbers.
    unsafe fn load_bf16(p: *const u16) -> Self;
    /// # Safety
    /// `p` is valid for writes of `WIDTH` bfloat16 numbers.
    unsafe fn store_bf16(self, p: *mut u16);
    /// # Safety
    /// `p` is valid for reads of `WIDTH` float16 numbers.
    unsafe fn load_f16(p: *const u16) -> Self;
    /// # Safety
    /// `p` is valid for writes of `WIDTH` float16 numbers.
    unsafe fn store_f16(self, p: *mut u16);
}

impl HalfRegister for f32 {
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> f32 {
        // SAFETY: the caller's pointer is valid for one element.
        f32::from_bits((unsafe { p.read_unaligned() } as u32) << 16)
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        // SAFETY: the caller's pointer is valid for one element.
        unsafe { p.write_unaligned(oneflow_base::bf16::from_f32(self).to_bits()) }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> f32 {
        // SAFETY: the caller's pointer is valid for one element.
        oneflow_base::f16::from_bits(unsafe { p.read_unaligned() }).to_f32()
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: the caller's pointer is valid for one element.
        unsafe { p.write_unaligned(oneflow_base::f16::from_f32(self).to_bits()) }
    }
}
