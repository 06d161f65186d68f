//! GRID_SAMPLE: values of images at positions. For a run of positions the places and weights of their neighbours are found
//! once, and every channel is read by them. Half types compute in f32.

use oneflow_base::{Error, Result, by_float};
use oneflow_kernels_prim::rows::{Grid, Shared, split};
use oneflow_kernels_prim::{
    Acc, Float, GridBorder, GridMode, GridSampleParams, Launch, Simd, View, WithSimd, dispatch, isa,
};

/// Positions of a run.
const RUN: usize = 64;
/// Most neighbours of a position: four by four.
const MOST: usize = 16;
/// Most spatial dimensions.
const DIMS: usize = 3;
/// Added to the place of a neighbour outside of the image, once for each dimension in which it lies outside.
const OUTSIDE: isize = isize::MIN / 8;
/// Places below this one lie outside.
const FIRST: isize = OUTSIDE / 2;

pub unsafe fn grid_sample(l: &Launch<'_>) -> Result<()> {
    let (x, grid, out) = (l.input(0)?, l.input(1)?, l.output(0)?);
    let dims = x.ndim().saturating_sub(2);
    if !(2..=DIMS).contains(&dims) || grid.ndim() != x.ndim() || out.ndim() != x.ndim() || grid.dtype != x.dtype {
        return Err(Error::not_implemented(format!("grid_sample: {} of shape {:?}", x.dtype, x.sizes)));
    }
    let GridSampleParams { mode, border, align_corners } = l.read()?;
    if mode == GridMode::Cubic && dims != 2 {
        return Err(Error::not_implemented("grid_sample: bicubic of more than two dimensions"));
    }
    if x.sizes.iter().any(|n| *n >= 1 << 31) {
        return Err(Error::not_implemented(format!("grid_sample: an image of shape {:?}", x.sizes)));
    }
    let map = Map { mode, border, align_corners, dims };
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

/// Places and weights of the neighbours of a run's positions along one dimension.
struct Axis<A> {
    at: [[isize; RUN]; 4],
    weight: [[A; RUN]; 4],
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

/// Integral places along a dimension, in elements, and whether all lie in the image.
#[inline(always)]
fn elements<A: Acc>(places: &[A], n: usize, stride: isize, at: &mut [isize; RUN]) -> bool {
    let (zero, last) = (A::of(0.0), A::of(n as f64 - 1.0));
    let mut all = true;
    for (x, at) in places.iter().zip(at) {
        // False for NaN.
        let inside = (*x >= zero) & (*x <= last);
        // SAFETY: zero or inside of a dimension, which has fewer than 2^31 elements.
        let index = unsafe { (if inside { *x } else { zero }).index() };
        *at = index as isize * stride + if inside { 0 } else { OUTSIDE };
        all &= inside;
    }
    all
}

impl<A: Acc> Axis<A> {
    /// For coordinates of the grid; says whether all neighbours lie in the image.
    #[inline(always)]
    fn fill(&mut self, map: Map, x: &mut [A], n: usize, stride: isize) -> bool {
        let one = A::of(1.0);
        let mut places = [A::of(0.0); RUN];
        let places = &mut places[..x.len()];
        x.iter_mut().for_each(|x| *x = map.place(*x, n));
        if map.mode != GridMode::Cubic {
            x.iter_mut().for_each(|x| *x = map.inside(*x, n));
        }
        match map.mode {
            GridMode::Nearest => {
                x.iter_mut().for_each(|x| *x = x.round());
                elements(x, n, stride, &mut self.at[0])
            }
            GridMode::Linear => {
                for (p, x) in x.iter().enumerate() {
                    places[p] = x.floor();
                    self.weight[1][p] = *x - places[p];
                    self.weight[0][p] = one - self.weight[1][p];
                }
                let low = elements(places, n, stride, &mut self.at[0]);
                places.iter_mut().for_each(|x| *x = *x + one);
                elements(places, n, stride, &mut self.at[1]) & low
            }
            GridMode::Cubic => {
                for (p, x) in x.iter().enumerate() {
                    let weights = cubic(*x - x.floor());
                    (0..4).for_each(|k| self.weight[k][p] = weights[k]);
                }
                let mut all = true;
                for k in 0..4 {
                    for (place, x) in places.iter_mut().zip(&*x) {
                        *place = map.inside(x.floor() + A::of(k as f64 - 1.0), n);
                    }
                    all &= elements(places, n, stride, &mut self.at[k]);
                }
                all
            }
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
    axes: &'a mut [Axis<T::Acc>; DIMS],
    table: &'a mut Table<T::Acc>,
}

impl<T: Float> WithSimd for Fill<'_, T> {
    type Output = usize;
    #[inline(always)]
    fn run<S: Simd>(self) -> usize {
        let Fill { map, grid, step, axis, m, sizes, strides, axes, table } = self;
        let each: usize = match map.mode {
            GridMode::Nearest => 1,
            GridMode::Linear => 2,
            GridMode::Cubic => 4,
        };
        let mut x = [T::Acc::of(0.0); RUN];
        table.whole = true;
        for (d, axis_of) in axes[..map.dims].iter_mut().enumerate() {
            // x stands first in the grid, the outermost dimension last.
            let first = (map.dims - 1 - d) as isize * axis;
            for (p, x) in x[..m].iter_mut().enumerate() {
                // SAFETY: the position lies in the grid.
                *x = unsafe { (*grid.offset(p as isize * step + first)).widen() };
            }
            table.whole &= axis_of.fill(map, &mut x[..m], sizes[d], strides[d]);
        }
        let n_taps = each.pow(map.dims as u32);
        for k in 0..n_taps {
            let (at, weight) = (&mut table.at[k], &mut table.weight[k]);
            let mut rest = n_taps;
            for (d, axis) in axes[..map.dims].iter().enumerate() {
                rest /= each;
                let i = k / rest % each;
                for p in 0..m {
                    at[p] = if d == 0 { axis.at[i][p] } else { at[p] + axis.at[i][p] };
                }
                if each > 1 {
                    for p in 0..m {
                        weight[p] = if d == 0 { axis.weight[i][p] } else { weight[p] * axis.weight[i][p] };
                    }
                }
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
                for k in 0..TAPS {
                    let at = table.at[k][p];
                    if table.whole || at > FIRST {
                        let v = (*x.offset(at)).widen();
                        // The one neighbour of a nearest place has no weight.
                        sum = if TAPS == 1 { v } else { sum + v * table.weight[k][p] };
                    }
                }
                *out.offset(p as isize * step) = T::narrow(sum);
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
        let mut axes = [(); DIMS].map(|()| Axis { at: [[0; RUN]; 4], weight: [[zero; RUN]; 4] });
        for u in r {
            let (image, row, from) = (u / runs / positions.len(), u / runs % positions.len(), u % runs * RUN);
            let m = RUN.min(n - from);
            positions.each(row..row + 1, |_, [o, g]| {
                let first = g + image as isize * grid.strides[0] as isize + from as isize * step;
                let (table, axes) = (&mut table, &mut axes);
                let fill = Fill::<T> { map, grid: pg.at(first), step, axis, m, sizes, strides, axes, table };
                let n_taps = dispatch(isa, fill);
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
