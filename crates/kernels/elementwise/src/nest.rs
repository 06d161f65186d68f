//! A loop nest over several strided operands, with dimensions ordered and merged for the memory they walk.
//!
//! Unlike `prim::rows::Grid` the number of operands is a run-time number and the order of the dimensions is free: for
//! kernels whose result does not depend on the order in which elements are visited.

use smallvec::SmallVec;

/// Offsets of the operands at a position, in elements.
pub type Offsets = SmallVec<[isize; 4]>;

/// Sizes outermost first; operand `k`'s stride of dimension `d` at `strides[d * n_operands + k]`.
#[derive(Debug)]
pub struct Nest {
    pub sizes: SmallVec<[usize; 6]>,
    strides: SmallVec<[isize; 24]>,
    n_operands: usize,
}

impl Nest {
    /// Drops dimensions of size one, orders the others by the operands' strides (the first operand decides, the next
    /// where it is zero) and merges those all operands walk as one.
    pub fn new(sizes: &[i64], operands: &[&[i64]]) -> Nest {
        let k = operands.len();
        let mut order: SmallVec<[usize; 8]> = (0..sizes.len()).filter(|d| sizes[*d] != 1).collect();
        let outer_first = |&a: &usize, &b: &usize| {
            for s in operands {
                let (x, y) = (s[a].unsigned_abs(), s[b].unsigned_abs());
                if x != y && x != 0 && y != 0 {
                    return y.cmp(&x);
                }
            }
            a.cmp(&b)
        };
        // Insertion sort: few dimensions, and a comparison that need not be transitive (zero strides abstain).
        for i in 1..order.len() {
            let mut j = i;
            while j > 0 && outer_first(&order[j - 1], &order[j]).is_gt() {
                order.swap(j - 1, j);
                j -= 1;
            }
        }
        let mut nest = Nest { sizes: SmallVec::new(), strides: SmallVec::new(), n_operands: k };
        for d in order {
            let size = sizes[d];
            let at = nest.strides.len().wrapping_sub(k);
            let merges = !nest.sizes.is_empty()
                && (0..k).all(|o| nest.strides[at + o] == operands[o][d] as isize * size as isize);
            if merges {
                if let Some(last) = nest.sizes.last_mut() {
                    *last *= size as usize;
                }
                (0..k).for_each(|o| nest.strides[at + o] = operands[o][d] as isize);
            } else {
                nest.sizes.push(size as usize);
                nest.strides.extend(operands.iter().map(|s| s[d] as isize));
            }
        }
        if nest.sizes.is_empty() {
            nest.sizes.push(1);
            nest.strides.extend(std::iter::repeat_n(0, k));
        }
        nest
    }

    /// A nest of the given dimensions (size, strides), as they are.
    pub fn from_dims<'a>(n_operands: usize, dims: impl Iterator<Item = (usize, &'a [isize])>) -> Nest {
        let mut nest = Nest { sizes: SmallVec::new(), strides: SmallVec::new(), n_operands };
        for (size, strides) in dims {
            nest.sizes.push(size);
            nest.strides.extend_from_slice(strides);
        }
        if nest.sizes.is_empty() {
            nest.sizes.push(1);
            nest.strides.extend(std::iter::repeat_n(0, n_operands));
        }
        nest
    }

    #[inline]
    pub fn ndim(&self) -> usize {
        self.sizes.len()
    }
    /// The operands' strides in a dimension.
    #[inline]
    pub fn strides(&self, d: usize) -> &[isize] {
        &self.strides[d * self.n_operands..(d + 1) * self.n_operands]
    }
    /// Size of the innermost dimension.
    #[inline]
    pub fn inner(&self) -> usize {
        self.sizes[self.ndim() - 1]
    }
    /// The operands' strides in the innermost dimension.
    #[inline]
    pub fn inner_strides(&self) -> &[isize] {
        self.strides(self.ndim() - 1)
    }
    /// Number of positions of all dimensions but the last `skip`.
    #[inline]
    pub fn rows(&self, skip: usize) -> usize {
        self.sizes[..self.ndim() - skip].iter().product()
    }
    /// A walk over the rows (all dimensions but the last `skip`) beginning at `row`.
    pub fn walk(&self, skip: usize, row: usize) -> Walk<'_> {
        let nd = self.ndim() - skip;
        let mut w =
            Walk { nest: self, at: SmallVec::from_elem(0, nd), offsets: SmallVec::from_elem(0, self.n_operands) };
        let mut rest = row;
        for d in (0..nd).rev() {
            // Where nothing lies the walk stands at the beginning.
            let size = self.sizes[d].max(1);
            let i = rest % size;
            rest /= size;
            w.at[d] = i;
            for (o, s) in w.offsets.iter_mut().zip(self.strides(d)) {
                *o += i as isize * s;
            }
        }
        w
    }
}

/// A position in a nest.
#[derive(Clone)]
pub struct Walk<'a> {
    nest: &'a Nest,
    at: SmallVec<[usize; 6]>,
    pub offsets: Offsets,
}

impl Walk<'_> {
    /// Goes on to the next row; after the last one it is at the first again.
    #[inline]
    pub fn next(&mut self) {
        for d in (0..self.at.len()).rev() {
            self.at[d] += 1;
            let strides = self.nest.strides(d);
            if self.at[d] < self.nest.sizes[d] {
                for (o, s) in self.offsets.iter_mut().zip(strides) {
                    *o += s;
                }
                return;
            }
            let back = self.at[d] as isize - 1;
            self.at[d] = 0;
            for (o, s) in self.offsets.iter_mut().zip(strides) {
                *o -= back * s;
            }
        }
    }
}
