//! Products on the tiles of AMX: bfloat16 (or float32 rounded to it) summed in float32, bytes summed in 32 bits.
//!
//! Loops of their own, not those of the register kernels: A is read in rows, mostly where it lies, and sums leave the
//! tiles before anything is done with them. Blocks follow from the shape alone; threads only share out tiles of C.

mod kernel;
mod pack;

use std::ops::Range;

use crate::args::{Batch, GemmArgs, Mat};
use crate::epilogue::{Operand, Post, Sums, finish};
use crate::packed_b::Panels;
use crate::parallel::Parallel;
use crate::scratch::{self, Slot};
use crate::tasks::{Even, Offsets, Tasks};
use oneflow_kernels_prim::{Float, Isa};

pub use kernel::tile_peak;
pub use kernel::{Bf16, Block, LINE, RoundedF32, SIDE, SignedBytes, TILE, Tiles, UnsignedBytes, Words};
use pack::transpose_sums;
pub use pack::{Part, panel_bytes};

/// Most steps of one pass over k: a panel of B stays in the first cache beside the rows of A that pass by.
const PASS: usize = 16;
/// Most steps whose operands are packed at a time.
const GROUP: usize = 128;
/// Rows of A in the second cache, and rows whose sums are kept while B is packed group by group.
const ROWS: usize = 128;
const SUM_ROWS: usize = 1024;
/// Columns of B that are worked on together, in one pass and in several.
const COLUMNS: usize = 1024;
const SUM_COLUMNS: usize = 512;
/// Products of at most this many rows pack A in place of B, where B's columns lie in one piece.
const FEW_ROWS: usize = 64;
/// An A that is multiplied by at most so many columns is read where it lies.
const FEW_COLUMNS: usize = 128;
const BLOCK_BYTES: usize = SIDE * SIDE * 4;

/// What becomes of finished sums.
trait Sink {
    /// Of one product of the batch.
    fn new(args: &GemmArgs, o: &Offsets) -> Self;
    /// Where whole tiles of sums may be left as they are: C's element (row, col) and the bytes between its rows.
    fn direct(&self, row: usize, col: usize) -> Option<(*mut u8, isize)>;
    /// Stores a block whose rows are `SIDE` numbers apart at (row, col) of C.
    ///
    /// # Safety
    /// The block is readable in whole tiles and writable, and the rows and columns lie in C.
    unsafe fn store(&self, sums: *mut u32, at: (usize, usize), shape: (usize, usize));
}

/// Sums of bfloat16 with what follows them.
struct Floats<C> {
    post: Post<C>,
    alpha: f32,
    beta: f32,
    /// Nothing comes after the sums, and C holds such.
    bare: bool,
}

impl<C: Float<Acc = f32>> Sink for Floats<C> {
    fn new(args: &GemmArgs, o: &Offsets) -> Self {
        let sums = std::any::TypeId::of::<C>() == std::any::TypeId::of::<f32>();
        Floats {
            post: Post::new(Operand::new(args.c, o.c), &args.epilogue, (o.bias, o.residual, o.kept)),
            alpha: args.alpha as f32,
            beta: args.beta as f32,
            bare: sums && args.epilogue.is_none() && args.c.cs == 1 && (args.alpha, args.beta) == (1.0, 0.0),
        }
    }
    fn direct(&self, row: usize, col: usize) -> Option<(*mut u8, isize)> {
        self.bare.then(|| (self.post.c.at(row, col).cast(), self.post.c.rs * size_of::<C>() as isize))
    }
    unsafe fn store(&self, sums: *mut u32, (row, col): (usize, usize), (rows, cols): (usize, usize)) {
        let ptr: *mut f32 = sums.cast();
        if self.alpha != 1.0 {
            for i in 0..rows {
                // SAFETY: the caller's block.
                let row = unsafe { std::slice::from_raw_parts_mut(ptr.add(i * SIDE), cols) };
                row.iter_mut().for_each(|x| *x *= self.alpha);
            }
        }
        let sums = Sums { ptr: ptr.cast_const(), rs: SIDE as isize, row, col, rows, cols, beta: self.beta, last: true };
        // SAFETY: by the caller.
        unsafe { finish(Isa::Amx, sums, &self.post) }
    }
}

/// Sums of bytes, which wrap.
struct Integers {
    c: Operand<i32>,
    alpha: i32,
    beta: i32,
}

