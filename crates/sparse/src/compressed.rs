//! Compressed sparse tensors: CSR, CSC and their forms by blocks, BSR and BSC.
//!
//! The compressed dimension (rows of CSR and BSR, columns of CSC and BSC) has one number a place: where its entries start. Each
//! entry has its place in the other dimension, the plain one, and a value: a number, or a block of them.

use crate::coo::{self, Coo, coalesce, parts, unfinished};
use oneflow_base::{DType, Dims, Error, Result, contiguous_strides};
use oneflow_core::{Ext, Tensor, bit};
use oneflow_ops::{TensorOps, f};
use std::any::Any;
use std::sync::Arc;

/// Which dimension is compressed, and whether values are blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Csr,
    Csc,
    Bsr,
    Bsc,
}

impl Layout {
    pub const ALL: [Layout; 4] = [Layout::Csr, Layout::Csc, Layout::Bsr, Layout::Bsc];

    /// The name that Python knows it by.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Csr => "sparse_csr",
            Layout::Csc => "sparse_csc",
            Layout::Bsr => "sparse_bsr",
            Layout::Bsc => "sparse_bsc",
        }
    }
    pub fn of_name(name: &str) -> Option<Layout> {
        Layout::ALL.into_iter().find(|l| l.name() == name)
    }
    /// Whether rows are the compressed dimension.
    pub fn by_row(self) -> bool {
        matches!(self, Layout::Csr | Layout::Bsr)
    }
    pub fn in_blocks(self) -> bool {
        matches!(self, Layout::Bsr | Layout::Bsc)
    }
    /// The layout of the transposed matrix over the same parts.
    pub fn flipped(self) -> Layout {
        match self {
            Layout::Csr => Layout::Csc,
            Layout::Csc => Layout::Csr,
            Layout::Bsr => Layout::Bsc,
            Layout::Bsc => Layout::Bsr,
        }
    }
    /// The names of the two kinds of indices, and what they count.
    fn words(self) -> (&'static str, &'static str, &'static str, &'static str) {
        if self.by_row() {
            ("crow_indices", "col_indices", "rows", "cols")
        } else {
            ("ccol_indices", "row_indices", "columns", "rows")
        }
    }
}

/// The parts of a compressed sparse tensor.
pub struct Compressed {
    pub layout: Layout,
    /// [batch..., places of the compressed dimension + 1], int64 or int32.
    pub compressed: Tensor,
    /// [batch..., nnz], of the same dtype.
    pub plain: Tensor,
    /// [batch..., nnz, (rows of a block, columns of a block,) dense dims...].
    pub values: Tensor,
}

