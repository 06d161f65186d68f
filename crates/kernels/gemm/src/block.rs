//! Products of blocks by micro-kernels, and matrices as the kernels read them: widened, rows padded to whole registers.

use crate::kernel::{Ahead, Kernels, Onto, Tile};
use crate::pack::{Bf16Widened, F16Widened, F32, F64, Mode, Strip};
use crate::scratch::{Slot, with as with_scratch};
use oneflow_base::{bf16, f16};
use oneflow_kernels_prim::{Acc, Float, Isa, Reg, Simd, WithSimd, dispatch, isa};
use std::any::TypeId;
use std::ops::Range;

/// How a float in memory is packed for kernels that compute in its compute dtype.
pub trait GemmFloat: Float {
    type Mode: Mode<S = Self, P = Self::Acc>;
    /// How its sums are.
    type Sums: Mode<S = Self::Acc, P = Self::Acc>;
}
impl GemmFloat for f32 {
    type Mode = F32;
    type Sums = F32;
}
impl GemmFloat for f64 {
    type Mode = F64;
    type Sums = F64;
}
impl GemmFloat for bf16 {
    type Mode = Bf16Widened;
    type Sums = F32;
}
impl GemmFloat for f16 {
    type Mode = F16Widened;
    type Sums = F32;
}

/// A strided matrix in memory.
#[derive(Clone, Copy)]
pub struct Matrix<T> {
    pub ptr: *mut T,
    pub rs: isize,
    pub cs: isize,
}

impl<T> Matrix<T> {
    #[inline(always)]
    pub fn at(&self, row: usize, col: usize) -> *mut T {
        self.ptr.wrapping_offset(row as isize * self.rs + col as isize * self.cs)
    }
}

/// The micro-kernels of a stored type, on the tier in use.
pub struct Kit<T: GemmFloat> {
    isa: Isa,
    pub kernels: &'static Kernels<T::Acc, T::Acc>,
}

/// A block of numbers: its first element and the distances between rows and columns.
pub struct Block<A> {
    pub ptr: *mut A,
    pub rs: isize,
    pub cs: isize,
}

impl<A> Clone for Block<A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for Block<A> {}

impl<A> Block<A> {
    /// Rows of neighbours, `rs` apart.
    pub fn rows(ptr: *mut A, rs: usize) -> Block<A> {
        Block { ptr, rs: rs as isize, cs: 1 }
    }
    #[inline(always)]
    pub fn at(&self, row: usize, col: usize) -> *mut A {
        self.ptr.wrapping_offset(row as isize * self.rs + col as isize * self.cs)
    }
    /// The block from (row, col) on.
    #[inline(always)]
    pub fn from(&self, row: usize, col: usize) -> Block<A> {
        Block { ptr: self.at(row, col), ..*self }
    }
}

impl<T: GemmFloat> Default for Kit<T> {
    fn default() -> Self {
        Kit::new()
    }
}

impl<T: GemmFloat> Kit<T> {
    pub fn new() -> Kit<T> {
        let isa = isa();
        Kit { isa, kernels: T::Mode::kernels(isa) }
    }

    /// `n` columns as whole registers.
    pub fn padded(&self, n: usize) -> usize {
        n.next_multiple_of(self.kernels.lanes)
    }

    /// `c = alpha * a @ b` (or `c += ...`) with at most a tile's height of rows. `b` has rows of neighbours; `n` is padded.
    ///
    /// # Safety
    /// The blocks hold what is read and written; `b` and `c` have whole registers.
    #[inline]
    pub unsafe fn panel(
        &self,
        (rows, n, k): (usize, usize, usize),
        a: Block<T::Acc>,
        b: Block<T::Acc>,
        c: Block<T::Acc>,
        alpha: T::Acc,
        add: bool,
    ) {
        let ker = self.kernels;
        for col in (0..n).step_by(ker.nr) {
            let registers = (n - col).min(ker.nr) / ker.lanes;
            let tile = Tile {
                k,
                a: a.ptr,
                a_rs: a.rs,
                a_cs: a.cs,
                b: b.at(0, col),
                b_rs: b.rs,
                c: c.at(0, col),
                c_rs: c.rs,
                alpha,
                onto: Onto::c(add),
                ahead: Ahead::NOTHING,
            };
            // SAFETY: by the caller.
            unsafe { ker.table[1][rows - 1][registers - 1](&tile) };
        }
    }

