//! Extremes: amax, amin, max, min (of all, along a dimension, of two tensors), argmax, argmin.

use super::*;
use crate::named::{amax, amin, argmax, max, max_dim, max_other, min_other};

/// A reduction to an extreme has no value for no elements.
fn not_empty(c: &Call<'_>, mask: u64) -> Result<()> {
    let x = c.t(amax::INPUT)?;
    if x.sizes().iter().enumerate().any(|(i, s)| *s == 0 && mask >> i & 1 == 1) || (x.numel() == 0 && mask == 0) {
        let text = format!(
            "{}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument. (shape {:?})",
            c.name(),
            x.sizes()
        );
        // torch's class where no dim was named.
        let whole = c.op.sig.arg_index("dim").is_none_or(|i| matches!(c.args[i], Arg::Ints([])));
        return Err(if whole { Error::runtime(text) } else { Error::index(text) });
    }
    Ok(())
}

/// Booleans have an extreme, but no torch program asks where.
fn not_bool(c: &Call<'_>) -> Result<()> {
    match c.t(argmax::INPUT)?.dtype() {
        DType::Bool => Err(Error::not_implemented(format!("{}(): does not support bool input", c.name()))),
        _ => Ok(()),
    }
}

/// The gradient of an extreme, shared by the elements equal to it.
fn shared(g: &Tensor, x: &Tensor, y: &Tensor, mask: u64, keepdim: bool) -> Result<Tensor> {
    let dims: SmallVec<[i64; 6]> = (0..x.ndim() as i64).filter(|i| mask >> i & 1 == 1).collect();
    let (g, y) = (unreduce(g, mask, keepdim)?, unreduce(y, mask, keepdim)?);
    let hit = x.eq(&y)?.to_copy_with(Some(x.dtype()), None)?;
    let n = if dims.is_empty() { hit.clone() } else { hit.sum(dims.as_slice(), true)? };
    hit.mul(&g.div(&n)?)
}

/// amax and amin.
const AMONG: OpDef = OpDef {
    infer: |c, outs| {
        let mask = dim_mask(c.name(), c.arg(amax::DIM), c.t(amax::INPUT)?.ndim())?;
        not_empty(c, mask)?;
        push(c, c.t(amax::INPUT)?.dtype(), mask, c.bool(amax::KEEPDIM), outs)
    },
    grad: Grad::Rule {
        save: &[Save::of(amax::INPUT, &[amax::INPUT]), Save::out(amax::RESULT, &[amax::INPUT])],
        fix: Fix::Broadcast,
        f: |c, out| {
            out.set(amax::INPUT, || {
                let x = c.x(amax::INPUT)?;
                let mask = dim_mask("amax", c.arg(amax::DIM), x.ndim())?;
                shared(c.g()?, x, c.y(amax::RESULT)?, mask, c.arg(amax::KEEPDIM).bool())
            })
        },
    },
    ..super::REDUCE
};

fn lower_among(c: &Call<'_>, outs: &Outs, l: &mut Lowered, kind: ReduceKind) -> Result<()> {
    let mask = dim_mask(c.name(), c.arg(amax::DIM), c.t(amax::INPUT)?.ndim())?;
    lower(c, outs, l, kind, mask)
}