impl Sink for Integers {
    fn new(args: &GemmArgs, o: &Offsets) -> Self {
        Integers { c: Operand::new(args.c, o.c), alpha: args.alpha as i32, beta: args.beta as i32 }
    }
    fn direct(&self, row: usize, col: usize) -> Option<(*mut u8, isize)> {
        let bare = self.c.cs == 1 && (self.alpha, self.beta) == (1, 0);
        bare.then(|| (self.c.at(row, col).cast(), self.c.rs * 4))
    }
    unsafe fn store(&self, sums: *mut u32, (row, col): (usize, usize), (rows, cols): (usize, usize)) {
        for i in 0..rows {
            for j in 0..cols {
                // SAFETY: by the caller.
                unsafe {
                    let (sum, c) = (*sums.add(i * SIDE + j) as i32, self.c.at(row + i, col + j));
                    let old = if self.beta == 0 { 0 } else { self.beta.wrapping_mul(*c) };
                    *c = self.alpha.wrapping_mul(sum).wrapping_add(old);
                }
            }
        }
    }
}

/// Whether a product is computed here: every one with packed operands, others where tiles are worth their
/// configuration.
pub(crate) fn takes(args: &GemmArgs, isa: Isa) -> bool {
    let row = args.m == 1 && (args.b.cs == 1 || args.b.rs == 1);
    isa == Isa::Amx && args.k > 0 && (args.packed.is_some() || !row)
}

/// The product of bfloat16 matrices.
///
/// # Safety
/// As of `gemm`; the machine has the tiles.
pub(crate) unsafe fn floats<C: Float<Acc = f32>>(args: &GemmArgs, par: &dyn Parallel) {
    // SAFETY: the contract is the same.
    unsafe { run::<Bf16, Floats<C>>(args, par) }
}

/// The product of float32 matrices, rounded to bfloat16 while they are packed.
///
/// # Safety
/// As of `gemm`; the machine has the tiles.
pub(crate) unsafe fn rounded(args: &GemmArgs, par: &dyn Parallel) {
    // SAFETY: the contract is the same.
    unsafe { run::<RoundedF32, Floats<f32>>(args, par) }
}

/// The product of matrices of bytes into 32 bits.
///
/// # Safety
/// As of `gemm`; the machine has the tiles.
pub(crate) unsafe fn bytes<W: Words>(args: &GemmArgs, par: &dyn Parallel) {
    // SAFETY: the contract is the same.
    unsafe { run::<W, Integers>(args, par) }
}

/// The whole of a `k x n` B in panels, for [`PackedB`](crate::PackedB).
///
/// # Safety
/// The machine has the tiles, and the matrix lies in memory.
pub(crate) unsafe fn pack_whole((k, n): (usize, usize), b: Mat) -> Panels {
    let mut out = Panels::new(panel_bytes(n, k.div_ceil(TILE * Bf16::TOGETHER)));
    // SAFETY: by the caller; the buffer holds all panels.
    unsafe { Part::<Bf16>::new(b.ptr, (b.cs, b.rs), n, k).panels(out.as_mut_ptr()) };
    out
}

/// What the tasks of one call share.
struct Job<'a> {
    /// As they are computed, and as the sums are stored.
    args: &'a GemmArgs<'a>,
    given: &'a GemmArgs<'a>,
    /// The whole of B, packed before; null where it is not.
    packed: *const u8,
    /// A and B have changed places: blocks of sums are those of C's transpose.
    turned: bool,
}

// SAFETY: tasks only read it, and what they write through its pointers is disjoint.
unsafe impl Sync for Job<'_> {}

unsafe fn run<W: Words, S: Sink>(given: &GemmArgs, par: &dyn Parallel) {
    let (args, mut swapped) = (given, Batch::new());
    // Rows of A are read where they lie: of a few rows and many columns, those are B's.
    let turned = args.packed.is_none() && args.m <= FEW_ROWS && args.n >= 4 * args.m && args.b.rs == 1;
    let other;
    let args = if turned {
        other = args.transposed(&mut swapped);
        &other
    } else {
        args
    };
    let packed = args.packed.map_or(std::ptr::null(), |b| b.panels.as_ptr());
    let job = Job { args, given, packed, turned };
    let steps = args.k.div_ceil(TILE * W::TOGETHER);
    let Some(tasks) = Tasks::of_rows(args, par.threads(), ROWS, panel_bytes(args.n, steps)) else {
        // SAFETY: the caller's contract.
        return unsafe { job.run::<W, S>(&Tasks::new(args, par.threads(), SIDE), par) };
    };
    scratch::with(Slot::Whole, panel_bytes(args.n, steps), |room| {
        let job = &Job { packed: room.cast_const(), ..job };
        let panels = args.n.div_ceil(SIDE);
        let parts = panels.min(2 * par.threads());
        par.run(parts, &|i| {
            let Job { args, packed, .. } = *job.get();
            let cols = i * panels / parts * SIDE..((i + 1) * panels / parts * SIDE).min(args.n);
            let part = Part::<W>::new(at::<W>(args.b, 0, cols.start), (args.b.cs, args.b.rs), cols.len(), args.k);
            // SAFETY: the room has a place for every panel, and tasks pack distinct ones.
            unsafe { part.panels(packed.wrapping_add(cols.start * steps * LINE).cast_mut()) }
        });
        // SAFETY: the caller's contract; B is packed.
        unsafe { job.run::<W, S>(&tasks, par) };
    });
}

