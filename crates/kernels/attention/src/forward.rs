//! ATTENTION: a block of rows against a block of keys at a time, with a running maximum and sum of every row.

use crate::block::{KEY_BLOCK, SCORE_STRIDE, row_block};
use crate::problem::{Heads, Problem};
use crate::softmax::{Finish, HeadRows, Pass, Stats};
#[cfg(target_arch = "x86_64")]
use crate::tiles;
use oneflow_base::{Result, by_float};
use oneflow_ep::cpu;
use oneflow_kernels_gemm::micro::{Block, GemmFloat, Kit, with_buffers};
use oneflow_kernels_prim::{Acc, Float, Launch, dispatch, isa};

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
