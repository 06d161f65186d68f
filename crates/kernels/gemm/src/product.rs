//! One product of floats on one thread: the loops over blocks of columns, passes over k, blocks of rows and tiles.
//!
//! Which operand is read where it lies and which is packed follows from the shape and the strides. Knows no threads: which
//! rows and columns are computed is the caller's choice.

use std::marker::PhantomData;
use std::ops::Range;

use crate::driver::padded;
use crate::epilogue::{Operand, Post, Sums, finish};
use crate::few_rows::few_rows;
use crate::gemv::gemv;
use crate::kernel::{Ahead, Kernels, Onto, Tile, prefetch};
use crate::pack::{GAP, Mode, Panel, Strip};
use crate::packed_b::panel_of;
use crate::runs::Runs;
use crate::scratch::{self, Slot};
use crate::tasks::Even;
use oneflow_kernels_prim::rows::copy_run;
use oneflow_kernels_prim::{Acc, Float, Isa};
use smallvec::SmallVec;

pub(crate) type Sum<M> = <<M as Mode>::S as Float>::Acc;

/// One product of the batch, typed.
pub(crate) struct Product<M: Mode, C: Float<Acc = Sum<M>>> {
    pub isa: Isa,
    pub kernels: &'static Kernels<M::P, Sum<M>>,
    pub k: usize,
    pub n: usize,
    pub a: Operand<M::S>,
    pub b: Operand<M::S>,
    pub alpha: Sum<M>,
    pub beta: Sum<M>,
    pub runs: Option<Runs>,
    /// The whole of B, packed before; null where it is not.
    pub packed: *const M::P,
    pub panelled: bool,
    /// Nothing comes after the sums.
    pub bare: bool,
    /// What comes after them is a bias a column, rows that are added, or both: the kernels begin with it.
    pub adds: bool,
    pub post: Post<C>,
    pub mode: PhantomData<M>,
}

/// Bytes of a line of the caches.
const LINE: usize = 64;
/// Bytes between lines that share a set of the first cache, and how many lines a set holds.
const SAME_SET: usize = 4096;
const WAYS: usize = 8;
/// An operand of at most this size stays in the second cache beside the tiles that read it.
const NEAR_BYTES: usize = 400 << 10;

pub(crate) fn is_near<M: Mode>(elements: usize) -> bool {
    elements * size_of::<M::S>() <= NEAR_BYTES
}

/// Most rows whose sums are kept outside C at a time: it bounds that buffer.
const SUM_ROWS: usize = 1024;

/// One pass over k of a block of C.
struct Pass<M: Mode> {
    /// Columns of the block and packed k of the pass.
    cols: Range<usize>,
    k: usize,
    first: bool,
    last: bool,
    b: *const M::P,
    direct_b: bool,
    /// Sums of all passes, where C itself cannot hold them; null where it can.
    sums: *mut Sum<M>,
    sums_rs: isize,
}

impl<M: Mode, C: Float<Acc = Sum<M>>> Product<M, C> {
    /// C can hold partial sums: same type, contiguous columns.
    fn sums_in_c(&self) -> bool {
        std::any::TypeId::of::<C>() == std::any::TypeId::of::<Sum<M>>() && self.post.c.cs == 1
    }

    pub unsafe fn single_row(&self, cols: Range<usize>) {
        let factors = (self.alpha, self.beta);
        self.with_sum_rows(0..1, |x| {
            // SAFETY: A's row of k neighbours is one of sums.
            unsafe { gemv(self.isa, self.k, x.at(0, 0), self.b, factors, &self.post, cols) }
        })
    }

    pub unsafe fn few_rows(&self, rows: Range<usize>, cols: Range<usize>) {
        let factors = (self.alpha, self.beta);
        self.with_sum_rows(rows.clone(), |x| {
            // SAFETY: the rows are contiguous, and the columns of B are by the caller's choice.
            unsafe { few_rows(self.isa, self.k, x, self.b, factors, &self.post, (rows, cols)) }
        })
    }

