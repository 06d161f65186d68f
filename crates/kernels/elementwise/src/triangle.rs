//! TRIANGLE: one triangle of the last two dimensions kept, zero elsewhere. Moves bytes by element size.

use oneflow_base::{Error, Result};
use oneflow_kernels_prim::rows::{self, Grid, Shared};
use oneflow_kernels_prim::{Launch, TriangleParams, View};

pub unsafe fn triangle(l: &Launch<'_>) -> Result<()> {
    let (x, out) = (l.input(0)?, l.output(0)?);
    let TriangleParams { diagonal, upper } = l.read()?;
    if out.ndim() < 2 || x.sizes != out.sizes || x.dtype != out.dtype {
        return Err(Error::runtime(format!(
            "triangle: expected an input of at least 2 dimensions and an output like it, got {:?} {} and {:?} {}",
            x.sizes, x.dtype, out.sizes, out.dtype
        )));
    }
    // SAFETY: the launch's contract.
    unsafe {
        match out.dtype.size() {
            1 => run::<u8>(x, out, diagonal, upper),
            2 => run::<u16>(x, out, diagonal, upper),
            4 => run::<u32>(x, out, diagonal, upper),
            8 => run::<u64>(x, out, diagonal, upper),
            _ => run::<[u64; 2]>(x, out, diagonal, upper),
        }
    }
    Ok(())
}

unsafe fn run<E: Copy + Default + Send + Sync>(x: View<'_>, out: View<'_>, diagonal: i64, upper: bool) {
    let nd = out.ndim();
    let (n_rows, n_cols) = (out.sizes[nd - 2], out.sizes[nd - 1]);
    let (src, dst) = (Shared::<E>::new(x.ptr), Shared::<E>::new(out.ptr));
    let batches = Grid::<2>::new(&out.sizes[..nd - 2], [&x.strides[..nd - 2], &out.strides[..nd - 2]]);
    let (xs, os) = ([x.strides[nd - 2], x.strides[nd - 1]], [out.strides[nd - 2], out.strides[nd - 1]]);
    let all_rows = batches.len() * n_rows as usize;
    rows::split(all_rows, n_cols as f64 * 0.2, &|r| {
        let mut row = r.start;
        while row < r.end {
            let batch = row / n_rows as usize;
            let end = r.end.min((batch + 1) * n_rows as usize);
            batches.each(batch..batch + 1, |_, [bx, bo]| {
                for i in row..end {
                    let i = (i - batch * n_rows as usize) as i64;
                    // The first column above the kept (lower) or in the kept (upper) triangle.
                    let edge = i.saturating_add(diagonal).saturating_add(!upper as i64).clamp(0, n_cols);
                    let kept = if upper { edge..n_cols } else { 0..edge };
                    let zero = if upper { 0..edge } else { edge..n_cols };
                    let (px, po) = (bx + (i * xs[0]) as isize, bo + (i * os[0]) as isize);
                    // SAFETY: columns lie in the row; rows are disjoint between tasks. An element is read before it is
                    // written, so the output may be the input.
                    unsafe {
                        if xs[1] == 1 && os[1] == 1 {
                            let (from, n) = (kept.start as isize, (kept.end - kept.start) as usize);
                            std::ptr::copy(
                                src.at(px + from).cast::<u8>(),
                                dst.at(po + from).cast(),
                                n * size_of::<E>(),
                            );
                            let (from, n) = (zero.start as isize, (zero.end - zero.start) as usize);
                            dst.at(po + from).cast::<u8>().write_bytes(0, n * size_of::<E>());
                            continue;
                        }
                        for j in kept {
                            let v = src.at(px + (j * xs[1]) as isize).read_unaligned();
                            dst.at(po + (j * os[1]) as isize).write_unaligned(v);
                        }
                        for j in zero {
                            dst.at(po + (j * os[1]) as isize).write_unaligned(E::default());
                        }
                    }
                }
            });
            row = end;
        }
    });
}
