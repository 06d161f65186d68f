//! The loop nest of strided operands as kernels get it: dimensions merged, by value in the launch's parameters.

use crate::launch::{Argument, Place};
use crate::text::MAX_DIMS;
use oneflow_base::{Dims, Error, Result};
use oneflow_kernels_prim::View;
use smallvec::SmallVec;
use std::ops::Range;

/// Sizes and every operand's strides, outermost first.
#[derive(Clone, Debug)]
pub struct Nest {
    /// Rows of one number a dimension: the sizes, then each operand's strides. One small list, for every launch makes a nest.
    rows: SmallVec<[i64; 24]>,
    n_dims: usize,
    n_operands: usize,
}

impl Nest {
    pub fn new(sizes: &[i64], strides: &[&[i64]]) -> Nest {
        Nest::from_rows(sizes, strides.len(), |k| strides[k])
    }

    /// The nest of views of equal sizes.
    pub fn of(views: &[&View<'_>]) -> Nest {
        Nest::from_rows(views.first().map_or(&[], |v| v.sizes), views.len(), |k| views[k].strides)
    }

    pub fn from_rows<'a>(sizes: &[i64], n_operands: usize, strides: impl Fn(usize) -> &'a [i64]) -> Nest {
        let n_dims = sizes.len();
        let mut rows = SmallVec::with_capacity(n_dims * (1 + n_operands));
        rows.extend_from_slice(sizes);
        (0..n_operands).for_each(|k| rows.extend_from_slice(&strides(k)[..n_dims]));
        Nest { rows, n_dims, n_operands }
    }

    #[inline]
    pub fn sizes(&self) -> &[i64] {
        &self.rows[..self.n_dims]
    }

    #[inline]
    pub fn strides(&self, operand: usize) -> &[i64] {
        &self.rows[(operand + 1) * self.n_dims..][..self.n_dims]
    }

    pub fn all_strides(&self) -> impl Iterator<Item = &[i64]> + Clone {
        (0..self.n_operands).map(|k| self.strides(k))
    }

    /// Number of positions.
    pub fn n(&self) -> i64 {
        self.sizes().iter().product()
    }

    /// Takes a dimension out: its size and strides. A 0-dim nest has one element along any dimension.
    pub fn take(&mut self, dim: usize) -> (i64, SmallVec<[i64; 4]>) {
        if dim >= self.n_dims {
            return (1, SmallVec::from_elem(0, self.n_operands));
        }
        let (size, mut strides) = (self.sizes()[dim], SmallVec::new());
        (0..self.n_operands).for_each(|k| strides.push(self.strides(k)[dim]));
        *self = self.picked(0..self.n_operands, |d| d != dim);
        (size, strides)
    }

    /// Some operands and the dimensions that `keep` names.
    fn picked(&self, operands: Range<usize>, keep: impl Fn(usize) -> bool) -> Nest {
        let mut rows = SmallVec::with_capacity((1 + operands.len()) * self.n_dims);
        for row in std::iter::once(self.sizes()).chain(operands.clone().map(|k| self.strides(k))) {
            row.iter().enumerate().filter(|(d, _)| keep(*d)).for_each(|(_, n)| rows.push(*n));
        }
        let n_dims = (0..self.n_dims).filter(|d| keep(*d)).count();
        Nest { rows, n_dims, n_operands: operands.len() }
    }

    /// The nest of some operands.
    pub fn only(&self, operands: Range<usize>) -> Nest {
        self.picked(operands, |_| true)
    }

    /// The other dimensions, and one alone.
    pub fn without(&self, dim: usize) -> (Nest, Nest) {
        self.partition(|d| d != dim)
    }

    /// The nest's first `n` dimensions, and the rest.
    pub fn split(&self, n: usize) -> (Nest, Nest) {
        self.partition(|d| d < n)
    }

    /// The dimensions for which `first` holds, and the others.
    pub fn partition(&self, first: impl Fn(usize) -> bool) -> (Nest, Nest) {
        let all = 0..self.n_operands;
        (self.picked(all.clone(), &first), self.picked(all, |d| !first(d)))
    }

    /// Orders dimensions by the first operand's strides, widest first: for work whose order does not matter.
    pub fn ordered(self) -> Nest {
        self.ordered_by(0)
    }

    /// As `ordered`, by an operand's strides.
    pub fn ordered_by(mut self, operand: usize) -> Nest {
        if operand >= self.n_operands {
            return self;
        }
        let width = |d: usize| self.strides(operand)[d].unsigned_abs();
        // Mostly they are in order.
        if (1..self.n_dims).all(|d| width(d - 1) >= width(d)) {
            return self;
        }
        let mut order: SmallVec<[usize; 8]> = (0..self.n_dims).collect();
        order.sort_by_key(|&d| std::cmp::Reverse(width(d)));
        let mut before: Dims = SmallVec::new();
        for row in self.rows.chunks_exact_mut(self.n_dims) {
            before.clear();
            before.extend_from_slice(row);
            row.iter_mut().zip(&order).for_each(|(to, &d)| *to = before[d]);
        }
        self
    }

