//! The gradient for an image of few channels, whose windows overlap or not: products first, sums afterwards.
//!
//! A correlation would fill a few lanes of its registers with output channels. Here positions of the incoming gradient fill
//! them: rows of weights, one a tap and channel, times a panel of positions; each product row is then added to where its tap
//! reaches. The sums of one image lie in planes, one for every remainder by the stride, so that neighbours stay neighbours.

use crate::depthwise::FEW;
use crate::geometry::{Image, Three, Window};
use crate::region::SPARE;
use crate::winograd::part;
use oneflow_kernels_gemm::micro::{Ahead, GemmFloat, Kernels, Mode, Onto, Slot, Strip, Tile, with_scratch};
use oneflow_kernels_gemm::{Parallel, Pool};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{self as prim, Acc, Isa, Register, Simd, WithSimd, dispatch};
use std::ops::Range;

pub struct Spread<'a> {
    pub grad: &'a Image,
    /// The result.
    pub dst: &'a Image,
    pub weight: &'a Image,
    pub window: &'a Window,
    /// First element and stride.
    pub bias: Option<(*const u8, isize)>,
}

// SAFETY: tasks only read through the bias, and images are shared by contract.
unsafe impl Sync for Spread<'_> {}

/// The planes of one channel: [phase, position], along every dimension.
struct Planes {
    phases: [usize; 3],
    len: [usize; 3],
}

impl Planes {
    fn numbers(&self) -> usize {
        (0..3).map(|d| self.phases[d] * self.len[d]).product()
    }
    /// Where a position of the padded image lies.
    #[inline(always)]
    fn place(&self, at: [usize; 3]) -> usize {
        let phase = (0..3).fold(0, |sum, d| sum * self.phases[d] + at[d] % self.phases[d]);
        (0..3).fold(phase, |sum, d| sum * self.len[d] + at[d] / self.phases[d])
    }
}

/// A row of products: where its weights begin and where the first position's product is added.
#[derive(Clone, Copy)]
struct Row {
    weight: isize,
    place: usize,
}

/// Columns of a panel that lie on one line of the gradient.
struct Run {
    col: usize,
    len: usize,
    place: usize,
}

impl<'a> Spread<'a> {
    fn channels(&self) -> usize {
        self.weight.sizes[1]
    }
    fn k(&self) -> usize {
        self.weight.sizes[0] / self.window.groups
    }

    fn planes(&self) -> Planes {
        let w = self.window;
        let len = std::array::from_fn(|d| {
            let stride = w.stride[d] as usize;
            let reached = self.grad.sizes[2 + d] + (w.kernel[d] - 1) * w.dilation[d] as usize / stride;
            reached.max((self.dst.sizes[2 + d] - 1 + w.padding[d] as usize) / stride + 1)
        });
        Planes { phases: w.stride.map(|s| s as usize), len }
    }

    /// Whether registers of output channels would be half empty, and products of positions are worth their sums.
    pub fn fits<T: GemmFloat>(&self) -> bool {
        let lanes = T::Mode::kernels(prim::isa()).lanes;
        let (channels, k, w) = (self.channels(), self.k(), self.window);
        let padded: f64 = (0..3).map(|d| self.dst.sizes[2 + d] as f64 + 2.0 * w.padding[d] as f64).product();
        let planes = w.stride.iter().zip(&w.kernel).zip(&w.dilation);
        let far = planes.fold(1.0, |n, ((s, k), l)| n * (*s as f64 + *k as f64 * *l as f64));
        self.grad.numel() > 0
            && channels * 2 <= lanes
            && k >= FEW
            && (w.groups == 1 || k > FEW)
            && w.kernel.iter().product::<usize>() > 1
            && w.padding.iter().all(|p| *p >= 0)
            && far < 2.0 * padded + 4096.0
            && self.grad.position_step().is_some()
    }

