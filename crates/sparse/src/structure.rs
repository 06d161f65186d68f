//! Forms that move entries and compute nothing: selections, joins and orders of dimensions, with and without indices.
//!
//! A dimension with indices is changed in their row of it, a dense one in the values.

use crate::calls::refused;
use crate::coo::{Coo, coalesce, entries, flat_index, make, parts};
use oneflow_base::{Dims, Error, Result, wrap_dim};
use oneflow_core::{At, Call, In, Tensor};
use oneflow_ops::{TensorOps, f};
use smallvec::SmallVec;

/// A dimension: a row of the indices, or a dimension of the values.
enum Place {
    Row(i64),
    Values(i64),
}

fn place(coo: &Coo, dim: usize) -> Place {
    let n = coo.sparse_dim();
    if dim < n { Place::Row(dim as i64) } else { Place::Values((dim - n + 1) as i64) }
}

/// The indices with another row in the place of one, or without it.
fn with_row(indices: &Tensor, row: i64, new: Option<&Tensor>) -> Result<Tensor> {
    let n = indices.sizes()[0];
    let new = new.map(|t| t.unsqueeze(0)).transpose()?;
    let (before, after) = (indices.narrow(0, 0, row)?, indices.narrow(0, row + 1, n - row - 1)?);
    f::cat([&before].into_iter().chain(&new).chain([&after]), 0)
}

fn kept(coo: &Coo, at: &Tensor) -> Result<(Tensor, Tensor)> {
    Ok((coo.indices.index_select(1, at)?, coo.values.index_select(0, at)?))
}

pub fn cat(c: &Call<'_>) -> Result<Tensor> {
    let first = c.t(In::nth(0))?;
    // Before it stands the length of the list.
    let (dim, n) = (wrap_dim(c.int(At::nth(1))?, first.ndim())?, entries(c, first)?.sparse_dim());
    let mut sizes = Dims::from_slice(first.sizes());
    sizes[dim] = 0;
    let (mut indices, mut values): (Vec<Tensor>, Vec<Tensor>) = Default::default();
    let total: i64 = c.ins.iter().flatten().map(|t| t.sizes().get(dim).copied().unwrap_or(0)).sum();
    for t in c.ins.iter().flatten() {
        let coo = entries(c, t)?;
        let fits = t.ndim() == first.ndim() && (0..t.ndim()).all(|d| d == dim || t.sizes()[d] == first.sizes()[d]);
        if !fits || coo.sparse_dim() != n {
            return Err(Error::runtime(format!(
                "{}(): Sizes of tensors must match except in dimension {dim}, and so must the numbers of their sparse dimensions. Got {:?} with {n} and {:?} with {}",
                c.name(),
                first.sizes(),
                t.sizes(),
                coo.sparse_dim()
            )));
        }
        let (at, size) = (sizes[dim], t.sizes()[dim]);
        match place(coo, dim) {
            Place::Row(r) => {
                indices.push(with_row(&coo.indices, r, Some(&coo.indices.select(0, r)?.add(at)?))?);
                values.push(coo.values.clone());
            }
            Place::Values(d) => {
                let zeros = |n: i64| {
                    let mut sizes = Dims::from_slice(coo.values.sizes());
                    sizes[d as usize] = n;
                    coo.values.new_zeros(&sizes)
                };
                indices.push(coo.indices.clone());
                values.push(f::cat([&zeros(at)?, &coo.values, &zeros(total - at - size)?], d)?);
            }
        }
        sizes[dim] += size;
    }
    make(&f::cat(&indices, 1)?, &f::cat(&values, 0)?, &sizes, false)
}

