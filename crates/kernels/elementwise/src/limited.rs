//! Runs of the dtypes that only copies, fills and a few formulas know (`DType::is_limited`), to and from compute dtypes.
//!
//! Plain loops, in no instruction set's code: few programs cast these often, and each loop would be built for all of them.

use crate::io::{Elem, Load, Store, f64_to_i32, f64_to_i64, unsupported};
use oneflow_base::{DType, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0FNU, Result, f16};
use oneflow_kernels_prim::Cx;

/// A number of another width on its way to a limited dtype and back, without a second rounding.
pub trait Number: Copy {
    fn of_f32(v: f32) -> Self;
    fn of_u64(v: u64) -> Self;
    fn to_f32(self) -> f32;
    /// Integers modulo 2^64; floats truncated, out of range as x86 converts them.
    fn to_u64(self) -> u64;
    /// The same for 16 bits, which floats reach by way of 32.
    fn to_u16(self) -> u16 {
        self.to_u64() as u16
    }
}

const TWO_63: f64 = 9223372036854775808.0;

impl Number for f32 {
    fn of_f32(v: f32) -> f32 {
        v
    }
    fn of_u64(v: u64) -> f32 {
        v as f32
    }
    fn to_f32(self) -> f32 {
        self
    }
    fn to_u64(self) -> u64 {
        (self as f64).to_u64()
    }
    fn to_u16(self) -> u16 {
        (self as f64).to_u16()
    }
}
impl Number for f64 {
    fn of_f32(v: f32) -> f64 {
        v as f64
    }
    fn of_u64(v: u64) -> f64 {
        v as f64
    }
    fn to_f32(self) -> f32 {
        self as f32
    }
    fn to_u64(self) -> u64 {
        if self >= TWO_63 { f64_to_i64(self - TWO_63) as u64 ^ 1 << 63 } else { f64_to_i64(self) as u64 }
    }
    fn to_u16(self) -> u16 {
        f64_to_i32(self) as u16
    }
}
impl Number for i64 {
    fn of_f32(v: f32) -> i64 {
        f64_to_i64(v as f64)
    }
    fn of_u64(v: u64) -> i64 {
        v as i64
    }
    fn to_f32(self) -> f32 {
        self as f32
    }
    fn to_u64(self) -> u64 {
        self as u64
    }
}

/// An element in memory.
trait Stored: Copy {
    fn read<T: Number>(self) -> T;
    fn write<T: Number>(v: T) -> Self;
}

macro_rules! unsigned {
    ($($t:ty: |$v:ident| $bits:expr;)*) => {$(
        impl Stored for $t {
            fn read<T: Number>(self) -> T {
                T::of_u64(self as u64)
            }
            fn write<T: Number>($v: T) -> $t {
                $bits as $t
            }
        }
    )*};
}
unsigned! {
    u16: |v| v.to_u16();
    u32: |v| v.to_u64();
    u64: |v| v.to_u64();
}

macro_rules! float8 {
    ($($t:ty)*) => {$(
        impl Stored for $t {
            fn read<T: Number>(self) -> T {
                T::of_f32(self.to_f32())
            }
            fn write<T: Number>(v: T) -> $t {
                <$t>::from_f32(v.to_f32())
            }
        }
    )*};
}
float8!(F8E4M3FN F8E5M2 F8E4M3FNUZ F8E5M2FNUZ F8E8M0FNU);

unsafe fn load_as<E: Stored, T: Number>(src: *const u8, stride: isize, n: usize, dst: *mut T) {
    let src = src.cast::<E>();
    for i in 0..n {
        // SAFETY: `Load`'s contract.
        unsafe { *dst.add(i) = src.offset(i as isize * stride).read_unaligned().read() };
    }
}

unsafe fn store_as<E: Stored, T: Number>(src: *const T, n: usize, dst: *mut u8, stride: isize) {
    let dst = dst.cast::<E>();
    for i in 0..n {
        // SAFETY: `Store`'s contract.
        unsafe { dst.offset(i as isize * stride).write_unaligned(E::write(*src.add(i))) };
    }
}

macro_rules! by_stored {
    ($dtype:expr, $f:ident::<$t:ident>) => {
        Ok(match $dtype {
            DType::U16 => $f::<u16, $t>,
            DType::U32 => $f::<u32, $t>,
            DType::U64 => $f::<u64, $t>,
            DType::F8E4M3FN => $f::<F8E4M3FN, $t>,
            DType::F8E5M2 => $f::<F8E5M2, $t>,
            DType::F8E4M3FNUZ => $f::<F8E4M3FNUZ, $t>,
            DType::F8E5M2FNUZ => $f::<F8E5M2FNUZ, $t>,
            DType::F8E8M0FNU => $f::<F8E8M0FNU, $t>,
            other => return Err(unsupported(other)),
        })
    };
}

pub fn load<T: Number>(dtype: DType) -> Result<Load<T>> {
    by_stored!(dtype, load_as::<T>)
}

pub fn store<T: Number>(dtype: DType) -> Result<Store<T>> {
    by_stored!(dtype, store_as::<T>)
}

unsafe fn load_half<T: Copy>(src: *const u8, stride: isize, n: usize, dst: *mut Cx<T>)
where
    f16: Elem<T>,
{
    let src = src.cast::<[f16; 2]>();
    for i in 0..n {
        // SAFETY: `Load`'s contract.
        unsafe {
            let [re, im] = src.offset(i as isize * stride).read_unaligned();
            *dst.add(i) = Cx { re: re.read(), im: im.read() };
        }
    }
}

unsafe fn store_half<T: Copy>(src: *const Cx<T>, n: usize, dst: *mut u8, stride: isize)
where
    f16: Elem<T>,
{
    let dst = dst.cast::<[f16; 2]>();
    for i in 0..n {
        // SAFETY: `Store`'s contract.
        unsafe {
            let v = *src.add(i);
            dst.offset(i as isize * stride).write_unaligned([f16::write(v.re), f16::write(v.im)]);
        }
    }
}

pub fn load_complex<T: Copy>(dtype: DType) -> Result<Load<Cx<T>>>
where
    f16: Elem<T>,
{
    if dtype == DType::C32 { Ok(load_half::<T>) } else { Err(unsupported(dtype)) }
}

pub fn store_complex<T: Copy>(dtype: DType) -> Result<Store<Cx<T>>>
where
    f16: Elem<T>,
{
    if dtype == DType::C32 { Ok(store_half::<T>) } else { Err(unsupported(dtype)) }
}