    /// As `panel` with `b` as panels that `pack_transposed` made, from row `first` of what it packed on: a panel's first.
    ///
    /// # Safety
    /// As `panel`.
    #[inline]
    pub unsafe fn panel_packed(
        &self,
        shape: (usize, usize, usize),
        a: Block<T::Acc>,
        b: &Packed<T::Acc>,
        first: usize,
        c: Block<T::Acc>,
        alpha: T::Acc,
    ) {
        // SAFETY: by the caller.
        unsafe { self.packed_tiles(shape, a, b, first, c, alpha, false) }
    }

    /// As `panel_packed`, adding to `c`.
    ///
    /// # Safety
    /// As `panel`.
    #[inline]
    pub unsafe fn panel_packed_add(
        &self,
        shape: (usize, usize, usize),
        a: Block<T::Acc>,
        b: &Packed<T::Acc>,
        first: usize,
        c: Block<T::Acc>,
        alpha: T::Acc,
    ) {
        // SAFETY: by the caller.
        unsafe { self.packed_tiles(shape, a, b, first, c, alpha, true) }
    }

    #[inline]
    unsafe fn packed_tiles(
        &self,
        (rows, n, k): (usize, usize, usize),
        a: Block<T::Acc>,
        b: &Packed<T::Acc>,
        first: usize,
        c: Block<T::Acc>,
        alpha: T::Acc,
        add: bool,
    ) {
        let ker = self.kernels;
        for col in (0..n).step_by(ker.nr) {
            let registers = (n - col).min(ker.nr).div_ceil(ker.lanes);
            let (ptr, b_rs) = b.panel(first + col, ker.nr);
            let (to, c_rs) = (c.at(0, col), c.rs);
            let tile = Tile {
                k,
                a: a.ptr,
                a_rs: a.rs,
                a_cs: a.cs,
                b: ptr,
                b_rs,
                c: to,
                c_rs,
                alpha,
                onto: Onto::c(add),
                ahead: Ahead::NOTHING,
            };
            // SAFETY: by the caller.
            unsafe { ker.table[1][rows - 1][registers - 1](&tile) };
        }
    }

    /// Numbers that `pack_transposed` writes.
    pub fn packed_len(&self, rows: usize, width: usize) -> usize {
        self.padded(rows) * width + SPILL
    }

    /// Packs the transpose of `rows` rows of `width` columns.
    ///
    /// # Safety
    /// The matrix lies in memory; `dst` has room for `packed_len` numbers.
    pub unsafe fn pack_transposed(&self, m: Matrix<T>, rows: usize, width: usize, dst: *mut T::Acc) -> Packed<T::Acc> {
        let ker = self.kernels;
        for row in (0..rows).step_by(ker.nr) {
            let n = (rows - row).min(ker.nr);
            let strip = Strip { src: m.at(row, 0).cast_const(), ws: m.rs, ks: m.cs, width: n, k: width };
            // SAFETY: panels lie one after the other; the room has the spill behind it.
            unsafe { T::Mode::pack(self.isa, strip, dst.add(row * width), n.next_multiple_of(ker.lanes)) };
        }
        self.packed(dst, rows, width)
    }

    /// What `pack_transposed` has made of `rows` rows of `width` columns.
    pub fn packed(&self, ptr: *const T::Acc, rows: usize, width: usize) -> Packed<T::Acc> {
        Packed { ptr, k: width, rows, lanes: self.kernels.lanes }
    }

    /// Numbers that `as_rows` may need; none where the matrix is read in place.
    pub fn rows_len(&self, m: &Matrix<T>, rows: usize, width: usize) -> usize {
        if self.in_place(m, width) { 0 } else { rows * self.padded(width) + SPILL }
    }

    fn in_place(&self, m: &Matrix<T>, width: usize) -> bool {
        TypeId::of::<T>() == TypeId::of::<T::Acc>() && m.cs == 1 && width.is_multiple_of(self.kernels.lanes)
    }

    /// The matrix as rows of neighbours in the compute dtype, padded with zeros: itself, or a copy in `room`.
    ///
    /// # Safety
    /// The matrix lies in memory; `room` has room for `rows_len` numbers.
    pub unsafe fn as_rows(&self, m: Matrix<T>, range: Range<usize>, width: usize, room: *mut T::Acc) -> Block<T::Acc> {
        if self.in_place(&m, width) {
            return Block { ptr: m.at(range.start, 0).cast(), rs: m.rs, cs: 1 };
        }
        let to = Block::rows(room, self.padded(width));
        // SAFETY: by the caller.
        dispatch(
            isa(),
            CopyRows::<T> { from: Matrix { ptr: m.at(range.start, 0), ..m }, to, rows: range.len(), width },
        );
        to
    }
}

