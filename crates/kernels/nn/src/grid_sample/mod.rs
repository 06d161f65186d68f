//! GRID_SAMPLE and its backward: values of images at positions. For a run of positions the places and weights of their
//! neighbours are found once, and every channel is read or added to by them. Half types compute in f32.

mod backward;
mod forward;
mod places;

pub use backward::backward;
pub use forward::forward;

use oneflow_base::{Error, Result};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{Float, GridMode, GridSampleParams, View, dispatch, isa};
use places::{DIMS, Fill, Map, RUN, Table};

/// Channels that are read by one look at a neighbour's place and weight.
const BLOCK: usize = 4;

/// A tensor whose elements tasks share.
#[derive(Clone, Copy)]
struct Operand<'a> {
    memory: Shared<u8>,
    sizes: &'a [i64],
    strides: &'a [i64],
}

impl<'a> Operand<'a> {
    fn of(view: &View<'a>) -> Self {
        Operand { memory: Shared::new(view.ptr), sizes: view.sizes, strides: view.strides }
    }

    /// An element of one image and channel, `offset` elements from the first.
    #[inline(always)]
    fn at<T>(&self, image: usize, channel: usize, offset: isize) -> *mut T {
        let first = image as isize * self.strides[0] as isize + channel as isize * self.strides[1] as isize;
        self.memory.at(0).cast::<T>().wrapping_offset(first + offset)
    }
}

/// Images, the grid of positions in them, and something that has a value a channel and position.
#[derive(Clone, Copy)]
struct Geometry<'a> {
    map: Map,
    image: Operand<'a>,
    grid: Operand<'a>,
    values: Operand<'a>,
    sizes: [usize; DIMS],
    strides: [i32; DIMS],
}

impl<'a> Geometry<'a> {
    fn new(params: GridSampleParams, image: &View<'a>, grid: &View<'a>, values: &View<'a>) -> Result<Self> {
        let dims = image.ndim().saturating_sub(2);
        let fits = (2..=DIMS).contains(&dims) && grid.ndim() == dims + 2 && values.ndim() == dims + 2;
        if !fits || grid.dtype != image.dtype || values.dtype != image.dtype {
            return Err(Error::not_implemented(format!("grid_sample: {} of shape {:?}", image.dtype, image.sizes)));
        }
        let GridSampleParams { mode, border, align_corners } = params;
        if mode == GridMode::Cubic && dims != 2 {
            return Err(Error::not_implemented("grid_sample: bicubic of more than two dimensions"));
        }
        let (mut sizes, mut strides, mut reach) = ([1usize; DIMS], [0i32; DIMS], 0i64);
        for d in 0..dims {
            let (n, stride) = (image.sizes[2 + d], image.strides[2 + d]);
            reach = reach.saturating_add((n - 1).saturating_mul(stride)).max(n);
            // Exact wherever the reach is checked below; the one element of a dimension has no other place.
            (sizes[d], strides[d]) = (n as usize, if n > 1 { stride as i32 } else { 0 });
        }
        if reach >= i32::MAX as i64 {
            return Err(Error::not_implemented(format!("grid_sample: an image of shape {:?}", image.sizes)));
        }
        let map = Map { mode, border, align_corners, dims };
        let [image, grid, values] = [image, grid, values].map(Operand::of);
        Ok(Geometry { map, image, grid, values, sizes, strides })
    }

    fn n_images(&self) -> usize {
        self.values.sizes[0] as usize
    }

    fn n_channels(&self) -> usize {
        self.values.sizes[1] as usize
    }

    /// Rough cost of a run of positions of `n_channels`, ns.
    fn cost(&self, n_channels: usize) -> f64 {
        (RUN * (n_channels + 8) * self.map.taps()) as f64 * 0.4
    }

    /// Looks up `n` positions of an image that are `step` apart, the first one `offset` elements into its grid.
    fn fill<T: Float>(
        &self,
        image: usize,
        offset: isize,
        step: isize,
        n: usize,
        slopes: bool,
        table: &mut Table<T::Acc>,
    ) {
        let (grid, axis) =
            (self.grid.at::<T>(image, 0, offset).cast_const(), self.grid.strides[1 + self.map.dims] as isize);
        let Geometry { map, sizes, strides, .. } = *self;
        dispatch(isa(), Fill::<T> { map, grid, step, axis, n_positions: n, sizes, strides, slopes, table });
    }
}

/// Runs code for a number of neighbours that is known to the compiler.
macro_rules! by_taps {
    ($n:expr, $TAPS:ident => $body:expr) => {
        match $n {
            1 => {
                const $TAPS: usize = 1;
                $body
            }
            4 => {
                const $TAPS: usize = 4;
                $body
            }
            8 => {
                const $TAPS: usize = 8;
                $body
            }
            _ => {
                const $TAPS: usize = places::MOST;
                $body
            }
        }
    };
}
use by_taps;
