//! ATTENTION_BACKWARD: the weights again from scores and log-sum-exps, block by block, and the five products around them.

use crate::block::{KEY_BLOCK, SCORE_STRIDE, row_block};
use crate::problem::{Heads, Problem};
use crate::softmax::apply_mask;
use oneflow_base::{Result, by_float};
use oneflow_ep::cpu;
use oneflow_kernels_gemm::micro::{Block, GemmFloat, Kit, Matrix, StoreRows, with_buffers};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{Acc, Lanes, Launch, Num, Reg, Register, Simd, WithSimd, dispatch, isa};

pub unsafe fn attention_backward(l: &Launch<'_>) -> Result<()> {
    by_float!("scaled_dot_product_attention", l.input(1)?.dtype, T => run::<T>(l))
}

/// What a task needs beyond the problem.
struct Grads<T: GemmFloat> {
    grad_out: Heads<T>,
    out: Heads<T>,
    stats: Shared<T::Acc>,
    stat_strides: [isize; 3],
    query: Heads<T>,
    key: Heads<T>,
    value: Heads<T>,
    mask: Option<Heads<T>>,
}

fn run<T: GemmFloat>(l: &Launch<'_>) -> Result<()> {
    let p = &Problem::<T>::new(l, 1)?;
    let stats = l.input(6)?;
    let grads = &Grads::<T> {
        grad_out: Heads::new(&l.input(0)?),
        out: Heads::new(&l.input(5)?),
        stats: Shared::new(stats.ptr),
        stat_strides: std::array::from_fn(|d| stats.strides[d] as isize),
        query: Heads::new(&l.output(0)?),
        key: Heads::new(&l.output(1)?),
        value: Heads::new(&l.output(2)?),
        mask: l.opt_output(3).map(|m| Heads::new(&m)),
    };
    let kit = &Kit::<T>::new();
    let n_heads = p.batch * p.kv_heads;
    // SAFETY: the launch's views hold the heads; tasks write distinct ones.
    let task = |i: usize| unsafe { head(p, kit, grads, i / p.kv_heads, i % p.kv_heads) };
    let work = (p.batch * p.heads) as f64 * p.rows as f64 * p.keys as f64 * (p.width + p.value_width) as f64;
    if work < 1e5 {
        (0..n_heads).for_each(task);
    } else {
        cpu::parallel_for(n_heads, &task);
    }
    Ok(())
}

