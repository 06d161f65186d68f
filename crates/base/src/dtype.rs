//! Element types and torch's promotion rules between them.

use crate::{Error, Result};
use std::fmt;

/// The element type of a tensor. Programs and messages keep the numbers, so new dtypes come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    Bool = 0,
    U8,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    // From here on the dtypes of `is_limited`.
    U16,
    U32,
    U64,
    F8E4M3FN,
    F8E5M2,
    F8E4M3FNUZ,
    F8E5M2FNUZ,
    F8E8M0FNU,
    C32,
}

/// The first criterion of promotion: a higher category always wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    Bool,
    Int,
    Float,
    Complex,
}

const N: usize = 21;

impl DType {
    pub const ALL: [DType; N] = {
        use DType::*;
        [
            Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128, U16, U32, U64, F8E4M3FN, F8E5M2, F8E4M3FNUZ,
            F8E5M2FNUZ, F8E8M0FNU, C32,
        ]
    };

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        const SIZES: [u8; N] = [1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8, 1, 1, 1, 1, 1, 4];
        SIZES[self as usize] as usize
    }

    /// The bytes that an element's address is a multiple of: those of one part, for complex numbers.
    #[inline]
    pub const fn align(self) -> usize {
        match self {
            DType::C32 | DType::C64 | DType::C128 => self.size() / 2,
            _ => self.size(),
        }
    }

    /// The public name, as in `oneflow.float32`.
    pub const fn name(self) -> &'static str {
        const NAMES: [&str; N] = [
            "bool",
            "uint8",
            "int8",
            "int16",
            "int32",
            "int64",
            "float16",
            "bfloat16",
            "float32",
            "float64",
            "complex64",
            "complex128",
            "uint16",
            "uint32",
            "uint64",
            "float8_e4m3fn",
            "float8_e5m2",
            "float8_e4m3fnuz",
            "float8_e5m2fnuz",
            "float8_e8m0fnu",
            "complex32",
        ];
        NAMES[self as usize]
    }

    /// The C++-style name torch's messages use ("Float", "Long").
    pub const fn scalar_type_name(self) -> &'static str {
        const NAMES: [&str; N] = [
            "Bool",
            "Byte",
            "Char",
            "Short",
            "Int",
            "Long",
            "Half",
            "BFloat16",
            "Float",
            "Double",
            "ComplexFloat",
            "ComplexDouble",
            "UInt16",
            "UInt32",
            "UInt64",
            "Float8_e4m3fn",
            "Float8_e5m2",
            "Float8_e4m3fnuz",
            "Float8_e5m2fnuz",
            "Float8_e8m0fnu",
            "ComplexHalf",
        ];
        NAMES[self as usize]
    }

    pub fn from_name(name: &str) -> Option<DType> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    #[inline]
    pub fn from_u8(v: u8) -> Option<DType> {
        Self::ALL.get(v as usize).copied()
    }

    /// Returns true if only copies and fills support the dtype: its elements are stored, moved as bytes (`carrier`)
    /// and cast, and what computes with them does so in another dtype (`wide`).
    #[inline]
    pub const fn is_limited(self) -> bool {
        self as u8 > DType::C128 as u8
    }

    /// A dtype of the same size that every kernel supports: kernels that move elements move them as these.
    #[inline]
    pub const fn carrier(self) -> DType {
        match (self.is_limited(), self.size()) {
            (false, _) => self,
            (_, 1) => DType::U8,
            (_, 2) => DType::I16,
            (_, 4) => DType::I32,
            (_, _) => DType::I64,
        }
    }

    /// The dtype that every kernel supports and that holds all numbers of this one; of `U64` the bits, modulo 2^64.
    #[inline]
    pub const fn wide(self) -> DType {
        match self {
            DType::U16 => DType::I32,
            DType::U32 | DType::U64 => DType::I64,
            DType::C32 => DType::C64,
            d if d.is_float8() => DType::F32,
            d => d,
        }
    }

    #[inline]
    pub const fn category(self) -> Category {
        use DType::*;
        match self {
            Bool => Category::Bool,
            U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64 => Category::Int,
            F16 | BF16 | F32 | F64 | F8E4M3FN | F8E5M2 | F8E4M3FNUZ | F8E5M2FNUZ | F8E8M0FNU => Category::Float,
            C64 | C128 | C32 => Category::Complex,
        }
    }

    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.category(), Category::Float)
    }
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self.category(), Category::Complex)
    }
    /// Integers, without bool.
    #[inline]
    pub const fn is_int(self) -> bool {
        matches!(self.category(), Category::Int)
    }
    /// Integers without a sign of 16 bits and more.
    #[inline]
    pub const fn is_wide_unsigned(self) -> bool {
        matches!(self, DType::U16 | DType::U32 | DType::U64)
    }
    #[inline]
    pub const fn is_float8(self) -> bool {
        use DType::*;
        matches!(self, F8E4M3FN | F8E5M2 | F8E4M3FNUZ | F8E5M2FNUZ | F8E8M0FNU)
    }
    /// Only floating and complex tensors can require a gradient.
    #[inline]
    pub const fn is_differentiable(self) -> bool {
        matches!(self.category(), Category::Float | Category::Complex)
    }
    /// The dtype of a complex number's parts; a real dtype itself.
    #[inline]
    pub const fn to_real(self) -> DType {
        match self {
            DType::C32 => DType::F16,
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            d => d,
        }
    }
    /// The complex dtype with parts of this one that kernels compute in; of half types the smallest there is.
    #[inline]
    pub const fn to_complex(self) -> DType {
        match self {
            DType::F64 | DType::C128 => DType::C128,
            DType::C32 => DType::C32,
            _ => DType::C64,
        }
    }
    /// The dtype in which a kernel computes: half types in `F32`, small integers in `I64`.
    #[inline]
    pub const fn compute(self) -> DType {
        match self {
            DType::F16 | DType::BF16 | DType::F32 => DType::F32,
            DType::F64 => DType::F64,
            DType::C64 | DType::C128 => self,
            DType::C32 => DType::C64,
            d if d.is_float8() => DType::F32,
            _ => DType::I64,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The common dtype of two tensors of equal rank class (torch's `promote_types`). There is none of a float8 type and another
/// dtype, nor of unsigned integers of 16 bits and more and another integer or complex dtype.
#[inline]
pub fn promote(a: DType, b: DType) -> Result<DType> {
    use DType::*;
    if a as u8 == b as u8 {
        return Ok(a);
    }
    // Order so that `a` is the smaller number: halves the table.
    let (x, y) = if (a as u8) < (b as u8) { (a, b) } else { (b, a) };
    Ok(match (x, y) {
        (_, y) if y.is_limited() => return promote_limited(a, b),
        (Bool, y) => y,
        (U8, I8) => I16,
        (U8 | I8 | I16 | I32 | I64, y) => y,
        (F16, BF16) => F32,
        (F64, C64) => C128,
        (F16 | BF16 | F32 | F64, y) => y,
        (_, y) => y,
    })
}

#[cold]
fn promote_limited(a: DType, b: DType) -> Result<DType> {
    use DType::*;
    let refused = |what: &str| {
        let (a, b) = (a.scalar_type_name(), b.scalar_type_name());
        Err(Error::runtime(format!("Promotion for {what} is not supported, attempted to promote {a} and {b}")))
    };
    if a.is_float8() || b.is_float8() {
        return refused("Float8 Types");
    }
    match (a, b) {
        (x, y) | (y, x) if x.is_wide_unsigned() && matches!(y, F16 | BF16 | F32 | F64) => Ok(y),
        (x, _) | (_, x) if x.is_wide_unsigned() => refused("uint16, uint32, uint64 types"),
        (C32, other) | (other, C32) => Ok(match other {
            F32 | BF16 | C64 => C64,
            F64 | C128 => C128,
            _ => C32,
        }),
        _ => refused("these types"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_commutative_and_idempotent() {
        for a in DType::ALL {
            assert_eq!(promote(a, a).ok(), Some(a));
            for b in DType::ALL {
                assert_eq!(promote(a, b).ok(), promote(b, a).ok());
            }
        }
        let is = |a, b, c| assert_eq!(promote(a, b).ok(), c);
        is(DType::U8, DType::I8, Some(DType::I16));
        is(DType::I64, DType::F16, Some(DType::F16));
        is(DType::F16, DType::BF16, Some(DType::F32));
        is(DType::F64, DType::C64, Some(DType::C128));
        is(DType::U16, DType::BF16, Some(DType::BF16));
        is(DType::C32, DType::F16, Some(DType::C32));
        is(DType::U16, DType::I64, None);
        is(DType::F8E5M2, DType::F32, None);
    }

    #[test]
    fn numbers_and_names_lead_back() {
        for (i, d) in DType::ALL.into_iter().enumerate() {
            assert_eq!((d as usize, DType::from_u8(i as u8), DType::from_name(d.name())), (i, Some(d), Some(d)));
            assert_eq!((d.carrier().size(), d.carrier().is_limited(), d.wide().is_limited()), (d.size(), false, false));
            assert_eq!(d.is_limited(), d.carrier() != d);
        }
    }
}
