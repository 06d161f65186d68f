//! The way of a call on limited dtypes (`DType::is_limited`) through dtypes that kernels know: a composition for any op.
//!
//! Inputs are cast to a dtype that holds all of their numbers, the op runs on these, and its results are cast to the dtypes that its
//! own rule gives them. Which ops go this way for which dtypes stands in their definitions (`OpDef::limited`).

use crate::prelude::*;

/// Runs `c` in the wide dtypes.
pub fn widen(c: &Call<'_>, outs: &mut Outs) -> Result<()> {
    let mut shells = Outs::new();
    (c.op.infer)(c, &mut shells)?;
    let ordered = c.op.limited.is_order();
    if ordered && c.ins.iter().flatten().any(|t| t.dtype() == DType::U64) && has_numbers(c) {
        let text = format!("{}(): a number beside a tensor of uint64 is not supported; give it as a tensor", c.name());
        return Err(Error::not_implemented(text));
    }
    let wide: SmallVec<[Option<Tensor>; 4]> =
        c.ins.iter().map(|t| t.map(|t| to_wide(t, ordered)).transpose()).collect::<Result<_>>()?;
    let ins: SmallVec<[Option<&Tensor>; 4]> = wide.iter().map(Option::as_ref).collect();
    let args: SmallVec<[Arg<'_>; 8]> = c.args.iter().map(|a| a.dtype().map_or(*a, |d| Arg::DType(d.wide()))).collect();
    let mut found = Outs::new();
    oneflow_core::dispatch(&Call { ins: &ins, args: &args, dest: Dest::Fresh, ..*c }, &mut found)?;
    for (made, shell) in found.tensors().iter().zip(shells.tensors()) {
        outs.give(from_wide(made, shell.dtype(), ordered)?);
    }
    Ok(())
}

/// Whether the call holds numbers that are compared with elements.
fn has_numbers(c: &Call<'_>) -> bool {
    let mut args = c.args.iter();
    c.op.sig.params().iter().filter(|p| p.is_arg()).any(|p| {
        let given = args.next().and_then(|a| a.scalar()).is_some();
        matches!(p.ty, Ty::Scalar | Ty::TensorOrScalar) && given
    })
}

/// Elements of uint64 in the order of int64: the greatest bit says the other thing.
fn turned(t: &Tensor) -> Result<Tensor> {
    t.bitwise_xor(Scalar::Int(i64::MIN))
}

fn to_wide(t: &Tensor, ordered: bool) -> Result<Tensor> {
    if !t.dtype().is_limited() {
        return Ok(t.clone());
    }
    let wide = t.to_copy_with(Some(t.dtype().wide()), None)?;
    if ordered && t.dtype() == DType::U64 { turned(&wide) } else { Ok(wide) }
}

fn from_wide(t: &Tensor, dtype: DType, ordered: bool) -> Result<Tensor> {
    if t.dtype() == dtype {
        return Ok(t.clone());
    }
    if ordered && dtype == DType::U64 {
        turned(t)?.to_copy_with(Some(dtype), None)
    } else {
        t.to_copy_with(Some(dtype), None)
    }
}
