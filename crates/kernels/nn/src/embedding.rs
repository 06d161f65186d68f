//! EMBEDDING moves rows; its backward sums rows of the gradient, in index order, in the compute dtype.

use crate::mem::{Float, by_float, with_scratch};
use oneflow_base::{DType, Error, Result};
use oneflow_kernels_prim::rows::{Grid, Shared, copy_run, split};
use oneflow_kernels_prim::{Launch, Simd, View, WithSimd, dispatch, isa};
use smallvec::SmallVec;

/// Rows of the local part of the table by index position; -1 where another part holds the row.
type LocalRows = SmallVec<[i64; 128]>;

fn local_rows(index: &View, start: i64, total: i64, n_rows: i64, dim_name: &str) -> Result<LocalRows> {
    let mut rows = LocalRows::with_capacity(index.numel());
    let out_of_bounds = |i: i64| Error::index(format!("index {i} is out of bounds for dimension 0 with size {total}"));
    let local = |i: i64| if ((i - start) as u64) < n_rows as u64 { i - start } else { -1 };
    if index.dtype == DType::I64 && index.is_contiguous() {
        // SAFETY: a contiguous view is valid for its number of elements.
        let all = unsafe { std::slice::from_raw_parts(index.ptr.cast::<i64>(), index.numel()) };
        let outside = |i: i64| i as u64 >= total as u64;
        if all.iter().fold(false, |any, &i| any | outside(i)) {
            let bad = all.iter().copied().find(|&i| outside(i));
            return Err(out_of_bounds(bad.unwrap_or_default()));
        }
        rows.extend(all.iter().map(|&i| local(i)));
        return Ok(rows);
    }
    let grid = Grid::new(index.sizes, [index.strides]);
    let mut bad = None;
    let mut add = |i: i64| {
        if (i as u64) >= total as u64 && bad.is_none() {
            bad = Some(i);
        }
        rows.push(local(i));
    };
    let all = 0..grid.len();
    match index.dtype {
        DType::I64 => grid.each(all, |_, [o]| {
            // SAFETY: the grid yields offsets inside the view.
            add(unsafe { *index.ptr.cast::<i64>().offset(o) })
        }),
        DType::I32 => grid.each(all, |_, [o]| {
            // SAFETY: the grid yields offsets inside the view.
            add(unsafe { *index.ptr.cast::<i32>().offset(o) } as i64)
        }),
        d => return Err(Error::runtime(format!("{dim_name}: expected indices of dtype int64 or int32, but got {d}"))),
    }
    match bad {
        None => Ok(rows),
        Some(i) => Err(out_of_bounds(i)),
    }
}

/// The positions of a [..., d] view, and its rows' elements.
fn positions(v: &View) -> (Grid<1>, usize, isize) {
    let last = v.ndim() - 1;
    (Grid::new(&v.sizes[..last], [&v.strides[..last]]), v.sizes[last] as usize, v.strides[last] as isize)
}

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let (weight, index, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let rows = local_rows(&index, l.param(0)?.i64(), l.param(1)?.i64(), weight.sizes[0], "embedding")?;
    let (grid, d, step) = positions(&out);
    let (down, from_step) = (weight.strides[0] as isize, weight.strides[1] as isize);
    fn zero<T: Copy>() -> T {
        // SAFETY: the types below are integers and arrays of integers.
        unsafe { std::mem::zeroed() }
    }
    macro_rules! run {
        ($T:ty) => {{
            let (w, out) = (Shared::<$T>::new(weight.ptr), Shared::<$T>::new(out.ptr));
            split(grid.len(), (d * size_of::<$T>()) as f64 * 0.08 + 5.0, &|r| {
                grid.each(r, |i, [off]| {
                    let (o, row) = (out.at(off), rows[i]);
                    // SAFETY: the row lies in the table, the position in the output; tasks own whole positions.
                    unsafe {
                        let s = w.at(row as isize * down);
                        if row >= 0 && step == 1 && from_step == 1 {
                            copy_run(s.cast_const(), o, d);
                            return;
                        }
                        for j in 0..d as isize {
                            *o.offset(j * step) = if row < 0 { zero() } else { *s.offset(j * from_step) };
                        }
                    }
                });
            });
        }};
    }
    match out.dtype.size() {
        1 => run!(u8),
        2 => run!(u16),
        4 => run!(u32),
        8 => run!(u64),
        _ => run!([u64; 2]),
    }
    Ok(())
}

pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let (g, index, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let (start, total, padding) = (l.param(0)?.i64(), l.param(1)?.i64(), l.param(2)?.i64());
    let rows = local_rows(&index, start, total, out.sizes[0], "embedding_backward")?;
    // (row, position) pairs in order: every row's positions lie together, first to last.
    let mut pairs: SmallVec<[(u32, u32); 128]> = SmallVec::with_capacity(rows.len());
    let padding = if padding < 0 { -1 } else { padding - start };
    if out.sizes[0] > u32::MAX as i64 || rows.len() > u32::MAX as usize {
        return Err(Error::not_implemented("embedding_backward: more than 2^32 rows or indices"));
    }
    pairs.extend(
        rows.iter().enumerate().filter(|(_, r)| **r >= 0 && **r != padding).map(|(i, r)| (*r as u32, i as u32)),
    );
    pairs.sort_unstable();
    // SAFETY: the views are valid by the launch's contract.
    by_float!("embedding_backward", out.dtype, T => { unsafe { sums::<T>(&g, &out, &pairs) }; Ok(()) })
}

unsafe fn sums<T: Float>(g: &View, out: &View, pairs: &[(u32, u32)]) {
    let (grid, d, g_step) = positions(g);
    let (down, step) = (out.strides[0] as isize, out.strides[1] as isize);
    let v = out.sizes[0] as usize;
    // Offsets of the positions: one stride, or by the grid.
    let (inner, [stride]) = grid.inner();
    let flat = inner == grid.len();
    let (g, out, isa) = (Shared::<T>::new(g.ptr), Shared::<T>::new(out.ptr), isa());
    let ns = (0.1 * size_of::<T>() as f64 + 0.3 * pairs.len() as f64 / v.max(1) as f64) * d as f64 + 1.0;
    split(v, ns, &|range| {
        with_scratch(d * (size_of::<T::Acc>() + size_of::<T>()), |scratch| {
            let acc = scratch.cast::<T::Acc>();
            let gathered = acc.wrapping_add(d).cast::<T>();
            let mut at = pairs.partition_point(|p| (p.0 as usize) < range.start);
            for row in range {
                let o = out.at(row as isize * down);
                let end = at + pairs[at..].iter().take_while(|p| p.0 as usize == row).count();
                // SAFETY: rows and positions lie in their views; scratch holds a row of each type; all-zero bits are zero.
                unsafe {
                    if at == end {
                        match step {
                            1 => o.write_bytes(0, d),
                            _ => (0..d as isize).for_each(|j| o.offset(j * step).write_bytes(0, 1)),
                        }
                        continue;
                    }
                    acc.write_bytes(0, d);
                    for p in &pairs[at..end] {
                        let mut off = p.1 as isize * stride;
                        if !flat {
                            grid.each(p.1 as usize..p.1 as usize + 1, |_, [o]| off = o);
                        }
                        let mut row = g.at(off).cast_const();
                        if g_step != 1 {
                            (0..d as isize).for_each(|j| *gathered.offset(j) = *row.offset(j * g_step));
                            row = gathered;
                        }
                        dispatch(isa, AddRow::<T> { acc, row, n: d });
                    }
                    (0..d).for_each(|j| *o.offset(j as isize * step) = T::put(*acc.add(j)));
                }
                at = end;
            }
        })
    });
}

/// `acc += row`.
struct AddRow<T: Float> {
    acc: *mut T::Acc,
    row: *const T,
    n: usize,
}

impl<T: Float> WithSimd for AddRow<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        use crate::mem::{Reg, by_register, load, store};
        // SAFETY: both hold n elements.
        unsafe {
            by_register!(Reg<S, T>, self.n, |i, k, _u| {
                let p = self.acc.add(i);
                store(load::<Reg<S, T>>(p, k) + T::load::<S>(self.row.add(i), k), p, k);
            });
        }
    }
}
