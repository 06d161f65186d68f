//! Runs of elements between any dtype in memory and the compute dtype in a buffer.

use oneflow_base::{Bool, DType, Error, Result, bf16, by_dtype, f16};
use oneflow_kernels_prim::{Cx, Expr, Float, Isa, Reg, Register, Simd, Tile, WithSimd, Word, dispatch, isa};

/// What kernels compute in: f32, f64, i64 or complex numbers of floats.
pub trait Compute: Copy + Default + PartialEq + PartialOrd + Send + Sync + 'static {
    const DTYPE: DType;
    /// Words of a launch scalar.
    const WORDS: usize = 1;
    /// A launch scalar from its words; what is missing is zero.
    fn word(w: &[Word]) -> Self;
    fn tile(expr: &Expr, isa: Isa) -> Option<Tile<Self>>;
}

impl Compute for f32 {
    const DTYPE: DType = DType::F32;
    #[inline(always)]
    fn word(w: &[Word]) -> f32 {
        w.first().map_or(0.0, |w| w.f64() as f32)
    }
    #[inline(always)]
    fn tile(expr: &Expr, isa: Isa) -> Option<Tile<f32>> {
        expr.tile_f32(isa)
    }
}
impl Compute for f64 {
    const DTYPE: DType = DType::F64;
    #[inline(always)]
    fn word(w: &[Word]) -> f64 {
        w.first().map_or(0.0, |w| w.f64())
    }
    #[inline(always)]
    fn tile(expr: &Expr, isa: Isa) -> Option<Tile<f64>> {
        expr.tile_f64(isa)
    }
}
impl Compute for i64 {
    const DTYPE: DType = DType::I64;
    #[inline(always)]
    fn word(w: &[Word]) -> i64 {
        w.first().map_or(0, |w| w.i64())
    }
    #[inline(always)]
    fn tile(expr: &Expr, isa: Isa) -> Option<Tile<i64>> {
        expr.tile_i64(isa)
    }
}

/// What tensors of up to 32 bits compute in where all of a launch has no more.
impl Compute for i32 {
    const DTYPE: DType = DType::I32;
    #[inline(always)]
    fn word(w: &[Word]) -> i32 {
        w.first().map_or(0, |w| w.i64() as i32)
    }
    #[inline(always)]
    fn tile(expr: &Expr, isa: Isa) -> Option<Tile<i32>> {
        expr.tile_i32(isa)
    }
}

macro_rules! complex_compute {
    ($($t:ident, $dtype:ident, $tile:ident;)*) => {$(
        impl Compute for Cx<$t> {
            const DTYPE: DType = DType::$dtype;
            const WORDS: usize = 2;
            #[inline(always)]
            fn word(w: &[Word]) -> Self {
                Cx { re: $t::word(w), im: w.get(1..).map_or(0.0, $t::word) }
            }
            #[inline(always)]
            fn tile(expr: &Expr, _: Isa) -> Option<Tile<Self>> {
                expr.$tile()
            }
        }
    )*};
}
complex_compute! {
    f32, C64, tile_c64;
    f64, C128, tile_c128;
}

/// An element in memory as a compute number, and back. Floats become integers as x86 converts them, which is what torch
/// gives: truncated, out of range the least number of the wide type, then wrapped into the narrow one.
pub trait Elem<T>: Copy {
    fn read(self) -> T;
    fn write(v: T) -> Self;
}

/// Branches that the compiler turns into masks, so that loops of casts become vectors.
macro_rules! truncations {
    ($($name:ident: $from:ty => $to:ty, |$v:ident| $inside:expr;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name($v: $from) -> $to {
            let inside = $inside;
            let safe = if inside { $v } else { 0.0 };
            // SAFETY: the number is in range.
            let truncated = unsafe { safe.to_int_unchecked::<$to>() };
            if inside { truncated } else { <$to>::MIN }
        }
    )*};
}
truncations! {
    f32_to_i32: f32 => i32, |v| (-2147483648.0..2147483648.0).contains(&v);
    f64_to_i32: f64 => i32, |v| v > -2147483649.0 && v < 2147483648.0;
    f32_to_i64: f32 => i64, |v| (-9223372036854775808.0..9223372036854775808.0).contains(&v);
    f64_to_i64: f64 => i64, |v| (-9223372036854775808.0..9223372036854775808.0).contains(&v);
}

