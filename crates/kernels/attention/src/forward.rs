//! ATTENTION: a block of rows against a block of keys at a time, with a running maximum and sum of every row.

use crate::block::{KEY_BLOCK, SCORE_STRIDE, row_block};
use crate::problem::{Dropout, Heads, Mask, Problem};
#[cfg(target_arch = "x86_64")]
use crate::tiles;
use oneflow_base::{Result, by_float};
use oneflow_ep::cpu;
use oneflow_kernels_gemm::micro::{Block, GemmFloat, Kit, Matrix, store_row, with_buffers};
use oneflow_kernels_prim::{Acc, Float, Lanes, Launch, Num, Reg, Register, Simd, WithSimd, dispatch, isa};
use std::ops::Range;

pub unsafe fn attention(l: &Launch<'_>) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    if let Some(problem) = tiles::problem(l)? {
        // SAFETY: the launch's views hold the heads; tasks write distinct rows.
        return run_heads(l, &problem, tiles::ROWS, &|head, out, stats| unsafe {
            tiles::head_rows(&problem, head, out, stats)
        });
    }
    by_float!("scaled_dot_product_attention", l.input(0)?.dtype, T => run::<T>(l))
}

fn run<T: GemmFloat>(l: &Launch<'_>) -> Result<()> {
    let (p, kit) = (&Problem::<T>::new(l, 0)?, &Kit::<T>::new());
    // SAFETY: the launch's views hold the heads; tasks write distinct rows.
    run_heads(l, p, row_block(kit.kernels), &|head, out, stats| unsafe { head_rows(p, kit, head, out, stats) })
}

/// Some rows of one head.
pub struct HeadRows {
    pub batch: usize,
    pub head: usize,
    pub rows: Range<usize>,
}

/// What computes some rows of a head.
type HeadFn<'a, T> = dyn Fn(HeadRows, Heads<T>, Stats<<T as Float>::Acc>) + Sync + 'a;

/// Calls `f` for all rows of all heads, in tasks of whole blocks.
fn run_heads<T: GemmFloat>(l: &Launch<'_>, p: &Problem<T>, block: usize, f: &HeadFn<'_, T>) -> Result<()> {
    let out = Heads::<T>::new(&l.output(0)?);
    let stats = l.output(1)?;
    let (sb, sh, sr) = (stats.strides[0] as isize, stats.strides[1] as isize, stats.strides[2] as isize);
    let stats = oneflow_kernels_prim::rows::Shared::<T::Acc>::new(stats.ptr);
    let n_heads = p.batch * p.heads;
    // Every task packs the keys of its head: heads are cut only where there are few.
    let work = n_heads as f64 * p.rows as f64 * p.keys as f64 * (p.width + p.value_width) as f64;
    let wanted = if work < 2e5 { 1 } else { 4 * cpu::num_threads() };
    let parts = wanted.div_ceil(n_heads.max(1)).clamp(1, p.rows.div_ceil(block).max(1));
    let part_rows = p.rows.div_ceil(parts).next_multiple_of(block);
    let parts = p.rows.div_ceil(part_rows.max(1));
    let task = |i: usize| {
        let (head, part) = (i / parts, i % parts);
        let (batch, head) = (head / p.heads, head % p.heads);
        let rows = part * part_rows..((part + 1) * part_rows).min(p.rows);
        let stats = Stats { ptr: stats.at(batch as isize * sb + head as isize * sh), step: sr };
        f(HeadRows { batch, head, rows }, out, stats);
    };
    // Small problems stay on the caller: several heads a task.
    if wanted == 1 {
        (0..n_heads * parts).for_each(task);
    } else {
        cpu::parallel_for(n_heads * parts, &task);
    }
    Ok(())
}

/// Where a head's log-sum-exps go.
#[derive(Clone, Copy)]
pub struct Stats<A> {
    pub ptr: *mut A,
    pub step: isize,
}

