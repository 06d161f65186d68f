//! Walks several strided operands of any dtype in tiles that fit the first cache, handing contiguous compute-dtype runs to
//! a function. The general path of expressions and chains.

use crate::io::{Io, Load, Store};
use crate::nest::{Nest, Walk};
use crate::transpose;
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::{Register, Simd, View, WithSimd, dispatch, isa, rows};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// Elements of a tile.
pub const TILE: usize = 1024;
/// Elements of a run when nothing needs a buffer.
const LONG: usize = 16 * 1024;
/// Rows shorter than this are gathered into one tile.
const SHORT: usize = 128;
/// Rows and columns of the blocks in which operands of different order meet.
const CROSS: (usize, usize) = (16, 64);
/// Rows below which such blocks do not pay.
const FEW_ROWS: usize = 4;
/// Outputs of more bytes than this would push everything else out of the caches: written past them.
pub const STREAM_BYTES: usize = 32 << 20;

/// Most inputs and outputs of a walk.
pub const MAX_INS: usize = 12;
pub const MAX_OUTS: usize = 4;
const MAX_OPERANDS: usize = MAX_INS + MAX_OUTS;

/// A tile's worth of numbers on the stack.
#[repr(align(64))]
struct Buffer<T>([MaybeUninit<T>; TILE]);

impl<T> Buffer<T> {
    #[inline(always)]
    const fn new() -> Self {
        Buffer([const { MaybeUninit::uninit() }; TILE])
    }
    #[inline(always)]
    fn ptr(&mut self) -> *mut T {
        self.0.as_mut_ptr().cast()
    }
}

struct Operand<T> {
    ptr: *mut u8,
    /// Bytes of an element in memory.
    size: isize,
    /// Whether memory holds the compute dtype.
    same: bool,
    load: Load<T>,
    store: Store<T>,
    /// Every stride is zero.
    scalar: bool,
}

/// What the function gets: elements, inputs, their steps, outputs.
pub type TileFn<'a, T> = &'a (dyn Fn(usize, &[*const T], &[usize], &[*mut T]) + Sync);

struct Plan<'a, T> {
    nest: Nest,
    operands: SmallVec<[Operand<T>; 4]>,
    n_outs: usize,
    /// Rows and columns of a tile.
    block: (usize, usize),
    /// Some operand walks the rows faster than the columns.
    crossing: bool,
    f: TileFn<'a, T>,
}

// SAFETY: the pointers are the launch's views; tiles write disjoint elements of the outputs, and outputs overlap inputs only
// element by element.
unsafe impl<T> Sync for Plan<'_, T> {}

/// Calls `f` over all elements, tile by tile, on the pool where it is worth it. All views have the sizes of the first output.
///
/// # Safety
/// The views are valid for their accesses and outputs overlap inputs at most exactly.
pub unsafe fn for_each_tile<T: Io>(outs: &[View<'_>], ins: &[View<'_>], f: TileFn<'_, T>) -> Result<()> {
    let sizes = outs[0].sizes;
    let n = outs[0].numel();
    if n == 0 {
        return Ok(());
    }
    if outs.len() > MAX_OUTS || ins.len() > MAX_INS {
        return Err(Error::not_implemented(format!(
            "elementwise: {} inputs and {} outputs, at most {MAX_INS} and {MAX_OUTS}",
            ins.len(),
            outs.len()
        )));
    }
    let mut operands: SmallVec<[Operand<T>; 4]> = SmallVec::new();
    let mut strides: SmallVec<[&[i64]; 4]> = SmallVec::new();
    for v in outs.iter().chain(ins) {
        operands.push(Operand {
            ptr: v.ptr,
            size: v.dtype.size() as isize,
            same: v.dtype == T::DTYPE,
            load: T::load(v.dtype)?,
            store: T::store(v.dtype)?,
            scalar: v.strides.iter().all(|s| *s == 0),
        });
        strides.push(v.strides);
    }
    let nest = Nest::new(sizes, &strides);
    let direct = |o: usize| operands[o].same && matches!(nest.inner_strides()[o], 0 | 1);
    let all_direct = (0..operands.len()).all(direct);
    let inner = nest.inner();
    let crossing = nest.ndim() > 1
        && nest
            .inner_strides()
            .iter()
            .enumerate()
            .any(|(o, s)| s.abs() > 1 && nest.strides(nest.ndim() - 2)[o].abs() < s.abs())
        && inner >= CROSS.0
        && nest.sizes[nest.ndim() - 2] >= FEW_ROWS;
    let block = if crossing {
        (CROSS.0.min(nest.sizes[nest.ndim() - 2]), CROSS.1)
    } else if inner < SHORT && nest.rows(1) > 1 && !(all_direct && inner >= 32) {
        (TILE / inner, inner)
    } else {
        (1, if all_direct { LONG } else { TILE })
    };
    let plan = Plan { block, crossing, nest, operands, n_outs: outs.len(), f };
    let units = plan.row_blocks() * inner.div_ceil(plan.block.1);
    // A quarter of a nanosecond for an element of an operand.
    let ns = (n * (ins.len() + outs.len())) as f64 * 0.1 / units as f64;
    rows::split(units, ns, &|r| plan.run(r));
    Ok(())
}