macro_rules! ints {
    ($($t:ty: $from32:expr, $from64:expr;)*) => {$(
        impl Elem<f32> for $t {
            #[inline(always)]
            fn read(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn write(v: f32) -> $t {
                $from32(v) as $t
            }
        }
        impl Elem<f64> for $t {
            #[inline(always)]
            fn read(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn write(v: f64) -> $t {
                $from64(v) as $t
            }
        }
        impl Elem<i64> for $t {
            #[inline(always)]
            fn read(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn write(v: i64) -> $t {
                v as $t
            }
        }
    )*};
}
ints! {
    // A float of 2^31 and more is a multiple of 256, whose low byte is zero as that of the least number is.
    u8: f32_to_i32, f64_to_i64;
    i8: f32_to_i32, f64_to_i32;
    i16: f32_to_i32, f64_to_i32;
    i32: f32_to_i32, f64_to_i32;
    i64: f32_to_i64, f64_to_i64;
}

macro_rules! narrow_ints {
    ($($t:ty)*) => {$(
        impl Elem<i32> for $t {
            #[inline(always)]
            fn read(self) -> i32 {
                self as i32
            }
            #[inline(always)]
            fn write(v: i32) -> $t {
                v as $t
            }
        }
    )*};
}
narrow_ints!(u8 i8 i16 i32);

macro_rules! elems {
    ($($t:ty, $c:ty: |$r:ident| $read:expr, |$w:ident| $write:expr;)*) => {$(
        impl Elem<$c> for $t {
            #[inline(always)]
            fn read(self) -> $c {
                let $r = self;
                $read
            }
            #[inline(always)]
            fn write($w: $c) -> $t {
                $write
            }
        }
    )*};
}
elems! {
    Bool, f32: |r| r.is_true() as u8 as f32, |w| Bool((w != 0.0) as u8);
    Bool, f64: |r| r.is_true() as u8 as f64, |w| Bool((w != 0.0) as u8);
    Bool, i64: |r| r.is_true() as u8 as i64, |w| Bool((w != 0) as u8);
    Bool, i32: |r| r.is_true() as u8 as i32, |w| Bool((w != 0) as u8);
    f16, f32: |r| r.to_f32(), |w| f16::from_f32(w);
    f16, f64: |r| r.to_f32() as f64, |w| f16::from_f32(w as f32);
    f16, i64: |r| f32_to_i64(r.to_f32()), |w| f16::from_f32(w as f32);
    bf16, f32: |r| r.to_f32(), |w| bf16::from_f32(w);
    bf16, f64: |r| r.to_f32() as f64, |w| bf16::from_f32(w as f32);
    bf16, i64: |r| f32_to_i64(r.to_f32()), |w| bf16::from_f32(w as f32);
    f32, f32: |r| r, |w| w;
    f32, f64: |r| r as f64, |w| w as f32;
    f32, i64: |r| f32_to_i64(r), |w| w as f32;
    f64, f32: |r| r as f32, |w| w as f64;
    f64, f64: |r| r, |w| w;
    f64, i64: |r| f64_to_i64(r), |w| w as f64;
}

/// Real elements of a complex number: its real part, with an imaginary part of zero on the way back. A bool is true where
/// either part is.
macro_rules! complex_elems {
    ($c:ty: $($t:ty),*) => {
        $(impl Elem<Cx<$c>> for $t {
            #[inline(always)]
            fn read(self) -> Cx<$c> {
                Cx { re: self.read(), im: 0.0 }
            }
            #[inline(always)]
            fn write(v: Cx<$c>) -> $t {
                <$t as Elem<$c>>::write(v.re)
            }
        })*
        impl Elem<Cx<$c>> for Bool {
            #[inline(always)]
            fn read(self) -> Cx<$c> {
                Cx { re: self.read(), im: 0.0 }
            }
            #[inline(always)]
            fn write(v: Cx<$c>) -> Bool {
                Bool((v.re != 0.0 || v.im != 0.0) as u8)
            }
        }
        impl Elem<Cx<$c>> for Cx<f32> {
            #[inline(always)]
            fn read(self) -> Cx<$c> {
                Cx { re: self.re as $c, im: self.im as $c }
            }
            #[inline(always)]
            fn write(v: Cx<$c>) -> Cx<f32> {
                Cx { re: v.re as f32, im: v.im as f32 }
            }
        }
        impl Elem<Cx<$c>> for Cx<f64> {
            #[inline(always)]
            fn read(self) -> Cx<$c> {
                Cx { re: self.re as $c, im: self.im as $c }
            }
            #[inline(always)]
            fn write(v: Cx<$c>) -> Cx<f64> {
                Cx { re: v.re as f64, im: v.im as f64 }
            }
        }
    };
}
complex_elems!(f32: u8, i8, i16, i32, i64, f16, bf16, f32, f64);
complex_elems!(f64: u8, i8, i16, i32, i64, f16, bf16, f32, f64);

/// Reads `n` elements `stride` apart into a buffer.
///
/// # Safety (of the pointee)
/// The source is valid for those reads of the dtype, the buffer for `n` writes; they do not overlap.
pub type Load<T> = unsafe fn(src: *const u8, stride: isize, n: usize, dst: *mut T);
/// Writes `n` numbers of a buffer to elements `stride` apart.
///
/// # Safety (of the pointee)
/// As `Load`, the other way round.
pub type Store<T> = unsafe fn(src: *const T, n: usize, dst: *mut u8, stride: isize);

/// Runs shorter than this are not worth entering code of another instruction set.
const FEW: usize = 4;

struct LoadRun<E, T>(*const E, usize, *mut T);
impl<E: Elem<T>, T: Copy> WithSimd for LoadRun<E, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for i in 0..self.1 {
            // SAFETY: `Load`'s contract.
            unsafe { *self.2.add(i) = self.0.add(i).read_unaligned().read() };
        }
    }
}
struct StoreRun<E, T>(*const T, usize, *mut E);
impl<E: Elem<T>, T: Copy> WithSimd for StoreRun<E, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for i in 0..self.1 {
            // SAFETY: `Store`'s contract.
            unsafe { self.2.add(i).write_unaligned(E::write(*self.0.add(i))) };
        }
    }
}

