//! Winograd's algorithm for a correlation: forward, and the gradient for the input.
//!
//! Tiles of the source and weights are brought to the 36 points, multiplied there as 36 matrices [tiles, channels] by
//! [channels, outputs], and brought back. Blocks of tiles are tasks while tiles outnumber output channels: then the weights
//! at the points are made once and a block's tiles are made where they are used, in the second cache. Else it is the other
//! way round, and panels of output channels are tasks.

use super::points::{Data, ToPoints, from_points, taps_to_points};
use super::{POINTS, outputs, part, worth};
use crate::algorithm::Correlation;
use crate::geometry::{Block, Blocks, Three};
use crate::output::{Store, tile_len};
use crate::packed_weights::{Tap, Weight};
use crate::region::{Region, SPARE};
use oneflow_kernels_gemm::micro::{Ahead, GemmFloat, Kernels, Mode, Onto, Slot, Tile, with_scratch};
use oneflow_kernels_gemm::{FILLED, PANEL, Parallel, Pool};
use oneflow_kernels_prim::rows::Shared;
use oneflow_kernels_prim::{self as prim, Acc, Isa, dispatch};
use std::marker::PhantomData;

pub struct Winograd<'a, T: GemmFloat> {
    c: &'a Correlation<'a>,
    isa: Isa,
    ker: &'static Kernels<T::Acc, T::Acc>,
    /// In the order of the positions they read: `size` rows of `size`.
    taps: Vec<Tap>,
    size: usize,
    /// Outputs of a tile along a dimension.
    out: usize,
    /// [n, d, h, w] of the output in tiles.
    tiles: [usize; 4],
    /// Output channels of a panel: whole registers.
    panel: usize,
    /// What the last panel is filled up to.
    filled: usize,
    /// The weights at the points, where they were prepared.
    prepared: Option<Shared<T::Acc>>,
}

/// Bytes of a block's tiles at the points, before and after the product: they stay in the second cache.
const BLOCK_BYTES: usize = 5 << 17;

/// Numbers before `room`, which a task's scratch is cut into.
struct Buffers {
    region: usize,
    tile: usize,
    products: usize,
    sums: usize,
}

impl<'a, T: GemmFloat> Winograd<'a, T> {
    /// If the correlation has the form and is large enough to gain.
    pub fn new(c: &'a Correlation<'a>) -> Option<Self> {
        Self::plan(c).filter(Self::gains)
    }

    /// With weights that were prepared at the points (`prepared`), if the correlation has the form.
    pub fn prepared(c: &'a Correlation<'a>, weights: Shared<T::Acc>) -> Option<Self> {
        Some(Winograd { panel: PANEL, filled: FILLED, prepared: Some(weights), ..Self::plan(c)? })
    }

    fn plan(c: &'a Correlation<'a>) -> Option<Self> {
        if size_of::<T::Acc>() != 4 || c.step != [1; 3] {
            return None;
        }
        let (taps, size) = square(c.weight.taps)?;
        let out = outputs(size)?;
        let [n, _, d, h, w] = c.dst.sizes;
        let tiles = [n, d, h.div_ceil(out), w.div_ceil(out)];
        let isa = prim::isa();
        let ker = T::Mode::kernels(isa);
        let panel = match tiles.iter().product::<usize>() >= c.weight.n {
            true => ker.nr,
            false => even_panels(c.weight.n, ker.lanes, ker.nr, Pool.threads()),
        };
        Some(Winograd { c, isa, ker, taps, size, out, tiles, panel, filled: ker.lanes, prepared: None })
    }

    /// Multiply-adds of both ways, transforms counted in multiply-adds.
    fn gains(&self) -> bool {
        let (c, k) = (self.c.weight.channels as f64, self.c.weight.n as f64);
        let n_tiles = self.tiles.iter().product::<usize>() as f64;
        let [n, _, d, h, w] = self.c.dst.sizes.map(|n| n as f64);
        // Taps beyond the image are not multiplied there.
        let (size, edge) = (self.size as f64, (self.size / 2 * self.size.div_ceil(2)) as f64);
        let inside = |n: f64| (size * n - edge).max(1.0);
        let sum = n * d * inside(h) * inside(w) * c * k;
        // Where every weight at the points is read for a few tiles alone, it is the memory that counts.
        let per_weight = if n_tiles >= k { 12.0 } else { 40.0 };
        let transforms = (n_tiles * 24.0 * (c + k) + per_weight * c * k) * self.ker.lanes as f64;
        // Channels of one register are too few beside the transforms.
        let least = 16.0f64.max(self.ker.lanes as f64 + 1.0);
        c >= least && k >= least && n_tiles * POINTS as f64 * c * k + transforms < worth::<T>(0.45) * sum
    }