    /// Lends rows of A as contiguous rows of the type of sums: where they lie, or copied.
    fn with_sum_rows<R>(&self, rows: Range<usize>, f: impl FnOnce(Operand<Sum<M>>) -> R) -> R {
        let at = self.a.at(rows.start, 0);
        if std::any::TypeId::of::<M::S>() == std::any::TypeId::of::<Sum<M>>() && self.a.cs == 1 {
            return f(Operand { ptr: at.cast(), rs: self.a.rs, cs: 1 });
        }
        scratch::with(Slot::A, rows.len() * self.k * size_of::<Sum<M>>(), |x| {
            let x = Operand { ptr: x.cast::<Sum<M>>(), rs: self.k as isize, cs: 1 };
            for row in 0..rows.len() {
                for p in 0..self.k {
                    // SAFETY: A has k elements a row, as has the buffer.
                    unsafe { *x.at(row, p) = (*self.a.at(rows.start + row, p)).widen() };
                }
            }
            f(x)
        })
    }

    /// Whether the kernels read A where it lies. Rows of neighbours cost them no more than a packed panel, unless the lines of
    /// a tile's rows fall into one set of the first cache; columns of neighbours do while all of it stays in the second cache.
    fn reads_a(&self, rows: usize, cols: usize) -> bool {
        let apart = !(self.a.rs as usize * size_of::<M::S>()).is_multiple_of(SAME_SET);
        let few_ways = self.kernels.mr <= WAYS;
        let in_order = self.a.cs == 1 && (apart || few_ways) || self.a.rs == 1 && is_near::<M>(self.k * rows);
        M::DIRECT && (in_order || cols <= 2 * self.kernels.nr)
    }

    /// Whether the kernels read B where it lies: packing pays when what is packed is read a few times, and from afar or in
    /// registers that lie in two lines.
    fn reads_b(&self, rows: usize, cols: usize) -> bool {
        let register = self.kernels.lanes * size_of::<M::S>();
        let whole = (self.b.ptr as usize | (self.b.rs as usize * size_of::<M::S>())).is_multiple_of(register);
        let near = is_near::<M>(self.k * cols) && (whole || rows <= 4 * self.kernels.mr);
        M::DIRECT
            && self.packed.is_null()
            && self.runs.is_none()
            && self.b.cs == 1
            && (near || rows <= 2 * self.kernels.mr)
    }

    pub unsafe fn compute(&self, rows: Range<usize>, cols: Range<usize>) {
        let ker = self.kernels;
        let passes = Even::new(self.k.div_ceil(M::KU), ker.kc);
        let needs_sums = passes.parts > 1 && !self.sums_in_c();
        if needs_sums && rows.len() > SUM_ROWS {
            for start in rows.clone().step_by(SUM_ROWS) {
                // SAFETY: the rows are some of this call's.
                unsafe { self.compute(start..(start + SUM_ROWS).min(rows.end), cols.clone()) };
            }
            return;
        }
        let direct_a = self.reads_a(rows.len(), cols.len());
        let direct_b = self.reads_b(rows.len(), cols.len());
        // A block of few rows is read once: keep its panel in L1 rather than packing all of B first.
        let nc = if rows.len() <= ker.mr { ker.nr } else { ker.nc };
        let blocks = Even::new(cols.len().div_ceil(ker.nr), nc / ker.nr);
        let kc = passes.largest();
        let b_len = if self.packed.is_null() { kc * blocks.largest() * ker.nr } else { 0 };
        let sums_len = if needs_sums { rows.len() * blocks.largest() * ker.nr } else { 0 };
        let size_p = size_of::<M::P>();
        scratch::with(Slot::C, sums_len * size_of::<Sum<M>>(), |sums| {
            scratch::with(Slot::B, b_len * size_p, |packed_b| {
                for block in 0..blocks.parts {
                    let panels = blocks.get(block);
                    let block_cols =
                        cols.start + panels.start * ker.nr..(cols.start + panels.end * ker.nr).min(cols.end);
                    for part in 0..passes.parts {
                        let ks = passes.get(part);
                        // Panels of a pass before this one's, and of this one before the block's.
                        let before = ks.start * padded(self.n, ker.nr, ker.lanes) + block_cols.start * ks.len();
                        let pass = Pass::<M> {
                            cols: block_cols.clone(),
                            k: ks.len(),
                            first: part == 0,
                            last: part + 1 == passes.parts,
                            b: if self.packed.is_null() { packed_b.cast() } else { self.packed.wrapping_add(before) },
                            direct_b,
                            sums: if needs_sums { sums.cast() } else { std::ptr::null_mut() },
                            sums_rs: (panels.len() * ker.nr) as isize,
                        };
                        // SAFETY: the ranges lie in the problem and the buffers hold a block each.
                        unsafe {
                            if self.packed.is_null() {
                                self.pack_b(&pass, ks.start, packed_b.cast());
                            }
                            self.row_blocks(&pass, ks.start, rows.clone(), direct_a);
                        }
                    }
                }
            })
        });
    }

