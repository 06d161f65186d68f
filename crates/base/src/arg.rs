//! One non-tensor argument of a call: `Copy`, borrowed, on the caller's stack.

use crate::{DType, Device, Error, NdSbpId, PlacementId, Result, Scalar, Sym};

/// One per non-tensor parameter, in signature order.
pub type Args<'a> = &'a [Arg<'a>];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg<'a> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
    DType(DType),
    Ints(&'a [i64]),
    Floats(&'a [f64]),
    /// Length of a `Tensor[]` or `Tensor?[]` parameter: its tensors lie flat among the inputs.
    Len(u32),
    /// An interned string ("mean", "tanh").
    Sym(Sym),
    Device(Device),
    Placement(PlacementId),
    Sbp(NdSbpId),
    /// A generator is resolved above autograd to its key and position: tape and recomputation replay it for free.
    Rng {
        seed: u64,
        offset: u64,
    },
    /// The same for a shard: the sizes of the whole tensor, then where the shard starts in it.
    RngAt {
        seed: u64,
        offset: u64,
        window: &'a [i64],
    },
}

impl<'a> Arg<'a> {
    #[inline]
    pub fn is_none(self) -> bool {
        matches!(self, Arg::None)
    }
    #[inline]
    pub fn scalar(self) -> Option<Scalar> {
        match self {
            Arg::Bool(b) => Some(Scalar::Bool(b)),
            Arg::Int(i) => Some(Scalar::Int(i)),
            Arg::Float(f) => Some(Scalar::Float(f)),
            Arg::Complex(r, i) => Some(Scalar::Complex(r, i)),
            _ => None,
        }
    }
    #[inline]
    pub fn bool(self) -> bool {
        matches!(self, Arg::Bool(true)) || matches!(self, Arg::Int(i) if i != 0)
    }
    #[inline]
    pub fn int(self) -> Option<i64> {
        match self {
            Arg::Int(i) => Some(i),
            Arg::Bool(b) => Some(b as i64),
            _ => None,
        }
    }
    #[inline]
    pub fn float(self) -> Option<f64> {
        self.scalar().map(Scalar::to_f64)
    }
    #[inline]
    pub fn ints(self) -> Option<&'a [i64]> {
        match self {
            Arg::Ints(v) => Some(v),
            _ => None,
        }
    }
    #[inline]
    pub fn dtype(self) -> Option<DType> {
        match self {
            Arg::DType(d) => Some(d),
            _ => None,
        }
    }
    #[inline]
    pub fn device(self) -> Option<Device> {
        match self {
            Arg::Device(d) => Some(d),
            _ => None,
        }
    }
    /// The text of a string argument.
    pub fn str(self) -> Option<&'static str> {
        match self {
            Arg::Sym(s) => Some(crate::sym_name(s)),
            _ => None,
        }
    }
    /// Of a random position: sizes of the whole tensor and starts of this shard; empty where the tensor is whole.
    #[inline]
    pub fn window(self) -> &'a [i64] {
        match self {
            Arg::RngAt { window, .. } => window,
            _ => &[],
        }
    }
    #[inline]
    pub fn rng(self) -> Result<(u64, u64)> {
        match self {
            Arg::Rng { seed, offset } | Arg::RngAt { seed, offset, .. } => Ok((seed, offset)),
            _ => Err(Error::runtime("a random op was called without a generator state")),
        }
    }
}

impl From<Scalar> for Arg<'_> {
    #[inline]
    fn from(s: Scalar) -> Self {
        match s {
            Scalar::Bool(b) => Arg::Bool(b),
            Scalar::Int(i) => Arg::Int(i),
            Scalar::Float(f) => Arg::Float(f),
            Scalar::Complex(r, i) => Arg::Complex(r, i),
        }
    }
}
