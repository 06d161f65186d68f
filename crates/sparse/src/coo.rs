//! The sparse tensor itself: construction, coalescing and conversion to dense.

use crate::calls::refused;
use oneflow_base::{DType, Dims, Error, Result, Scalar, contiguous_strides};
use oneflow_core::{Call, Ext, Tensor, bit};
use oneflow_ops::{TensorOps, f};
use std::any::Any;
use std::sync::Arc;

/// The parts of a sparse tensor.
pub struct Coo {
    /// [sparse dims, nnz] of int64.
    pub indices: Tensor,
    /// [nnz, dense dims...].
    pub values: Tensor,
    /// Every index once, in order.
    pub coalesced: bool,
}

impl Ext for Coo {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn version(&self) -> u32 {
        self.values.version()
    }
    fn bump_version(&self) {
        self.values.bump_version();
    }
}

impl Coo {
    pub fn nnz(&self) -> i64 {
        self.indices.sizes()[1]
    }
    /// Number of leading dimensions that are sparse.
    pub fn sparse_dim(&self) -> usize {
        self.indices.sizes()[0] as usize
    }
}

/// The parts of a sparse tensor.
pub fn parts(t: &Tensor) -> Option<&Coo> {
    t.ext::<Coo>()
}

/// A sparse tensor over these parts. Indices are not looked at.
pub fn make(indices: &Tensor, values: &Tensor, sizes: &[i64], coalesced: bool) -> Result<Tensor> {
    if indices.ndim() != 2 {
        return Err(Error::runtime(format!("indices must be sparse_dim x nnz, but got: {:?}", indices.sizes())));
    }
    if indices.dtype() != DType::I64 {
        return Err(Error::type_(format!(
            "sparse_coo_tensor(): indices must be an int64 tensor, got {}",
            indices.dtype()
        )));
    }
    let (n, nnz) = (indices.sizes()[0] as usize, indices.sizes()[1]);
    if values.ndim() == 0 || values.sizes()[0] != nnz {
        return Err(Error::runtime(format!(
            "indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: {}",
            values.sizes().first().unwrap_or(&0)
        )));
    }
    if n + values.ndim() - 1 != sizes.len() || values.sizes()[1..] != sizes[n.min(sizes.len())..] {
        return Err(Error::runtime(format!(
            "number of dimensions must be sparse_dim ({n}) + dense_dim ({}), and dense sizes must be those of the values; got size {sizes:?} and values {:?}",
            values.ndim() - 1,
            values.sizes()
        )));
    }
    let t = Tensor::shell(values.dtype(), values.device(), Dims::from_slice(sizes), contiguous_strides(sizes))?;
    let coo = Coo { indices: indices.clone(), values: values.clone(), coalesced };
    // SAFETY: the tensor was made here and is not shared yet.
    unsafe { t.set_ext(Arc::new(coo), bit::SPARSE) };
    Ok(t)
}

/// Position of each entry among the sparse dimensions, taken as one.
pub(crate) fn flat_index(coo: &Coo, sizes: &[i64]) -> Result<Tensor> {
    let n = coo.sparse_dim();
    let mut flat = coo.indices.select(0, 0)?;
    for d in 1..n {
        flat = flat.mul(Scalar::Int(sizes[d]))?.add(&coo.indices.select(0, d as i64)?)?;
    }
    Ok(flat)
}

/// The same tensor with every index once, in order.
pub fn coalesce(t: &Tensor) -> Result<Tensor> {
    let coo = parts(t).ok_or_else(|| not_sparse("coalesce()"))?;
    if coo.coalesced {
        return Ok(t.clone());
    }
    let (sizes, n) = (t.sizes(), coo.sparse_dim());
    if coo.nnz() < 2 {
        return make(&coo.indices, &coo.values, sizes, true);
    }
    if n == 0 {
        let indices = coo.indices.slice(1, Some(0), Some(1), 1)?;
        return make(&indices, &total(&coo.values)?.unsqueeze(0)?, sizes, true);
    }
    let [sorted, order] = flat_index(coo, sizes)?.sort_with(0, false, Some(true))?;
    let nnz = coo.nnz();
    let first = sorted.slice(0, Some(0), Some(1), 1)?.eq(&sorted.slice(0, Some(0), Some(1), 1)?)?;
    let changes = sorted.slice(0, Some(1), Some(nnz), 1)?.ne(&sorted.slice(0, Some(0), Some(nnz - 1), 1)?)?;
    let starts = f::cat([&first, &changes], 0)?;
    let group = starts.cumsum_with(0, Some(DType::I64))?.add(Scalar::Int(-1))?;
    let at = starts.nonzero()?.reshape(&[-1])?;
    let indices = coo.indices.index_select(1, &order.index_select(0, &at)?)?;
    let mut rows = Dims::from_slice(coo.values.sizes());
    rows[0] = at.numel();
    let values = coo.values.new_zeros(&rows)?.index_add(0, &group, &coo.values.index_select(0, &order)?)?;
    make(&indices, &values, sizes, true)
}