    /// The strip of an operand from packed step `step` on, `k` packed steps long (the last may be half there).
    fn strip(&self, src: *const M::S, (ws, ks): (isize, isize), width: usize, step: usize, k: usize) -> Strip<M::S> {
        let start = step * M::KU;
        let k = (k * M::KU).min(self.k - start);
        Strip { src: src.wrapping_offset(start as isize * ks), ws, ks, width, k }
    }

    /// Packs the block's panels; with B read in place, only a last panel narrower than the kernels.
    unsafe fn pack_b(&self, pass: &Pass<M>, step: usize, dst: *mut M::P) {
        if let Some(runs) = self.runs {
            // SAFETY: the contract is the same.
            return unsafe { self.pack_runs(&runs, pass, step, dst) };
        }
        let ker = self.kernels;
        let first = pass.cols.start;
        let panels: SmallVec<[Panel<M::P>; 16]> = pass
            .cols
            .clone()
            .step_by(ker.nr)
            .map(|col| (col, ker.nr.min(pass.cols.end - col)))
            .filter(|&(_, width)| !(pass.direct_b && width == ker.nr))
            .map(|(col, width)| {
                let dst = dst.wrapping_add((col - first) * pass.k);
                Panel { at: col - first, width, dst, dst_width: width.next_multiple_of(ker.lanes) }
            })
            .collect();
        let strip = self.strip(self.b.at(0, first), (self.b.cs, self.b.rs), pass.cols.len(), step, pass.k);
        // SAFETY: the panels lie in the block's buffer, one after the other, all of whole registers.
        unsafe { M::pack_panels(self.isa, strip, &panels) };
    }

    /// As `pack_b`, of columns in runs.
    unsafe fn pack_runs(&self, runs: &Runs, pass: &Pass<M>, step: usize, dst: *mut M::P) {
        let (ker, first) = (self.kernels, pass.cols.start);
        let panel_at = |col: usize| dst.wrapping_add((col - first) * pass.k);
        let strip = |col: usize, width: usize| {
            let src = self.b.at(0, col).wrapping_offset(runs.shift(col, runs.b));
            self.strip(src, (self.b.cs, self.b.rs), width, step, pass.k)
        };
        let mut col = first;
        while col < pass.cols.end {
            // Panels that lie in one run are packed together.
            let in_run = runs.left(col).min(pass.cols.end - col);
            let ends = col + in_run == pass.cols.end;
            let whole = if ends { in_run } else { in_run / ker.nr * ker.nr };
            let panel = |at: usize| {
                let width = ker.nr.min(whole - at);
                Panel { at, width, dst: panel_at(col + at), dst_width: width.next_multiple_of(ker.lanes) }
            };
            let panels: SmallVec<[Panel<M::P>; 16]> = (0..whole).step_by(ker.nr).map(panel).collect();
            if whole > 0 {
                // SAFETY: the panels lie in the block's buffer, one after the other, all of whole registers.
                unsafe { M::pack_panels(self.isa, strip(col, whole), &panels) };
                col += whole;
                continue;
            }
            let width = ker.nr.min(pass.cols.end - col);
            // SAFETY: the panel lies in the block's buffer.
            unsafe { self.pack_pieces(runs, pass.k, (col, width), panel_at(col), strip) };
            col += width;
        }
    }

