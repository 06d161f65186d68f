//! Sums of bfloat16 convolutions on the tiles of AMX, where the machine has them.
//!
//! What the register kernels gather as they multiply lies anywhere, and a tile is loaded from rows equally far apart:
//! some steps of all rows of a block are brought together first, and multiplied by panels that are those of the
//! register kernels. Zeros around the image are multiplied as well, so weights that are not finite stay with those.

use oneflow_kernels_prim::{Isa, isa};
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
pub use products::Rows;

/// Pairs of a step.
const TILE: usize = 16;

/// Whether bfloat16 is multiplied in tiles.
pub fn used() -> bool {
    cfg!(target_arch = "x86_64") && isa() == Isa::Amx
}

/// Pairs along k with the zeros that fill the last step.
pub fn padded_pairs(pairs: usize) -> usize {
    if used() { pairs.next_multiple_of(TILE) } else { pairs }
}

/// Pairs from a row of so many to the next: an odd number of steps, which fall into different sets of the first cache.
pub fn row_pairs(pairs: usize) -> usize {
    if used() { (pairs.div_ceil(TILE) | 1) * TILE } else { pairs }
}

/// Rows of pairs in runs, by a panelled weight.
pub struct Gathered<'a, P, A> {
    pub src: *const P,
    /// Where the rows begin in `src`, and in the sums.
    pub rows: &'a [[isize; 2]],
    /// Where runs begin behind a row's beginning, and the pairs of each.
    pub runs: &'a [isize],
    pub run: usize,
    /// The whole weight, [panel][pair, filled up to whole steps][column], of `n` columns.
    pub weight: *const P,
    pub n: usize,
    pub cols: Range<usize>,
    pub sums: *mut A,
}

#[cfg(target_arch = "x86_64")]
mod products {
    use super::{Gathered, TILE, row_pairs};
    use oneflow_kernels_gemm::micro::{LINE, SIDE, Slot, TileBf16, TileBlock, Tiles, with_scratch};
    use std::ops::Range;

    /// Steps that are multiplied in one pass: a panel of as many stays in the first cache.
    const PASS: usize = 16;
    const BLOCK: usize = SIDE * SIDE;

    /// Rows of pairs, `row_pairs` apart, that end with zeros up to a whole step.
    pub struct Rows {
        pub ptr: *const u32,
        pub rows: usize,
        pub pairs: usize,
    }

    impl Rows {
        /// Sets or adds the products with panels of at most 32 columns, which `panel` fills one after the other from
        /// the first column, their width and the place on: [pair, up to a whole step][column, up to a whole tile].
        ///
        /// # Safety
        /// The machine has the tiles. The rows lie in memory, as do sums in whole tiles, `ld` apart.
        pub unsafe fn multiply(
            &self,
            n: usize,
            b: *mut u32,
            (sums, ld): (*mut f32, usize),
            add: bool,
            panel: impl Fn(usize, usize, *mut u32),
        ) {
            let steps = self.pairs.div_ceil(TILE);
            let rs = row_pairs(self.pairs);
            let mut tiles = Tiles::default();
            for col in (0..n).step_by(SIDE) {
                let width = SIDE.min(n - col);
                panel(col, width, b);
                for row in (0..self.rows).step_by(SIDE) {
                    let block = TileBlock {
                        steps,
                        rows: (self.rows - row).min(SIDE),
                        wide: width > TILE,
                        a: self.ptr.wrapping_add(row * rs).cast(),
                        a_rs: (rs * 4) as isize,
                        b: b.cast_const().cast(),
                        sums: sums.wrapping_add(row * ld + col).cast(),
                        sums_rs: (ld * 4) as isize,
                        add,
                    };
                    // SAFETY: by the caller.
                    unsafe { tiles.multiply::<TileBf16>(&block) };
                }
            }
        }
    }

    impl Gathered<'_, u32, f32> {
        /// Sets the sums, whose columns are those of whole tiles.
        ///
        /// # Safety
        /// The machine has the tiles. Rows, runs, weight and sums lie in their buffers.
        pub unsafe fn multiply(&self) {
            let (n_rows, k) = (self.rows.len(), self.runs.len() * self.run);
            let steps = k.div_ceil(TILE);
            let ld = PASS.min(steps) | 1;
            let panels = self.cols.len().div_ceil(SIDE);
            let blocks = n_rows.div_ceil(SIDE) * panels;
            let a_len = n_rows * ld * LINE;
            with_scratch(Slot::C, a_len + blocks * BLOCK * 4, |room| {
                let sums: *mut f32 = room.wrapping_add(a_len).cast();
                let mut tiles = Tiles::default();
                for first in (0..steps).step_by(PASS) {
                    let pass = first..(first + PASS).min(steps);
                    // SAFETY: by the caller; the room holds the rows and a block for each tile of sums.
                    unsafe {
                        self.gather(&pass, k, room.cast(), ld * TILE);
                        let whole = n_rows / SIDE * SIDE;
                        for (rows, panel) in
                            [0..whole, whole..n_rows].into_iter().flat_map(|r| (0..panels).map(move |p| (r.clone(), p)))
                        {
                            let col = self.cols.start + panel * SIDE;
                            let width = (self.n - col).min(SIDE).next_multiple_of(TILE);
                            let b = self.weight.add(col * steps * TILE + pass.start * TILE * width);
                            for row in rows.clone().step_by(SIDE) {
                                tiles.multiply::<TileBf16>(&TileBlock {
                                    steps: pass.len(),
                                    rows: (rows.end - row).min(SIDE),
                                    wide: width == SIDE,
                                    a: room.add(row * ld * LINE),
                                    a_rs: (ld * LINE) as isize,
                                    b: b.cast(),
                                    sums: sums.add((row / SIDE * panels + panel) * BLOCK).cast(),
                                    sums_rs: (SIDE * 4) as isize,
                                    add: first > 0,
                                });
                            }
                        }
                    }
                }
                for (i, [_, to]) in self.rows.iter().enumerate() {
                    for panel in 0..panels {
                        let width = (self.n - self.cols.start - panel * SIDE).min(SIDE).next_multiple_of(TILE);
                        // SAFETY: the row lies in the sums.
                        unsafe {
                            let from = sums.add((i / SIDE * panels + panel) * BLOCK + i % SIDE * SIDE);
                            std::ptr::copy_nonoverlapping(from, self.sums.offset(*to).add(panel * SIDE), width);
                        }
                    }
                }
            })
        }

        /// Some steps of every row, `ld` pairs apart.
        unsafe fn gather(&self, pass: &Range<usize>, k: usize, to: *mut u32, ld: usize) {
            let (start, end) = (pass.start * TILE, k.min(pass.end * TILE));
            for (i, [from, _]) in self.rows.iter().enumerate() {
                let row = to.wrapping_add(i * ld);
                let mut at = start;
                while at < end {
                    let (run, within) = (at / self.run, at % self.run);
                    let n = (self.run - within).min(end - at);
                    // SAFETY: by the caller.
                    unsafe {
                        let from = self.src.offset(from + self.runs[run]).add(within);
                        std::ptr::copy_nonoverlapping(from, row.add(at - start), n);
                    }
                    at += n;
                }
                // SAFETY: the row has room for whole steps.
                unsafe { row.add(end - start).write_bytes(0, pass.len() * TILE - (end - start)) };
            }
        }
    }
}
