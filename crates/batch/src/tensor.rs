//! The batched tensor: construction, unwrapping, and gradients across its border.

use crate::levels::is_active;
use oneflow_autograd::{Edge, custom_edge, custom_node};
use oneflow_base::{Dims, Error, Result};
use oneflow_core::{Ext, Tensor, bit};
use oneflow_ops::TensorOps;
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// The tensors of all samples: along dimension 0 of `value`, which may itself be batched, by an older batch.
pub(crate) struct Batched {
    pub value: Tensor,
    pub level: u64,
    /// What the batch was made of, which views of a sample are views of once the batch has ended.
    pub of: Option<Tensor>,
}

impl Ext for Batched {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn version(&self) -> u32 {
        self.value.version()
    }
    fn bump_version(&self) {
        self.value.bump_version();
    }
}

pub(crate) fn parts(t: &Tensor) -> Option<&Batched> {
    t.ext::<Batched>()
}

/// The depth of nested batches, and the tensor that holds all samples of the innermost one; for display.
pub fn shown(t: &Tensor) -> Option<(usize, &Tensor)> {
    parts(t).map(|b| (shown(&b.value).map_or(0, |(depth, _)| depth) + 1, &b.value))
}

/// The batch of a tensor, 0 for none.
pub(crate) fn level(t: &Tensor) -> u64 {
    parts(t).map_or(0, |b| b.level)
}

/// Returns true if the tensor is a sample of this batch.
pub fn is_in(t: &Tensor, id: u64) -> bool {
    parts(t).is_some_and(|b| b.level == id || b.level > id && is_in(&b.value, id))
}

/// A sample's tensor over the tensor of all samples, whose history stays behind.
pub(crate) fn wrap(value: &Tensor, level: u64) -> Result<Tensor> {
    wrap_of(value, level, None)
}

fn wrap_of(value: &Tensor, level: u64, of: Option<&Tensor>) -> Result<Tensor> {
    let (Some((_, sizes)), Some((_, strides))) = (value.sizes().split_first(), value.strides().split_first()) else {
        return Err(Error::runtime("a tensor of no dimension holds no batch"));
    };
    let t = Tensor::shell(value.dtype(), value.device(), Dims::from_slice(sizes), Dims::from_slice(strides))?;
    t.set_shell_offset(value.offset());
    let value = if value.has_key(bit::AUTOGRAD) { value.shallow() } else { value.clone() };
    // SAFETY: the tensor was made here and is not shared yet.
    unsafe { t.set_ext(Arc::new(Batched { value, level, of: of.cloned() }), bit::BATCH) };
    Ok(t)
}

/// Dimension 0 becomes the batch `id`. Newer batches stay outside of older ones.
fn raw_in(t: &Tensor, id: u64, of: Option<&Tensor>) -> Result<Tensor> {
    match parts(t) {
        Some(b) if b.level > id => wrap(&raw_in(&b.value.transpose(0, 1)?, id, None)?, b.level),
        _ => wrap_of(t, id, of),
    }
}

/// The batch `id` of `size` samples becomes dimension 0.
fn raw_out(t: &Tensor, id: u64, size: i64) -> Result<Tensor> {
    match parts(t) {
        Some(b) if b.level == id => Ok(b.value.shallow()),
        Some(b) if b.level > id => wrap(&raw_out(&b.value, id, size)?.transpose(0, 1)?, b.level),
        _ => broadcast(t, size),
    }
}

/// The same tensor for every sample.
pub(crate) fn broadcast(t: &Tensor, size: i64) -> Result<Tensor> {
    let sizes: SmallVec<[i64; 6]> = std::iter::once(size).chain(t.sizes().iter().copied()).collect();
    t.expand(&sizes)
}

/// The tensor of a sample, of those that lie along `dim`; differentiable.
pub fn batch_in(t: &Tensor, dim: i64, id: u64) -> Result<Tensor> {
    let moved = if dim == 0 { t.clone() } else { t.movedim(&[dim], &[0])? };
    let size = moved.sizes().first().copied().unwrap_or(0);
    let out = raw_in(&moved.shallow(), id, Some(t))?;
    let backward = move |g: &[Option<Tensor>]| match g {
        [Some(g)] => Ok(vec![Some(batch_out(g, id, size)?)]),
        _ => Ok(vec![None]),
    };
    custom_node(
        "BatchBackward0",
        &[Some(&moved)],
        std::slice::from_ref(&out),
        &[],
        Box::new(backward),
        Box::new(|| ()),
        None,
    )?;
    Ok(out)
}

/// The tensors of all samples, along dimension 0; differentiable.
pub fn batch_out(t: &Tensor, id: u64, size: i64) -> Result<Tensor> {
    if !is_in(t, id) {
        return broadcast(t, size);
    }
    let out = raw_out(&t.shallow(), id, size)?;
    let given = parts(t).filter(|b| b.level == id).and(t.base()).and_then(parts);
    if let Some(of) = given.and_then(|b| b.of.as_ref())
        && !of.is_inference()
        && of.dtype() == out.dtype()
        && share_memory(of, &out)
    {
        out.set_base(of);
    }
    let backward = move |g: &[Option<Tensor>]| match g {
        [Some(g)] => Ok(vec![Some(batch_in(g, 0, id)?)]),
        _ => Ok(vec![None]),
    };
    custom_node(
        "UnbatchBackward0",
        &[Some(t)],
        std::slice::from_ref(&out),
        &[],
        Box::new(backward),
        Box::new(|| ()),
        None,
    )?;
    Ok(out)
}

/// Returns true if both lie in one storage, under whatever batches.
fn share_memory(a: &Tensor, b: &Tensor) -> bool {
    let a = parts(a).map_or(a, |of| &of.value);
    let b = parts(b).map_or(b, |of| &of.value);
    match (a.storage(), b.storage()) {
        (Some(x), Some(y)) => x.same(y),
        _ => (parts(a).is_some() || parts(b).is_some()) && share_memory(a, b),
    }
}

fn levels(t: &Tensor, into: &mut SmallVec<[u64; 2]>) {
    if let Some(b) = parts(t) {
        if !into.contains(&b.level) {
            into.push(b.level);
        }
        levels(&b.value, into);
    }
}

/// The destination of the gradient of an input that is shared by all samples while other inputs are not: once their batch has
/// ended it is the sum over the samples.
pub(crate) fn lifted(ins: &[Option<&Tensor>], i: usize, to: Edge) -> Edge {
    let mut all = SmallVec::new();
    ins.iter().flatten().for_each(|t| levels(t, &mut all));
    let mut own = SmallVec::new();
    if let Some(t) = ins[i] {
        levels(t, &mut own);
    }
    all.retain(|id| !own.contains(id));
    if all.is_empty() {
        return to;
    }
    let backward = move |g: &[Option<Tensor>]| {
        let [Some(g)] = g else { return Ok(vec![None]) };
        let mut g = g.clone();
        for &id in &all {
            if !is_active(id) && is_in(&g, id) {
                g = batch_out(&g, id, 0)?.sum(&[0][..], false)?;
            }
        }
        Ok(vec![Some(g)])
    };
    custom_edge("SumOverBatchBackward0", to, Box::new(backward))
}
