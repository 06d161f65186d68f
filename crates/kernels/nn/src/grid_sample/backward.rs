//! Gradients of images and positions. Those of an image are added up channel by channel in the order of the positions, those of
//! a position over the channels in their order: neither depends on the number of threads.

use super::places::{self, DIMS, MOST, RUN, Slopes, Table};
use super::{BLOCK, Geometry, Operand, by_taps};
use oneflow_base::{DType, Result, no_kernel_for};
use oneflow_kernels_prim::rows::{Grid, split};
use oneflow_kernels_prim::{Acc, Float, GridMode, GridSampleParams, Launch, Simd, WithSimd, dispatch, isa};

/// Channels of an image that one look at the positions serves.
const CHANNELS: usize = 16;

pub unsafe fn backward(l: &Launch<'_>) -> Result<()> {
    let (g, x, grid) = (l.input(0)?, l.input(1)?, l.input(2)?);
    let params: GridSampleParams = l.read()?;
    if let Some(out) = l.opt_output(0) {
        let geometry = Geometry::new(params.clone(), &out, &grid, &g)?;
        // SAFETY: the views are valid by the launch's contract.
        unsafe {
            match x.dtype {
                DType::F32 => image_gradients::<f32>(&geometry),
                DType::F64 => image_gradients::<f64>(&geometry),
                other => return Err(no_kernel_for("grid_sample_backward", other)),
            }
        }
    }
    if let Some(out) = l.opt_output(1) {
        let geometry = Geometry::new(params, &x, &grid, &g)?;
        // SAFETY: as above.
        unsafe {
            match x.dtype {
                DType::F32 => position_gradients::<f32>(&geometry, Operand::of(&out)),
                DType::F64 => position_gradients::<f64>(&geometry, Operand::of(&out)),
                other => return Err(no_kernel_for("grid_sample_backward", other)),
            }
        }
    }
    Ok(())
}

/// Adds weighted gradients of `n` positions to the neighbours in channels that differ.
struct Add<'a, T: Acc, const TAPS: usize, const CHANNELS: usize> {
    table: &'a Table<T>,
    g: [*const T; CHANNELS],
    step: isize,
    n: usize,
    out: [*mut T; CHANNELS],
}

impl<T: Acc, const TAPS: usize, const CHANNELS: usize> WithSimd for Add<'_, T, TAPS, CHANNELS> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Add { table, g, step, n, out } = self;
        for p in 0..n {
            // SAFETY: the position lies in the gradient.
            let g = g.map(|g| unsafe { *g.offset(p as isize * step) });
            let whole = table.whole[p];
            for k in 0..TAPS {
                if whole || table.inside[k][p] {
                    let (at, weight) = (table.at[k][p] as isize, table.weight[k][p]);
                    for c in 0..CHANNELS {
                        // SAFETY: places of the table lie in the image.
                        let to = unsafe { &mut *out[c].offset(at) };
                        *to = *to + if TAPS == 1 { g[c] } else { g[c] * weight };
                    }
                }
            }
        }
    }
}

/// `g.image` is what receives the gradients.
unsafe fn image_gradients<T: Float<Acc = T> + Acc>(g: &Geometry<'_>) {
    let dims = 2..g.map.dims + 2;
    let mut rows =
        Grid::new(&g.values.sizes[dims.clone()], [&g.values.strides[dims.clone()], &g.grid.strides[1..=g.map.dims]]);
    let (n, [g_step, step]) = rows.pop_inner();
    let mut elements = Grid::new(&g.image.sizes[dims.clone()], [&g.image.strides[dims]]);
    let (n_elements, [element_step]) = elements.pop_inner();
    let n_channels = g.n_channels();
    let groups = n_channels.div_ceil(CHANNELS);
    let runs = (n.div_ceil(RUN) * rows.len()) as f64;
    split(g.n_images() * groups, runs * g.cost(CHANNELS.min(n_channels)), &|units| {
        let mut table = Table::new();
        for u in units {
            let (image, first) = (u / groups, u % groups * CHANNELS);
            let channels = first..n_channels.min(first + CHANNELS);
            for c in channels.clone() {
                elements.each(0..elements.len(), |_, [at]| {
                    let row = g.image.at::<T>(image, c, at);
                    // SAFETY: an element of the image; no other task has this channel.
                    (0..n_elements as isize).for_each(|i| unsafe { *row.offset(i * element_step) = T::ZERO });
                });
            }
            rows.each(0..rows.len(), |_, [o, at]| {
                for from in (0..n).step_by(RUN) {
                    let m = RUN.min(n - from);
                    g.fill::<T>(image, at + from as isize * step, step, m, false, &mut table);
                    let source = |c| g.values.at::<T>(image, c, o + from as isize * g_step).cast_const();
                    let target = |c| g.image.at::<T>(image, c, 0);
                    by_taps!(g.map.taps(), TAPS => {
                        let mut c = channels.start;
                        while c + BLOCK <= channels.end {
                            let (g, out) = (std::array::from_fn(|i| source(c + i)), std::array::from_fn(|i| target(c + i)));
                            dispatch(isa(), Add::<T, TAPS, BLOCK> { table: &table, g, step: g_step, n: m, out });
                            c += BLOCK;
                        }
                        for c in c..channels.end {
                            let (g, out) = ([source(c)], [target(c)]);
                            dispatch(isa(), Add::<T, TAPS, 1> { table: &table, g, step: g_step, n: m, out });
                        }
                    });
                }
            });
        }
    });
}

