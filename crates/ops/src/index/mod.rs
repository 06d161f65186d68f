//! Ops that read and write elements by index. The rules they share.

pub mod argsort;
pub mod argwhere;
pub mod bincount;
pub mod bucketize;
pub mod gather;
pub mod histc;
#[allow(clippy::module_inception)]
pub mod index;
pub mod index_add;
pub mod index_copy;
pub mod index_fill;
pub mod index_put;
pub mod index_reduce;
pub mod index_select;
pub mod isin;
pub mod masked_scatter;
pub mod masked_select;
pub mod nonzero;
pub mod nonzero_static;
pub(crate) mod overlapped;
pub mod put;
pub mod repeat_interleave;
pub mod scatter;
pub mod scatter_reduce;
pub mod searchsorted;
pub mod sort;
pub mod take;
pub mod take_along_dim;
pub mod topk;
pub mod tril;
pub mod where_places;

use crate::prelude::*;
pub use crate::view::{give, give_all};

/// An op that is its composition: no kernel of its own, gradients and splits by its parts.
pub const COMPOSED: OpDef =
    OpDef { faces: Faces::FN_METHOD, grad: Grad::Compose, sbp: SbpRule::of(Rows::Compose), ..OpDef::BASE };

/// The elements of an int64 tensor, read on the host.
pub fn on_host(t: &Tensor) -> Result<Vec<i64>> {
    let host = copy_to_host(&t.contiguous()?)?;
    // SAFETY: a contiguous host copy of so many int64 elements.
    let values = unsafe { std::slice::from_raw_parts(host.data_ptr().cast::<i64>(), t.numel() as usize) };
    Ok(values.to_vec())
}

/// An index as int64.
pub fn wide(t: &Tensor) -> Result<Tensor> {
    if t.dtype() == DType::I64 { Ok(t.clone()) } else { t.to_copy_with(Some(DType::I64), None) }
}

/// Declines what does more than move elements of a limited dtype. Unsigned ones are added and multiplied as what carries them.
pub fn moves_only(dtype: DType, kind: ScatterKind) -> Result<()> {
    let right = match kind {
        ScatterKind::Set => true,
        ScatterKind::Add | ScatterKind::Mul => dtype.is_wide_unsigned(),
        ScatterKind::Max | ScatterKind::Min => false,
    };
    if !dtype.is_limited() || right {
        return Ok(());
    }
    Err(Error::not_implemented(format!("\"scatter\" not implemented for '{}'", dtype.scalar_type_name())))
}

/// The index of a composition. One that is int64 already has no other way to go.
pub fn cast_index(c: &Call<'_>, at: In) -> Result<Tensor> {
    if c.t(at)?.dtype() == DType::I64 {
        return Err(Error::not_implemented(format!("{}(): is not implemented for {}", c.name(), c.describe())));
    }
    wide(c.t(at)?)
}

/// Kernels read int64; other indices go through the composition, which casts.
pub fn only_wide(c: &Call<'_>, at: In) -> Result<()> {
    match c.t(at)?.dtype() {
        DType::I64 => Ok(()),
        d => Err(Error::not_implemented(format!("{}(): {d} indices are cast by the composition", c.name()))),
    }
}

/// Index tensors are int64 (or int32 where `i32_too`).
pub fn check_index(name: &str, t: &Tensor, i32_too: bool) -> Result<()> {
    if t.dtype() == DType::I64 || (i32_too && (t.dtype() == DType::I32 || t.numel() == 0)) {
        return Ok(());
    }
    Err(Error::runtime(format!("{name}(): Expected dtype int64 for index, but got {}", t.dtype())))
}