unsafe fn head_rows<T: GemmFloat>(
    p: &Problem<T>,
    kit: &Kit<T>,
    HeadRows { batch, head, rows }: HeadRows,
    out: Heads<T>,
    stats: Stats<T::Acc>,
) {
    let kv_head = head / p.group();
    let (query, key, value) =
        (p.query.matrix(batch, head), p.key.matrix(batch, kv_head), p.value.matrix(batch, kv_head));
    let (block, vp) = (row_block(kit.kernels), kit.padded(p.value_width));
    let keys = p.visible(rows.end - 1, 0, p.keys);
    let lens = [
        kit.packed_len(keys, p.width),
        kit.rows_len(&value, keys, p.value_width),
        kit.rows_len(&query, rows.len(), p.width),
        kit.kernels.mr * SCORE_STRIDE,
        block * vp,
        block,
        block,
        KEY_BLOCK,
    ];
    with_buffers(lens, |[kt, v, q, scores, sums, max, total, factors]| {
        let out = out.matrix(batch, head);
        // SAFETY: the rooms are as long as asked for; the matrices are those of the launch.
        unsafe {
            let kt = kit.pack_transposed(key, keys, p.width, kt);
            let v = kit.as_rows(value, 0..keys, p.value_width, v);
            let q = kit.as_rows(query, rows.clone(), p.width, q);
            let (scores, sums) = (Block::rows(scores, SCORE_STRIDE), Block::rows(sums, vp));
            for first_row in rows.clone().step_by(block) {
                let n_rows = block.min(rows.end - first_row);
                for i in 0..n_rows {
                    (*max.add(i), *total.add(i)) = (T::Acc::of(f64::NEG_INFINITY), T::Acc::ZERO);
                }
                if p.keys == 0 {
                    std::slice::from_raw_parts_mut(sums.ptr, n_rows * vp).fill(T::Acc::ZERO);
                }
                for first_key in (0..p.visible(first_row + n_rows - 1, 0, p.keys)).step_by(KEY_BLOCK) {
                    for at in (0..n_rows).step_by(kit.kernels.mr) {
                        let height = kit.kernels.mr.min(n_rows - at);
                        let row = first_row + at;
                        let n = p.seen([batch, head, row, first_key], height, KEY_BLOCK.min(p.keys - first_key));
                        // The first keys start the sums, even if they are hidden.
                        let n = n.max((first_key == 0) as usize);
                        if n == 0 {
                            continue;
                        }
                        let q = q.from(row - rows.start, 0);
                        kit.panel_packed((height, n, p.width), q, &kt, first_key, scores, T::Acc::of(p.scale));
                        let sums = sums.from(at, 0);
                        let pass = Pass {
                            p,
                            at: [batch, head, row, first_key],
                            height,
                            n,
                            padded: kit.padded(n),
                            scores,
                            scale: T::Acc::ONE,
                            sums,
                            vp,
                            max: max.add(at),
                            total: total.add(at),
                            factors,
                        };
                        dispatch(isa(), pass);
                        let one = T::Acc::ONE;
                        kit.panel((height, vp, n), scores, v.from(first_key, 0), sums, one, first_key > 0);
                    }
                }
                let finish = Finish { sums, vp: p.value_width, n_rows, max, total, out, stats, first_row };
                dispatch(isa(), finish);
            }
        }
    });
}

/// Scores of a few rows to weights: mask, new maximum, exponentials, sums, dropout; earlier sums are rescaled.
pub struct Pass<'a, T: GemmFloat> {
    pub p: &'a Problem<T>,
    /// Batch, head, first row, first key.
    pub at: [usize; 4],
    pub height: usize,
    pub n: usize,
    /// Keys in whole registers.
    pub padded: usize,
    pub scores: Block<T::Acc>,
    /// What the scores are multiplied by first.
    pub scale: T::Acc,
    pub sums: Block<T::Acc>,
    pub vp: usize,
    pub max: *mut T::Acc,
    pub total: *mut T::Acc,
    pub factors: *mut T::Acc,
}

impl<T: GemmFloat> WithSimd for Pass<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Pass { p, at: [batch, head, row, key], n, padded, vp, .. } = self;
        let width = <Reg<S, T>>::WIDTH;
        let least = T::Acc::of(f64::NEG_INFINITY);
        for i in 0..self.height {
            let s = self.scores.at(i, 0);
            let seen = p.visible(row + i, key, n);
            // SAFETY: a row of scores holds `padded` numbers, one of sums `vp`; the mask covers every score.
            unsafe {
                if self.scale != T::Acc::ONE {
                    let scale = Reg::<S, T>::all_of(self.scale);
                    for j in (0..seen).step_by(width) {
                        (<Reg<S, T> as Register>::load(s.add(j)) * scale).store(s.add(j));
                    }
                }
                for j in seen..padded {
                    *s.add(j) = least;
                }
                apply_mask::<T>(&p.mask, [batch, head, row + i, key], s, seen);
                let mut m = [Reg::<S, T>::splat(f64::NEG_INFINITY); 2];
                let mut j = 0;
                while j + 2 * width <= padded {
                    m[0] = m[0].maximum(Register::load(s.add(j)));
                    m[1] = m[1].maximum(Register::load(s.add(j + width)));
                    j += 2 * width;
                }
                while j < padded {
                    m[0] = m[0].maximum(Register::load(s.add(j)));
                    j += width;
                }
                let old = *self.max.add(i);
                let new = m[0].maximum(m[1]).maximum(Register::all_of(old)).max_of();
                *self.max.add(i) = new;
                // A row that has seen nothing yet: its exponentials are zeros, not NaN.
                let base = Reg::<S, T>::all_of(if new == least { T::Acc::ZERO } else { new });
                let mut sum = [Reg::<S, T>::splat(0.0); 2];
                let mut j = 0;
                while j + 2 * width <= padded {
                    let a = (<Reg<S, T> as Register>::load(s.add(j)) - base).exp();
                    let b = (<Reg<S, T> as Register>::load(s.add(j + width)) - base).exp();
                    a.store(s.add(j));
                    b.store(s.add(j + width));
                    sum[0] = sum[0] + a;
                    sum[1] = sum[1] + b;
                    j += 2 * width;
                }
                while j < padded {
                    let a = (<Reg<S, T> as Register>::load(s.add(j)) - base).exp();
                    a.store(s.add(j));
                    sum[0] = sum[0] + a;
                    j += width;
                }
                let sum = (sum[0] + sum[1]).sum();
                if key == 0 {
                    *self.total.add(i) = sum;
                } else {
                    let shrink = (Reg::<S, T>::all_of(old) - base).exp();
                    let before = (Reg::<S, T>::all_of(*self.total.add(i)) * shrink).max_of();
                    *self.total.add(i) = before + sum;
                    let o = self.sums.at(i, 0);
                    for j in (0..vp).step_by(width) {
                        (<Reg<S, T> as Register>::load(o.add(j)) * shrink).store(o.add(j));
                    }
                }
                if let Some(d) = &p.dropout {
                    drop_row::<T>(d, [batch, head, row + i, key], s, seen, self.factors);
                }
            }
        }
    }
}