    /// # Safety
    /// As `Correlation::run`.
    pub unsafe fn run(&self) {
        let n_tiles = self.tiles.iter().product::<usize>();
        // SAFETY: by the caller; groups write channels of their own.
        let group = |g: usize| unsafe {
            match n_tiles >= self.c.weight.n {
                true => self.by_tiles(g),
                false => self.by_outputs(g),
            }
        };
        // Many groups are tasks, each of which stays on its thread; few share out their parts.
        match self.c.groups >= 2 * Pool.threads() {
            true => Pool.run(self.c.groups, &group),
            false => (0..self.c.groups).for_each(group),
        }
    }

    /// Numbers from a tile to the next at a point; rows do not lie a power of two apart.
    fn row_len(&self) -> usize {
        self.c.weight.channels.next_multiple_of(self.ker.lanes) + self.ker.lanes
    }

    fn blocks(&self) -> Blocks {
        let per_tile = POINTS * (self.row_len() + self.panel) * size_of::<T::Acc>();
        Blocks::new(self.tiles, (BLOCK_BYTES / per_tile).clamp(self.ker.mr, 256))
    }

    fn buffers(&self, blocks: &Blocks) -> Buffers {
        let n = blocks.largest();
        Buffers {
            region: self.region(blocks.chunk()).n_elements() + self.ker.nr,
            tile: tile_len(self.ker.nr),
            products: n * POINTS * self.panel,
            sums: n * self.out * self.out * self.panel + self.panel,
        }
    }

    fn region(&self, [n, d, h, w]: [usize; 4]) -> Region {
        let extra = self.size - 1;
        Region::new([n, d, h * self.out + extra, w * self.out + extra], self.c.weight.channels, self.ker.lanes, 1)
    }

    /// Where a panel's weights at the points begin: all panels before it are whole.
    fn panel_at(&self, panel: usize) -> usize {
        panel * self.panel * POINTS * self.c.weight.channels
    }

    unsafe fn by_tiles(&self, g: usize) {
        let (c, size) = (self.c.weight.channels, size_of::<T::Acc>());
        let (blocks, panels) = (self.blocks(), self.c.weight.n.div_ceil(self.panel));
        let buffers = self.buffers(&blocks);
        let n_data = POINTS * blocks.largest() * self.row_len();
        // Few blocks leave threads idle: they share out the panels and make the tiles again.
        let splits = match Pool.threads() {
            1 => 1,
            n => (2 * n).div_ceil(blocks.len()).min(panels),
        };
        let room = if self.prepared.is_some() { 0 } else { self.panel_at(panels) * size + SPARE };
        with_scratch(Slot::B, room, |u| {
            let u = self.prepared.unwrap_or(Shared::<T::Acc>::new(u));
            let weights = |panel: usize| {
                with_scratch(Slot::A, self.taps.len() * c * self.panel * size + SPARE, |room| {
                    // SAFETY: panels are disjoint.
                    unsafe { self.weights(g, panel, u.at(self.panel_at(panel) as isize), room.cast()) }
                })
            };
            let task = |i: usize| {
                let tiles = blocks.get(i / splits);
                let n = n_data + buffers.tile + buffers.region.max(buffers.products + buffers.sums);
                with_scratch(Slot::A, n * size + SPARE, |room| {
                    // SAFETY: the parts lie in the scratch one after the other; blocks and panels are disjoint.
                    unsafe {
                        let v: *mut T::Acc = room.cast();
                        let room = v.add(n_data);
                        let n_tiles = tiles.n_positions();
                        self.tiles(g, &tiles, (v, n_tiles), room.add(buffers.tile), room);
                        let split = i % splits;
                        for panel in split * panels / splits..(split + 1) * panels / splits {
                            let u = u.at(self.panel_at(panel) as isize);
                            self.multiply(g, &tiles, (v, n_tiles), (u, panel), &buffers, room);
                        }
                    }
                })
            };
            if self.prepared.is_none() {
                Pool.run(panels, &weights);
            }
            Pool.run(blocks.len() * splits, &task);
        })
    }

