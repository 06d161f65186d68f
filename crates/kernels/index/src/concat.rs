//! CONCAT: inputs of the output's dtype are moved here, others go through the COPY primitive, which casts.

use crate::num::by_size;
use oneflow_base::{DeviceType, Result};
use oneflow_kernels_prim::rows::{Grid, Shared, copy_run, split};
use oneflow_kernels_prim::{COPY, DimParams, Launch, View};
use smallvec::SmallVec;

pub unsafe fn concat(l: &Launch<'_>) -> Result<()> {
    let (out, DimParams { dim }) = (l.output(0)?, l.read()?);
    if out.numel() == 0 {
        return Ok(());
    }
    // SAFETY: the launch's contract.
    if unsafe { interleave(l, &out, dim) } {
        return Ok(());
    }
    let mut start = 0;
    for x in l.ins.iter().flatten() {
        // An empty input takes no room; torch lets it have any rank.
        if x.numel() == 0 {
            continue;
        }
        let offset = start * out.strides[dim] as isize * out.dtype.size() as isize;
        let part =
            View { ptr: out.ptr.wrapping_offset(offset), dtype: out.dtype, sizes: x.sizes, strides: out.strides };
        start += x.sizes[dim] as isize;
        // SAFETY: infer made the output's dimension the sum of the inputs', so the part lies inside the output.
        unsafe {
            if x.dtype == out.dtype {
                by_size!(out.dtype, T => copy::<T>(&part, x));
            } else {
                let (outs, ins) = ([Some(part)], [Some(*x)]);
                COPY.on(DeviceType::CPU)?(&Launch { outs: &outs, ins: &ins, params: &[], expr: None, queue: l.queue })?;
            }
        }
    }
    Ok(())
}

/// Short runs of many inputs, all without gaps and with their dimensions in one order in memory: rows of the output are
/// completed while they are in the first cache. Answers whether that is what was asked for.
unsafe fn interleave(l: &Launch<'_>, out: &View, dim: usize) -> bool {
    /// Bytes of output rows that are filled together.
    const BLOCK: usize = 16 << 10;
    let size = out.dtype.size();
    let order = order(out);
    let at = order.iter().position(|d| *d == dim).unwrap_or(0);
    let count = |v: &View, dims: &[usize]| dims.iter().map(|d| v.sizes[*d]).product::<i64>() as usize;
    let run = |v: &View| count(v, &order[at..]) * size;
    let rows = count(out, &order[..at]);
    let whole = run(out);
    if rows < 4 || whole > BLOCK || !is_dense(out, &order) {
        return false;
    }
    let mut parts: SmallVec<[(Shared<u8>, usize); 32]> = SmallVec::new();
    for x in l.ins.iter().flatten().filter(|x| x.numel() > 0) {
        if x.dtype != out.dtype || x.sizes.len() != out.sizes.len() || !is_dense(x, &order) {
            return false;
        }
        parts.push((Shared::new(x.ptr), run(x)));
    }
    let (height, to) = (BLOCK / whole, Shared::<u8>::new(out.ptr));
    split(rows.div_ceil(height), 0.05 * BLOCK as f64, &|r| {
        for first in r.map(|block| block * height) {
            let n = height.min(rows - first);
            let mut o = to.at((first * whole) as isize);
            for &(x, bytes) in &parts {
                let s = x.at((first * bytes) as isize).cast_const();
                // SAFETY: rows `first..first + n` of the input and of the output.
                unsafe {
                    match bytes {
                        4 => runs::<[u8; 4]>(s, o, n, whole),
                        8 => runs::<[u8; 8]>(s, o, n, whole),
                        16 => runs::<[u8; 16]>(s, o, n, whole),
                        32 => runs::<[u8; 32]>(s, o, n, whole),
                        64 => runs::<[u8; 64]>(s, o, n, whole),
                        128 => runs::<[u8; 128]>(s, o, n, whole),
                        _ => (0..n).for_each(|i| copy_run(s.add(i * bytes), o.add(i * whole), bytes)),
                    }
                }
                o = o.wrapping_add(bytes);
            }
        }
    });
    true
}

/// The dimensions of a view from the outermost in memory to the innermost.
fn order(v: &View) -> SmallVec<[usize; 8]> {
    let mut order: SmallVec<[usize; 8]> = (0..v.sizes.len()).collect();
    order.sort_by_key(|d| std::cmp::Reverse(v.strides[*d]));
    order
}

/// Whether a view has no gaps, with its dimensions in this order in memory.
fn is_dense(v: &View, order: &[usize]) -> bool {
    let mut step = 1;
    order.iter().rev().filter(|d| v.sizes[**d] != 1).all(|d| {
        let fits = v.strides[*d] == step;
        step *= v.sizes[*d];
        fits
    })
}

/// Moves `n` neighbours to places `step` bytes apart.
#[inline(always)]
unsafe fn runs<E: Copy>(from: *const u8, to: *mut u8, n: usize, step: usize) {
    for i in 0..n {
        // SAFETY: by the caller; nothing is known of the alignment.
        unsafe { to.add(i * step).cast::<E>().write_unaligned(from.cast::<E>().add(i).read_unaligned()) };
    }
}

/// A strided copy of equal sizes.
unsafe fn copy<T: Copy>(out: &View, x: &View) {
    const BLOCK: usize = 4096;
    let mut grid = Grid::new(out.sizes, [out.strides, x.strides]);
    let (n, [os, xs]) = grid.pop_inner();
    let (out, x) = (Shared::<T>::new(out.ptr), Shared::<T>::new(x.ptr));
    let row_bytes = n * size_of::<T>();
    if os == 1 && xs == 1 && row_bytes <= 512 && grid.len() * row_bytes < 64 << 10 {
        // Many short rows: two plain loops.
        let (rows, [down_out, down_x]) = grid.pop_inner();
        grid.each(0..grid.len(), |_, off| {
            for row in 0..rows as isize {
                // SAFETY: both views hold the row.
                unsafe { copy_run(x.at(off[1] + row * down_x).cast_const(), out.at(off[0] + row * down_out), n) };
            }
        });
        return;
    }
    let blocks = n.div_ceil(BLOCK);
    let ns = if os == 1 && xs == 1 { 0.05 * size_of::<T>() as f64 } else { 1.0 };
    split(grid.len() * blocks, ns * n.min(BLOCK) as f64, &|r| {
        let rows = r.start / blocks..r.end.div_ceil(blocks);
        grid.each(rows, |row, off| {
            let (first, last) =
                (r.start.max(row * blocks) - row * blocks, r.end.min((row + 1) * blocks) - row * blocks);
            let (from, to) = (first * BLOCK, n.min(last * BLOCK));
            let (o, s) = (out.at(off[0]), x.at(off[1]));
            // SAFETY: both views hold the position; tasks write disjoint ranges.
            unsafe {
                if os == 1 && xs == 1 {
                    copy_run(s.add(from), o.add(from), to - from);
                } else {
                    (from as isize..to as isize).for_each(|j| *o.offset(j * os) = *s.offset(j * xs));
                }
            }
        });
    });
}