/// One place of a dimension; of the only one with indices it is dense.
pub fn select(c: &Call<'_>, x: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let (coo, dim) = (entries(c, x)?, wrap_dim(dim, x.ndim())?);
    let size = x.sizes()[dim];
    if !(-size..size).contains(&index) {
        return Err(Error::index(format!(
            "{}(): index {index} out of range for tensor of size {:?} at dimension {dim}",
            c.name(),
            x.sizes()
        )));
    }
    let index = if index < 0 { index + size } else { index };
    let mut sizes = Dims::from_slice(x.sizes());
    sizes.remove(dim);
    match place(coo, dim) {
        Place::Values(d) => make(&coo.indices, &coo.values.select(d, index)?, &sizes, coo.coalesced),
        Place::Row(r) => {
            let (indices, values) = kept(coo, &coo.indices.select(0, r)?.eq(index)?.nonzero()?.reshape(&[-1])?)?;
            match coo.sparse_dim() {
                1 => values.sum(&[0], false),
                _ => make(&with_row(&indices, r, None)?, &values, &sizes, coo.coalesced),
            }
        }
    }
}

pub fn unsqueeze(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let (coo, dim) = (entries(c, x)?, wrap_dim(c.int(At::nth(0))?, x.ndim() + 1)?);
    let mut sizes = Dims::from_slice(x.sizes());
    sizes.insert(dim, 1);
    let n = coo.sparse_dim();
    if dim > n {
        return make(&coo.indices, &coo.values.unsqueeze((dim - n + 1) as i64)?, &sizes, coo.coalesced);
    }
    let zeros = coo.indices.new_zeros(&[1, coo.nnz()])?;
    let (before, after) = (coo.indices.narrow(0, 0, dim as i64)?, coo.indices.narrow(0, dim as i64, (n - dim) as i64)?);
    make(&f::cat([&before, &zeros, &after], 0)?, &coo.values, &sizes, coo.coalesced)
}

pub fn permute(c: &Call<'_>, x: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let (coo, n) = (entries(c, x)?, x.ndim());
    let order: SmallVec<[usize; 4]> = dims.iter().map(|d| wrap_dim(*d, n)).collect::<Result<_>>()?;
    if order.len() != n || (0..n).any(|d| !order.contains(&d)) {
        return Err(Error::runtime(format!(
            "{}(): {dims:?} is no order of the dimensions of {:?}",
            c.name(),
            x.sizes()
        )));
    }
    let split = coo.sparse_dim();
    if order[..split].iter().any(|d| *d >= split) {
        return Err(Error::runtime(
            "transpositions between sparse and dense dimensions are not allowed. Only transpositions within sparse and dense dimensions are supported.",
        ));
    }
    let rows = order[..split].iter().map(|&d| coo.indices.select(0, d as i64)).collect::<Result<Vec<_>>>()?;
    let of_values: Dims = std::iter::once(0).chain(order[split..].iter().map(|d| (d - split + 1) as i64)).collect();
    let sizes: Dims = order.iter().map(|d| x.sizes()[*d]).collect();
    let indices = if rows.is_empty() { coo.indices.clone() } else { f::stack(&rows, 0)? };
    let in_order = order[..split].iter().enumerate().all(|(i, d)| i == *d);
    make(&indices, &coo.values.permute(&of_values)?, &sizes, coo.coalesced && in_order)
}

pub fn index_select(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let (coo, dim, index) = (entries(c, x)?, wrap_dim(c.int(At::nth(0))?, x.ndim())?, c.t(In::nth(1))?);
    if index.ndim() > 1 || !index.dtype().is_int() {
        return Err(Error::runtime(format!(
            "{}(): index must be a vector of integers, got {}",
            c.name(),
            c.describe()
        )));
    }
    let (index, size) = (index.reshape(&[-1])?.to_copy_with(Some(coo.indices.dtype()), None)?, x.sizes()[dim]);
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[dim] = index.numel();
    let r = match place(coo, dim) {
        Place::Values(d) => return make(&coo.indices, &coo.values.index_select(d, &index)?, &sizes, coo.coalesced),
        Place::Row(r) => r,
    };
    if index.lt(0i64)?.logical_or(&index.ge(size)?)?.nonzero()?.numel() > 0 {
        return Err(Error::index(format!("{}(): index out of range for dimension {dim} of size {size}", c.name())));
    }
    let [sorted, order] = coo.indices.select(0, r)?.sort_with(0, false, Some(true))?;
    let (of_index, of_entry) = matches(&sorted, &index)?;
    let (indices, values) = kept(coo, &order.index_select(0, &of_entry)?)?;
    make(&with_row(&indices, r, Some(&of_index))?, &values, &sizes, false)
}

