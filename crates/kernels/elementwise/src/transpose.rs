//! Copies whose two sides walk different dimensions without gaps: in blocks of cache lines, through a buffer.

use crate::nest::Nest;
use oneflow_kernels_prim::rows::{self, Shared};

/// Edge of a block: a cache line of four-byte elements.
const BLOCK: usize = 16;

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
    let ns = (BLOCK * n_cols) as f64 * 0.3;
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
#[inline]
unsafe fn block<E: Copy>(src: *const E, src_col: isize, dst: *mut E, out_row: isize, height: usize, width: usize) {
    // SAFETY: the caller's.
    unsafe {
        if height == BLOCK && width == BLOCK {
            let mut buf = [[src.read_unaligned(); BLOCK]; BLOCK];
            for (j, line) in buf.iter_mut().enumerate() {
                *line = src.offset(j as isize * src_col).cast::<[E; BLOCK]>().read_unaligned();
            }
            for i in 0..BLOCK {
                let mut line = [buf[0][i]; BLOCK];
                for j in 0..BLOCK {
                    line[j] = buf[j][i];
                }
                dst.offset(i as isize * out_row).cast::<[E; BLOCK]>().write_unaligned(line);
            }
            return;
        }
        for i in 0..height {
            for j in 0..width {
                let v = src.offset(i as isize + j as isize * src_col).read_unaligned();
                dst.offset(i as isize * out_row + j as isize).write_unaligned(v);
            }
        }
    }
}