    unsafe fn by_outputs(&self, g: usize) {
        let (c, size) = (self.c.weight.channels, size_of::<T::Acc>());
        let (blocks, panels) = (self.blocks(), self.c.weight.n.div_ceil(self.panel));
        let buffers = self.buffers(&blocks);
        let mut firsts = vec![0];
        (0..blocks.len()).for_each(|i| firsts.push(firsts[i] + blocks.get(i).n_positions()));
        let n_tiles = firsts[blocks.len()];
        let row = self.row_len();
        with_scratch(Slot::B, POINTS * n_tiles * row * size + SPARE, |v| {
            let v = Shared::<T::Acc>::new(v);
            let at = |i: usize| v.at((firsts[i] * row) as isize);
            let tiles = |i: usize| {
                with_scratch(Slot::A, (buffers.tile + buffers.region) * size + SPARE, |room| {
                    let room: *mut T::Acc = room.cast();
                    // SAFETY: blocks are disjoint.
                    unsafe { self.tiles(g, &blocks.get(i), (at(i), n_tiles), room.add(buffers.tile), room) }
                })
            };
            let n_weights = if self.prepared.is_some() { 0 } else { POINTS * c * self.panel };
            let packed = if self.prepared.is_some() { 0 } else { self.taps.len() * c * self.panel };
            let task = |panel: usize| {
                let n = n_weights + (buffers.tile + buffers.products + buffers.sums).max(packed);
                with_scratch(Slot::A, n * size + SPARE, |room| {
                    // SAFETY: the parts lie in the scratch one after the other; panels are disjoint.
                    unsafe {
                        let made: *mut T::Acc = room.cast();
                        let room = made.add(n_weights);
                        let u = match &self.prepared {
                            Some(u) => u.at(self.panel_at(panel) as isize),
                            None => {
                                self.weights(g, panel, made, room);
                                made
                            }
                        };
                        for i in 0..blocks.len() {
                            self.multiply(g, &blocks.get(i), (at(i), n_tiles), (u, panel), &buffers, room);
                        }
                    }
                })
            };
            Pool.run(blocks.len(), &tiles);
            Pool.run(panels, &task);
        })
    }

    /// A block's tiles at the points, into rows of `v`, which holds `n_rows` a point.
    unsafe fn tiles(
        &self,
        g: usize,
        tiles: &Block,
        (v, n_rows): (*mut T::Acc, usize),
        region_at: *mut T::Acc,
        tile: *mut T::Acc,
    ) {
        let (c, least) = (self.c.weight.channels, self.taps[0].shift);
        let region = self.region(tiles.len);
        let [_, d, h, w] = tiles.start.map(|s| s as isize);
        let start: Three = [d + least[0], h * self.out as isize + least[1], w * self.out as isize + least[2]];
        let row = self.row_len();
        // SAFETY: by the caller; the region has room.
        unsafe {
            region.fill::<T>(self.isa, &self.c.src, g * c..(g + 1) * c, tiles.start[0], start, region_at, tile);
            let offsets =
                |at: [usize; 4]| region.offset(at[0], [at[1], at[2] * self.out, at[3] * self.out].map(|p| p as isize));
            tiles.each(|i, at| {
                let src = region_at.wrapping_offset(offsets(at)).cast_const();
                let (step, dst) = ([region.len[3] * region.ld, region.ld], v.add(i * row));
                let data = ToPoints { src, step, c, dst, point: n_rows * row, transform: PhantomData::<Data> };
                dispatch(prim::isa(), data);
            });
        }
    }

    /// A panel's weights at the points: [point, channel, output].
    unsafe fn weights(&self, g: usize, panel: usize, u: *mut T::Acc, room: *mut T::Acc) {
        let (weight, col) = (&self.c.weight, panel * self.panel);
        let n = self.panel.min(weight.n - col);
        let from = g as isize * self.c.group_stride + col as isize * weight.n_stride;
        let ptr = weight.ptr.cast::<T>().wrapping_offset(from).cast();
        // SAFETY: by the caller.
        unsafe {
            panel_at_points::<T>(&Weight { ptr, n, taps: &self.taps, ..*weight }, self.filled, self.isa, (u, room))
        }
    }

