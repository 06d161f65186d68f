//! Helpers that a program without Python needs besides a session: the ops, and tensors from numbers and back. No call here
//! is unsafe.

use oneflow_base::{DType, Device, Dims, Error, Result};
use oneflow_core::{Storage, Tensor, copy_to_host};
use std::sync::Once;

/// Makes kernels and ops known to this process. Loading a program does it too; further calls do nothing.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        oneflow_kernels::register_all();
        oneflow_ops::register();
    });
}

/// The number of threads that the kernels of one run share, the caller's included; of the whole process. Results do not
/// depend on it. Services that run many sessions at the same time do best with one.
pub fn set_num_threads(n: usize) {
    oneflow_ep::cpu::set_num_threads(n);
}

pub fn num_threads() -> usize {
    oneflow_ep::cpu::num_threads()
}

/// Seeds the random numbers of this process (dropout in a program that trains, sampling).
pub fn manual_seed(seed: u64) {
    oneflow_core::default_generator().manual_seed(seed);
}

/// A number that tensors hold.
pub trait Number: Copy + Default + Send + Sync + sealed::Sealed + 'static {
    const DTYPE: DType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($t:ty, $dtype:ident);*) => {$(
        impl sealed::Sealed for $t {}
        impl Number for $t {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
numbers!(bool, Bool; f32, F32; f64, F64; u8, U8; i8, I8; i16, I16; i32, I32; i64, I64);

/// A tensor of these numbers, row-major, in the host's memory.
///
/// # Errors
/// ValueError: the sizes need another count of numbers.
pub fn tensor<T: Number>(numbers: &[T], sizes: &[i64]) -> Result<Tensor> {
    // SAFETY: `Number` is implemented for the Rust types of their dtypes alone.
    unsafe { Tensor::from_host(numbers, T::DTYPE, sizes) }
}

/// The same without a copy: the tensor owns the vector from now on.
///
/// # Errors
/// ValueError: the sizes need another count of numbers.
pub fn tensor_of<T: Number>(mut numbers: Vec<T>, sizes: &[i64]) -> Result<Tensor> {
    if oneflow_base::numel(sizes)? != numbers.len() as i64 {
        return Err(Error::value(format!("{} numbers do not fill shape {sizes:?}", numbers.len())));
    }
    let (ptr, bytes) = (numbers.as_mut_ptr().cast::<u8>(), size_of_val(numbers.as_slice()));
    // SAFETY: the vector's memory stays where it is and lives as long as the storage, which alone knows it.
    let storage = unsafe { Storage::foreign(Device::CPU, ptr, bytes, Box::new(numbers)) };
    let strides = oneflow_base::contiguous_strides(sizes);
    Tensor::from_storage(storage, T::DTYPE, Dims::from_slice(sizes), strides, 0)
}

/// The numbers of a tensor, row-major, from whatever device.
///
/// # Errors
/// TypeError: the tensor holds another type.
pub fn numbers<T: Number>(t: &Tensor) -> Result<Vec<T>> {
    let mut out = vec![T::default(); t.numel() as usize];
    numbers_into(t, &mut out).map(|()| out)
}

/// The same into memory of the caller's; nothing is allocated where the tensor is contiguous and the host's.
///
/// # Errors
/// TypeError: the tensor holds another type. ValueError: it holds another count of numbers.
pub fn numbers_into<T: Number>(t: &Tensor, out: &mut [T]) -> Result<()> {
    if t.dtype() != T::DTYPE {
        return Err(Error::type_(format!("numbers(): the tensor holds {}, {} was asked for", t.dtype(), T::DTYPE)));
    }
    if t.numel() as usize != out.len() {
        return Err(Error::value(format!("numbers(): the tensor holds {} numbers, not {}", t.numel(), out.len())));
    }
    let host = copy_to_host(t)?;
    // SAFETY: a contiguous host tensor holds `numel` elements of its dtype, which is `T`'s, and `out` has room for them. Another
    // thread may write the tensor meanwhile only against the rules of whoever handed it out.
    unsafe { std::ptr::copy_nonoverlapping(host.data_ptr().cast::<T>(), out.as_mut_ptr(), out.len()) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_in_and_come_back() {
        register();
        let t = tensor(&[1i64, 2, 3, 4, 5, 6], &[2, 3]).expect("six numbers");
        assert_eq!((t.dtype(), t.sizes()), (DType::I64, [2, 3].as_slice()));
        assert_eq!(numbers::<i64>(&t).expect("of that type"), [1, 2, 3, 4, 5, 6]);
        assert!(numbers::<f32>(&t).is_err_and(|e| e.text().contains("int64")));
        assert!(numbers::<f32>(&tensor::<f32>(&[], &[0, 3]).expect("none")).is_ok_and(|v| v.is_empty()));
        for sizes in [&[3i64, 3][..], &[-2, -3], &[i64::MAX, i64::MAX], &[]] {
            assert!(tensor(&[0f32; 6], sizes).is_err() && tensor_of(vec![0f32; 6], sizes).is_err());
        }
    }

    #[test]
    fn a_vector_becomes_a_tensor_where_it_lies() {
        register();
        let v = vec![true, false, true];
        let at = v.as_ptr().cast_mut().cast();
        let t = tensor_of(v, &[3]).expect("three");
        assert_eq!((t.data_ptr(), t.dtype()), (at, DType::Bool));
        let mut out = [false; 3];
        numbers_into(&t, &mut out).expect("three of that type");
        assert_eq!(out, [true, false, true]);
        assert!(numbers_into(&t, &mut [false; 2]).is_err());
    }
}
