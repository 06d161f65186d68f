//! `stack`: Tensors of one shape along a new dimension.
//!
//! Before the last dimension the result lies in memory as that of `cat` along the dimension that follows, with this one split:
//! pictures that are stacked become contiguous whatever their own order.

use super::cat::joined_strides;
use super::view_strides;
use crate::named::stack;
use crate::prelude::*;

/// The tensors' common shape and the new dimension.
fn checked<'a>(c: &Call<'a>) -> Result<(&'a Tensor, usize)> {
    if c.ins.is_empty() {
        return Err(Error::runtime("stack expects a non-empty TensorList"));
    }
    let first = c.t(stack::TENSORS.first())?;
    let dim = wrap_dim(c.int(stack::DIM)?, first.ndim() + 1)?;
    if let Some((i, t)) = c.ins.iter().flatten().enumerate().find(|(_, t)| t.sizes() != first.sizes()) {
        return Err(Error::runtime(format!(
            "stack expects each tensor to be equal size, but got {:?} at entry 0 and {:?} at entry {i}",
            first.sizes(),
            t.sizes()
        )));
    }
    Ok((first, dim))
}

/// Sizes with the new dimension joined to the one after it, or alone at the end.
fn joined(first: &Tensor, dim: usize, n: i64) -> Dims {
    let mut sizes = Dims::from_slice(first.sizes());
    match sizes.get_mut(dim) {
        Some(size) => *size *= n,
        None => sizes.push(n),
    }
    sizes
}

/// The strides of a tensor as `cat` reads it.
fn read_as(t: &Tensor, dim: usize) -> (Dims, Dims) {
    let (mut sizes, mut strides) = (Dims::from_slice(t.sizes()), Dims::from_slice(t.strides()));
    if dim == t.ndim() {
        sizes.push(1);
        strides.push(1);
    }
    (sizes, strides)
}

pub static OP: OpDef = OpDef {
    sig: Sig::parse("stack(Tensor[] tensors, int dim=0) -> Tensor"),
    doc: "Tensors of one shape along a new dimension.

Example::

    >>> oneflow.stack([oneflow.tensor([1, 2]), oneflow.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])",
    faces: Faces::FN.or(Faces::OUT),
    infer: |c, outs| {
        let (first, dim) = checked(c)?;
        let mut dtype = first.dtype();
        for t in c.ins.iter().flatten() {
            dtype = oneflow_base::promote(dtype, t.dtype())?;
        }
        let n = c.ins.len() as i64;
        let joined = joined(first, dim, n);
        let mut strides = joined_strides(c.ins.iter().flatten().map(|t| read_as(t, dim)), &joined)?;
        let mut sizes = Dims::from_slice(first.sizes());
        sizes.insert(dim, n);
        if dim < first.ndim() {
            strides = view_strides(&joined, &strides, &sizes).unwrap_or_else(|| contiguous_strides(&sizes));
        }
        outs.push_strided(dtype, first.device(), sizes, strides)
    },
    kernel: Kernel::Prim {
        prim: &CONCAT,
        lower: |c, _, l| {
            let (_, dim) = checked(c)?;
            for (i, t) in c.ins.iter().flatten().enumerate() {
                let (mut sizes, mut strides) = (Dims::from_slice(t.sizes()), Dims::from_slice(t.strides()));
                sizes.insert(dim, 1);
                strides.insert(dim, 1);
                l.input_as(stack::TENSORS.nth(c.args, i), sizes, strides, t.offset());
            }
            l.output(stack::RESULT).with(DimParams { dim });
            Ok(())
        },
    },
    compose: Some(|c, outs| {
        let (_, dim) = checked(c)?;
        let parts = c.ins.iter().flatten().map(|t| t.unsqueeze(dim as i64)).collect::<Result<Vec<_>>>()?;
        outs.give(f::cat(&parts, dim as i64)?);
        Ok(())
    }),
    grad: Grad::Rule {
        save: &[],
        fix: Fix::Broadcast,
        f: |c, out| {
            let g = c.g()?;
            let dim = wrap_dim(c.arg(stack::DIM).int().unwrap_or(0), g.ndim())?;
            for (at, i) in stack::TENSORS.all(c.args).enumerate() {
                out.set(i, || g.select(dim as i64, at as i64))?;
            }
            Ok(())
        },
    },
    sbp: SbpRule::of(Rows::Compose),
    amp: Amp::WIDEST,
    samples: || {
        let t = |a: &[i64], d| {
            Sample::new(vec![SampleArg::List(vec![SampleArg::f32(a), SampleArg::f32(a)]), SampleArg::Int(d)])
        };
        vec![t(&[2, 3], 0), t(&[2, 3], -1), t(&[], 0)]
    },
    ..OpDef::BASE
};