    /// Drops dimensions of size one and merges neighbours that every operand walks as one.
    pub fn merged(mut self) -> Nest {
        let (nd, rows) = (self.n_dims, &mut self.rows);
        let mut last = 0;
        for d in 0..nd {
            let n = rows[d];
            if n == 1 {
                continue;
            }
            let strides = (1..=self.n_operands).map(|k| k * nd);
            if last > 0 && strides.clone().all(|row| rows[row + last - 1] == rows[row + d] * n) {
                rows[last - 1] *= n;
                strides.for_each(|row| rows[row + last - 1] = rows[row + d]);
            } else {
                rows[last] = n;
                strides.for_each(|row| rows[row + last] = rows[row + d]);
                last += 1;
            }
        }
        if last < nd {
            for k in 1..=self.n_operands {
                rows.copy_within(k * nd..k * nd + last, k * last);
            }
            rows.truncate((1 + self.n_operands) * last);
            self.n_dims = last;
        }
        self
    }

    /// Makes `width` elements of the innermost dimension one position, where all operands allow it: each lies there without
    /// gaps, in accesses that are aligned, or has one number. Returns a bit for each operand that lies along; zero where the nest
    /// stays as it is. Operands of `written`, as bits, must lie along.
    pub fn pack(&mut self, views: &[View<'_>], written: u32, width: i64) -> u32 {
        let Some(last) = self.n_dims.checked_sub(1) else { return 0 };
        let mut along = 0;
        for (k, v) in views.iter().enumerate().take(self.n_operands) {
            let strides = self.strides(k);
            match strides[last] {
                1 => along |= 1 << k,
                0 if written >> k & 1 == 0 => continue,
                _ => return 0,
            }
            let access = (v.dtype.size() * width as usize).min(16);
            let apart = strides[..last].iter().all(|s| s % width == 0);
            if !apart || !(v.ptr as usize).is_multiple_of(access) {
                return 0;
            }
        }
        if self.rows[last] % width != 0 {
            return 0;
        }
        self.rows[last] /= width;
        (1..=self.n_operands).for_each(|k| self.rows[k * self.n_dims + last] *= width);
        along
    }

    /// Makes `unit` neighbours along the innermost dimension, along which every operand lies without gaps, one position.
    pub fn in_units_of(&mut self, unit: i64) {
        let Some(last) = self.n_dims.checked_sub(1) else { return };
        self.rows[last] /= unit;
        for row in self.rows.chunks_exact_mut(self.n_dims).skip(1) {
            row[..last].iter_mut().for_each(|stride| *stride /= unit);
        }
    }

    /// The innermost stride of an operand; zero of an empty nest.
    pub fn inner_stride(&self, operand: usize) -> i64 {
        self.strides(operand).last().copied().unwrap_or(0)
    }

    /// The kernel's parameter; merges first.
    pub fn geo(self, op: &str) -> Result<Geo> {
        self.merged().geo_unmerged(op)
    }

    /// The kernel's parameter with the dimensions as they are.
    pub fn geo_unmerged(&self, op: &str) -> Result<Geo> {
        let nd = self.n_dims;
        if nd > MAX_DIMS {
            let sizes = self.sizes();
            return Err(Error::not_implemented(format!(
                "{op}: CUDA kernels walk at most {MAX_DIMS} dimensions that cannot be merged, got {nd} (sizes {sizes:?})"
            )));
        }
        let mut geo = Geo::flat(self.n(), self.n_operands);
        geo.0[1] = nd as i64;
        for (to, row) in geo.0[2..].chunks_exact_mut(MAX_DIMS).zip(self.rows.chunks_exact(nd.max(1))) {
            to[..nd].copy_from_slice(row);
        }
        Ok(geo)
    }
}

/// The words of the kernels' `Geo<K>`: n, (nd, padding), sizes, strides of each operand.
pub struct Geo(SmallVec<[i64; 2 + 5 * MAX_DIMS]>);

impl Geo {
    /// Of positions that no dimensions tell apart.
    pub fn flat(n: i64, n_operands: usize) -> Geo {
        let mut words = SmallVec::from_elem(0, 2 + (1 + n_operands) * MAX_DIMS);
        words[0] = n;
        Geo(words)
    }

    pub fn n(&self) -> i64 {
        self.0[0]
    }
}

impl Argument for Geo {
    fn place(&self) -> Place<'_> {
        Place::of(self.0.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_what_every_operand_walks_as_one() {
        let n = Nest::new(&[2, 3, 1, 4], &[&[12, 4, 99, 1], &[0, 4, 0, 1]]).merged();
        assert_eq!((n.sizes(), n.strides(1)), (&[2i64, 12][..], &[0i64, 1][..]));
        assert_eq!(Nest::new(&[], &[&[]]).merged().n(), 1);
        assert_eq!(Nest::new(&[3, 0], &[&[1, 1]]).merged().n(), 0);
    }

    #[test]
    fn transposed_operands_become_flat() {
        let n = Nest::new(&[3, 4], &[&[1, 3], &[1, 3]]).ordered().merged();
        assert_eq!((n.sizes(), n.strides(0)), (&[12i64][..], &[1i64][..]));
    }

    #[test]
    fn words_are_the_struct() {
        let g = Nest::new(&[2, 3], &[&[9, 2]]).geo("test").unwrap();
        assert_eq!(g.0.len(), 2 + 2 * MAX_DIMS);
        assert_eq!((g.n(), g.0[1], g.0[2], g.0[3]), (6, 2, 2, 3));
        assert_eq!((g.0[2 + MAX_DIMS], g.0[3 + MAX_DIMS]), (9, 2));
        let many = vec![2i64; 13];
        let strides: Vec<i64> = (0..13).map(|i| 3i64.pow(i)).collect();
        assert!(Nest::new(&many, &[&strides]).geo("test").is_err());
    }
}