    /// One panel whose columns lie in several runs: packed run by run, and put together.
    unsafe fn pack_pieces(
        &self,
        runs: &Runs,
        k: usize,
        (col, width): (usize, usize),
        dst: *mut M::P,
        strip: impl Fn(usize, usize) -> Strip<M::S>,
    ) {
        let dst_width = width.next_multiple_of(self.kernels.lanes);
        scratch::with(Slot::Piece, k * dst_width * size_of::<M::P>(), |piece| {
            let piece: *mut M::P = piece.cast();
            runs.pieces(col, width, |at, n| {
                let padded = n.next_multiple_of(self.kernels.lanes);
                let panel = Panel { at: 0, width: n, dst: piece, dst_width: padded };
                // What lies behind the last piece are its zeros.
                let n_copied = if at + n == width { dst_width - at } else { n };
                // SAFETY: the strip lies in B; the pieces of every step lie in its row of the panel.
                unsafe {
                    M::pack_panels(self.isa, strip(col + at, n), &[panel]);
                    for p in 0..k {
                        copy_run(piece.add(p * padded), dst.add(p * dst_width + at), n_copied.min(padded));
                    }
                }
            });
        })
    }

    unsafe fn row_blocks(&self, pass: &Pass<M>, step: usize, rows: Range<usize>, direct_a: bool) {
        let ker = self.kernels;
        let panels = Even::new(rows.len(), ker.mr);
        let blocks = Even::new(panels.parts, ker.mc / ker.mr);
        let a_len = if direct_a { 0 } else { (pass.k * ker.mr + GAP) * blocks.largest() };
        scratch::with(Slot::A, a_len * size_of::<M::P>(), |packed_a| {
            let packed_a: *mut M::P = packed_a.cast();
            for block in 0..blocks.parts {
                let block = blocks.get(block);
                let (first_row, end) = (panels.get(block.start).start, panels.get(block.end - 1).end);
                let panel = |index: usize| {
                    let r = panels.get(index);
                    let gaps = (index - block.start) * GAP;
                    (rows.start + r.start, r.len(), packed_a.wrapping_add((r.start - first_row) * pass.k + gaps))
                };
                // SAFETY: the panels lie one after the other in the buffer.
                unsafe {
                    if !direct_a {
                        let first_row = rows.start + first_row;
                        let to = block.clone().map(panel).map(|(row, height, dst)| Panel {
                            at: row - first_row,
                            width: height,
                            dst,
                            dst_width: height,
                        });
                        let panels: SmallVec<[Panel<M::P>; 16]> = to.collect();
                        let height = panels.iter().map(|p| p.width).sum();
                        let src = self.a.at(first_row, 0);
                        let strip = self.strip(src, (self.a.rs, self.a.cs), height, step, pass.k);
                        M::pack_panels(self.isa, strip, &panels);
                    }
                    let mut tile_idx = 0;
                    for col in pass.cols.clone().step_by(ker.nr) {
                        for (i, (row, height, packed)) in block.clone().map(panel).enumerate() {
                            let at = [row, height, col];
                            let packed = (!direct_a).then_some(packed.cast_const());
                            let ahead = match packed {
                                None if col == pass.cols.start => self.rows_ahead(pass, row + height),
                                _ if self.panelled => self.panel_ahead(pass, step, col, (i, block.len())),
                                Some(_) => self.block_ahead(rows.start + end..rows.end, step, tile_idx),
                                None => Ahead::NOTHING,
                            };
                            self.tile(pass, step, at, packed, rows.start, ahead);
                            tile_idx += 1;
                        }
                    }
                }
            }
        });
    }

    /// Asks for a tile of a matrix with C's shape.
    fn ask_for(&self, mat: &Operand<C>, [row, height, col]: [usize; 3]) {
        let mut at = mat.at(row, col);
        for _ in 0..height {
            prefetch(at);
            prefetch(at.wrapping_add(self.kernels.nr - 1));
            at = at.wrapping_offset(mat.rs);
        }
    }