/// All query heads that read one head of key and value.
unsafe fn head<T: GemmFloat>(p: &Problem<T>, kit: &Kit<T>, grads: &Grads<T>, batch: usize, kv_head: usize) {
    let (key, value) = (p.key.matrix(batch, kv_head), p.value.matrix(batch, kv_head));
    let heads = kv_head * p.group()..(kv_head + 1) * p.group();
    let (block, ep, vp) = (row_block(kit.kernels), kit.padded(p.width), kit.padded(p.value_width));
    let (query, grad_out) = (p.query.matrix(batch, heads.start), grads.grad_out.matrix(batch, heads.start));
    let lens = [
        kit.packed_len(p.keys, p.width),
        kit.packed_len(p.keys, p.value_width),
        kit.rows_len(&key, p.keys, p.width),
        p.keys * ep,
        p.keys * vp,
        kit.rows_len(&query, block, p.width),
        kit.rows_len(&grad_out, block, p.value_width),
        block * SCORE_STRIDE,
        block * SCORE_STRIDE,
        block * ep,
        block + KEY_BLOCK,
    ];
    with_buffers(lens, |[kt, vt, k, dk, dv, q_room, g_room, weights, d_scores, dq, delta]| {
        // SAFETY: the rooms are as long as asked for; the matrices are those of the launch.
        unsafe {
            let kt = kit.pack_transposed(key, p.keys, p.width, kt);
            let vt = kit.pack_transposed(value, p.keys, p.value_width, vt);
            let k = kit.as_rows(key, 0..p.keys, p.width, k);
            std::slice::from_raw_parts_mut(dk, p.keys * ep).fill(T::Acc::ZERO);
            std::slice::from_raw_parts_mut(dv, p.keys * vp).fill(T::Acc::ZERO);
            let (dk, dv, dq) = (Block::rows(dk, ep), Block::rows(dv, vp), Block::rows(dq, ep));
            let (weights, d_scores) = (Block::rows(weights, SCORE_STRIDE), Block::rows(d_scores, SCORE_STRIDE));
            for head in heads {
                let (query, grad_out) = (p.query.matrix(batch, head), grads.grad_out.matrix(batch, head));
                let out = grads.out.matrix(batch, head);
                let stats = batch as isize * grads.stat_strides[0] + head as isize * grads.stat_strides[1];
                let grad_mask = grads.mask.map(|m| m.matrix(batch, head));
                if let Some(m) = grad_mask {
                    clear(m, p.rows, p.keys);
                }
                for first_row in (0..p.rows).step_by(block) {
                    let n_rows = block.min(p.rows - first_row);
                    let q = kit.as_rows(query, first_row..first_row + n_rows, p.width, q_room);
                    let g = kit.as_rows(grad_out, first_row..first_row + n_rows, p.value_width, g_room);
                    let from = Matrix { ptr: out.at(first_row, 0), ..out };
                    dispatch(isa(), Delta::<T> { g, out: from, n_rows, width: p.value_width, delta });
                    let visible = p.visible(first_row + n_rows - 1, 0, p.keys);
                    if visible == 0 {
                        std::slice::from_raw_parts_mut(dq.ptr, n_rows * ep).fill(T::Acc::ZERO);
                    }
                    for first_key in (0..visible).step_by(KEY_BLOCK) {
                        let n = KEY_BLOCK.min(visible - first_key);
                        // Of each tile of rows, how many of these keys it sees.
                        let mut seen = [0; 64];
                        for at in (0..n_rows).step_by(kit.kernels.mr) {
                            let height = kit.kernels.mr.min(n_rows - at);
                            let row = first_row + at;
                            let n_seen = p.seen([batch, head, row, first_key], height, n);
                            seen[at / kit.kernels.mr] = n_seen;
                            let (weights, d_scores) = (weights.from(at, 0), d_scores.from(at, 0));
                            let shape = |k| (height, n_seen, k);
                            let scale = T::Acc::of(p.scale);
                            kit.panel_packed(shape(p.width), q.from(at, 0), &kt, first_key, weights, scale);
                            let one = T::Acc::ONE;
                            kit.panel_packed(shape(p.value_width), g.from(at, 0), &vt, first_key, d_scores, one);
                            let pass = Pass {
                                p,
                                at: [batch, head, row, first_key],
                                height,
                                n: n_seen,
                                padded: kit.padded(n),
                                weights,
                                d_scores,
                                delta: delta.add(at),
                                stats: grads.stats.at(stats + row as isize * grads.stat_strides[2]),
                                stat_step: grads.stat_strides[2],
                                factors: delta.add(block),
                                grad_mask,
                            };
                            dispatch(isa(), pass);
                            if n_seen > 0 || first_key == 0 {
                                let k = k.from(first_key, 0);
                                kit.panel((height, ep, n_seen), d_scores, k, dq.from(at, 0), one, first_key > 0);
                            }
                        }
                        let of_keys = OfKeys { p, kit, first_row, n_rows, first_key, seen: &seen };
                        of_keys.add(weights, g, dv.from(first_key, 0), vp);
                        of_keys.add(d_scores, q, dk.from(first_key, 0), ep);
                    }
                    let to = grads.query.matrix(batch, head);
                    let to = Matrix { ptr: to.at(first_row, 0), ..to };
                    store(dq, to, n_rows, p.width, T::Acc::of(p.scale));
                }
            }
            store(dk, grads.key.matrix(batch, kv_head), p.keys, p.width, T::Acc::of(p.scale));
            store(dv, grads.value.matrix(batch, kv_head), p.keys, p.value_width, T::Acc::ONE);
        }
    });
}

unsafe fn store<T: GemmFloat>(from: Block<T::Acc>, to: Matrix<T>, rows: usize, width: usize, factor: T::Acc) {
    dispatch(isa(), StoreRows::<T> { from, to, rows, width, factor });
}

unsafe fn clear<T: GemmFloat>(m: Matrix<T>, rows: usize, cols: usize) {
    for row in 0..rows {
        for col in 0..cols {
            // SAFETY: the matrix is an output of the launch.
            unsafe { *m.at(row, col) = T::default() };
        }
    }
}

/// The products that sum over rows: what a block of rows adds to the gradients of a block of keys.
struct OfKeys<'a, T: GemmFloat> {
    p: &'a Problem<T>,
    kit: &'a Kit<T>,
    first_row: usize,
    n_rows: usize,
    first_key: usize,
    /// How many keys each tile of rows sees.
    seen: &'a [usize; 64],
}