/// Numbers a packed matrix may be overrun by.
const SPILL: usize = 16;

/// Panels of a transposed matrix: for each run of rows, its numbers of column 0, then those of column 1 and so on.
pub struct Packed<A> {
    ptr: *const A,
    k: usize,
    rows: usize,
    lanes: usize,
}

impl<A> Packed<A> {
    /// The panel of row `row`, where one begins, and its distance between columns.
    #[inline(always)]
    fn panel(&self, row: usize, nr: usize) -> (*const A, isize) {
        let n = (self.rows - row).min(nr).next_multiple_of(self.lanes);
        (self.ptr.wrapping_add(row * self.k), n as isize)
    }
}

struct CopyRows<T: GemmFloat> {
    from: Matrix<T>,
    to: Block<T::Acc>,
    rows: usize,
    width: usize,
}

impl<T: GemmFloat> WithSimd for CopyRows<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let CopyRows { from, to, rows, width } = self;
        let lanes = <Reg<S, T> as oneflow_kernels_prim::Register>::WIDTH;
        for row in 0..rows {
            for col in width..to.rs as usize {
                // SAFETY: the padding is part of the row.
                unsafe { *to.at(row, col) = T::Acc::ZERO };
            }
            for col in (0..width).step_by(lanes) {
                let n = lanes.min(width - col);
                // SAFETY: n elements from here lie in the matrix, a register's worth in the padded row.
                unsafe {
                    let p = from.at(row, col);
                    let v = match from.cs {
                        1 if n == lanes => T::load::<S>(p),
                        1 => T::load_partial::<S>(p, n),
                        stride => T::gather::<S>(p, stride, n),
                    };
                    oneflow_kernels_prim::Register::store(v, to.at(row, col));
                }
            }
        }
    }
}

/// Writes `rows` rows of `width` numbers times a factor into a stored matrix.
pub struct StoreRows<T: GemmFloat> {
    pub from: Block<T::Acc>,
    pub to: Matrix<T>,
    pub rows: usize,
    pub width: usize,
    pub factor: T::Acc,
}

impl<T: GemmFloat> WithSimd for StoreRows<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let StoreRows { from, to, rows, width, factor } = self;
        for row in 0..rows {
            // SAFETY: the caller's blocks hold the rows; those of `from` are padded.
            unsafe { store_row::<T, S>(from.at(row, 0), to.at(row, 0), to.cs, width, factor) };
        }
    }
}

/// # Safety
/// `from` holds a padded row, `to` is valid for its `width` elements.
#[inline(always)]
pub unsafe fn store_row<T: GemmFloat, S: Simd>(
    from: *const T::Acc,
    to: *mut T,
    cs: isize,
    width: usize,
    factor: T::Acc,
) {
    use oneflow_kernels_prim::Register;
    let lanes = <Reg<S, T> as Register>::WIDTH;
    let factor = <Reg<S, T> as Register>::all_of(factor);
    for col in (0..width).step_by(lanes) {
        let n = lanes.min(width - col);
        let p = to.wrapping_offset(col as isize * cs);
        // SAFETY: by the caller.
        unsafe {
            let v = <Reg<S, T> as Register>::load(from.add(col)) * factor;
            match cs {
                1 if n == lanes => T::store::<S>(v, p),
                1 => T::store_partial::<S>(v, p, n),
                stride => T::scatter::<S>(v, p, stride, n),
            }
        }
    }
}

/// Lends one room a length; every room begins on a cache line.
pub fn with_buffers<A: Acc, const N: usize, R>(lens: [usize; N], f: impl FnOnce([*mut A; N]) -> R) -> R {
    let line = 64 / size_of::<A>();
    let total: usize = lens.iter().map(|n| n.next_multiple_of(line)).sum();
    with_scratch(Slot::A, total * size_of::<A>(), |p| {
        let mut at = 0;
        f(lens.map(|n| {
            let room = p.cast::<A>().wrapping_add(at);
            at += n.next_multiple_of(line);
            room
        }))
    })
}
