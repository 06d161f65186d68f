//! Values of images at positions.

use super::places::{self, RUN, Table};
use super::{BLOCK, Geometry, by_taps};
use oneflow_base::{Result, by_float};
use oneflow_kernels_prim::rows::{Grid, split};
use oneflow_kernels_prim::{Acc, Float, Launch, Simd, WithSimd, dispatch, isa};

pub unsafe fn forward(l: &Launch<'_>) -> Result<()> {
    let (x, grid, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let geometry = Geometry::new(l.read()?, &x, &grid, &out)?;
    by_float!("grid_sample", x.dtype, T => {
        // SAFETY: the views are valid by the launch's contract.
        unsafe { sample::<T>(&geometry) };
        Ok(())
    })
}

/// The values of `CHANNELS` channels at `n` positions. Channels at the same address are computed alike.
struct Read<'a, T: Float, const TAPS: usize, const CHANNELS: usize> {
    table: &'a Table<T::Acc>,
    x: [*const T; CHANNELS],
    n: usize,
    out: [*mut T; CHANNELS],
    step: isize,
}

impl<T: Float, const TAPS: usize, const CHANNELS: usize> WithSimd for Read<'_, T, TAPS, CHANNELS> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Read { table, x, n, out, step } = self;
        for p in 0..n {
            let mut sums = [T::Acc::ZERO; CHANNELS];
            let mut add = |k: usize| {
                let (at, weight) = (table.at[k][p] as isize, table.weight[k][p]);
                for c in 0..CHANNELS {
                    // SAFETY: places of the table lie in the image.
                    let v = unsafe { (*x[c].offset(at)).widen() };
                    // The one neighbour of a nearest place has no weight.
                    sums[c] = if TAPS == 1 { v } else { sums[c] + v * weight };
                }
            };
            if table.whole[p] {
                (0..TAPS).for_each(&mut add);
            } else {
                (0..TAPS).filter(|k| table.inside[*k][p]).for_each(&mut add);
            }
            for c in 0..CHANNELS {
                // SAFETY: the position lies in the output.
                unsafe { *out[c].offset(p as isize * step) = T::narrow(sums[c]) };
            }
        }
    }
}

unsafe fn sample<T: Float>(g: &Geometry<'_>) {
    let dims = 2..g.map.dims + 2;
    let mut rows = Grid::new(&g.values.sizes[dims.clone()], [&g.values.strides[dims], &g.grid.strides[1..=g.map.dims]]);
    let (n, [out_step, step]) = rows.pop_inner();
    let (n_channels, runs) = (g.n_channels(), n.div_ceil(RUN));
    if n_channels == 0 {
        return;
    }
    split(g.n_images() * rows.len() * runs, g.cost(n_channels), &|units| {
        let mut table = Table::new();
        for u in units {
            let (image, row, from) = (u / runs / rows.len(), u / runs % rows.len(), u % runs * RUN);
            let m = RUN.min(n - from);
            rows.each(row..row + 1, |_, [o, at]| {
                g.fill::<T>(image, at + from as isize * step, step, m, false, &mut table);
                let source = |c| g.image.at::<T>(image, c, 0).cast_const();
                let target = |c| g.values.at::<T>(image, c, o + from as isize * out_step);
                by_taps!(g.map.taps(), TAPS => {
                    let mut c = 0;
                    while n_channels - c > 1 {
                        // The last channels may be fewer: then the last one stands for those that are missing.
                        let channel = |i: usize| (c + i).min(n_channels - 1);
                        dispatch(isa(), Read::<T, TAPS, BLOCK> {
                            table: &table,
                            x: std::array::from_fn(|i| source(channel(i))),
                            n: m,
                            out: std::array::from_fn(|i| target(channel(i))),
                            step: out_step,
                        });
                        c = (c + BLOCK).min(n_channels);
                    }
                    if c < n_channels {
                        let (x, out) = ([source(c)], [target(c)]);
                        dispatch(isa(), Read::<T, TAPS, 1> { table: &table, x, n: m, out, step: out_step });
                    }
                });
            });
        }
    });
}
