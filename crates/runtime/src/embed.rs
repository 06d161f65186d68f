//! What a program without Python needs besides a session: the ops, and tensors from numbers and back. No call here is unsafe.

use oneflow_base::{DType, Error, Result};
use oneflow_core::{Tensor, copy_to_host};
use std::sync::Once;

/// Makes kernels and ops known to this process. Loading a program does it too; further calls do nothing.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        oneflow_kernels::register_all();
        oneflow_ops::register();
    });
}

/// A number that tensors hold.
pub trait Number: Copy + Default + sealed::Sealed {
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
numbers!(f32, F32; f64, F64; u8, U8; i8, I8; i16, I16; i32, I32; i64, I64);

/// A tensor of these numbers, row-major, in the host's memory.
///
/// # Errors
/// ValueError: the sizes ask for another count of numbers.
pub fn tensor<T: Number>(numbers: &[T], sizes: &[i64]) -> Result<Tensor> {
    // SAFETY: `Number` is implemented for the Rust types of their dtypes alone.
    unsafe { Tensor::from_host(numbers, T::DTYPE, sizes) }
}

/// The numbers of a tensor, row-major, from whatever device.
///
/// # Errors
/// TypeError: the tensor holds another type.
pub fn numbers<T: Number>(t: &Tensor) -> Result<Vec<T>> {
    if t.dtype() != T::DTYPE {
        return Err(Error::type_(format!("numbers(): the tensor holds {}, {} was asked for", t.dtype(), T::DTYPE)));
    }
    let host = copy_to_host(t)?;
    let n = host.numel() as usize;
    let mut out = vec![T::default(); n];
    // SAFETY: a contiguous host tensor holds `numel` elements of its dtype, which is `T`'s, and `out` has room for them. Another
    // thread may write the tensor meanwhile only against the rules of whoever handed it out.
    unsafe { std::ptr::copy_nonoverlapping(host.data_ptr().cast::<T>(), out.as_mut_ptr(), n) };
    Ok(out)
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
            assert!(tensor(&[0f32; 6], sizes).is_err());
        }
    }
}