/// Every pair of a key and an entry of `sorted` that are equal: the places of the keys, and those of the entries.
pub fn matches(sorted: &Tensor, keys: &Tensor) -> Result<(Tensor, Tensor)> {
    let (sorted, keys) = (sorted.clone_contiguous()?, keys.clone_contiguous()?);
    let first = sorted.searchsorted(&keys)?;
    let counts = sorted.searchsorted_with(&keys, false, true, None, None)?.sub(&first)?;
    let of_key = counts.repeat_interleave_Tensor()?;
    // Equal entries are neighbours: the first of them, plus the place of the pair among those of its key.
    let before = counts.cumsum(0)?.sub(&counts)?;
    let number = of_key.new_ones(of_key.sizes())?.cumsum(0)?.sub(1i64)?;
    let of_entry = first.sub(&before)?.index_select(0, &of_key)?.add(&number)?;
    Ok((of_key, of_entry))
}

/// The entries that two coalesced tensors both have: their places among those of the first, and of the second.
pub fn shared(a: &Coo, b: &Coo, sizes: &[i64]) -> Result<(Tensor, Tensor)> {
    let (keys, others) = (flat_index(a, sizes)?, flat_index(b, sizes)?);
    if others.numel() == 0 {
        return Ok((keys.narrow(0, 0, 0)?, others));
    }
    let near = others.searchsorted(&keys)?.clamp(None, Some((others.numel() - 1).into()))?;
    let found = others.index_select(0, &near)?.eq(&keys)?.nonzero()?.reshape(&[-1])?;
    let of_b = near.index_select(0, &found)?;
    Ok((found, of_b))
}

pub fn slice(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let (coo, dim) = (entries(c, x)?, wrap_dim(c.int(At::nth(0))?, x.ndim())?);
    let (start, end) = (c.arg(At::<i64>::nth(1)).int(), c.arg(At::<i64>::nth(2)).int());
    let (step, size) = (c.int(At::nth(3))?, x.sizes()[dim]);
    let r = match place(coo, dim) {
        Place::Values(d) => {
            let values = coo.values.slice(d, start, end, step)?;
            let mut sizes = Dims::from_slice(x.sizes());
            sizes[dim] = values.sizes()[d as usize];
            return make(&coo.indices, &values, &sizes, coo.coalesced);
        }
        Place::Row(r) => r,
    };
    if step != 1 {
        return Err(refused(c));
    }
    let bound = |i: i64| (if i < 0 { i.saturating_add(size) } else { i }).clamp(0, size);
    let start = bound(start.unwrap_or(0));
    let end = bound(end.unwrap_or(size)).max(start);
    let row = coo.indices.select(0, r)?;
    let at = row.ge(start)?.logical_and(&row.lt(end)?)?.nonzero()?.reshape(&[-1])?;
    let (indices, values) = kept(coo, &at)?;
    let mut sizes = Dims::from_slice(x.sizes());
    sizes[dim] = end - start;
    make(&with_row(&indices, r, Some(&indices.select(0, r)?.sub(start)?))?, &values, &sizes, coo.coalesced)
}

pub fn unbind(c: &Call<'_>, x: &Tensor) -> Result<Vec<Tensor>> {
    let dim = wrap_dim(c.int(At::nth(0))?, x.ndim())?;
    let x = if parts(x).is_some() { coalesce(x)? } else { return Err(refused(c)) };
    (0..x.sizes()[dim]).map(|i| select(c, &x, dim as i64, i)).collect()
}
