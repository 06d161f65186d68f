//! Where the neighbours of positions lie and what they weigh. Everything is found for a run of positions at once, so that loops
//! over a run become registers.

use oneflow_kernels_prim::{Acc, Float, GridBorder, GridMode, Simd, WithSimd};

/// Positions of a run.
pub(super) const RUN: usize = 64;
/// Most neighbours of a position: four by four.
pub(super) const MOST: usize = 16;
/// Most spatial dimensions.
pub(super) const DIMS: usize = 3;

type Row<A> = [A; RUN];

/// How positions become places.
#[derive(Clone, Copy)]
pub(super) struct Map {
    pub mode: GridMode,
    pub border: GridBorder,
    pub align_corners: bool,
    pub dims: usize,
}

impl Map {
    /// Neighbours of a position along one dimension.
    fn each(self) -> usize {
        match self.mode {
            GridMode::Nearest => 1,
            GridMode::Linear => 2,
            GridMode::Cubic => 4,
        }
    }

    /// Neighbours of a position.
    pub fn taps(self) -> usize {
        self.each().pow(self.dims as u32)
    }

    /// How far a place in a dimension of `n` moves with its coordinate.
    fn scale<A: Acc>(self, n: usize) -> A {
        let n = A::of(n as f64);
        if self.align_corners { (n - A::ONE) * A::of(0.5) } else { n * A::of(0.5) }
    }

    /// A coordinate of the grid in elements of a dimension of `n`.
    #[inline(always)]
    fn place<A: Acc>(self, x: A, n: usize) -> A {
        let (one, n) = (A::ONE, A::of(n as f64));
        if self.align_corners { (x + one) * ((n - one) * A::of(0.5)) } else { ((x + one) * n - one) * A::of(0.5) }
    }

    /// A place brought onto the image, except where zeros lie around it, and how it moves there: forwards, backwards or not at all.
    #[inline(always)]
    fn inside<A: Acc>(self, x: A, n: usize) -> (A, A) {
        let (zero, last) = (A::ZERO, A::of(n as f64 - 1.0));
        let (x, way) = match self.border {
            GridBorder::Zeros => return (x, A::ONE),
            GridBorder::Clamp => (x, A::ONE),
            GridBorder::Reflect => {
                let half = A::of(if self.align_corners { 0.0 } else { 0.5 });
                let (low, span) = (-half, last + half + half);
                if span <= zero {
                    (zero, zero)
                } else {
                    let away = (x - low).abs();
                    let way = if x < low { -A::ONE } else { A::ONE };
                    let flips = (away / span).floor();
                    let rest = away - flips * span;
                    let even = (flips * A::of(0.5)).floor() * A::of(2.0) == flips;
                    if even { (rest + low, way) } else { (span - rest + low, -way) }
                }
            }
        };
        // On the outermost elements too nothing moves, as in PyTorch.
        let way = if (x <= zero) | (x >= last) { zero } else { way };
        // NaN stays.
        let x = if x < zero { zero } else { x };
        (if x > last { last } else { x }, way)
    }
}

/// Places and weights of the neighbours of a run's positions along one dimension.
#[derive(Clone, Copy)]
struct Axis<A> {
    at: [Row<i32>; 4],
    inside: [Row<bool>; 4],
    weight: [Row<A>; 4],
    /// Derivatives of the weights by the place.
    slope: [Row<A>; 4],
    /// The derivative of the place by the coordinate.
    moves: Row<A>,
}

/// Places and weights of the neighbours of a run's positions.
pub(super) struct Table<A> {
    /// In elements from the image's first.
    pub at: [Row<i32>; MOST],
    /// Whether the neighbour lies in the image.
    pub inside: [Row<bool>; MOST],
    pub weight: [Row<A>; MOST],
    /// Whether all neighbours of the position do.
    pub whole: Row<bool>,
    axes: [Axis<A>; DIMS],
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

/// Derivatives of `cubic`.
#[inline(always)]
fn cubic_slopes<A: Acc>(t: A) -> [A; 4] {
    let n = A::of;
    let a = n(-0.75);
    let near = |x: A| (n(3.0) * (a + n(2.0)) * x - n(2.0) * (a + n(3.0))) * x;
    let far = |x: A| (n(3.0) * a * x - n(10.0) * a) * x + n(8.0) * a;
    [far(t + n(1.0)), near(t), -near(n(1.0) - t), -far(n(2.0) - t)]
}

impl<A: Acc> Axis<A> {
    fn new() -> Self {
        let (zeros, none) = ([A::ZERO; RUN], [false; RUN]);
        Axis { at: [[0; RUN]; 4], inside: [none; 4], weight: [zeros; 4], slope: [zeros; 4], moves: zeros }
    }

    /// Integral places of neighbour `k`.
    #[inline(always)]
    fn elements(&mut self, k: usize, places: &Row<A>, n: usize, stride: i32) {
        let (zero, last) = (A::ZERO, A::of(n as f64 - 1.0));
        for p in 0..RUN {
            let x = places[p];
            // False for NaN.
            let inside = (x >= zero) & (x <= last);
            // SAFETY: zero or inside of a dimension, which has fewer than 2^31 elements.
            self.at[k][p] = unsafe { (if inside { x } else { zero }).index() } * stride;
            self.inside[k][p] = inside;
        }
    }

