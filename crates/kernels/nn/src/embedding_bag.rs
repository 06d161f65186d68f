//! EMBEDDING_BAG: rows of a table summed, averaged or compared by bag, where they lie. Its gradient is a composition.
//!
//! A bag's rows are added in order, so that no result depends on the number of threads.

use crate::embedding::{PADDING, Part, ints};
use crate::mem::with_scratch;
use oneflow_base::{Error, Result, by_float};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{
    Acc, BagMode, EmbeddingBagParams, Float, Lanes, Launch, Reg, Register, Simd, View, WithSimd, dispatch, isa,
};
use std::ops::Range;

/// Which positions of the indices a bag holds.
enum Bags {
    /// So many each.
    Even(usize),
    /// From one bound to the next.
    Bounds(Box<[i64]>),
}

impl Bags {
    #[inline(always)]
    fn of(&self, bag: usize) -> Range<usize> {
        match self {
            Bags::Even(n) => bag * n..(bag + 1) * n,
            Bags::Bounds(b) => b[bag] as usize..b[bag + 1] as usize,
        }
    }
}

fn bags(index: &View, offsets: Option<View>, last_is_end: bool) -> Result<Bags> {
    let Some(offsets) = offsets else {
        return Ok(Bags::Even(index.sizes[1] as usize));
    };
    let total = index.numel() as i64;
    let mut bounds = ints(&offsets, "embedding_bag")?;
    if let Some(&first) = bounds.first().filter(|o| **o != 0) {
        return Err(Error::runtime(format!(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got {first}"
        )));
    }
    if let Some(&last) = bounds.last().filter(|o| **o > total) {
        return Err(Error::runtime(format!(
            "offsets[-1] can not be greater than input's length({total}) but got offsets[-1] of {last}"
        )));
    }
    if bounds.windows(2).any(|w| w[0] > w[1]) {
        return Err(Error::runtime("embedding_bag: offsets must not decrease"));
    }
    if !last_is_end {
        bounds.push(total);
    }
    Ok(Bags::Bounds(bounds.into_boxed_slice()))
}

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let (weight, index, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let EmbeddingBagParams { mode, padding, last_offset_is_end, start, total } = l.read()?;
    let part = Part { padding, start, total, n_rows: weight.sizes[0] };
    let rows = part.rows(&index, "embedding_bag", |i| {
        Error::runtime(format!("embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {i}"))
    })?;
    let bags = bags(&index, l.opt_input(2), last_offset_is_end)?;
    let (n_bags, d) = (out.sizes[0] as usize, out.sizes[1] as usize);
    let ns = (rows.len() as f64 / n_bags.max(1) as f64 + 1.0) * (d as f64 * 0.1 + 2.0);
    let chosen = l.opt_output(1);
    by_float!("embedding_bag", out.dtype, T => {
        // SAFETY: the views are valid by the launch's contract, and the rows lie in the table.
        let factors = unsafe { factors::<T>(l.opt_input(3)) };
        let job = Job::<T> {
            weight: Shared::new(weight.ptr),
            down: weight.strides[0] as isize,
            right: weight.strides[1] as isize,
            rows: &rows,
            bags: &bags,
            factors: &factors,
            mean: mode == BagMode::Mean,
            out: Shared::new(out.ptr),
            out_strides: [out.strides[0] as isize, out.strides[1] as isize],
            d,
        };
        match (mode, chosen) {
            (BagMode::Max, Some(chosen)) => {
                let (to, strides) = (Shared::new(chosen.ptr), [chosen.strides[0] as isize, chosen.strides[1] as isize]);
                split(n_bags, 4.0 * ns, &|r| job.max(r, to, strides))
            }
            (BagMode::Max, None) => return Err(Error::runtime("embedding_bag: a maximum without a place for its indices")),
            _ => split(n_bags, ns, &|r| dispatch(isa(), Sums { job: &job, bags: r })),
        }
        Ok(())
    })
}

/// The rows' factors in the compute dtype, in the order of the indices; none where there are none.
unsafe fn factors<T: Float>(v: Option<View>) -> Vec<T::Acc> {
    let Some(v) = v else { return Vec::new() };
    let grid = Grid::new(v.sizes, [v.strides]);
    let mut all = Vec::with_capacity(grid.len());
    // SAFETY: the grid yields offsets inside the view.
    grid.each(0..grid.len(), |_, [o]| all.push(unsafe { *v.ptr.cast::<T>().offset(o) }.widen()));
    all
}

struct Job<'a, T: Float> {
    weight: Shared<T>,
    down: isize,
    right: isize,
    /// By position: the row, or why there is none.
    rows: &'a [i64],
    bags: &'a Bags,
    factors: &'a [T::Acc],
    mean: bool,
    out: Shared<T>,
    out_strides: [isize; 2],
    d: usize,
}

struct Sums<'a, T: Float> {
    job: &'a Job<'a, T>,
    bags: Range<usize>,
}

