//! ATTENTION in bfloat16 on the tiles of AMX: both products of a head in tiles, the softmax between them in registers.
//!
//! Scores, maxima and sums are float32. Weights are rounded to bfloat16 before they multiply the values, and sums of
//! weights are those of what was not rounded.

use crate::block::{KEY_BLOCK, SCORE_STRIDE};
use crate::problem::{Heads, Problem};
use crate::softmax::{Finish, HeadRows, Pass, Stats};
use oneflow_base::{DType, Result, bf16};
use oneflow_kernels_gemm::micro::{
    Block, LINE, Matrix, SIDE, Slot, TILE, TileBf16, TileBlock, TilePart, Tiles, store_row, tile_panel_bytes,
    with_scratch,
};
use oneflow_kernels_prim::{Isa, Launch, Simd, WithSimd, dispatch, isa};
use std::ops::Range;

/// Rows that are worked on together: their scores and weights stay in the second cache.
pub const ROWS: usize = 2 * SIDE;
/// Numbers of a step of a tile.
const STEP: usize = 2 * TILE;
/// Bytes from a row of weights to the next: an odd number of lines, which fall into different sets of the first cache.
const WEIGHTS_STRIDE: usize = (KEY_BLOCK / STEP + 1) * LINE;
/// Fewer rows are not worth packing the keys.
const FEW_ROWS: usize = 8;

/// The problem, if it is one for tiles.
pub fn problem(l: &Launch<'_>) -> Result<Option<Problem<bf16>>> {
    if isa() != Isa::Amx || l.input(0)?.dtype != DType::BF16 {
        return Ok(None);
    }
    let problem = Problem::<bf16>::new(l, 0)?;
    let fits = problem.rows >= FEW_ROWS && problem.keys >= STEP && problem.width > 0 && problem.value_width > 0;
    Ok(fits.then_some(problem))
}

/// An operand of a product in panels of 32 columns, a last one of 16 or 32.
struct Panels {
    ptr: *const u8,
    columns: usize,
    /// Along k, of 64 bytes a column.
    steps: usize,
}

impl Panels {
    fn width(&self, col: usize) -> usize {
        (self.columns - col).min(SIDE).next_multiple_of(TILE)
    }
    /// The panel of a column that is a multiple of 32, from a step on.
    fn at(&self, col: usize, step: usize) -> *const u8 {
        self.ptr.wrapping_add((col * self.steps + step * self.width(col)) * LINE)
    }
}

/// `rows` rows of a bfloat16 operand by the panels of some columns: sets the sums, or adds to them.
///
/// # Safety
/// The machine has the tiles; the operands and whole tiles of sums lie in memory.
unsafe fn multiply(
    tiles: &mut Tiles,
    (a, a_rs, rows): (*const u8, usize, usize),
    (b, cols, steps): (&Panels, Range<usize>, Range<usize>),
    sums: Block<f32>,
    add: bool,
) {
    for col in cols.clone().step_by(SIDE) {
        let block = TileBlock {
            steps: steps.len(),
            rows,
            wide: b.width(col) == SIDE,
            a,
            a_rs: a_rs as isize,
            b: b.at(col, steps.start),
            sums: sums.at(0, col - cols.start).cast(),
            sums_rs: sums.rs * 4,
            add,
        };
        // SAFETY: by the caller.
        unsafe { tiles.multiply::<TileBf16>(&block) };
    }
}

