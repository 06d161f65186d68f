//! Float dtypes in memory as registers of their compute dtype, and the loop over a run of them.

use oneflow_base::{DType, Error, Result, bf16, f16};
use oneflow_kernels_prim::{HalfRegister, Register, Simd, View};
use smallvec::SmallVec;
use std::cell::Cell;

/// A compute dtype: `f32` or `f64`.
pub trait Acc: Register<Elem = Self> + PartialOrd + Send + Sync + 'static {
    type Reg<S: Simd>: Register<Elem = Self>;
    const DTYPE: DType;
    /// Zeros, then minus infinities: what a partly loaded register adds to make its missing lanes the least number.
    const LEAST: &'static [Self; 32];
    fn of(v: f64) -> Self;
    fn wide(self) -> f64;
    /// Without its fraction.
    ///
    /// # Safety
    /// The value is at least zero and below 2^31.
    unsafe fn index(self) -> i32;
}

const fn least_f32() -> [f32; 32] {
    let mut t = [0.0; 32];
    let mut i = 16;
    while i < 32 {
        t[i] = f32::NEG_INFINITY;
        i += 1;
    }
    t
}

const fn least_f64() -> [f64; 32] {
    let mut t = [0.0; 32];
    let mut i = 16;
    while i < 32 {
        t[i] = f64::NEG_INFINITY;
        i += 1;
    }
    t
}

impl Acc for f32 {
    type Reg<S: Simd> = S::F32;
    const DTYPE: DType = DType::F32;
    const LEAST: &'static [f32; 32] = &least_f32();
    #[inline(always)]
    fn of(v: f64) -> f32 {
        v as f32
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    unsafe fn index(self) -> i32 {
        // SAFETY: by the caller.
        unsafe { self.to_int_unchecked() }
    }
}

impl Acc for f64 {
    type Reg<S: Simd> = S::F64;
    const DTYPE: DType = DType::F64;
    const LEAST: &'static [f64; 32] = &least_f64();
    #[inline(always)]
    fn of(v: f64) -> f64 {
        v
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    unsafe fn index(self) -> i32 {
        // SAFETY: by the caller.
        unsafe { self.to_int_unchecked() }
    }
}

/// The register of a dtype's compute dtype.
pub type Reg<S, T> = <<T as Float>::Acc as Acc>::Reg<S>;

/// A float dtype in memory.
pub trait Float: Copy + Send + Sync + 'static {
    type Acc: Acc;
    /// Loads the first `k` elements; the other lanes are zero. `k` is constant in full registers and folds.
    ///
    /// # Safety
    /// `p` is valid for reads of `k` elements, at most a register.
    unsafe fn load<S: Simd>(p: *const Self, k: usize) -> Reg<S, Self>;
    /// # Safety
    /// `p` is valid for writes of `k` elements, at most a register.
    unsafe fn store<S: Simd>(r: Reg<S, Self>, p: *mut Self, k: usize);
    /// As `store` of a full register, past the caches where the dtype can; `p` is aligned to a cache line's part.
    ///
    /// # Safety
    /// As `store`. `fence` must follow.
    #[inline(always)]
    unsafe fn stream<S: Simd>(r: Reg<S, Self>, p: *mut Self) {
        // SAFETY: by the caller.
        unsafe { Self::store::<S>(r, p, Reg::<S, Self>::WIDTH) }
    }
    fn get(self) -> Self::Acc;
    fn put(v: Self::Acc) -> Self;

    /// As `load`, with `fill`'s in the other lanes.
    ///
    /// # Safety
    /// As `load`.
    #[inline(always)]
    unsafe fn load_or<S: Simd>(p: *const Self, k: usize, fill: Reg<S, Self>) -> Reg<S, Self> {
        // SAFETY: the caller's pointer.
        unsafe {
            let r = Self::load::<S>(p, k);
            if k == Reg::<S, Self>::WIDTH { r } else { r + (fill - masked(fill, k)) }
        }
    }

