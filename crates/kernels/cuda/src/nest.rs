//! The loop nest of strided operands as kernels get it: dimensions merged, by value in the launch's parameters.

use crate::launch::{Argument, Place};
use crate::text::MAX_DIMS;
use oneflow_base::{Dims, Error, Result};
use oneflow_kernels_prim::View;
use smallvec::SmallVec;

/// Sizes and every operand's strides, outermost first.
#[derive(Clone, Debug)]
pub struct Nest {
    pub sizes: Dims,
    pub strides: SmallVec<[Dims; 4]>,
}

impl Nest {
    pub fn new(sizes: &[i64], strides: &[&[i64]]) -> Nest {
        Nest { sizes: sizes.into(), strides: strides.iter().map(|s| Dims::from_slice(s)).collect() }
    }

    /// The nest of views of equal sizes.
    pub fn of(views: &[&View<'_>]) -> Nest {
        let sizes = views.first().map_or(&[][..], |v| v.sizes);
        Nest { sizes: sizes.into(), strides: views.iter().map(|v| Dims::from_slice(v.strides)).collect() }
    }

    /// Number of positions.
    pub fn n(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// Takes a dimension out: its size and strides. A 0-dim nest has one element along any dimension.
    pub fn take(&mut self, dim: usize) -> (i64, SmallVec<[i64; 4]>) {
        if dim >= self.sizes.len() {
            return (1, SmallVec::from_elem(0, self.strides.len()));
        }
        (self.sizes.remove(dim), self.strides.iter_mut().map(|s| s.remove(dim)).collect())
    }

    /// The other dimensions, and one alone.
    pub fn without(&self, dim: usize) -> (Nest, Nest) {
        self.partition(|d| d != dim)
    }

    /// The nest's first `n` dimensions, and the rest.
    pub fn split(&self, n: usize) -> (Nest, Nest) {
        let part = |r: std::ops::Range<usize>| Nest {
            sizes: self.sizes[r.clone()].into(),
            strides: self.strides.iter().map(|s| Dims::from_slice(&s[r.clone()])).collect(),
        };
        (part(0..n), part(n..self.sizes.len()))
    }

    /// The dimensions for which `first` holds, and the others.
    pub fn partition(&self, first: impl Fn(usize) -> bool) -> (Nest, Nest) {
        let pick = |want: bool| {
            let dims = (0..self.sizes.len()).filter(|d| first(*d) == want);
            Nest {
                sizes: dims.clone().map(|d| self.sizes[d]).collect(),
                strides: self.strides.iter().map(|s| dims.clone().map(|d| s[d]).collect()).collect(),
            }
        };
        (pick(true), pick(false))
    }

    /// Orders dimensions by the first operand's strides, widest first: for work whose order does not matter.
    pub fn ordered(mut self) -> Nest {
        let mut order: SmallVec<[usize; 8]> = (0..self.sizes.len()).collect();
        order.sort_by_key(|&d| std::cmp::Reverse(self.strides.first().map_or(0, |s| s[d].unsigned_abs())));
        self.sizes = order.iter().map(|&d| self.sizes[d]).collect();
        for s in &mut self.strides {
            *s = order.iter().map(|&d| s[d]).collect();
        }
        self
    }

    /// Drops dimensions of size one and merges neighbours that every operand walks as one.
    pub fn merged(mut self) -> Nest {
        let mut last = 0;
        for d in 0..self.sizes.len() {
            let n = self.sizes[d];
            if n == 1 {
                continue;
            }
            if last > 0 && self.strides.iter().all(|s| s[last - 1] == s[d] * n) {
                self.sizes[last - 1] *= n;
                self.strides.iter_mut().for_each(|s| s[last - 1] = s[d]);
            } else {
                self.sizes[last] = n;
                self.strides.iter_mut().for_each(|s| s[last] = s[d]);
                last += 1;
            }
        }
        self.sizes.truncate(last);
        self.strides.iter_mut().for_each(|s| s.truncate(last));
        self
    }

    /// Makes `width` elements of the innermost dimension one position, where all operands allow it: each lies there without
    /// gaps, in accesses that are aligned, or has one number. Returns a bit for each operand that lies along; zero where the nest
    /// stays as it is. Operands from `first_out` on are written: they must lie along.
    pub fn pack(&mut self, views: &[View<'_>], first_out: usize, width: i64) -> u32 {
        let Some(last) = self.sizes.len().checked_sub(1) else { return 0 };
        let mut along = 0;
        for (k, (strides, v)) in self.strides.iter().zip(views).enumerate() {
            match strides[last] {
                1 => along |= 1 << k,
                0 if k < first_out => continue,
                _ => return 0,
            }
            let access = (v.dtype.size() * width as usize).min(16);
            let apart = strides[..last].iter().all(|s| s % width == 0);
            if !apart || !(v.ptr as usize).is_multiple_of(access) {
                return 0;
            }
        }
        if self.sizes[last] % width != 0 {
            return 0;
        }
        self.sizes[last] /= width;
        self.strides.iter_mut().for_each(|s| s[last] *= width);
        along
    }

    /// The innermost stride of an operand; zero of an empty nest.
    pub fn inner_stride(&self, operand: usize) -> i64 {
        self.strides[operand].last().copied().unwrap_or(0)
    }

    /// The kernel's parameter; merges first.
    pub fn geo(self, op: &str) -> Result<Geo> {
        self.merged().geo_unmerged(op)
    }

    /// The kernel's parameter with the dimensions as they are.
    pub fn geo_unmerged(&self, op: &str) -> Result<Geo> {
        let nd = self.sizes.len();
        if nd > MAX_DIMS {
            let sizes = &self.sizes;
            return Err(Error::not_implemented(format!(
                "{op}: CUDA kernels walk at most {MAX_DIMS} dimensions that cannot be merged, got {nd} (sizes {sizes:?})"
            )));
        }
        let mut words: SmallVec<[i64; 2 + 5 * MAX_DIMS]> = SmallVec::new();
        words.extend([self.n(), nd as i64]);
        for dims in std::iter::once(&self.sizes).chain(&self.strides) {
            words.extend((0..MAX_DIMS).map(|d| dims.get(d).copied().unwrap_or(0)));
        }
        Ok(Geo(words))
    }
}

/// The words of the kernels' `Geo<K>`: n, (nd, padding), sizes, strides of each operand.
pub struct Geo(SmallVec<[i64; 2 + 5 * MAX_DIMS]>);

impl Geo {
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
        assert_eq!((n.sizes.as_slice(), n.strides[1].as_slice()), (&[2i64, 12][..], &[0i64, 1][..]));
        assert_eq!(Nest::new(&[], &[&[]]).merged().n(), 1);
        assert_eq!(Nest::new(&[3, 0], &[&[1, 1]]).merged().n(), 0);
    }

    #[test]
    fn transposed_operands_become_flat() {
        let n = Nest::new(&[3, 4], &[&[1, 3], &[1, 3]]).ordered().merged();
        assert_eq!((n.sizes.as_slice(), n.strides[0].as_slice()), (&[12i64][..], &[1i64][..]));
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
