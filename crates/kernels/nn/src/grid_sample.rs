//! GRID_SAMPLE: values of images at positions. For a run of positions the places and weights of their neighbours are found
//! once, and every channel is read by them. Half types compute in f32.

use crate::mem::{Acc, Float, by_float};
use oneflow_base::{Error, Result};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{GridBorder, GridMode, Launch, Simd, View, WithSimd, dispatch, isa};

/// Positions of a run.
const RUN: usize = 64;
/// Most neighbours of a position: four by four.
const MOST: usize = 16;
/// Most spatial dimensions.
const DIMS: usize = 3;
/// The place of a neighbour outside of the image.
const OUTSIDE: isize = isize::MIN;

pub unsafe fn grid_sample(l: &Launch<'_>) -> Result<()> {
    let (x, grid, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let dims = x.ndim().saturating_sub(2);
    if !(2..=DIMS).contains(&dims) || grid.ndim() != x.ndim() || out.ndim() != x.ndim() || grid.dtype != x.dtype {
        return Err(Error::not_implemented(format!("grid_sample: {} of shape {:?}", x.dtype, x.sizes)));
    }
    let (mode, border) = (GridMode::from_u64(l.param(0)?.0), GridBorder::from_u64(l.param(1)?.0));
    let (Some(mode), Some(border)) = (mode, border) else {
        return Err(Error::runtime("grid_sample: unknown mode"));
    };
    if mode == GridMode::Cubic && dims != 2 {
        return Err(Error::not_implemented("grid_sample: bicubic of more than two dimensions"));
    }
    let map = Map { mode, border, align_corners: l.param(2)?.bool(), dims };
    // SAFETY: the views are valid by the launch's contract.
    by_float!("grid_sample", x.dtype, T => unsafe { sample::<T>(&x, &grid, &out, map) })
}

/// How positions become places.
#[derive(Clone, Copy)]
struct Map {
    mode: GridMode,
    border: GridBorder,
    align_corners: bool,
    dims: usize,
}

impl Map {
    /// A coordinate of the grid in elements of a dimension of `n`.
    #[inline(always)]
    fn place<A: Acc>(self, x: A, n: usize) -> A {
        let (one, n) = (A::of(1.0), A::of(n as f64));
        if self.align_corners { (x + one) * ((n - one) * A::of(0.5)) } else { ((x + one) * n - one) * A::of(0.5) }
    }

    /// A place brought onto the image, except where zeros lie around it.
    #[inline(always)]
    fn inside<A: Acc>(self, x: A, n: usize) -> A {
        let last = A::of(n as f64 - 1.0);
        let x = match self.border {
            GridBorder::Zeros => return x,
            GridBorder::Clamp => x,
            GridBorder::Reflect => {
                let half = A::of(if self.align_corners { 0.0 } else { 0.5 });
                let (low, span) = (-half, last + half + half);
                if span <= A::of(0.0) {
                    A::of(0.0)
                } else {
                    let away = (x - low).abs();
                    let flips = (away / span).floor();
                    let rest = away - flips * span;
                    let even = (flips * A::of(0.5)).floor() * A::of(2.0) == flips;
                    (if even { rest } else { span - rest }) + low
                }
            }
        };
        // NaN stays.
        let x = if x < A::of(0.0) { A::of(0.0) } else { x };
        if x > last { last } else { x }
    }
}

/// Places and weights along one dimension of a position's neighbours.
struct Steps<A> {
    at: [isize; 4],
    weight: [A; 4],
}

/// Places and weights of the neighbours of a run's positions.
struct Table<A> {
    at: [[isize; RUN]; MOST],
    weight: [[A; RUN]; MOST],
    /// Whether all neighbours lie in the image.
    whole: bool,
}

/// Weights of the four neighbours (Keys, 1981, a = -3/4).
#[inline(always)]
fn cubic<A: Acc>(t: A) -> [A; 4] {
    let n = A::of;
    let a = n(-0.75);
    let near = |x: A| ((a + n(2.0)) * x - (a + n(3.0))) * x * x + n(1.0);
    let far = |x: A| ((a * x - n(5.0) * a) * x + n(8.0) * a) * x - n(4.0) * a;
    [far(t + n(1.0)), near(t), near(n(1.0) - t), far(n(2.0) - t)]
}

/// An integral place in elements, or outside.
#[inline(always)]
fn element<A: Acc>(x: A, n: usize, stride: isize) -> isize {
    // False for NaN.
    if x >= A::of(0.0) && x <= A::of(n as f64 - 1.0) { x.wide() as isize * stride } else { OUTSIDE }
}

#[inline(always)]
fn steps<A: Acc>(map: Map, x: A, n: usize, stride: isize) -> Steps<A> {
    let (zero, one) = (A::of(0.0), A::of(1.0));
    let x = map.place(x, n);
    match map.mode {
        GridMode::Nearest => {
            let at = element(map.inside(x, n).round(), n, stride);
            Steps { at: [at; 4], weight: [one, zero, zero, zero] }
        }
        GridMode::Linear => {
            let x = map.inside(x, n);
            let low = x.floor();
            let part = x - low;
            let at = [element(low, n, stride), element(low + one, n, stride)];
            Steps { at: [at[0], at[1], OUTSIDE, OUTSIDE], weight: [one - part, part, zero, zero] }
        }
        GridMode::Cubic => {
            let low = x.floor();
            let at = std::array::from_fn(|k| element(map.inside(low + A::of(k as f64 - 1.0), n), n, stride));
            Steps { at, weight: cubic(x - low) }
        }
    }
}

/// Fills the table for `m` positions, `step` apart, whose coordinates are `axis` apart.
struct Fill<'a, T: Float> {
    map: Map,
    grid: *const T,
    step: isize,
    axis: isize,
    m: usize,
    sizes: [usize; DIMS],
    strides: [isize; DIMS],
    table: &'a mut Table<T::Acc>,
}

