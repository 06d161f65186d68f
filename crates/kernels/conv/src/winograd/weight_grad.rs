//! Winograd's algorithm for the gradient of the weight: windows of 4 x 4 gradients over 6 x 6 inputs, 3 x 3 results, and so on.
//!
//! Runs of tiles of x and of the gradient are brought to the 36 points, where 36 products [outputs, tiles] by [tiles, channels]
//! sum them up. Threads share out tiles for the first part, and channels for the second: a sum is taken in the order of the
//! tiles. The 36 sums are brought back at the end.

use super::points::{Data, ToPoints, from_points, taps_to_points};
use super::{POINTS, outputs, part, worth};
use crate::geometry::{Block, Blocks, Image, Three};
use crate::output::tile_len;
use crate::region::{Region, SPARE};
use crate::weight_grad::{WeightGrad, store};
use oneflow_kernels_gemm::micro::{Ahead, GemmFloat, Kernels, Mode, Onto, Slot, Tile, with_scratch};
use oneflow_kernels_gemm::{Parallel, Pool};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{self as prim, Acc, Isa, dispatch};
use std::marker::PhantomData;
use std::ops::Range;

pub struct WinogradGrad<'a, T: GemmFloat> {
    c: &'a WeightGrad,
    isa: Isa,
    ker: &'static Kernels<T::Acc, T::Acc>,
    /// [n, d, h, w] of the gradient in tiles.
    tiles: [usize; 4],
    /// Taps of the window along a dimension, and gradients of a tile.
    size: usize,
    out: usize,
}

/// Tiles that are brought to the points together.
const BLOCK_TILES: usize = 32;
/// Bytes of a run of tiles at the points: they stay in the third cache.
const RUN_BYTES: usize = 8 << 20;
/// Output channels of a panel; its sums stay in the second cache.
const OUTS: usize = 64;

/// Channels of one operand in panels: [panel, point, tile, channel].
struct Panels<'a> {
    image: &'a Image,
    /// Channels of one group, and of a panel.
    n: usize,
    width: usize,
    lanes: usize,
}

impl Panels<'_> {
    fn len(&self) -> usize {
        self.n.div_ceil(self.width)
    }
    fn channels(&self, panel: usize) -> Range<usize> {
        panel * self.width..((panel + 1) * self.width).min(self.n)
    }
    /// Numbers of a panel's row.
    fn row(&self, panel: usize) -> usize {
        self.channels(panel).len().next_multiple_of(self.lanes)
    }
    /// Where a point of a panel begins among `n` tiles.
    fn at(&self, panel: usize, point: usize, n: usize) -> usize {
        (panel * self.width * POINTS + point * self.row(panel)) * n
    }
    /// Numbers of all panels with `n` tiles.
    fn numbers(&self, n: usize) -> usize {
        self.n.next_multiple_of(self.lanes) * POINTS * n
    }
}

impl<'a, T: GemmFloat> WinogradGrad<'a, T> {
    /// If the window has the form and the image is large enough to gain.
    pub fn new(c: &'a WeightGrad) -> Option<Self> {
        let w = &c.window;
        let size = w.kernel[2];
        let out = outputs(size)?;
        let form = w.kernel == [1, size, size] && w.stride == [1; 3] && w.dilation[1..] == [1; 2];
        if size_of::<T::Acc>() != 4 || !form {
            return None;
        }
        let [n, _, d, h, w] = c.grad.sizes;
        let isa = prim::isa();
        let tiles = [n, d, h.div_ceil(out), w.div_ceil(out)];
        let this = WinogradGrad { c, isa, ker: T::Mode::kernels(isa), tiles, size, out };
        this.gains().then_some(this)
    }

    /// Multiply-adds of both ways, transforms counted in multiply-adds.
    fn gains(&self) -> bool {
        let (c, k) = (self.n_in() as f64, self.n_out() as f64);
        let n_tiles = self.tiles.iter().product::<usize>() as f64;
        let [n, _, d, h, w] = self.c.grad.sizes.map(|n| n as f64);
        let sum = (self.size * self.size) as f64 * n * d * h * w * c * k;
        let transforms = (n_tiles * 24.0 * (c + k) + 24.0 * c * k) * self.ker.lanes as f64;
        c >= 16.0 && k >= 16.0 && n_tiles * POINTS as f64 * c * k + transforms < worth::<T>(0.75) * sum
    }

