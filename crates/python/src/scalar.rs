//! Single numbers out of and into tensor memory.

use crate::global::copy_to_host;
use crate::{gate, subclass};
use oneflow_core::base::{DType, Device, Error, Result, Scalar, bf16, f16, f32_to_float8, float8_to_f32};
use oneflow_core::{Tensor, narrow_operands};
use pyo3::prelude::*;

/// The one element of a tensor.
pub fn read(t: &Tensor) -> Result<Scalar> {
    if t.numel() != 1 {
        return Err(Error::runtime(format!("a Tensor with {} elements cannot be converted to Scalar", t.numel())));
    }
    if t.device().is_cpu() && t.storage().is_some() {
        t.check_memory()?;
        // SAFETY: a host tensor with one element.
        return unsafe { fitting(t.data_ptr(), t.dtype()) };
    }
    if t.is_only_a_subclass() {
        return answered(t);
    }
    let host = copy_to_host(t)?;
    // SAFETY: as above.
    unsafe { fitting(host.data_ptr(), host.dtype()) }
}

/// The number that the class of a tensor without memory answers.
#[cold]
fn answered(t: &Tensor) -> Result<Scalar> {
    gate::attach(|py| {
        // SAFETY: the interpreter is held.
        let answer = unsafe { subclass::answered(py, "_local_scalar_dense", t)? };
        let answer = answer.ok_or_else(|| subclass::without_memory("item()", t))?;
        // SAFETY: a new reference.
        let answer = unsafe { Bound::from_owned_ptr(py, answer) };
        // SAFETY: a live object, the interpreter is held.
        let number = unsafe { crate::value::scalar(py, answer.as_ptr())? };
        number.ok_or_else(|| {
            Error::type_(format!("item(): __torch_dispatch__ must return a number, got {}", answer.get_type()))
        })
    })
}

/// # Safety
/// As for `load`.
unsafe fn fitting(p: *const u8, dtype: DType) -> Result<Scalar> {
    // SAFETY: the caller's promise.
    unsafe {
        match beyond(p, dtype) {
            None => Ok(load(p, dtype)),
            Some(v) => Err(Error::runtime(format!("value cannot be converted to type int64_t without overflow: {v}"))),
        }
    }
}

/// An element of uint64 that no `Scalar` holds.
///
/// # Safety
/// As for `load`.
pub unsafe fn beyond(p: *const u8, dtype: DType) -> Option<u64> {
    if dtype != DType::U64 {
        return None;
    }
    // SAFETY: the caller's promise.
    let v = unsafe { p.cast::<u64>().read_unaligned() };
    (v > i64::MAX as u64).then_some(v)
}

/// # Safety
/// `p` points to an element of this dtype.
pub unsafe fn load(p: *const u8, dtype: DType) -> Scalar {
    // SAFETY: the caller's promise; `read_unaligned` as foreign memory may lie anywhere.
    unsafe {
        match dtype {
            DType::Bool => Scalar::Bool(*p != 0),
            DType::U8 => Scalar::Int(*p as i64),
            DType::I8 => Scalar::Int(*p.cast::<i8>() as i64),
            DType::I16 => Scalar::Int(p.cast::<i16>().read_unaligned() as i64),
            DType::I32 => Scalar::Int(p.cast::<i32>().read_unaligned() as i64),
            DType::I64 => Scalar::Int(p.cast::<i64>().read_unaligned()),
            DType::F16 => Scalar::Float(p.cast::<f16>().read_unaligned().to_f64()),
            DType::BF16 => Scalar::Float(p.cast::<bf16>().read_unaligned().to_f64()),
            DType::F32 => Scalar::Float(p.cast::<f32>().read_unaligned() as f64),
            DType::F64 => Scalar::Float(p.cast::<f64>().read_unaligned()),
            DType::C64 => {
                let [r, i] = p.cast::<[f32; 2]>().read_unaligned();
                Scalar::Complex(r as f64, i as f64)
            }
            DType::C128 => {
                let [r, i] = p.cast::<[f64; 2]>().read_unaligned();
                Scalar::Complex(r, i)
            }
            DType::U16 => Scalar::Int(p.cast::<u16>().read_unaligned() as i64),
            DType::U32 => Scalar::Int(p.cast::<u32>().read_unaligned() as i64),
            DType::U64 => Scalar::Int(p.cast::<i64>().read_unaligned()),
            DType::C32 => {
                let [r, i] = p.cast::<[f16; 2]>().read_unaligned();
                Scalar::Complex(r.to_f64(), i.to_f64())
            }
            DType::F8E4M3FN | DType::F8E5M2 | DType::F8E4M3FNUZ | DType::F8E5M2FNUZ | DType::F8E8M0FNU => {
                Scalar::Float(float8_to_f32(dtype, *p) as f64)
            }
        }
    }
}

