//! Copies whose two sides walk different dimensions without gaps: in blocks of cache lines, turned in registers.

use crate::nest::Nest;
use oneflow_kernels_prim::rows::{self, Shared};
use oneflow_kernels_prim::{Isa, isa};

/// Edge of a block a task works on: few enough pages on both sides for the first TLB.
const BLOCK: usize = 64;

/// Copies a nest over (out, source) whose innermost dimension is the output's and whose dimension `d` is the source's
/// contiguous one.
///
/// # Safety
/// The nest's elements are valid on both sides and do not overlap.
pub unsafe fn planes<E: Copy + Send + Sync>(nest: &Nest, d: usize, from: Shared<E>, to: Shared<E>) {
    let (n_rows, n_cols) = (nest.sizes[d], nest.inner());
    let (out_row, src_col) = (nest.strides(d)[0], nest.inner_strides()[1]);
    let others = Nest::from_dims(2, (0..nest.ndim() - 1).filter(|k| *k != d).map(|k| (nest.sizes[k], nest.strides(k))));
    // A strip of rows of one plane is a task's item.
    let strips = n_rows.div_ceil(BLOCK);
    let ns = (BLOCK.min(n_rows) * n_cols) as f64 * 0.2;
    rows::split(others.rows(0) * strips, ns, &|r| {
        for unit in r {
            let walk = others.walk(0, unit / strips);
            let row = unit % strips * BLOCK;
            let height = BLOCK.min(n_rows - row);
            let (mut dst, mut src) = (walk.offsets[0] + row as isize * out_row, walk.offsets[1] + row as isize);
            let mut col = 0;
            while col < n_cols {
                let width = BLOCK.min(n_cols - col);
                // SAFETY: the block lies in the plane.
                unsafe { block(from.at(src), src_col, to.at(dst), out_row, height, width) };
                src += width as isize * src_col;
                dst += width as isize;
                col += width;
            }
        }
    });
}

/// `dst[i * out_row + j] = src[i + j * src_col]` for `i < height`, `j < width`.
///
/// # Safety
/// Both sides are valid for those elements and do not overlap.
pub unsafe fn block<E: Copy>(src: *const E, src_col: isize, dst: *mut E, out_row: isize, height: usize, width: usize) {
    const STEP: usize = 8;
    let (i_end, j_end) = (height / STEP * STEP, width / STEP * STEP);
    #[cfg(target_arch = "x86_64")]
    let vector = size_of::<E>() == 4 && isa() >= Isa::Avx2;
    #[cfg(not(target_arch = "x86_64"))]
    let vector = false;
    // SAFETY: the caller's; eight by eight elements fit below the ends.
    unsafe {
        let at = |i: usize, j: usize| {
            (src.offset(i as isize + j as isize * src_col), dst.offset(i as isize * out_row + j as isize))
        };
        for i in (0..i_end).step_by(STEP) {
            for j in (0..j_end).step_by(STEP) {
                let (s, d) = at(i, j);
                if vector {
                    #[cfg(target_arch = "x86_64")]
                    eight_by_eight_words(s.cast(), src_col, d.cast(), out_row);
                } else {
                    eight_by_eight(s, src_col, d, out_row);
                }
            }
        }
        let single = |i: usize, j: usize| {
            let (s, d) = at(i, j);
            d.write_unaligned(s.read_unaligned());
        };
        for i in 0..height {
            for j in if i < i_end { j_end } else { 0 }..width {
                single(i, j);
            }
        }
    }
}

#[inline(always)]
unsafe fn eight_by_eight<E: Copy>(src: *const E, src_col: isize, dst: *mut E, out_row: isize) {
    // SAFETY: the caller's.
    unsafe {
        let mut buf = [[src.read_unaligned(); 8]; 8];
        for (j, line) in buf.iter_mut().enumerate() {
            *line = src.offset(j as isize * src_col).cast::<[E; 8]>().read_unaligned();
        }
        for i in 0..8 {
            let line = buf.map(|l| l[i]);
            dst.offset(i as isize * out_row).cast::<[E; 8]>().write_unaligned(line);
        }
    }
}

/// Eight by eight four-byte elements: pairs, quads and halves change places in registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn eight_by_eight_words(src: *const f32, src_col: isize, dst: *mut f32, out_row: isize) {
    use std::arch::x86_64::*;
    // SAFETY: the caller's.
    unsafe {
        let row = |j: isize| _mm256_loadu_ps(src.offset(j * src_col));
        let r = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];
        let lo = |a, b| _mm256_unpacklo_ps(a, b);
        let hi = |a, b| _mm256_unpackhi_ps(a, b);
        let p = [
            lo(r[0], r[1]),
            hi(r[0], r[1]),
            lo(r[2], r[3]),
            hi(r[2], r[3]),
            lo(r[4], r[5]),
            hi(r[4], r[5]),
            lo(r[6], r[7]),
            hi(r[6], r[7]),
        ];
        let front = |a, b| _mm256_shuffle_ps::<0x44>(a, b);
        let back = |a, b| _mm256_shuffle_ps::<0xee>(a, b);
        let q = [
            front(p[0], p[2]),
            back(p[0], p[2]),
            front(p[1], p[3]),
            back(p[1], p[3]),
            front(p[4], p[6]),
            back(p[4], p[6]),
            front(p[5], p[7]),
            back(p[5], p[7]),
        ];
        for i in 0..4 {
            _mm256_storeu_ps(dst.offset(i as isize * out_row), _mm256_permute2f128_ps::<0x20>(q[i], q[i + 4]));
            _mm256_storeu_ps(dst.offset((i + 4) as isize * out_row), _mm256_permute2f128_ps::<0x31>(q[i], q[i + 4]));
        }
    }
}
