//! EMBEDDING moves rows; its backward sums rows of the gradient, in index order, in the compute dtype.

use crate::mem::with_scratch;
use oneflow_base::{DType, Error, Result, by_float};
use oneflow_kernels_prim::rows::{Grid, Shared, copy_run, split};
use oneflow_kernels_prim::{
    EmbeddingBackwardParams, EmbeddingParams, Float, Launch, Simd, View, WithSimd, dispatch, isa,
};
use smallvec::SmallVec;

/// Integers of an index tensor, or the rows they lead to; inline for short ones.
pub type Ints = SmallVec<[i64; 128]>;

/// What stands for an index whose row lies in another part of the table, and for one that takes no part.
pub const ELSEWHERE: i64 = -1;
pub const PADDING: i64 = -2;

/// The elements of an index tensor in row-major order.
pub fn ints(v: &View, name: &str) -> Result<Ints> {
    if v.dtype == DType::I64 && v.is_contiguous() {
        // SAFETY: a contiguous view is valid for its number of elements.
        return Ok(Ints::from_slice(unsafe { std::slice::from_raw_parts(v.ptr.cast(), v.numel()) }));
    }
    let grid = Grid::new(v.sizes, [v.strides]);
    let mut all = Ints::with_capacity(grid.len());
    match v.dtype {
        DType::I64 => grid.each(0..grid.len(), |_, [o]| {
            // SAFETY: the grid yields offsets inside the view.
            all.push(unsafe { *v.ptr.cast::<i64>().offset(o) })
        }),
        DType::I32 => grid.each(0..grid.len(), |_, [o]| {
            // SAFETY: as above.
            all.push(unsafe { *v.ptr.cast::<i32>().offset(o) } as i64)
        }),
        d => return Err(Error::runtime(format!("{name}: expected indices of dtype int64 or int32, but got {d}"))),
    }
    Ok(all)
}

/// A part of a table split by rows: the rows `start..start + n_rows` of `total`.
pub struct Part {
    pub start: i64,
    pub n_rows: i64,
    pub total: i64,
    /// The index that takes no part, -1: none.
    pub padding: i64,
}

impl Part {
    /// Rows of this part by index position.
    pub fn rows(&self, index: &View, name: &str, bad: impl Fn(i64) -> Error) -> Result<Ints> {
        let mut rows = ints(index, name)?;
        let outside = |i: i64| i as u64 >= self.total as u64;
        if rows.iter().fold(false, |any, &i| any | outside(i)) {
            return Err(bad(rows.iter().copied().find(|&i| outside(i)).unwrap_or_default()));
        }
        for i in rows.iter_mut() {
            let row = *i - self.start;
            *i = match (row as u64) < self.n_rows as u64 {
                _ if *i == self.padding => PADDING,
                true => row,
                false => ELSEWHERE,
            };
        }
        Ok(rows)
    }

    fn out_of_bounds(&self) -> impl Fn(i64) -> Error + use<> {
        let total = self.total;
        move |i| Error::index(format!("index {i} is out of bounds for dimension 0 with size {total}"))
    }
}

/// The positions of a [..., d] view, and its rows' elements.
fn positions(v: &View) -> (Grid<1>, usize, isize) {
    let last = v.ndim() - 1;
    (Grid::new(&v.sizes[..last], [&v.strides[..last]]), v.sizes[last] as usize, v.strides[last] as isize)
}

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let (weight, index, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let EmbeddingParams { start, total } = l.read()?;
    let part = Part { start, n_rows: weight.sizes[0], total, padding: PADDING };
    let rows = part.rows(&index, "embedding", part.out_of_bounds())?;
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
    let EmbeddingBackwardParams { start, total, padding } = l.read()?;
    let part = Part { start, n_rows: out.sizes[0], total, padding };
    let rows = part.rows(&index, "embedding_backward", part.out_of_bounds())?;
    // (row, position) pairs in order: every row's positions lie together, first to last.
    let mut pairs: SmallVec<[(u32, u32); 128]> = SmallVec::with_capacity(rows.len());
    if out.sizes[0] > u32::MAX as i64 || rows.len() > u32::MAX as usize {
        return Err(Error::not_implemented("embedding_backward: more than 2^32 rows or indices"));
    }
    pairs.extend(rows.iter().enumerate().filter(|(_, r)| **r >= 0).map(|(i, r)| (*r as u32, i as u32)));
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
                    (0..d).for_each(|j| *o.offset(j as isize * step) = T::narrow(*acc.add(j)));
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
        use crate::mem::by_register;
        use oneflow_kernels_prim::{Reg, Register};
        // SAFETY: both hold n elements.
        unsafe {
            by_register!(Reg<S, T>, self.n, |i, k, _u| {
                let p = self.acc.add(i);
                (Reg::<S, T>::load_n(p, k) + T::load_n::<S>(self.row.add(i), k)).store_n(p, k);
            });
        }
    }
}
