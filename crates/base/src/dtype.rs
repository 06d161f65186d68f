//! Element types and torch's promotion rules between them.

use std::fmt;

/// The element type of a tensor.
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
}

/// What promotion compares first: a higher category always wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    Bool,
    Int,
    Float,
    Complex,
}

impl DType {
    pub const ALL: [DType; 12] = {
        use DType::*;
        [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128]
    };

    /// Bytes of one element.
    #[inline]
    pub const fn size(self) -> usize {
        const SIZES: [u8; 12] = [1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16];
        SIZES[self as usize] as usize
    }

    /// The public name, as in `oneflow.float32`.
    pub const fn name(self) -> &'static str {
        const NAMES: [&str; 12] = [
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
        ];
        NAMES[self as usize]
    }

    /// The C++-style name torch's messages use ("Float", "Long").
    pub const fn scalar_type_name(self) -> &'static str {
        const NAMES: [&str; 12] = [
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

    #[inline]
    pub const fn category(self) -> Category {
        match self {
            DType::Bool => Category::Bool,
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => Category::Int,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Category::Float,
            DType::C64 | DType::C128 => Category::Complex,
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
    /// Only floating and complex tensors can require a gradient.
    #[inline]
    pub const fn is_differentiable(self) -> bool {
        matches!(self.category(), Category::Float | Category::Complex)
    }
    /// The dtype of a complex number's parts; a real dtype itself.
    #[inline]
    pub const fn to_real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            d => d,
        }
    }
    /// The complex dtype with parts of this one; of half types the smallest there is.
    #[inline]
    pub const fn to_complex(self) -> DType {
        match self {
            DType::F64 | DType::C128 => DType::C128,
            _ => DType::C64,
        }
    }
    /// What a kernel computes in: half types in `F32`, small integers in `I64`.
    #[inline]
    pub const fn compute(self) -> DType {
        match self {
            DType::F16 | DType::BF16 | DType::F32 => DType::F32,
            DType::F64 => DType::F64,
            DType::C64 | DType::C128 => self,
            _ => DType::I64,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The common dtype of two tensors of equal rank class (torch's `promote_types`).
pub const fn promote(a: DType, b: DType) -> DType {
    use DType::*;
    if a as u8 == b as u8 {
        return a;
    }
    // Order so that `a` is the smaller number: halves the table.
    let (a, b) = if (a as u8) < (b as u8) { (a, b) } else { (b, a) };
    match (a, b) {
        (Bool, x) => x,
        (U8, I8) => I16,
        (U8 | I8 | I16 | I32 | I64, x) => x,
        (F16, BF16) => F32,
        (F64, C64) => C128,
        (F16 | BF16 | F32 | F64, x) => x,
        (_, x) => x,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_commutative_and_idempotent() {
        for a in DType::ALL {
            assert_eq!(promote(a, a), a);
            for b in DType::ALL {
                assert_eq!(promote(a, b), promote(b, a));
            }
        }
        assert_eq!(promote(DType::U8, DType::I8), DType::I16);
        assert_eq!(promote(DType::I64, DType::F16), DType::F16);
        assert_eq!(promote(DType::F16, DType::BF16), DType::F32);
        assert_eq!(promote(DType::F64, DType::C64), DType::C128);
    }
}
