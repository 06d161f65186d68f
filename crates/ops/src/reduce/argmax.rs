//! `argmax`, `argmin`: Index of the greatest element along a dimension (of the flattened tensor without `dim`).

use super::*;
use crate::named::argmax;

/// Booleans have an extreme, but no torch program asks where.
fn not_bool(c: &Call<'_>) -> Result<()> {
    match c.t(argmax::INPUT)?.dtype() {
        DType::Bool => Err(Error::not_implemented(format!("{}(): does not support bool input", c.name()))),
        _ => Ok(()),
    }
}

/// argmax and argmin.
const PLACE: OpDef = OpDef {
    infer: |c, outs| {
        let x = c.t(argmax::INPUT)?;
        not_bool(c)?;
        let mask = dim_mask(c.name(), c.arg(argmax::DIM), x.ndim())?;
        super::extrema::not_empty(c, mask)?;
        push(c, DType::I64, mask, c.bool(argmax::KEEPDIM), outs)
    },
    sbp: SbpRule::of(Rows::Custom(super::extrema::along_dim_rows)),
    samples: super::extrema::arg_samples,
    ..super::REDUCE
};

fn lower_place(c: &Call<'_>, outs: &Outs, l: &mut Lowered, is_max: bool) -> Result<()> {
    if c.arg(argmax::DIM).is_none() && (c.t(argmax::INPUT)?.ndim() != 1 || c.bool(argmax::KEEPDIM)) {
        return Err(Error::not_implemented(format!("{} of all elements: flattened by its composition", c.name())));
    }
    super::extrema::lower_arg(c, outs, l, is_max, false)
}

fn place(c: &Call<'_>, outs: &mut Outs, is_max: bool) -> Result<()> {
    let (x, keep) = (c.t(argmax::INPUT)?, c.bool(argmax::KEEPDIM));
    if let Some(d) = c.arg(argmax::DIM).int() {
        let [_, indices] = if is_max { x.max_dim(d, keep)? } else { x.min_dim(d, keep)? };
        return give(outs, indices);
    }
    let flat = x.reshape(&[-1])?;
    let at = if is_max { flat.argmax(Some(0), false)? } else { flat.argmin(Some(0), false)? };
    let sizes: Dims = if keep { SmallVec::from_elem(1, x.ndim()) } else { Dims::new() };
    give(outs, at.reshape(&sizes)?)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor"),
    doc: "Index of the greatest element along a dimension (of the flattened tensor without `dim`).

Example::

    >>> oneflow.argmax(oneflow.tensor([1., 4., 2.]))
    tensor(1)",
    kernel: Kernel::Prim { prim: &ARG_REDUCE, lower: |c, outs, l| lower_place(c, outs, l, true) },
    compose: Some(|c, outs| place(c, outs, true)),
    traits: Traits::EXACT_OUT,
    ..PLACE
};

pub static ARGMIN: OpDef = OpDef {
    sig: Sig::parse("argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor"),
    doc: "Index of the smallest element along a dimension (of the flattened tensor without `dim`).

Example::

    >>> oneflow.argmin(oneflow.tensor([1., 4., 2.]))
    tensor(0)",
    kernel: Kernel::Prim { prim: &ARG_REDUCE, lower: |c, outs, l| lower_place(c, outs, l, false) },
    compose: Some(|c, outs| place(c, outs, false)),
    traits: Traits::EXACT_OUT,
    ..PLACE
};