impl<T: Float> WithSimd for Fill<'_, T> {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self) -> usize {
        let Fill { map, grid, step, axis, m, sizes, strides, table } = self;
        let each: usize = match map.mode {
            GridMode::Nearest => 1,
            GridMode::Linear => 2,
            GridMode::Cubic => 4,
        };
        let n_taps = each.pow(map.dims as u32);
        table.whole = true;
        for p in 0..m {
            let along: [Steps<T::Acc>; DIMS] = std::array::from_fn(|d| {
                if d >= map.dims {
                    return Steps { at: [0; 4], weight: [T::Acc::of(1.0); 4] };
                }
                // x stands first in the grid, the outermost dimension last.
                let coordinate = p as isize * step + (map.dims - 1 - d) as isize * axis;
                // SAFETY: the position lies in the grid.
                let v = unsafe { (*grid.offset(coordinate)).get() };
                steps(map, v, sizes[d], strides[d])
            });
            for k in 0..n_taps {
                let (mut at, mut weight, mut rest) = (0isize, T::Acc::of(1.0), n_taps);
                let mut outside = false;
                for (d, steps) in along.iter().enumerate().take(map.dims) {
                    rest /= each;
                    let i = k / rest % each;
                    outside |= steps.at[i] == OUTSIDE;
                    at = at.wrapping_add(steps.at[i]);
                    weight = if d == 0 { steps.weight[i] } else { weight * steps.weight[i] };
                }
                table.at[k][p] = if outside { OUTSIDE } else { at };
                table.weight[k][p] = weight;
                table.whole &= !outside;
            }
        }
        n_taps
    }
}

/// The values of one channel at a run of positions.
struct Read<'a, T: Float, const TAPS: usize>(&'a Table<T::Acc>, *const T, usize, *mut T, isize);
impl<T: Float, const TAPS: usize> WithSimd for Read<'_, T, TAPS> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Read(table, x, m, out, step) = self;
        // SAFETY: places of the table lie in the image, positions in the output.
        unsafe {
            for p in 0..m {
                let mut sum = T::Acc::of(0.0);
                if table.whole {
                    for k in 0..TAPS {
                        sum = sum + (*x.offset(table.at[k][p])).get() * table.weight[k][p];
                    }
                } else {
                    for k in 0..TAPS {
                        let at = table.at[k][p];
                        if at != OUTSIDE {
                            sum = sum + (*x.offset(at)).get() * table.weight[k][p];
                        }
                    }
                }
                *out.offset(p as isize * step) = T::put(sum);
            }
        }
    }
}

unsafe fn sample<T: Float>(x: &View, grid: &View, out: &View, map: Map) -> Result<()> {
    let (dims, isa) = (map.dims, isa());
    let (n_images, n_channels) = (out.sizes[0] as usize, out.sizes[1] as usize);
    let mut sizes = [1usize; DIMS];
    let mut strides = [0isize; DIMS];
    for d in 0..dims {
        (sizes[d], strides[d]) = (x.sizes[2 + d] as usize, x.strides[2 + d] as isize);
    }
    // Rows of positions of one image.
    let mut positions = Grid::new(&out.sizes[2..], [&out.strides[2..], &grid.strides[1..=dims]]);
    let (n, [out_step, step]) = positions.pop_inner();
    let runs = n.div_ceil(RUN);
    let units = n_images * positions.len() * runs;
    if n_channels == 0 || units == 0 {
        return Ok(());
    }
    let axis = grid.strides[1 + dims] as isize;
    let (px, pg, po) = (Shared::<T>::new(x.ptr), Shared::<T>::new(grid.ptr), Shared::<T>::new(out.ptr));
    let taps = match map.mode {
        GridMode::Nearest => 1,
        GridMode::Linear => 1 << dims,
        GridMode::Cubic => MOST,
    };
    split(units, (RUN * (n_channels + 8) * taps) as f64 * 0.4, &|r| {
        let zero = T::Acc::of(0.0);
        let mut table = Table { at: [[0; RUN]; MOST], weight: [[zero; RUN]; MOST], whole: true };
        for u in r {
            let (image, row, from) = (u / runs / positions.len(), u / runs % positions.len(), u % runs * RUN);
            let m = RUN.min(n - from);
            positions.each(row..row + 1, |_, [o, g]| {
                let first = g + image as isize * grid.strides[0] as isize + from as isize * step;
                let table = &mut table;
                let n_taps = dispatch(isa, Fill::<T> { map, grid: pg.at(first), step, axis, m, sizes, strides, table });
                for c in 0..n_channels as isize {
                    let src = px.at(image as isize * x.strides[0] as isize + c * x.strides[1] as isize).cast_const();
                    let at = image as isize * out.strides[0] as isize + c * out.strides[1] as isize;
                    let dst = po.at(at + o + from as isize * out_step);
                    match n_taps {
                        1 => dispatch(isa, Read::<T, 1>(table, src, m, dst, out_step)),
                        4 => dispatch(isa, Read::<T, 4>(table, src, m, dst, out_step)),
                        8 => dispatch(isa, Read::<T, 8>(table, src, m, dst, out_step)),
                        _ => dispatch(isa, Read::<T, MOST>(table, src, m, dst, out_step)),
                    }
                }
            });
        }
    });
    Ok(())
}