    /// # Safety
    /// The images and the bias hold `T` and are valid for their sizes.
    pub unsafe fn run<T: GemmFloat>(&self) {
        let isa = prim::isa();
        let ker = T::Mode::kernels(isa);
        let (planes, k, w) = (self.planes(), self.k(), self.window);
        // Taps that reach neighbours lie far apart: what one wrote the next would wait for.
        let mut taps: Vec<Three> = w.taps().collect();
        taps.sort_by_key(|t| t[2]);
        // Few images leave threads idle: share out the channels.
        let tasks = self.dst.sizes[0] * w.groups;
        let splits = if tasks < Pool.threads() { self.channels() } else { 1 };
        let rows_of = |split: usize| -> Vec<Row> {
            let channels = split * self.channels() / splits..(split + 1) * self.channels() / splits;
            let row = |t: &Three, c: usize, first: usize| Row {
                weight: self.weight.offset(0, c, t.map(|t| t as usize)),
                place: (c - first) * planes.numbers()
                    + planes.place(std::array::from_fn(|d| (t[d] * w.dilation[d]) as usize)),
            };
            taps.iter().flat_map(|t| channels.clone().map(move |c| row(t, c, channels.start))).collect()
        };
        let rows: Vec<Vec<Row>> = (0..splits).map(rows_of).collect();
        let most = rows.iter().map(Vec::len).max().unwrap_or(0);
        let work = Work::<T> { of: self, isa, ker, planes, stored: std::marker::PhantomData };
        with_scratch(Slot::B, w.groups * splits * most * k * size_of::<T::Acc>() + SPARE, |packed| {
            let packed = Shared::<T::Acc>::new(packed);
            Pool.run(w.groups * splits, &|i| {
                // SAFETY: the caller's weight; groups and splits have their own parts.
                unsafe { work.pack(i / splits, &rows[i % splits], packed.at((i * most * k) as isize)) }
            });
            let task = |i: usize| {
                let (n, i) = (i / (w.groups * splits), i % (w.groups * splits));
                let (g, split) = (i / splits, i % splits);
                let channels = split * self.channels() / splits..(split + 1) * self.channels() / splits;
                // SAFETY: the caller's images; tasks have their own images and channels.
                unsafe { work.image(n, g, channels, &rows[split], packed.at((i * most * k) as isize)) }
            };
            match tasks * splits {
                1 => task(0),
                n => Pool.run(n, &task),
            }
        })
    }
}

struct Work<'a, T: GemmFloat> {
    of: &'a Spread<'a>,
    isa: Isa,
    ker: &'static Kernels<T::Acc, T::Acc>,
    planes: Planes,
    stored: std::marker::PhantomData<T>,
}

impl<T: GemmFloat> Work<'_, T> {
    /// Panels of rows, k = channels of the gradient.
    unsafe fn pack(&self, g: usize, rows: &[Row], dst: *mut T::Acc) {
        let (weight, k) = (self.of.weight, self.of.k());
        for i in 0..rows.len().div_ceil(self.ker.mr) {
            let panel = part(rows.len(), self.ker.mr, i);
            let mut to = dst.wrapping_add(panel.start * k);
            for p in 0..k {
                let from = weight.at::<T>(g * k + p, 0, [0; 3]);
                for row in &rows[panel.clone()] {
                    // SAFETY: by the caller.
                    unsafe {
                        *to = (*from.offset(row.weight)).widen();
                        to = to.add(1);
                    }
                }
            }
        }
    }

    /// Some channels of one group of one image.
    unsafe fn image(&self, n: usize, g: usize, channels: Range<usize>, rows: &[Row], a: *const T::Acc) {
        let (ker, k, grad) = (self.ker, self.of.k(), self.of.grad);
        let (n_positions, line) = (grad.spatial().iter().product::<usize>(), grad.sizes[4]);
        let step = grad.position_step().unwrap_or(0);
        let n_planes = channels.len() * self.planes.numbers();
        let sizes = [n_planes + 2 * ker.nr, ker.mr * ker.nr, k * ker.nr + ker.nr];
        with_scratch(Slot::A, sizes.iter().sum::<usize>() * size_of::<T::Acc>() + SPARE, |scratch| {
            let planes: *mut T::Acc = scratch.cast();
            // SAFETY: the parts lie in the scratch one after the other; the caller's contract covers the images.
            unsafe {
                let tile = planes.add(sizes[0]);
                let b = tile.add(sizes[1]);
                std::ptr::write_bytes(planes, 0, sizes[0]);
                // Position by position, then row by row: the order of a sum does not depend on who has which channels.
                for p in (0..n_positions).step_by(ker.nr) {
                    let n_columns = ker.nr.min(n_positions - p);
                    let width = n_columns.next_multiple_of(ker.lanes);
                    let src = grad.at::<T>(n, g * k, [0; 3]).wrapping_offset(p as isize * step).cast_const();
                    let strip = Strip { src, ws: step, ks: grad.strides[1], width: n_columns, k };
                    T::Mode::pack(self.isa, strip, b, width);
                    let runs = self.runs(p..p + n_columns, line);
                    for i in 0..rows.len().div_ceil(ker.mr) {
                        let of = part(rows.len(), ker.mr, i);
                        let t = Tile {
                            k,
                            a: a.add(of.start * k),
                            a_rs: 1,
                            a_cs: of.len() as isize,
                            b,
                            b_rs: width as isize,
                            c: tile,
                            c_rs: ker.nr as isize,
                            alpha: T::Acc::ONE,
                            onto: Onto::Nothing,
                            ahead: Ahead::NOTHING,
                        };
                        ker.table[0][of.len() - 1][width / ker.lanes - 1](&t);
                        dispatch(prim::isa(), AddRuns { tile, ld: ker.nr, rows: &rows[of], runs: &runs, to: planes });
                    }
                }
                self.store(n, g * self.of.channels(), channels, planes);
            }
        })
    }

    fn runs(&self, positions: Range<usize>, line: usize) -> Vec<Run> {
        let (mut runs, mut p) = (vec![], positions.start);
        let [_, lh, lw] = self.planes.len;
        let heights = self.of.grad.sizes[3];
        while p < positions.end {
            let (row, w) = (p / line, p % line);
            let len = (line - w).min(positions.end - p);
            let place = (row / heights * lh + row % heights) * lw + w;
            runs.push(Run { col: p - positions.start, len, place });
            p += len;
        }
        runs
    }

    /// Brings the planes of one image into it, with the bias added.
    unsafe fn store(&self, n: usize, first: usize, channels: Range<usize>, planes: *const T::Acc) {
        let (dst, padding) = (self.of.dst, self.of.window.padding.map(|p| p as usize));
        for c in channels.clone() {
            // SAFETY: the bias has the channel.
            let bias = self.of.bias.map_or(T::Acc::ZERO, |(ptr, stride)| unsafe {
                (*ptr.cast::<T>().offset((first + c) as isize * stride)).widen()
            });
            let planes = planes.wrapping_add((c - channels.start) * self.planes.numbers());
            let [depth, height, width] = dst.spatial();
            for (d, h) in (0..depth).flat_map(|d| (0..height).map(move |h| (d, h))) {
                let phases = self.planes.phases[2];
                for w in 0..phases.min(width) {
                    let at = self.planes.place([d + padding[0], h + padding[1], w + padding[2]]);
                    let line = StoreLine {
                        from: planes.wrapping_add(at),
                        n: (width - w).div_ceil(phases),
                        bias,
                        to: dst.at::<T>(n, first + c, [d, h, w]),
                        step: dst.strides[4] * phases as isize,
                    };
                    dispatch(prim::isa(), line);
                }
            }
        }
    }
}