impl<T: Io> Plan<'_, T> {
    /// Blocks of rows. Where operands cross, a block's rows are of one dimension.
    fn row_blocks(&self) -> usize {
        if self.crossing {
            self.nest.rows(2) * self.nest.sizes[self.nest.ndim() - 2].div_ceil(self.block.0)
        } else {
            self.nest.rows(1).div_ceil(self.block.0)
        }
    }

    fn run(&self, units: std::ops::Range<usize>) {
        let (n_rows, n_cols) = (self.nest.rows(1), self.nest.inner());
        let (br, bc) = self.block;
        let mut buffers: [Buffer<T>; MAX_OPERANDS] = [const { Buffer::new() }; MAX_OPERANDS];
        let mut ptrs = [std::ptr::null_mut::<T>(); MAX_OPERANDS];
        for (p, b) in ptrs.iter_mut().zip(buffers.iter_mut()) {
            *p = b.ptr();
        }
        if br == 1 {
            let n_blocks = n_cols.div_ceil(bc);
            let mut walk = self.nest.walk(1, units.start / n_blocks);
            let mut col = (units.start % n_blocks) * bc;
            for _ in units {
                // SAFETY: the run lies in the row.
                unsafe { self.row_tile(&walk, col, bc.min(n_cols - col), &ptrs) };
                col += bc;
                if col >= n_cols {
                    col = 0;
                    walk.next();
                }
            }
        } else if self.crossing {
            let height = self.nest.sizes[self.nest.ndim() - 2];
            let (n_groups, strips) = (self.row_blocks(), height.div_ceil(br));
            for u in units {
                let (group, col) = (u % n_groups, u / n_groups * bc);
                let first = group % strips * br;
                let walk = self.nest.walk(1, group / strips * height + first);
                // SAFETY: the block lies in the nest, its rows in one dimension.
                unsafe { self.cross_tile(&walk, br.min(height - first), col, bc.min(n_cols - col), &ptrs) };
            }
        } else {
            let n_groups = self.row_blocks();
            let mut walk = self.nest.walk(1, (units.start % n_groups) * br);
            for u in units {
                let (first, col) = ((u % n_groups) * br, u / n_groups * bc);
                if first == 0 {
                    walk = self.nest.walk(1, 0);
                }
                let (height, width) = (br.min(n_rows - first), bc.min(n_cols - col));
                // SAFETY: the block lies in the nest.
                unsafe { self.block_tile(&mut walk, height, col, width, &ptrs) };
            }
        }
    }

    /// Part of one row: what lies in memory as the function wants it is used in place.
    unsafe fn row_tile(&self, walk: &Walk<'_>, col: usize, n: usize, buffers: &[*mut T; MAX_OPERANDS]) {
        let strides = self.nest.inner_strides();
        let mut ptrs = *buffers;
        let mut steps = [1usize; MAX_OPERANDS];
        // SAFETY: offsets are within the views; a buffer holds a tile, and runs longer than one need none.
        unsafe {
            let at = |o: usize| {
                let op = &self.operands[o];
                op.ptr.offset((walk.offsets[o] + col as isize * strides[o]) * op.size)
            };
            for o in 0..self.operands.len() {
                let (op, stride) = (&self.operands[o], strides[o]);
                let is_out = o < self.n_outs;
                if !is_out && stride == 0 {
                    steps[o] = 0;
                }
                if op.same && (stride == 1 || steps[o] == 0) {
                    ptrs[o] = at(o).cast();
                } else if !is_out {
                    (op.load)(at(o), stride, if steps[o] == 0 { 1 } else { n }, ptrs[o]);
                }
            }
            self.call(n, &ptrs, &steps);
            for o in 0..self.n_outs {
                if ptrs[o] != buffers[o] {
                    continue;
                }
                (self.operands[o].store)(ptrs[o], n, at(o), strides[o]);
            }
        }
    }

    /// A block of rows by columns where some operand's rows lie side by side: those are turned first, then it goes row by
    /// row, with pointers that advance by the same steps.
    unsafe fn cross_tile(
        &self,
        walk: &Walk<'_>,
        n_rows: usize,
        col: usize,
        n_cols: usize,
        buffers: &[*mut T; MAX_OPERANDS],
    ) {
        let (strides, down) = (self.nest.inner_strides(), self.nest.strides(self.nest.ndim() - 2));
        let all = self.operands.len();
        let mut ptrs = *buffers;
        let mut steps = [1usize; MAX_OPERANDS];
        // From row to row, in elements of the function's type: of the operand itself, or of its buffer.
        let mut next = [0isize; MAX_OPERANDS];
        // Operands that each row brings to or from a buffer, and where their row lies.
        let (mut buffered, mut at) = (0u32, [std::ptr::null_mut::<u8>(); MAX_OPERANDS]);
        // SAFETY: offsets are within the views, the block fits the buffers.
        unsafe {
            for (o, op) in self.operands.iter().enumerate() {
                at[o] = op.ptr.offset((walk.offsets[o] + col as isize * strides[o]) * op.size);
                let is_out = o < self.n_outs;
                if !is_out && strides[o] == 0 {
                    steps[o] = 0;
                }
                if op.same && (strides[o] == 1 || steps[o] == 0) {
                    (ptrs[o], next[o]) = (at[o].cast(), down[o]);
                } else if !is_out && op.same && down[o] == 1 && strides[o] > 1 {
                    transpose::block(at[o].cast(), strides[o], ptrs[o], n_cols as isize, n_rows, n_cols);
                    next[o] = n_cols as isize;
                } else {
                    buffered |= 1 << o;
                }
            }
            // Rows that follow each other everywhere are one.
            if buffered == 0 && (0..all).all(|o| next[o] == (steps[o] * n_cols) as isize) {
                return self.call(n_rows * n_cols, &ptrs, &steps);
            }
            for _ in 0..n_rows {
                if buffered != 0 {
                    for o in self.n_outs..all {
                        if buffered >> o & 1 == 1 {
                            (self.operands[o].load)(at[o], strides[o], if steps[o] == 0 { 1 } else { n_cols }, ptrs[o]);
                        }
                    }
                }
                self.call(n_cols, &ptrs, &steps);
                if buffered != 0 {
                    for o in 0..all {
                        if o < self.n_outs && buffered >> o & 1 == 1 {
                            (self.operands[o].store)(ptrs[o], n_cols, at[o], strides[o]);
                        }
                        at[o] = at[o].wrapping_offset(down[o] * self.operands[o].size);
                    }
                }
                for o in 0..all {
                    ptrs[o] = ptrs[o].wrapping_offset(next[o]);
                }
            }
        }
    }

    /// A block of short rows, gathered into the buffers. Leaves the walk at the row after the block.
    unsafe fn block_tile(
        &self,
        walk: &mut Walk<'_>,
        n_rows: usize,
        col: usize,
        n_cols: usize,
        buffers: &[*mut T; MAX_OPERANDS],
    ) {
        let strides = self.nest.inner_strides();
        let mut steps = [1usize; MAX_OPERANDS];
        // SAFETY: offsets are within the views, the block fits the buffers.
        unsafe {
            let at = |o: usize, base: isize| {
                let op = &self.operands[o];
                op.ptr.offset((base + col as isize * strides[o]) * op.size)
            };
            for o in self.n_outs..self.operands.len() {
                if self.operands[o].scalar {
                    steps[o] = 0;
                    (self.operands[o].load)(self.operands[o].ptr, 0, 1, buffers[o]);
                }
            }
            let start = walk.clone();
            for r in 0..n_rows {
                for o in self.n_outs..self.operands.len() {
                    if steps[o] == 1 {
                        (self.operands[o].load)(at(o, walk.offsets[o]), strides[o], n_cols, buffers[o].add(r * n_cols));
                    }
                }
                walk.next();
            }
            self.call(n_rows * n_cols, buffers, &steps);
            let mut walk = start;
            for r in 0..n_rows {
                for o in 0..self.n_outs {
                    (self.operands[o].store)(buffers[o].add(r * n_cols), n_cols, at(o, walk.offsets[o]), strides[o]);
                }
                walk.next();
            }
        }
    }

    #[inline(always)]
    fn call(&self, n: usize, ptrs: &[*mut T; MAX_OPERANDS], steps: &[usize; MAX_OPERANDS]) {
        let (k, all) = (self.n_outs, self.operands.len());
        let mut ins = [std::ptr::null::<T>(); MAX_OPERANDS];
        for (i, p) in ins.iter_mut().zip(&ptrs[k..all]) {
            *i = *p;
        }
        (self.f)(n, &ins[..all - k], &steps[k..all], &ptrs[..k]);
    }
}

/// Copies bytes past the caches, in registers.
struct StreamCopy(*const u8, *mut u8, usize);
impl WithSimd for StreamCopy {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let StreamCopy(src, dst, n) = self;
        let w = size_of::<S::F32>();
        let head = (dst as usize).wrapping_neg() % w;
        let head = head.min(n);
        // SAFETY: both ranges are valid for `n` bytes; streamed stores are aligned after the head.
        unsafe {
            std::ptr::copy_nonoverlapping(src, dst, head);
            let mut i = head;
            while i + w <= n {
                S::F32::load(src.add(i).cast()).stream(dst.add(i).cast());
                i += w;
            }
            std::ptr::copy_nonoverlapping(src.add(i), dst.add(i), n - i);
        }
    }
}

/// Copies `n` bytes past the caches; `fence` must follow before other threads read.
///
/// # Safety
/// Both ranges are valid for `n` bytes and do not overlap.
pub unsafe fn stream_copy(src: *const u8, dst: *mut u8, n: usize) {
    dispatch(isa(), StreamCopy(src, dst, n));
}

/// Makes streamed stores visible to other threads.
#[inline(always)]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of every x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}