unsafe fn load_as<E: Elem<T>, T: Copy>(src: *const u8, stride: isize, n: usize, dst: *mut T) {
    let src = src.cast::<E>();
    if stride == 1 && n >= FEW {
        return dispatch(isa(), LoadRun(src, n, dst));
    }
    for i in 0..n {
        // SAFETY: `Load`'s contract.
        unsafe { *dst.add(i) = src.offset(i as isize * stride).read_unaligned().read() };
    }
}

unsafe fn store_as<E: Elem<T>, T: Copy>(src: *const T, n: usize, dst: *mut u8, stride: isize) {
    let dst = dst.cast::<E>();
    if stride == 1 && n >= FEW {
        return dispatch(isa(), StoreRun(src, n, dst));
    }
    for i in 0..n {
        // SAFETY: `Store`'s contract.
        unsafe { dst.offset(i as isize * stride).write_unaligned(E::write(*src.add(i))) };
    }
}

/// Floats of a contiguous run, by the hardware's conversions.
struct LoadFloats<T: Float>(*const T, usize, *mut T::Acc);
impl<T: Float> WithSimd for LoadFloats<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let LoadFloats(src, n, dst) = self;
        let w = Reg::<S, T>::WIDTH;
        let mut i = 0;
        // SAFETY: `Load`'s contract.
        unsafe {
            while i + w <= n {
                T::load::<S>(src.add(i)).store(dst.add(i));
                i += w;
            }
            if i < n {
                T::load_partial::<S>(src.add(i), n - i).store_partial(dst.add(i), n - i);
            }
        }
    }
}
struct StoreFloats<T: Float>(*const T::Acc, usize, *mut T);
impl<T: Float> WithSimd for StoreFloats<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let StoreFloats(src, n, dst) = self;
        let w = Reg::<S, T>::WIDTH;
        let mut i = 0;
        // SAFETY: `Store`'s contract.
        unsafe {
            while i + w <= n {
                T::store::<S>(Register::load(src.add(i)), dst.add(i));
                i += w;
            }
            if i < n {
                T::store_partial::<S>(Register::load_partial(src.add(i), n - i), dst.add(i), n - i);
            }
        }
    }
}

unsafe fn load_half<E: Elem<f32> + Float<Acc = f32>>(src: *const u8, stride: isize, n: usize, dst: *mut f32) {
    if stride == 1 && n >= FEW {
        return dispatch(isa(), LoadFloats::<E>(src.cast(), n, dst));
    }
    for i in 0..n {
        // SAFETY: `Load`'s contract.
        unsafe { *dst.add(i) = src.cast::<E>().offset(i as isize * stride).read_unaligned().read() };
    }
}
unsafe fn store_half<E: Elem<f32> + Float<Acc = f32>>(src: *const f32, n: usize, dst: *mut u8, stride: isize) {
    if stride == 1 && n >= FEW {
        return dispatch(isa(), StoreFloats::<E>(src, n, dst.cast()));
    }
    for i in 0..n {
        // SAFETY: `Store`'s contract.
        unsafe { dst.cast::<E>().offset(i as isize * stride).write_unaligned(E::write(*src.add(i))) };
    }
}