impl<T: Float> WithSimd for Sums<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let job = self.job;
        let plain = job.right == 1 && job.out_strides[1] == 1;
        for bag in self.bags {
            let at = job.bags.of(bag);
            let rows = &job.rows[at.clone()];
            let n = if job.mean { rows.iter().filter(|r| **r != PADDING).count().max(1) } else { 1 };
            let factors = job.factors.get(at).unwrap_or(&[]);
            let scale = T::Acc::of(1.0 / n as f64);
            let out = job.out.at(bag as isize * job.out_strides[0]);
            // SAFETY: rows lie in the table, bags in the output; tasks own whole bags.
            unsafe {
                match (plain, factors.is_empty()) {
                    (true, true) => job.sum::<S, false>(rows, factors, scale, out),
                    (true, false) => job.sum::<S, true>(rows, factors, scale, out),
                    _ => job.sum_strided(rows, factors, scale, out),
                }
            }
        }
    }
}

impl<T: Float> Job<'_, T> {
    /// One bag: four registers of columns at a time, then one by one.
    #[inline(always)]
    unsafe fn sum<S: Simd, const FACTORS: bool>(&self, rows: &[i64], factors: &[T::Acc], scale: T::Acc, out: *mut T) {
        let (width, mut col) = (Reg::<S, T>::WIDTH, 0);
        // SAFETY: columns below d lie in the rows and in the output.
        unsafe {
            while col + 4 * width <= self.d {
                self.strip::<S, FACTORS, 4>(rows, factors, scale, col, width, out);
                col += 4 * width;
            }
            while col + width <= self.d {
                self.strip::<S, FACTORS, 1>(rows, factors, scale, col, width, out);
                col += width;
            }
            if col < self.d {
                self.strip::<S, FACTORS, 1>(rows, factors, scale, col, self.d - col, out);
            }
        }
    }

    /// N registers of columns from `col` on, `k` elements of each: constant where they are full.
    #[inline(always)]
    unsafe fn strip<S: Simd, const FACTORS: bool, const N: usize>(
        &self,
        rows: &[i64],
        factors: &[T::Acc],
        scale: T::Acc,
        col: usize,
        k: usize,
        out: *mut T,
    ) {
        let mut acc = [Reg::<S, T>::all_of(T::Acc::of(0.0)); N];
        for (i, &row) in rows.iter().enumerate().filter(|(_, row)| **row >= 0) {
            let from = self.weight.at(row as isize * self.down + col as isize);
            for (u, a) in acc.iter_mut().enumerate() {
                // SAFETY: the caller's columns of a row of the table.
                let v = unsafe { T::load_n::<S>(from.add(u * Reg::<S, T>::WIDTH), k) };
                *a = if FACTORS { v.fma(Reg::<S, T>::all_of(factors[i]), *a) } else { *a + v };
            }
        }
        for (u, a) in acc.into_iter().enumerate() {
            let a = if self.mean { a * Reg::<S, T>::all_of(scale) } else { a };
            // SAFETY: the caller's columns of the bag.
            unsafe { T::store_n::<S>(a, out.add(col + u * Reg::<S, T>::WIDTH), k) };
        }
    }

    /// One bag of a table, or for an output, whose columns are not neighbours.
    unsafe fn sum_strided(&self, rows: &[i64], factors: &[T::Acc], scale: T::Acc, out: *mut T) {
        for col in 0..self.d as isize {
            let mut acc = T::Acc::of(0.0);
            for (k, &row) in rows.iter().enumerate().filter(|(_, row)| **row >= 0) {
                // SAFETY: the caller's row, a column of it.
                let v = unsafe { *self.weight.at(row as isize * self.down + col * self.right) }.widen();
                acc = acc + v * factors.get(k).copied().unwrap_or(T::Acc::of(1.0));
            }
            // SAFETY: a column of the caller's bag.
            unsafe { *out.offset(col * self.out_strides[1]) = T::narrow(acc * scale) };
        }
    }

    /// Bags' greatest elements and whose they are: the first's among equals; NaN wins.
    fn max(&self, bags: Range<usize>, chosen: Shared<i64>, [c_down, c_right]: [isize; 2]) {
        with_scratch(self.d * (size_of::<T::Acc>() + size_of::<i64>()), |scratch| {
            let best = scratch.cast::<i64>();
            // SAFETY: scratch holds a row of indices and one of numbers; rows lie in the table, bags in the outputs.
            unsafe {
                let top = best.add(self.d).cast::<T::Acc>();
                for bag in bags {
                    (0..self.d).for_each(|j| {
                        *best.add(j) = -1;
                        *top.add(j) = T::Acc::of(f64::NEG_INFINITY);
                    });
                    for &row in self.rows[self.bags.of(bag)].iter().filter(|r| **r >= 0) {
                        let from = self.weight.at(row as isize * self.down);
                        for j in 0..self.d {
                            let (v, t) = ((*from.offset(j as isize * self.right)).widen(), *top.add(j));
                            if *best.add(j) < 0 || v > t || is_nan(v) && !is_nan(t) {
                                *top.add(j) = v;
                                *best.add(j) = row;
                            }
                        }
                    }
                    for j in 0..self.d {
                        let (i, v) = (*best.add(j), *top.add(j));
                        let at = bag as isize * self.out_strides[0] + j as isize * self.out_strides[1];
                        *self.out.at(at) = T::narrow(if i < 0 { T::Acc::of(0.0) } else { v });
                        *chosen.at(bag as isize * c_down + j as isize * c_right) = i;
                    }
                }
            }
        })
    }
}

#[inline(always)]
fn is_nan<A: Acc>(v: A) -> bool {
    v.partial_cmp(&v).is_none()
}