    /// The outputs of a block of tiles in a panel of channels.
    unsafe fn multiply(
        &self,
        g: usize,
        tiles: &Block,
        (v, n_rows): (*const T::Acc, usize),
        (u, panel): (*const T::Acc, usize),
        buffers: &Buffers,
        room: *mut T::Acc,
    ) {
        let (weight, ker, row) = (&self.c.weight, self.ker, self.row_len());
        let col = panel * self.panel;
        let n = self.panel.min(weight.n - col);
        let width = n.next_multiple_of(self.filled);
        let (n_tiles, k) = (tiles.n_positions(), weight.channels);
        // SAFETY: by the caller; the parts lie in the room one after the other.
        unsafe {
            let tile = room;
            let products = tile.add(buffers.tile);
            let sums = products.add(buffers.products);
            for (point, at) in (0..POINTS).flat_map(|point| (0..width).step_by(ker.nr).map(move |at| (point, at))) {
                let parts = n_tiles.div_ceil(ker.mr);
                // The weights of points, and of panels, follow one another.
                let next = u.wrapping_add(if at + ker.nr < width {
                    point * k * width + at + ker.nr
                } else {
                    (point + 1) * k * width
                });
                for i in 0..parts {
                    let rows = part(n_tiles, ker.mr, i);
                    let t = Tile {
                        k,
                        a: v.add((point * n_rows + rows.start) * row),
                        a_rs: row as isize,
                        a_cs: 1,
                        b: u.add(point * k * width + at),
                        b_rs: width as isize,
                        c: products.add((point * n_tiles + rows.start) * width + at),
                        c_rs: width as isize,
                        alpha: T::Acc::ONE,
                        onto: Onto::Nothing,
                        ahead: Ahead::share(next, k * width * size_of::<T::Acc>(), (i, parts), k),
                    };
                    ker.table[1][rows.len() - 1][(width - at).min(ker.nr) / ker.lanes - 1](&t);
                }
            }
            let block = self.block(tiles);
            let [_, d, h, w] = block.len;
            tiles.each(|i, at| {
                let (i_h, i_w) = (at[2] * self.out, at[3] * self.out);
                let dst = sums.add((((at[0] * d + at[1]) * h + i_h) * w + i_w) * width);
                let src = products.add(i * width).cast_const();
                let inside = ((h - i_h).min(self.out), (w - i_w).min(self.out));
                from_points(self.out, (src, n_tiles * width), width, (dst, [w * width, width]), inside);
            });
            let store = Store { dst: &self.c.dst, bias: self.c.bias, activation: self.c.activation, isa: self.isa };
            let first = g * weight.n + col;
            store.block::<T>(block, first..first + n, (sums, width), tile);
        }
    }

    /// The output positions of a block of tiles.
    fn block(&self, tiles: &Block) -> Block {
        let (mut start, mut len) = (tiles.start, tiles.len);
        for d in 2..4 {
            start[d] *= self.out;
            len[d] = (len[d] * self.out).min(self.c.dst.sizes[1 + d] - start[d]);
        }
        Block { start, len }
    }
}

/// A panel of weights at the points: [point, channel, output], outputs filled up to a multiple of `filled`.
///
/// # Safety
/// The weight holds `T`, its taps a square window in order; `room` holds the packed panel, `u` that at the points.
pub unsafe fn panel_at_points<T: GemmFloat>(
    weight: &Weight<'_>,
    filled: usize,
    isa: Isa,
    (u, room): (*mut T::Acc, *mut T::Acc),
) {
    let (width, size) = (weight.n.next_multiple_of(filled), weight.taps.len().isqrt());
    // SAFETY: by the caller.
    unsafe { weight.pack_panels::<T>(isa, Shared::new(room.cast()), width, filled) };
    for c in 0..weight.channels {
        let (src, dst) = (room.wrapping_add(c * width).cast_const(), u.wrapping_add(c * width));
        let tap = weight.channels * width;
        taps_to_points(size, (src, [size * tap, tap]), width, (dst, tap));
    }
}

/// The width of panels of `n` columns that keeps `threads` busy to the end, up to `most`: the time of the thread that has most
/// to do, in registers, is the least. Each panel costs a little more than its registers.
fn even_panels(n: usize, lanes: usize, most: usize, threads: usize) -> usize {
    let time = |width: usize| {
        let panels = n.div_ceil(width);
        let last = (n - (panels - 1) * width).div_ceil(lanes);
        let (rounds, full) = (panels.div_ceil(threads), width / lanes);
        let of_last = if panels % threads == 1 % threads { last } else { full };
        5 * ((rounds - 1) * full + of_last) + rounds
    };
    let widths = (1..=most / lanes).rev().map(|registers| registers * lanes);
    widths.min_by_key(|width| time(*width)).unwrap_or(most)
}

/// The taps of a square window of neighbours, in order, and its size.
fn square(taps: &[Tap]) -> Option<(Vec<Tap>, usize)> {
    let size = taps.len().isqrt();
    let mut taps = taps.to_vec();
    taps.sort_by_key(|t| t.shift);
    let [d, h, w] = taps.first()?.shift;
    let at = |i: usize| [d, h + (i / size) as isize, w + (i % size) as isize];
    let whole = size * size == taps.len() && taps.iter().enumerate().all(|(i, t)| t.shift == at(i));
    whole.then_some((taps, size))
}