    /// As `load`, with the other lanes minus infinity.
    ///
    /// # Safety
    /// As `load`.
    #[inline(always)]
    unsafe fn load_least<S: Simd>(p: *const Self, k: usize) -> Reg<S, Self> {
        // SAFETY: the caller's pointer; the table has sixteen entries on both sides.
        unsafe {
            let r = Self::load::<S>(p, k);
            if k == Reg::<S, Self>::WIDTH { r } else { r + Register::load(Self::Acc::LEAST.as_ptr().add(16 - k)) }
        }
    }
}

/// The first `k` elements of compute numbers; the other lanes are zero.
///
/// # Safety
/// `p` is valid for reads of `k` elements, at most a register.
#[inline(always)]
pub unsafe fn load<R: Register>(p: *const R::Elem, k: usize) -> R {
    // SAFETY: the caller's pointer.
    unsafe { if k == R::WIDTH { R::load(p) } else { R::load_partial(p, k) } }
}

/// # Safety
/// `p` is valid for writes of `k` elements, at most a register.
#[inline(always)]
pub unsafe fn store<R: Register>(r: R, p: *mut R::Elem, k: usize) {
    // SAFETY: the caller's pointer.
    unsafe { if k == R::WIDTH { r.store(p) } else { r.store_partial(p, k) } }
}

macro_rules! whole {
    ($t:ty) => {
        impl Float for $t {
            type Acc = $t;
            #[inline(always)]
            unsafe fn load<S: Simd>(p: *const $t, k: usize) -> Reg<S, $t> {
                // SAFETY: the caller's pointer.
                unsafe { load(p, k) }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(r: Reg<S, $t>, p: *mut $t, k: usize) {
                // SAFETY: the caller's pointer.
                unsafe { store(r, p, k) }
            }
            #[inline(always)]
            unsafe fn load_or<S: Simd>(p: *const $t, k: usize, fill: Reg<S, $t>) -> Reg<S, $t> {
                // SAFETY: the caller's pointer.
                unsafe { if k == Reg::<S, $t>::WIDTH { load(p, k) } else { Register::load_partial_or(p, k, fill) } }
            }
            #[inline(always)]
            unsafe fn stream<S: Simd>(r: Reg<S, $t>, p: *mut $t) {
                // SAFETY: the caller's pointer.
                unsafe { r.stream(p) }
            }
            #[inline(always)]
            fn get(self) -> $t {
                self
            }
            #[inline(always)]
            fn put(v: $t) -> $t {
                v
            }
        }
    };
}
whole!(f32);
whole!(f64);

macro_rules! half {
    ($t:ty, $load:ident, $store:ident) => {
        impl Float for $t {
            type Acc = f32;
            #[inline(always)]
            unsafe fn load<S: Simd>(p: *const $t, k: usize) -> S::F32 {
                // SAFETY: the caller's pointer; the buffer holds the widest register.
                unsafe {
                    if k == <S::F32 as Register>::WIDTH {
                        return S::F32::$load(p.cast());
                    }
                    let mut buffer = [0u16; 16];
                    std::ptr::copy_nonoverlapping(p.cast::<u16>(), buffer.as_mut_ptr(), k);
                    S::F32::$load(buffer.as_ptr())
                }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(r: S::F32, p: *mut $t, k: usize) {
                // SAFETY: the caller's pointer; the buffer holds the widest register.
                unsafe {
                    if k == <S::F32 as Register>::WIDTH {
                        return r.$store(p.cast());
                    }
                    let mut buffer = [0u16; 16];
                    r.$store(buffer.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(buffer.as_ptr(), p.cast::<u16>(), k);
                }
            }
            #[inline(always)]
            fn get(self) -> f32 {
                self.to_f32()
            }
            #[inline(always)]
            fn put(v: f32) -> $t {
                <$t>::from_f32(v)
            }
        }
    };
}
half!(bf16, load_bf16, store_bf16);
half!(f16, load_f16, store_f16);

/// Runs a body over `n` elements register by register: `$i` is the first element, `$k` how many, `$u` one of four
/// accumulators, so that additions do not wait for each other.
macro_rules! by_register {
    ($R:ty, $n:expr, |$i:ident, $k:ident, $u:ident| $body:block) => {{
        let (n, width) = ($n, <$R as oneflow_kernels_prim::Register>::WIDTH);
        let mut at = 0;
        while at + 4 * width <= n {
            for $u in 0..4 {
                let ($i, $k) = (at + $u * width, width);
                $body
            }
            at += 4 * width;
        }
        while at + width <= n {
            let ($i, $k, $u) = (at, width, 0usize);
            $body
            at += width;
        }
        if at < n {
            let ($i, $k, $u) = (at, n - at, 0usize);
            $body
        }
    }};
}

/// Outputs from this size on do not stay in the last cache; storing past the caches saves reading them first.
pub const STREAM_BYTES: usize = 32 << 20;

/// Whether rows from `p` on may be streamed: registers must not cross cache lines.
#[inline(always)]
pub fn aligned<T>(p: *const T) -> bool {
    (p as usize).is_multiple_of(64)
}

/// Orders streamed stores before whatever tells another thread about them.
#[inline]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 machine has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
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
            other => Err(crate::mem::not_float($name, other)),
        }
    };
}
pub(crate) use {by_float, by_register};

/// torch's text for a kernel that takes floats.
#[cold]
pub fn not_float(name: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{name}\" not implemented for '{}'", dtype.scalar_type_name()))
}

