//! `max`, `min`: The greatest element.

use super::*;
use crate::named::{max, max_dim, max_other, min_other};

/// max and min of all elements.
const WHOLE: OpDef = OpDef {
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let mask = dim_mask(c.name(), Arg::None, c.t(max::INPUT)?.ndim())?;
        super::extrema::not_empty(c, mask)?;
        push(c, c.t(max::INPUT)?.dtype(), mask, false, outs)
    },
    // Equal elements share the gradient; of a NaN all NaN do.
    grad: Grad::Rule {
        save: &[Save::of(max::INPUT, &[max::INPUT]), Save::out(max::RESULT, &[max::INPUT])],
        fix: Fix::None,
        f: |c, out| {
            out.set(max::INPUT, || {
                let (x, y) = (c.x(max::INPUT)?, c.y(max::RESULT)?);
                let it = x.eq(y)?.logical_or(&x.ne(x)?.logical_and(&y.ne(y)?)?)?;
                it.r#where(&c.g()?.div(&it.sum(None, false)?)?, 0.0)
            })
        },
    },
    samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4])]), Sample::new(vec![SampleArg::f32(&[])])],
    ..COMPOSED
};

/// max and min along a dimension, with their places.
const ALONG: OpDef = OpDef {
    infer: |c, outs| {
        let x = c.t(max_dim::INPUT)?;
        let mask = dim_mask(c.name(), c.arg(max_dim::DIM), x.ndim())?;
        super::extrema::not_empty(c, mask)?;
        push(c, x.dtype(), mask, c.bool(max_dim::KEEPDIM), outs)?;
        push(c, DType::I64, mask, c.bool(max_dim::KEEPDIM), outs)
    },
    grad: Grad::Rule {
        save: &[Save::out(max_dim::INDICES, &[max_dim::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(max_dim::INPUT, || scatter_back(c, c.y(max_dim::INDICES)?)),
    },
    sbp: SbpRule::of(Rows::Custom(super::extrema::along_dim_rows)),
    samples: super::extrema::arg_samples,
    traits: Traits::EXACT_OUT,
    ..super::REDUCE
};

/// max and min of two tensors.
const OTHER: OpDef =
    OpDef { samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[4])])], ..COMPOSED };

pub static OP: OpDef = OpDef {
    sig: Sig::parse("max(Tensor input) -> Tensor"),
    doc: "The greatest element.

Example::

    >>> oneflow.max(oneflow.tensor([1., 4.]))
    tensor(4.)",
    compose: Some(|c, outs| super::extrema::whole(c, outs, |x| x.amax(&[], false))),
    ..WHOLE
};

pub static MAX_DIM: OpDef = OpDef {
    sig: Sig::parse("max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    doc: "The greatest elements along a dimension, and where they are.

Example::

    >>> oneflow.max(oneflow.tensor([[1., 4.], [3., 2.]]), 1).indices
    tensor([1, 0])",
    kernel: Kernel::Prim { prim: &ARG_REDUCE, lower: |c, outs, l| super::extrema::lower_arg(c, outs, l, true, true) },
    ..ALONG
};

pub static MAX_OTHER: OpDef = OpDef {
    sig: Sig::parse("max.other(Tensor input, Tensor other) -> Tensor"),
    doc: "The greater of both operands, elementwise: `maximum`.

Example::

    >>> oneflow.max(oneflow.tensor([1., 4.]), oneflow.tensor([3., 2.]))
    tensor([3., 4.])",
    compose: Some(|c, outs| give(outs, c.t(max_other::INPUT)?.maximum(c.t(max_other::OTHER)?)?)),
    ..OTHER
};

pub static MIN: OpDef = OpDef {
    sig: Sig::parse("min(Tensor input) -> Tensor"),
    doc: "The smallest element.

Example::

    >>> oneflow.min(oneflow.tensor([1., 4.]))
    tensor(1.)",
    compose: Some(|c, outs| super::extrema::whole(c, outs, |x| x.amin(&[], false))),
    ..WHOLE
};

pub static MIN_DIM: OpDef = OpDef {
    sig: Sig::parse("min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    doc: "The smallest elements along a dimension, and where they are.

Example::

    >>> oneflow.min(oneflow.tensor([[1., 4.], [3., 2.]]), 1).indices
    tensor([0, 1])",
    kernel: Kernel::Prim { prim: &ARG_REDUCE, lower: |c, outs, l| super::extrema::lower_arg(c, outs, l, false, true) },
    ..ALONG
};

pub static MIN_OTHER: OpDef = OpDef {
    sig: Sig::parse("min.other(Tensor input, Tensor other) -> Tensor"),
    doc: "The smaller of both operands, elementwise: `minimum`.

Example::

    >>> oneflow.min(oneflow.tensor([1., 4.]), oneflow.tensor([3., 2.]))
    tensor([1., 2.])",
    compose: Some(|c, outs| give(outs, c.t(min_other::INPUT)?.minimum(c.t(min_other::OTHER)?)?)),
    ..OTHER
};

/// The gradient of the chosen elements, put back where they came from.
pub(crate) fn scatter_back(c: &GradCall<'_>, indices: &Tensor) -> Result<Tensor> {
    let m = c.in_meta(max_dim::INPUT)?;
    let dim = wrap_dim(c.arg(max_dim::DIM).int().unwrap_or(0), m.sizes.len())?;
    if m.sizes.is_empty() {
        return Ok(c.g()?.clone());
    }
    let keepdim = c.arg(max_dim::KEEPDIM).bool();
    let mask = if keepdim { 0 } else { 1 << dim };
    let (g, i) = (unsqueeze_all(c.g()?, mask)?, unsqueeze_all(indices, mask)?);
    g.new_zeros(&m.sizes)?.scatter_add(dim as i64, &i, &g)
}
