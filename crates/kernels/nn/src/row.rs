//! Rows of a tensor: what row kernels (softmax, norms, loss) read and write as contiguous memory.

use oneflow_kernels_prim::rows::Grid;
use oneflow_kernels_prim::{Float, View};

/// Elements of a row that are summed in the format itself; the sums of such blocks are added in f64.
const BLOCK: usize = 8192;

/// The blocks of a row: start and length.
#[inline(always)]
pub fn blocks(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n.div_ceil(BLOCK)).map(move |b| (b * BLOCK, BLOCK.min(n - b * BLOCK)))
}

/// The trailing part of a tensor that makes one row.
pub struct Row {
    grid: Grid<1>,
    direct: bool,
}

impl Row {
    /// A row over the last `n_dims` dimensions.
    pub fn trailing(v: &View, n_dims: usize) -> Row {
        let at = v.ndim() - n_dims;
        Row::of(Grid::new(&v.sizes[at..], [&v.strides[at..]]))
    }

    /// A row along one dimension; a 0-dim tensor is a row of one.
    pub fn along(v: &View, dim: usize) -> Row {
        let dims = v.sizes.get(dim).map(|n| (*n, [v.strides[dim]]));
        Row::of(Grid::from_dims(dims.into_iter()))
    }

    fn of(grid: Grid<1>) -> Row {
        let (n, [step]) = grid.inner();
        Row { direct: n == grid.len() && (n <= 1 || step == 1), grid }
    }

    pub fn len(&self) -> usize {
        self.grid.len()
    }

    /// Scratch elements that `read` and `write` need.
    pub fn scratch(&self) -> usize {
        if self.direct { 0 } else { self.len() }
    }

    /// The row as contiguous memory: itself, or its elements gathered into `scratch`.
    ///
    /// # Safety
    /// `p` is a row's first element, valid for reads; `scratch` has room for `self.scratch()` elements.
    #[inline]
    pub unsafe fn read<T: Float>(&self, p: *const T, scratch: *mut T) -> *const T {
        if self.direct {
            return p;
        }
        // SAFETY: the grid's offsets are those of the row.
        self.grid.each(0..self.len(), |i, [o]| unsafe { *scratch.add(i) = *p.offset(o) });
        scratch
    }

    /// Where to write the row: itself, or `scratch`, which `finish` then brings home.
    #[inline]
    pub fn place<T: Float>(&self, p: *mut T, scratch: *mut T) -> *mut T {
        if self.direct { p } else { scratch }
    }

    /// # Safety
    /// `p` is a row's first element, valid for writes; `scratch` holds the row.
    #[inline]
    pub unsafe fn finish<T: Float>(&self, p: *mut T, scratch: *const T) {
        if !self.direct {
            // SAFETY: the grid's offsets are those of the row.
            self.grid.each(0..self.len(), |i, [o]| unsafe { *p.offset(o) = *scratch.add(i) });
        }
    }
}