/// The register with zeros in the lanes from `k` on.
///
/// # Safety
/// `k` is at most the register's width.
#[inline(always)]
pub unsafe fn masked<R: Register>(r: R, k: usize) -> R {
    let mut a = [R::Elem::default(); 16];
    // SAFETY: no register is wider than sixteen elements.
    unsafe {
        r.store(a.as_mut_ptr());
        R::load_partial(a.as_ptr(), k)
    }
}

/// Four accumulators as one number.
#[inline(always)]
pub fn total<R: Register>(acc: [R; 4]) -> R::Elem {
    ((acc[0] + acc[1]) + (acc[2] + acc[3])).sum()
}

#[inline(always)]
pub fn greatest<R: Register>(acc: [R; 4]) -> R::Elem {
    acc[0].maximum(acc[1]).maximum(acc[2].maximum(acc[3])).max_of()
}

/// One element of a float view.
///
/// # Safety
/// The offset lies inside the view.
pub unsafe fn read(v: &View, offset: isize) -> Result<f64> {
    // SAFETY: by the caller.
    by_float!("read", v.dtype, T => Ok(unsafe { (*v.ptr.cast::<T>().offset(offset)).get() }.wide()))
}

/// A 1-D run of parameters (a weight, a bias) in the compute dtype: the memory itself where it is that already.
pub enum Run<A: Acc> {
    None,
    Here(*const A),
    Cast(SmallVec<[A; 512]>),
}

impl<A: Acc> Run<A> {
    /// # Safety
    /// The view is valid for reads while the run lives.
    pub unsafe fn new(v: Option<View>) -> Result<Run<A>> {
        let Some(v) = v else { return Ok(Run::None) };
        if v.dtype == A::DTYPE && v.is_contiguous() {
            return Ok(Run::Here(v.ptr.cast()));
        }
        let grid = oneflow_kernels_prim::rows::Grid::new(v.sizes, [v.strides]);
        let mut cast = SmallVec::with_capacity(grid.len());
        by_float!("weight", v.dtype, T => {
            // SAFETY: the grid yields offsets inside the view.
            grid.each(0..grid.len(), |_, [o]| cast.push(A::of(unsafe { (*v.ptr.cast::<T>().offset(o)).get() }.wide())));
            Ok(Run::Cast(cast))
        })
    }
    /// Null where there is none.
    pub fn ptr(&self) -> *const A {
        match self {
            Run::None => std::ptr::null(),
            Run::Here(p) => *p,
            Run::Cast(v) => v.as_ptr(),
        }
    }
}

/// Most bytes a thread keeps between calls.
const KEPT_BYTES: usize = 16 << 20;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code)] [u8; 64]);

/// Lends `bytes` of the thread's scratch, aligned to a cache line, with arbitrary content.
pub fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    thread_local!(static SCRATCH: Cell<Vec<Line>> = const { Cell::new(Vec::new()) });
    // Taken out while in use: a nested call gets its own.
    let mut lines = SCRATCH.take();
    if lines.len() * 64 < bytes {
        lines.resize(bytes.div_ceil(64), Line([0; 64]));
    }
    let r = f(lines.as_mut_ptr().cast());
    // A very long row does not hold its memory for ever.
    if lines.len() * 64 <= KEPT_BYTES {
        SCRATCH.set(lines);
    }
    r
}