/// The element (row, col) of an operand.
fn at<W: Words>(mat: Mat, row: usize, col: usize) -> *const u8 {
    mat.ptr.wrapping_offset((row as isize * mat.rs + col as isize * mat.cs) * W::SIZE as isize)
}

impl Job<'_> {
    /// For closures, which otherwise capture a pointer by itself.
    fn get(&self) -> &Self {
        self
    }

    unsafe fn run<W: Words, S: Sink>(&self, tasks: &Tasks, par: &dyn Parallel) {
        tasks.run_with(self.args.batch, par, &Tiles::default, &|tiles, o, rows, cols| {
            let Job { args, given, packed, turned } = *self.get();
            let moved = |m: Mat, offset: isize| Mat { ptr: m.ptr.wrapping_offset(offset * W::SIZE as isize), ..m };
            let sink = S::new(given, &o);
            let (a, b) = (moved(args.a, o.a), moved(args.b, o.b));
            let mut product = Product { k: args.k, a, b, packed, turned, sink: &sink, tiles };
            // SAFETY: the caller's contract; tasks write distinct tiles or items of C.
            unsafe { product.compute::<W>(rows, cols) }
        });
    }
}

/// One product of the batch, on one thread.
struct Product<'a, S> {
    k: usize,
    a: Mat,
    b: Mat,
    packed: *const u8,
    turned: bool,
    sink: &'a S,
    tiles: &'a mut Tiles,
}

/// Steps along k whose operands are ready, of a block of columns.
struct Group<'a> {
    steps: Range<usize>,
    /// Nothing was summed before, and nothing is after.
    first: bool,
    last: bool,
    cols: &'a Range<usize>,
    /// Panels of B: the first column's, the first step in it and the steps of a whole one.
    b: *const u8,
    b_start: usize,
    b_steps: usize,
    /// Blocks of sums, row after row from `sums_row` on; one alone where sums are finished in one pass.
    sums: *mut u8,
    sums_row: usize,
    one: bool,
    /// Room for another block.
    spare: *mut u8,
}

impl Group<'_> {
    fn sums(&self, row: usize, col: usize) -> *mut u8 {
        let across = self.cols.len().div_ceil(SIDE);
        let index = if self.one { 0 } else { (row - self.sums_row) / SIDE * across + (col - self.cols.start) / SIDE };
        self.sums.wrapping_add(index * BLOCK_BYTES)
    }

    /// The panel of a column, from a step on.
    fn panel(&self, col: usize, step: usize, width: usize) -> *const u8 {
        let panel = (col - self.cols.start) * self.b_steps * LINE;
        self.b.wrapping_add(panel + (step - self.b_start) * LINE * width)
    }
}