/// The sum of all entries of a tensor without sparse dimensions, in their dtype.
fn total(values: &Tensor) -> Result<Tensor> {
    values.sum_with(&[0], false, Some(values.dtype()))
}

/// Adds `alpha` times a sparse tensor to a dense one, in place.
pub fn add_into(dense: &Tensor, sparse: &Tensor, alpha: Scalar) -> Result<()> {
    let coo = parts(sparse).ok_or_else(|| not_sparse("a sum"))?;
    let values = coo.values.to_copy_with(Some(dense.dtype()), None)?;
    // Scaled here: the kernel adds in place, the composition of a factor would copy the whole tensor.
    let (values, alpha) = match alpha.is_one() || coo.sparse_dim() == 0 {
        true => (values, alpha),
        false => (values.mul(alpha)?, Scalar::Int(1)),
    };
    match coo.sparse_dim() {
        0 => dense.add_with_(&total(&values)?, alpha),
        1 => dense.index_add_with_(0, &coo.indices.select(0, 0)?, &values, alpha),
        n => {
            let mut rows = Dims::from_slice(&dense.sizes()[n..]);
            rows.insert(0, dense.sizes()[..n].iter().product());
            let flat = flat_index(coo, dense.sizes())?;
            if dense.is_contiguous() {
                return dense.reshape(&rows)?.index_add_with_(0, &flat, &values, alpha);
            }
            let sum = dense.clone_contiguous()?.reshape(&rows)?.index_add_with(0, &flat, &values, alpha)?;
            dense.copy_(&sum.reshape(dense.sizes())?, false)
        }
    }
}

/// A tensor by coordinates with its zeros.
pub(crate) fn dense_of(t: &Tensor) -> Result<Tensor> {
    let coo = parts(t).ok_or_else(|| not_sparse("to_dense()"))?;
    let dense = coo.values.new_zeros(t.sizes())?;
    add_into(&dense, t, Scalar::Int(1))?;
    Ok(dense)
}

/// The entries of a dense tensor that are not zero, sparse in the first `n` dimensions.
pub fn entries_of(dense: &Tensor, n: usize) -> Result<Tensor> {
    let filled = dense.ne(0i64)?;
    if n == 0 {
        // A number has no index: its one entry, or none.
        let at = filled.reshape(&[1])?.nonzero()?;
        let values = dense.unsqueeze(0)?.index_select(0, &at.select(1, 0)?)?;
        return make(&at.new_zeros(&[0, at.sizes()[0]])?, &values, dense.sizes(), true);
    }
    let filled = match n < dense.ndim() {
        false => filled,
        true => filled.any((n as i64..dense.ndim() as i64).collect::<Vec<_>>().as_slice(), false)?,
    };
    let indices = filled.nonzero()?.t()?.clone_contiguous()?;
    let found =
        make(&indices, &dense.new_empty(&values_sizes(indices.sizes()[1], &dense.sizes()[n..]))?, dense.sizes(), true)?;
    let coo = parts(&found).ok_or_else(|| not_sparse("to_sparse()"))?;
    make(&indices, &gather(dense, coo)?, dense.sizes(), true)
}

fn values_sizes(nnz: i64, dense: &[i64]) -> Dims {
    std::iter::once(nnz).chain(dense.iter().copied()).collect()
}

/// Rows of a dense tensor at the indices of `coo`.
pub(crate) fn gather(dense: &Tensor, coo: &Coo) -> Result<Tensor> {
    let n = coo.sparse_dim();
    if n == 0 {
        // Each entry is the whole tensor; there may be none.
        let mut rows = Dims::from_slice(dense.sizes());
        rows.insert(0, coo.nnz());
        return dense.unsqueeze(0)?.expand(&rows)?.contiguous();
    }
    let mut rows = Dims::from_slice(&dense.sizes()[n..]);
    rows.insert(0, dense.sizes()[..n].iter().product());
    dense.reshape(&rows)?.index_select(0, &flat_index(coo, dense.sizes())?)
}

pub(crate) fn entries<'a>(c: &Call<'_>, x: &'a Tensor) -> Result<&'a Coo> {
    parts(x).ok_or_else(|| refused(c))
}

pub(crate) fn not_sparse(what: &str) -> Error {
    Error::runtime(format!("{what}: expected a sparse tensor, but got a dense one"))
}

/// What parts of a sparse tensor that fit each other by their shapes say, and cannot be.
#[cold]
pub(crate) fn unfinished(what: &str) -> Error {
    Error::runtime(format!("sparse tensor: {what}"))
}