    /// What the sums of a tile of C begin with: the bias and the rows that are added to the product.
    fn begin(&self, row: usize, height: usize, col: usize) -> Onto<Sum<M>> {
        if let Some(b) = self.post.bias.as_ref().filter(|b| b.cs == 0) {
            return Onto::Column(b.at(row, 0).cast_const().cast(), b.rs);
        }
        let bias = self.post.bias.as_ref().map(|b| b.at(0, col).cast_const().cast());
        let Some(residual) = &self.post.residual else { return bias.map_or(Onto::Nothing, Onto::Row) };
        let rows: *const Sum<M> = residual.at(row, col).cast_const().cast();
        self.ask_for(residual, [row, height, col]);
        bias.map_or(Onto::Rows(rows, residual.rs), |bias| Onto::RowAndRows(bias, rows, residual.rs))
    }

    /// The next tile's rows of A, where they follow one another.
    fn rows_ahead(&self, pass: &Pass<M>, row: usize) -> Ahead {
        if self.a.cs != 1 || self.a.rs as usize != pass.k {
            return Ahead::NOTHING;
        }
        Ahead { at: self.a.at(row, 0).cast_const().cast(), step: (self.kernels.mr * size_of::<M::S>()) as isize }
    }

    /// A tile's share of the next panel of B, which was packed before the call and may be far.
    fn panel_ahead(&self, pass: &Pass<M>, step: usize, col: usize, share: (usize, usize)) -> Ahead {
        let next = col + self.kernels.nr;
        if next >= pass.cols.end {
            return Ahead::NOTHING;
        }
        let (at, rs) = self.panel_at(step, next);
        Ahead::share(at, pass.k * rs as usize * size_of::<M::P>(), share, pass.k)
    }

    /// Where a column of the panels that were packed before the call begins, and how far apart its rows are.
    fn panel_at(&self, step: usize, col: usize) -> (*const M::P, isize) {
        let ((wide, filled), steps) = (panel_of(self.kernels), self.k.div_ceil(M::KU));
        let panel = col / wide * wide;
        let width = wide.min(self.n - panel).next_multiple_of(filled);
        (self.packed.wrapping_add(panel * steps + step * width + (col - panel)), width as isize)
    }

    /// A line of every step of the next block of A, of the rows that are left: another one for each tile of this block.
    fn block_ahead(&self, left: Range<usize>, step: usize, tile_idx: usize) -> Ahead {
        let first = tile_idx * LINE / size_of::<M::S>();
        if self.a.rs != 1 || first >= self.kernels.mc.min(left.len()) {
            return Ahead::NOTHING;
        }
        let at = self.a.at(left.start + first, step * M::KU).cast_const().cast();
        Ahead { at, step: self.a.cs * (M::KU * size_of::<M::S>()) as isize }
    }

    /// Stores a tile of a C whose columns are contiguous, by rows of the transposed C.
    unsafe fn finish_turned(&self, sums: &Sums<Sum<M>>) {
        let mut stack = Stack([std::mem::MaybeUninit::<M::P>::uninit(); MOST_TURNED]);
        let turned: *mut M::P = stack.0.as_mut_ptr().cast();
        let Sums { ptr, rs, row, col, rows, cols, .. } = *sums;
        let width = rows.next_multiple_of(self.kernels.lanes);
        let strip = Strip { src: ptr.cast::<M::S>(), ws: rs, ks: 1, width: rows, k: cols };
        let (ptr, rs) = (turned.cast_const().cast(), width as isize);
        let sums = Sums { ptr, rs, row: col, col: row, rows: cols, cols: rows, ..*sums };
        // SAFETY: modes that read operands in place pack numbers as they are, sums of the same type; the buffer holds every
        // column of the tile as a row of whole registers.
        unsafe {
            M::pack(self.isa, strip, turned, width);
            finish(self.isa, sums, &self.post.turned());
        }
    }

