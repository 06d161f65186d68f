//! The float types in memory, how they are packed, and copies of rows in whole registers.

use oneflow_base::{DType, bf16, f16};
use oneflow_kernels_gemm::micro::{Acc, Bf16Widened, Elem, F16Widened, F32, F64, Mode, Reg};
use oneflow_kernels_prim::{Register, Simd, WithSimd};

/// A float type in memory.
pub trait Stored: Elem {
    const DTYPE: DType;
    /// How it is packed for the micro-kernels.
    type Mode: Mode<S = Self, P = Self::Acc>;
    /// How sums are.
    type Sums: Mode<S = Self::Acc, P = Self::Acc>;
    /// Rounds a sum to nearest even.
    fn narrow(v: Self::Acc) -> Self;
    fn number(v: Self::Acc) -> f64;
}

impl Stored for f32 {
    const DTYPE: DType = DType::F32;
    type Mode = F32;
    type Sums = F32;
    #[inline(always)]
    fn narrow(v: f32) -> f32 {
        v
    }
    #[inline(always)]
    fn number(v: f32) -> f64 {
        v as f64
    }
}
impl Stored for f64 {
    const DTYPE: DType = DType::F64;
    type Mode = F64;
    type Sums = F64;
    #[inline(always)]
    fn narrow(v: f64) -> f64 {
        v
    }
    #[inline(always)]
    fn number(v: f64) -> f64 {
        v
    }
}
impl Stored for bf16 {
    const DTYPE: DType = DType::BF16;
    type Mode = Bf16Widened;
    type Sums = F32;
    #[inline(always)]
    fn narrow(v: f32) -> bf16 {
        bf16::from_f32(v)
    }
    #[inline(always)]
    fn number(v: f32) -> f64 {
        v as f64
    }
}
impl Stored for f16 {
    const DTYPE: DType = DType::F16;
    type Mode = F16Widened;
    type Sums = F32;
    #[inline(always)]
    fn narrow(v: f32) -> f16 {
        f16::from_f32(v)
    }
    #[inline(always)]
    fn number(v: f32) -> f64 {
        v as f64
    }
}

/// `a * b + c`; machines without the instruction round twice.
#[inline(always)]
pub fn madd<R: Register>(a: R, b: R, c: R) -> R {
    if R::WIDTH == 1 { a * b + c } else { a.fma(b, c) }
}

/// Loads the first `n` neighbours; whole registers without a mask, which some machines are slow at.
///
/// # Safety
/// As of this and the following: the elements named lie in memory.
#[inline(always)]
pub unsafe fn load<S: Simd, T: Stored>(p: *const T, n: usize) -> Reg<S, T> {
    // SAFETY: by the caller.
    unsafe { if n == Reg::<S, T>::WIDTH { T::load::<S>(p) } else { T::load_partial::<S>(p, n) } }
}

/// Stores the first `n` lanes.
#[inline(always)]
pub unsafe fn store<S: Simd, T: Stored>(v: Reg<S, T>, p: *mut T, n: usize) {
    // SAFETY: by the caller.
    unsafe { if n == Reg::<S, T>::WIDTH { T::store::<S>(v, p) } else { T::store_partial::<S>(v, p, n) } }
}

/// As `load`, of sums.
#[inline(always)]
pub unsafe fn load_sum<R: Register>(p: *const R::Elem, n: usize) -> R {
    // SAFETY: by the caller.
    unsafe { if n == R::WIDTH { R::load(p) } else { R::load_partial(p, n) } }
}

/// As `store`, of sums.
#[inline(always)]
pub unsafe fn store_sum<R: Register>(v: R, p: *mut R::Elem, n: usize) {
    // SAFETY: by the caller.
    unsafe { if n == R::WIDTH { v.store(p) } else { v.store_partial(p, n) } }
}

/// Calls `$body` with `$T` as the float dtype's type.
macro_rules! by_float {
    ($name:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            oneflow_base::DType::F32 => {
                type $T = f32;
                $body
            }
            oneflow_base::DType::F64 => {
                type $T = f64;
                $body
            }
            oneflow_base::DType::BF16 => {
                type $T = oneflow_base::bf16;
                $body
            }
            oneflow_base::DType::F16 => {
                type $T = oneflow_base::f16;
                $body
            }
            other => Err(oneflow_base::Error::not_implemented(format!(
                "\"{}\" not implemented for '{}'",
                $name,
                other.scalar_type_name()
            ))),
        }
    };
}
pub(crate) use by_float;

/// Where one run of a row comes from and goes to.
#[derive(Clone, Copy, Debug)]
pub struct Seg {
    pub from: isize,
    pub to: usize,
    pub len: usize,
}

/// Gathers rows: row `i` of `dst` receives the segments from `src + offsets[i]`. Whole registers are read and stored:
/// behind a segment's end lies what the next one overwrites.
pub struct CopyRows<'a, A: Acc> {
    pub src: *const A,
    pub offsets: &'a [isize],
    pub segs: &'a [Seg],
    pub dst: *mut A,
    pub dst_rs: usize,
}

impl<A: Acc> WithSimd for CopyRows<'_, A> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = <A::Reg<S> as Register>::WIDTH;
        for (i, offset) in self.offsets.iter().enumerate() {
            for seg in self.segs {
                let src = self.src.wrapping_offset(offset + seg.from);
                let dst = self.dst.wrapping_add(i * self.dst_rs + seg.to);
                for at in (0..seg.len).step_by(width) {
                    // SAFETY: the caller's rows lie in the buffers, with spare bytes behind both.
                    unsafe { <A::Reg<S> as Register>::load(src.add(at)).store(dst.add(at)) };
                }
            }
        }
    }
}