    fn n_in(&self) -> usize {
        self.c.weight.sizes[1]
    }
    fn n_out(&self) -> usize {
        self.c.weight.sizes[0] / self.c.window.groups
    }

    /// # Safety
    /// As `WeightGrad::run`.
    pub unsafe fn run(&self) {
        let (ker, size) = (self.ker, size_of::<T::Acc>());
        let ins = Panels { image: &self.c.src, n: self.n_in(), width: ker.nr, lanes: ker.lanes };
        let outs = Panels { image: &self.c.grad, n: self.n_out(), width: OUTS, lanes: ker.lanes };
        let blocks = Blocks::new(self.tiles, BLOCK_TILES);
        let per_block = (ins.numbers(blocks.largest()) + outs.numbers(blocks.largest())) * size;
        let n_runs = blocks.len().div_ceil((RUN_BYTES / per_block).max(1)).min(blocks.len());
        let runs: Vec<Range<usize>> =
            (0..n_runs).map(|i| i * blocks.len() / n_runs..(i + 1) * blocks.len() / n_runs).collect();
        let most = runs.iter().map(|r| self.firsts(&blocks, r)[r.len()]).max().unwrap_or(0);
        let (n_tasks, n_sums) = (ins.len() * outs.len(), POINTS * OUTS * ker.nr);
        let kept = if runs.len() > 1 { n_tasks * n_sums } else { 0 };
        let n_data = ins.numbers(most);
        let n = n_data + outs.numbers(most) + kept;
        with_scratch(Slot::B, n * size + SPARE, |room| {
            let room = Shared::<T::Acc>::new(room);
            let (v, u) = (room.at(0), room.at(n_data as isize));
            let (v, u) = (Shared::<T::Acc>::new(v.cast()), Shared::<T::Acc>::new(u.cast()));
            let kept = Shared::<T::Acc>::new(room.at((n - kept) as isize).cast());
            for g in 0..self.c.window.groups {
                for (i, run) in runs.iter().enumerate() {
                    let firsts = self.firsts(&blocks, run);
                    let n_tiles = firsts[run.len()];
                    let to_points = |b: usize| {
                        let tiles = blocks.get(run.start + b);
                        // SAFETY: blocks have their own rows.
                        unsafe { self.to_points(g, &tiles, (&ins, v), (&outs, u), (firsts[b], n_tiles)) }
                    };
                    let (first, last) = (i == 0, i + 1 == runs.len());
                    let sum = |task: usize| {
                        let (p, q) = (task / ins.len(), task % ins.len());
                        let extra = OUTS * self.size * self.size * ker.nr + ker.nr + tile_len(ker.nr);
                        with_scratch(Slot::A, (n_sums + extra) * size + SPARE, |room| {
                            let own: *mut T::Acc = room.cast();
                            // SAFETY: a task has its own channels; the parts lie in the scratch one after the other.
                            unsafe {
                                let sums = if runs.len() > 1 { kept.at((task * n_sums) as isize) } else { own };
                                self.sum((&ins, v, q), (&outs, u, p), n_tiles, sums, !first);
                                if last {
                                    let tile = own.add(n_sums);
                                    self.finish(g, (&ins, q), (&outs, p), sums, tile.add(tile_len(ker.nr)), tile);
                                }
                            }
                        })
                    };
                    Pool.run(run.len(), &to_points);
                    Pool.run(n_tasks, &sum);
                }
            }
        })
    }

    /// The first tile of each block of a run, and behind the last one their number.
    fn firsts(&self, blocks: &Blocks, run: &Range<usize>) -> Vec<usize> {
        let mut firsts = vec![0];
        run.clone().enumerate().for_each(|(i, b)| firsts.push(firsts[i] + blocks.get(b).n_positions()));
        firsts
    }