impl Ext for Compressed {
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

/// The parts of a compressed sparse tensor.
pub fn compressed(t: &Tensor) -> Option<&Compressed> {
    t.ext::<Compressed>()
}

impl Compressed {
    pub fn n_batch(&self) -> usize {
        self.plain.ndim() - 1
    }
    /// Entries of one matrix of the batch.
    pub fn nnz(&self) -> i64 {
        self.plain.sizes()[self.n_batch()]
    }
    /// Rows and columns of a value.
    pub fn block(&self) -> [i64; 2] {
        match self.layout.in_blocks() {
            true => [self.values.sizes()[self.n_batch() + 1], self.values.sizes()[self.n_batch() + 2]],
            false => [1, 1],
        }
    }
    fn n_batches(&self) -> i64 {
        self.plain.sizes()[..self.n_batch()].iter().product()
    }
    /// Whether two tensors have their entries at the same places.
    pub fn same_places(&self, other: &Compressed) -> Result<bool> {
        let equal =
            |a: &Tensor, b: &Tensor| -> Result<bool> { Ok(a.same(b) || a.sizes() == b.sizes() && none(&a.ne(b)?)?) };
        Ok(self.layout == other.layout
            && self.block() == other.block()
            && equal(&self.compressed, &other.compressed)?
            && equal(&self.plain, &other.plain)?)
    }
    /// A tensor with other values at the same places.
    pub fn with_values(&self, values: &Tensor, sizes: &[i64]) -> Result<Tensor> {
        make_compressed(self.layout, &self.compressed, &self.plain, values, sizes)
    }
    /// Indices [sparse dims, entries] and values [entries, dense dims...] of single elements, as they lie.
    fn elements(&self) -> Result<(Tensor, Tensor)> {
        let (nb, wide) = (self.n_batch(), Some(DType::I64));
        let n = self.compressed.sizes()[nb] - 1;
        let (total, [height, width]) = (self.n_batches() * self.nnz(), self.block());
        let counts = self.compressed.narrow(nb as i64, 1, n)?.sub(&self.compressed.narrow(nb as i64, 0, n)?)?;
        let place = counts.to_copy_with(wide, None)?.reshape(&[-1])?.repeat_interleave_Tensor()?;
        if place.numel() != total {
            return Err(unfinished("the compressed indices do not count the entries"));
        }
        let plain = self.plain.reshape(&[-1])?.to_copy_with(wide, None)?;
        let major = if nb == 0 { place.clone() } else { place.remainder(n.max(1))? };
        let (mut row, mut column) = if self.layout.by_row() { (major, plain) } else { (plain, major) };
        let mut sizes = Dims::from_slice(&self.values.sizes()[nb..]);
        sizes[0] = total;
        let mut values = self.values.reshape(&sizes)?;
        let mut batch = place.floor_divide(n.max(1))?;
        if self.layout.in_blocks() {
            let each = [total, height, width];
            let within = |n: i64, shape: &[i64]| f::arange_with(n, wide, Some(place.device()), false)?.reshape(shape);
            let spread = |t: Tensor| t.expand(&each)?.reshape(&[-1]);
            let column_of_blocks = [total, 1, 1];
            row = spread(row.mul(height)?.reshape(&column_of_blocks)?.add(&within(height, &[1, height, 1])?)?)?;
            column = spread(column.mul(width)?.reshape(&column_of_blocks)?.add(&within(width, &[1, 1, width])?)?)?;
            batch = spread(batch.reshape(&column_of_blocks)?)?;
            let mut flat = Dims::from_slice(&values.sizes()[2..]);
            flat[0] = total * height * width;
            values = values.reshape(&flat)?;
        }
        let mut indices = vec![];
        let mut left: i64 = self.n_batches();
        for &size in &self.plain.sizes()[..nb] {
            left /= size.max(1);
            indices.push(batch.floor_divide(left.max(1))?.remainder(size.max(1))?);
        }
        indices.extend([row, column]);
        Ok((f::stack(&indices, 0)?, values))
    }
}

/// Whether no element is true.
fn none(t: &Tensor) -> Result<bool> {
    Ok(t.nonzero()?.sizes()[0] == 0)
}

/// A compressed tensor over these parts. Shapes are checked, what the indices say is not (`check`).
pub fn make_compressed(
    layout: Layout,
    compressed: &Tensor,
    plain: &Tensor,
    values: &Tensor,
    sizes: &[i64],
) -> Result<Tensor> {
    let (of_compressed, of_plain, rows, _) = layout.words();
    let fail = |text: String| Err(Error::runtime(text));
    let (a, b) = (compressed.dtype(), plain.dtype());
    if a != b {
        return fail(format!(
            "{of_compressed} and {of_plain} must have the same dtype, but got {} and {}, respectively",
            a.scalar_type_name(),
            b.scalar_type_name()
        ));
    }
    if a != DType::I64 && a != DType::I32 {
        return fail(format!("{of_compressed} and {of_plain} must be an int32 or int64 type, but got {a}"));
    }
    if compressed.ndim() == 0 || compressed.ndim() != plain.ndim() {
        return fail(format!(
            "{of_compressed} and {of_plain} dimensionalities must be equal and at least 1, but got {} and {}",
            compressed.ndim(),
            plain.ndim()
        ));
    }
    let (nb, blocked) = (plain.ndim() - 1, if layout.in_blocks() { 2 } else { 0 });
    if values.ndim() < nb + 1 + blocked {
        return fail(format!(
            "values must have dimensionality at least {} (batch, nnz{}), but got {}",
            nb + 1 + blocked,
            if blocked == 2 { ", block" } else { "" },
            values.ndim()
        ));
    }
    let n_dense = values.ndim() - nb - 1 - blocked;
    if sizes.len() != nb + 2 + n_dense {
        return fail(format!(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities (={nb} + 2 + {n_dense}) but got {}",
            sizes.len()
        ));
    }
    if sizes.iter().any(|n| *n < 0) {
        return fail(format!("size must not be negative, got {sizes:?}"));
    }
    let same_batch = compressed.sizes()[..nb] == sizes[..nb]
        && plain.sizes()[..nb] == sizes[..nb]
        && values.sizes()[..nb] == sizes[..nb];
    if !same_batch {
        return fail(format!(
            "all batch dimensions of {of_compressed} ({:?}), {of_plain} ({:?}) and values ({:?}) must be equal to those of the tensor ({:?})",
            &compressed.sizes()[..nb],
            &plain.sizes()[..nb],
            &values.sizes()[..nb],
            &sizes[..nb]
        ));
    }
    if values.sizes()[nb + 1 + blocked..] != sizes[nb + 2..] {
        return fail(format!(
            "dense dimensions of values ({:?}) must be those of the tensor ({:?})",
            &values.sizes()[nb + 1 + blocked..],
            &sizes[nb + 2..]
        ));
    }
    let block = if blocked == 2 { [values.sizes()[nb + 1], values.sizes()[nb + 2]] } else { [1, 1] };
    if block.iter().zip(&sizes[nb..]).any(|(b, n)| *b < 1 || n % b != 0) {
        return fail(format!("tensor shape {:?} must be divisible by blocksize {block:?}", &sizes[nb..nb + 2]));
    }
    let major = if layout.by_row() { 0 } else { 1 };
    let n = sizes[nb + major] / block[major];
    if compressed.sizes()[nb] != n + 1 {
        let what = if blocked == 2 { format!("{} blocks", &rows[..rows.len() - 1]) } else { rows.to_string() };
        return fail(format!(
            "{of_compressed}.shape[-1] must be equal to the number of {what} + 1 (={}), but got {}",
            n + 1,
            compressed.sizes()[nb]
        ));
    }
    if plain.sizes()[nb] != values.sizes()[nb] {
        return fail(format!(
            "{of_plain}.shape[-1] must be equal to nnz (={}) as defined by values.shape[{nb}], but got {}",
            values.sizes()[nb],
            plain.sizes()[nb]
        ));
    }
    let t = Tensor::shell(values.dtype(), values.device(), Dims::from_slice(sizes), contiguous_strides(sizes))?;
    let c = Compressed { layout, compressed: compressed.clone(), plain: plain.clone(), values: values.clone() };
    // SAFETY: the tensor was made here and is not shared yet.
    unsafe { t.set_ext(Arc::new(c), bit::SPARSE) };
    Ok(t)
}

/// Raises unless the indices describe a matrix of these sizes; `in_order` asks for distinct entries in their order as well.
pub fn check(t: &Tensor, in_order: bool) -> Result<()> {
    let c = compressed(t).ok_or_else(|| coo::not_sparse("a check of its indices"))?;
    let (of_compressed, of_plain, _, columns) = c.layout.words();
    let (nb, nnz) = (c.n_batch(), c.nnz());
    let last = c.compressed.sizes()[nb] - 1;
    let minor = if c.layout.by_row() { 1 } else { 0 };
    let n = t.sizes()[nb + minor] / c.block()[minor];
    let broken = |rule: String| Err(Error::runtime(format!("`{rule}` is not satisfied.")));
    if !none(&c.compressed.select(-1, 0)?.ne(0i64)?.reshape(&[-1])?)? {
        return broken(format!("{of_compressed}[..., 0] == 0"));
    }
    if !none(&c.compressed.select(-1, last)?.ne(nnz)?.reshape(&[-1])?)? {
        return broken(format!("{of_compressed}[..., -1] == nnz"));
    }
    let (before, after) = (c.compressed.narrow(-1, 0, last)?, c.compressed.narrow(-1, 1, last)?);
    if !none(&before.gt(&after)?)? || !none(&after.sub(&before)?.gt(n)?)? && in_order {
        return broken(format!(
            "0 <= {of_compressed}[..., 1:] - {of_compressed}[..., :-1] <= {}",
            if minor == 1 { "ncols" } else { "nrows" }
        ));
    }
    if !none(&c.plain.lt(0i64)?)? || !none(&c.plain.ge(n)?)? {
        return broken(format!("0 <= {of_plain} < n{columns}"));
    }
    if in_order && nnz > 1 {
        let flat = c.places(n)?;
        let total = flat.numel();
        if !none(&flat.narrow(0, 1, total - 1)?.le(&flat.narrow(0, 0, total - 1)?)?)? {
            let all = if minor == 1 { "nrows" } else { "ncols" };
            return broken(format!(
                "{of_plain}[..., {of_compressed}[..., i - 1]:{of_compressed}[..., i]] for all i = 1, ..., {all} are sorted and distinct along the last dimension values"
            ));
        }
    }
    Ok(())
}

impl Compressed {
    /// One number an entry, in the order of the layout: batch, then the compressed dimension, then the plain one of `n` places.
    fn places(&self, n: i64) -> Result<Tensor> {
        let nb = self.n_batch();
        let last = self.compressed.sizes()[nb] - 1;
        let counts = self.compressed.narrow(-1, 1, last)?.sub(&self.compressed.narrow(-1, 0, last)?)?;
        let major = counts.to_copy_with(Some(DType::I64), None)?.reshape(&[-1])?.repeat_interleave_Tensor()?;
        major.mul(n)?.add(&self.plain.reshape(&[-1])?.to_copy_with(Some(DType::I64), None)?)
    }
}

/// The same tensor by coordinates, as its entries lie.
pub(crate) fn in_any_order(t: &Tensor) -> Result<Tensor> {
    let c = compressed(t).ok_or_else(|| coo::not_sparse("to_sparse()"))?;
    let (indices, values) = c.elements()?;
    coo::make(&indices, &values, t.sizes(), false)
}

/// The same tensor by coordinates, every index once and in order.
pub fn to_coo(t: &Tensor) -> Result<Tensor> {
    if compressed(t).is_none() {
        return Ok(t.clone());
    }
    let loose = in_any_order(t)?;
    let found = parts(&loose).ok_or_else(|| coo::not_sparse("to_sparse()"))?;
    let flat = coo::flat_index(found, t.sizes())?;
    let n = flat.numel();
    match n < 2 || none(&flat.narrow(0, 1, n - 1)?.le(&flat.narrow(0, 0, n - 1)?)?)? {
        true => coo::make(&found.indices, &found.values, t.sizes(), true),
        false => coalesce(&loose),
    }
}

/// A tensor by coordinates in a compressed layout: the last two of its sparse dimensions are rows and columns, what stands before
/// them are batches, all of as many entries.
pub fn from_coo(t: &Tensor, layout: Layout, block: [i64; 2]) -> Result<Tensor> {
    let t = coalesce(t)?;
    let coo = parts(&t).ok_or_else(|| coo::not_sparse("a compressed layout"))?;
    let (n_sparse, sizes) = (coo.sparse_dim(), t.sizes());
    if n_sparse < 2 {
        return Err(Error::runtime(format!(
            "a tensor in {} layout has two sparse dimensions, rows and columns, or more; got {n_sparse} of size {sizes:?}",
            layout.name()
        )));
    }
    let nb = n_sparse - 2;
    let [height, width] = block;
    if height < 1 || width < 1 || sizes[nb] % height != 0 || sizes[nb + 1] % width != 0 {
        return Err(Error::runtime(format!(
            "tensor sparse size ({},{}) must be divisible by given blocksize ({height},{width})",
            sizes[nb],
            sizes[nb + 1]
        )));
    }
    let (n_rows, n_columns) = (sizes[nb] / height, sizes[nb + 1] / width);
    let (mut row, mut column) = (coo.indices.select(0, nb as i64)?, coo.indices.select(0, nb as i64 + 1)?);
    let mut batch = row.new_zeros(row.sizes())?;
    for d in 0..nb {
        batch = batch.mul(sizes[d])?.add(&coo.indices.select(0, d as i64)?)?;
    }
    let mut values = coo.values.clone();
    let mut within = None;
    if layout.in_blocks() {
        within = Some(row.remainder(height)?.mul(width)?.add(&column.remainder(width)?)?);
        row = row.floor_divide(height)?;
        column = column.floor_divide(width)?;
    }
    let (major, minor, n_major, n_minor) =
        if layout.by_row() { (row, column, n_rows, n_columns) } else { (column, row, n_columns, n_rows) };
    let mut key = batch.mul(n_major)?.add(&major)?.mul(n_minor)?.add(&minor)?;
    if layout.in_blocks() {
        // Elements of one block come together, and fill it.
        let [sorted, order] = key.sort_with(0, false, Some(true))?;
        let n = sorted.numel();
        let changes = sorted.narrow(0, 1.min(n), (n - 1).max(0))?.ne(&sorted.narrow(0, 0, (n - 1).max(0))?)?;
        let first = sorted.narrow(0, 0, 1.min(n))?;
        let starts = f::cat([&first.eq(&first)?, &changes], 0)?;
        let group = starts.cumsum_with(0, Some(DType::I64))?.sub(1i64)?;
        let within = within.as_ref().ok_or_else(|| coo::not_sparse("blocks"))?.index_select(0, &order)?;
        key = sorted.index_select(0, &starts.nonzero()?.reshape(&[-1])?)?;
        let mut flat = Dims::from_slice(values.sizes());
        flat[0] = key.numel() * height * width;
        let at = group.mul(height * width)?.add(&within)?;
        values = values.new_zeros(&flat)?.index_add(0, &at, &values.index_select(0, &order)?)?;
        let mut shaped: Dims = Dims::from_slice(&[key.numel(), height, width]);
        shaped.extend_from_slice(&coo.values.sizes()[1..]);
        values = values.reshape(&shaped)?;
    } else if !layout.by_row() {
        let [sorted, order] = key.sort_with(0, false, Some(true))?;
        key = sorted;
        values = values.index_select(0, &order)?;
    }
    let n_batches: i64 = sizes[..nb].iter().product();
    let of_major = key.floor_divide(n_minor.max(1))?;
    let plain = key.remainder(n_minor.max(1))?;
    let every = f::arange_with(n_batches * n_major + 1, Some(DType::I64), Some(key.device()), false)?;
    let ends = of_major.searchsorted(&every)?;
    let total = key.numel();
    let nnz = if n_batches == 0 { 0 } else { total / n_batches };
    let batch_starts = ends.slice(0, Some(0), None, n_major.max(1))?.narrow(0, 0, n_batches.min(ends.numel()))?;
    let even = f::arange_with(n_batches, Some(DType::I64), Some(key.device()), false)?.mul(nnz)?;
    if nnz * n_batches != total || n_major > 0 && !none(&batch_starts.ne(&even)?)? {
        return Err(Error::runtime(format!(
            "Expect the same number of specified elements per batch, in {} layout; a batch of size {:?} has {total} in all",
            layout.name(),
            &sizes[..nb]
        )));
    }
    let mut shape = Dims::from_slice(&sizes[..nb]);
    shape.push(n_major + 1);
    let compressed = if nb == 0 {
        ends
    } else {
        // Each batch counts its own entries from zero.
        let rows =
            f::arange_with(n_batches, Some(DType::I64), Some(key.device()), false)?.mul(n_major)?.unsqueeze(1)?;
        let at = rows.add(&f::arange_with(n_major + 1, Some(DType::I64), Some(key.device()), false)?)?;
        let counted = ends.index_select(0, &at.reshape(&[-1])?)?.reshape(&[n_batches, n_major + 1])?;
        counted.sub(&even.unsqueeze(1)?)?.reshape(&shape)?
    };
    shape[nb] = nnz;
    let plain = plain.reshape(&shape)?;
    shape.extend_from_slice(&values.sizes()[1..]);
    make_compressed(layout, &compressed, &plain, &values.reshape(&shape)?, sizes)
}

/// The values of a dense or sparse tensor at the places of `like`, in the shape of its values; zero where it has none.
pub fn values_at(t: &Tensor, like: &Tensor) -> Result<Tensor> {
    let c = compressed(like).ok_or_else(|| coo::not_sparse("values at its places"))?;
    if t.sizes() != like.sizes() {
        return Err(Error::runtime(format!(
            "sparse_mask(): operands have incompatible sizes; self has size {:?} but mask has size {:?}",
            t.sizes(),
            like.sizes()
        )));
    }
    if let Some(other) = compressed(t)
        && c.same_places(other)?
    {
        return Ok(other.values.clone());
    }
    let wanted = in_any_order(like)?;
    let wanted = parts(&wanted).ok_or_else(|| coo::not_sparse("values at its places"))?;
    let found = match t.has_key(bit::SPARSE) {
        false => coo::gather(t, wanted)?,
        true => looked_up(&to_coo(t)?, wanted, like.sizes())?,
    };
    found.reshape(c.values.sizes())
}

/// Values of a tensor by coordinates at the indices of another; zero where it has none.
fn looked_up(t: &Tensor, wanted: &Coo, sizes: &[i64]) -> Result<Tensor> {
    let t = coalesce(t)?;
    let have = parts(&t).ok_or_else(|| coo::not_sparse("values at its places"))?;
    if have.sparse_dim() != wanted.sparse_dim() {
        return coo::gather(&coo::dense_of(&t)?, wanted);
    }
    let (keys, asked) = (coo::flat_index(have, sizes)?, coo::flat_index(wanted, sizes)?);
    let mut shape = Dims::from_slice(have.values.sizes());
    shape[0] = asked.numel();
    if keys.numel() == 0 {
        return have.values.new_zeros(&shape);
    }
    let near = keys.searchsorted(&asked)?.clamp(None, Some((keys.numel() - 1).into()))?;
    let mut column: Dims = shape.iter().map(|_| 1).collect();
    column[0] = asked.numel();
    let missing = keys.index_select(0, &near)?.ne(&asked)?.reshape(&column)?;
    have.values.index_select(0, &near)?.masked_fill(&missing, 0i64)
}

/// A dense or sparse tensor in a compressed layout. `n_dense`: last dimensions that stay dense, of a dense tensor.
pub fn to_compressed(t: &Tensor, layout: Layout, block: [i64; 2], n_dense: usize) -> Result<Tensor> {
    if let Some(c) = compressed(t)
        && c.layout == layout
        && c.block() == block
    {
        return Ok(t.clone());
    }
    if t.has_key(bit::SPARSE) {
        return from_coo(&to_coo(t)?, layout, block);
    }
    if t.ndim() < 2 + n_dense {
        return Err(Error::runtime(format!(
            "a tensor in {} layout has rows and columns beside {n_dense} dense dimensions; got one of size {:?}",
            layout.name(),
            t.sizes()
        )));
    }
    from_coo(&coo::entries_of(t, t.ndim() - n_dense)?, layout, block)
}