impl<T: GemmFloat> OfKeys<'_, T> {
    /// `to += block.T @ rows`, leaving out the first rows that do not see the keys of a tile.
    unsafe fn add(&self, block: Block<T::Acc>, rows: Block<T::Acc>, to: Block<T::Acc>, width: usize) {
        let mr = self.kit.kernels.mr;
        let tiles = &self.seen[..self.n_rows.div_ceil(mr)];
        let n = tiles.iter().copied().max().unwrap_or(0);
        for key in (0..n).step_by(mr) {
            let height = mr.min(n - key);
            let hidden = mr * tiles.iter().take_while(|seen| **seen <= key).count();
            let ahead = if self.p.causal { (self.first_key + key).saturating_sub(self.first_row) } else { 0 };
            let skip = hidden.max(ahead).min(self.n_rows);
            let at = block.from(skip, key);
            let transposed = Block { ptr: at.ptr, rs: 1, cs: at.rs };
            let shape = (height, width, self.n_rows - skip);
            // SAFETY: the blocks hold the rows and keys; rows are padded.
            unsafe { self.kit.panel(shape, transposed, rows.from(skip, 0), to.from(key, 0), T::Acc::ONE, true) };
        }
    }
}

/// `delta = sum(grad_out * out)` of every row.
struct Delta<T: GemmFloat> {
    g: Block<T::Acc>,
    out: Matrix<T>,
    n_rows: usize,
    width: usize,
    delta: *mut T::Acc,
}

impl<T: GemmFloat> WithSimd for Delta<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let lanes = <Reg<S, T>>::WIDTH;
        for i in 0..self.n_rows {
            let mut sum = Reg::<S, T>::splat(0.0);
            for col in (0..self.width).step_by(lanes) {
                let n = lanes.min(self.width - col);
                // SAFETY: the rows hold `width` elements; those of `g` are padded.
                unsafe {
                    let p = self.out.at(i, col);
                    let o = match self.out.cs {
                        1 if n == lanes => T::load::<S>(p),
                        1 => T::load_partial::<S>(p, n),
                        stride => T::gather::<S>(p, stride, n),
                    };
                    sum = <Reg<S, T> as Register>::load(self.g.at(i, col)).fma(o, sum);
                }
            }
            // SAFETY: the room holds a number a row.
            unsafe { *self.delta.add(i) = sum.sum() };
        }
    }
}

/// From scores and the weights' gradients of a few rows: weights (with dropout) and scores' gradients, in place.
struct Pass<'a, T: GemmFloat> {
    p: &'a Problem<T>,
    /// Batch, head, first row, first key.
    at: [usize; 4],
    height: usize,
    n: usize,
    /// Columns that later products read.
    padded: usize,
    weights: Block<T::Acc>,
    d_scores: Block<T::Acc>,
    delta: *const T::Acc,
    stats: *const T::Acc,
    stat_step: isize,
    factors: *mut T::Acc,
    grad_mask: Option<Matrix<T>>,
}

impl<T: GemmFloat> WithSimd for Pass<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Pass { p, at: [batch, head, row, key], n, padded, .. } = self;
        let width = <Reg<S, T>>::WIDTH;
        for i in 0..self.height {
            let (w, d) = (self.weights.at(i, 0), self.d_scores.at(i, 0));
            let seen = p.visible(row + i, key, n);
            // SAFETY: rows of both blocks hold `padded` numbers; the mask and its gradient cover the scores.
            unsafe {
                apply_mask::<T>(&p.mask, [batch, head, row + i, key], w, seen);
                let stat = Reg::<S, T>::all_of(*self.stats.wrapping_offset(i as isize * self.stat_step));
                let delta = Reg::<S, T>::all_of(*self.delta.add(i));
                if let Some(drop) = &p.dropout {
                    drop.factors([batch, head, row + i, key], std::slice::from_raw_parts_mut(self.factors, seen));
                    for j in (0..seen).step_by(width) {
                        let weight = (<Reg<S, T> as Register>::load(w.add(j)) - stat).exp();
                        let factor = <Reg<S, T> as Register>::load(self.factors.add(j));
                        let grad = <Reg<S, T> as Register>::load(d.add(j)) * factor;
                        (weight * (grad - delta)).store(d.add(j));
                        (weight * factor).store(w.add(j));
                    }
                } else {
                    for j in (0..seen).step_by(width) {
                        let weight = (<Reg<S, T> as Register>::load(w.add(j)) - stat).exp();
                        let grad = <Reg<S, T> as Register>::load(d.add(j));
                        (weight * (grad - delta)).store(d.add(j));
                        weight.store(w.add(j));
                    }
                }
                for j in seen..padded {
                    *w.add(j) = T::Acc::ZERO;
                    *d.add(j) = T::Acc::ZERO;
                }
                if let Some(m) = &self.grad_mask {
                    let m = Matrix { ptr: m.at(row + i, key), ..*m };
                    oneflow_kernels_gemm::micro::store_row::<T, S>(d, m.ptr, m.cs, seen, T::Acc::ONE);
                }
            }
        }
    }
}
