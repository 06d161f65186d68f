//! The Rust types of elements in memory, and the one switch from a dtype to its type.

use crate::{DType, Error};

/// A bool in memory: any byte, of which zero is false.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);

impl Bool {
    #[inline(always)]
    pub fn is_true(self) -> bool {
        self.0 != 0
    }
}

impl PartialEq for Bool {
    #[inline(always)]
    fn eq(&self, other: &Bool) -> bool {
        self.is_true() == other.is_true()
    }
}

impl Eq for Bool {}

/// Evaluates an expression with a name for the type of a dtype's elements, which must be of a group; other dtypes take
/// the last arm. The groups are `floats` and `reals`: floats, integers and `Bool`, without limited dtypes.
///
/// ```
/// use oneflow_base::{DType, by_dtype};
/// let size = |d: DType| by_dtype!(d, floats, T => Some(size_of::<T>()), _ => None);
/// assert_eq!((size(DType::BF16), size(DType::I64)), (Some(2), None));
/// ```
#[macro_export]
macro_rules! by_dtype {
    ($dtype:expr, floats, $T:ident => $body:expr, $other:pat => $rest:expr $(,)?) => {
        $crate::by_dtype!(@one of $dtype, $T, $body, $other, $rest, {
            F32: f32, F64: f64, BF16: $crate::bf16, F16: $crate::f16
        })
    };
    ($dtype:expr, reals, $T:ident => $body:expr, $other:pat => $rest:expr $(,)?) => {
        $crate::by_dtype!(@one of $dtype, $T, $body, $other, $rest, {
            Bool: $crate::Bool, U8: u8, I8: i8, I16: i16, I32: i32, I64: i64,
            F32: f32, F64: f64, BF16: $crate::bf16, F16: $crate::f16
        })
    };
    (@one of $dtype:expr, $T:ident, $body:expr, $other:pat, $rest:expr, { $($D:ident: $t:ty),* }) => {
        match $dtype {
            $($crate::DType::$D => {
                type $T = $t;
                $body
            })*
            $other => $rest,
        }
    };
}

/// As `by_dtype!` for the floats, where an operation refuses all other dtypes: `by_float!("softmax", dtype, T => ...)`.
#[macro_export]
macro_rules! by_float {
    ($operation:expr, $dtype:expr, $T:ident => $body:expr) => {
        $crate::by_dtype!($dtype, floats, $T => $body, other => Err($crate::no_kernel_for($operation, other)))
    };
}

/// torch's text for an operation that has no kernel for a dtype.
#[cold]
pub fn no_kernel_for(operation: &str, dtype: DType) -> Error {
    Error::not_implemented(format!("\"{operation}\" not implemented for '{}'", dtype.scalar_type_name()))
}