/// What a step of each neighbour's weight is worth at `n` positions, added up over channels.
struct Worth<'a, T: Acc, const TAPS: usize, const CHANNELS: usize> {
    table: &'a Table<T>,
    g: [*const T; CHANNELS],
    step: isize,
    n: usize,
    x: [*const T; CHANNELS],
    sums: &'a mut [[T; RUN]; MOST],
}

impl<T: Acc, const TAPS: usize, const CHANNELS: usize> WithSimd for Worth<'_, T, TAPS, CHANNELS> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Worth { table, g, step, n, x, sums } = self;
        for p in 0..n {
            // SAFETY: the position lies in the gradient.
            let g = g.map(|g| unsafe { *g.offset(p as isize * step) });
            let whole = table.whole[p];
            for k in 0..TAPS {
                if whole || table.inside[k][p] {
                    let (at, mut sum) = (table.at[k][p] as isize, sums[k][p]);
                    for c in 0..CHANNELS {
                        // SAFETY: places of the table lie in the image.
                        sum = sum + g[c] * unsafe { *x[c].offset(at) };
                    }
                    sums[k][p] = sum;
                }
            }
        }
    }
}

unsafe fn position_gradients<T: Float<Acc = T> + Acc>(g: &Geometry<'_>, out: Operand<'_>) {
    let dims = g.map.dims;
    let (values, positions) = (2..dims + 2, 1..dims + 1);
    let mut rows = Grid::new(
        &g.values.sizes[values.clone()],
        [&g.values.strides[values], &g.grid.strides[positions.clone()], &out.strides[positions]],
    );
    let (n, [g_step, step, out_step]) = rows.pop_inner();
    let (n_channels, runs) = (g.n_channels(), n.div_ceil(RUN));
    let out_axis = out.strides[1 + dims] as isize;
    split(g.n_images() * rows.len() * runs, g.cost(n_channels), &|units| {
        let (mut table, mut found) = (Table::new(), [[T::ZERO; RUN]; DIMS]);
        for u in units {
            let (image, row, from) = (u / runs / rows.len(), u / runs % rows.len(), u % runs * RUN);
            let m = RUN.min(n - from);
            rows.each(row..row + 1, |_, [v, at, o]| {
                // The nearest element does not change with the position.
                if g.map.mode != GridMode::Nearest {
                    g.fill::<T>(image, at + from as isize * step, step, m, true, &mut table);
                    let mut sums = [[T::ZERO; RUN]; MOST];
                    let source = |c| g.image.at::<T>(image, c, 0).cast_const();
                    let gradient = |c| g.values.at::<T>(image, c, v + from as isize * g_step).cast_const();
                    by_taps!(g.map.taps(), TAPS => {
                        let (table, sums) = (&*table, &mut sums);
                        let mut c = 0;
                        while c + BLOCK <= n_channels {
                            let (g, x) = (std::array::from_fn(|i| gradient(c + i)), std::array::from_fn(|i| source(c + i)));
                            dispatch(isa(), Worth::<T, TAPS, BLOCK> { table, g, step: g_step, n: m, x, sums });
                            c += BLOCK;
                        }
                        for c in c..n_channels {
                            let (g, x) = ([gradient(c)], [source(c)]);
                            dispatch(isa(), Worth::<T, TAPS, 1> { table, g, step: g_step, n: m, x, sums });
                        }
                    });
                    dispatch(isa(), Slopes(g.map, &table, &sums, &mut found));
                }
                for (d, found) in found[..dims].iter().enumerate() {
                    // x stands first.
                    let axis = (dims - 1 - d) as isize * out_axis;
                    let to = out.at::<T>(image, 0, o + from as isize * out_step + axis);
                    for (p, v) in found[..m].iter().enumerate() {
                        // SAFETY: the position lies in the output; no other task has it.
                        unsafe { *to.offset(p as isize * out_step) = *v };
                    }
                }
            });
        }
    });
}