impl<S: Sink> Product<'_, S> {
    unsafe fn compute<W: Words>(&mut self, rows: Range<usize>, cols: Range<usize>) {
        let steps = self.k.div_ceil(TILE * W::TOGETHER);
        let groups = Even::new(steps, GROUP);
        if groups.parts > 1 && rows.len() > SUM_ROWS {
            for start in rows.clone().step_by(SUM_ROWS) {
                // SAFETY: the rows are some of this call's.
                unsafe { self.compute::<W>(start..(start + SUM_ROWS).min(rows.end), cols.clone()) };
            }
            return;
        }
        let one = steps <= PASS;
        // A panel that few rows read is packed right before.
        let together = match rows.len() <= FEW_ROWS {
            true => SIDE,
            false if one => COLUMNS,
            false => SUM_COLUMNS,
        };
        let sum_rows = if groups.parts > 1 { rows.len() } else { rows.len().min(ROWS) };
        let n_sums = if one { 1 } else { sum_rows.div_ceil(SIDE) * cols.len().min(together).div_ceil(SIDE) };
        let b_len = if self.packed.is_null() { panel_bytes(cols.len().min(together), groups.largest()) } else { 0 };
        scratch::with(Slot::C, (n_sums + 1) * BLOCK_BYTES, |sums| {
            scratch::with(Slot::B, b_len, |room| {
                for start in cols.clone().step_by(together) {
                    let block = start..(start + together).min(cols.end);
                    for part in 0..groups.parts {
                        let group = groups.get(part);
                        let (b, b_start, b_steps) = if self.packed.is_null() {
                            let first = group.start * TILE * W::TOGETHER;
                            let k = (group.len() * TILE * W::TOGETHER).min(self.k - first);
                            let src = at::<W>(self.b, first, start);
                            let part = Part::<W>::new(src, (self.b.cs, self.b.rs), block.len(), k);
                            // SAFETY: the part lies in B, its panels in the room.
                            unsafe { part.panels(room) };
                            (room.cast_const(), group.start, group.len())
                        } else {
                            (self.packed.wrapping_add(start * steps * LINE), 0, steps)
                        };
                        for row in rows.clone().step_by(ROWS) {
                            let sums_row = if groups.parts > 1 { rows.start } else { row };
                            let (first, last, steps) = (part == 0, part + 1 == groups.parts, group.clone());
                            let (cols, spare) = (&block, sums.wrapping_add(n_sums * BLOCK_BYTES));
                            let group =
                                Group { steps, first, last, cols, b, b_start, b_steps, sums, sums_row, one, spare };
                            // SAFETY: the ranges lie in the problem and the buffers hold a block each.
                            unsafe { self.row_block::<W>(&group, row..(row + ROWS).min(rows.end)) };
                        }
                    }
                }
            })
        });
    }

    /// Whether tiles are loaded from A where it lies: few columns, and rows that end with a step. Read more often, rows
    /// apart are slower than a copy.
    fn reads_a<W: Words>(&self, cols: usize) -> bool {
        W::AS_THEY_LIE && self.a.cs == 1 && self.k.is_multiple_of(TILE * W::TOGETHER) && cols <= FEW_COLUMNS
    }

    unsafe fn row_block<W: Words>(&mut self, group: &Group<'_>, rows: Range<usize>) {
        let first = group.steps.start * TILE * W::TOGETHER;
        let src = at::<W>(self.a, rows.start, first);
        if self.reads_a::<W>(group.cols.len()) {
            // SAFETY: the rows lie in A.
            return unsafe { self.blocks::<W>(group, rows, (src, self.a.rs * W::SIZE as isize)) };
        }
        // Rows an odd number of lines apart fall into different sets of the first cache.
        let rs = (group.steps.len() | 1) * LINE;
        scratch::with(Slot::A, rows.len() * rs, |room| {
            let k = (group.steps.len() * TILE * W::TOGETHER).min(self.k - first);
            let part = Part::<W>::new(src, (self.a.rs, self.a.cs), rows.len(), k);
            // SAFETY: the part lies in A, its rows in the room.
            unsafe {
                part.rows(room, rs);
                self.blocks::<W>(group, rows, (room, rs as isize));
            }
        })
    }

    /// All blocks of some rows, whose steps of A begin at the pointer.
    unsafe fn blocks<W: Words>(&mut self, group: &Group<'_>, rows: Range<usize>, (a, a_rs): (*const u8, isize)) {
        let passes = Even::new(group.steps.len(), PASS);
        // Lower blocks last and together: tiles are configured for one height at a time.
        let whole = rows.start + rows.len() / SIDE * SIDE;
        for part in 0..passes.parts {
            let steps = passes.get(part);
            let first = group.first && part == 0;
            let last = group.last && part + 1 == passes.parts;
            let from = a.wrapping_add(steps.start * LINE);
            let steps = group.steps.start + steps.start..group.steps.start + steps.end;
            for rows_alike in [rows.start..whole, whole..rows.end] {
                for col in group.cols.clone().step_by(SIDE) {
                    for row in rows_alike.clone().step_by(SIDE) {
                        let a = from.wrapping_offset((row - rows.start) as isize * a_rs);
                        let height = (rows_alike.end - row).min(SIDE);
                        // SAFETY: the block's operands are ready, and its sums have their place.
                        unsafe { self.block::<W>(group, &steps, (first, last), (a, a_rs), [row, height, col]) };
                    }
                }
            }
        }
    }

    #[inline]
    unsafe fn block<W: Words>(
        &mut self,
        group: &Group<'_>,
        steps: &Range<usize>,
        (first, last): (bool, bool),
        (a, a_rs): (*const u8, isize),
        [row, rows, col]: [usize; 3],
    ) {
        let n = (group.cols.end - col).min(SIDE);
        let width = n.next_multiple_of(TILE);
        let kept = group.sums(row, col);
        let in_c = if first && last && n == width && !self.turned { self.sink.direct(row, col) } else { None };
        let (sums, sums_rs) = in_c.unwrap_or((kept, (SIDE * 4) as isize));
        let (steps, b) = (steps.len(), group.panel(col, steps.start, width));
        let block = Block { steps, rows, wide: width == SIDE, a, a_rs, b, sums, sums_rs, add: !first };
        // SAFETY: by the caller.
        unsafe {
            self.tiles.multiply::<W>(&block);
            match (last && in_c.is_none(), self.turned) {
                (false, _) => {}
                (true, false) => self.sink.store(kept.cast(), (row, col), (rows, n)),
                (true, true) => {
                    transpose_sums(kept.cast(), group.spare.cast(), (rows, n));
                    self.sink.store(group.spare.cast(), (col, row), (n, rows));
                }
            }
        }
    }
}