/// Writes a number as an element of `dtype`. Integers that do not fit are an error, as is a complex number for a
/// real dtype but bool.
///
/// # Safety
/// `p` points to room for an element of this dtype.
#[inline]
pub unsafe fn store(p: *mut u8, dtype: DType, s: Scalar) -> Result<()> {
    macro_rules! int {
        ($t:ty) => {{
            let v = match s {
                Scalar::Int(i) => i,
                other => return store_other(p, dtype, other),
            };
            let v = <$t>::try_from(v).map_err(|_| {
                Error::runtime(format!("value cannot be converted to type {dtype} without overflow: {v}"))
            })?;
            p.cast::<$t>().write_unaligned(v)
        }};
    }
    if let Scalar::Complex(..) = s
        && !(dtype.is_complex() || dtype == DType::Bool)
    {
        return Err(Error::runtime(format!(
            "value cannot be converted to type {dtype} without overflow: a complex number"
        )));
    }
    // SAFETY: the caller's promise.
    unsafe {
        match dtype {
            DType::Bool => *p = (s.parts() != (0.0, 0.0)) as u8,
            // Negative numbers wrap, as in C.
            DType::U8 => match s {
                Scalar::Int(i @ -255..0) => *p = i as u8,
                _ => int!(u8),
            },
            DType::U16 => match s {
                Scalar::Int(i @ -65535..0) => p.cast::<u16>().write_unaligned(i as u16),
                _ => int!(u16),
            },
            DType::U32 => match s {
                Scalar::Int(i @ -4294967295..0) => p.cast::<u32>().write_unaligned(i as u32),
                _ => int!(u32),
            },
            DType::U64 => int!(u64),
            DType::F8E4M3FN | DType::F8E5M2 | DType::F8E4M3FNUZ | DType::F8E5M2FNUZ | DType::F8E8M0FNU => {
                *p = f32_to_float8(dtype, s.to_f64() as f32)
            }
            DType::I8 => int!(i8),
            DType::I16 => int!(i16),
            DType::I32 => int!(i32),
            DType::I64 => int!(i64),
            DType::F16 => p.cast::<f16>().write_unaligned(f16::from_f64(s.to_f64())),
            DType::BF16 => p.cast::<bf16>().write_unaligned(bf16::from_f64(s.to_f64())),
            DType::F32 => p.cast::<f32>().write_unaligned(s.to_f64() as f32),
            DType::F64 => p.cast::<f64>().write_unaligned(s.to_f64()),
            DType::C32 | DType::C64 | DType::C128 => {
                let (r, i) = match s {
                    Scalar::Complex(r, i) => (r, i),
                    s => (s.to_f64(), 0.0),
                };
                if dtype == DType::C32 {
                    p.cast::<[f16; 2]>().write_unaligned([f16::from_f64(r), f16::from_f64(i)]);
                } else if dtype == DType::C64 {
                    p.cast::<[f32; 2]>().write_unaligned([r as f32, i as f32]);
                } else {
                    p.cast::<[f64; 2]>().write_unaligned([r, i]);
                }
            }
        }
    }
    Ok(())
}

/// A bool or a float for an integer dtype: truncated, as long as it is a number that fits.
#[cold]
fn store_other(p: *mut u8, dtype: DType, s: Scalar) -> Result<()> {
    let f = s.to_f64();
    if !f.is_finite() || f.abs() >= 9.3e18 {
        return Err(Error::runtime(format!("value cannot be converted to type {dtype} without overflow: {f}")));
    }
    // SAFETY: the caller of `store` promised room for the element.
    unsafe { store(p, dtype, Scalar::Int(f as i64)) }
}

/// A new 0-dim host tensor.
pub fn tensor(s: Scalar, dtype: DType) -> Result<Tensor> {
    let t = Tensor::empty(dtype, Device::CPU, &[])?;
    // SAFETY: the fresh tensor has one element of this dtype.
    unsafe { store(t.data_ptr(), dtype, s)? };
    Ok(t)
}

/// As `tensor`, of a number that is written into a tensor: one that is finite must not become infinite.
pub fn written(s: Scalar, dtype: DType) -> Result<Tensor> {
    if let (Scalar::Complex(..), DType::Bool) = (s, dtype) {
        return Err(Error::runtime("value cannot be converted to type bool without overflow: a complex number"));
    }
    let t = tensor(s, dtype)?;
    // SAFETY: a host tensor of one element of this dtype.
    let (re, im) = unsafe { load(t.data_ptr(), dtype) }.parts();
    let (given_re, given_im) = s.parts();
    if given_re.is_finite() && re.is_infinite() || given_im.is_finite() && im.is_infinite() {
        return Err(Error::runtime(format!("value cannot be converted to type {dtype} without overflow: {given_re}")));
    }
    Ok(t)
}

/// A number that stands for a tensor beside another one, and its dtype: that of the other, unless the number is of a higher
/// category. An integer that a narrow dtype does not hold keeps its own, which does not change the result's; beside a tensor
/// without dimensions, where it would, it wraps.
pub fn beside(s: Scalar, other: Option<&Tensor>, default: DType) -> (Scalar, DType) {
    let Some(t) = other else { return (s, s.natural_dtype(default)) };
    match t.dtype() {
        d if s.category() <= d.category() => {
            let wrapped = narrow_operands::wrapped(d, d.compute(), s);
            if t.ndim() == 0 || wrapped == s { (wrapped, d) } else { (s, DType::I64) }
        }
        d @ (DType::F64 | DType::C128) => (s, s.natural_dtype(d)),
        _ => (s, s.natural_dtype(default)),
    }
}