    /// For coordinates of the grid, with derivatives if `slopes`.
    #[inline(always)]
    fn fill(&mut self, map: Map, x: &mut Row<A>, n: usize, stride: i32, slopes: bool) {
        let (one, mode) = (A::ONE, map.mode);
        x.iter_mut().for_each(|x| *x = map.place(*x, n));
        let scale = map.scale::<A>(n);
        if mode == GridMode::Cubic {
            self.moves = [scale; RUN];
        } else if slopes {
            for p in 0..RUN {
                let (place, way) = map.inside(x[p], n);
                x[p] = place;
                self.moves[p] = way * scale;
            }
        } else {
            x.iter_mut().for_each(|x| *x = map.inside(*x, n).0);
        }
        let mut low = [A::ZERO; RUN];
        for p in 0..RUN {
            low[p] = if mode == GridMode::Nearest { x[p].round() } else { x[p].floor() };
        }
        match mode {
            GridMode::Nearest => self.elements(0, &low, n, stride),
            GridMode::Linear => {
                for p in 0..RUN {
                    self.weight[1][p] = x[p] - low[p];
                    self.weight[0][p] = one - self.weight[1][p];
                }
                if slopes {
                    self.slope[..2].copy_from_slice(&[[-one; RUN], [one; RUN]]);
                }
                self.elements(0, &low, n, stride);
                low.iter_mut().for_each(|x| *x = *x + one);
                self.elements(1, &low, n, stride);
            }
            GridMode::Cubic => {
                for p in 0..RUN {
                    let weights = cubic(x[p] - low[p]);
                    (0..4).for_each(|k| self.weight[k][p] = weights[k]);
                }
                if slopes {
                    for p in 0..RUN {
                        let slopes = cubic_slopes(x[p] - low[p]);
                        (0..4).for_each(|k| self.slope[k][p] = slopes[k]);
                    }
                }
                for k in 0..4 {
                    let mut places = low;
                    places.iter_mut().for_each(|x| *x = map.inside(*x + A::of(k as f64 - 1.0), n).0);
                    self.elements(k, &places, n, stride);
                }
            }
        }
    }
}

impl<A: Acc> Table<A> {
    pub fn new() -> Box<Self> {
        Box::new(Table {
            at: [[0; RUN]; MOST],
            inside: [[false; RUN]; MOST],
            weight: [[A::ZERO; RUN]; MOST],
            whole: [true; RUN],
            axes: [Axis::new(); DIMS],
        })
    }
}

/// Positions of one run and the image that they are looked up in.
pub(super) struct Fill<'a, T: Float> {
    pub map: Map,
    pub grid: *const T,
    /// From one position to the next, and from one coordinate to the next.
    pub step: isize,
    pub axis: isize,
    pub n_positions: usize,
    pub sizes: [usize; DIMS],
    pub strides: [i32; DIMS],
    /// Whether derivatives are wanted too.
    pub slopes: bool,
    pub table: &'a mut Table<T::Acc>,
}

impl<T: Float> WithSimd for Fill<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Fill { map, grid, step, axis, n_positions, sizes, strides, slopes, table } = self;
        let Table { at, inside, weight, whole, axes } = table;
        let each = map.each();
        *whole = [true; RUN];
        for (d, axis_of) in axes[..map.dims].iter_mut().enumerate() {
            // x stands first in the grid, the outermost dimension last.
            let first = (map.dims - 1 - d) as isize * axis;
            let mut x = [T::Acc::ZERO; RUN];
            for (p, x) in x[..n_positions].iter_mut().enumerate() {
                // SAFETY: the position lies in the grid.
                *x = unsafe { (*grid.offset(p as isize * step + first)).widen() };
            }
            axis_of.fill(map, &mut x, sizes[d], strides[d], slopes);
            for along in &axis_of.inside[..each] {
                (0..RUN).for_each(|p| whole[p] &= along[p]);
            }
        }
        let n_taps = map.taps();
        for k in 0..n_taps {
            let (at, inside, weight) = (&mut at[k], &mut inside[k], &mut weight[k]);
            let mut rest = n_taps;
            for (d, axis) in axes[..map.dims].iter().enumerate() {
                rest /= each;
                let i = k / rest % each;
                let (places, ok, weights) = (&axis.at[i], &axis.inside[i], &axis.weight[i]);
                if d == 0 {
                    (*at, *inside) = (*places, *ok);
                    if each > 1 {
                        *weight = *weights;
                    }
                    continue;
                }
                for p in 0..RUN {
                    at[p] += places[p];
                }
                for p in 0..RUN {
                    inside[p] &= ok[p];
                }
                if each > 1 {
                    for p in 0..RUN {
                        weight[p] = weight[p] * weights[p];
                    }
                }
            }
        }
    }
}

/// Gradients of a run's coordinates from what a step of each neighbour's weight is worth: `sums` for each neighbour.
pub(super) struct Slopes<'a, A>(pub Map, pub &'a Table<A>, pub &'a [Row<A>; MOST], pub &'a mut [Row<A>; DIMS]);
impl<A: Acc> WithSimd for Slopes<'_, A> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let Slopes(map, table, sums, out) = self;
        let (each, n_taps) = (map.each(), map.taps());
        for (along, out) in out[..map.dims].iter_mut().enumerate() {
            *out = [A::ZERO; RUN];
            for (k, sums) in sums[..n_taps].iter().enumerate() {
                let (mut rest, mut part) = (n_taps, *sums);
                for (d, axis) in table.axes[..map.dims].iter().enumerate() {
                    rest /= each;
                    let i = k / rest % each;
                    let factor = if d == along { &axis.slope[i] } else { &axis.weight[i] };
                    for p in 0..RUN {
                        part[p] = part[p] * factor[p];
                    }
                }
                for p in 0..RUN {
                    out[p] = out[p] + part[p];
                }
            }
            for p in 0..RUN {
                out[p] = out[p] * table.axes[along].moves[p];
            }
        }
    }
}