/// # Safety
/// The machine has the tiles; the problem, the result and the statistics are those of a launch.
pub unsafe fn head_rows(
    p: &Problem<bf16>,
    HeadRows { batch, head, rows }: HeadRows,
    out: Heads<bf16>,
    stats: Stats<f32>,
) {
    let kv_head = head / p.group();
    let (query, key, value) =
        (p.query.matrix(batch, head), p.key.matrix(batch, kv_head), p.value.matrix(batch, kv_head));
    let keys = p.visible(rows.end - 1, 0, p.keys);
    let (width_steps, key_steps) = (p.width.div_ceil(STEP), keys.div_ceil(STEP));
    let q_rs = (width_steps | 1) * LINE;
    let vp = p.value_width.next_multiple_of(TILE);
    let lens = [
        tile_panel_bytes(keys, width_steps),
        tile_panel_bytes(p.value_width, key_steps),
        ROWS * q_rs,
        SIDE * SCORE_STRIDE * 4,
        SIDE * WEIGHTS_STRIDE,
        ROWS * vp * 4,
        ROWS * 4,
        ROWS * 4,
        KEY_BLOCK * 4,
    ];
    let total = lens.iter().map(|n| n.next_multiple_of(LINE)).sum();
    with_scratch(Slot::A, total, |room| {
        let mut at = 0;
        let [kt, v, q, scores, weights, sums, max, total, factors] = lens.map(|n| {
            let part = room.wrapping_add(at);
            at += n.next_multiple_of(LINE);
            part
        });
        // SAFETY: the rooms are as long as asked for; the matrices are those of the launch.
        unsafe {
            TilePart::<TileBf16>::new(key.ptr.cast_const().cast(), (key.rs, key.cs), keys, p.width).panels(kt);
            TilePart::<TileBf16>::new(value.ptr.cast_const().cast(), (value.cs, value.rs), p.value_width, keys)
                .panels(v);
            let kt = Panels { ptr: kt, columns: keys, steps: width_steps };
            let v = Panels { ptr: v, columns: p.value_width, steps: key_steps };
            let (scores, sums) = (Block::rows(scores.cast(), SCORE_STRIDE), Block::<f32>::rows(sums.cast(), vp));
            let (max, total): (*mut f32, *mut f32) = (max.cast(), total.cast());
            let mut tiles = Tiles::default();
            for first_row in rows.clone().step_by(ROWS) {
                let n_rows = ROWS.min(rows.end - first_row);
                let from = query.at(first_row, 0).cast_const().cast();
                TilePart::<TileBf16>::new(from, (query.rs, query.cs), n_rows, p.width).rows(q, q_rs);
                for i in 0..n_rows {
                    (*max.add(i), *total.add(i)) = (f32::NEG_INFINITY, 0.0);
                }
                for first_key in (0..p.visible(first_row + n_rows - 1, 0, p.keys)).step_by(KEY_BLOCK) {
                    for at in (0..n_rows).step_by(SIDE) {
                        let (height, row) = (SIDE.min(n_rows - at), first_row + at);
                        let n = p.seen([batch, head, row, first_key], height, KEY_BLOCK.min(p.keys - first_key));
                        // The first keys start the sums, even if they are hidden.
                        let n = n.max((first_key == 0) as usize);
                        if n == 0 {
                            continue;
                        }
                        let sums = Block { ptr: sums.at(at, 0), ..sums };
                        let a = (q.wrapping_add(at * q_rs).cast_const(), q_rs, height);
                        let some_keys = (&kt, first_key..first_key + n, 0..width_steps);
                        multiply(&mut tiles, a, some_keys, scores, false);
                        let pass = Pass {
                            p,
                            at: [batch, head, row, first_key],
                            height,
                            n,
                            padded: n.next_multiple_of(TILE),
                            scores,
                            scale: p.scale as f32,
                            sums,
                            vp,
                            max: max.add(at),
                            total: total.add(at),
                            factors: factors.cast(),
                        };
                        dispatch(isa(), pass);
                        dispatch(isa(), Round { scores, height, n, weights });
                        let a = (weights.cast_const(), WEIGHTS_STRIDE, height);
                        let steps = first_key / STEP..first_key / STEP + n.div_ceil(STEP);
                        multiply(&mut tiles, a, (&v, 0..p.value_width, steps), sums, first_key > 0);
                    }
                }
                let out: Matrix<bf16> = out.matrix(batch, head);
                let finish = Finish { sums, vp: p.value_width, n_rows, max, total, out, stats, first_row };
                dispatch(isa(), finish);
            }
        }
    });
}

/// Weights of some rows to bfloat16, with zeros up to a whole step.
struct Round {
    scores: Block<f32>,
    height: usize,
    n: usize,
    weights: *mut u8,
}

impl WithSimd for Round {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for i in 0..self.height {
            let to: *mut bf16 = self.weights.wrapping_add(i * WEIGHTS_STRIDE).cast();
            // SAFETY: a row of scores holds whole registers, one of weights whole steps.
            unsafe {
                store_row::<bf16, S>(self.scores.at(i, 0), to, 1, self.n, 1.0);
                to.add(self.n).write_bytes(0, self.n.next_multiple_of(STEP) - self.n);
            }
        }
    }
}