/// The loaders and storers of a compute dtype, by the dtype in memory.
pub trait Io: Compute {
    fn load(dtype: DType) -> Result<Load<Self>>;
    fn store(dtype: DType) -> Result<Store<Self>>;
}

macro_rules! io {
    ($t:ident, $load16:expr, $loadb16:expr, $store16:expr, $storeb16:expr) => {
        impl Io for $t {
            fn load(dtype: DType) -> Result<Load<$t>> {
                Ok(match dtype {
                    DType::F16 => $load16,
                    DType::BF16 => $loadb16,
                    _ => by_dtype!(dtype, reals, E => load_as::<E, $t>, other => return crate::limited::load(other)),
                })
            }
            fn store(dtype: DType) -> Result<Store<$t>> {
                Ok(match dtype {
                    DType::F16 => $store16,
                    DType::BF16 => $storeb16,
                    _ => by_dtype!(dtype, reals, E => store_as::<E, $t>, other => return crate::limited::store(other)),
                })
            }
        }
    };
}
io!(f32, load_half::<f16>, load_half::<bf16>, store_half::<f16>, store_half::<bf16>);
io!(f64, load_as::<f16, f64>, load_as::<bf16, f64>, store_as::<f16, f64>, store_as::<bf16, f64>);
io!(i64, load_as::<f16, i64>, load_as::<bf16, i64>, store_as::<f16, i64>, store_as::<bf16, i64>);

impl Io for i32 {
    fn load(dtype: DType) -> Result<Load<i32>> {
        Ok(match dtype {
            DType::Bool => load_as::<Bool, i32>,
            DType::U8 => load_as::<u8, i32>,
            DType::I8 => load_as::<i8, i32>,
            DType::I16 => load_as::<i16, i32>,
            DType::I32 => load_as::<i32, i32>,
            _ => return Err(unsupported(dtype)),
        })
    }
    fn store(dtype: DType) -> Result<Store<i32>> {
        Ok(match dtype {
            DType::Bool => store_as::<Bool, i32>,
            DType::U8 => store_as::<u8, i32>,
            DType::I8 => store_as::<i8, i32>,
            DType::I16 => store_as::<i16, i32>,
            DType::I32 => store_as::<i32, i32>,
            _ => return Err(unsupported(dtype)),
        })
    }
}

/// Whether a dtype's numbers are integers of at most 32 bits.
pub fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::Bool | DType::U8 | DType::I8 | DType::I16 | DType::I32)
}

macro_rules! complex_io {
    ($($t:ty),*) => {$(
        impl Io for $t {
            fn load(dtype: DType) -> Result<Load<$t>> {
                Ok(match dtype {
                    DType::C64 => load_as::<Cx<f32>, $t>,
                    DType::C128 => load_as::<Cx<f64>, $t>,
                    _ => by_dtype!(dtype, reals, E => load_as::<E, $t>, other => return crate::limited::load_complex(other)),
                })
            }
            fn store(dtype: DType) -> Result<Store<$t>> {
                Ok(match dtype {
                    DType::C64 => store_as::<Cx<f32>, $t>,
                    DType::C128 => store_as::<Cx<f64>, $t>,
                    _ => by_dtype!(dtype, reals, E => store_as::<E, $t>, other => return crate::limited::store_complex(other)),
                })
            }
        }
    )*};
}
complex_io!(Cx<f32>, Cx<f64>);

#[cold]
pub fn unsupported(dtype: DType) -> Error {
    Error::not_implemented(format!("the CPU's elementwise kernels are not implemented for {dtype}"))
}

/// Calls a function generic over the compute type for a compute dtype.
macro_rules! by_compute {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            oneflow_base::DType::F32 => $f::<f32>($($arg),*),
            oneflow_base::DType::F64 => $f::<f64>($($arg),*),
            oneflow_base::DType::I64 => $f::<i64>($($arg),*),
            other => Err(crate::io::unsupported(other)),
        }
    };
}
pub(crate) use by_compute;

/// As `by_compute`, with complex compute dtypes.
macro_rules! by_number {
    ($dtype:expr, $f:ident($($arg:expr),*)) => {
        match $dtype {
            oneflow_base::DType::C64 => $f::<oneflow_kernels_prim::Cx<f32>>($($arg),*),
            oneflow_base::DType::C128 => $f::<oneflow_kernels_prim::Cx<f64>>($($arg),*),
            real => crate::io::by_compute!(real, $f($($arg),*)),
        }
    };
}
pub(crate) use by_number;