/// # Safety
/// `s` and `factors` hold `n` numbers.
#[inline(always)]
unsafe fn drop_row<T: GemmFloat>(d: &Dropout, at: [usize; 4], s: *mut T::Acc, n: usize, factors: *mut T::Acc) {
    // SAFETY: by the caller.
    unsafe {
        let f = std::slice::from_raw_parts_mut(factors, n);
        d.factors(at, f);
        for (j, f) in f.iter().enumerate() {
            *s.add(j) = *s.add(j) * *f;
        }
    }
}

/// Hides or biases the `n` scores of a row.
///
/// # Safety
/// `s` holds `n` numbers; the mask covers them.
#[inline(always)]
pub unsafe fn apply_mask<T: GemmFloat>(mask: &Mask<T>, [batch, head, row, key]: [usize; 4], s: *mut T::Acc, n: usize) {
    // SAFETY: by the caller.
    unsafe {
        match mask {
            Mask::None => {}
            Mask::Bool(m) => {
                let m = m.matrix(batch, head);
                let (from, least) = (m.at(row, key), T::Acc::of(f64::NEG_INFINITY));
                if m.cs == 1 {
                    for j in 0..n {
                        *s.add(j) = if *from.add(j) != 0 { *s.add(j) } else { least };
                    }
                } else {
                    for j in 0..n {
                        *s.add(j) = if *from.wrapping_offset(j as isize * m.cs) != 0 { *s.add(j) } else { least };
                    }
                }
            }
            Mask::Same(m) => {
                let m = m.matrix(batch, head);
                let from = m.at(row, key);
                for j in 0..n {
                    *s.add(j) = *s.add(j) + (*from.wrapping_offset(j as isize * m.cs)).widen();
                }
            }
            Mask::F32(m) => {
                let m = m.matrix(batch, head);
                let from = m.at(row, key);
                for j in 0..n {
                    *s.add(j) = *s.add(j) + T::Acc::of(*from.wrapping_offset(j as isize * m.cs) as f64);
                }
            }
        }
    }
}

/// Divides finished rows by their sums and stores them.
pub struct Finish<T: GemmFloat> {
    pub sums: Block<T::Acc>,
    pub vp: usize,
    pub n_rows: usize,
    pub max: *const T::Acc,
    pub total: *const T::Acc,
    pub out: Matrix<T>,
    pub stats: Stats<T::Acc>,
    pub first_row: usize,
}

impl<T: GemmFloat> WithSimd for Finish<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        for i in 0..self.n_rows {
            let row = self.first_row + i;
            // SAFETY: the rooms hold the rows; the outputs are the launch's.
            unsafe {
                let (max, total) = (*self.max.add(i), *self.total.add(i));
                let (factor, stat) = if total == T::Acc::ZERO {
                    (T::Acc::ZERO, T::Acc::of(f64::INFINITY))
                } else {
                    let t = Reg::<S, T>::all_of(total);
                    ((Reg::<S, T>::splat(1.0) / t).max_of(), (t.log() + Register::all_of(max)).max_of())
                };
                store_row::<T, S>(self.sums.at(i, 0), self.out.at(row, 0), self.out.cs, self.vp, factor);
                *self.stats.ptr.wrapping_offset(row as isize * self.stats.step) = stat;
            }
        }
    }
}