    /// A block's tiles of x and of the gradient at the points, from tile `first` of `n_tiles` on.
    unsafe fn to_points(
        &self,
        g: usize,
        tiles: &Block,
        (ins, v): (&Panels<'_>, Shared<T::Acc>),
        (outs, u): (&Panels<'_>, Shared<T::Acc>),
        (first, n_tiles): (usize, usize),
    ) {
        let size = size_of::<T::Acc>();
        let [n, d, h, w] = tiles.len;
        let from = tiles.start.map(|s| s as isize);
        let at: Three = [from[1], from[2] * self.out as isize, from[3] * self.out as isize];
        let padding = self.c.window.padding;
        for (panels, dst, border) in [(ins, v, true), (outs, u, false)] {
            let extra = if border { self.size - 1 } else { 0 };
            let region = Region::new([n, d, h * self.out + extra, w * self.out + extra], panels.n, self.ker.lanes, 1);
            let start = if border { std::array::from_fn(|i| at[i] - padding[i]) } else { at };
            let room = region.n_elements() + self.ker.nr;
            with_scratch(Slot::A, (room + tile_len(self.ker.nr)) * size + SPARE, |scratch| {
                let region_at: *mut T::Acc = scratch.cast();
                // SAFETY: the caller's images; rows of the block are its own.
                unsafe {
                    let tile = region_at.add(room);
                    let channels = g * panels.n..(g + 1) * panels.n;
                    region.fill::<T>(self.isa, panels.image, channels, tiles.start[0], start, region_at, tile);
                    tiles.each(|i, at| {
                        let pos = [at[1], at[2] * self.out, at[3] * self.out].map(|p| p as isize);
                        let src = region_at.wrapping_offset(region.offset(at[0], pos)).cast_const();
                        let step = [region.len[3] * region.ld, region.ld];
                        for panel in 0..panels.len() {
                            let channels = panels.channels(panel);
                            let row = panels.row(panel);
                            let dst = dst.at((panels.at(panel, 0, n_tiles) + (first + i) * row) as isize);
                            let (src, c, point) = (src.add(channels.start), channels.len(), n_tiles * row);
                            if border {
                                dispatch(
                                    prim::isa(),
                                    ToPoints { src, step, c, dst, point, transform: PhantomData::<Data> },
                                );
                            } else {
                                taps_to_points(self.out, (src, step), c, (dst, point));
                            }
                        }
                    });
                }
            });
        }
    }

    /// Sums [point, output, channel] over tiles, of one panel of each operand.
    unsafe fn sum(
        &self,
        (ins, v, q): (&Panels<'_>, Shared<T::Acc>, usize),
        (outs, u, p): (&Panels<'_>, Shared<T::Acc>, usize),
        n_tiles: usize,
        sums: *mut T::Acc,
        add: bool,
    ) {
        let (ker, width, n_outs) = (self.ker, ins.row(q), outs.channels(p).len());
        for point in 0..POINTS {
            let (a, b) = (u.at(outs.at(p, point, n_tiles) as isize), v.at(ins.at(q, point, n_tiles) as isize));
            for i in 0..n_outs.div_ceil(ker.mr) {
                let rows = part(n_outs, ker.mr, i);
                let tile = Tile {
                    k: n_tiles,
                    a: a.wrapping_add(rows.start).cast_const(),
                    a_rs: 1,
                    a_cs: outs.row(p) as isize,
                    b: b.cast_const(),
                    b_rs: width as isize,
                    c: sums.wrapping_add((point * n_outs + rows.start) * width),
                    c_rs: width as isize,
                    alpha: T::Acc::ONE,
                    onto: Onto::c(add),
                    ahead: Ahead::NOTHING,
                };
                // SAFETY: panels and sums are whole in their buffers.
                unsafe { ker.table[1][rows.len() - 1][width / ker.lanes - 1](&tile) };
            }
        }
    }

    /// From the points to the weight.
    unsafe fn finish(
        &self,
        g: usize,
        (ins, q): (&Panels<'_>, usize),
        (outs, p): (&Panels<'_>, usize),
        src: *const T::Acc,
        sums: *mut T::Acc,
        tile: *mut T::Acc,
    ) {
        let (width, channels, n_taps) = (ins.row(q), outs.channels(p), self.size * self.size);
        for o in 0..channels.len() {
            let (src, dst) = (src.wrapping_add(o * width), sums.wrapping_add(o * n_taps * width));
            let step = [self.size * width, width];
            from_points(self.size, (src, channels.len() * width), width, (dst, step), (self.size, self.size));
        }
        let channels = g * outs.n + channels.start..g * outs.n + channels.end;
        // SAFETY: the caller's weight, and sums as the transform left them.
        unsafe { store::<T>(&self.c.weight, (channels, ins.channels(q)), (sums, n_taps * width, width), tile) };
    }
}
