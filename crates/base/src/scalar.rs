//! A number as it comes from the language above: it keeps its category.

use crate::{Category, DType};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
}

impl Scalar {
    #[inline]
    pub fn category(self) -> Category {
        match self {
            Scalar::Bool(_) => Category::Bool,
            Scalar::Int(_) => Category::Int,
            Scalar::Float(_) => Category::Float,
            Scalar::Complex(..) => Category::Complex,
        }
    }
    /// The value as f64 (the real part of a complex number).
    #[inline]
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as i64 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) | Scalar::Complex(f, _) => f,
        }
    }
    #[inline]
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::Float(f) | Scalar::Complex(f, _) => f as i64,
        }
    }
    /// Real and imaginary part.
    #[inline]
    pub fn parts(self) -> (f64, f64) {
        match self {
            Scalar::Complex(re, im) => (re, im),
            s => (s.to_f64(), 0.0),
        }
    }
    #[inline]
    pub fn conj(self) -> Scalar {
        match self {
            Scalar::Complex(re, im) => Scalar::Complex(re, -im),
            s => s,
        }
    }
    #[inline]
    pub fn is_one(self) -> bool {
        self.parts() == (1.0, 0.0)
    }
    /// The number less one, as a float.
    #[inline]
    pub fn minus_one(self) -> Scalar {
        match self {
            Scalar::Complex(re, im) => Scalar::Complex(re - 1.0, im),
            s => Scalar::Float(s.to_f64() - 1.0),
        }
    }
    /// The dtype of a tensor created from this number alone (`default` for floats).
    #[inline]
    pub fn natural_dtype(self, default: DType) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => default,
            Scalar::Complex(..) => match default {
                DType::F64 => DType::C128,
                DType::F16 => DType::C32,
                _ => DType::C64,
            },
        }
    }
}

impl From<f64> for Scalar {
    fn from(v: f64) -> Self {
        Scalar::Float(v)
    }
}
impl From<i64> for Scalar {
    fn from(v: i64) -> Self {
        Scalar::Int(v)
    }
}
impl From<bool> for Scalar {
    fn from(v: bool) -> Self {
        Scalar::Bool(v)
    }
}
