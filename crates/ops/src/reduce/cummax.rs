//! `cumulative_extreme`, `cummax`, `cummin`: The greatest element so far along a dimension, and where it is.

use super::prod::{lower_scan, not_axes};
use super::*;
use crate::named::{cummax, cumulative_extreme};

/// Values alone: one scan. With their places it is made of two.
pub static EXTREME: OpDef = OpDef {
    sig: Sig::parse("cumulative_extreme(Tensor input, int dim, bool largest) -> Tensor"),
    doc: "The greatest (smallest) element so far along a dimension; NaN from the first NaN on.",
    faces: Faces::PRIVATE,
    infer: |c, outs| {
        let x = c.t(cumulative_extreme::INPUT)?;
        wrap_dim(c.int(cumulative_extreme::DIM)?, x.ndim())?;
        outs.push(x.dtype(), x.device(), x.sizes())
    },
    kernel: Kernel::Prim {
        prim: &SCAN,
        lower: |c, outs, l| {
            lower_scan(c, outs, l, if c.bool(cumulative_extreme::LARGEST) { ReduceKind::Max } else { ReduceKind::Min })
        },
    },
    sbp: SbpRule::of(Rows::Batch { not_axes }),
    samples: || {
        let t = |s: &[i64], d, m| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::Bool(m)]);
        vec![t(&[3, 4], 1, true), t(&[3, 4], 0, false)]
    },
    ..OpDef::BASE
};

fn lower_places(c: &Call<'_>, l: &mut Lowered, is_max: bool) -> Result<()> {
    let dim = wrap_dim(c.int(cummax::DIM)?, c.t(cummax::INPUT)?.ndim())?;
    l.input(cummax::INPUT).output(cummax::VALUES).output(cummax::INDICES).with(RunningExtremeParams { is_max, dim });
    Ok(())
}

fn with_places(c: &Call<'_>, outs: &mut Outs, largest: bool) -> Result<()> {
    let x = c.t(cummax::INPUT)?;
    let d = wrap_dim(c.int(cummax::DIM)?, x.ndim())? as i64;
    if x.ndim() == 0 || x.numel() == 0 {
        return give_all(outs, [x.clone_contiguous()?, x.new_zeros_with(x.sizes(), Some(DType::I64), None, false)?]);
    }
    let values = x.cumulative_extreme(d, largest)?;
    // An element takes over where it equals the extreme so far; the last that did is the place.
    let mut takes = x.eq(&values)?;
    if x.dtype().is_float() {
        takes = takes.logical_or(&x.isnan()?)?;
    }
    let places = x.new_ones_with(x.sizes(), Some(DType::I64), None, false)?.cumsum(d)?.sub(1i64)?;
    let indices = takes.r#where(&places, 0i64)?.cumulative_extreme(d, true)?;
    give_all(outs, [values, indices])
}

const CUM: OpDef = OpDef {
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let x = c.t(cummax::INPUT)?;
        wrap_dim(c.int(cummax::DIM)?, x.ndim())?;
        if x.dtype().is_complex() {
            return Err(Error::not_implemented(format!(
                "\"{}_cpu\" not implemented for '{}'",
                c.name(),
                x.dtype().scalar_type_name()
            )));
        }
        outs.push(x.dtype(), x.device(), x.sizes())?;
        outs.push(DType::I64, x.device(), x.sizes())
    },
    grad: Grad::Rule {
        save: &[Save::out(cummax::INDICES, &[cummax::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(cummax::INPUT, || {
                let g = c.g()?;
                if g.ndim() == 0 {
                    return Ok(g.clone());
                }
                g.new_zeros(&c.in_meta(cummax::INPUT)?.sizes)?.scatter_add(
                    c.arg(cummax::DIM).int().unwrap_or(0),
                    c.y(cummax::INDICES)?,
                    g,
                )
            })
        },
    },
    samples: || {
        let t = |s: &[i64], d| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d)]);
        vec![t(&[3, 4], 1), t(&[3, 4], 0), t(&[5], 0), t(&[], 0), t(&[0, 3], 0)]
    },
    sbp: SbpRule::of(Rows::Batch { not_axes }),
    ..OpDef::BASE
};

pub static OP: OpDef = OpDef {
    sig: Sig::parse("cummax(Tensor input, int dim) -> (Tensor values, Tensor indices)"),
    doc: "The greatest element so far along a dimension, and where it is.

Example::

    >>> oneflow.cummax(oneflow.tensor([1., 3., 2.]), 0).values
    tensor([1., 3., 3.])",
    kernel: Kernel::Prim { prim: &RUNNING_EXTREME, lower: |c, _, l| lower_places(c, l, true) },
    compose: Some(|c, outs| with_places(c, outs, true)),
    traits: Traits::EXACT_OUT,
    ..CUM
};

pub static CUMMIN: OpDef = OpDef {
    sig: Sig::parse("cummin(Tensor input, int dim) -> (Tensor values, Tensor indices)"),
    doc: "The smallest element so far along a dimension, and where it is.

Example::

    >>> oneflow.cummin(oneflow.tensor([2., 3., 1.]), 0).values
    tensor([2., 2., 1.])",
    kernel: Kernel::Prim { prim: &RUNNING_EXTREME, lower: |c, _, l| lower_places(c, l, false) },
    compose: Some(|c, outs| with_places(c, outs, false)),
    traits: Traits::EXACT_OUT,
    ..CUM
};