/// Rows of a tile of products, added to the planes run by run.
struct AddRuns<'a, A: Acc> {
    tile: *const A,
    ld: usize,
    rows: &'a [Row],
    runs: &'a [Run],
    to: *mut A,
}

impl<A: Acc> WithSimd for AddRuns<'_, A> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        let width = <A::Reg<S> as Register>::WIDTH;
        for (i, row) in self.rows.iter().enumerate() {
            for run in self.runs {
                for j in (0..run.len).step_by(width) {
                    // SAFETY: rows and runs lie in the tile; zeros are added behind a run's end, where there is room.
                    unsafe {
                        let from = self.tile.add(i * self.ld + run.col + j);
                        let v = match run.len - j {
                            n if n < width => <A::Reg<S> as Register>::load_partial(from, n),
                            _ => <A::Reg<S> as Register>::load(from),
                        };
                        let to = self.to.add(row.place + run.place + j);
                        (<A::Reg<S> as Register>::load(to) + v).store(to);
                    }
                }
            }
        }
    }
}

/// Neighbours of a plane, to positions `step` apart.
struct StoreLine<T: GemmFloat> {
    from: *const T::Acc,
    n: usize,
    bias: T::Acc,
    to: *mut T,
    step: isize,
}

impl<T: GemmFloat> WithSimd for StoreLine<T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self) {
        type R<S, T> = oneflow_kernels_prim::Reg<S, T>;
        let width = R::<S, T>::WIDTH;
        let bias = R::<S, T>::all_of(self.bias);
        for i in (0..self.n).step_by(width) {
            let n = width.min(self.n - i);
            // SAFETY: the planes are readable in whole registers; the positions lie in the image.
            unsafe {
                let v = <R<S, T> as Register>::load(self.from.add(i)) + bias;
                let to = self.to.offset(i as isize * self.step);
                match self.step {
                    1 if n == width => T::store::<S>(v, to),
                    1 => T::store_partial::<S>(v, to, n),
                    step => T::scatter::<S>(v, to, step, n),
                }
            }
        }
    }
}