    #[inline]
    unsafe fn tile(
        &self,
        pass: &Pass<M>,
        step: usize,
        [row, height, col]: [usize; 3],
        packed_a: Option<*const M::P>,
        first_row: usize,
        ahead: Ahead,
    ) {
        let ker = self.kernels;
        let width = ker.nr.min(pass.cols.end - col);
        let n_registers = width.div_ceil(ker.lanes);
        let whole = width == n_registers * ker.lanes;
        // Where the kernel leaves its sums: C, the block's sums, or a tile on the stack.
        let (post, one_run) = match &self.runs {
            Some(runs) => (runs.post(&self.post, col), runs.left(col) >= width),
            None => (self.post, true),
        };
        let c = post.c.at(row, col);
        let mut stack = Stack([std::mem::MaybeUninit::<Sum<M>>::uninit(); MOST_SUMS]);
        let in_c = pass.sums.is_null() && whole && one_run && self.sums_in_c();
        let in_c = in_c && (!pass.first || self.beta == Acc::ZERO || self.beta == Acc::ONE);
        let add = !pass.first || self.beta != Acc::ZERO;
        let begins = self.adds && self.beta == Acc::ZERO;
        let in_c = in_c && (!pass.last || self.bare || begins);
        let onto = if in_c && begins && pass.first { self.begin(row, height, col) } else { Onto::c(add) };
        let (dst, dst_rs, onto) = if in_c {
            (c.cast::<Sum<M>>(), self.post.c.rs, onto)
        } else if !pass.sums.is_null() {
            let offset = (row - first_row) as isize * pass.sums_rs + (col - pass.cols.start) as isize;
            (pass.sums.wrapping_offset(offset), pass.sums_rs, Onto::c(!pass.first))
        } else {
            (stack.0.as_mut_ptr().cast(), ker.nr as isize, Onto::Nothing)
        };
        let (a, a_rs, a_cs, direct_a) = match packed_a {
            Some(ptr) => (ptr, 1, height as isize, 0),
            None => (self.a.at(row, step).cast_const().cast(), self.a.rs, self.a.cs, 1),
        };
        let (b, b_rs) = if pass.direct_b && width == ker.nr {
            (self.b.at(step, col).cast_const().cast(), self.b.rs)
        } else if self.panelled {
            self.panel_at(step, col)
        } else {
            (pass.b.wrapping_add((col - pass.cols.start) * pass.k), (n_registers * ker.lanes) as isize)
        };
        let tile = Tile { k: pass.k, a, a_rs, a_cs, b, b_rs, c: dst, c_rs: dst_rs, alpha: self.alpha, onto, ahead };
        if !in_c && pass.last && self.post.c.cs == 1 {
            // The kernel asks for the place of its sums; what is written and added is needed right after.
            for mat in [Some(&post.c), post.kept.as_ref(), post.residual.as_ref()].into_iter().flatten() {
                self.ask_for(mat, [row, height, col]);
            }
        }
        // SAFETY: the panels are packed or read in place inside the operands; the destination holds a whole tile.
        unsafe {
            ker.table[direct_a][height - 1][n_registers - 1](&tile);
            if in_c || (!pass.sums.is_null() && !pass.last) {
                return;
            }
            let beta = if pass.first || !pass.sums.is_null() { self.beta } else { Acc::ONE };
            let (rows, cols) = (height, width);
            let last = if begins && pass.sums.is_null() { pass.first } else { pass.last };
            let sums = Sums { ptr: dst, rs: dst_rs, row, col, rows, cols, beta, last };
            if M::DIRECT && post.c.rs == 1 && post.c.cs != 1 {
                return self.finish_turned(&sums);
            }
            let Some(runs) = self.runs.filter(|_| !one_run) else { return finish(self.isa, sums, &post) };
            runs.pieces(col, width, |at, cols| {
                let piece = Sums { ptr: dst.wrapping_add(at), col: col + at, cols, ..sums };
                finish(self.isa, piece, &runs.post(&self.post, col + at));
            });
        }
    }
}

/// Sums of the largest tile of any tier.
const MOST_SUMS: usize = 14 * 32;
/// The same turned: rows of whole registers, and what packing writes past the last.
const MOST_TURNED: usize = 16 * 32 + 16;

#[repr(align(64))]
struct Stack<A, const N: usize>([std::mem::MaybeUninit<A>; N]);