/// max and min of all elements.
const WHOLE: OpDef = OpDef {
    faces: Faces::FN_METHOD_OUT,
    infer: |c, outs| {
        let mask = dim_mask(c.name(), Arg::None, c.t(max::INPUT)?.ndim())?;
        not_empty(c, mask)?;
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

fn whole(c: &Call<'_>, outs: &mut Outs, of: fn(&Tensor) -> Result<Tensor>) -> Result<()> {
    not_empty(c, dim_mask(c.name(), Arg::None, c.t(amax::INPUT)?.ndim())?)?;
    give(outs, of(c.t(amax::INPUT)?)?)
}

/// max and min along a dimension, with their places.
const ALONG: OpDef = OpDef {
    infer: |c, outs| {
        let x = c.t(max_dim::INPUT)?;
        let mask = dim_mask(c.name(), c.arg(max_dim::DIM), x.ndim())?;
        not_empty(c, mask)?;
        push(c, x.dtype(), mask, c.bool(max_dim::KEEPDIM), outs)?;
        push(c, DType::I64, mask, c.bool(max_dim::KEEPDIM), outs)
    },
    grad: Grad::Rule {
        save: &[Save::out(max_dim::INDICES, &[max_dim::INPUT])],
        fix: Fix::None,
        f: |c, out| out.set(max_dim::INPUT, || scatter_back(c, c.y(max_dim::INDICES)?)),
    },
    sbp: SbpRule::of(Rows::Custom(along_dim_rows)),
    samples: arg_samples,
    ..super::REDUCE
};

/// max and min of two tensors.
const OTHER: OpDef =
    OpDef { samples: || vec![Sample::new(vec![SampleArg::f32(&[3, 4]), SampleArg::f32(&[4])])], ..COMPOSED };

/// argmax and argmin.
const PLACE: OpDef = OpDef {
    infer: |c, outs| {
        let x = c.t(argmax::INPUT)?;
        not_bool(c)?;
        let mask = dim_mask(c.name(), c.arg(argmax::DIM), x.ndim())?;
        not_empty(c, mask)?;
        push(c, DType::I64, mask, c.bool(argmax::KEEPDIM), outs)
    },
    sbp: SbpRule::of(Rows::Custom(along_dim_rows)),
    samples: arg_samples,
    ..super::REDUCE
};

fn lower_place(c: &Call<'_>, outs: &Outs, l: &mut Lowered, is_max: bool) -> Result<()> {
    if c.arg(argmax::DIM).is_none() && (c.t(argmax::INPUT)?.ndim() != 1 || c.bool(argmax::KEEPDIM)) {
        return Err(Error::not_implemented(format!("{} of all elements: flattened by its composition", c.name())));
    }
    lower_arg(c, outs, l, is_max, false)
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

pub static AMAX: OpDef = OpDef {
    sig: Sig::parse("amax(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor"),
    doc: "The greatest element over the given dimension(s); NaN where one is NaN. Equal elements share the gradient.

Example::

    >>> oneflow.amax(oneflow.tensor([[1., 4.], [3., 2.]]), 1)
    tensor([4., 3.])",
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| lower_among(c, outs, l, ReduceKind::Max),
    },
    sbp: SbpRule::of(Rows::Reduce { partial: Some(PKind::Max), dims: amax::DIM.any(), keepdim: amax::KEEPDIM }),
    traits: Traits::EXACT_OUT,
    ..AMONG
};

pub static MAX: OpDef = OpDef {
    sig: Sig::parse("max(Tensor input) -> Tensor"),
    doc: "The greatest element.

Example::

    >>> oneflow.max(oneflow.tensor([1., 4.]))
    tensor(4.)",
    compose: Some(|c, outs| whole(c, outs, |x| x.amax(&[], false))),
    ..WHOLE
};

pub static MAX_DIM: OpDef = OpDef {
    sig: Sig::parse("max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    doc: "The greatest elements along a dimension, and where they are.

Example::

    >>> oneflow.max(oneflow.tensor([[1., 4.], [3., 2.]]), 1).indices
    tensor([1, 0])",
    kernel: Kernel::Prim { prim: &ARG_REDUCE, lower: |c, outs, l| lower_arg(c, outs, l, true, true) },
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

pub static ARGMAX: OpDef = OpDef {
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

pub static AMIN: OpDef = OpDef {
    sig: Sig::parse("amin(Tensor input, int[1] dim=[], bool keepdim=False) -> Tensor"),
    doc: "The smallest element over the given dimension(s); NaN where one is NaN. Equal elements share the gradient.

Example::

    >>> oneflow.amin(oneflow.tensor([[1., 4.], [3., 2.]]), 1)
    tensor([1., 2.])",
    kernel: Kernel::Prim {
        prim: &oneflow_kernels_prim::REDUCE,
        lower: |c, outs, l| lower_among(c, outs, l, ReduceKind::Min),
    },
    sbp: SbpRule::of(Rows::Reduce { partial: Some(PKind::Min), dims: amin::DIM.any(), keepdim: amin::KEEPDIM }),
    traits: Traits::EXACT_OUT,
    ..AMONG
};

pub static MIN: OpDef = OpDef {
    sig: Sig::parse("min(Tensor input) -> Tensor"),
    doc: "The smallest element.

Example::

    >>> oneflow.min(oneflow.tensor([1., 4.]))
    tensor(1.)",
    compose: Some(|c, outs| whole(c, outs, |x| x.amin(&[], false))),
    ..WHOLE
};

pub static MIN_DIM: OpDef = OpDef {
    sig: Sig::parse("min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"),
    doc: "The smallest elements along a dimension, and where they are.

Example::

    >>> oneflow.min(oneflow.tensor([[1., 4.], [3., 2.]]), 1).indices
    tensor([0, 1])",
    kernel: Kernel::Prim { prim: &ARG_REDUCE, lower: |c, outs, l| lower_arg(c, outs, l, false, true) },
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

fn lower_arg(c: &Call<'_>, outs: &Outs, l: &mut Lowered, is_max: bool, values: bool) -> Result<()> {
    let x = c.t(max_dim::INPUT)?;
    let dim = wrap_dim(c.arg(max_dim::DIM).int().unwrap_or(0), x.ndim())?;
    let sizes = kept_sizes(x.sizes(), if x.ndim() == 0 { 0 } else { 1 << dim });
    let strides = contiguous_strides(&sizes);
    l.input(max_dim::INPUT);
    if values {
        l.output_as(max_dim::VALUES, sizes.clone(), strides.clone(), outs[max_dim::VALUES].offset());
        l.output_as(max_dim::INDICES, sizes, strides, outs[max_dim::INDICES].offset());
    } else {
        l.no_output().output_as(max_dim::VALUES, sizes, strides, outs[max_dim::VALUES].offset());
    }
    l.param(is_max).param(dim as i64);
    Ok(())
}

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

/// Every dim but the reduced one may be split.
fn along_dim_rows(c: &Call<'_>, rows: &mut Vec<Row>) -> Result<()> {
    let x = c.t(max_dim::INPUT)?;
    let Some(dim) = c.arg(max_dim::DIM).int() else { return Ok(()) };
    let (dim, keepdim) = (wrap_dim(dim, x.ndim())?, c.bool(max_dim::KEEPDIM));
    for i in (0..x.ndim()).filter(|i| *i != dim) {
        let to = Sbp::S((i - (!keepdim && i > dim) as usize) as u8);
        let n = c.op.sig.returns().len();
        rows.push(Row { ins: SmallVec::from_slice(&[Sbp::S(i as u8)]), outs: SmallVec::from_elem(to, n) });
    }
    Ok(())
}

fn arg_samples() -> Vec<Sample> {
    let t = |s: &[i64], d, k| Sample::new(vec![SampleArg::f32(s), SampleArg::Int(d), SampleArg::Bool(k)]);
    vec![t(&[3, 4], 1, false), t(&[2, 3, 4], 1, true), t(&[5], 0, false), t(&[], 0, false)]
}
